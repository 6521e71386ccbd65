/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/spec_lists.h"

#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/settings/envrules.h"
#include "model/settings/paths.h"

/* Each entry is compared with all before it. */
enum { MAP_MAX = 4096, PORTS_MAX = 1024 };

int list_add_string(struct arena *a, struct strlist *l, const char *text, struct err *e)
{
	const char *copy = arena_strdup(a, text), **slot = copy ? ARENA_PUSH(a, l->v, l->n) : NULL;

	if (!slot)
		return err_nomem(e);
	*slot = copy;
	return 0;
}

/* Puts v in its place: over an entry of its name, unless a stronger origin wrote that one. */
static int merge(struct arena *a, struct envlist *l, const struct envvar *v, struct err *e)
{
	struct envvar *slot;

	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, v->name)) {
			if (v->by >= l->v[i].by)
				l->v[i] = *v;
			return 0;
		}
	if (l->n >= MAP_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d entries", MAP_MAX);
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = *v;
	return 0;
}

static int not_a_name(const char *name, struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL, "letters, digits and '_', and no digit in front",
			  "'%s' is not a variable name", name);
}

int list_merge_env(struct arena *a, struct envlist *l, const char *text, enum origin by,
		   struct err *e)
{
	const char *equals = strchr(text, '=');
	struct envvar v = { .by = by };

	if (!equals) {
		(void)err_set(e, ERR_USAGE, EINVAL, "env '%s' is not NAME=VALUE", text);
		return err_hint(e, "to pass the caller's own value use --env-pass %s", text);
	}
	v.name = arena_strndup(a, text, (size_t)(equals - text));
	v.value = arena_strdup(a, equals + 1);
	if (!v.name || !v.value)
		return err_nomem(e);
	if (!env_name_valid(v.name))
		return not_a_name(v.name, e);
	return merge(a, l, &v, e);
}

int list_add_env(struct arena *a, struct envlist *l, const char *text, struct err *e)
{
	return list_merge_env(a, l, text, ORIGIN_DEFAULT, e);
}

int list_add_name(struct arena *a, struct strlist *l, const char *name, struct err *e)
{
	if (!env_name_valid(name))
		return not_a_name(name, e);
	if (env_looks_secret(name)) {
		(void)err_set(e, ERR_POLICY, EPERM, "env-pass '%s': the name is that of a secret",
			      name);
		return err_hint(e,
				"--credential %s has it used and not seen; to show it to the code "
				"inside on purpose: --env %s",
				name, name);
	}
	return list_add_string(a, l, name, e);
}

int list_add_mount(struct arena *a, struct mountlist *l, const char *text, struct err *e)
{
	struct mount_spec m, *slot;

	if (str_has_control(text))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "rename it without line breaks and the like",
				  "a mount with a control character in its name");
	if (mount_parse(a, text, &m, e) < 0)
		return -e->code;
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = m;
	return 0;
}

int list_merge_label(struct arena *a, struct envlist *l, const char *text, enum origin by,
		     struct err *e)
{
	const char *equals = strchr(text, '=');
	struct envvar v = { .by = by };

	if (!equals || equals == text || str_has_control(text))
		return err_refuse(e, ERR_USAGE, EINVAL, "such as team=blue",
				  "label '%s' is not NAME=VALUE", text);
	v.name = arena_strndup(a, text, (size_t)(equals - text));
	v.value = arena_strdup(a, equals + 1);
	return v.name && v.value ? merge(a, l, &v, e) : err_nomem(e);
}

static int port_number(const char *text, size_t n, uint16_t *ret)
{
	char copy[8];
	uint64_t v;

	if (!n || n >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, n);
	copy[n] = '\0';
	if (num_count(copy, &v) < 0 || v < 1 || v > 65535)
		return -EINVAL;
	*ret = (uint16_t)v;
	return 0;
}

/* Nothing else is offered: what listens beyond the loopback would be the network's to reach. */
static int port_address(const char *text, struct err *e)
{
	return err_refuse(e, ERR_USAGE, EINVAL,
			  "leave the address out: ports are always published on 127.0.0.1 and ::1",
			  "port '%.100s' names an address", text);
}

int list_add_port(struct arena *a, struct portlist *l, const char *text, struct err *e)
{
	static const char *const protocols[] = { "tcp", "udp", "sctp" };
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/'),
		   *rest = colon ? colon + 1 : text;
	struct port_spec p = { .protocol = slash ? NULL : "tcp" }, *slot;

	if (strchr(rest, ':') || text[0] == '[')
		return port_address(text, e);
	for (size_t i = 0; slash && i < ARRAY_LEN(protocols); i++)
		if (str_eq(slash + 1, protocols[i]))
			p.protocol = protocols[i];
	if (!p.protocol || (colon && port_number(text, (size_t)(colon - text), &p.host) < 0) ||
	    port_number(rest, slash ? (size_t)(slash - rest) : strlen(rest), &p.container) < 0)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "such as 8080:80, or 8080 for that one or another that is free",
				  "port '%.100s' is not [HOST_PORT:]PORT", text);
	for (size_t i = 0; i < l->n; i++)
		if (p.host && l->v[i].host == p.host && str_eq(l->v[i].protocol, p.protocol))
			return err_set(e, ERR_USAGE, EEXIST, "two ports at %u/%s on the host",
				       p.host, p.protocol);
	if (l->n >= PORTS_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d ports", PORTS_MAX);
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = p;
	return 0;
}

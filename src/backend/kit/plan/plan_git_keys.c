/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_git_keys.c - how git inside uses the run's credentials: for a host that one
 * is for, it names a user and the placeholder as the password when it is asked for one, and goes by
 * HTTPS where an address says SSH; and OpenSSH's own files, for hosts that the run may reach by it
 * all the same. */
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/dialect/credentials.h"
#include "model/known/ssh_pins.h"
#include "model/settings/rule.h"

#define KEYS_TEXT_MAX 65536

/* A host of a credential, which git may ask. */
struct git_key {
	const char *host;
	uint16_t port;
	const char *user;
	size_t n; /* of the user's letters */
};

static bool key_at(struct arena *a, const struct credential_spec *c, size_t i, struct git_key *ret)
{
	struct git_key k = { .user = c->git };
	const char *only = c->git ? strchr(c->git, '@') : NULL;
	struct err e;

	if (!c->git || rule_parse_host_port(a, c->hosts.v[i], &k.host, &k.port, &e) < 0 ||
	    (only && !str_eq(only + 1, k.host)))
		return false;
	k.n = only ? (size_t)(only - c->git) : strlen(c->git);
	*ret = k;
	return true;
}

static bool same_key(const struct git_key *a, const struct git_key *b)
{
	return str_eq(a->host, b->host) && a->port == b->port;
}

static bool has_key(struct arena *a, const struct credential_spec *c, const struct git_key *k)
{
	struct git_key one;

	for (size_t i = 0; i < c->hosts.n; i++)
		if (key_at(a, c, i, &one) && same_key(&one, k))
			return true;
	return false;
}

/* ${A:-${B:-$C}}: of several variables the first that is set. */
static void put_variables(struct arena *a, struct buf *b, const struct credentiallist *l,
			  const struct git_key *k)
{
	size_t open = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (!has_key(a, &l->v[i], k))
			continue;
		buf_printf(b, "%s${%s", open ? ":-" : "", l->v[i].name);
		open++;
	}
	while (open--)
		buf_putc(b, '}');
}

/* The value is read when git asks: it is not in the file. A helper without one says nothing, and
 * git goes on as it would. Those of an image are not asked first. */
static void put_key(struct arena *a, struct buf *b, const struct credentiallist *l,
		    const struct git_key *k)
{
	char port[8] = "";

	if (k->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", k->port);
	buf_printf(b, "[credential \"https://%s%s\"]\n\thelper =\n", k->host, port);
	buf_puts(b, "\thelper = \"!f() { test \\\"$1\\\" = get || return 0; k=\\\"");
	put_variables(a, b, l, k);
	buf_printf(b,
		   "\\\"; test -z \\\"$k\\\" || { echo \\\"username=%.*s\\\"; echo "
		   "\\\"password=$k\\\"; }; }; f\"\n",
		   (int)k->n, k->user);
	buf_printf(b,
		   "[url \"https://%s%s/\"]\n\tinsteadOf = git@%s:\n\tinsteadOf = "
		   "ssh://git@%s/\n",
		   k->host, port, k->host, k->host);
}

static bool git_key_came(struct arena *a, const struct credentiallist *l, size_t at,
			 const struct git_key *k)
{
	for (size_t i = 0; i < at; i++)
		if (has_key(a, &l->v[i], k))
			return true;
	return false;
}

int plan_git_keys(struct box_plan *p, const struct spec *s, const char **text, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KEYS_TEXT_MAX);
	struct credentiallist *l = &p->credentials;

	if (p->network != NETWORK_PROXY || !s->egress.inspect)
		return 0;
	if (credentials_granted(p->arena, s, l, e) < 0)
		return -e->code;
	for (size_t i = 0; i < l->n; i++)
		for (size_t h = 0; h < l->v[i].hosts.n; h++) {
			struct git_key k;

			if (key_at(p->arena, &l->v[i], h, &k) && !git_key_came(p->arena, l, i, &k))
				put_key(p->arena, &b, l, &k);
		}
	if (!b.len)
		return 0;
	*text = b.failed ? NULL : arena_printf(p->arena, "%s%s", *text, buf_str(&b));
	return *text ? 0 : err_nomem(e);
}

/* Nobody may take such a tunnel for one that brig looks into. */
static void note_tunnels(struct box_plan *p, const struct ssh_pins *pins)
{
	CLEANUP(buf) struct buf names = BUF_INIT(4096);
	const char *text;

	for (size_t i = 0; i < pins->n; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", pins->v[i].host);
	text = arena_printf(p->arena,
			    "SSH to %s is a tunnel that is not inspected: no scan, no rules of "
			    "paths or repositories",
			    buf_str(&names));
	if (text)
		plan_note(p, text);
}

int box_plan_ssh(struct box_plan *p, const struct spec *s, struct plan_ssh *ret, struct err *e)
{
	struct ssh_pins pins;

	*ret = (struct plan_ssh){ 0 };
	if (ssh_pins_find(p->arena, s, &pins, e) < 0)
		return -e->code;
	if (!pins.n)
		return 0;
	note_tunnels(p, &pins);
	ret->config = ssh_pins_config(p->arena, &pins);
	ret->known = ssh_pins_known(p->arena, &pins);
	return ret->config && ret->known ? 0 : err_nomem(e);
}

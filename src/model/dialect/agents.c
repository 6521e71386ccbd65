/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/agents.c - the YAML of agents-sandbox: one image and only declared files of the
 * host.
 *
 * Strict, as that system is: an unknown key is an error. Nothing of the host is shown unless it is
 * listed; a mount at /workspace is the workspace. The host's network is not a setting at all. */
#include "model/dialect/agents.h"

#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/foreign.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

#define CPUS_MIN 10 /* thousandths: container engines take no less */
#define CPUS_MAX 4096000
#define SIZE_MIN ((uint64_t)6 << 20) /* bytes: nor less than this */
#define SIZE_MAX_BYTES ((uint64_t)64 << 40)

const char *const agents_keys[] = {
	"image",     "mounts",       "copies",     "builtin_tools", "companion_containers",
	"labels",    "envs",         "idle_ttl",   "ports",         "command",
	"cpu_limit", "memory_limit", "disk_limit", "gpus",          "cleanup_ttl",
	NULL,
};

/* Keys that people bring from elsewhere to reach the host. */
static const char *const never[] = { "network",      "networks",      "network_mode",
				     "host_network", "host_services", "extra_hosts" };

static const struct dialect_default defaults[] = {
	{ FIELD_POLICY, "workspace_write" },
	{ FIELD_BACKEND, "docker" },
	{ FIELD_NETWORK, "bridge" },
	{ FIELD_TARGET, "/workspace" },
	{ FIELD_PIDS, "1024" },
	{ FIELD_OUTPUT, "64k" },
	{ FIELD_USER, "auto" },
	{ FIELD_READ_ONLY_ROOT, "false" },
	{ FIELD_IDLE_TTL, "10m" },
};

static int set_defaults(struct spec *s, struct err *e)
{
	if (read_defaults(s, defaults, ARRAY_LEN(defaults), e) < 0)
		return -e->code;
	foreign_unlimited(s, FIELD_TIMEOUT, ORIGIN_DIALECT);
	foreign_unlimited(s, FIELD_MEMORY, ORIGIN_DIALECT);
	foreign_unlimited(s, FIELD_CPUS, ORIGIN_DIALECT);
	return 0;
}

/* Text that may be left out by writing nothing or "". */
static int optional_text(const struct source *src, const struct node *n, const char **ret,
			 struct err *e)
{
	if (read_text(src, n, ret, e) < 0)
		return -e->code;
	if (*ret && !**ret)
		*ret = NULL;
	return 0;
}

int agents_duration(const struct source *src, const struct node *n, uint64_t *ret, struct err *e)
{
	const char *text;
	uint64_t v;

	if (optional_text(src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return 0;
	if (text[0] == '-')
		return node_error(src->name, n, e, "%s: '%.40s' is below zero", n->key, text);
	if (num_duration(text, &v) < 0) {
		(void)node_error(src->name, n, e, "%s: '%.40s' is not a duration", n->key, text);
		return err_hint(e, "such as 90s, 10m or 1h30m");
	}
	/* Other readers take a bare number for nanoseconds, or refuse it. */
	if (v && text[strspn(text, "0123456789.")] == '\0') {
		(void)node_error(src->name, n, e, "%s: '%.40s' has no unit", n->key, text);
		return err_hint(e, "such as %.20ss", text);
	}
	*ret = v;
	return 0;
}

int agents_cpus(const struct source *src, const struct node *n, uint64_t *ret, struct err *e)
{
	const char *text;
	uint64_t v;

	if (optional_text(src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return 0;
	if (num_milli(text, &v) < 0 || v < CPUS_MIN || v > CPUS_MAX)
		return node_error(src->name, n, e,
				  "%s: '%.40s' is not a number of CPUs from 0.01 to 4096", n->key,
				  text);
	*ret = v;
	return 0;
}

int agents_size(const struct source *src, const struct node *n, uint64_t *ret, struct err *e)
{
	const char *text;
	uint64_t v;

	if (optional_text(src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return 0;
	if (num_size(text, &v) < 0) {
		(void)node_error(src->name, n, e, "%s: '%.40s' is not a size", n->key, text);
		return err_hint(e, "such as 512m or 4g");
	}
	if (v < SIZE_MIN || v > SIZE_MAX_BYTES)
		return node_error(src->name, n, e, "%s: '%.40s' is out of bounds (6m to 64t)",
				  n->key, text);
	*ret = v;
	return 0;
}

int agents_command(struct spec *s, const struct source *src, const struct node *n,
		   struct strlist *ret, struct err *e)
{
	if (n->kind == NODE_LIST && !n->count) {
		(void)node_error(src->name, n, e, "%s: an empty list is not a command", n->key);
		return err_hint(e, "leave the key out for the default");
	}
	return foreign_strings(s, src, n, ret, e);
}

/* --- variables and labels --- */

static bool reserved_name(const char *name)
{
	static const char *const names[] = { "AGENTS_SANDBOX_SUPPLEMENTAL_GROUPS", "HOST_UID",
					     "HOST_GID" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(name, names[i]))
			return true;
	return false;
}

/* "NAME=VALUE" of a member. */
static int pair_text(struct spec *s, const struct source *src, const struct node *n,
		     const char **ret, struct err *e)
{
	if (n->kind != NODE_SCALAR) {
		(void)node_error(src->name, n, e, "%s: expected a value, not %s", n->key,
				 node_kind_name(n->kind));
		return err_hint(e, "write \"\" for an empty one");
	}
	if (strchr(n->key, '='))
		return node_key_error(src->name, n, e, "a name with '=' in it");
	*ret = arena_printf(s->arena, "%s=%s", n->key, n->text);
	return *ret ? 0 : err_nomem(e);
}

static int want_map(const struct source *src, const struct node *n, struct err *e)
{
	if (n->kind == NODE_MAP || n->kind == NODE_NULL)
		return 0;
	return node_error(src->name, n, e, "%s: expected a map, not %s", n->key ? n->key : "entry",
			  node_kind_name(n->kind));
}

static int want_list(const struct source *src, const struct node *n, struct err *e)
{
	if (n->kind == NODE_LIST || n->kind == NODE_NULL)
		return 0;
	return node_error(src->name, n, e, "%s: expected a list, not %s", n->key,
			  node_kind_name(n->kind));
}

int agents_envs(struct spec *s, const struct source *src, const struct node *map,
		struct envlist *ret, struct err *e)
{
	const char *text = NULL;

	if (want_map(src, map, e) < 0)
		return -e->code;
	for (const struct node *n = map->first; n; n = n->next) {
		if (reserved_name(n->key)) {
			(void)node_key_error(src->name, n, e, "the sandbox sets '%s' itself",
					     n->key);
			return err_kind(e, ERR_POLICY);
		}
		if (pair_text(s, src, n, &text, e) < 0)
			return -e->code;
		if (list_merge_env(s->arena, ret, text, src->origin, e) < 0)
			return read_failed(src, n, e);
	}
	return 0;
}

static int read_envs(struct spec *s, const struct source *src, const struct node *map,
		     struct err *e)
{
	(void)spec_list_begin(s, FIELD_ENV, src->origin);
	if (agents_envs(s, src, map, &s->env, e) < 0)
		return -e->code;
	return read_where(s, src, FIELD_ENV, map, e);
}

static int read_labels(struct spec *s, const struct source *src, const struct node *map,
		       struct err *e)
{
	const char *text = NULL;

	if (want_map(src, map, e) < 0)
		return -e->code;
	for (const struct node *n = map->first; n; n = n->next)
		if (pair_text(s, src, n, &text, e) < 0 ||
		    foreign_set(s, src, FIELD_LABELS, n, text, e) < 0)
			return -e->code;
	return 0;
}

/* --- the rest --- */

static int read_port(struct spec *s, const struct source *src, const struct node *n, struct err *e)
{
	static const char *const port_keys[] = { "container_port", "host_port", "protocol", NULL };
	static const char *const protocols[] = { "tcp", "udp", "sctp", NULL };
	const struct node *inside = node_get(n, "container_port"),
			  *outside = node_get(n, "host_port"), *protocol = node_get(n, "protocol");
	const char *word = "tcp", *text;
	char port[64];
	uint64_t c, h;

	if (n->kind != NODE_MAP)
		return node_error(src->name, n, e, "ports: expected a map, not %s",
				  node_kind_name(n->kind));
	if (read_only_keys(src, n, port_keys, "ports", e) < 0)
		return -e->code;
	if (!inside || !outside)
		return node_error(src->name, n, e, "ports: '%s' is missing",
				  inside ? "host_port" : "container_port");
	if (foreign_whole(src, inside, 1, 65535, "a port", &c, e) < 0 ||
	    foreign_whole(src, outside, 1, 65535, "a port", &h, e) < 0)
		return -e->code;
	if (protocol && optional_text(src, protocol, &text, e) < 0)
		return -e->code;
	if (protocol && text && foreign_word(src, protocol, protocols, &word, e) < 0)
		return -e->code;
	(void)snprintf(port, sizeof(port), "%llu:%llu/%s", (unsigned long long)h,
		       (unsigned long long)c, word);
	return foreign_set(s, src, FIELD_PORTS, n, port, e);
}

static int read_ports(struct spec *s, const struct source *src, const struct node *list,
		      struct err *e)
{
	if (want_list(src, list, e) < 0)
		return -e->code;
	(void)spec_list_begin(s, FIELD_PORTS, src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_port(s, src, n, e) < 0)
			return -e->code;
	return 0;
}

static int read_command(struct spec *s, const struct source *src, const struct node *n,
			struct err *e)
{
	struct strlist words = { 0 };

	if (n->kind == NODE_NULL)
		return 0;
	if (agents_command(s, src, n, &words, e) < 0)
		return -e->code;
	return read_list(s, src, FIELD_COMMAND, n, e);
}

static int read_gpus(struct spec *s, const struct source *src, const struct node *n, struct err *e)
{
	const char *text;

	if (optional_text(src, n, &text, e) < 0)
		return -e->code;
	if (text && !str_eq(text, "all"))
		return node_error(src->name, n, e, "gpus: '%.40s' is neither empty nor \"all\"",
				  text);
	return text ? foreign_set(s, src, FIELD_GPUS, n, text, e) : 0;
}

/* A limit that its own check has seen; nothing written leaves it unlimited. */
static int read_limit(struct spec *s, const struct source *src, enum field_id id,
		      const struct node *n,
		      int (*check)(const struct source *, const struct node *, uint64_t *,
				   struct err *),
		      struct err *e)
{
	uint64_t v;

	if (check(src, n, &v, e) < 0)
		return -e->code;
	if (n->kind == NODE_NULL || !*n->text)
		return 0;
	return foreign_set(s, src, id, n, n->text, e);
}

static int agents_read_limits(struct spec *s, const struct source *src, const struct node *root,
			      struct err *e)
{
	const struct node *cpus = node_get(root, "cpu_limit"),
			  *memory = node_get(root, "memory_limit"),
			  *disk = node_get(root, "disk_limit"), *ttl = node_get(root, "idle_ttl"),
			  *cleanup = node_get(root, "cleanup_ttl");

	if (cpus && read_limit(s, src, FIELD_CPUS, cpus, agents_cpus, e) < 0)
		return -e->code;
	if (memory && read_limit(s, src, FIELD_MEMORY, memory, agents_size, e) < 0)
		return -e->code;
	if (disk && read_limit(s, src, FIELD_DISK, disk, agents_size, e) < 0)
		return -e->code;
	if (ttl && read_limit(s, src, FIELD_IDLE_TTL, ttl, agents_duration, e) < 0)
		return -e->code;
	return cleanup ? read_limit(s, src, FIELD_CLEANUP_TTL, cleanup, agents_duration, e) : 0;
}

static int check_keys(const struct source *src, const struct node *root, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		const struct node *n = node_get(root, never[i]);

		if (!n)
			continue;
		(void)node_key_error(src->name, n, e,
				     "'%s': the host's network and services stay closed to an "
				     "agents-sandbox; this will never be supported",
				     n->key);
		e->kind = ERR_POLICY;
		return err_hint(e, "declare what is needed under companion_containers");
	}
	return read_only_keys(src, root, agents_keys, "an agents-sandbox file", e);
}

static int read_image(struct spec *s, const struct source *src, const struct node *root,
		      struct err *e)
{
	const struct node *n = node_get(root, "image");

	if (!n || n->kind == NODE_NULL) {
		(void)node_error(src->name, n ? n : root, e, "no 'image' in this file");
		return err_hint(e, "an agents-sandbox has no default image");
	}
	if (foreign_image(src, n, e) < 0)
		return -e->code;
	return read_scalar(s, src, FIELD_IMAGE, n, e);
}

int agents_read(struct spec *s, const struct source *src, const struct node *root, struct err *e)
{
	const struct {
		const char *key;
		int (*read)(struct spec *, const struct source *, const struct node *,
			    struct err *);
	} parts[] = { { "labels", read_labels }, { "envs", read_envs },
		      { "ports", read_ports },   { "command", read_command },
		      { "gpus", read_gpus },     { "companion_containers", agents_companions } };

	if (set_defaults(s, e) < 0 || check_keys(src, root, e) < 0 ||
	    read_image(s, src, root, e) < 0 || agents_files(s, src, root, e) < 0 ||
	    agents_read_limits(s, src, root, e) < 0)
		return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const struct node *n = node_get(root, parts[i].key);

		if (n && parts[i].read(s, src, n, e) < 0)
			return -e->code;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/ironclaw.c - IronClaw's SANDBOX_* variables, from an env file or the environment.
 *
 * Both the names its page prints and those its program read are known. In a file a name that is
 * unknown, or that looks like one of ours mistyped, is an error: ignoring it could leave a sandbox
 * weaker than its owner believes. In the environment, which belongs to other programs as well, an
 * unknown one is only told, and nothing there can be the opt-in for a run on the host. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"
#include "model/dialect/foreign.h"
#include "model/known/image_name.h"
#include "model/settings/groups.h"
#include "model/settings/spec_lists.h"

#define PREFIX "SANDBOX_"
#define HOSTS_MAX 1024

struct ironclaw_reader {
	struct spec *s;
	const struct source *src;
	const struct env_line *line; /* the one being read */
	bool ambient;                /* from the environment, not from a file */
};

struct variable {
	const char *name;
	int (*read)(struct ironclaw_reader *r, const struct variable *v, const char *value,
		    struct err *e);
	enum field_id id;
	bool zero;               /* 0 has a meaning */
	const char *what, *unit; /* of whole numbers: for the error, and behind the digits */
	const char *twin;        /* another name for the same */
};

/* Puts where it was written in front of the error. */
static int fail_here(const struct ironclaw_reader *r, struct err *e)
{
	if (e->kind == ERR_USAGE)
		e->kind = ERR_CONFIG;
	if (r->line->line)
		return err_wrap(e, "%.128s:%d: %.60s", r->src->name, r->line->line, r->line->name);
	return err_wrap(e, "variable %.60s", r->line->name);
}

static int ironclaw_set(struct ironclaw_reader *r, enum field_id id, const char *text,
			struct err *e)
{
	const char *where = r->line->name;

	if (spec_set(r->s, id, text, r->src->origin, e) < 0)
		return fail_here(r, e);
	if (r->s->origin[id] != r->src->origin)
		return 0;
	if (r->line->line)
		where = arena_printf(r->s->arena, "%s:%d", r->src->name, r->line->line);
	return where ? spec_set_where(r->s, id, where, e) : err_nomem(e);
}

/* --- one function per kind of value --- */

static int parse_bool(const struct ironclaw_reader *r, const char *value, bool *ret, struct err *e)
{
	bool yes = strcasecmp(value, "true") == 0 || str_eq(value, "1");

	if (!yes && strcasecmp(value, "false") != 0 && !str_eq(value, "0")) {
		(void)err_set(e, ERR_CONFIG, EINVAL, "'%.40s' is neither true nor false", value);
		return fail_here(r, e);
	}
	*ret = yes;
	return 0;
}

/* false is a run on the host. true takes back a false that a weaker place wrote, and is otherwise
 * no wish for one backend: with policy full_access it would contradict it. */
static int read_enabled(struct ironclaw_reader *r, const struct variable *v, const char *value,
			struct err *e)
{
	bool on = false;

	if (parse_bool(r, value, &on, e) < 0)
		return -e->code;
	if (!on)
		return ironclaw_set(r, v->id, "none", e);
	return r->s->backend == BACKEND_NONE ? ironclaw_set(r, v->id, "docker", e) : 0;
}

static int read_policy(struct ironclaw_reader *r, const struct variable *v, const char *value,
		       struct err *e)
{
	/* three spellings of each, the documented one first */
	static const char *const words[] = {
		"readonly",       "read_only", "ro",          "workspace_write",
		"workspacewrite", "rw",        "full_access", "fullaccess",
		"full",           "none",      NULL
	};
	static const char *const means[] = { "readonly", "workspace_write", "full_access",
					     "full_access" };
	const char *near;

	for (size_t i = 0; words[i]; i++)
		if (strcasecmp(words[i], value) == 0)
			return ironclaw_set(r, v->id, means[i / 3], e);
	near = str_nearest(value, words);
	(void)err_set(e, ERR_CONFIG, EINVAL, "unknown policy '%.60s'", value);
	(void)err_hint(e, near ? "did you mean '%s'?" : "%s",
		       near ? near : "readonly, workspace_write or full_access");
	return fail_here(r, e);
}

static int read_image(struct ironclaw_reader *r, const struct variable *v, const char *value,
		      struct err *e)
{
	if (!image_valid(value)) {
		(void)err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not the name of an image", value);
		return fail_here(r, e);
	}
	return ironclaw_set(r, v->id, value, e);
}

static int read_switch(struct ironclaw_reader *r, const struct variable *v, const char *value,
		       struct err *e)
{
	bool on = false;

	if (parse_bool(r, value, &on, e) < 0)
		return -e->code;
	return ironclaw_set(r, v->id, on ? "true" : "false", e);
}

static int parse_whole(const struct ironclaw_reader *r, const struct variable *v, const char *value,
		       struct err *e)
{
	uint64_t n;

	if (num_count(value, &n) < 0 || (value[0] == '0' && value[1])) {
		(void)err_refuse(e, ERR_CONFIG, EINVAL, "digits alone, such as 120",
				 "'%.40s' is not a whole number of %s", value, v->what);
		return fail_here(r, e);
	}
	if (!n && !v->zero) {
		(void)err_set(e, ERR_CONFIG, ERANGE, "must be greater than 0");
		return fail_here(r, e);
	}
	return 0;
}

static int ironclaw_read_whole(struct ironclaw_reader *r, const struct variable *v,
			       const char *value, struct err *e)
{
	char text[64];

	if (parse_whole(r, v, value, e) < 0)
		return -e->code;
	(void)snprintf(text, sizeof(text), "%.40s%s", value, v->unit);
	return ironclaw_set(r, v->id, text, e);
}

/* Timers of a reaper that brig does not need: nothing outlives a run. */
static int read_idle(struct ironclaw_reader *r, const struct variable *v, const char *value,
		     struct err *e)
{
	if (parse_whole(r, v, value, e) < 0)
		return -e->code;
	return foreign_note(
		r->s, e, "%s: no effect in brig, which leaves nothing behind to collect", v->name);
}

static int read_opt_in(struct ironclaw_reader *r, const struct variable *v, const char *value,
		       struct err *e)
{
	bool on = false;

	if (parse_bool(r, value, &on, e) < 0)
		return -e->code;
	if (on && r->ambient)
		return foreign_note(r->s, e,
				    "%s in the environment does not count: it must be in a file, "
				    "or be said with --i-know-this-is-not-a-sandbox",
				    v->name);
	if (on && !r->src->trusted) {
		(void)err_set(e, ERR_POLICY, EPERM,
			      "only trusted configuration may allow a run on the host");
		return fail_here(r, e);
	}
	return ironclaw_set(r, v->id, on ? "true" : "false", e);
}

/* --- hosts --- */

static bool ironclaw_listed(const struct strlist *l, const char *pattern)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcasecmp(l->v[i], pattern) == 0)
			return true;
	return false;
}

/* "example.org" looks as if it meant everything below it. Two labels are taken for an apex. */
static int note_apex(struct ironclaw_reader *r, const char *host, const struct strlist *hosts,
		     struct err *e)
{
	char below[264];
	const char *dot = strchr(host, '.');
	const struct group *g;

	(void)snprintf(below, sizeof(below), "*.%s", host);
	if (!dot || strchr(dot + 1, '.') || ironclaw_listed(hosts, below) || group_covering(host))
		return 0;
	g = group_covering(below);
	if (g)
		return foreign_note(
			r->s, e, "%s: '%s' is that host alone; those below it are allowed by @%s",
			r->line->name, host, g->name);
	return foreign_note(r->s, e,
			    "%s: '%s' is that host alone and does not cover those below it; "
			    "'%s' would",
			    r->line->name, host, below);
}

static void lower(char *text)
{
	for (; *text; text++)
		*text = (char)(*text >= 'A' && *text <= 'Z' ? *text + ('a' - 'A') : *text);
}

static int split_hosts(struct ironclaw_reader *r, const char *value, struct strlist *hosts,
		       struct err *e)
{
	for (const char *p = value, *stop;; p = stop + 1) {
		char *host;
		size_t n;

		p += strspn(p, " \t");
		stop = strchrnul(p, ',');
		for (n = (size_t)(stop - p); n && (p[n - 1] == ' ' || p[n - 1] == '\t'); n--)
			;
		host = arena_strndup(r->s->arena, p, n);
		if (!host)
			return err_nomem(e);
		lower(host);
		if (host_check(host, e) < 0)
			return fail_here(r, e);
		if (hosts->n == HOSTS_MAX) {
			(void)err_set(e, ERR_CONFIG, E2BIG, "more than %d hosts", HOSTS_MAX);
			return fail_here(r, e);
		}
		if (!ironclaw_listed(hosts, host) &&
		    list_add_string(r->s->arena, hosts, host, e) < 0)
			return -e->code;
		if (!*stop)
			return 0;
	}
}

static int read_hosts(struct ironclaw_reader *r, const struct variable *v, const char *value,
		      struct err *e)
{
	struct strlist hosts = { 0 };

	if (!value[strspn(value, " \t")])
		return 0;
	if (split_hosts(r, value, &hosts, e) < 0)
		return -e->code;
	for (size_t i = 0; i < hosts.n; i++)
		if (ironclaw_set(r, v->id, hosts.v[i], e) < 0 ||
		    note_apex(r, hosts.v[i], &hosts, e) < 0)
			return -e->code;
	return 0;
}

static const struct variable variables[] = {
	{ PREFIX "ENABLED", read_enabled, FIELD_BACKEND },
	{ PREFIX "POLICY", read_policy, FIELD_POLICY },
	{ PREFIX "IMAGE", read_image, FIELD_IMAGE },
	{ PREFIX "AUTO_PULL", read_switch, FIELD_AUTO_PULL },
	{ PREFIX "TIMEOUT", ironclaw_read_whole, FIELD_TIMEOUT, false, "seconds", "s" },
	{ PREFIX "TIMEOUT_SECS", ironclaw_read_whole, FIELD_TIMEOUT, false, "seconds", "s",
	  PREFIX "TIMEOUT" },
	{ PREFIX "MEMORY_LIMIT_MB", ironclaw_read_whole, FIELD_MEMORY, false, "megabytes", "m" },
	{ PREFIX "CPU_SHARES", ironclaw_read_whole, FIELD_CPU_SHARES, false, "shares", "" },
	{ PREFIX "PROXY_PORT", ironclaw_read_whole, FIELD_EGRESS_PORT, true, "a port", "" },
	{ PREFIX "ALLOWLIST", read_hosts, FIELD_EGRESS_ALLOW },
	{ PREFIX "EXTRA_DOMAINS", read_hosts, FIELD_EGRESS_ALLOW },
	{ PREFIX "ALLOW_FULL_ACCESS", read_opt_in, FIELD_FULL_ACCESS_OK },
	{ PREFIX "REAPER_INTERVAL_SECS", read_idle, FIELD_COUNT, false, "seconds" },
	{ PREFIX "ORPHAN_THRESHOLD_SECS", read_idle, FIELD_COUNT, false, "seconds" },
};

static const struct dialect_default defaults[] = {
	{ FIELD_POLICY, "workspace_write" },
	{ FIELD_BACKEND, "docker" },
	{ FIELD_NETWORK, "proxy" },
	{ FIELD_TARGET, "/workspace" },
	{ FIELD_TIMEOUT, "120s" },
	{ FIELD_MEMORY, "2g" },
	{ FIELD_CPU_SHARES, "1024" },
	{ FIELD_PIDS, "256" },
	{ FIELD_OUTPUT, "64k" },
	{ FIELD_USER, "1000:1000" },
	{ FIELD_USER_NAME, "worker" },
	{ FIELD_READ_ONLY_ROOT, "true" },
	{ FIELD_IMAGE, "ironclaw-worker:latest" },
	{ FIELD_AUTO_PULL, "true" },
	{ FIELD_EGRESS_HTTPS_ONLY, "true" },
	{ FIELD_EGRESS_PORT, "0" },
};

/* May be called for a file and then for the environment: the groups are put in once. */
static int set_defaults(struct spec *s, struct err *e)
{
	if (read_defaults(s, defaults, ARRAY_LEN(defaults), e) < 0)
		return -e->code;
	if (credentials_add_known(s, e) < 0)
		return -e->code;
	if (s->origin[FIELD_EGRESS_GROUPS] != ORIGIN_DEFAULT)
		return 0;
	for (size_t i = 0; i < GROUP_COUNT; i++)
		if (read_default(s, FIELD_EGRESS_GROUPS, groups[i].name, e) < 0)
			return -e->code;
	return 0;
}

static const struct variable *ironclaw_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		if (str_eq(variables[i].name, name))
			return &variables[i];
	return NULL;
}

/* A name that was most likely meant to be one of ours; NULL for other programs' names, such as
 * PAYPAL_SANDBOX_ENABLED. */
static const char *meant(const char *name)
{
	const char *words[ARRAY_LEN(variables) + 1] = { NULL };

	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		const char *tail = strcasestr(name, variables[i].name);

		if (tail && tail > name && tail[-1] == '_')
			return NULL;
		words[i] = variables[i].name;
	}
	return str_nearest(name, words);
}

/* The same for a line that a stray '=' has cut in two: SAND=OX_POLICY=readonly. */
static const char *meant_by_line(const struct env_line *l)
{
	const char *near = meant(l->name);
	size_t n = strcspn(l->value, "=");
	char whole[64];

	if (near || !l->value[n] || n > sizeof(whole))
		return near;
	(void)snprintf(whole, sizeof(whole), "%.30s=%.*s", l->name, (int)n, l->value);
	return meant(whole);
}

static int read_unknown(struct ironclaw_reader *r, struct err *e)
{
	const char *name = r->line->name, *near = r->ambient ? NULL : meant_by_line(r->line);

	if (r->ambient)
		return str_starts(name, PREFIX)
			       ? foreign_note(r->s, e, "variable %.60s is not one that brig knows",
					      name)
			       : 0;
	if (!near && !str_starts_nocase(name, PREFIX))
		return 0;
	(void)err_set(e, ERR_CONFIG, EINVAL, "%.128s:%d: unknown variable '%.60s'", r->src->name,
		      r->line->line, name);
	return near ? err_hint(e, "did you mean '%s'?", near) : -e->code;
}

/* Two names of one setting must not disagree. */
static int check_twin(const struct ironclaw_reader *r, const struct variable *v,
		      const struct env_line *lines, size_t n, struct err *e)
{
	for (size_t i = 0; v->twin && i < n; i++)
		if (str_eq(lines[i].name, v->twin) && !str_eq(lines[i].value, r->line->value)) {
			(void)err_refuse(e, ERR_CONFIG, EINVAL,
					 "they are one setting: keep one of them",
					 "it says '%.40s' and %s says '%.40s'", r->line->value,
					 v->twin, lines[i].value);
			return fail_here(r, e);
		}
	return 0;
}

static int read_one(struct ironclaw_reader *r, const struct env_line *lines, size_t n,
		    struct err *e)
{
	const struct variable *v = ironclaw_find(r->line->name);
	const char *value = r->line->value;

	if (!v)
		return read_unknown(r, e);
	if (str_has_control(value)) {
		(void)err_set(e, ERR_CONFIG, EINVAL, "the value has a control character");
		return fail_here(r, e);
	}
	if (!*value && v->read != read_hosts) {
		if (r->ambient)
			return 0;
		(void)err_set(e, ERR_CONFIG, EINVAL, "the value is empty");
		return fail_here(r, e);
	}
	if (check_twin(r, v, lines, n, e) < 0)
		return -e->code;
	return v->read(r, v, value, e);
}

/* Variables that are there but empty count as absent in the environment. */
static bool any_known(const struct env_line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (*lines[i].value && ironclaw_find(lines[i].name))
			return true;
	return false;
}

int ironclaw_read(struct spec *s, const struct source *src, const struct env_line *lines, size_t n,
		  struct err *e)
{
	struct ironclaw_reader r = { .s = s, .src = src };

	r.ambient = src->origin == ORIGIN_ENVIRONMENT;
	if ((!r.ambient || any_known(lines, n)) && set_defaults(s, e) < 0)
		return -e->code;
	for (size_t i = 0; i < n; i++) {
		r.line = &lines[i];
		if (read_one(&r, lines, n, e) < 0)
			return -e->code;
	}
	return 0;
}

bool ironclaw_knows(const struct env_line *lines, size_t n)
{
	return any_known(lines, n);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/settings.c - a spec as arguments of the brig on the other side.
 *
 * What a setting says, and what a dialect sets, goes over as --set KEY=VALUE, or without the --set
 * to a brig that keeps a sandbox open; defaults are the other brig's own, which has the same
 * version. Values of variables are no arguments, and none of
 * them may steer that brig itself: the wrapper exports them under names that mean nothing, and
 * --env-from NAME=THAT takes them from there. */
#include <stdio.h>
#include <string.h>

#include "backend/ssh/ssh.h"
#include "base/text/str.h"
#include "model/request/code.h"

/* Of this side alone: its folder, its choice of backend, what it keeps of the output. */
static const enum field_id local[] = { FIELD_WORKDIR, FIELD_BACKEND,  FIELD_OUTPUT,
				       FIELD_ENV,     FIELD_ENV_PASS, FIELD_FULL_ACCESS_OK };

static bool goes_over(const struct spec *s, enum field_id id)
{
	const struct field *f = &fields[id];

	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		if (local[i] == id)
			return false;
	return f->key && f->honoured != ~0U && f->honoured & ON_NATIVE &&
	       s->origin[id] != ORIGIN_DEFAULT;
}

static int settings_set(struct backend_plan *p, size_t *n, const struct field *f, const char *value,
			struct err *e)
{
	const char *text = value ? arena_printf(p->arena, "%s=%s", f->key, value) : NULL;

	if (p->keeps)
		return ssh_put(p, &p->options, n, text, e);
	return ssh_put(p, &p->command, n, "--set", e) < 0 ? -e->code
							  : ssh_put(p, &p->command, n, text, e);
}

static const char *settings_number(struct backend_plan *p, const struct field *f, uint64_t v)
{
	unsigned long long n = v;

	if (f->all && v == FIELD_ALL)
		return "all";
	switch (f->type) {
	case FIELD_T_SIZE:
		return arena_printf(p->arena, "%llub", n);
	case FIELD_T_DURATION:
		return arena_printf(p->arena, "%llums", n);
	case FIELD_T_MILLI:
		return arena_printf(p->arena, "%llu.%03llu", n / 1000, n % 1000);
	default:
		return arena_printf(p->arena, "%llu", n);
	}
}

static int settings_list(struct backend_plan *p, size_t *n, const struct field *f, const void *at,
			 struct err *e)
{
	const struct strlist *l = at;
	const struct mountlist *m = at;

	if (f->type == FIELD_T_MOUNTS) {
		for (size_t i = 0; i < m->n; i++)
			if (settings_set(p, n, f,
					 arena_printf(p->arena, "%s:%s%s", m->v[i].source,
						      m->v[i].target,
						      m->v[i].writable ? ":rw" : ""),
					 e) < 0)
				return -e->code;
		return 0;
	}
	for (size_t i = 0; i < l->n; i++)
		if (settings_set(p, n, f, l->v[i], e) < 0)
			return -e->code;
	return 0;
}

static int settings_one(struct backend_plan *p, const struct spec *s, size_t *n, enum field_id id,
			struct err *e)
{
	const struct field *f = &fields[id];
	const void *at = (const char *)s + f->offset;
	const struct user_spec *u = at;

	switch (f->type) {
	case FIELD_T_BOOL:
		return settings_set(p, n, f, *(const bool *)at ? "true" : "false", e);
	case FIELD_T_WORD:
		return settings_set(p, n, f, f->words[*(const int *)at], e);
	case FIELD_T_COUNT:
	case FIELD_T_SIZE:
	case FIELD_T_DURATION:
	case FIELD_T_MILLI:
		if (!*(const uint64_t *)at && f->none)
			return settings_set(p, n, f, "none", e);
		/* 0 where that is no value: no limit, as without the setting */
		return !*(const uint64_t *)at && f->min
			       ? 0
			       : settings_set(p, n, f, settings_number(p, f, *(const uint64_t *)at),
					      e);
	case FIELD_T_STRING:
	case FIELD_T_PATH:
		return *(const char *const *)at ? settings_set(p, n, f, *(const char *const *)at, e)
						: 0;
	case FIELD_T_USER:
		return settings_set(
			p, n, f,
			u->given ? arena_printf(p->arena, "%u:%u", u->uid, u->gid) : "auto", e);
	case FIELD_T_STRINGS:
	case FIELD_T_PATHS:
	case FIELD_T_MOUNTS:
		return settings_list(p, n, f, at, e);
	default:
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "set it in the configuration of the brig there",
				  "'%s' cannot be passed on to another brig", f->key);
	}
}

static int settings_words(struct backend_plan *p, size_t *n, const char *const *v, struct err *e)
{
	for (; *v; v++)
		if (ssh_put(p, &p->command, n, *v, e) < 0)
			return -e->code;
	return 0;
}

/* NAME=VARIABLE: where the other brig finds its value. */
static const char *variable_from(struct backend_plan *p, const char **v)
{
	return arena_printf(p->arena, "%.*s=" REMOTE_VAR "%d", (int)strcspn(*v, "="), *v,
			    (int)(v - p->vars));
}

/* What goes over as frames (far/far_request.h) is no argument. */
static int settings_for_far(struct backend_plan *p, const struct spec *s, struct err *e)
{
	const char *const argv[] = { "brig", "_far", NULL };
	size_t n = 0, m = 0;

	for (int id = 0; id < FIELD_COUNT; id++)
		if (goes_over(s, (enum field_id)id) &&
		    settings_one(p, s, &m, (enum field_id)id, e) < 0)
			return -e->code;
	return settings_words(p, &n, argv, e);
}

int settings_for_brig(struct backend_plan *p, const struct spec *s, size_t *n, struct err *e)
{
	bool code = code_is_file(s);
	const char *const head[] = { "brig",    code ? "python" : "run",
				     "--quiet", "--report-fd",
				     "3",       "--backend",
				     "native",  NULL };
	const char *const tail[] = { "--", NULL, NULL };
	const char *const file[] = { "--interpreter", code ? s->command.argv[0] : NULL, "--",
				     "/dev/fd/7", NULL };

	if (s->origin[FIELD_WORKDIR] == ORIGIN_FLAG)
		return err_refuse(e, ERR_USAGE, ENOTSUP,
				  "--set ssh.remote_cwd=FOLDER: a folder of the other host",
				  "'%s' is a folder of this host", fields[FIELD_WORKDIR].key);
	if (p->keeps)
		return settings_for_far(p, s, e);
	if (settings_words(p, n, head, e) < 0)
		return -e->code;
	for (int id = 0; id < FIELD_COUNT; id++)
		if (goes_over(s, (enum field_id)id) &&
		    settings_one(p, s, n, (enum field_id)id, e) < 0)
			return -e->code;
	for (const char **v = p->vars; *v; v++)
		if (ssh_put(p, &p->command, n, "--env-from", e) < 0 ||
		    ssh_put(p, &p->command, n, variable_from(p, v), e) < 0)
			return -e->code;
	if (code && (settings_set(p, n, &fields[FIELD_CODE_PATH], s->command.code.path, e) < 0 ||
		     settings_words(p, n, file, e) < 0))
		return -e->code;
	if (!code && settings_words(p, n, tail, e) < 0)
		return -e->code;
	return settings_words(p, n, code ? s->command.argv + 2 : s->command.argv, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/config_word.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/exposed.h"
#include "base/text/str.h"
#include "model/files/settings_used.h"
#include "model/files/trust.h"
#include "model/settings/paths.h"
#include "model/settings/spec_writes.h"

/* What this run may write, and its folder, whether it may or not: the next one may. */
static int places(struct spec *s, const struct config_place *at, const char *const **ret,
		  struct err *e)
{
	const struct place here = { .cwd = at->cwd, .home = at->home };
	const char *const *writes = NULL;
	const char **v;
	size_t n = 0;

	if (spec_writes(s->arena, s, &here, &writes, e) < 0)
		return -e->code;
	while (writes[n])
		n++;
	v = arena_alloc(s->arena, (n + 2) * sizeof(*v));
	if (!v)
		return err_nomem(e);
	memcpy(v, writes, n * sizeof(*v));
	*ret = v;
	return path_resolve(s->arena, &here, s->workdir ? s->workdir : at->cwd, &v[n], e);
}

/* 1, with the reason, 0 or negative. The user's and the system's own files are judged by earlier
 * runs alone: no run that could write to their places is planned, and commands that start none are
 * given in any folder. */
static int is_exposed(struct spec *s, const struct config_place *at, const struct config_word *w,
		      enum origin by, struct err *why, struct err *e)
{
	bool own = by == ORIGIN_USER || by == ORIGIN_SYSTEM;
	const char *const *also = NULL;

	if (w->project)
		return 1;
	if (!own && places(s, at, &also, e) < 0)
		return -e->code;
	return exposed_path(w->path, also, EXPOSED_SHARED, why);
}

/* By its name, or the one behind links, as `brig allow` wants it; `real` is what to say. */
static bool is_allowed(const struct config_word *w, const char *real)
{
	return trust_has(w->path, buf_str(w->data), w->data->len) ||
	       trust_has(real, buf_str(w->data), w->data->len);
}

static const struct {
	enum field_id id;
	int value;
} on_host[] = {
	{ FIELD_BACKEND, BACKEND_NONE },
	{ FIELD_POLICY, POLICY_FULL_ACCESS },
};

static int refuse_host(const struct spec *s, enum field_id id, const char *path, struct err *e)
{
	(void)err_set(e, ERR_POLICY, EPERM,
		      "%.200s: %s: this file cannot ask for a run on the host",
		      s->where[id] ? s->where[id] : path, fields[id].key);
	return err_hint(e, "say it on the command line or in ~/.config/brig/config.yaml: --%s",
			id == FIELD_FULL_ACCESS_OK ? fields[id].flag : "backend none");
}

/* Nobody's file but the user's and the system's own may be the second opt-in of a run on the host;
 * of those that a guest may have written none may be the first either. */
static int check_host(const struct spec *s, enum origin by, bool exposed, const struct err *why,
		      const char *path, struct err *e)
{
	bool own = (by == ORIGIN_USER || by == ORIGIN_SYSTEM) && !exposed;

	if (!own && s->origin[FIELD_FULL_ACCESS_OK] == by && s->full_access_ok)
		return refuse_host(s, FIELD_FULL_ACCESS_OK, path, e);
	for (size_t i = 0; exposed && i < sizeof(on_host) / sizeof(on_host[0]); i++) {
		const struct field *f = &fields[on_host[i].id];

		if (s->origin[on_host[i].id] != by ||
		    *(const int *)((const char *)s + f->offset) != on_host[i].value)
			continue;
		(void)refuse_host(s, on_host[i].id, path, e);
		exposed_hint(e->hint, why, e);
		return -e->code;
	}
	return 0;
}

/* A file that a guest may have written, and that nobody has allowed as it is. */
static int check_stranger(const struct spec *before, struct spec *s, const struct config_word *w,
			  enum origin by, enum dialect was, const char *real, const struct err *why,
			  struct err *e)
{
	const char *used = w->named ? settings_dialect(s->arena, real) : NULL;

	s->strangers |= 1U << by;
	if (was == DIALECT_BRIG && (!used || str_eq(used, dialect_name(was))))
		return tighten_check(before, s, by, real, w->project ? NULL : why, e);
	if (was == DIALECT_BRIG)
		(void)err_set(
			e, ERR_POLICY, EPERM,
			"'%.120s' was a file of %s when it was used, and is another kind now: "
			"%.150s",
			real, used, why->what);
	else
		(void)err_set(e, ERR_POLICY, EPERM, "'%.120s' %s: %.180s", real,
			      trust_had(real) ? "has changed since it was allowed"
					      : "is not trusted",
			      why->what);
	return trust_hint("it", real, e);
}

static void config_word_remember(const struct config_word *w, const char *real, enum dialect was)
{
	struct err ignored;

	/* Where nothing can be remembered, no run is started (exposed_note). */
	if ((w->named || w->project) && !w->pipe)
		(void)settings_remember(real, dialect_name(was), &ignored);
}

int config_take_word(struct spec *s, const struct config_place *at, const struct config_word *w,
		     enum dialect named, struct source *src, enum dialect *was, struct err *e)
{
	CLEANUP(spec) struct spec *before = spec_clone(s, e); /* maps are merged in place */
	struct err why = { 0 };
	char link[PATH_MAX];
	const char *real = realpath(w->path, link) ? link : w->path; /* a pipe has none */
	int exposed = before ? is_exposed(s, at, w, src->origin, &why, e) : -1;

	if (exposed < 0)
		return -e->code;
	src->trusted = !exposed || is_allowed(w, real);
	if (config_read_text(s, buf_str(w->data), w->data->len, named, src, was, e) < 0)
		return -e->code;
	if (!exposed) /* by what it says itself? */
		exposed = is_exposed(s, at, w, src->origin, &why, e);
	if (exposed < 0)
		return -e->code;
	src->trusted = !exposed || is_allowed(w, real);
	if ((!src->trusted && check_stranger(before, s, w, src->origin, *was, real, &why, e) < 0) ||
	    check_host(s, src->origin, exposed, &why, real, e) < 0)
		return -e->code;
	config_word_remember(w, real, *was);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec_writes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/exposed.h"
#include "base/str.h"
#include "model/paths.h"

struct writes {
	struct arena *arena;
	const struct place *at; /* NULL: nothing is relative */
	const char **v;
	size_t n;
};

static int add(struct writes *w, const char *path, struct err *e)
{
	const char **slot = ARENA_PUSH(w->arena, w->v, w->n);

	if (!slot)
		return err_nomem(e);
	*slot = path;
	if (!path || !w->at)
		return 0;
	return path_resolve(w->arena, w->at, path, slot, e);
}

/* brig's own folders have one for each project or sandbox: the one that holds them all is noted. */
static int add_above(struct writes *w, const char *path, int levels, struct err *e)
{
	char *above = path ? arena_strdup(w->arena, path) : NULL;

	if (!path)
		return 0;
	if (!above)
		return err_nomem(e);
	for (char *slash; levels-- > 0 && (slash = strrchr(above, '/')) && slash != above;)
		*slash = '\0';
	return add(w, above, e);
}

/* A command on the host writes what it likes; where it begins is all that can be named. */
static bool writes_workspace(const struct spec *s)
{
	if (spec_on_host(s))
		return true;
	return s->policy != POLICY_READONLY && s->workspace_mode == WORKSPACE_DIRECT &&
	       !s->private_workspace && !s->no_workspace;
}

static int list(struct arena *a, const struct spec *s, const struct place *at, bool workspace,
		const char *const **ret, struct err *e)
{
	struct writes w = { .arena = a, .at = at };
	const char *workdir = s->workdir || !at ? s->workdir : at->cwd;

	if (workdir && workspace && add(&w, workdir, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->write.n; i++)
		if (add(&w, s->write.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (s->mounts.v[i].writable && add(&w, s->mounts.v[i].source, e) < 0)
			return -e->code;
	/* HOMES/ID/home, SANDBOXES/ID/store, SANDBOXES/ID/data/NAME */
	if (add_above(&w, s->home_folder, 2, e) < 0 || add_above(&w, s->store, 2, e) < 0 ||
	    add_above(&w, s->data_folder, 3, e) < 0 || add(&w, NULL, e) < 0)
		return -e->code;
	*ret = w.v;
	return 0;
}

int spec_writes(struct arena *a, const struct spec *s, const struct place *at,
		const char *const **ret, struct err *e)
{
	return list(a, s, at, writes_workspace(s), ret, e);
}

int spec_places(struct arena *a, const struct spec *s, const char *const **ret, struct err *e)
{
	return list(a, s, NULL, !s->private_workspace && !s->no_workspace, ret, e);
}

int spec_note_writes(const struct spec *s, bool elsewhere, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)8 << 20);
	const char *const *v;

	if (!a)
		return err_nomem(e);
	if (spec_writes(a, s, NULL, &v, e) < 0)
		return -e->code;
	for (; *v; v++)
		if (exposed_note(*v, e) < 0 && !(elsewhere && e->code == ENOENT))
			return -e->code;
	if (elsewhere)
		err_clear(e);
	return 0;
}

int spec_check_input(const struct spec *s, const char *what, const char *path, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)8 << 20);
	const char *const *also = NULL;

	if (!a)
		return err_nomem(e);
	if (spec_writes(a, s, NULL, &also, e) < 0)
		return -e->code;
	return exposed_check(what, path, also, EXPOSED_SHARED, e);
}

/* Runs beside this one replace the file all the time: its folder says who can. */
static int check_metrics(const struct spec *s, struct err *e)
{
	const char *file = s->metrics_textfile, *slash = file ? strrchr(file, '/') : NULL;
	char folder[PATH_MAX];

	if (!slash)
		return 0;
	(void)snprintf(folder, sizeof(folder), "%.*s", slash > file ? (int)(slash - file) : 1,
		       file);
	return spec_check_input(s, fields[FIELD_METRICS_TEXTFILE].key, folder, e);
}

int spec_check_inputs(const struct spec *s, struct err *e)
{
	const struct {
		enum field_id id;
		const char *path;
	} files[] = {
		{ FIELD_SSH_IDENTITY_FILE, s->ssh.identity_file },
		{ FIELD_SSH_CONFIG_FILE, s->ssh.config_file },
		{ FIELD_KUBE_CONFIG, s->kube.config },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].path &&
		    spec_check_input(s, fields[files[i].id].key, files[i].path, e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->egress.roots.n; i++)
		if (spec_check_input(s, fields[FIELD_EGRESS_ROOTS].key, s->egress.roots.v[i], e) <
		    0)
			return -e->code;
	for (size_t i = 0; i < s->audit.anchor.n; i++)
		if (s->audit.anchor.v[i][0] == '/' &&
		    spec_check_input(s, fields[FIELD_AUDIT_ANCHOR].key, s->audit.anchor.v[i], e) <
			    0)
			return -e->code;
	return check_metrics(s, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/spec_writes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/files/exposed.h"
#include "base/files/exposed_notes.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

struct writes {
	struct arena *arena;
	const struct place *at; /* NULL: nothing is relative */
	const char **v;
	size_t n;
	enum exposed_as *as; /* of each */
	size_t as_count;
};

static int spec_writes_add(struct writes *w, enum exposed_as as, const char *path, struct err *e)
{
	const char **slot = ARENA_PUSH(w->arena, w->v, w->n);
	enum exposed_as *why = ARENA_PUSH(w->arena, w->as, w->as_count);

	if (!slot || !why)
		return err_nomem(e);
	*slot = path;
	*why = as;
	if (!path || !w->at)
		return 0;
	return path_resolve(w->arena, w->at, path, slot, e);
}

/* brig's own folders have one for each project or sandbox: the one that holds them all is noted. */
static int add_above(struct writes *w, enum exposed_as as, const char *path, int levels,
		     struct err *e)
{
	char *above = path ? arena_strdup(w->arena, path) : NULL;

	if (!path)
		return 0;
	if (!above)
		return err_nomem(e);
	for (char *slash; levels-- > 0 && (slash = strrchr(above, '/')) && slash != above;)
		*slash = '\0';
	return spec_writes_add(w, as, above, e);
}

/* A command on the host writes what it likes; where it begins is all that can be named. */
static bool writes_workspace(const struct spec *s)
{
	if (spec_on_host(s))
		return true;
	return s->policy != POLICY_READONLY && s->workspace_mode == WORKSPACE_DIRECT &&
	       !s->private_workspace && !s->no_workspace;
}

static int spec_writes_list(const struct spec *s, bool workspace, struct writes *w, struct err *e)
{
	const char *workdir = s->workdir || !w->at ? s->workdir : w->at->cwd;

	if (workdir && workspace && spec_writes_add(w, EXPOSED_AS_WORKSPACE, workdir, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->write.n; i++)
		if (spec_writes_add(w, EXPOSED_AS_WRITE, s->write.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (s->mounts.v[i].writable &&
		    spec_writes_add(w, EXPOSED_AS_MOUNT, s->mounts.v[i].source, e) < 0)
			return -e->code;
	for (size_t i = 0; s->volume_folders && s->volume_folders[i]; i++) /* VOLUMES/ID/data */
		if (add_above(w, EXPOSED_AS_VOLUME, s->volume_folders[i], 2, e) < 0)
			return -e->code;
	/* HOMES/ID/home, SANDBOXES/ID/store, SANDBOXES/ID/data/NAME */
	if (add_above(w, EXPOSED_AS_HOME, s->home_folder, 2, e) < 0 ||
	    add_above(w, EXPOSED_AS_STORE, s->store, 2, e) < 0 ||
	    add_above(w, EXPOSED_AS_DATA, s->data_folder, 3, e) < 0)
		return -e->code;
	return spec_writes_add(w, EXPOSED_AS_WORKSPACE, NULL, e); /* the end */
}

int spec_writes(struct arena *a, const struct spec *s, const struct place *at,
		const char *const **ret, struct err *e)
{
	struct writes w = { .arena = a, .at = at };

	if (spec_writes_list(s, writes_workspace(s), &w, e) < 0)
		return -e->code;
	*ret = w.v;
	return 0;
}

int spec_places(struct arena *a, const struct spec *s, const char *const **ret, struct err *e)
{
	struct writes w = { .arena = a };

	if (spec_writes_list(s, !s->private_workspace && !s->no_workspace, &w, e) < 0)
		return -e->code;
	*ret = w.v;
	return 0;
}

int spec_note_writes(const struct spec *s, bool elsewhere, int *lives, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)8 << 20);
	struct writes w = { .arena = a };
	CLEANUP(fd) int held = -1;

	if (!a)
		return err_nomem(e);
	if (spec_writes_list(s, writes_workspace(s), &w, e) < 0)
		return -e->code;
	/* One that writes nothing may be handed a descriptor by another run. */
	held = exposed_hold(e);
	if (held < 0 && (w.v[0] || e->kind != ERR_UNAVAILABLE))
		return -e->code;
	err_clear(e);
	for (size_t i = 0; w.v[i]; i++)
		if (exposed_note(w.v[i], w.as[i], e) < 0 && !(elsewhere && e->code == ENOENT))
			return -e->code;
	err_clear(e);
	*lives = TAKE_FD(held);
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

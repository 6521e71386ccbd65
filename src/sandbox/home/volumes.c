/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/home/volumes.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/text/str.h"

static const struct kept_folder_kind kinds[] = {
	[VOLUME_CACHES] = { .folder = "caches",
			    .shown = "data",
			    .noun = "cache",
			    .clear = "brig cache clear --tools" },
	[VOLUME_VOLUMES] = { .folder = "volumes",
			     .in_state = true,
			     .shown = "data",
			     .noun = "volume",
			     .clear = "brig volume rm" },
};

struct volume_want {
	const struct spec *spec;
	const char *backend;
	struct volume v;
	const struct kept_folder_kind *kind;
	char id[SHA256_HEX];
};

/* What a stranger's file had a hand in is that project's alone. */
static bool is_of_project(const struct spec *s)
{
	return s->strangers && !s->private_workspace && !s->no_workspace && s->workdir;
}

static int volume_want_of(const struct spec *s, const char *backend, size_t i,
			  struct volume_want *n, struct err *e)
{
	unsigned char digest[SHA256_SIZE];
	char project[KEPT_FOLDER_PROJECT];
	struct sha256 h;

	n->spec = s;
	n->backend = backend;
	if (volume_of(s, i, &n->v, e) < 0)
		return -e->code;
	n->kind = &kinds[n->v.tool ? VOLUME_CACHES : VOLUME_VOLUMES];
	sha256_init(&h);
	kept_folder_add_text(&h, n->kind->folder);
	kept_folder_add_text(&h, n->v.name);
	kept_folder_add_trust(&h, s, backend);
	if (is_of_project(s)) {
		if (kept_folder_project(s, project, e) < 0)
			return -e->code;
		kept_folder_add_text(&h, project);
	}
	sha256_end(&h, digest);
	sha256_hex(digest, n->id);
	return 0;
}

static void about_text(const void *arg, struct buf *b)
{
	const struct volume_want *n = arg;
	struct json j;

	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "name", n->v.name);
	if (is_of_project(n->spec))
		json_kstr(&j, "project", n->spec->workdir);
	kept_folder_put_trust(&j, n->spec, n->backend);
	json_object_end(&j);
	buf_putc(b, '\n');
}

/* --- for a run --- */

struct of_same_name {
	const char *name, *id;
	char line[256];
};

static int of_same_name(void *arg, const struct kept_folder_row *row)
{
	struct of_same_name *s = arg;
	const char *name = jread_str(row->about, "name"), *policy = jread_str(row->about, "policy"),
		   *backend = jread_str(row->about, "backend");

	if (row->leftover || !name || !policy || !backend || !str_eq(name, s->name) ||
	    str_eq(row->id, s->id))
		return 0;
	(void)snprintf(s->line, sizeof(s->line),
		       "volume '%s' is new and empty: the one that is there belongs to runs of "
		       "policy %.20s, backend %.20s%s",
		       s->name, policy, backend,
		       jread_bool(row->about, "trusted") ? "" : ", of an untrusted project");
	return 1;
}

/* Who looks for data that another trust has written would find an empty folder. */
static void tell_of_others(const struct volume_want *n, volume_note_fn *note, void *note_arg)
{
	struct of_same_name s = { .name = n->v.name, .id = n->id };
	struct err unused;

	if (note && !n->v.tool && kept_folder_each(n->kind, of_same_name, &s, &unused) == 1)
		note(note_arg, s.line);
}

/* The lock, or a refusal. */
static int open_one(const struct volume_want *n, char place[PATH_MAX], struct err *e)
{
	CLEANUP(fd) int parent = kept_folder_parent(n->kind, true, e), lock = -1, shown = -1;
	char whose[VOLUME_NAME_MAX + 8];

	if (parent < 0)
		return -e->code;
	(void)snprintf(whose, sizeof(whose), "'%s'", n->v.name);
	lock = kept_folder_lock(n->kind, parent, n->id, e);
	shown = lock < 0 ? -1 : kept_folder_make(n->kind, lock, n->id, e);
	if (shown < 0 || kept_folder_note_use(n->kind, lock, about_text, n, e) < 0 ||
	    kept_folder_check_size(n->kind, shown, n->spec->volume_size, whose, "volume_size", e) <
		    0 ||
	    (n->spec->limits.disk && kept_folder_check_disk(n->kind, shown, e) < 0) ||
	    kept_folder_place(n->kind, shown, place, e) < 0)
		return -e->code;
	return TAKE_FD(lock);
}

int volumes_open(const struct spec *s, const char *backend, struct arena *a, volume_note_fn *note,
		 void *note_arg, struct volumes *ret, const char *const **folders, struct err *e)
{
	size_t n = volumes_of(s);
	const char **all = arena_alloc(a, (n + 1) * sizeof(*all));
	struct volumes v = { .n = 0 };
	char place[PATH_MAX];

	if (!all)
		return err_nomem(e);
	for (; v.n < n; v.n++) {
		struct volume_want one;
		bool new;

		if (volume_want_of(s, backend, v.n, &one, e) < 0)
			break;
		new = kept_folder_find(one.kind, one.id, place) < 0;
		v.locks[v.n] = open_one(&one, place, e);
		if (v.locks[v.n] < 0)
			break;
		all[v.n] = arena_strdup(a, place);
		if (new)
			tell_of_others(&one, note, note_arg);
	}
	if (v.n < n) {
		volumes_done(&v);
		return -e->code;
	}
	*ret = v;
	*folders = all;
	return 0;
}

void volumes_done(struct volumes *v)
{
	while (v->n)
		(void)fd_close(v->locks[--v->n]);
}

int volumes_find(const struct spec *s, const char *backend, struct arena *a,
		 const char *const **folders, bool *missing, struct err *e)
{
	size_t n = volumes_of(s);
	const char **all = arena_alloc(a, (n + 1) * sizeof(*all));
	char place[PATH_MAX];
	struct volume_want one;

	if (!all)
		return err_nomem(e);
	*missing = false;
	for (size_t i = 0; i < n; i++) {
		if (volume_want_of(s, backend, i, &one, e) < 0)
			return -e->code;
		if (kept_folder_find(one.kind, one.id, place) < 0)
			*missing = true;
		else if (!(all[i] = arena_strdup(a, place)))
			return err_nomem(e);
	}
	*folders = all;
	return 0;
}

/* --- all of them --- */

struct volume_rows {
	int (*each)(void *arg, const struct volume_row *row);
	void *arg;
};

static int volume_row(void *arg, const struct kept_folder_row *row)
{
	const struct volume_rows *rows = arg;
	const struct volume_row v = { .id = row->id,
				      .name = jread_str(row->about, "name"),
				      .backend = jread_str(row->about, "backend"),
				      .policy = jread_str(row->about, "policy"),
				      .image = jread_str(row->about, "image"),
				      .project = jread_str(row->about, "project"),
				      .trusted = jread_bool(row->about, "trusted"),
				      .leftover = row->leftover,
				      .used = row->used,
				      .more = row->more,
				      .bytes = row->bytes,
				      .last = row->last };

	return rows->each(rows->arg, &v);
}

int volumes_each(enum volume_kind kind, int (*each)(void *arg, const struct volume_row *row),
		 void *arg, struct err *e)
{
	struct volume_rows rows = { each, arg };

	return kept_folder_each(&kinds[kind], volume_row, &rows, e);
}

int volumes_clear(enum volume_kind kind, const char *id, struct err *e)
{
	return kept_folder_clear(&kinds[kind], id, e);
}

int volumes_tidy(enum volume_kind kind, size_t *left, struct err *e)
{
	return kept_folder_tidy(&kinds[kind], left, e);
}

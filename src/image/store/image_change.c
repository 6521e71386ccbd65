/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/image_change.c - images get names and lose them; what nobody has goes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/bytes/random.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "image/store/image_store.h"

enum { IDS_MOST = 4096, LAYERS_MOST = 65536 };

static int put_name(const struct image_store *s, const char *name, const char *id, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(2048);
	char file[SHA256_HEX];
	struct json j;
	int r;

	sha256_of(name, strlen(name), file);
	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "name", name);
	json_kstr(&j, "id", id);
	json_object_end(&j);
	r = draft_write(s->names, file, &b, 0600, true);
	return r < 0 ? err_errno(e, r, "cannot write the name of an image") : 0;
}

int image_add(const struct image_store *s, const struct image_record *r, const char *name,
	      struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(IMAGE_RECORD_MAX);
	const char *id = r->root.id + 7;
	struct stat st;
	int w;

	image_record_write(r, &b);
	if (b.failed)
		return err_set(e, ERR_POLICY, EFBIG,
			       "the image is refused: its configuration is too long");
	/* One that is there is the same, and somebody may hold it. */
	if (fstatat(s->records, id, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		w = draft_write(s->records, id, &b, 0600, true);
		if (w < 0)
			return err_errno(e, w, "cannot write the record of an image");
	}
	return *name ? put_name(s, name, r->root.id, e) : 0;
}

/* ---- what goes ---- */

/* Ids and layers by their digits. */
struct digits {
	char (*v)[SHA256_HEX];
	size_t n, most;
};

static int digits_add(struct digits *d, const char *one)
{
	if (d->n == d->most) {
		size_t more = d->most ? 2 * d->most : 64;
		void *v = realloc(d->v, more * sizeof(*d->v));

		if (!v)
			return -ENOMEM;
		d->v = v;
		d->most = more;
	}
	(void)snprintf(d->v[d->n++], SHA256_HEX, "%.64s", one);
	return 0;
}

static bool digits_have(const struct digits *d, const char *one)
{
	for (size_t i = 0; i < d->n; i++)
		if (str_eq(d->v[i], one))
			return true;
	return false;
}

struct taking {
	struct image_store s;
	const char *id;   /* of the names that go; NULL: none do */
	const char *name; /* that alone; NULL: all of the id */
	bool all;
	struct digits named, layers; /* ids that still have a name; layers that still are used */
	struct digits names;         /* files of those that go */
	uint64_t freed;
	unsigned images;
	bool busy;
};

static int look_at_name(void *arg, const struct image_row *row)
{
	struct taking *t = arg;
	char file[SHA256_HEX];
	bool goes = t->all ? !row->used
			   : t->id && str_eq(row->record->root.id + 7, t->id) &&
				     (!t->name || str_eq(t->name, row->name));

	if (!row->name[0])
		return 0;
	sha256_of(row->name, strlen(row->name), file);
	return digits_add(goes ? &t->names : &t->named, goes ? file : row->record->root.id + 7);
}

static int look_at_layers(void *arg, const struct image_row *row)
{
	struct taking *t = arg;
	int r = 0;

	for (size_t i = 0; r == 0 && i < row->record->root.layer_count; i++)
		if (!digits_have(&t->layers, row->record->root.layers[i]))
			r = digits_add(&t->layers, row->record->root.layers[i]);
	return r;
}

/* By another name first: what is half removed is nobody's. */
static void remove_folder(struct taking *t, const char *name)
{
	char gone[64], hex[33];
	struct err unused;
	uint64_t bytes = 0;
	CLEANUP(fd)
	int fd = openat(t->s.layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && tree_size(fd, (uint64_t)1 << 42, &bytes) == 0)
		t->freed += bytes;
	if (str_starts(name, IMAGE_GONE)) {
		(void)tree_remove(t->s.layers, name);
		return;
	}
	if (random_hex(hex, sizeof(hex), &unused) < 0)
		return;
	(void)snprintf(gone, sizeof(gone), IMAGE_GONE "%s", hex);
	if (renameat(t->s.layers, name, t->s.layers, gone) == 0)
		(void)tree_remove(t->s.layers, gone);
}

static int remove_records(struct taking *t, struct err *e)
{
	struct digits all = { 0 };
	const struct fd_entry *en;
	struct folder d;
	int r = 0;

	folder_begin(&d, t->s.records);
	while (r == 0 && all.n < IDS_MOST && (en = folder_next(&d)))
		if (strlen(en->name) == 64 && !digits_have(&t->named, en->name))
			r = digits_add(&all, en->name);
	for (size_t i = 0; i < all.n; i++) {
		CLEANUP(fd) int fd = openat(t->s.records, all.v[i], O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
			t->busy = true; /* without a name, until its last run has ended */
		else if (fd >= 0 && unlinkat(t->s.records, all.v[i], 0) == 0)
			t->images++;
	}
	free(all.v);
	return r < 0 ? err_nomem(e) : 0;
}

static int remove_layers(struct taking *t, struct err *e)
{
	struct digits all = { 0 };
	const struct fd_entry *en;
	struct folder d;
	int r = image_list(look_at_layers, t, e);

	if (r < 0 || lseek(t->s.layers, 0, SEEK_SET) < 0)
		return r < 0 ? r : err_sys(e, "cannot look at layers");
	folder_begin(&d, t->s.layers);
	while (r == 0 && all.n < LAYERS_MOST && (en = folder_next(&d)))
		if (!digits_have(&t->layers, en->name) && strlen(en->name) <= 64)
			r = digits_add(&all, en->name);
	for (size_t i = 0; i < all.n; i++)
		remove_folder(t, all.v[i]);
	free(all.v);
	return r < 0 ? err_nomem(e) : 0;
}

/* Names first, then images without one, then layers without an image: ended in the middle it leaves
 * what the next time takes away. */
static int take_away(struct taking *t, struct err *e)
{
	int r = image_list(look_at_name, t, e);

	if (r < 0)
		return e->code ? r : err_nomem(e);
	for (size_t i = 0; i < t->names.n; i++)
		if (unlinkat(t->s.names, t->names.v[i], 0) < 0 && errno != ENOENT)
			return err_sys(e, "cannot take a name away");
	if (remove_records(t, e) < 0 || remove_layers(t, e) < 0)
		return -e->code;
	return 0;
}

static void taking_done(struct taking *t)
{
	free(t->named.v);
	free(t->layers.v);
	free(t->names.v);
	image_store_done(&t->s);
}

/* Is it the name that was meant, and not its id? */
static bool meant_name(const struct image_store *s, const char *ref, char full[IMAGE_NAME_MAX])
{
	char file[SHA256_HEX];
	struct err unused;
	struct stat st;

	if (image_name(ref, full, &unused) < 0)
		return false;
	sha256_of(full, strlen(full), file);
	return fstatat(s->names, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int image_remove(const char *ref, uint64_t *freed, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	struct taking t = { .s = IMAGE_STORE_NONE };
	struct image_held h = IMAGE_HELD_NONE;
	char full[IMAGE_NAME_MAX];
	int r;

	if (!a)
		return err_nomem(e);
	r = image_hold(ref, a, &h, e);
	if (r < 0)
		return r;
	/* Alone for a moment: then no run has it. A run that begins now finds no name. */
	r = flock(h.lock, LOCK_EX | LOCK_NB) < 0
		    ? err_refuse(e, ERR_UNAVAILABLE, EBUSY, "wait until it has ended, or end it",
				 "a run uses image '%.100s'", ref)
		    : 0;
	t.id = h.record.root.id + 7;
	image_let_go(&h);
	if (r == 0)
		r = image_store_open(IMAGE_TAKES_AWAY, &t.s, e);
	if (r == 0 && meant_name(&t.s, ref, full))
		t.name = full;
	if (r == 0)
		r = take_away(&t, e);
	*freed = t.freed;
	taking_done(&t);
	return r;
}

int image_prune(bool all, uint64_t *freed, unsigned *images, struct err *e)
{
	struct taking t = { .s = IMAGE_STORE_NONE, .all = all };
	int r = image_store_open(IMAGE_TAKES_AWAY, &t.s, e);

	*freed = 0;
	*images = 0;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = take_away(&t, e);
	*freed = t.freed;
	*images = t.images;
	taking_done(&t);
	return r;
}

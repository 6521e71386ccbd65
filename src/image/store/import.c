/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/import.c - see import.h.
 *
 *   manifest -> configuration -> layers, the lowest first -> users -> record -> name
 */
#include "image/store/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "image/store/add_layer.h"
#include "image/store/archive_open.h"
#include "image/store/sums.h"
#include "image/store/texts.h"
#include "image/store/users.h"

struct import {
	const struct image_store *s;
	const struct import_want *w;
	struct arena *arena;
	struct image_record record;
	const char **layers; /* of the record, with those that come again */
	size_t n, left_out;
};

/* ---- one image, whose blobs are known ---- */

static int import_blob_text(int fd, const struct oci_blob *b, size_t most, struct buf *out,
			    struct err *e)
{
	char hex[SHA256_HEX];
	int r = buf_read_file(out, fd);

	if (r < 0)
		return err_set(e, ERR_POLICY, -r,
			       "a part of the image cannot be read, or is "
			       "larger than %zu bytes",
			       most);
	sha256_of(buf_str(out), out->len, hex);
	if (out->len != b->size || !str_eq(hex, b->digest + strlen("sha256:")))
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the image is refused: the bytes of %.80s are others", b->digest);
	return 0;
}

static int import_platform(const struct image_record *r, struct err *e)
{
	if (oci_fits(r->os, r->architecture, r->variant))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOEXEC, "is there one for this machine?",
			  "the image is for %.30s/%.30s, which this machine does not run", r->os,
			  r->architecture);
}

static int import_layer(struct import *x, int blob, const struct layer_want_sums *w, size_t i,
			struct err *e)
{
	struct unpack_tally t = { 0 };
	char hex[SHA256_HEX];

	if (x->w->progress)
		x->w->progress(x->w->arg, i + 1, x->record.diff_count, w->size);
	if (layer_add(x->s, blob, w, hex, &t, e) < 0)
		return err_wrap(e, "layer %zu", i + 1);
	x->record.dropped += t.dropped;
	x->left_out += t.left_out;
	x->layers[i] = arena_strdup(x->arena, hex);
	return x->layers[i] ? 0 : err_nomem(e);
}

/* One that comes twice counts where it is higher: an overlay takes no folder twice, and what it has
 * is seen from there anyway. */
static int import_stack(struct import *x, struct err *e)
{
	const char **all = arena_alloc(x->arena, (x->record.diff_count + 1) * sizeof(*all));
	size_t n = 0;

	if (!all)
		return err_nomem(e);
	for (size_t i = 0; i < x->record.diff_count; i++) {
		bool again = false;

		for (size_t k = i + 1; k < x->record.diff_count; k++)
			again |= str_eq(x->layers[i], x->layers[k]);
		if (!again)
			all[n++] = x->layers[i];
	}
	x->record.root.layers = all;
	x->record.root.layer_count = n;
	return 0;
}

static int import_look(struct import *x, const int *trees, struct err *e)
{
	return users_of(trees, x->record.root.layer_count, x->arena, &x->record, e);
}

/* Who its commands are stands in what its layers have. */
static int import_users(struct import *x, struct err *e)
{
	int trees[IMAGE_LAYERS_MAX], r = 0;
	size_t n = 0;
	struct stat st;

	for (; r == 0 && n < x->record.root.layer_count; n++) {
		char path[SHA256_HEX + 16];
		(void)snprintf(path, sizeof(path), "%s/" IMAGE_TREE, x->record.root.layers[n]);
		trees[n] = openat(x->s->layers, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = trees[n] < 0 ? err_sys(e, "cannot open a layer") : 0;
		(void)snprintf(path, sizeof(path), "%s/" IMAGE_NAMES, x->record.root.layers[n]);
		if (r == 0 && fstatat(x->s->layers, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = err_sys(e, "a layer of the store is damaged");
	}
	if (r == 0)
		r = import_look(x, trees, e);
	for (size_t i = 0; i < n; i++)
		(void)fd_close(trees[i]);
	return r;
}

static int import_finish(struct import *x, const char *id, const char *manifest, const char *name,
			 struct err *e)
{
	x->record.root.id = id;
	x->record.manifest = manifest;
	x->record.imported = (uint64_t)time(NULL);
	if (import_stack(x, e) < 0 || import_users(x, e) < 0 ||
	    image_add(x->s, &x->record, name, e) < 0)
		return -e->code;
	return x->w->added ? x->w->added(x->w->arg, name, &x->record, x->left_out) : 0;
}

/* The name that was asked for, or else the archive's where it is one. */
static int import_named(const struct import_want *w, const char *said, char out[IMAGE_NAME_MAX],
			struct err *e)
{
	struct err unused;

	out[0] = '\0';
	if (w->name)
		return image_name(w->name, out, e);
	if (*said && image_name(said, out, &unused) < 0)
		out[0] = '\0';
	return 0;
}

static int import_begin(struct import *x, const char *config, size_t n, size_t layers,
			struct err *e)
{
	if (texts_config(config, n, x->arena, &x->record, e) < 0 ||
	    import_platform(&x->record, e) < 0)
		return -e->code;
	if (x->record.diff_count != layers)
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the image is refused: its configuration speaks of %zu layers, its "
			       "manifest of %zu",
			       x->record.diff_count, layers);
	x->layers = arena_alloc(x->arena, (layers + 1) * sizeof(*x->layers));
	return x->layers ? 0 : err_nomem(e);
}

int image_import_manifest(const struct image_store *s, const char *text, size_t n,
			  const char *digest, const char *name, blob_open_fn *open, void *blobs,
			  const struct import_want *w, struct err *e)
{
	CLEANUP(buf) struct buf config = BUF_INIT(IMAGE_CONFIG_MAX + 1);
	CLEANUP(mem) struct oci_manifest *m = malloc(sizeof(*m));
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	CLEANUP(fd) int fd = -1;
	struct import x = { .s = s, .w = w, .arena = a };
	char full[IMAGE_NAME_MAX];

	if (!m || !a)
		return err_nomem(e);
	if (import_named(w, name, full, e) < 0 || texts_manifest(text, n, m, e) < 0)
		return -e->code;
	fd = open(blobs, &m->config, e);
	if (fd < 0 || import_blob_text(fd, &m->config, IMAGE_CONFIG_MAX, &config, e) < 0 ||
	    import_begin(&x, buf_str(&config), config.len, m->n, e) < 0)
		return -e->code;
	for (size_t i = 0; i < m->n; i++) {
		const struct layer_want_sums sums = { .sent = m->layers[i].digest,
						      .size = m->layers[i].size,
						      .diff = x.record.diffs[i] };
		const char *hex = m->layers[i].digest + strlen("sha256:");
		CLEANUP(fd) int blob = -1;

		x.record.bytes += m->layers[i].size;
		if (layer_is_there(s, hex)) {
			x.layers[i] = arena_strdup(a, hex);
			if (!x.layers[i])
				return err_nomem(e);
			continue;
		}
		blob = open(blobs, &m->layers[i], e);
		if (blob < 0 || import_layer(&x, blob, &sums, i, e) < 0)
			return -e->code;
	}
	return import_finish(&x, m->config.digest, digest, full, e);
}

/* ---- files ---- */

struct image_layout {
	const struct image_store *s;
	const struct import_want *w;
	int folder;
	unsigned images;
	char refused[160]; /* platforms that were passed over */
};

/* Beneath the folder, a regular file: whoever made it chose what is there. */
static int layout_open(const struct image_layout *l, const char *path, struct err *e)
{
	CLEANUP(fd)
	int fd = fd_open_nolinks(l->folder, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, FD_BENEATH);
	struct stat st;

	if (fd < 0)
		return err_errno(e, fd, "the image lacks '%.150s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_POLICY, EPERM, "'%.150s' of the image is not a file", path);
	return TAKE_FD(fd);
}

static int layout_blob(void *arg, const struct oci_blob *b, struct err *e)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "blobs/sha256/%.64s", b->digest + strlen("sha256:"));
	return layout_open(arg, path, e);
}

static int layout_text(const struct image_layout *l, const char *path, struct buf *out,
		       struct err *e)
{
	CLEANUP(fd) int fd = layout_open(l, path, e);
	int r = fd < 0 ? fd : buf_read_file(out, fd);

	if (fd >= 0 && r < 0)
		return err_errno(e, r, "cannot read '%.150s' of the image", path);
	return r;
}

static int layout_entry(struct image_layout *l, const struct oci_entry *v, const char *name,
			unsigned depth, struct err *e);

static void layout_pass_over(struct image_layout *l, const struct oci_entry *v)
{
	size_t n = strlen(l->refused);

	if (!str_eq(v->os, "unknown"))
		(void)snprintf(l->refused + n, sizeof(l->refused) - n, "%s%.20s/%.20s%s%.10s",
			       n ? ", " : "", v->os, v->architecture, v->variant[0] ? "/" : "",
			       v->variant);
}

/* Of an index that stands for one image: the one for this machine. */
static int layout_choose(struct image_layout *l, const struct oci_index *x, const char *name,
			 unsigned depth, struct err *e)
{
	const struct oci_entry *best = NULL;
	int most = 0;

	for (size_t i = 0; i < x->n; i++) {
		int fits = oci_fits(x->v[i].os, x->v[i].architecture, x->v[i].variant);

		if (fits > most)
			best = &x->v[i];
		most = fits > most ? fits : most;
		if (!fits)
			layout_pass_over(l, &x->v[i]);
	}
	return best ? layout_entry(l, best, name, depth + 1, e) : 0;
}

static int layout_entry(struct image_layout *l, const struct oci_entry *v, const char *name,
			unsigned depth, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX + 1);
	CLEANUP(fd) int fd = layout_blob(l, &v->blob, e);
	CLEANUP(mem) struct oci_index *x = NULL;

	if (fd < 0 || import_blob_text(fd, &v->blob, OCI_MANIFEST_MAX, &text, e) < 0)
		return -e->code;
	if (!oci_is_index(v->blob.type)) {
		l->images++;
		return image_import_manifest(l->s, buf_str(&text), text.len, v->blob.digest, name,
					     layout_blob, l, l->w, e);
	}
	if (depth > 2)
		return err_set(e, ERR_POLICY, ELOOP,
			       "the image is refused: an index leads to "
			       "another, and so on");
	x = malloc(sizeof(*x));
	if (!x)
		return err_nomem(e);
	return texts_index(buf_str(&text), text.len, x, e) < 0
		       ? -e->code
		       : layout_choose(l, x, name, depth, e);
}

static int import_layout(struct image_layout *l, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX + 1);
	CLEANUP(mem) struct oci_index *x = malloc(sizeof(*x));

	if (!x)
		return err_nomem(e);
	if (layout_text(l, "index.json", &text, e) < 0 ||
	    texts_index(buf_str(&text), text.len, x, e) < 0)
		return -e->code;
	if (l->w->name && x->n > 1)
		return layout_choose(l, x, "", 0, e);
	for (size_t i = 0; i < x->n; i++)
		if (!oci_fits(x->v[i].os, x->v[i].architecture, x->v[i].variant))
			layout_pass_over(l, &x->v[i]);
		else if (layout_entry(l, &x->v[i], x->v[i].name, 0, e) < 0)
			return -e->code;
	return 0;
}

/* ---- what docker saves ---- */

static int archive_layer(struct import *x, struct image_layout *l, const char *path, size_t i,
			 struct err *e)
{
	const struct layer_want_sums sums = { .size = UINT64_MAX, .diff = x->record.diffs[i] };
	CLEANUP(fd) int blob = layout_open(l, path, e);
	struct stat st;

	if (blob < 0 || fstat(blob, &st) < 0)
		return blob < 0 ? blob : err_sys(e, "cannot look at '%.150s'", path);
	x->record.bytes += (uint64_t)st.st_size;
	/* Plain, as most are, it is called like what it holds. */
	if (layer_is_there(x->s, sums.diff + strlen("sha256:"))) {
		x->layers[i] = sums.diff + strlen("sha256:");
		return 0;
	}
	return import_layer(x, blob, &sums, i, e);
}

static int archive_one(struct image_layout *l, const struct archive_image *v, struct err *e)
{
	CLEANUP(buf) struct buf config = BUF_INIT(IMAGE_CONFIG_MAX + 1);
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	struct import x = { .s = l->s, .w = l->w, .arena = a };
	char full[IMAGE_NAME_MAX], id[REF_DIGEST_MAX] = "sha256:";

	if (!a)
		return err_nomem(e);
	if (import_named(l->w, v->name, full, e) < 0 || layout_text(l, v->config, &config, e) < 0)
		return -e->code;
	sha256_of(buf_str(&config), config.len, id + strlen(id));
	/* It is called by its digest, with .json behind, or lies among blobs by that. */
	if (!strstr(v->config, id + strlen("sha256:")))
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the image is refused: the bytes of '%.150s' are others", v->config);
	if (import_begin(&x, buf_str(&config), config.len, v->n, e) < 0)
		return -e->code;
	for (size_t i = 0; i < v->n; i++)
		if (archive_layer(&x, l, v->layers[i], i, e) < 0)
			return -e->code;
	l->images++;
	return import_finish(&x, id, "", full, e);
}

static int import_archive(struct image_layout *l, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX + 1);
	CLEANUP(mem) struct archive_list *v = malloc(sizeof(*v));

	if (!v)
		return err_nomem(e);
	if (layout_text(l, "manifest.json", &text, e) < 0 ||
	    texts_archive(buf_str(&text), text.len, v, e) < 0)
		return -e->code;
	if (l->w->name && v->n > 1)
		return err_refuse(e, ERR_USAGE, E2BIG, "leave --name out",
				  "the archive has %zu images, which cannot all have one name",
				  v->n);
	for (size_t i = 0; i < v->n; i++)
		if (archive_one(l, &v->v[i], e) < 0)
			return -e->code;
	return 0;
}

/* ---- */

static bool layout_has(const struct image_layout *l, const char *name)
{
	struct stat st;

	return fstatat(l->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int import_folder(struct image_layout *l, const char *path, struct err *e)
{
	int r;

	if (layout_has(l, "oci-layout") && layout_has(l, "index.json"))
		r = import_layout(l, e);
	else if (layout_has(l, "manifest.json"))
		r = import_archive(l, e);
	else
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "docker save -o FILE IMAGE, podman save or skopeo copy make one",
				  "'%.200s' is neither an OCI layout nor what docker save writes",
				  path);
	if (r == 0 && !l->images)
		return err_refuse(e, ERR_UNAVAILABLE, ENOEXEC, "is there one for this machine?",
				  "the image is for %s, and not for this machine",
				  l->refused[0] ? l->refused : "nothing");
	return r;
}

int image_import(const char *path, const struct import_want *w, struct err *e)
{
	struct image_store s = IMAGE_STORE_NONE;
	struct image_layout l = { .s = &s, .w = w, .folder = -1 };
	char part[64] = "";
	struct stat st;
	CLEANUP(fd) int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int r;

	if (file < 0 || fstat(file, &st) < 0)
		return err_sys(e, "cannot open '%.200s'", path);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(e, ERR_USAGE, EINVAL, "'%.200s' is neither a file nor a folder",
			       path);
	r = image_store_open(IMAGE_ADDS, &s, e);
	if (r == 0 && S_ISREG(st.st_mode)) {
		l.folder = layer_part(&s, part, e);
		r = l.folder < 0 ? l.folder : archive_open(file, l.folder, path, e);
	} else if (r == 0) {
		l.folder = TAKE_FD(file);
	}
	if (r == 0)
		r = import_folder(&l, path, e);
	(void)fd_close(l.folder);
	if (part[0])
		(void)tree_remove(s.layers, part);
	image_store_done(&s);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/archive.c - see archive.h.
 *
 *   first -> manifest.json -> (pax? file)* -> zeros -> end of the compressed data -> end of the
 * file
 *
 * Anything else ends it. Names are compared with the manifest as they are written. */
#include "apps/bundle/archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes/sha256.h"
#include "base/tar/tar.h"
#include "base/text/str.h"

#define PAX_MAX 4096
#define PIECE 65536
#define TAIL_MAX (64 << 10)
#define RATIO_FREE ((uint64_t)1 << 20)
#define GZIP_WINDOW (15 + 16) /* zlib's way to say: gzip, and nothing else */

struct reader {
	const struct archive_io *io;
	z_stream z;
	bool ended; /* the compressed data */
	uint64_t in, out;
	struct bundle_manifest m;
	bool *seen; /* of each file of the manifest */
	struct tar_entry t;
	unsigned char compressed[PIECE], data[PIECE];
};

static int archive_refuse(struct err *e, const char *what, const char *which)
{
	return err_set(e, ERR_POLICY, EBADMSG, "the bundle is refused: %s%s%.150s%s", what,
		       *which ? " '" : "", which, *which ? "'" : "");
}

/* ---- bytes ---- */

static int archive_more(struct reader *r, struct err *e)
{
	ssize_t n;

	if (r->z.avail_in)
		return 0;
	n = r->io->get(r->io->arg, r->compressed, sizeof(r->compressed));
	if (n < 0)
		return err_errno(e, (int)n, "cannot read the bundle");
	if (n == 0)
		return archive_refuse(e, "it ends in the middle", "");
	r->in += (uint64_t)n;
	if (r->in > ARCHIVE_MAX)
		return err_set(e, ERR_POLICY, EFBIG, "the bundle is larger than %d MiB",
			       (int)(ARCHIVE_MAX >> 20));
	r->z.next_in = r->compressed;
	r->z.avail_in = (unsigned)n;
	return 0;
}

/* Up to n bytes, less only at the end of the compressed data. */
static ssize_t inflate_some(struct reader *r, void *p, size_t n, struct err *e)
{
	r->z.next_out = p;
	r->z.avail_out = (unsigned)n;
	while (r->z.avail_out && !r->ended) {
		unsigned before = r->z.avail_out;
		int code;

		if (archive_more(r, e) < 0)
			return -e->code;
		code = inflate(&r->z, Z_NO_FLUSH);
		if (code != Z_OK && code != Z_STREAM_END)
			return archive_refuse(e, "its compressed data is damaged", "");
		r->ended = code == Z_STREAM_END;
		r->out += before - r->z.avail_out;
		if (r->out > RATIO_FREE && r->out / ARCHIVE_RATIO_MAX > r->in)
			return err_set(e, ERR_POLICY, EFBIG,
				       "the bundle is refused: it grows to more than %d times its "
				       "size",
				       ARCHIVE_RATIO_MAX);
	}
	return (ssize_t)(n - r->z.avail_out);
}

static int exactly(struct reader *r, void *p, size_t n, struct err *e)
{
	ssize_t got = inflate_some(r, p, n, e);

	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : archive_refuse(e, "its archive ends in the middle", "");
}

static int padding(struct reader *r, uint64_t size, struct err *e)
{
	char dust[TAR_BLOCK];
	size_t n = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;

	return exactly(r, dust, n, e);
}

/* ---- entries ---- */

/* The path of the entry that follows, if it is a long one; nothing else may be said of it that
 * would change what it is. */
static int read_pax(struct reader *r, char path[TAR_NAME_MAX], struct err *e)
{
	char text[PAX_MAX];
	struct tar_entry said = { 0 };
	bool sized = false;
	uint64_t n = r->t.size;

	if (n > sizeof(text))
		return archive_refuse(e, "an entry has a long preface", "");
	if (exactly(r, text, (size_t)n, e) < 0 || padding(r, n, e) < 0)
		return -e->code;
	if (tar_parse_pax(text, (size_t)n, &said, &sized) < 0 || sized || said.target[0])
		return archive_refuse(e, "the preface of an entry says more than its path", "");
	memcpy(path, said.name, sizeof(said.name));
	return 0;
}

/* 1: the archive is at its end. */
static int next_entry(struct reader *r, struct err *e)
{
	char path[TAR_NAME_MAX] = "", block[TAR_BLOCK];

	for (bool prefaced = false;; prefaced = true) {
		if (exactly(r, block, sizeof(block), e) < 0)
			return -e->code;
		if (tar_parse(block, &r->t) < 0)
			return archive_refuse(e, "an entry of its archive is damaged", "");
		if (r->t.type != TAR_PAX || prefaced)
			break;
		if (read_pax(r, path, e) < 0)
			return -e->code;
	}
	if (r->t.type == TAR_END && !path[0])
		return 1;
	if (path[0])
		memcpy(r->t.name, path, sizeof(path));
	if (r->t.type != TAR_FILE)
		return archive_refuse(e, "an entry is no regular file:", r->t.name);
	return 0;
}

static int read_manifest(struct reader *r, struct buf *text, struct err *e)
{
	int more_of_it = next_entry(r, e);

	if (more_of_it < 0)
		return more_of_it;
	if (more_of_it || !str_eq(r->t.name, MANIFEST_NAME))
		return archive_refuse(e, "its archive does not begin with", MANIFEST_NAME);
	if (r->t.size > MANIFEST_MAX)
		return archive_refuse(e, "its manifest is too long", "");
	for (uint64_t left = r->t.size; left;) {
		size_t some = left < sizeof(r->data) ? (size_t)left : sizeof(r->data);

		if (exactly(r, r->data, some, e) < 0)
			return -e->code;
		buf_add(text, r->data, some);
		left -= some;
	}
	if (padding(r, r->t.size, e) < 0)
		return -e->code;
	if (text->failed)
		return err_nomem(e);
	if (bundle_manifest_read(buf_str(text), text->len, &r->m, e) < 0)
		return -e->code;
	r->seen = calloc(r->m.n, sizeof(*r->seen));
	return r->seen ? 0 : err_nomem(e);
}

static int archive_told(int r, const struct bundle_file *f, struct err *e)
{
	return r < 0 ? err_errno(e, r, "cannot write '%.150s' of the bundle", bundle_file_place(f))
		     : 0;
}

static int archive_pass_on(struct reader *r, const struct bundle_file *f, char hex[SHA256_HEX],
			   struct err *e)
{
	unsigned char sum[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (uint64_t left = f->size; left;) {
		size_t some = left < sizeof(r->data) ? (size_t)left : sizeof(r->data);

		if (exactly(r, r->data, some, e) < 0)
			return -e->code;
		sha256_add(&h, r->data, some);
		if (r->io->add && archive_told(r->io->add(r->io->arg, r->data, some), f, e) < 0)
			return -e->code;
		left -= some;
	}
	sha256_end(&h, sum);
	sha256_hex(sum, hex);
	return padding(r, f->size, e);
}

static int archive_read_file(struct reader *r, struct err *e)
{
	const struct bundle_file *f = bundle_manifest_find(&r->m, r->t.name);
	char hex[SHA256_HEX];
	size_t at;

	if (!f)
		return archive_refuse(e, "its manifest does not list", r->t.name);
	at = (size_t)(f - r->m.files);
	if (r->seen[at])
		return archive_refuse(e, "its archive has twice", f->path);
	r->seen[at] = true;
	if (r->t.size != f->size)
		return archive_refuse(e, "its manifest says another size of", f->path);
	if (r->io->begin && archive_told(r->io->begin(r->io->arg, bundle_file_place(f),
						      r->t.mode & 0100 ? 0755 : 0644),
					 f, e) < 0)
		return -e->code;
	if (archive_pass_on(r, f, hex, e) < 0)
		return -e->code;
	if (!str_eq(hex, f->sha256))
		return archive_refuse(e, "its manifest says another SHA-256 of", f->path);
	return r->io->end ? archive_told(r->io->end(r->io->arg), f, e) : 0;
}

/* Zeros that fill up the archive's last record, and not a byte more. */
static int read_tail(struct reader *r, struct err *e)
{
	ssize_t n;

	n = inflate_some(r, r->data, TAIL_MAX, e);
	if (n < 0)
		return (int)n;
	for (ssize_t i = 0; i < n; i++)
		if (r->data[i])
			return archive_refuse(e, "something is behind the end of its archive", "");
	if (!r->ended || r->z.avail_in || r->io->get(r->io->arg, r->data, 1) != 0)
		return archive_refuse(e, "something is behind the end of its archive", "");
	for (size_t i = 0; i < r->m.n; i++)
		if (!r->seen[i])
			return archive_refuse(e, "its archive does not have", r->m.files[i].path);
	return 0;
}

static int archive_read_all(struct reader *r, struct buf *manifest, struct err *e)
{
	int last;

	if (read_manifest(r, manifest, e) < 0)
		return -e->code;
	while ((last = next_entry(r, e)) == 0)
		if (archive_read_file(r, e) < 0)
			return -e->code;
	return last < 0 ? last : read_tail(r, e);
}

int archive_read(const struct archive_io *io, struct buf *manifest, struct err *e)
{
	CLEANUP(mem) struct reader *r = calloc(1, sizeof(*r));
	int done;

	if (!r || inflateInit2(&r->z, GZIP_WINDOW) != Z_OK)
		return err_nomem(e);
	r->io = io;
	done = archive_read_all(r, manifest, e);
	(void)inflateEnd(&r->z);
	bundle_manifest_done(&r->m);
	free(r->seen);
	return done;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_bundle_archive.c - a tar that somebody made, compressed here so that the fuzzer need
 * not learn how, and the same bytes as they are: what passes is what the manifest says, to the
 * byte. */
#include "fuzz.h"

#include <zlib.h>

#include "apps/bundle/archive.h"

struct taken {
	const uint8_t *p;
	size_t n;
	uint64_t bytes;
	size_t files;
	bool open;
};

static ssize_t get(void *arg, void *p, size_t n)
{
	struct taken *t = arg;
	size_t some = n < t->n ? n : t->n;

	memcpy(p, t->p, some);
	t->p += some;
	t->n -= some;
	return (ssize_t)some;
}

static int begin(void *arg, const char *place, mode_t mode)
{
	struct taken *t = arg;

	require(!t->open && bundle_path_ok(place) && (mode == 0644 || mode == 0755));
	t->open = true;
	t->files++;
	return 0;
}

static int add(void *arg, const void *p, size_t n)
{
	struct taken *t = arg;

	(void)p;
	require(t->open);
	t->bytes += n;
	return 0;
}

static int end(void *arg)
{
	struct taken *t = arg;

	require(t->open);
	t->open = false;
	return 0;
}

static void attempt(const uint8_t *data, size_t size)
{
	CLEANUP(buf) struct buf text = BUF_INIT(MANIFEST_MAX + 1);
	struct taken t = { .p = data, .n = size };
	const struct archive_io io = {
		.get = get, .begin = begin, .add = add, .end = end, .arg = &t
	};
	struct bundle_manifest m = { 0 };
	struct err e = { 0 };

	if (archive_read(&io, &text, &e) < 0) {
		require(e.code && e.what[0]);
		return;
	}
	require(!t.open && t.n == 0);
	require(bundle_manifest_read(buf_str(&text), text.len, &m, &e) == 0);
	require(m.n == t.files && m.bytes == t.bytes);
	bundle_manifest_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	z_stream z = { 0 };
	unsigned char *out;
	size_t room;

	attempt(data, size);
	if (size > (1 << 18) ||
	    deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return 0;
	room = deflateBound(&z, size);
	out = malloc(room);
	require(out != NULL);
	z.next_in = (unsigned char *)(uintptr_t)data;
	z.avail_in = (unsigned)size;
	z.next_out = out;
	z.avail_out = (unsigned)room;
	require(deflate(&z, Z_FINISH) == Z_STREAM_END);
	attempt(out, room - z.avail_out);
	(void)deflateEnd(&z);
	free(out);
	return 0;
}

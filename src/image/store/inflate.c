/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/inflate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/text/cleanup.h"

#define PIECE 65536
#define GZIP_WINDOW (15 + 16) /* zlib's way to say: gzip, and nothing else */
#define WINDOW_LOG_MOST 27

enum inflate_kind { INFLATE_UNKNOWN, INFLATE_PLAIN, INFLATE_GZIP, INFLATE_ZSTD };

struct inflate {
	inflate_get_fn *get;
	void *arg;
	uint64_t most, in, out;
	enum inflate_kind kind;
	bool ended;  /* of what comes in */
	bool within; /* a member or frame that has begun and not ended */
	z_stream gz;
	ZSTD_DStream *zs;
	struct sha256 sum;
	unsigned char data[PIECE];
	size_t at, have;
};

struct inflate *inflate_new(inflate_get_fn *get, void *arg, uint64_t most)
{
	struct inflate *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	z->get = get;
	z->arg = arg;
	z->most = most;
	sha256_init(&z->sum);
	return z;
}

struct inflate *inflate_free(struct inflate *z)
{
	if (z && z->kind == INFLATE_GZIP)
		(void)inflateEnd(&z->gz);
	if (z)
		(void)ZSTD_freeDStream(z->zs);
	free(z);
	return NULL;
}

/* Has some, unless there are none any more: 0 or -errno. */
static int inflate_fill(struct inflate *z)
{
	while (!z->ended && z->at == z->have) {
		ssize_t n = z->get(z->arg, z->data, sizeof(z->data));

		if (n < 0)
			return (int)n;
		z->at = 0;
		z->have = (size_t)n;
		z->in += (uint64_t)n;
		z->ended = n == 0;
	}
	return 0;
}

static int inflate_begin(struct inflate *z)
{
	static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
	int r = inflate_fill(z);

	/* Four of them tell, and they may come one by one. */
	while (r == 0 && !z->ended && z->have < sizeof(zstd)) {
		ssize_t n = z->get(z->arg, z->data + z->have, sizeof(zstd) - z->have);

		r = n < 0 ? (int)n : 0;
		z->ended = n == 0;
		z->have += n > 0 ? (size_t)n : 0;
		z->in += n > 0 ? (uint64_t)n : 0;
	}
	if (r < 0)
		return r;
	z->kind = INFLATE_PLAIN;
	if (z->have >= sizeof(gzip) && memcmp(z->data, gzip, sizeof(gzip)) == 0) {
		if (inflateInit2(&z->gz, GZIP_WINDOW) != Z_OK)
			return -ENOMEM;
		z->kind = INFLATE_GZIP;
	} else if (z->have >= sizeof(zstd) && memcmp(z->data, zstd, sizeof(zstd)) == 0) {
		z->zs = ZSTD_createDStream();
		if (!z->zs || ZSTD_isError(ZSTD_DCtx_setParameter(z->zs, ZSTD_d_windowLogMax,
								  WINDOW_LOG_MOST)))
			return -ENOMEM;
		z->kind = INFLATE_ZSTD;
	}
	return 0;
}

/* How many came out; 0: it wants more to come in. */
static ssize_t inflate_gzip(struct inflate *z, unsigned char *p, size_t n)
{
	int code;

	if (!z->within && inflateReset(&z->gz) != Z_OK)
		return -EBADMSG;
	z->within = true;
	z->gz.next_in = z->data + z->at;
	z->gz.avail_in = (unsigned)(z->have - z->at);
	z->gz.next_out = p;
	z->gz.avail_out = (unsigned)n;
	code = inflate(&z->gz, Z_NO_FLUSH);
	if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
		return -EBADMSG;
	z->within = code != Z_STREAM_END;
	z->at = z->have - z->gz.avail_in;
	return (ssize_t)(n - z->gz.avail_out);
}

static ssize_t inflate_zstd(struct inflate *z, unsigned char *p, size_t n)
{
	ZSTD_inBuffer in = { .src = z->data, .size = z->have, .pos = z->at };
	ZSTD_outBuffer out = { .dst = p, .size = n };
	size_t code = ZSTD_decompressStream(z->zs, &out, &in);

	if (ZSTD_isError(code))
		return -EBADMSG;
	z->within = code != 0;
	z->at = in.pos;
	return (ssize_t)out.pos;
}

static ssize_t inflate_plain(struct inflate *z, unsigned char *p, size_t n)
{
	size_t some = z->have - z->at < n ? z->have - z->at : n;

	memcpy(p, z->data + z->at, some);
	z->at += some;
	return (ssize_t)some;
}

/* Some, 0 at the end. */
static ssize_t inflate_some(struct inflate *z, unsigned char *p, size_t n)
{
	ssize_t got = 0;

	while (got == 0) {
		int r = inflate_fill(z);

		if (r < 0)
			return r;
		/* What came in may all be taken, and more of it not yet given. */
		if (z->at == z->have && !z->within)
			return 0;
		got = z->kind == INFLATE_GZIP   ? inflate_gzip(z, p, n)
		      : z->kind == INFLATE_ZSTD ? inflate_zstd(z, p, n)
						: inflate_plain(z, p, n);
		if (got == 0 && z->ended && z->within)
			return -EBADMSG;
	}
	return got;
}

ssize_t inflate_read(struct inflate *z, void *p, size_t n)
{
	size_t done = 0;
	int r = z->kind == INFLATE_UNKNOWN ? inflate_begin(z) : 0;

	if (r < 0)
		return r;
	while (done < n) {
		ssize_t got = inflate_some(z, (unsigned char *)p + done, n - done);

		if (got < 0)
			return got;
		if (got == 0)
			break;
		z->out += (uint64_t)got;
		done += (size_t)got;
		if (z->out > z->most || (z->out > INFLATE_FREE && z->out / INFLATE_RATIO > z->in))
			return -EFBIG;
	}
	sha256_add(&z->sum, p, done);
	return (ssize_t)done;
}

void inflate_sum(struct inflate *z, char hex[SHA256_HEX])
{
	unsigned char sum[SHA256_SIZE];

	sha256_end(&z->sum, sum);
	sha256_hex(sum, hex);
}

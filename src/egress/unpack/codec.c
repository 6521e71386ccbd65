/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unpack/codec.h"

#include <brotli/decode.h>
#include <bzlib.h>
#include <errno.h>
#include <limits.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/text/cleanup.h"

#define WINDOW_LOG 23 /* 8 MiB */
#define XZ_MEMORY ((uint64_t)10 << 20)
#define STEP ((size_t)1 << 20) /* at once: some libraries count in 32 bits */

struct codec {
	enum packed_as packing;
	struct codec_pool *pool;
	size_t counted; /* of zstd, which tells afterwards */
	bool open;
	union {
		z_stream z;
		bz_stream bz;
		lzma_stream xz;
		ZSTD_DCtx *zstd;
		BrotliDecoderState *brotli;
	};
	lzma_allocator xz_memory;
};

/* ---- memory ---- */

static bool pool_take(struct codec_pool *p, size_t n)
{
	for (struct codec_pool *i = p; i; i = i->of)
		if (n > i->most - i->used)
			return false;
	for (struct codec_pool *i = p; i; i = i->of)
		i->used += n;
	return true;
}

static void pool_give(struct codec_pool *p, size_t n)
{
	for (; p; p = p->of)
		p->used -= n;
}

/* Its size stands before a piece, and keeps what follows aligned. */
#define FRONT 16

static void *codec_alloc(void *pool, size_t n)
{
	char *p;

	if (n > SIZE_MAX - FRONT || !pool_take(pool, n + FRONT))
		return NULL;
	p = malloc(n + FRONT);
	if (!p) {
		pool_give(pool, n + FRONT);
		return NULL;
	}
	memcpy(p, &n, sizeof(n));
	return p + FRONT;
}

static void codec_release(void *pool, void *p)
{
	char *all = p ? (char *)p - FRONT : NULL;
	size_t n;

	if (!all)
		return;
	memcpy(&n, all, sizeof(n));
	pool_give(pool, n + FRONT);
	free(all);
}

static voidpf zlib_alloc(voidpf pool, uInt n, uInt size)
{
	return codec_alloc(pool, (size_t)n * size);
}

static void *bzip2_alloc(void *pool, int n, int size)
{
	return n < 0 || size < 0 ? NULL : codec_alloc(pool, (size_t)n * (size_t)size);
}

static void *xz_alloc(void *pool, size_t n, size_t size)
{
	return size && n > SIZE_MAX / size ? NULL : codec_alloc(pool, n * size);
}

/* ---- opening ---- */

static bool codec_open_zlib(struct codec *c, int window)
{
	c->z.zalloc = zlib_alloc;
	c->z.zfree = codec_release;
	c->z.opaque = c->pool;
	return inflateInit2(&c->z, window) == Z_OK;
}

static bool codec_open_bzip2(struct codec *c)
{
	c->bz.bzalloc = bzip2_alloc;
	c->bz.bzfree = codec_release;
	c->bz.opaque = c->pool;
	return BZ2_bzDecompressInit(&c->bz, 0, 0) == BZ_OK;
}

static bool codec_open_xz(struct codec *c)
{
	c->xz = (lzma_stream)LZMA_STREAM_INIT;
	c->xz_memory = (lzma_allocator){ xz_alloc, codec_release, c->pool };
	c->xz.allocator = &c->xz_memory;
	return lzma_stream_decoder(&c->xz, XZ_MEMORY, 0) == LZMA_OK;
}

static bool codec_open_zstd(struct codec *c)
{
	c->zstd = ZSTD_createDCtx();
	return c->zstd &&
	       !ZSTD_isError(ZSTD_DCtx_setParameter(c->zstd, ZSTD_d_windowLogMax, WINDOW_LOG));
}

static bool codec_open_brotli(struct codec *c)
{
	c->brotli = BrotliDecoderCreateInstance(codec_alloc, codec_release, c->pool);
	return c->brotli != NULL;
}

static bool codec_open(struct codec *c)
{
	switch (c->packing) {
	case PACKING_GZIP:
		return codec_open_zlib(c, 15 + 16);
	case PACKING_ZLIB:
		return codec_open_zlib(c, 15);
	case PACKING_BARE:
		return codec_open_zlib(c, -15);
	case PACKING_BZIP2:
		return codec_open_bzip2(c);
	case PACKING_XZ:
		return codec_open_xz(c);
	case PACKING_ZSTD:
		return codec_open_zstd(c);
	case PACKING_BROTLI:
		return codec_open_brotli(c);
	default:
		return false;
	}
}

struct codec *codec_new(enum packed_as k, struct codec_pool *pool)
{
	struct codec *c = pool_take(pool, sizeof(*c)) ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	c->packing = k;
	c->pool = pool;
	c->open = codec_open(c);
	return c->open ? c : codec_free(c);
}

struct codec *codec_free(struct codec *c)
{
	if (!c)
		return NULL;
	switch (c->open ? c->packing : PACKING_NONE) {
	case PACKING_GZIP:
	case PACKING_ZLIB:
	case PACKING_BARE:
		(void)inflateEnd(&c->z);
		break;
	case PACKING_BZIP2:
		(void)BZ2_bzDecompressEnd(&c->bz);
		break;
	case PACKING_XZ:
		lzma_end(&c->xz);
		break;
	case PACKING_BROTLI:
		BrotliDecoderDestroyInstance(c->brotli);
		break;
	default:
		break;
	}
	if (c->packing == PACKING_ZSTD)
		(void)ZSTD_freeDCtx(c->zstd);
	pool_give(c->pool, c->counted + sizeof(*c));
	free(c);
	return NULL;
}

/* ---- steps ---- */

static void codec_moved(struct codec_io *io, size_t in, size_t out)
{
	io->in += in;
	io->in_n -= in;
	io->out_n += out;
}

/* What a library's word means, but for want of memory. */
static int codec_went(bool ended, bool well)
{
	if (ended)
		return CODEC_ENDS;
	return well ? CODEC_GOES : -EBADMSG;
}

static int codec_step_zlib(struct codec *c, struct codec_io *io, size_t in, size_t room)
{
	int r;

	c->z.next_in = (Bytef *)(uintptr_t)io->in;
	c->z.avail_in = (uInt)in;
	c->z.next_out = (Bytef *)io->out + io->out_n;
	c->z.avail_out = (uInt)room;
	r = inflate(&c->z, Z_NO_FLUSH);
	codec_moved(io, in - c->z.avail_in, room - c->z.avail_out);
	return r == Z_MEM_ERROR ? -ENOMEM
				: codec_went(r == Z_STREAM_END, r == Z_OK || r == Z_BUF_ERROR);
}

static int codec_step_bzip2(struct codec *c, struct codec_io *io, size_t in, size_t room)
{
	int r;

	c->bz.next_in = (char *)(uintptr_t)io->in;
	c->bz.avail_in = (unsigned)in;
	c->bz.next_out = io->out + io->out_n;
	c->bz.avail_out = (unsigned)room;
	r = BZ2_bzDecompress(&c->bz);
	codec_moved(io, in - c->bz.avail_in, room - c->bz.avail_out);
	return r == BZ_MEM_ERROR ? -ENOMEM : codec_went(r == BZ_STREAM_END, r == BZ_OK);
}

static int codec_step_xz(struct codec *c, struct codec_io *io, size_t in, size_t room)
{
	lzma_ret r;

	c->xz.next_in = (const uint8_t *)io->in;
	c->xz.avail_in = in;
	c->xz.next_out = (uint8_t *)io->out + io->out_n;
	c->xz.avail_out = room;
	r = lzma_code(&c->xz, LZMA_RUN);
	codec_moved(io, in - c->xz.avail_in, room - c->xz.avail_out);
	if (r == LZMA_MEM_ERROR || r == LZMA_MEMLIMIT_ERROR)
		return -ENOMEM;
	return codec_went(r == LZMA_STREAM_END, r == LZMA_OK || r == LZMA_BUF_ERROR);
}

static int codec_step_zstd(struct codec *c, struct codec_io *io, size_t in, size_t room)
{
	ZSTD_inBuffer from = { io->in, in, 0 };
	ZSTD_outBuffer to = { io->out + io->out_n, room, 0 };
	size_t r = ZSTD_decompressStream(c->zstd, &to, &from), now = ZSTD_sizeof_DCtx(c->zstd);

	codec_moved(io, from.pos, to.pos);
	if (now > c->counted) {
		if (!pool_take(c->pool, now - c->counted))
			return -ENOMEM;
		c->counted = now;
	}
	/* Its window is the most of what it may want. */
	if (ZSTD_isError(r))
		return strstr(ZSTD_getErrorName(r), "memory") ? -ENOMEM : -EBADMSG;
	return r == 0 ? CODEC_ENDS : CODEC_GOES;
}

static int codec_step_brotli(struct codec *c, struct codec_io *io, size_t in, size_t room)
{
	const uint8_t *next = (const uint8_t *)io->in;
	uint8_t *to = (uint8_t *)io->out + io->out_n;
	size_t left = in, free_room = room;
	BrotliDecoderResult r;
	BrotliDecoderErrorCode code;

	r = BrotliDecoderDecompressStream(c->brotli, &left, &next, &free_room, &to, NULL);
	codec_moved(io, in - left, room - free_room);
	if (r == BROTLI_DECODER_RESULT_SUCCESS)
		return CODEC_ENDS;
	if (r != BROTLI_DECODER_RESULT_ERROR)
		return CODEC_GOES;
	code = BrotliDecoderGetErrorCode(c->brotli);
	return code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
			       code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES
		       ? -ENOMEM
		       : -EBADMSG;
}

int codec_step(struct codec *c, struct codec_io *io)
{
	size_t in = io->in_n < STEP ? io->in_n : STEP, room = io->room - io->out_n;

	room = room < STEP ? room : STEP;
	switch (c->packing) {
	case PACKING_BZIP2:
		return codec_step_bzip2(c, io, in, room);
	case PACKING_XZ:
		return codec_step_xz(c, io, in, room);
	case PACKING_ZSTD:
		return codec_step_zstd(c, io, in, room);
	case PACKING_BROTLI:
		return codec_step_brotli(c, io, in, room);
	default:
		return codec_step_zlib(c, io, in, room);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/websocket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/base64.h"
#include "base/bytes/sha1.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

#define LENGTH_16 126
#define LENGTH_64 127

static bool is_control(unsigned code)
{
	return code & 8;
}

static unsigned code_of(const struct ws_reader *r)
{
	return r->head[0] & 15;
}

static bool is_last(const struct ws_reader *r)
{
	return r->head[0] & 0x80;
}

/* Where the length ends, and the mask begins. */
static size_t length_end(const struct ws_reader *r)
{
	unsigned n = r->head[1] & 127;

	return n == LENGTH_16 ? 4 : n == LENGTH_64 ? 10 : 2;
}

/* How long the head is, as far as it is known. */
static size_t head_size(const struct ws_reader *r)
{
	return r->have < 2 ? 2 : length_end(r) + (r->masked ? 4 : 0);
}

static bool head_valid(const struct ws_reader *r)
{
	unsigned code = code_of(r);

	if ((r->head[0] & 0x70) || !(r->head[1] & 0x80) == r->masked)
		return false;
	if (is_control(code))
		return is_last(r) && (r->head[1] & 127) <= WS_CONTROL_MAX && code <= WS_PONG;
	return code <= WS_BINARY && (code == WS_MORE) == r->in_message;
}

/* False: not in its shortest form, or beyond what a length can be. */
static bool take_length(struct ws_reader *r)
{
	unsigned n = r->head[1] & 127;
	size_t size = length_end(r);

	r->left = n < LENGTH_16 ? n : 0;
	for (size_t i = 2; i < size; i++)
		r->left = r->left << 8 | r->head[i];
	if (n == LENGTH_16)
		return r->left >= LENGTH_16;
	return n < LENGTH_16 || (r->left > UINT16_MAX && r->left <= INT64_MAX);
}

/* Until the head is whole. */
static ssize_t read_head(struct ws_reader *r, const char *p, size_t n, struct ws_piece *ret)
{
	size_t took = 0;

	while (took < n && r->have < head_size(r)) {
		r->head[r->have++] = (unsigned char)p[took++];
		if (r->have == 2 && !head_valid(r))
			return -EBADMSG;
	}
	if (r->have < head_size(r))
		return (ssize_t)took;
	if (!take_length(r))
		return -EBADMSG;
	r->in_frame = true;
	r->held = 0;
	r->at = 0;
	if (!is_control(code_of(r))) {
		ret->begins = !r->in_message;
		ret->kind = ret->begins ? WS_DATA : WS_NOTHING;
		ret->type = (enum ws_code)code_of(r);
		r->in_message = true;
	}
	return (ssize_t)took;
}

static void end_frame(struct ws_reader *r, struct ws_piece *ret)
{
	r->in_frame = false;
	r->have = 0;
	if (is_control(code_of(r)) || !is_last(r))
		return;
	r->in_message = false;
	ret->kind = WS_DATA;
	ret->ends = true;
}

static int end_control(struct ws_reader *r, struct ws_piece *ret)
{
	static const enum ws_kind kinds[] = {
		[WS_CLOSE] = WS_ENDED, [WS_PING] = WS_ASKED, [WS_PONG] = WS_ANSWERED
	};

	ret->kind = kinds[code_of(r)];
	ret->p = (const char *)r->control;
	ret->n = r->held;
	if (ret->kind != WS_ENDED)
		return 0;
	if (r->held == 1)
		return -EBADMSG;
	ret->code = r->held ? (unsigned)(r->control[0] << 8 | r->control[1]) : WS_NO_CODE;
	ret->p += r->held ? 2 : 0;
	ret->n -= r->held ? 2 : 0;
	return 0;
}

static void unmask(struct ws_reader *r, char *p, size_t n)
{
	const unsigned char *mask = r->head + length_end(r);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)((unsigned char)p[i] ^ mask[r->at++ & 3]);
}

static ssize_t read_payload(struct ws_reader *r, char *p, size_t n, struct ws_piece *ret)
{
	size_t took = r->left < n ? (size_t)r->left : n;

	if (r->masked)
		unmask(r, p, took);
	r->left -= took;
	if (is_control(code_of(r))) {
		memcpy(r->control + r->held, p, took);
		r->held += took;
	} else if (took) {
		ret->kind = WS_DATA;
		ret->p = p;
		ret->n = took;
	}
	if (r->left)
		return (ssize_t)took;
	if (is_control(code_of(r)) && end_control(r, ret) < 0)
		return -EBADMSG;
	end_frame(r, ret);
	return (ssize_t)took;
}

/* A frame without a payload ends with its head; otherwise the head is a piece of its own, or goes
 * with the first bytes behind it. */
ssize_t ws_read(struct ws_reader *r, char *p, size_t n, struct ws_piece *ret)
{
	ssize_t took = 0, more;

	*ret = (struct ws_piece){ .kind = WS_NOTHING };
	if (!n)
		return 0;
	if (!r->in_frame) {
		took = read_head(r, p, n, ret);
		if (took < 0 || !r->in_frame)
			return took;
	}
	more = read_payload(r, p + took, n - (size_t)took, ret);
	return more < 0 ? more : took + more;
}

static void put_head(struct buf *b, unsigned first, uint64_t len, const unsigned char *mask)
{
	unsigned char head[14] = { (unsigned char)first };
	size_t size = 2;

	head[1] = (unsigned char)((mask ? 0x80 : 0) | (len < LENGTH_16     ? len
						       : len <= UINT16_MAX ? LENGTH_16
									   : LENGTH_64));
	if (len >= LENGTH_16)
		for (int i = len <= UINT16_MAX ? 1 : 7; i >= 0; i--)
			head[size++] = (unsigned char)(len >> (8 * i));
	if (mask)
		memcpy(head + size, mask, 4);
	buf_add(b, head, size + (mask ? 4 : 0));
}

static void put_masked(struct buf *b, const unsigned char *from, size_t n, size_t at,
		       const unsigned char mask[4])
{
	for (size_t i = 0; i < n;) {
		char piece[1024];
		size_t k = 0;

		while (k < sizeof(piece) && i < n)
			piece[k++] = (char)(from[i++] ^ mask[at++ & 3]);
		buf_add(b, piece, k);
	}
}

void ws_put(struct buf *b, enum ws_code code, int prefix, const void *p, size_t n,
	    const unsigned char mask[4])
{
	put_head(b, 0x80U | code, n + (prefix >= 0), mask);
	if (prefix >= 0)
		buf_putc(b, (char)((unsigned char)prefix ^ mask[0]));
	put_masked(b, p, n, prefix >= 0, mask);
}

void ws_put_frame(struct buf *b, enum ws_code code, bool last, const void *p, size_t n,
		  const unsigned char mask[4])
{
	put_head(b, (last ? 0x80U : 0) | code, n, mask);
	if (mask)
		put_masked(b, p, n, 0, mask);
	else
		buf_add(b, p, n);
}

void ws_key(const unsigned char random[16], char key[WS_KEY_SIZE])
{
	CLEANUP(buf) struct buf b = BUF_INIT(64);

	base64_put(&b, random, 16);
	(void)snprintf(key, WS_KEY_SIZE, "%s", buf_str(&b));
}

void ws_accept(const char *key, char accept[WS_ACCEPT_SIZE])
{
	CLEANUP(buf) struct buf b = BUF_INIT(64);
	unsigned char sum[SHA1_SIZE];
	struct sha1 s;

	sha1_init(&s);
	sha1_add(&s, key, strlen(key));
	sha1_add(&s, GUID, strlen(GUID));
	sha1_end(&s, sum);
	base64_put(&b, sum, sizeof(sum));
	(void)snprintf(accept, WS_ACCEPT_SIZE, "%s", buf_str(&b));
}

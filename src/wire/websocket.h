/* SPDX-License-Identifier: Apache-2.0 */
/* wire/websocket.h - frames of RFC 6455, seen from either end. Pure: no socket, no clock.
 *
 * Messages are not put together: their bytes are handed on as they come, so that nothing here grows
 * with what a peer sends. Refused: a masked frame of a server, one of a client that is not,
 * reserved bits and codes, a length not written in its shortest form, a control frame that is long
 * or in pieces, a piece without a beginning. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/buf.h"

enum ws_code { WS_MORE = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
enum {
	WS_CONTROL_MAX = 125,
	WS_NORMAL = 1000,
	WS_NO_CODE = 1005,
	WS_KEY_SIZE = 25,
	WS_ACCEPT_SIZE = 29
};

struct ws_reader {
	bool masked; /* set it at first: what is read is a client's */
	unsigned char head[14], control[WS_CONTROL_MAX];
	size_t have;   /* bytes of the head */
	uint64_t left; /* of the frame's payload */
	size_t held;   /* bytes of `control` */
	unsigned at;   /* in the mask */
	bool in_frame, in_message;
};

enum ws_kind { WS_NOTHING, WS_DATA, WS_ASKED /* ping */, WS_ANSWERED /* pong */, WS_ENDED };

/* What was read: bytes of a message, which begins or ends here, or a whole control frame. */
struct ws_piece {
	enum ws_kind kind;
	bool begins, ends;
	enum ws_code type; /* WS_TEXT or WS_BINARY, where it begins */
	const char *p;     /* into the bytes given, or into the reader */
	size_t n;
	unsigned code; /* WS_ENDED: 1005 where the server gave none */
};

/* Takes some of the n bytes at p, which are unmasked where they are: how many, at least one while n
 * > 0, or -EBADMSG; after that the connection must be closed. */
ssize_t ws_read(struct ws_reader *r, char *p, size_t n, struct ws_piece *ret);

/* One frame, whole; prefix (-1: none) is one byte in front of the payload. */
void ws_put(struct buf *b, enum ws_code code, int prefix, const void *p, size_t n,
	    const unsigned char mask[4]);

/* One frame of data or control; mask NULL: a server's. last: the end of its message. */
void ws_put_frame(struct buf *b, enum ws_code code, bool last, const void *p, size_t n,
		  const unsigned char mask[4]);

/* The value of Sec-WebSocket-Key from 16 random bytes, and of the answer's Sec-WebSocket-Accept. */
void ws_key(const unsigned char random[16], char key[WS_KEY_SIZE]);
void ws_accept(const char *key, char accept[WS_ACCEPT_SIZE]);

/* SPDX-License-Identifier: Apache-2.0 */
/* wire/client.h - one HTTP/1.1 connection, seen from the side that asks.
 *
 * Blocks, but never past the deadline of the call (clock_us; 0: none). One request at a time:
 * client_send, client_answer, client_read until it returns 0, then the next, on the same connection
 * where client_reusable says so. After any error the connection is of no more use.
 *
 * The bytes travel through a transport, so that a Unix socket, TCP and TLS look the same. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "wire/http1.h"

/* read and write do not block. They return bytes moved, 0 for the end of the stream (read), or
 * -errno; with -EAGAIN, *wait is what to poll `fd` for. */
struct transport {
	void *arg;
	int fd;
	ssize_t (*read)(void *arg, void *p, size_t n, short *wait);
	ssize_t (*write)(void *arg, const void *p, size_t n, short *wait);
	void (*close)(void *arg);
};

/* A connected socket, which it takes and makes non-blocking. */
struct transport transport_fd(int fd);

/* Connects to a Unix socket; the error's code tells ENOENT, ECONNREFUSED and EACCES apart. */
int transport_unix(const char *path, uint64_t deadline, struct transport *ret, struct err *e);

struct client;

/* Takes the transport, also when there is no memory. `host` is copied into every Host field. */
struct client *client_new(struct transport t, const char *host, struct err *e);
struct client *client_free(struct client *c); /* closes; takes NULL */
DEFINE_CLEANUP(client, struct client *, client_free)

#define CLIENT_CHUNKED SIZE_MAX

struct client_request {
	const char *method, *target; /* the target as it goes on the wire, already escaped */
	const char *fields;          /* further lines, each ending in CR LF; or NULL */
	const char *type;            /* Content-Type of the body; NULL: no body */
	const char *body;
	size_t body_len;
	bool apart; /* the body comes by client_write; body_len CLIENT_CHUNKED: in chunks, which
		     * are the caller's to write */
	const char *upgrade; /* protocol to change to; NULL: none */
};

int client_send(struct client *c, const struct client_request *q, uint64_t deadline, struct err *e);

/* More of a body that comes apart. 1: the peer has closed its side, and may have answered. */
int client_write(struct client *c, const void *p, size_t n, uint64_t deadline, struct err *e);

/* Reads the answer's head, past 1xx. *ret is borrowed until the next client_send. */
int client_answer(struct client *c, uint64_t deadline, const struct http1_answer **ret,
		  struct err *e);

/* Some of the body, decoded: bytes, 0 at its end, or -errno; -EAGAIN when nothing came in time. */
ssize_t client_read(struct client *c, void *p, size_t n, uint64_t deadline, struct err *e);

/* After the body: the value of the only field of that name behind it; p is NULL when there is none.
 * Borrowed until the next client_send. */
struct http1_text client_trailer(const struct client *c, const char *name);

/* All of the body, or -EMSGSIZE when it does not fit the buffer's maximum. */
int client_read_all(struct client *c, struct buf *b, uint64_t deadline, struct err *e);

bool client_reusable(const struct client *c); /* may the next request be sent on it? */
int client_fd(const struct client *c);        /* to poll, borrowed */

/* After an answer that is HTTP1_UPGRADED: hands the transport over, and with it what the peer has
 * sent already. The client is then empty, to be freed. */
struct transport client_hijack(struct client *c, struct buf *already);

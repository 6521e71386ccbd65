/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/client/daemon_client.h - the daemon, seen by whoever calls it: `brig sandbox`.
 *
 * Blocks. One call at a time; a second connection is made for what goes on beside a stream. Where
 * the daemon is: $BRIG_HOST (unix:///PATH, or http://ADDR:PORT with $BRIG_TOKEN), else the user's
 * own socket, where one is started when nobody listens. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/text/err.h"
#include "http/sse.h"

struct daemon_client;

/* `start`: start one where there is none; else -ENOENT or -ECONNREFUSED, and *e. */
int daemon_client_open(bool start, struct daemon_client **ret, struct err *e);
struct daemon_client *daemon_client_free(struct daemon_client *c);
DEFINE_CLEANUP(daemon_client, struct daemon_client *, daemon_client_free)

/* From now on asks for a tenant of the owner's making, "@NAME"; over the owner's socket alone. */
void daemon_client_act(struct daemon_client *c, const char *tenant);

/* Over the owner's socket? Then a spec is sent as it was resolved here. */
bool daemon_client_local(const struct daemon_client *c);

struct daemon_question {
	const char *method, *target; /* escaped */
	const char *body;            /* JSON, or with `raw` bytes; NULL: none */
	size_t body_len;
	bool raw;
	const int *fds; /* go along, over the owner's socket alone; borrowed */
	size_t fd_count;
};

/* A whole answer; *ret is NULL where it has no body. A problem is an error, with the daemon's own
 * words; `code` (may be NULL, else 32 bytes) gets its word. */
int daemon_client_ask(struct daemon_client *c, const struct daemon_question *q, struct jread **ret,
		      char *code, struct err *e);

/* For who has a loop: a question is sent at once, its answer taken when daemon_client_fd is
 * readable. The status of an answer whose head is on its way, or -errno; then some of its body:
 * bytes, 0 at its end, -EAGAIN when there is nothing now, or another -errno. */
int daemon_client_send(struct daemon_client *c, const struct daemon_question *q, bool events,
		       struct err *e);
int daemon_client_status(struct daemon_client *c, struct err *e);
ssize_t daemon_client_read(struct daemon_client *c, void *p, size_t n, struct err *e);
/* A problem's words as an error; `code` as of daemon_client_ask. */
int daemon_client_problem(int status, const char *body, size_t n, char *code, struct err *e);

/* Begins a stream; further calls on this connection are refused until its end. */
int daemon_client_stream(struct daemon_client *c, const struct daemon_question *q, struct err *e);
/* The next event: 1, and it is in *s; 0: the stream is at its end; -EAGAIN: nothing before the
 * deadline (clock_us; 0: none). */
int daemon_client_event(struct daemon_client *c, struct sse *s, uint64_t deadline, struct err *e);

/* Told how many bytes more have passed, by what writes and saves below; fn may be NULL. */
typedef void daemon_client_passed_fn(void *arg, uint64_t bytes);
void daemon_client_on_passed(struct daemon_client *c, daemon_client_passed_fn *fn, void *arg);

/* A body that is not held. The question's own is not looked at. length -1: not known. */
int daemon_client_begin(struct daemon_client *c, const struct daemon_question *q, const char *type,
			int64_t length, struct err *e);
/* More of it; from a file: exactly n bytes. 1: the daemon has answered already. */
int daemon_client_write(struct daemon_client *c, const void *p, size_t n, struct err *e);
int daemon_client_write_file(struct daemon_client *c, int fd, uint64_t n, struct err *e);
int daemon_client_written(struct daemon_client *c, struct err *e); /* that was all: its answer */

/* An answer that is bytes; *length: -1: not known. Then all of it goes to a file or a pipe, at most
 * `most` bytes; the connection is of no more use. 0; or -EPIPE: nobody reads there. */
int daemon_client_get(struct daemon_client *c, const struct daemon_question *q, int64_t *length,
		      struct err *e);
int daemon_client_save(struct daemon_client *c, int fd, uint64_t most, struct err *e);
/* Then, of an archive: how many things are not in it; the first of their names go to *names (may be
 * NULL), each with a NUL behind it, as the guest's own bytes. */
uint64_t daemon_client_left(const struct daemon_client *c, struct buf *names);

int daemon_client_fd(const struct daemon_client *c); /* to poll once daemon_client_event had none */

/* SPDX-License-Identifier: Apache-2.0 */
/* http/http.h - the daemon's HTTP/1.1 server: connections on a loop, one call at a time on each.
 *
 * Nothing here knows a route. A call is admitted by its head alone (who, where, how large), then
 * its body is read, then it is served: with one answer, now or later, or with a stream. Whatever a
 * client can make grow or last has a bound: head, body, time, connections, what waits to be sent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sys/loop.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "http/problem.h"
#include "wire/http1_request.h"
#include "wire/peer.h"

enum {
	HTTP_HEAD_MAX = 32768,
	HTTP_BODY_MAX = 1 << 20,
	HTTP_WAITING_MAX = 1 << 18, /* of a stream: what waits to be sent */
	HTTP_ANSWER_MAX = 128 << 20,
	HTTP_TENANT_CONNECTIONS = 64,
	HTTP_TENANT_SIZE = 64,
};

/* What a call is of; the same for all calls of one connection until another token comes. */
struct http_caller {
	bool local;                    /* over the Unix socket */
	bool known;                    /* who it is was found out */
	bool session;                  /* by a session of the dashboard; `digest` is its sum */
	char tenant[HTTP_TENANT_SIZE]; /* "": the owner */
	unsigned scopes;               /* of tokens.h */
	unsigned char digest[32];      /* of the token, or of the session's cookie */
	const void *token;             /* the line of the token file; NULL: none. While the call is
					* admitted or begins to be served, and no longer. */
	struct http_tenant *counted;   /* in the server's own list */
};

struct http_conn;

struct http_call {
	const struct http1_request *head; /* borrowed until the answer has ended */
	const char *path, *query;         /* NUL-terminated; the query without its '?' */
	const char *body;
	size_t body_len;
	struct http_caller *caller;
	const struct peer *peer; /* of a local connection */
	const void *route;       /* whatever `admit` has found */
	const char *parts[4];    /* of the path, as the route names them */
	size_t body_max;         /* may be changed by `admit` */
	bool unread;             /* may be set by `admit`: served before its body is read, which
				  * only http_take does */
	struct http_conn *conn;
	/* Of a call that is answered later: */
	void (*room)(void *arg); /* there is room in the stream again */
	void (*gone)(void *arg); /* the caller has left; no answer is awaited. Called at most once,
				    and not once the answer has ended. */
	void *arg;
	/* The answer as it is sent; status 0: there was none, the caller has left. Called at most
	 * once. May be NULL. */
	void (*answered)(struct http_call *c, int status, const char *body, size_t n);
	void *answered_arg;
};

struct http_service {
	/* By its head. false: it was answered. */
	bool (*admit)(void *arg, struct http_call *c);
	void (*serve)(void *arg, struct http_call *c);
	void *arg;
};

struct http_server;

int http_new(struct loop *l, const struct http_service *by, struct http_server **ret,
	     struct err *e);
struct http_server *http_free(struct http_server *s);
DEFINE_CLEANUP(http, struct http_server *, http_free)

/* Takes a listening socket, non-blocking. `authority`: the Host that its callers name ("" for a
 * local one, which is asked for by path). */
int http_listen(struct http_server *s, int fd, bool local, const char *authority, struct err *e);
/* The same for a browser: every answer says what its page may do, and may not (dashboard.md). */
int http_listen_pages(struct http_server *s, int fd, const char *authority, struct err *e);
/* Takes a socket that connections come out of, one a message, as tls_front.h has it; `lost` is
 * called at its end. A second call replaces the one that was lost. No Host is asked of its callers.
 */
int http_listen_passed(struct http_server *s, int fd, void (*lost)(void *arg), void *arg,
		       struct err *e);
/* Sends what is due and lets go of what has ended; from the loop's `settle`. */
void http_settle(struct http_server *s);
size_t http_connections(const struct http_server *s);
uint64_t http_served(const struct http_server *s);

/* Ends each call over TCP that is being answered and that `keep` says no to. */
void http_revoke(struct http_server *s, bool (*keep)(void *arg, const struct http_call *c),
		 void *arg);

/* Counts the connection for this tenant; false: it has too many. */
bool http_count(struct http_call *c, const char *tenant);

/* ---- answers ---- */

/* The whole answer. `fields`: further lines, each with CR LF; may be NULL. */
void http_answer(struct http_call *c, int status, const char *fields, const char *type,
		 const void *body, size_t n);
void http_problem(struct http_call *c, enum problem p, const struct err *e);
/* The same with another status, and further fields. */
void http_refuse(struct http_call *c, int status, const char *fields, enum problem p,
		 const struct err *e);
/* 410, with the oldest number that is still kept. */
void http_expired(struct http_call *c, uint64_t oldest);
/* After this answer the connection ends. */
void http_last(struct http_call *c);
/* A problem and the end of the connection; hint may be NULL. false, for who decides about a call.
 */
bool http_turn_away(struct http_call *c, enum problem p, const char *hint, const char *what);

/* A stream of events. false: only its head was asked for, and this was all. */
bool http_stream(struct http_call *c, const char *fields);
size_t http_room(const struct http_call *c); /* 0: wait for `room` */
/* One event; `id` 0: none. Never refused, so that a caller who looks at http_room before each
 * bounds what waits. */
void http_event(struct http_call *c, const char *type, uint64_t id, const char *data, size_t n);
/* The same in two steps, for a text that several are sent: it has whole events in it. */
void http_event_text(struct buf *b, const char *type, uint64_t id, const char *data, size_t n);
void http_events(struct http_call *call, const char *text, size_t n);
void http_wake(struct http_call *c); /* has `room` called soon, if there is any */
void http_stream_end(struct http_call *c);

/* ---- bytes that are not held ---- */

/* The body of a call that is `unread` goes to this pipe, which is non-blocking and borrowed until
 * `whole` is called with the call's arg: all of it is there; or not, because nobody reads it. A
 * caller that leaves is `gone`, and so is one whose body is too large or malformed, which was
 * answered. */
void http_take(struct http_call *c, int to, void (*whole)(void *arg, bool ok));
/* An answer whose body comes out of this pipe; length -1: up to its end. `end` is called with the
 * call's arg when it ends, and says whether this was all; if not, the connection is cut off.
 * false: only the head was asked for, and this was all. */
bool http_give(struct http_call *c, const char *fields, const char *type, int64_t length, int from,
	       bool (*end)(void *arg));
/* Within `end`: a field behind the body, for those whose HTTP has such fields. */
void http_trail(struct http_call *c, const char *name, const char *value);

/* ---- what was asked ---- */

enum { HTTP_HANDED = 16 };

/* The descriptors that came with a call over the owner's socket, which are the handler's from then
 * on; how many. Those that nobody takes are closed with the call. */
size_t http_handed(struct http_call *c, int fds[HTTP_HANDED]);

bool http_from_page(const struct http_call *c);        /* it came over http_listen_pages */
const char *http_authority(const struct http_call *c); /* of the listener; "": local; NULL: any */
/* The only field of that name; p is NULL when there is none or several. */
struct http1_text http_field(const struct http_call *c, const char *name);
/* The parameter's value, decoded, at most n - 1 bytes: its length, -ENOENT, or -EINVAL (twice
 * there, malformed, too long, a NUL in it). `nth` counts those of one name that may repeat. */
int http_param(const struct http_call *c, const char *name, char *out, size_t n);
int http_param_nth(const struct http_call *c, const char *name, size_t nth, char *out, size_t n);

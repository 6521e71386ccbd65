/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_internal.h - what the files of the HTTP server share; nobody else includes this. */
#pragma once

#include "http/http.h"

/*   head -> body -> serve -> head      an answer, and the connection stays
 *      \-> take -> serve  \-> flush -> linger -> over
 * A body that is not held is taken while the call is served already.
 * A refusal leads from head or body to flush: where the next call begins is then not known. */
enum http_state { HTTP_HEAD, HTTP_BODY, HTTP_TAKE, HTTP_SERVE, HTTP_FLUSH, HTTP_LINGER, HTTP_OVER };

struct http_tenant {
	struct http_tenant *next;
	char name[64];
	size_t connections;
};

struct http_listener {
	struct loop_watch w; /* must stay first */
	struct http_listener *next;
	struct http_server *server;
	int fd; /* -1: closed, or lost */
	bool local, passed, pages;
	void (*lost)(void *arg); /* passed */
	void *lost_arg;
	char authority[96];
};

enum http_pump_way { PUMP_NONE, PUMP_IN, PUMP_OUT };

struct http_pump {
	struct loop_watch w; /* must stay first; the pipe, borrowed */
	struct http_conn *c;
	enum http_pump_way way;
	uint32_t socket; /* what the connection is waited for */
	uint64_t left;   /* in: what may still come; out: what is promised, UINT64_MAX: unknown */
	size_t chunk;    /* left of the one that was begun */
	size_t turn;     /* moved at this turn */
	struct http1_text held; /* in: of the connection's buffer, taken but not written */
	size_t taken;           /* bytes of the buffer that this was */
	void (*whole)(void *arg, bool ok);
	bool (*end)(void *arg);
};

struct http_conn {
	struct loop_watch w; /* must stay first */
	struct loop_timer timer;
	struct http_server *server;
	const struct http_listener *from;
	struct http_conn *next, **link; /* of all */
	struct http_conn *due_next;
	bool due; /* in the server's list for http_settle */
	int fd;
	int *handed; /* HTTP_HANDED of them; NULL: none came */
	size_t handed_count;
	enum http_state state;
	bool keep, used, ended, streaming, chunked, bare; /* bare: of HEAD, no body is sent */
	bool deserted;                                    /* `gone` was called */
	uint64_t since, moved;                            /* the state began; something was sent */
	char *in; /* the head stays at its front while the body passes behind it */
	size_t len, cap, head_len;
	struct http1_request head;
	struct http1_body framing;
	char *target; /* the call's path and query */
	struct buf body, out, trail;
	size_t sent; /* of out */
	struct http_caller caller;
	struct peer peer;
	struct http_call call;
	struct http_pump pump;
};

struct http_server {
	struct loop *loop;
	struct http_service by;
	struct http_listener *listeners;
	struct loop_timer again; /* listen again, after there were no descriptors */
	struct http_conn *all, *due;
	struct http_tenant *tenants;
	struct buf scratch;
	size_t connections, remote, most;
	uint64_t served;
};

/* Takes the socket. NULL: no memory. */
struct http_conn *conn_new(struct http_server *s, const struct http_listener *from, int fd);
struct http_conn *conn_free(struct http_conn *c);
/* As far as it goes without waiting. */
void conn_turn(struct http_conn *c);
void conn_due(struct http_conn *c); /* http_settle will turn it */
bool conn_flush(struct http_conn *c);
void conn_cut(struct http_conn *c);            /* in the middle of whatever it says */
void conn_desert(struct http_conn *c);         /* nobody is there, or may be any longer */
void conn_serve(struct http_conn *c);          /* the body was taken */
void conn_drop(struct http_conn *c, size_t n); /* of what stands behind the head */
void conn_refuse_body(struct http_conn *c, bool malformed);
void http_head(struct http_call *call, int status, const char *fields, const char *type);

/* http_pump.c; each returns whether something moved. */
bool pump_in(struct http_conn *c);
bool pump_out(struct http_conn *c);
void pump_stop(struct http_conn *c);

/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session.h - the parts of a session, for one another. */
#pragma once

#include "egress/worker/exchange.h"
#include "egress/worker/worker.h"

#define SECOND ((uint64_t)1000 * 1000)
#define HEAD_US (30 * SECOND) /* for a hello, a handshake, a head */
#define IDLE_US (90 * SECOND) /* between two requests */

static const struct http1_text session_connect = { "CONNECT", 7 }, session_tls = { "TLS", 3 },
			       session_ssh = { "SSH", 3 };

/* What both sides of SSH begin with (RFC 4253, section 4.2). */
#define SSH_BEGINS "SSH-"
#define SSH_BEGINS_LEN (sizeof(SSH_BEGINS) - 1)

/* Bytes as they are, both ways. */
struct tunnel {
	struct transfer t;
	struct upstream *up;          /* owned; NULL before the monitor knows of the tunnel */
	bool guest_closed, up_closed; /* no more is sent there */
	bool ssh_due;                 /* the guest has not yet begun as SSH does */
};

enum session_state {
	SESSION_FIRST,    /* the first byte tells what this is */
	SESSION_SOCKS,    /* the greeting was answered */
	SESSION_HELLO,    /* TLS: reading the ClientHello */
	SESSION_TLS,      /* shaking hands with the guest */
	SESSION_HEAD,     /* HTTP: reading a head */
	SESSION_STREAMS,  /* HTTP/2: many of both at once */
	SESSION_EXCHANGE, /* a request on its way up, its answer on its way down */
	SESSION_TUNNEL,   /* bytes as they are */
	SESSION_LINGER,   /* everything is said: flush, wait a little for the guest to leave */
	SESSION_DEAD,
};

enum session_framing { FRAMED_NONE, FRAMED_LENGTH, FRAMED_CHUNKED, FRAMED_CLOSE };

struct session {
	struct link guest; /* first */
	struct worker *k;
	struct session *next, **at;
	struct session *held_next, **held_at; /* held_at: NULL, not held */
	enum session_state state;
	bool running; /* in session_run: an event from below is seen by its loop */
	bool half_closed;
	uint32_t question; /* the one whose answer it waits for; 0: none */
	struct arrival from;
	struct egress_verdict refused; /* told once the guest has sent its first request */
	uint64_t deadline;             /* an exchange has its own */
	struct tunnel *tunnel;         /* owned, in that state alone */
	struct session_h2 *h2;         /* owned, in SESSION_STREAMS alone */

	/* HTTP/1: one exchange after another. */
	struct exchange *x;     /* owned, in that state alone */
	struct downstream down; /* the last of the exchange's, or of one that never came to be */
	unsigned minor;
	enum http1_asked asked;
	struct http1_body body;       /* of the request */
	enum session_framing framing; /* of the answer */
	bool fed;                     /* all of the request's body went into the exchange */
	bool keep;                    /* the connection, for the next request */
};

void session_run(struct session *s); /* goes on as far as it can */
/* Runs it again once the monitor knows what was decided until now. */
void session_hold(struct session *s);
/* Does the monitor know everything that was decided? Nothing is sent, to either side, and no
 * address dialled before; false: the session is run again by session_settle. */
bool session_told(struct session *s);
void session_patience(struct session *s, uint64_t us);
void session_linger(struct session *s);

/* The steps of a session's states: true when something moved. */
bool session_first(struct session *s);
bool session_socks(struct session *s);
bool session_hello(struct session *s);
bool session_shake(struct session *s);
bool session_head(struct session *s);
bool session_exchange(struct session *s);
bool session_pipe(struct session *s);
bool session_streams(struct session *s);

/* ---- session_http.c: HTTP/1 as a downstream ---- */

extern const struct downstream_ops session_ops;

/* A request that was read whole, `head` bytes of it. */
void session_request(struct session *s, const struct http1_request *q, size_t head);
bool session_reads(const struct session *s); /* could its exchange take more of the guest? */
/* Says no over HTTP and ends the connection. */
void session_deny(struct session *s, const struct egress_verdict *v, struct http1_text method);
/* An answer of the door itself that is no denial; the connection ends. */
void session_answer(struct session *s, int status, const char *reason, const char *what);

/* ---- session_h2.c: every stream of HTTP/2 as a downstream; they take NULL ---- */

struct session_h2;

void session_h2_begin(struct session *s); /* the handshake has chosen it */
struct session_h2 *session_h2_free(struct session_h2 *h);
void session_h2_turn(struct session_h2 *h); /* its streams may move as much again */
bool session_h2_reads(const struct session *s);
bool session_h2_unsent(const struct session_h2 *h);
bool session_h2_flush(struct session_h2 *h);
int session_h2_wait(struct session_h2 *h);
void session_h2_tick(struct session *s, uint64_t now);

/* ---- session_ask.c ---- */

/* After a refusal: does it wait for somebody's answer? It is run again when there is one. */
bool session_asks(struct session *s, struct egress_verdict *v);

/* ---- session_tunnel.c ---- */

void session_tunnel(struct session *s, const struct egress_verdict *v, const char *method);
struct tunnel *tunnel_free(struct tunnel *t, struct worker *k);
/* A fatal alert, for a guest to whom no leaf can be shown: access_denied. */
void session_alert(struct session *s);

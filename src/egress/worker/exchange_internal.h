/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_internal.h - the parts of an exchange, for one another: heads, the way up,
 * the way down.
 */
#pragma once

#include "egress/worker/exchange.h"
#include "egress/worker/upway_h2.h"
#include "egress/worker/worker.h"
#include "egress/credential/sigv4.h"
#include "wire/h2/grpc.h"

#define SECOND ((uint64_t)1000 * 1000)
#define HEAD_ROOM ((size_t)256 << 10)
#define PIECE 16384
#define CODED_PIECE 240 /* so little of an answer that what it says has room */
#define CODED_HOLD 65536
#define CODED_MAX (2 * CODED_HOLD + PIECE)

struct exchange {
	struct worker *k;
	struct downstream *d;
	enum exchange_state state;
	struct transfer t;
	struct upstream *up;     /* owned until there is a way; NULL before it opens */
	struct upway_h2 *joined; /* owned until there is a way: then `up` is borrowed */
	struct upway *way;       /* owned; NULL before the connection is open */
	bool secure;             /* as it came, so it goes up */
	struct buf head;         /* as sent upstream, for a second try */
	struct scan *scan_up, *scan_down;
	struct json_scan *json_up; /* in place of scan_up, for a body of JSON */
	struct decoder *decoder;   /* of a coded request body: what is scanned is what it says */
	bool unwraps;              /* aws-chunked: a coding of S3's that is chunks in the body */
	struct http1_body wrapped; /* what is in them goes through the decoder */
	struct scan *scan_coded;   /* and what it is: its own head has texts as well */
	struct buf coded;          /* of it, not sent yet */
	size_t coded_old;          /* of these, older than the last `decoded` bytes it says */
	size_t decoded;
	struct nest *nest_up, *nest_down; /* what the bodies hold packed */
	struct buf later;                 /* of the answer, not passed on yet */
	bool unreadable;                  /* said once */
	struct decoder *decoder_down;     /* the same of an answer that nobody scrubs */
	struct scrub *scrub;
	struct budget_call *call; /* of a model; owned */
	bool call_reads_clean;    /* its answer is packed, and read as it is passed */
	struct grpc_messages msg_up, msg_down;
	enum http1_asked asked;
	bool up_chunked, up_done, has_body, expects;
	bool bound;      /* a credential is bound to this host, put in or not */
	bool narrow;     /* rules of this host are about methods or paths */
	bool fed;        /* since the last step: some of the body came */
	bool heard_end;  /* of the downstream: it says no more */
	uint64_t looked; /* bytes of the answer that the leak scan saw */
	unsigned interim;
	unsigned scrubbed; /* values taken out of the answer's head */
	struct sigv4 sign; /* waits: nothing goes up before the whole body came */
	size_t sign_at;    /* in `head`: the digits of the signature */
	struct buf held;   /* a body that is held until it is whole */
	size_t held_sent;  /* of it */
	bool held_whole;
	bool waits_body;   /* nothing goes up before all of it was held */
	unsigned endpoint; /* of tokens (egress/oauth), counted from 1; 0: none */
	bool keeps;        /* its answer's head, until the body was written anew */
	struct buf kept;   /* that head */
	struct down_head kept_head;
	struct buf sealed;    /* the body until then */
	struct websocket *ws; /* owned; from the opening on */
	uint64_t not_before;  /* its turn by the rate of requests; 0: now */
	uint64_t deadline;    /* for something to move */
};

static inline struct http1_text exchange_method(const struct exchange *x)
{
	return (struct http1_text){ x->t.method, strlen(x->t.method) };
}

static inline struct egress_text exchange_text(struct http1_text t)
{
	return egress_text(t.p, t.n);
}

/* ---- exchange_head.c ---- */

bool exchange_passes(const struct http1_field *f); /* to the next hop? */
/* Does `Connection` say that a field is for this hop only? */
bool exchange_listed_off(const struct http1_field *f, size_t n, const struct http1_field *one);
bool exchange_adds_tls(const struct arrival *from, const struct http1_request *q);
/* Allowlist, rate, leaks, credentials; the head as it will be sent is in x->head. */
bool exchange_judge(struct exchange *x, const struct arrival *from, const struct http1_request *q,
		    const struct egress_request *e);
bool exchange_scan(struct exchange *x, const struct http1_request *q); /* of the body, if any */
/* Tells of credentials that were put in, one bit each; false: it cannot be recorded. */
bool exchange_report_used(struct exchange *x, uint64_t used);

/* ---- exchange_sign.c: a head that is signed with the hash of its body ---- */

void exchange_hold(struct exchange *x, const char *p, size_t n, bool last);
bool exchange_holds(const struct exchange *x); /* does it take more? */
void exchange_ask_body(struct exchange *x);    /* of a guest that waits to be asked */
bool exchange_pump(struct exchange *x);        /* what was held, on its way: true, it moved */

/* ---- exchange_oauth.c: a login, whose request and answer are written anew ---- */

struct oauth_news;
bool exchange_oauth_up(struct exchange *x, struct egress_verdict *v);  /* the body is whole */
bool exchange_oauth_take(struct exchange *x, const char *p, size_t n); /* of the answer */
void exchange_oauth_end(struct exchange *x);
bool exchange_oauth_told(struct exchange *x, const struct oauth_news *news);

/* ---- exchange_websocket.c ---- */

/* A request to go on as a WebSocket; anything else that wants to be upgraded stays a request. */
bool websocket_asked(const struct http1_request *q);
/* Remembers what the host's answer must prove; false: refused. */
bool websocket_begin(struct exchange *x, const struct http1_request *q);
void websocket_head(const struct exchange *x, struct buf *out);
/* 101: the exchange goes on as two streams of frames, or fails. */
void websocket_open(struct exchange *x, const struct http1_answer *a);
bool websocket_is_open(const struct websocket *w);
bool websocket_down(struct exchange *x); /* true: something moved */
bool websocket_takes(const struct exchange *x);
struct websocket *websocket_free(struct websocket *w);

/* ---- exchange_up.c ---- */

bool exchange_send_up(struct exchange *x, char *p, size_t n, bool last);

/* ---- exchange_down.c: true when something moved ---- */

bool exchange_answer(struct exchange *x);
bool exchange_down(struct exchange *x);

/* What a guest may see of a text of the host's. */
void exchange_scrubbed(struct exchange *x, struct buf *out, struct http1_text t);

/* ---- exchange_trailers.c ---- */

bool exchange_trailers_up(struct exchange *x, struct http1_text lines, struct buf *out,
			  struct egress_verdict *v);
void exchange_trailers_down(struct exchange *x, struct http1_text lines, struct buf *out);

/* ---- exchange.c ---- */

/* The head of an answer, as it goes down. */
void exchange_send_head(struct exchange *x, const struct http1_answer *a);

/* Does the monitor know everything that was decided? Nothing is sent, to either side, and no
 * address dialled before; false: the exchange is run again when it does. */
bool exchange_told(struct exchange *x);
/* NULL: there is none, or another exchange has it. */
struct upstream *exchange_connection(const struct exchange *x);
bool exchange_open(struct exchange *x, bool fresh); /* false: refused */
/* The host is to blame: `status`, or an answer cut short. */
void exchange_fail(struct exchange *x, int status, const char *what);
void exchange_cut(struct exchange *x);          /* the end in the middle of an answer */
struct buf *exchange_piece(struct exchange *x); /* empty room of the worker's, for one call */

/* ---- packed.c: what bodies hold packed ---- */

bool packed_open(struct exchange *x, enum scan_direction d, struct nest **ret,
		 struct egress_verdict *v);
/* false: *v says why it may not pass. */
bool packed_feed(struct exchange *x, struct nest *n, const char *p, size_t len, bool last,
		 struct egress_verdict *v);
/* Part of a body cannot be read; false: then it may not pass. */
bool packed_unread(struct exchange *x, enum unreadable why, struct egress_verdict *v);
/* Of what may pass, with `more` behind it, as much as nothing is to be waited for; the rest stays
 * in b. False: no room. */
bool packed_ready(const struct nest *n, struct buf *b, const char *p, size_t len, bool last,
		  size_t *ready);
void packed_gone(struct buf *b, size_t n);

/* ---- look.c: the leak scan of answers ---- */

void look_at(struct exchange *x, const char *p, size_t n, bool last);
/* The same for a body on its way down, as it is or as what it says. */
void look_at_body(struct exchange *x, const char *p, size_t n, bool last);

/* The same for what a model uses: nothing of a request that is no call of one. */
bool exchange_budget(struct exchange *x, const struct http1_request *q);
bool exchange_budget_up(struct exchange *x, const char *p, size_t n, bool last,
			struct egress_verdict *v);
void exchange_budget_answer(struct exchange *x, const struct http1_answer *a);
void exchange_budget_down(struct exchange *x, struct http1_text came, struct http1_text clean);
void exchange_budget_end(struct exchange *x, bool whole);

/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/worker.h - what the parts of the worker share; nobody else includes this. */
#pragma once

#include "base/sys/loop.h"
#include "egress/authority/client_cert.h"
#include "egress/authority/mint.h"
#include "egress/budget/budget.h"
#include "egress/credential/cred.h"
#include "egress/egress_plan.h"
#include "egress/event.h"
#include "egress/event_pack.h"
#include "egress/names/member_names.h"
#include "egress/names/resolve.h"
#include "egress/names/synth.h"
#include "egress/rules/allow.h"
#include "egress/rules/direct.h"
#include "egress/rules/questions.h"
#include "egress/rules/rate.h"
#include "egress/rules/upstream_proxy.h"
#include "egress/unpack/coding.h"
#include "egress/scan/nest.h"
#include "egress/scan/scan.h"
#include "egress/scan/scan_json.h"
#include "egress/scan/scrub.h"
#include "egress/authority/roots.h"
#include "egress/worker/upway.h"
#include "model/settings/door_spec.h"
#include "wire/http1.h"
#include "wire/http1_request.h"
#include "wire/link.h"

enum { IDLE_MAX = 256, EVENTS_MAX = 128 * 1024, LEAKS_MAX = 96 };

/* What looks like a secret is told once a kind, then counted. */
struct leak_count {
	char kind[128];
	bool redacted;
	uint32_t more; /* since it was told */
};

struct worker;
struct session;
struct oauth;
struct upstream;
struct dns_stream;

/* What was let out, a request or a tunnel, as the record will have it. */
struct transfer {
	struct egress_verdict v;
	char method[HTTP1_METHOD_MAX + 1];
	char credential[64]; /* the first that was put in */
	int status;
	uint64_t bytes_out, bytes_in;
	struct learned *learned; /* NULL: nothing is learned, or it is a tunnel */
	bool open; /* the monitor knows that it was let out, and not yet that it is over */
};

struct listener {
	struct loop_watch w; /* first */
	struct worker *k;
	enum door_kind kind;
	uint16_t port;
};

struct worker {
	struct loop *loop;
	struct loop_watch monitor; /* the control socket */
	struct egress_plan *plan;
	struct egress_rules *rules;
	struct questions *questions; /* NULL: nobody is asked */
	struct rate *rate;
	struct budget *budget;
	struct scanner *scanner;   /* NULL: leaks are not looked for */
	struct creds *creds;       /* NULL: there are none */
	struct oauth *oauth;       /* NULL: nobody logs in */
	struct scrubber *scrubber; /* NULL: there is nothing to scrub */
	struct mint *mint;
	struct client_certs *certs; /* NULL: there are none */
	struct unpack_side *unpack; /* the line to the unpacker */
	struct roots *roots;
	struct resolver *resolver;
	struct upstream_proxy chain; /* the proxy this machine uses */
	struct direct *direct;       /* and what it reaches without */
	struct synth *synth;
	struct member_names members; /* beside the sandbox, not behind the door */
	struct addr *own;            /* of this machine, the public ones */
	size_t n_own;
	int routes;  /* to ask the kernel where an address leads */
	size_t base; /* bytes in use before the first connection */
	bool six;    /* the door has IPv6 */
	int most; /* no descriptor from here on is a guest's: as many are kept for the other side */
	struct listener listeners[DOOR_SOCKETS_MAX];
	size_t n_listeners;
	struct session *sessions;
	struct session *held;       /* on what the monitor has not been told yet */
	struct dns_stream *streams; /* of DNS over TCP */
	struct upstream *idle;
	size_t n_idle;
	char events[EVENTS_MAX];            /* decisions that have not left yet, packed */
	size_t n_events;                    /* bytes of them */
	struct loop_timer tick;             /* set while anything has a deadline */
	struct leak_count leaks[LEAKS_MAX]; /* the last one is for all that find no place */
	size_t n_leaks;
	bool stalled;           /* the monitor does not read: nothing new is decided */
	struct link_pool links; /* those of guests and of hosts */
	struct buf piece;       /* of an answer, scrubbed, or of a request; kept for its room */
};

/* ---- report.c: evidence comes before forwarding ---- */

/* Decisions are collected and sent together, at the latest when report_flush is called. None is
 * lost: without room for one more the worker waits for its monitor. false: the monitor is gone,
 * nothing may be forwarded. */
bool report_allow(struct worker *k, const struct egress_verdict *v, struct http1_text method);
void report_deny(struct worker *k, const struct egress_verdict *v, struct http1_text method);
void report_question(struct worker *k, const struct egress_verdict *v, uint32_t id);
/* What was let out is over; by way of `u`, which may be NULL. */
void report_done(struct worker *k, const struct transfer *t, const struct upstream *u);
void report_usage(struct worker *k, const struct egress_verdict *v, const struct budget_told *told);
void report_unreached(struct worker *k, const struct upstream *u);
bool report_credential(struct worker *k, enum egress_event_kind kind,
		       const struct egress_verdict *v, const char *name);
/* A refresh token that took the place of that credential's value, for its file. */
bool report_renewed(struct worker *k, const char *name, const struct secret *s);
/* The first of its kind; those that follow are counted, and told by report_leaks. */
void report_leak(struct worker *k, const char *kind, bool redacted);
void report_leaks(struct worker *k);
/* May anybody learn that the name of the verdict was asked for? */
bool name_may_leave(struct worker *k, struct egress_verdict *v);
/* false: some could not be sent; the loop hears when they can. */
bool report_flush(struct worker *k);
/* Everything, waiting if need be; there is nothing more to be told. */
void report_last(struct worker *k);
void report_state(int monitor, enum egress_event_kind kind, const struct err *e);

/* ---- learn.c: what a request says, for whoever writes rules of it ---- */

struct learned {
	char path[EGRESS_LEARN_PATH + 1], fields[EGRESS_LEARN_FIELDS + 1];
};

struct egress_head;
/* NULL while nothing is learned, or without memory. `second`: it names a second path. */
struct learned *learn_request(const struct worker *k, const struct host *host,
			      const struct egress_head *h, bool websocket, bool second);

/* ---- upstream.c: the connection to the other side ---- */

typedef void upstream_fn(void *owner);

enum upstream_state {
	UP_RESOLVING,
	UP_CONNECTING,
	UP_SECURING, /* TLS to the machine's own proxy */
	UP_ASKING,
	UP_SHAKING,
	UP_OPEN,
	UP_FAILED
};

enum upstream_kind { UPSTREAM_PLAIN, UPSTREAM_TLS, UPSTREAM_H2 };

struct upstream {
	struct link link; /* first */
	struct worker *k;
	upstream_fn *stirs;
	void *owner;                 /* NULL: idle, in the pool */
	struct upstream *next, **at; /* of the pool */
	enum upstream_state state;
	struct host host;
	uint16_t port, dial_port;
	bool tls;
	bool offers;  /* HTTP/2 to the host, which may choose */
	bool pinned;  /* its address was written down by the operator */
	bool chained; /* by way of another proxy */
	bool direct;  /* not by way of it, as the operator wrote */
	bool reused;  /* may have been closed by the other side meanwhile */
	struct lookup *lookup;
	struct addr addrs[RESOLVE_MAX];
	size_t n_addrs, next_addr;
	struct addr at_addr; /* dialled */
	uint64_t deadline;
	struct egress_verdict failure; /* with UP_FAILED */
	struct upway way;              /* of HTTP/1, once it is open */
	enum http1_asked asked;
	bool chunks;            /* the body of the request goes in chunks */
	bool keeps_alive;       /* another request may follow */
	struct http1_body body; /* of the answer */
	size_t shown;           /* bytes that its way's caller was shown, and uses */
};

/* For a verdict that said yes. An idle one, or a new one on its way. NULL without memory. */
struct upstream *upstream_get(struct worker *k, const struct egress_verdict *v,
			      enum upstream_kind kind, bool fresh);
void upstream_own(struct upstream *u, upstream_fn *stirs, void *owner); /* tells of its events */
void upstream_step(struct upstream *u); /* after an event: resolving to open, or failed */
bool upstream_is_late(struct upstream *u, uint64_t now); /* then it has failed */
void upstream_release(struct upstream *u); /* back into the pool, in a state to be used again */
struct upstream *upstream_free(struct upstream *u);
extern const struct upway_ops upway_http1; /* of one that is open */
void upstream_tick(struct worker *k, uint64_t now);

/* ---- session.c: a connection of the guest ---- */

/* Whoever knocks now waits: the last quarter of the memory is for those at work. */
bool worker_is_short(const struct worker *k);
void session_open(struct listener *l, int fd);
void session_refuse(struct listener *l, int fd); /* there is no room for it */
void session_settle(struct worker *k); /* sends what was decided, then runs who was held for it */
void session_tick(struct worker *k, uint64_t now);
struct session *session_free(struct session *s);

/* ---- session_ask.c: names that a person is asked about ---- */

struct arrival;
/* egress_decide, with the answers that were given until now. */
bool asked_decide(struct worker *k, const struct arrival *from, const struct egress_request *q,
		  struct egress_verdict *v);
void asked_answer(struct worker *k, const struct egress_answer *a);
void asked_tick(struct worker *k, uint64_t now);

/* ---- names.c: the door's DNS ---- */

void names_packet(struct listener *l);
void names_stream(struct listener *l, int fd);
void names_tick(struct worker *k,
		uint64_t now); /* ends those that say nothing; all of them at the end of time */

/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_request.c - one request to a model, and what becomes of it.
 *
 *     sent -> head -> events ... -> whole
 *                '-> an error of the server, of the door, or nothing: again, after a pause, while
 *                    nothing of an answer was seen and the server may think better of it */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "apps/chat/chat_endpoint.h"
#include "apps/chat/chat_internal.h"
#include "base/bytes/jread.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "wire/client.h"

#define SECOND_US 1000000ULL
#define IDLE_US (120 * SECOND_US) /* nothing came */
#define CONNECT_US (10 * SECOND_US)
#define PAUSE_US (SECOND_US / 2) /* the first; each next is twice as long */
#define PAUSE_MAX_US (30 * SECOND_US)
#define TRIES 3
#define ERROR_MAX ((size_t)64 << 10)

struct attempt {
	const struct chat_line *l;
	const struct chat_ask *q;
	struct client *c;
	uint64_t pause; /* the server's wish; 0: none */
	bool again;     /* it may be tried once more */
};

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int late(const struct chat_ask *q, struct err *e)
{
	return clock_us() >= q->deadline
		       ? err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "the time for this run is over")
		       : err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				 "the model's server has said nothing for %llu seconds",
				 (unsigned long long)(IDLE_US / SECOND_US));
}

/* Waits for bytes (fd -1: for the time alone). */
static int chat_request_wait_for(const struct chat_ask *q, int fd, uint64_t until, struct err *e)
{
	struct pollfd w[] = { { .fd = fd, .events = POLLIN },
			      { .fd = q->signals, .events = POLLIN } };

	for (;;) {
		int n;

		if (clock_us() >= until)
			return fd < 0 ? 0 : late(q, e);
		n = wait_any(w, ARRAY_LEN(w), until);
		if (n < 0)
			return err_sys(e, "cannot wait");
		if (n > 0 && w[1].revents)
			return err_set(e, ERR_USAGE, EINTR, "interrupted");
		if (n > 0 && w[0].revents)
			return 0;
	}
}

/* ---- errors of the other side ---- */

/* The door's own word: what it refused, and why. */
static int door_refused(struct attempt *t, int status, const char *p, size_t n, struct err *e)
{
	CLEANUP(jread) struct jread *root = NULL;
	const char *what;
	const struct chat_endpoint *to = chat_line_to(t->l);
	struct err unused;

	(void)jread_parse(p, n, &root, &unused);
	what = jread_str(root, "what");
	t->again = status == 502 || status == 504;
	(void)err_set(e, ERR_UNAVAILABLE, EHOSTUNREACH,
		      "the model's server could not be asked: %.280s", what ? what : "no reason");
	return err_hint(
		e,
		"the role's base_url leads to port %u of %.100s: is that right, and does it "
		"answer this machine?",
		to->port, to->pin[0] ? to->pin : to->host);
}

static const char *advice(int status)
{
	switch (status) {
	case 401:
	case 403:
		return "is it this server's key, and still good? The role's api_key_env names the "
		       "variable";
	case 404:
		return "spec.model of the role: base_url ends before /chat/completions, and the "
		       "name is one the server knows";
	case 429:
		return "wait, or look at the quota of the key";
	default:
		return status >= 500 ? "try again later; the conversation is kept: --resume"
				     : "spec.model of the role";
	}
}

static int server_failed(struct attempt *t, int status, const char *p, size_t n, struct err *e)
{
	static const struct {
		int status;
		const char *text;
	} words[] = { { 401, "the key was refused" },
		      { 403, "the key may not do that" },
		      { 404, "there is no such model or address" },
		      { 413, "the conversation is too long for it" },
		      { 429, "it is asked too often, or a quota is used up" } };
	const char *what = status >= 500 ? "it has failed" : "it refused the request";
	char said[200];

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].status == status)
			what = words[i].text;
	t->again = status == 429 || status >= 500;
	chat_error_text(p, n, said, sizeof(said));
	return err_refuse(e, ERR_UNAVAILABLE, EREMOTEIO, advice(status),
			  "the model's server answered %d: %s%s%s", status, what,
			  said[0] ? ": " : "", said);
}

static uint64_t retry_after(const struct http1_answer *a)
{
	return sooner(http1_retry_after(a) * SECOND_US, PAUSE_MAX_US);
}

static int chat_request_failed(struct attempt *t, const struct http1_answer *a, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ERROR_MAX);
	int status = a->status;
	bool door = http1_field(a, "brig-reason").p != NULL;
	struct err unused;

	t->pause = retry_after(a);
	(void)client_read_all(t->c, &b, sooner(t->q->deadline, clock_us() + CONNECT_US), &unused);
	return door ? door_refused(t, status, buf_str(&b), b.len, e)
		    : server_failed(t, status, buf_str(&b), b.len, e);
}

/* ---- the answer ---- */

static bool is_stream(const struct http1_answer *a)
{
	struct http1_text t = http1_field(a, "Content-Type");

	return t.p && t.n >= 17 && strncasecmp(t.p, "text/event-stream", 17) == 0;
}

static int read_events(struct attempt *t, struct chat_events *x, struct err *e)
{
	char piece[16384];

	while (!x->over) {
		struct err nothing;
		ssize_t n = client_read(t->c, piece, sizeof(piece), clock_us() + 1, &nothing);

		if (n == 0)
			return chat_events_end(x, e);
		if (n == -EAGAIN) {
			if (chat_request_wait_for(t->q, client_fd(t->c),
						  sooner(t->q->deadline, clock_us() + IDLE_US),
						  e) < 0)
				return -e->code;
			continue;
		}
		if (n < 0)
			return err_set(e, ERR_UNAVAILABLE, EBADMSG, "the model's answer broke off");
		if (chat_events_feed(x, piece, (size_t)n, e) < 0)
			return -e->code;
	}
	return chat_events_end(x, e);
}

static int chat_request_read_answer(struct attempt *t, struct chat_answer *ret, struct err *e)
{
	const struct http1_answer *a;
	struct chat_events x;
	int r;

	if (chat_request_wait_for(t->q, client_fd(t->c),
				  sooner(t->q->deadline, clock_us() + IDLE_US), e) < 0)
		return -e->code;
	t->again = true;
	if (client_answer(t->c, sooner(t->q->deadline, clock_us() + IDLE_US), &a, e) < 0)
		return err_wrap(e, "the way to the model's server");
	t->again = false;
	if (a->status != 200)
		return chat_request_failed(t, a, e);
	chat_events_init(&x, !is_stream(a), ret, t->q->text, t->q->arg);
	r = read_events(t, &x, e);
	t->again = r < 0 && e->code == EREMOTEIO && !ret->text.len && !ret->n_calls;
	chat_events_done(&x);
	return r;
}

static int chat_request_try(struct attempt *t, struct chat_answer *ret, struct err *e)
{
	const struct chat_endpoint *to = chat_line_to(t->l);
	CLEANUP(client) struct client *c = NULL;
	struct client_request ask = { .method = "POST",
				      .target = to->url,
				      .type = "application/json",
				      .body = t->q->body,
				      .body_len = t->q->len };
	char lines[640], place[64];
	struct transport way;

	(void)snprintf(lines, sizeof(lines), "%sAccept: text/event-stream\r\n",
		       chat_line_field(t->l));
	ask.fields = lines;
	(void)snprintf(place, sizeof(place), "/proc/self/fd/%d", chat_line_place(t->l));
	t->again = false;
	t->pause = 0;
	if (transport_unix(place, clock_us() + CONNECT_US, &way, e) < 0)
		return err_wrap(e, "the door to the model's server");
	c = client_new(way, to->authority, e);
	if (!c || client_send(c, &ask, t->q->deadline, e) < 0)
		return err_wrap(e, "the door to the model's server");
	t->c = c;
	return chat_request_read_answer(t, ret, e);
}

/* Nobody's pauses fall together with another's. */
static uint64_t pause_of(int tries, uint64_t wish)
{
	uint64_t most = PAUSE_US << tries, dice = 0;

	(void)!getrandom(&dice, sizeof(dice), 0);
	return wish ? wish : most / 2 + dice % (most / 2);
}

int chat_line_ask(struct chat_line *l, const struct chat_ask *q, struct chat_answer *ret,
		  struct err *e)
{
	struct attempt t = { .l = l, .q = q };

	for (int tries = 0;; tries++) {
		uint64_t pause;
		struct err pausing = { 0 };

		if (chat_request_try(&t, ret, e) == 0)
			return 0;
		pause = pause_of(tries, t.pause);
		if (!t.again || tries + 1 >= TRIES || clock_us() + pause >= q->deadline)
			return -e->code;
		chat_answer_done(ret);
		if (chat_request_wait_for(q, -1, clock_us() + pause, &pausing) < 0) {
			*e = pausing;
			return -e->code;
		}
	}
}

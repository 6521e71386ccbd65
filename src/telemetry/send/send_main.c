/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/send/send_main.c - brig-send: posts one request that brig left on descriptor 0, and
 * ends.
 *
 * Trying -> waiting (the answer, or the failure to connect, is one of those OTLP lets a client
 * repeat) -> trying ... -> delivered or given up. Redirects are not followed: an address somebody
 * configured is the only one that gets to see the headers. Ends by itself when the time of the
 * request is over, whatever hangs. Exit status 0: delivered; 1: not; 2: no request. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"
#include "proc/confine.h"
#include "telemetry/send/request.h"
#include "wire/tcp.h"
#include "wire/tls_client.h"

#define TRIES_MAX 5
#define CONNECTS_MAX 3
#define FIRST_PAUSE_US (500 * 1000ULL)
#define ANSWER_MAX ((size_t)64 << 10)
#define SECOND_US 1000000ULL

enum { DELIVERED, NOT_DELIVERED, NO_REQUEST };

struct sender {
	struct send_request request;
	struct addrinfo *addresses;
	struct tls_client *tls; /* NULL: plain HTTP */
	uint64_t deadline;
};

/* What a try came to. */
struct result {
	int status;           /* of HTTP; 0: there was no answer */
	uint64_t retry_after; /* microseconds; 0: the server did not say */
};

static int send_main_give_up(const struct err *e, int status)
{
	(void)fprintf(stderr, "brig-send: %s\n", e->what);
	return status;
}

/* Reads at most n bytes; how many, or -errno. */
static ssize_t slurp(char *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = read(0, p + have, n - have);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0)
			break;
		have += r > 0 ? (size_t)r : 0;
	}
	return (ssize_t)have;
}

static int read_request(char **text, struct send_request *q, struct err *e)
{
	ssize_t n;

	*text = malloc(REQUEST_MAX);
	if (!*text)
		return err_nomem(e);
	n = slurp(*text, REQUEST_MAX);
	if (n < 0 || n == REQUEST_MAX)
		return err_set(e, ERR_CONFIG, EINVAL, "no request of at most %d bytes on stdin",
			       REQUEST_MAX);
	return request_parse(*text, (size_t)n, q, e);
}

static int open_client(struct sender *s, struct client **ret, struct err *e)
{
	struct transport t;
	int fd = tcp_connect(s->addresses, s->deadline, e);

	if (fd < 0)
		return fd;
	if (!s->tls)
		t = transport_fd(fd);
	else if (transport_tls(s->tls, fd, s->request.url.host, s->deadline, &t, e) < 0)
		return -e->code;
	*ret = client_new(t, s->request.url.authority, e);
	return *ret ? 0 : -e->code;
}

static uint64_t retry_after(const struct http1_answer *a)
{
	uint64_t seconds = http1_retry_after(a);

	return seconds < 3600 ? seconds * SECOND_US : 0;
}

static int send_main_try(struct sender *s, struct result *ret, struct err *e)
{
	CLEANUP(client) struct client *c = NULL;
	CLEANUP(buf) struct buf body = BUF_INIT(ANSWER_MAX);
	const struct send_request *q = &s->request;
	const struct client_request ask = { .method = "POST",
					    .target = q->url.target,
					    .fields = q->fields.len ? buf_str(&q->fields) : NULL,
					    .type = q->type,
					    .body = q->body,
					    .body_len = q->len };
	const struct http1_answer *a;

	*ret = (struct result){ 0 };
	if (open_client(s, &c, e) < 0 || client_send(c, &ask, s->deadline, e) < 0 ||
	    client_answer(c, s->deadline, &a, e) < 0)
		return -e->code;
	ret->status = a->status;
	ret->retry_after = retry_after(a);
	/* Read, so that the server does not find the door shut; what it says is of no use to us. */
	(void)client_read_all(c, &body, s->deadline, e);
	return 0;
}

/* As the protocol's specification lists them; a connection that failed may be tried again, too. */
static bool may_repeat(const struct result *r, const struct err *e)
{
	if (r->status)
		return r->status == 429 || r->status == 502 || r->status == 503 || r->status == 504;
	return e->code == ECONNREFUSED || e->code == ECONNRESET || e->code == EPIPE;
}

/* Doubles each time, and nobody's pauses fall together with another's. */
static uint64_t pause_of(int tries, const struct result *r)
{
	uint64_t most = FIRST_PAUSE_US << tries, dice = 0;

	if (r->retry_after)
		return r->retry_after;
	(void)!getrandom(&dice, sizeof(dice), 0);
	return most / 2 + dice % (most / 2);
}

static int send_main_deliver(struct sender *s, struct err *e)
{
	for (int tries = 0;; tries++) {
		struct result r;
		uint64_t pause;
		bool answered = send_main_try(s, &r, e) == 0;

		if (r.status >= 200 && r.status < 300)
			return 0;
		if (answered)
			(void)err_set(e, ERR_UNAVAILABLE, EREMOTEIO, "the server answered %d",
				      r.status);
		pause = pause_of(tries, &r);
		if (!may_repeat(&r, e) || tries + 1 >= (r.status ? TRIES_MAX : CONNECTS_MAX) ||
		    clock_us() + pause >= s->deadline)
			return -e->code;
		(void)nanosleep(&(struct timespec){ (time_t)(pause / SECOND_US),
						    (long)(pause % SECOND_US) * 1000 },
				NULL);
	}
}

static int send_main_prepare(struct sender *s, struct err *e)
{
	const struct url *u = &s->request.url;

	if (tcp_resolve(u->host, u->port, &s->addresses, e) < 0)
		return -e->code;
	if (u->tls && tls_client_new(&s->tls, e) < 0)
		return -e->code;
	return confine(CONFINE_SENDER, &(struct confine_want){ .port = u->port }, e);
}

int main(int argc, char **argv)
{
	CLEANUP(mem) char *text = NULL;
	struct sender s = { 0 };
	struct err e = { 0 };
	int r;

	if (argc > 1 || isatty(0)) {
		(void)fprintf(stderr, "usage: %s < REQUEST\nIt is started by brig.\n", argv[0]);
		return NO_REQUEST;
	}
	signals_ignore_pipe();
	if (fd_ensure_stdio() < 0 || read_request(&text, &s.request, &e) < 0)
		return send_main_give_up(&e, NO_REQUEST);
	s.deadline = clock_us() + s.request.timeout_ms * 1000;
	signals_kill_after(s.request.timeout_ms);
	r = send_main_prepare(&s, &e);
	if (r == 0)
		r = send_main_deliver(&s, &e);
	if (s.addresses)
		freeaddrinfo(s.addresses);
	(void)tls_client_free(s.tls);
	request_done(&s.request);
	_exit(r == 0 ? DELIVERED : send_main_give_up(&e, NOT_DELIVERED));
}

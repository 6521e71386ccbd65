/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_exchange.c - exchanges without a session: several at once over one connection, as a
 * protocol with streams would have them.
 *
 * The connection is a list of frames, each with the number of its lane; every lane is a downstream.
 * The other side is a socket of the loopback, where a pinned name leads. */
#include "egress/worker/exchange.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/worker/worker.h"
#include "unit.h"

enum { LANES = 2, FRAMES = 64 };
enum frame_kind { FRAME_CONTINUE, FRAME_HEAD, FRAME_DATA, FRAME_END, FRAME_REFUSED, FRAME_RESET };

struct lane {
	struct downstream d; /* first */
	struct exchange *x;
	int number;
	bool running, full;
	struct down_head head;
	char fields[256], reason[32];
	char body[300000];
	size_t len;
};

/* One connection of the guest. */
struct connection {
	struct lane lanes[LANES];
	struct {
		int lane;
		enum frame_kind kind;
	} frames[FRAMES];
	size_t n_frames;
	bool held;
};

static struct worker k;
static struct connection c;
static struct spec *spec;
static int server, monitor;

/* ---- the connection ---- */

static void frame(struct downstream *d, enum frame_kind kind)
{
	int lane = ((struct lane *)d)->number;

	/* Data that follows data of the same lane is one frame here. */
	if (kind == FRAME_DATA && c.n_frames && c.frames[c.n_frames - 1].lane == lane &&
	    c.frames[c.n_frames - 1].kind == kind)
		return;
	assert_true(c.n_frames < FRAMES);
	c.frames[c.n_frames].lane = lane;
	c.frames[c.n_frames++].kind = kind;
}

static bool on_head(struct downstream *d, const struct down_head *h)
{
	struct lane *l = (struct lane *)d;

	frame(d, h->status == 100 ? FRAME_CONTINUE : FRAME_HEAD);
	l->head = *h;
	(void)snprintf(l->fields, sizeof(l->fields), "%.*s", (int)h->fields.n,
		       h->fields.n ? h->fields.p : "");
	return true;
}

static bool on_data(struct downstream *d, const char *p, size_t n)
{
	struct lane *l = (struct lane *)d;

	frame(d, FRAME_DATA);
	assert_true(l->len + n < sizeof(l->body));
	memcpy(l->body + l->len, p, n);
	l->len += n;
	return true;
}

static bool on_end(struct downstream *d, struct http1_text trailers UNUSED)
{
	frame(d, FRAME_END);
	return true;
}

static bool is_full(const struct downstream *d)
{
	return ((const struct lane *)d)->full;
}

static void on_refuse(struct downstream *d, const struct down_refusal *r)
{
	struct lane *l = (struct lane *)d;

	frame(d, FRAME_REFUSED);
	l->head.status = r->status;
	(void)snprintf(l->reason, sizeof(l->reason), "%s", r->reason);
}

static void on_reset(struct downstream *d)
{
	frame(d, FRAME_RESET);
}

static void run(struct lane *l)
{
	bool moved = l->x && !l->running;
	struct link *up;

	l->d.turn = 0;
	while (moved) {
		l->running = true;
		while (exchange_step(l->x))
			;
		up = exchange_link(l->x);
		moved = !k.n_events && up && link_flush(up);
		if (!moved && up)
			assert_int_equal(link_wait(k.loop, up, !l->full), 0);
		l->running = moved;
	}
	c.held |= k.n_events > 0;
}

static void on_run(struct downstream *d)
{
	run((struct lane *)d);
}

static void on_hold(struct downstream *d UNUSED)
{
	c.held = true;
}

static const struct downstream_ops ops = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.full = is_full,
	.refuse = on_refuse,
	.reset = on_reset,
	.run = on_run,
	.hold = on_hold,
};

/* ---- the door around it ---- */

static void turn(void)
{
	loop_turn(k.loop, 1);
	if (!c.held)
		return;
	c.held = false;
	assert_true(report_flush(&k));
	for (int i = 0; i < LANES; i++)
		run(&c.lanes[i]);
}

static void nothing(struct loop_watch *w UNUSED, uint32_t events UNUSED)
{
}

static int fresh(void **state UNUSED)
{
	static struct egress_plan plan;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(a);
	struct err e = { 0 };
	char pin[64];
	int pair[2];

	memset(&k, 0, sizeof(k));
	memset(&c, 0, sizeof(c));
	for (int i = 0; i < LANES; i++) {
		c.lanes[i].d.ops = &ops;
		c.lanes[i].number = i;
	}
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(server, (struct sockaddr *)&a, n) == 0 && listen(server, 8) == 0 &&
	     getsockname(server, (struct sockaddr *)&a, &n) == 0);
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	monitor = pair[0];
	k.monitor = (struct loop_watch){ .fd = pair[1], .ready = nothing };
	spec = spec_new(&e);
	(void)snprintf(pin, sizeof(pin), "open.test=127.0.0.1:%u", ntohs(a.sin_port));
	must(spec && spec_set(spec, FIELD_EGRESS_ALLOW, "open.test:80", ORIGIN_FLAG, &e) == 0 &&
	     spec_set(spec, FIELD_EGRESS_RESOLVE, pin, ORIGIN_FLAG, &e) == 0);
	k.plan = &plan;
	must(loop_new(&k.loop, &e) == 0 && egress_rules_new(&spec->egress, &k.rules, &e) == 0 &&
	     rate_new(&spec->egress.rate, &k.rate, &e) == 0 &&
	     budget_new(&spec->egress, &k.budget, &e) == 0);
	loop_turn(k.loop, 0);
	return 0;
}

static int gone(void **state UNUSED)
{
	for (int i = 0; i < LANES; i++)
		c.lanes[i].x = exchange_free(c.lanes[i].x);
	while (k.idle)
		(void)upstream_free(k.idle);
	(void)egress_rules_free(k.rules);
	link_pool_done(&k.links);
	(void)rate_free(k.rate);
	(void)budget_free(k.budget);
	(void)loop_free(k.loop);
	spec = spec_free(spec);
	buf_done(&k.piece);
	(void)close(k.monitor.fd);
	(void)close(monitor);
	(void)close(server);
	return 0;
}

static struct lane *ask(int lane, const char *head)
{
	const struct arrival from = { .port = 80 };
	struct lane *l = &c.lanes[lane];
	struct http1_request q;
	const char *why;

	assert_int_equal(http1_read_request(head, strlen(head), &q, &why), strlen(head));
	l->x = exchange_new(&k, &l->d, &from, &q);
	assert_non_null(l->x);
	run(l);
	return l;
}

static void until(const struct lane *l, enum exchange_state state)
{
	for (int i = 0; i < 5000 && exchange_state(l->x) != state; i++)
		turn();
	assert_int_equal(exchange_state(l->x), state);
}

/* ---- the other side ---- */

/* The next connection, and what it says first: everything up to `end`. */
static int serve(const char *end, char *got, size_t room)
{
	struct pollfd p = { .fd = server, .events = POLLIN };
	size_t have = 0;

	for (int i = 0; i < 5000 && poll(&p, 1, 0) == 0; i++)
		turn();
	p.fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p.fd >= 0);
	got[0] = '\0';
	for (int i = 0; i < 5000 && !strstr(got, end); i++) {
		ssize_t n = recv(p.fd, got + have, room - 1 - have, MSG_DONTWAIT);

		have += n > 0 ? (size_t)n : 0;
		got[have] = '\0';
		turn();
	}
	assert_non_null(strstr(got, end));
	return p.fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What the monitor was told, in short: A lowed, D enied, E nded. */
static void told(char *out, size_t room)
{
	char packet[EGRESS_PACKET], *p;
	struct egress_event ev;
	size_t at = 0;
	ssize_t n, one;

	(void)report_flush(&k);
	while ((n = recv(monitor, packet, sizeof(packet), MSG_DONTWAIT)) > 0)
		for (p = packet; n && at + 1 < room; p += one, n -= one) {
			one = event_unpack(p, (size_t)n, &ev);
			assert_true(one > 0);
			out[at++] = ev.kind == EGRESS_EVENT_ALLOW  ? 'A'
				    : ev.kind == EGRESS_EVENT_DENY ? 'D'
								   : 'E';
		}
	out[at] = '\0';
}

/* ---- tests ---- */

static void two_at_once_over_one_connection_keep_apart(void **state UNUSED)
{
	struct lane *post =
		ask(0, "POST /a HTTP/1.1\r\nHost: open.test\r\nContent-Length: 6\r\n\r\n");
	struct lane *get = ask(1, "GET /b HTTP/1.1\r\nHost: open.test\r\n\r\n");
	char got[2][512], events[16], body[] = "abcdef";
	int up[2];

	up[0] = serve("\r\n\r\n", got[0], sizeof(got[0]));
	up[1] = serve("\r\n\r\n", got[1], sizeof(got[1]));
	assert_non_null(strstr(got[0], "POST /a "));
	assert_non_null(strstr(got[1], "GET /b "));
	assert_true(exchange_takes(post->x) && !exchange_takes(get->x));
	/* The second is answered while the first has not been asked to its end. */
	say(up[1], "HTTP/1.1 200 OK\r\nX-From: b\r\nContent-Length: 2\r\n\r\nbb");
	until(get, EXCHANGE_DONE);
	assert_int_equal(exchange_state(post->x), EXCHANGE_ASKS);
	exchange_body(post->x, body, 3, false);
	exchange_body(post->x, body + 3, 3, false);
	exchange_body(post->x, body, 0, true);
	assert_true(!exchange_takes(post->x));
	run(post);
	say(up[0], "HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3\r\naaa\r\n0\r\n\r\n");
	until(post, EXCHANGE_DONE);
	assert_int_equal(recv(up[0], got[0], sizeof(got[0]), MSG_DONTWAIT), 6);
	assert_memory_equal(got[0], "abcdef", 6);
	assert_memory_equal(get->body, "bb", 2);
	assert_string_equal(get->fields, "X-From: b\r\n");
	assert_true(get->head.body == DOWN_LENGTH && get->head.length == 2);
	assert_memory_equal(post->body, "aaa", 3);
	assert_true(post->head.body == DOWN_STREAM && post->head.status == 201);
	assert_int_equal(c.frames[0].lane, 1);
	assert_int_equal(c.frames[c.n_frames - 1].lane, 0);
	for (int i = 0; i < LANES; i++)
		c.lanes[i].x = exchange_free(c.lanes[i].x);
	told(events, sizeof(events));
	assert_string_equal(events, "AAEE");
	(void)close(up[0]);
	(void)close(up[1]);
}

static void one_that_has_no_room_does_not_stop_the_other(void **state UNUSED)
{
	enum { LONG = 200000 };
	static char text[LONG];
	struct lane *slow = ask(0, "GET /slow HTTP/1.1\r\nHost: open.test\r\n\r\n"), *fast;
	char got[512];
	int up[2];
	size_t sent = 0;

	memset(text, 's', sizeof(text));
	up[0] = serve("/slow", got, sizeof(got));
	slow->full = true;
	say(up[0], "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
	until(slow, EXCHANGE_ANSWERS);
	fast = ask(1, "GET /fast HTTP/1.1\r\nHost: open.test\r\n\r\n");
	up[1] = serve("/fast", got, sizeof(got));
	say(up[1], "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfast");
	until(fast, EXCHANGE_DONE);
	assert_int_equal(slow->len, 0);
	slow->full = false;
	run(slow);
	for (int i = 0; i < 5000 && exchange_state(slow->x) != EXCHANGE_DONE; i++) {
		ssize_t n = send(up[0], text, LONG - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		turn();
	}
	assert_int_equal(slow->len, LONG);
	assert_int_equal(exchange_state(slow->x), EXCHANGE_DONE);
	(void)close(up[0]);
	(void)close(up[1]);
}

static void a_refusal_is_for_one_alone(void **state UNUSED)
{
	struct lane *good = ask(0, "GET /a HTTP/1.1\r\nHost: open.test\r\n\r\n");
	struct lane *bad = ask(1, "GET /b HTTP/1.1\r\nHost: closed.test\r\n\r\n");
	char got[512], events[16];
	int up = serve("/a", got, sizeof(got));

	assert_int_equal(exchange_state(bad->x), EXCHANGE_REFUSED);
	assert_int_equal(bad->head.status, 403);
	assert_string_equal(bad->reason, "not-allowed");
	bad->x = exchange_free(bad->x);
	say(up, "HTTP/1.1 204 None\r\n\r\n");
	until(good, EXCHANGE_DONE);
	assert_true(good->head.body == DOWN_NONE && good->len == 0);
	good->x = exchange_free(good->x);
	told(events, sizeof(events));
	assert_string_equal(events, "ADE");
	(void)close(up);
}

static void an_answer_cut_short_resets_one_alone(void **state UNUSED)
{
	struct lane *cut = ask(0, "GET /a HTTP/1.1\r\nHost: open.test\r\n\r\n");
	struct lane *whole = ask(1, "GET /b HTTP/1.1\r\nHost: open.test\r\n\r\n");
	char got[512];
	int up[2];

	up[0] = serve("/a", got, sizeof(got));
	up[1] = serve("/b", got, sizeof(got));
	say(up[0], "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
	say(up[1], "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
	until(cut, EXCHANGE_ANSWERS);
	(void)close(up[0]);
	until(cut, EXCHANGE_CUT);
	assert_int_equal(c.frames[c.n_frames - 1].kind, FRAME_RESET);
	assert_int_equal(c.frames[c.n_frames - 1].lane, 0);
	cut->x = exchange_free(cut->x);
	say(up[1], "+other");
	until(whole, EXCHANGE_DONE);
	assert_memory_equal(whole->body, "half+other", 10);
	(void)close(up[1]);
}

static void nothing_is_dialled_before_the_monitor_knows(void **state UNUSED)
{
	struct lane *l = ask(0, "GET /a HTTP/1.1\r\nHost: open.test\r\n\r\n");
	struct pollfd p = { .fd = server, .events = POLLIN };
	char got[512];

	assert_int_equal(exchange_state(l->x), EXCHANGE_WAITS);
	assert_true(c.held && event_size(k.events, k.n_events) == (ssize_t)k.n_events);
	assert_int_equal(poll(&p, 1, 20), 0);
	(void)close(serve("/a", got, sizeof(got)));
	assert_int_equal(k.n_events, 0);
}

static void what_waits_for_its_body_is_told_to_go_on(void **state UNUSED)
{
	struct lane *l = ask(0, "PUT /a HTTP/1.1\r\nHost: open.test\r\nContent-Length: 1\r\n"
				"Expect: 100-continue\r\n\r\n");
	char got[512];
	int up = serve("\r\n\r\n", got, sizeof(got));

	say(up, "HTTP/1.1 100 Continue\r\n\r\n");
	for (int i = 0; i < 5000 && !c.n_frames; i++)
		turn();
	assert_int_equal(c.frames[0].kind, FRAME_CONTINUE);
	assert_int_equal(exchange_state(l->x), EXCHANGE_ASKS);
	assert_true(exchange_takes(l->x));
	(void)close(up);
	until(l, EXCHANGE_REFUSED);
	assert_int_equal(l->head.status, 502);
}

static void the_next_exchange_finds_the_same_upstream(void **state UNUSED)
{
	struct lane *l = ask(0, "GET /a HTTP/1.1\r\nHost: open.test\r\n\r\n");
	char got[512];
	int up = serve("/a", got, sizeof(got));
	struct pollfd p = { .fd = up, .events = POLLIN };

	say(up, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	until(l, EXCHANGE_DONE);
	l->x = exchange_free(l->x);
	assert_int_equal(k.n_idle, 1);
	l = ask(1, "GET /b HTTP/1.1\r\nHost: open.test\r\n\r\n");
	for (int i = 0; i < 5000 && poll(&p, 1, 0) == 0; i++)
		turn();
	assert_true(recv(up, got, sizeof(got), MSG_DONTWAIT) > 7);
	assert_memory_equal(got, "GET /b ", 7);
	assert_int_equal(k.n_idle, 0);
	/* Freed in the middle: its upstream is no one else's. */
	l->x = exchange_free(l->x);
	assert_int_equal(k.n_idle, 0);
	(void)close(up);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_at_once_over_one_connection_keep_apart, fresh,
						gone),
		cmocka_unit_test_setup_teardown(one_that_has_no_room_does_not_stop_the_other, fresh,
						gone),
		cmocka_unit_test_setup_teardown(a_refusal_is_for_one_alone, fresh, gone),
		cmocka_unit_test_setup_teardown(an_answer_cut_short_resets_one_alone, fresh, gone),
		cmocka_unit_test_setup_teardown(nothing_is_dialled_before_the_monitor_knows, fresh,
						gone),
		cmocka_unit_test_setup_teardown(what_waits_for_its_body_is_told_to_go_on, fresh,
						gone),
		cmocka_unit_test_setup_teardown(the_next_exchange_finds_the_same_upstream, fresh,
						gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

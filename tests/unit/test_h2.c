/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_h2.c - both ends of HTTP/2, one talking to the other, without a socket. */
#include "wire/h2/h2.h"

#include <malloc.h>

#include "unit.h"
#include "wire/h2/grpc.h"

static struct h2 *server, *client;
static struct h2_stream *opened[4 * H2_STREAMS_MAX];
static size_t n_opened;
static uint64_t now;

static void on_opened(void *arg UNUSED, struct h2_stream *s)
{
	s->owner = opened;
	opened[n_opened++ % ARRAY_LEN(opened)] = s;
}

static void on_stirs(void *arg UNUSED, struct h2_stream *s UNUSED)
{
}

static const struct h2_events events = { .opened = on_opened, .stirs = on_stirs };

static int fresh(void **state UNUSED)
{
	n_opened = 0;
	now = 1;
	server = h2_new(H2_SERVER, &events, NULL);
	client = h2_new(H2_CLIENT, &events, NULL);
	must(server && client);
	return 0;
}

static int gone(void **state UNUSED)
{
	server = h2_free(server);
	client = h2_free(client);
	return 0;
}

static bool move(struct h2 *from, struct h2 *to)
{
	const char *p;
	size_t n;
	bool moved = false;

	while ((n = h2_next(from, &p))) {
		assert_true(h2_feed(to, p, n, now));
		moved = true;
	}
	return moved;
}

static void talk(void)
{
	bool moved = true;

	while (moved) {
		moved = move(client, server);
		moved |= move(server, client);
	}
}

static struct http1_text text(const char *s)
{
	return (struct http1_text){ s, strlen(s) };
}

static struct h2_stream *ask(const char *head, bool body)
{
	struct h2_stream *s = h2_ask(client, text(head), body, opened);

	if (s)
		talk();
	return s;
}

static const char get[] = "GET /a?b HTTP/1.1\r\nHost: a.test\r\nX-Y: z\r\n\r\n";

static void heads_come_over_as_http1_writes_them(void **state UNUSED)
{
	struct h2_stream *c = ask("PUT /a?b HTTP/1.1\r\nHost: a.test\r\nX-Y: z\r\nConnection: k\r\n"
				  "TE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n",
				  true);
	struct h2_stream *s = opened[0];
	static const char want[] = "PUT /a?b HTTP/1.1\r\nHost: a.test\r\nx-y: z\r\nte: trailers\r\n"
				   "Transfer-Encoding: chunked\r\n\r\n";
	struct http1_text t;

	assert_int_equal(n_opened, 1);
	t = h2_heads(s);
	assert_int_equal(t.n, sizeof(want) - 1);
	assert_memory_equal(t.p, want, t.n);
	assert_true(s->https && !s->disagrees && !s->ended);
	assert_true(h2_answer(s, 200, text("X-A: b\r\nConnection: x\r\n"), true));
	assert_true(h2_add(s, "body", 4));
	h2_end(s, text("X-T: 1\r\n"));
	talk();
	t = h2_heads(c);
	assert_int_equal(t.n, strlen("HTTP/1.1 200 \r\nx-a: b\r\n\r\n"));
	assert_memory_equal(t.p, "HTTP/1.1 200 \r\nx-a: b\r\n\r\n", t.n);
	assert_true(c->ended);
	t = h2_trailers(c);
	assert_memory_equal(t.p, "x-t: 1\r\n", 8);
	h2_leave(s);
	h2_leave(c);
}

static void a_window_opens_as_its_owner_takes_what_came(void **state UNUSED)
{
	static char much[4 * H2_GUEST_WINDOW];
	struct h2_stream *c = ask("PUT / HTTP/1.1\r\nHost: a.test\r\n"
				  "Transfer-Encoding: chunked\r\n\r\n",
				  true);
	struct h2_stream *s = opened[0];
	size_t got = 0, n;
	char *p;

	assert_true(h2_add(c, much, sizeof(much)));
	assert_true(h2_full(c));
	h2_end(c, text(""));
	talk();
	assert_int_equal(s->in.b.len, H2_GUEST_WINDOW);
	assert_false(s->ended);
	while ((n = h2_piece(s, 10000, &p))) {
		got += n;
		talk();
		assert_true(s->in.b.len - s->in.at <= H2_GUEST_WINDOW);
	}
	assert_int_equal(got, sizeof(much));
	assert_true(s->ended);
	h2_leave(s);
	h2_leave(c);
}

static void a_connection_ends_after_so_many_streams(void **state UNUSED)
{
	size_t n = 0;

	while (h2_accepts(client)) {
		struct h2_stream *c = ask(get, false), *s = opened[n % ARRAY_LEN(opened)];

		assert_int_equal(n_opened, ++n);
		assert_true(h2_answer(s, 204, text(""), false));
		h2_leave(s);
		talk();
		assert_true(c->ended && c->closed);
		h2_leave(c);
	}
	assert_int_equal(n, H2_STREAMS_EVER);
	talk();
	assert_true(h2_over(server) && h2_streams(server) == 0);
}

/* Frames of the other side's own making. */
static bool raw(struct h2 *h, const char *p, size_t n, int times)
{
	for (int i = 0; i < times; i++) {
		const char *out;

		if (!h2_feed(h, p, n, now))
			return false;
		while (h2_next(h, &out))
			;
	}
	return !h2_over(h);
}

static void what_costs_nothing_has_a_budget_in_both_roles(void **state UNUSED)
{
	static const char ping[] = "\0\0\10\6\0\0\0\0\0abcdefgh", settings[] = "\0\0\0\4\0\0\0\0\0";

	talk();
	for (int i = 0; i < 2; i++) {
		struct h2 *h = i ? client : server;

		assert_true(raw(h, ping, 17, 400));
		assert_true(raw(h, settings, 9, 400));
		now += 10 * 1000000; /* a third of what there is comes back */
		assert_true(raw(h, ping, 17, 400));
		assert_false(raw(h, ping, 17, 1000));
	}
}

static void a_head_that_is_too_long_ends_its_stream_alone(void **state UNUSED)
{
	static char head[80000];
	struct h2_stream *c, *d;
	size_t n = (size_t)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: a.test\r\n");

	for (int i = 0; i < 82; i++)
		n += (size_t)snprintf(head + n, sizeof(head) - n, "x-%02d: %0780d\r\n", i, i);
	(void)snprintf(head + n, sizeof(head) - n, "\r\n");
	c = ask(head, false);
	assert_non_null(c);
	assert_true(c->closed && n_opened == 0);
	d = ask(get, false);
	assert_false(d->closed);
	assert_int_equal(n_opened, 1);
	h2_leave(c);
	h2_leave(d);
	h2_leave(opened[0]);
}

/* ---- a guest whose frames are its own ---- */

static char sent[1 << 20]; /* by the server, since it was asked */
static size_t n_sent;

static void say_raw(const char *p, size_t n)
{
	const char *out;
	size_t k;

	assert_true(h2_feed(server, p, n, now));
	while ((k = h2_next(server, &out)))
		if (n_sent + k <= sizeof(sent)) {
			memcpy(sent + n_sent, out, k);
			n_sent += k;
		}
}

static void frame(unsigned kind, unsigned flags, unsigned stream, const char *p, size_t n)
{
	char f[9 + 16384] = { (char)(n >> 16), (char)(n >> 8), (char)n, (char)kind, (char)flags };

	for (int i = 0; i < 4; i++)
		f[5 + i] = (char)(stream >> (24 - 8 * i));
	memcpy(f + 9, p, n);
	say_raw(f, 9 + n);
}

static void guest_begins(void)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	static const char heard[] = "\0\0\0\4\1\0\0\0\0";

	n_sent = 0;
	say_raw(preface, sizeof(preface) - 1);
	say_raw(heard, sizeof(heard) - 1);
}

static void guest_asks(unsigned stream, bool end)
{
	static const char head[] = "\x82\x87\x84\x01\6a.test";

	frame(1, end ? 5 : 4, stream, head, sizeof(head) - 1);
}

/* How often it has said GOAWAY, and the last stream that the last of them names. */
static unsigned goaways(unsigned *last, const char **ping)
{
	unsigned n = 0;

	*ping = NULL;
	for (size_t i = 0, len; i + 9 <= n_sent; i += 9 + len) {
		const unsigned char *f = (const unsigned char *)sent + i;

		len = (size_t)(f[0] << 16 | f[1] << 8 | f[2]);
		if (f[3] == 6)
			*ping = sent + i + 9;
		if (f[3] != 7)
			continue;
		*last = ((unsigned)f[9] << 24 | f[10] << 16 | f[11] << 8 | f[12]) & 0x7fffffff;
		n++;
	}
	return n;
}

static void answer_last(void)
{
	struct h2_stream *s = opened[(n_opened - 1) % ARRAY_LEN(opened)];

	assert_true(h2_answer(s, 204, text(""), false));
	h2_leave(s);
	say_raw("", 0);
}

/* As curl does with each that it has read. */
static void what_was_answered_may_be_reset(void **state UNUSED)
{
	static const char code[] = "\0\0\0\5";
	unsigned id = 1;

	guest_begins();
	for (; id < 6 * H2_CALM; id += 2) {
		guest_asks(id, true);
		answer_last();
		frame(3, 0, id, code, 4);
	}
	assert_int_equal(n_opened, 3 * H2_CALM);
	for (unsigned i = 2; i < H2_CALM; i++) { /* once; two were SETTINGS */
		assert_false(h2_over(server));
		frame(3, 0, 1, code, 4);
	}
	assert_false(h2_over(server));
	frame(3, 0, 1, code, 4);
	assert_true(h2_over(server));
}

/* One stream stays open, so there is no moment without any. */
static unsigned busy_until_told(struct h2_stream **first)
{
	unsigned last, id = 3;
	const char *ping;

	guest_begins();
	guest_asks(1, true);
	*first = opened[0];
	for (; id < 8 * H2_STREAMS_EVER; id += 2) {
		n_sent = 0;
		guest_asks(id, true);
		answer_last();
		if (goaways(&last, &ping)) {
			assert_int_equal(last, 0x7fffffff);
			assert_non_null(ping);
			break;
		}
	}
	assert_int_equal(n_opened, H2_STREAMS_EVER + H2_STREAMS_MAX);
	return id;
}

static void what_is_on_its_way_when_a_connection_ends_is_answered(void **state UNUSED)
{
	struct h2_stream *first;
	unsigned id = busy_until_told(&first), last;
	char echo[8];
	const char *ping;
	size_t n = n_opened;

	(void)goaways(&last, &ping);
	memcpy(echo, ping, 8);
	for (int i = 0; i < 50; i++) {
		guest_asks(id += 2, true);
		answer_last();
	}
	assert_int_equal(n_opened, n + 50);
	n_sent = 0;
	frame(6, 1, 0, echo, 8);
	assert_int_equal(goaways(&last, &ping), 1);
	assert_int_equal(last, id);
	guest_asks(id + 2, true); /* it was told, twice */
	assert_int_equal(n_opened, n + 50);
	assert_false(h2_over(server));
	h2_cancel(first);
	h2_leave(first);
	say_raw("", 0);
	assert_true(h2_over(server));
}

static void who_does_not_listen_is_not_listened_to(void **state UNUSED)
{
	struct h2_stream *first;
	unsigned id = busy_until_told(&first), last = 0;
	const char *ping;

	n_sent = 0;
	while (!goaways(&last, &ping)) {
		guest_asks(id += 2, true);
		answer_last();
	}
	assert_int_equal(n_opened, H2_STREAMS_EVER + H2_STREAMS_LATE);
	assert_int_equal(last, id);
	guest_asks(id + 2, true);
	assert_int_equal(n_opened, H2_STREAMS_EVER + H2_STREAMS_LATE);
	h2_leave(first);
}

/* All a guest may open, each as full as it may be, and nobody takes anything. */
static void many_streams_take_so_much_memory(void **state UNUSED)
{
	static char bytes[16384];
	size_t before = mallinfo2().uordblks, taken;

	guest_begins();
	for (unsigned id = 1; id < 2 * H2_STREAMS_MAX; id += 2) {
		guest_asks(id, false);
		for (size_t i = 0; i < H2_GUEST_WINDOW / sizeof(bytes); i++)
			frame(0, 0, id, bytes, sizeof(bytes));
	}
	assert_int_equal(n_opened, H2_STREAMS_MAX);
	for (size_t i = 0; i < n_opened; i++)
		assert_int_equal(opened[i]->in.b.len, H2_GUEST_WINDOW);
	taken = mallinfo2().uordblks - before;
	assert_true(taken <= (size_t)H2_STREAMS_MAX * (H2_GUEST_WINDOW * 2 + 16384));
	n_sent = 0;
	guest_asks(2 * H2_STREAMS_MAX + 1, false); /* one more is refused */
	assert_int_equal(n_opened, H2_STREAMS_MAX);
	frame(0, 0, 1, bytes, 1); /* one byte more, too */
	assert_int_equal(opened[0]->in.b.len, H2_GUEST_WINDOW);
}

static void messages_of_grpc_end_where_they_end(void **state UNUSED)
{
	static const char two[] = "\0\0\0\0\3abc\1\0\0\0\0\0\0\0\1\0";
	struct grpc_messages m = { .on = true };

	assert_false(grpc_pass(&m, two, 4));
	assert_false(grpc_pass(&m, two + 4, 3));
	assert_true(grpc_pass(&m, two + 7, 1));
	assert_true(grpc_pass(&m, two + 8, 5));
	assert_false(grpc_pass(&m, two + 13, 3));
	m = (struct grpc_messages){ .on = true };
	assert_true(grpc_pass(&m, two, 13));
	m.on = false;
	assert_false(grpc_pass(&m, two, 8));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(heads_come_over_as_http1_writes_them, fresh, gone),
	cmocka_unit_test_setup_teardown(a_window_opens_as_its_owner_takes_what_came, fresh, gone),
	cmocka_unit_test_setup_teardown(a_connection_ends_after_so_many_streams, fresh, gone),
	cmocka_unit_test_setup_teardown(what_costs_nothing_has_a_budget_in_both_roles, fresh, gone),
	cmocka_unit_test_setup_teardown(a_head_that_is_too_long_ends_its_stream_alone, fresh, gone),
	cmocka_unit_test_setup_teardown(what_is_on_its_way_when_a_connection_ends_is_answered,
					fresh, gone),
	cmocka_unit_test_setup_teardown(what_was_answered_may_be_reset, fresh, gone),
	cmocka_unit_test_setup_teardown(who_does_not_listen_is_not_listened_to, fresh, gone),
	cmocka_unit_test_setup_teardown(many_streams_take_so_much_memory, fresh, gone),
	cmocka_unit_test(messages_of_grpc_end_where_they_end),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_h2.c - both ends of HTTP/2, one talking to the other, without a socket. */
#include "wire/h2/h2.h"

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
	cmocka_unit_test(messages_of_grpc_end_where_they_end),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

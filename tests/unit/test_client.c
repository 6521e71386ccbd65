/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_client.c - one connection: requests in a row, deadlines, streams, a peer that lies. */
#include <sys/socket.h>
#include <sys/un.h>

#include "unit.h"

#include "base/sys/clock.h"
#include "base/text/buf.h"
#include "wire/client.h"

#define SHORT_US 50000

/* The peer is a socket of ours: what it will say is in the kernel's queue before it is asked. */
static struct client *connected(int *peer)
{
	struct err e = { 0 };
	int ends[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	*peer = ends[1];
	return client_new(transport_fd(ends[0]), "engine", &e);
}

static void says(int peer, const char *text)
{
	must(write(peer, text, strlen(text)) == (ssize_t)strlen(text));
}

static int ask(struct client *c, const char *method, const struct http1_answer **a, struct err *e)
{
	const struct client_request q = { .method = method, .target = "/x" };
	int r = client_send(c, &q, 0, e);

	return r < 0 ? r : client_answer(c, clock_us() + SHORT_US, a, e);
}

static void requests_follow_one_another(void **state)
{
	const struct http1_answer *a;
	struct err e = { 0 };
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	for (int i = 0; i < 3; i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(64);
		char heard[512];
		ssize_t n;

		says(peer,
		     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n");
		assert_int_equal(ask(c, "POST", &a, &e), 0);
		assert_int_equal(a->status, 200);
		assert_false(client_reusable(c));
		assert_int_equal(client_read_all(c, &b, 0, &e), 0);
		assert_string_equal(buf_str(&b), "OK");
		assert_true(client_reusable(c));
		n = read(peer, heard, sizeof(heard) - 1);
		must(n > 0);
		heard[n] = '\0';
		assert_non_null(strstr(heard, "POST /x HTTP/1.1\r\nHost: engine\r\n"));
		assert_non_null(strstr(heard, "\r\nContent-Length: 0\r\n"));
	}
	(void)close(peer);
}

static void a_body_goes_along(void **state)
{
	const struct client_request q = { .method = "POST",
					  .target = "/c",
					  .fields = "X: y\r\n",
					  .type = "application/json",
					  .body = "{}",
					  .body_len = 2 };
	struct err e = { 0 };
	char heard[512];
	ssize_t n;
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	assert_int_equal(client_send(c, &q, 0, &e), 0);
	n = read(peer, heard, sizeof(heard) - 1);
	must(n > 0);
	heard[n] = '\0';
	assert_non_null(strstr(heard, "X: y\r\n"));
	assert_non_null(strstr(heard, "Content-Length: 2\r\n\r\n{}"));
	(void)close(peer);
}

static void a_silent_peer_costs_the_deadline_and_no_more(void **state)
{
	const struct http1_answer *a;
	struct err e = { 0 };
	uint64_t from = clock_us();
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	assert_int_equal(ask(c, "GET", &a, &e), -ETIMEDOUT);
	assert_true(clock_us() - from >= SHORT_US);
	assert_false(client_reusable(c));
	assert_int_equal(ask(c, "GET", &a, &e), -ENOTCONN);
	(void)close(peer);
}

static void a_stream_that_pauses_can_be_read_on(void **state)
{
	const struct http1_answer *a;
	struct err e = { 0 };
	char got[8];
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	says(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
	assert_int_equal(ask(c, "GET", &a, &e), 0);
	assert_int_equal(client_read(c, got, sizeof(got), 0, &e), 1);
	assert_int_equal(client_read(c, got, sizeof(got), clock_us() + 1000, &e), -EAGAIN);
	says(peer, "1\r\nb\r\n0\r\n\r\n");
	assert_int_equal(client_read(c, got, sizeof(got), 0, &e), 1);
	assert_int_equal(got[0], 'b');
	assert_int_equal(client_read(c, got, sizeof(got), 0, &e), 0);
	(void)close(peer);
}

static void an_interim_answer_is_passed_over(void **state)
{
	const struct http1_answer *a;
	struct err e = { 0 };
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	says(peer, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
		   "HTTP/1.1 204 No\r\nA: b\r\n\r\n");
	assert_int_equal(ask(c, "GET", &a, &e), 0);
	assert_int_equal(a->status, 204);
	assert_true(http1_text_is(http1_field(a, "A"), "b"));
	assert_true(client_reusable(c));
	(void)close(peer);
}

static void a_hijacked_stream_loses_nothing(void **state)
{
	const struct client_request q = { .method = "POST", .target = "/a", .upgrade = "tcp" };
	CLEANUP(buf) struct buf b = BUF_INIT(64);
	const struct http1_answer *a;
	struct transport t;
	struct err e = { 0 };
	char got[8] = { 0 };
	short wait;
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	says(peer, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly");
	assert_int_equal(client_send(c, &q, 0, &e), 0);
	assert_int_equal(client_answer(c, 0, &a, &e), 0);
	assert_int_equal(a->framing, HTTP1_UPGRADED);
	t = client_hijack(c, &b);
	assert_string_equal(buf_str(&b), "early");
	says(peer, "late");
	assert_int_equal(t.read(t.arg, got, sizeof(got), &wait), 4);
	assert_string_equal(got, "late");
	t.close(t.arg);
	(void)close(peer);
}

static void bytes_nobody_asked_for_end_the_connection(void **state)
{
	const struct http1_answer *a;
	struct err e = { 0 };
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	says(peer, "HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(ask(c, "GET", &a, &e), 0);
	assert_false(client_reusable(c));
	(void)close(peer);
}

static void an_answer_cut_short_is_an_error(void **state)
{
	CLEANUP(buf) struct buf b = BUF_INIT(64);
	const struct http1_answer *a;
	struct err e = { 0 };
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	says(peer, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
	assert_int_equal(ask(c, "GET", &a, &e), 0);
	(void)close(peer);
	assert_int_equal(client_read_all(c, &b, 0, &e), -ECONNRESET);
}

static void an_endless_answer_meets_the_buffers_maximum(void **state)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4);
	const struct http1_answer *a;
	struct err e = { 0 };
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	says(peer, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789");
	assert_int_equal(ask(c, "GET", &a, &e), 0);
	assert_int_equal(client_read_all(c, &b, 0, &e), -EMSGSIZE);
	(void)close(peer);
}

static void a_target_that_needs_quoting_is_not_sent(void **state)
{
	static const char *const bad[] = { "/a b", "/a\r\nX: y", "/a\x7f", "/\xc3\xa4", "/\x80" };
	int peer;
	CLEANUP(client) struct client *c = connected(&peer);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct client_request q = { .method = "GET", .target = bad[i] };
		struct err e = { 0 };

		assert_int_equal(client_send(c, &q, 0, &e), -EINVAL);
	}
	(void)close(peer);
}

static void ways_not_to_connect_are_told_apart(void **state)
{
	char folder[] = "/tmp/brig-client-XXXXXX", path[64];
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct transport t;
	struct err e = { 0 };
	int fd;

	(void)state;
	must(mkdtemp(folder) != NULL);
	(void)snprintf(path, sizeof(path), "%s/s", folder);
	assert_int_equal(transport_unix(path, 0, &t, &e), -ENOENT);
	memcpy(a.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	assert_int_equal(transport_unix(path, 0, &t, &e), -ECONNREFUSED);
	must(listen(fd, 1) == 0);
	assert_int_equal(transport_unix(path, 0, &t, &e), 0);
	t.close(t.arg);
	(void)close(fd);
	must(unlink(path) == 0 && rmdir(folder) == 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(requests_follow_one_another),
	cmocka_unit_test(a_body_goes_along),
	cmocka_unit_test(a_silent_peer_costs_the_deadline_and_no_more),
	cmocka_unit_test(a_stream_that_pauses_can_be_read_on),
	cmocka_unit_test(an_interim_answer_is_passed_over),
	cmocka_unit_test(a_hijacked_stream_loses_nothing),
	cmocka_unit_test(bytes_nobody_asked_for_end_the_connection),
	cmocka_unit_test(an_answer_cut_short_is_an_error),
	cmocka_unit_test(an_endless_answer_meets_the_buffers_maximum),
	cmocka_unit_test(a_target_that_needs_quoting_is_not_sent),
	cmocka_unit_test(ways_not_to_connect_are_told_apart),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

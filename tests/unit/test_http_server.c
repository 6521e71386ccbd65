/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_http_server.c - one loop, a service that answers now, later or in a stream. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "unit.h"

#include "base/sys/clock.h"
#include "http/http.h"

struct fixture {
	struct loop *loop;
	struct http_server *server;
	struct http_call *later; /* a call that waits for its answer */
	int served, gone, rooms;
	struct sockaddr_un at;
};

static bool admit(void *arg, struct http_call *c)
{
	struct err e;

	(void)arg;
	if (strcmp(c->path, "/no") != 0)
		return true;
	(void)problem_say(PROBLEM_FORBIDDEN, &e, "no");
	http_problem(c, PROBLEM_FORBIDDEN, &e);
	return false;
}

static void gone(void *arg)
{
	struct fixture *f = arg;

	f->gone++;
	f->later = NULL;
}

/* As much as there is room for, each time. */
static void room(void *arg)
{
	struct fixture *f = arg;
	static char data[4096];

	memset(data, 'x', sizeof(data));
	f->rooms++;
	while (http_room(f->later))
		http_event(f->later, "e", 1, data, sizeof(data));
}

static void serve(void *arg, struct http_call *c)
{
	struct fixture *f = arg;

	f->served++;
	c->arg = f;
	c->gone = gone;
	if (strcmp(c->path, "/later") == 0) {
		f->later = c;
	} else if (strcmp(c->path, "/stream") == 0) {
		f->later = c;
		if (http_stream(c, NULL))
			c->room = room;
	} else {
		http_answer(c, 200, NULL, "text/plain", c->body, c->body_len);
	}
}

static void begin(struct fixture *f)
{
	const struct http_service by = { .admit = admit, .serve = serve, .arg = f };
	struct err e = { 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*f = (struct fixture){ .at = { .sun_family = AF_UNIX } };
	(void)snprintf(f->at.sun_path, sizeof(f->at.sun_path), "/tmp/brig-http.%d", (int)getpid());
	(void)unlink(f->at.sun_path);
	must(fd >= 0 && bind(fd, (struct sockaddr *)&f->at, sizeof(f->at)) == 0);
	must(listen(fd, 16) == 0);
	must(loop_new(&f->loop, &e) == 0);
	must(http_new(f->loop, &by, &f->server, &e) == 0);
	must(http_listen(f->server, fd, true, "", &e) == 0);
}

static void finish(struct fixture *f)
{
	(void)http_free(f->server);
	(void)loop_free(f->loop);
	(void)unlink(f->at.sun_path);
}

static void turn(struct fixture *f, int times)
{
	for (int i = 0; i < times; i++) {
		loop_turn(f->loop, 10);
		http_settle(f->server);
	}
}

static int dial(struct fixture *f, const char *say)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && connect(fd, (struct sockaddr *)&f->at, sizeof(f->at)) == 0);
	must(write(fd, say, strlen(say)) == (ssize_t)strlen(say));
	turn(f, 3);
	return fd;
}

static ssize_t hear(int fd, char *out, size_t n)
{
	ssize_t r = recv(fd, out, n - 1, MSG_DONTWAIT);

	out[r > 0 ? r : 0] = '\0';
	return r;
}

#define HOST "Host: localhost\r\n"

static void calls_in_a_row_are_answered_in_order(void **state)
{
	struct fixture f;
	char heard[4096];
	int fd;

	(void)state;
	begin(&f);
	fd = dial(&f, "POST /a HTTP/1.1\r\n" HOST
		      "Content-Length: 3\r\n\r\noneHEAD /b HTTP/1.1\r\n" HOST
		      "\r\nPOST /c HTTP/1.1\r\n" HOST
		      "Transfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n");
	assert_true(hear(fd, heard, sizeof(heard)) > 0);
	assert_int_equal(f.served, 3);
	assert_non_null(strstr(heard, "\r\n\r\none"));
	assert_non_null(strstr(heard, "\r\n\r\ntwo"));
	assert_int_equal(http_connections(f.server), 1);
	(void)close(fd);
	turn(&f, 2);
	assert_int_equal(http_connections(f.server), 0);
	finish(&f);
}

static void a_refused_call_with_a_body_ends_the_connection(void **state)
{
	struct fixture f;
	char heard[4096];
	int fd;

	(void)state;
	begin(&f);
	fd = dial(&f, "POST /no HTTP/1.1\r\n" HOST "Content-Length: 30\r\n\r\n");
	assert_true(hear(fd, heard, sizeof(heard)) > 0);
	assert_non_null(strstr(heard, " 403 "));
	assert_non_null(strstr(heard, "Connection: close"));
	assert_int_equal(f.served, 0);
	(void)close(fd);
	turn(&f, 2);
	finish(&f);
}

static void a_caller_who_leaves_is_told_of_once(void **state)
{
	struct fixture f;
	int fd;

	(void)state;
	begin(&f);
	fd = dial(&f, "GET /later HTTP/1.1\r\n" HOST "\r\n");
	assert_non_null(f.later);
	(void)close(fd);
	turn(&f, 3);
	assert_int_equal(f.gone, 1);
	assert_int_equal(http_connections(f.server), 0);
	fd = dial(&f, "GET /later HTTP/1.1\r\n" HOST "\r\n");
	finish(&f);
	assert_int_equal(f.gone, 2); /* the server's end is the caller's */
	(void)close(fd);
}

static void a_later_answer_arrives_and_the_connection_stays(void **state)
{
	struct fixture f;
	char heard[4096];
	int fd;

	(void)state;
	begin(&f);
	fd = dial(&f, "GET /later HTTP/1.1\r\n" HOST "\r\nPOST /x HTTP/1.1\r\n" HOST
		      "Content-Length: 1\r\n\r\n!");
	assert_int_equal(f.served, 1); /* one at a time */
	http_answer(f.later, 200, NULL, "text/plain", "now", 3);
	turn(&f, 3);
	assert_true(hear(fd, heard, sizeof(heard)) > 0);
	assert_non_null(strstr(heard, "\r\n\r\nnow"));
	assert_int_equal(f.served, 2);
	assert_int_equal(f.gone, 0);
	(void)close(fd);
	finish(&f);
}

/* A stream fills its share and waits; nothing grows while nobody reads. */
static void a_stream_that_nobody_reads_stops_at_its_bound(void **state)
{
	static char heard[1 << 20];
	struct fixture f;
	size_t got = 0;
	ssize_t n;
	int fd, rooms;

	(void)state;
	begin(&f);
	fd = dial(&f, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
	turn(&f, 5);
	rooms = f.rooms;
	turn(&f, 5);
	assert_int_equal(f.rooms, rooms);
	assert_true(http_room(f.later) == 0);
	for (int i = 0; i < 20; i++) {
		while ((n = recv(fd, heard, sizeof(heard), MSG_DONTWAIT)) > 0)
			got += (size_t)n;
		turn(&f, 2);
	}
	assert_true(f.rooms > rooms && got > HTTP_WAITING_MAX);
	(void)close(fd);
	turn(&f, 3);
	assert_int_equal(f.gone, 1);
	finish(&f);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(calls_in_a_row_are_answered_in_order),
	cmocka_unit_test(a_refused_call_with_a_body_ends_the_connection),
	cmocka_unit_test(a_caller_who_leaves_is_told_of_once),
	cmocka_unit_test(a_later_answer_arrives_and_the_connection_stays),
	cmocka_unit_test(a_stream_that_nobody_reads_stops_at_its_bound),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

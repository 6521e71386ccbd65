/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_conduit.c - what is taken for a socket of the sandbox's network, and whom it reaches.
 */
#include "unit.h"

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "proc/lend.h"
#include "proc/supervisor.h"
#include "sandbox/ports/conduit.h"

static int tcp(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	must(fd >= 0);
	return fd;
}

static uint16_t bind_somewhere(int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);

	must(bind(fd, (struct sockaddr *)&a, n) == 0);
	must(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	return ntohs(a.sin_port);
}

static bool closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

/* Since Linux 5.14. */
static bool networks_have_names(void)
{
	int fd = tcp(AF_INET);
	uint64_t cookie;
	socklen_t n = sizeof(cookie);
	int r = getsockopt(fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &cookie, &n);

	(void)close(fd);
	return r == 0;
}

static void what_init_must_not_send_is_not_taken(void **state UNUSED)
{
	int pair[2], listening = tcp(AF_INET);
	struct lent l;

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	(void)bind_somewhere(listening);
	must(listen(listening, 1) == 0);
	const int fds[] = { pair[0],      socket(AF_INET, SOCK_DGRAM, 0),
			    listening,    open("/dev/null", O_RDONLY),
			    tcp(AF_INET), tcp(AF_INET6) };

	/* The last two are of our own network. */
	for (size_t i = 0; i < ARRAY_LEN(fds) - (networks_have_names() ? 0 : 2); i++) {
		l = lend_take(&fds[i], 1);
		assert_int_equal(l.v4, -1);
		assert_int_equal(l.v6, -1);
		assert_true(closed(fds[i]));
	}
	(void)close(pair[1]);
}

/* In a network of its own, as init is. */
static void lend_from_elsewhere(void *control)
{
	must(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	lend_sockets(*(int *)control);
}

static void what_init_lends_is_taken(void **state UNUSED)
{
	struct supervisor_msg m;
	int pair[2], fds[8];
	size_t n = ARRAY_LEN(fds);
	struct lent l;

	must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	assert_true(in_child(lend_from_elsewhere, &pair[1], 10));
	assert_int_equal(fd_recv(pair[0], &m, sizeof(m), fds, &n), sizeof(m));
	assert_int_equal(m.said, SUPERVISOR_SOCKETS);
	assert_int_equal(n, LEND_FDS);
	l = lend_take(fds, n);
	assert_true(l.v4 >= 0 && l.v6 >= 0);
	lend_done(&l);
	assert_true(closed(fds[0]) && closed(fds[1]));
	(void)close(pair[0]);
	(void)close(pair[1]);
}

struct line {
	struct loop *loop;
	struct conduit *c;
	int client; /* who has connected to the host's end */
	bool over;
};

static void on_over(void *arg, struct conduit *c)
{
	struct line *l = arg;

	assert_ptr_equal(c, l->c);
	l->c = conduit_free(c);
	l->over = true;
}

static void begin(struct line *l, uint16_t port)
{
	int listening = tcp(AF_INET), host;
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(bind_somewhere(listening)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd p = { .fd = listening, .events = POLLIN };
	struct err e;

	*l = (struct line){ .client = socket(AF_INET, SOCK_STREAM, 0) };
	must(listen(listening, 1) == 0);
	must(connect(l->client, (struct sockaddr *)&a, sizeof(a)) == 0);
	must(poll(&p, 1, 5000) == 1);
	host = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	(void)close(listening);
	assert_int_equal(loop_new(&l->loop, &e), 0);
	l->c = conduit_new(l->loop, host, (struct conduit_port){ .port = port }, on_over, l);
	assert_non_null(l->c);
	assert_true(conduit_waits(l->c));
}

static void turn(struct line *l)
{
	for (int i = 0; i < 100 && !l->over; i++)
		loop_turn(l->loop, 20);
}

static void end(struct line *l)
{
	(void)conduit_free(l->c);
	(void)close(l->client);
	(void)loop_free(l->loop);
}

static void a_connection_to_itself_is_nobody(void **state UNUSED)
{
	struct lent sockets = { tcp(AF_INET), -1 };
	uint16_t port = bind_somewhere(sockets.v4);
	struct sockaddr_in self = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int control = tcp(AF_INET);
	struct line l;
	char c;

	/* That it happens at all. */
	self.sin_port = htons(bind_somewhere(control));
	must(connect(control, (struct sockaddr *)&self, sizeof(self)) == 0 || errno == EINPROGRESS);
	assert_int_equal(send(control, "x", 1, MSG_NOSIGNAL), 1);
	assert_int_equal(recv(control, &c, 1, 0), 1);
	(void)close(control);

	begin(&l, port);
	assert_int_equal(send(l.client, "x", 1, MSG_NOSIGNAL), 1);
	conduit_dial(l.c, &sockets);
	turn(&l);
	assert_true(l.over);
	assert_true(recv(l.client, &c, 1, 0) <= 0);
	end(&l);
}

static void without_a_socket_a_connection_is_over(void **state UNUSED)
{
	struct lent none = { -1, -1 };
	struct line l;
	char c;

	begin(&l, 1);
	conduit_dial(l.c, &none);
	assert_true(l.over);
	assert_true(recv(l.client, &c, 1, 0) < 0 && errno == ECONNRESET);
	end(&l);
}

/* What a server said before it broke off arrives, and then that it did. */
static void a_reset_comes_behind_the_bytes_before_it(void **state UNUSED)
{
	struct linger at_once = { .l_onoff = 1 };
	struct lent sockets = { tcp(AF_INET), -1 };
	int listening = tcp(AF_INET), server;
	uint16_t port = bind_somewhere(listening);
	struct line l;
	char said[8];

	must(listen(listening, 1) == 0);
	begin(&l, port);
	conduit_dial(l.c, &sockets);
	for (int i = 0; i < 5; i++)
		loop_turn(l.loop, 20);
	server = accept(listening, NULL, NULL);
	must(server >= 0);
	assert_int_equal(send(server, "last", 4, 0), 4);
	must(setsockopt(server, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
	for (int i = 0; i < 5; i++)
		loop_turn(l.loop, 20);
	(void)close(server);
	(void)close(listening);
	assert_int_equal(recv(l.client, said, sizeof(said), 0), 4);
	turn(&l);
	assert_true(l.over);
	assert_true(recv(l.client, said, sizeof(said), 0) < 0 && errno == ECONNRESET);
	end(&l);
}

/* How often the loop wakes up in that time. */
static int turns_in(struct line *l, long us)
{
	uint64_t until = clock_us() + (uint64_t)us;
	int turns = 0;

	for (; clock_us() < until; turns++)
		loop_turn(l->loop, 10);
	return turns;
}

/* The server reads nothing: sooner or later an urgent byte comes behind some that wait. */
static void an_urgent_byte_keeps_nobody_awake(void **state UNUSED)
{
	struct lent sockets = { tcp(AF_INET), -1 };
	int listening = tcp(AF_INET), server, most = 0;
	uint16_t port = bind_somewhere(listening);
	static char some[1 << 14];
	struct line l;

	must(listen(listening, 1) == 0);
	begin(&l, port);
	conduit_dial(l.c, &sockets);
	(void)turns_in(&l, 50000);
	server = accept(listening, NULL, NULL);
	must(server >= 0);
	while (send(l.client, some, sizeof(some), MSG_DONTWAIT) == (ssize_t)sizeof(some) &&
	       send(l.client, "!", 1, MSG_OOB | MSG_DONTWAIT) == 1) {
		int turns = turns_in(&l, 20000);

		most = turns > most ? turns : most;
	}
	assert_false(l.over);
	assert_in_range(most, 1, 50);
	(void)close(server);
	(void)close(listening);
	end(&l);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_init_must_not_send_is_not_taken),
	cmocka_unit_test(what_init_lends_is_taken),
	cmocka_unit_test(a_connection_to_itself_is_nobody),
	cmocka_unit_test(without_a_socket_a_connection_is_over),
	cmocka_unit_test(a_reset_comes_behind_the_bytes_before_it),
	cmocka_unit_test(an_urgent_byte_keeps_nobody_awake),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_door.c - which sockets a door needs, and the room itself: made in a child with
 * namespaces of its own, and then dialled. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "backend/kit/net/door_net.h"
#include "base/files/fd.h"

static bool wants(const struct door_want *w, enum door_kind kind, uint16_t port)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->sockets[i].kind == kind && w->sockets[i].port == port)
			return true;
	return false;
}

static void a_door_listens_where_rules_point(void **state UNUSED)
{
	const char *allow[] = { "a.test", "b.test:8443", "GET c.test:8443,9000/v1",
				"*.d.test:443" };
	struct egress_spec s = { .allow = { allow, ARRAY_LEN(allow) }, .host_service = 5432 };
	struct door_want w;
	struct err e = { 0 };

	assert_int_equal(door_want(&s, &w, &e), 0);
	assert_true(wants(&w, DOOR_STREAM, 80) && wants(&w, DOOR_STREAM, 443) &&
		    wants(&w, DOOR_STREAM, 8443) && wants(&w, DOOR_STREAM, 9000) &&
		    wants(&w, DOOR_STREAM, 5432));
	assert_true(wants(&w, DOOR_DNS_PACKET, 53) && wants(&w, DOOR_DNS_STREAM, 53) &&
		    wants(&w, DOOR_PROXY, DOOR_PROXY_PORT));
	assert_int_equal(w.n, 8);
}

static void too_many_ports_are_refused(void **state UNUSED)
{
	char text[DOOR_PORTS_MAX + 8][32];
	const char *allow[ARRAY_LEN(text)];
	struct egress_spec s = { .allow = { allow, ARRAY_LEN(text) } };
	struct door_want w;
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(text); i++) {
		(void)snprintf(text[i], sizeof(text[i]), "a.test:%zu", 1000 + i);
		allow[i] = text[i];
	}
	assert_true(door_want(&s, &w, &e) < 0);
}

static int dial(const char *address, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : fd;
}

/* In the child: any address at 443 is the door, which knows what was dialled; other ports are
 * refused, and the sandbox's loopback is its own. */
static void live(void)
{
	struct door_want w = { .sockets = { { DOOR_STREAM, 443 } }, .n = 1 };
	struct sockaddr_in6 named;
	socklen_t n = sizeof(named);
	int fds[DOOR_SOCKETS_MAX], guest, accepted;
	struct pollfd p;
	struct err e = { 0 };
	char text[INET6_ADDRSTRLEN];

	must(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	must(door_open(&w, DOOR_NEW_GUEST, fds, &e) == 0);
	guest = dial("93.184.216.34", 443);
	must(guest >= 0);
	p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	must(poll(&p, 1, 5000) == 1);
	accepted = accept(fds[0], NULL, NULL);
	must(accepted >= 0);
	must(getsockname(accepted, (struct sockaddr *)&named, &n) == 0);
	if (named.sin6_family == AF_INET6)
		must(strcmp(inet_ntop(AF_INET6, &named.sin6_addr, text, sizeof(text)),
			    "::ffff:93.184.216.34") == 0);
	must(dial("93.184.216.34", 444) == -ECONNREFUSED);
	must(dial("127.0.0.1", 443) == -ECONNREFUSED);
	_exit(0);
}

/* The sandbox of live_for: has its own network, as bubblewrap makes it, and waits. */
static _Noreturn void guest_of(int control)
{
	char go;
	int fd;

	must(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	must(write(control, "r", 1) == 1);
	must(read(control, &go, 1) == 1);
	fd = dial("93.184.216.34", 443);
	must(fd >= 0);
	must(dial("93.184.216.34", 444) == -ECONNREFUSED);
	must(unshare(CLONE_NEWNET) == 0); /* the control: it has a say in its own namespace */
	must(write(control, "d", 1) == 1);
	must(read(control, &go, 1) == 1);
	_exit(0);
}

/* From outside: the caller stays where it is, and has sockets in a room of their own. */
static void live_for(void)
{
	struct door_want w = { .sockets = { { DOOR_STREAM, 443 } }, .n = 1 };
	int pair[2], fds[DOOR_SOCKETS_MAX], status;
	struct stat before, after;
	struct err e = { 0 };
	char word;
	pid_t pid;

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	must(stat("/proc/self/ns/net", &before) == 0);
	must(door_open_for(getpid(), &w, fds, &e) == -EPERM); /* our own network gets no door */
	pid = fork();
	if (pid == 0)
		guest_of(pair[1]);
	must(read(pair[0], &word, 1) == 1 && word == 'r');
	must(door_open_for(pid, &w, fds, &e) == 0);
	must(fds[0] >= 0 && fds[1] == -1);
	must(write(pair[0], "g", 1) == 1 && read(pair[0], &word, 1) == 1 && word == 'd');
	must(accept(fds[0], NULL, NULL) >= 0);
	must(stat("/proc/self/ns/net", &after) == 0 && after.st_ino == before.st_ino);
	must(write(pair[0], "e", 1) == 1 && waitpid(pid, &status, 0) == pid && status == 0);
	must(door_open_for(pid, &w, fds, &e) == -ENOENT); /* gone */
	_exit(0);
}

static void in_a_child(void (*what)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		what();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void every_address_is_the_doors_and_no_other_port(void **state UNUSED)
{
	in_a_child(live);
}

static void a_sandbox_built_by_others_gets_its_door_from_outside(void **state UNUSED)
{
	in_a_child(live_for);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_door_listens_where_rules_point),
	cmocka_unit_test(too_many_ports_are_refused),
	cmocka_unit_test(every_address_is_the_doors_and_no_other_port),
	cmocka_unit_test(a_sandbox_built_by_others_gets_its_door_from_outside),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

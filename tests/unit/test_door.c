/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_door.c - which sockets a door needs, and the room itself: made in a child with
 * namespaces of its own, and then dialled. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "backend/kit/door.h"
#include "base/fd.h"

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

static void every_address_is_the_doors_and_no_other_port(void **state UNUSED)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		live();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_door_listens_where_rules_point),
	cmocka_unit_test(too_many_ports_are_refused),
	cmocka_unit_test(every_address_is_the_doors_and_no_other_port),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

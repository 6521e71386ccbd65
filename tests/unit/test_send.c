/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_send.c - brig-send reads what brig writes, and nothing that could become another
 * request. */
#include "unit.h"

#include <arpa/inet.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "telemetry/send.h"
#include "telemetry/send/confine.h"
#include "telemetry/send/request.h"

static void what_brig_writes_is_read(void **state UNUSED)
{
	const char *const headers[] = { "Content-Type: application/json", "X-A: 1", "X-B:2", NULL };
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	const struct send s = { .url = "https://c.example:4318/v1/traces?x=y",
				.headers = headers,
				.body = "{\n\n\0}",
				.len = 5,
				.timeout_ms = 1234 };
	struct send_request q;
	struct err e;

	assert_int_equal(send_encode(&s, &b, &e), 0);
	assert_int_equal(request_parse(b.data, b.len, &q, &e), 0);
	assert_true(q.url.tls);
	assert_string_equal(q.url.host, "c.example");
	assert_string_equal(q.url.target, "/v1/traces?x=y");
	assert_int_equal(q.timeout_ms, 1234);
	assert_string_equal(q.type, "application/json");
	assert_string_equal(buf_str(&q.fields), "X-A: 1\r\nX-B:2\r\n");
	assert_int_equal(q.len, 5);
	assert_memory_equal(q.body, "{\n\n\0}", 5);
	request_done(&q);
}

static void an_empty_body_is_a_body(void **state UNUSED)
{
	char text[] = "http://c/\n10\n\n";
	struct send_request q;
	struct err e;

	assert_int_equal(request_parse(text, strlen(text), &q, &e), 0);
	assert_int_equal(q.len, 0);
	request_done(&q);
}

static void anything_else_is_refused(void **state UNUSED)
{
	static const char *const wrong[] = {
		"",
		"http://c/",
		"http://c/\n",
		"http://c/\n10",
		"http://c/\n10\n",
		"http://c/\n10\nX: y\n",
		"http://c/\n0\n\n",
		"http://c/\n600001\n\n",
		"http://c/\n-1\n\n",
		"ftp://c/\n10\n\n",
		"http://u:p@c/\n10\n\n",
		"http://c/\n10\nno field\n\n",
		"http://c/\n10\n: y\n\n",
		"http://c/\n10\nX : y\n\n",
		"http://c/\n10\nX: y\r\n\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char text[64];
		struct send_request q;
		struct err e;

		(void)snprintf(text, sizeof(text), "%s", wrong[i]);
		assert_int_equal(request_parse(text, strlen(text), &q, &e), -EINVAL);
	}
}

/* ---- what is left of the process ---- */

static int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
}

/* In a child: what worked before does not afterwards. */
static void live_confined(uint16_t port, uint16_t other)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	char *const argv[] = { (char[]){ "true" }, NULL };

	must(open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0);
	must(connect_to(port) == 0 && connect_to(other) == 0);
	confine(port);
	must(connect_to(port) == 0);
	must(prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	if (abi >= 1) {
		must(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
		must(open("/tmp/brig-test-made", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0);
		must(execv("/bin/true", argv) < 0 && errno == EACCES);
	}
	if (abi >= 4)
		must(connect_to(other) == -EACCES);
	_exit(0);
}

static void a_hole_in_a_parser_finds_nothing_to_take(void **state UNUSED)
{
	uint16_t port, other;
	int one = listen_somewhere(&port), two = listen_somewhere(&other), status;
	pid_t pid = fork();

	if (pid == 0)
		live_confined(port, other);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(one);
	(void)close(two);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_brig_writes_is_read),
	cmocka_unit_test(an_empty_body_is_a_body),
	cmocka_unit_test(anything_else_is_refused),
	cmocka_unit_test(a_hole_in_a_parser_finds_nothing_to_take),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bench/sandboxes.c - what a daemon's sandboxes take, without HTTP: sandboxes.h on a loop.
 *
 *	bench-sandboxes WORKSPACE [ROUNDS]      XDG_STATE_HOME names a folder for its state
 *
 * Prints milliseconds: create to ready, and `true` in a sandbox that is there, from the request to
 * the last byte of its result. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes.h"
#include "daemon/shared/monitor_protocol.h"

struct bench {
	struct loop *loop;
	struct events *events;
	struct sandboxes *s;
	const char *work;
};

static _Noreturn void die(const struct err *e)
{
	fprintf(stderr, "%s; %s\n", e->what, e->hint);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *what, uint64_t *us, size_t n)
{
	qsort(us, n, sizeof(*us), by_size);
	printf("%-16s p50 %.3f  p90 %.3f  p99 %.3f ms  (%zu)\n", what, (double)us[n / 2] / 1000,
	       (double)us[n * 9 / 10] / 1000, (double)us[n * 99 / 100] / 1000, n);
}

static size_t on_output(void *arg, int stream, uint64_t seq, const void *data, size_t n)
{
	(void)arg, (void)stream, (void)seq, (void)data;
	return n;
}

static void on_end(void *arg, const char *result, size_t n)
{
	(void)result, (void)n;
	*(bool *)arg = true;
}

static void on_done(void *arg, enum problem p, const struct err *e)
{
	(void)p, (void)e;
	*(bool *)arg = true;
}

static void make(struct bench *b, char *id)
{
	char spec[512];
	struct sandbox_create c = { .tenant = "", .spec = spec };
	struct sandbox_count n;
	struct err e = { 0 };

	c.spec_size = (size_t)snprintf(spec, sizeof(spec),
				       "{\"backend\":\"native\",\"network\":\"none\",\"workspace\":"
				       "{\"path\":\"%s\"}}",
				       b->work);
	if (sandboxes_create(b->s, &c, id, &e) != PROBLEM_NONE)
		die(&e);
	do {
		loop_turn(b->loop, -1);
		sandboxes_count(b->s, NULL, &n);
	} while (n.pending);
}

static void destroy(struct bench *b, const char *id)
{
	struct err e = { 0 };
	bool done = false;

	if (sandboxes_do(b->s, "", id, SANDBOX_DELETE, 0, on_done, &done, &e) != PROBLEM_NONE)
		die(&e);
	while (!done)
		loop_turn(b->loop, -1);
}

static void run(struct bench *b, const char *id)
{
	const char *const argv[] = { "/bin/true", NULL };
	const struct exec_start x = { .order = { .argv = argv } };
	char exec[EXEC_ID_SIZE];
	struct exec_watch *w;
	bool ended = false;
	const struct exec_listener by = { .output = on_output, .end = on_end, .arg = &ended };
	struct err e = { 0 };

	if (sandboxes_exec(b->s, "", id, &x, exec, &e) != PROBLEM_NONE ||
	    exec_listen(b->s, "", id, exec, 0, &by, &w, &e) != PROBLEM_NONE)
		die(&e);
	while (!ended)
		loop_turn(b->loop, -1);
	(void)exec_unwatch(w);
}

static void measure(struct bench *b, size_t rounds)
{
	uint64_t *us = calloc(rounds, sizeof(*us));
	char id[SANDBOX_ID_SIZE];

	if (!us)
		exit(1);
	for (size_t i = 0; i < rounds; i++) {
		us[i] = clock_us();
		make(b, id);
		us[i] = clock_us() - us[i];
		destroy(b, id);
	}
	print("create to ready", us, rounds);
	make(b, id);
	for (size_t i = 0; i < rounds; i++) {
		us[i] = clock_us();
		run(b, id);
		us[i] = clock_us() - us[i];
	}
	print("exec of true", us, rounds);
	destroy(b, id);
	free(us);
}

int main(int argc, char **argv)
{
	struct bench b = { .work = argc > 1 ? argv[1] : "/tmp" };
	const char *state = getenv("XDG_STATE_HOME");
	struct err e = { 0 };
	int dir;

	if (argc > 1 && str_eq(argv[0], MONITOR_NAME))
		return monitor_main(argc, argv);
	dir = open(state ? state : "", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (argc < 2 || dir < 0) {
		fprintf(stderr, "bench-sandboxes WORKSPACE [ROUNDS], with XDG_STATE_HOME\n");
		return 2;
	}
	if (loop_new(&b.loop, &e) < 0 || events_open(dir, &b.events, &e) < 0 ||
	    sandboxes_new(dir, b.loop, b.events, &b.s, &e) < 0)
		die(&e);
	measure(&b, argc > 2 ? strtoul(argv[2], NULL, 10) : 200);
	(void)sandboxes_free(b.s);
	(void)events_free(b.events);
	(void)loop_free(b.loop);
	return 0;
}

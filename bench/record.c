/* SPDX-License-Identifier: Apache-2.0 */
/* bench/record.c - how fast the record is written and checked. Prints one number a line.
 *
 *   rate DIR SECONDS none|full   records a second that one process with 16 threads has acknowledged
 *   oneshot DIR WRITERS ROUNDS   median and 99th percentile of what one of so many processes that
 *                                start at once waits for both its records, in microseconds
 *   fill DIR N                   makes a record of N lines
 *   verify DIR                   seconds to check it, and the number of lines */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/log.h"
#include "audit/verify.h"
#include "base/sys/clock.h"

#define THREADS 16
#define WINDOW 64

static _Noreturn void die(const struct err *e)
{
	(void)fprintf(stderr, "record: %s\n", e->what);
	exit(1);
}

static struct log *open_log(const char *dir, bool sync)
{
	struct log_options o = { .dir = dir, .sync = sync };
	struct err e = { 0 };
	struct log *l;

	if (log_open(&o, &l, &e) < 0)
		die(&e);
	return l;
}

/* What a run looks like: about 600 bytes a line. */
static void fill_record(struct record *r, const char *run)
{
	record_init(r, EVENT_SANDBOX_EXEC);
	r->run = run;
	r->policy = "0123456789abcdef";
	r->principal = "uid:1000";
	record_text(r, "backend", "native");
	record_text(r, "argv0", "/usr/bin/python3");
	record_number(r, "rc", 0);
	record_micros(r, "duration_ms", 1234);
	record_text(r, "outcome", "exited");
	record_bool(r, "started", true);
}

struct load {
	struct log *log;
	uint64_t until;
	atomic_ullong done;
};

static void *write_until(void *arg)
{
	struct load *w = arg;
	struct err e = { 0 };
	struct record r;

	fill_record(&r, "0123456789abcdef0123456789abcdef");
	while (clock_us() < w->until) {
		uint64_t ticket = 0;

		for (int i = 0; i < WINDOW; i++)
			if (log_submit(w->log, &r, 1, &ticket, &e) < 0)
				die(&e);
		if (log_wait(w->log, ticket, &e) < 0)
			die(&e);
		atomic_fetch_add(&w->done, WINDOW);
	}
	return NULL;
}

static int rate(const char *dir, double seconds, bool sync)
{
	uint64_t from = clock_us();
	struct load w = { .log = open_log(dir, sync), .until = from + (uint64_t)(seconds * 1e6) };
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, write_until, &w))
			return 1;
	for (int i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	(void)printf("%.0f\n", (double)w.done * 1e6 / (double)(clock_us() - from));
	(void)log_free(w.log);
	return 0;
}

static void one_writer(const char *dir, int go, uint64_t *took)
{
	struct err e = { 0 };
	struct record r;
	struct log *l;
	uint64_t from;
	char c;

	fill_record(&r, "0123456789abcdef0123456789abcdef");
	if (read(go, &c, 1) < 0) /* end of file: all begin at once */
		_exit(1);
	from = clock_us();
	l = open_log(dir, false);
	if (log_append(l, &r, 1, &e) < 0 || log_append(l, &r, 1, &e) < 0)
		die(&e);
	*took = clock_us() - from;
	_exit(0);
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int oneshot(const char *dir, size_t writers, size_t rounds)
{
	size_t n = writers * rounds;
	uint64_t *took = mmap(NULL, n * sizeof(*took), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (took == MAP_FAILED)
		return 1;
	for (size_t round = 0; round < rounds; round++) {
		int go[2];

		if (pipe(go) < 0)
			return 1;
		for (size_t i = 0; i < writers; i++)
			if (fork() == 0) {
				(void)close(go[1]);
				one_writer(dir, go[0], &took[round * writers + i]);
			}
		(void)close(go[0]);
		(void)usleep(20000);
		(void)close(go[1]);
		while (wait(NULL) > 0)
			;
	}
	qsort(took, n, sizeof(*took), ascending);
	(void)printf("%llu\n%llu\n", (unsigned long long)took[n / 2],
		     (unsigned long long)took[n * 99 / 100]);
	return 0;
}

static int fill(const char *dir, uint64_t n)
{
	struct log *l = open_log(dir, false);
	uint64_t ticket = 0;
	struct err e = { 0 };
	struct record r;

	for (uint64_t i = 0; i < n; i++) {
		char run[33];

		(void)snprintf(run, sizeof(run), "%032llx", (unsigned long long)i);
		fill_record(&r, run);
		if (log_submit(l, &r, 1, &ticket, &e) < 0)
			die(&e);
	}
	if (log_wait(l, ticket, &e) < 0)
		die(&e);
	(void)log_free(l);
	return 0;
}

static int check(const char *dir)
{
	struct verify_options o = { .dir = dir };
	uint64_t from = clock_us();
	struct verify_report r;
	struct err e = { 0 };

	if (verify(&o, &r, &e) < 0)
		die(&e);
	(void)printf("%.3f\n%llu\n", (double)(clock_us() - from) / 1e6,
		     (unsigned long long)r.records);
	return r.ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "rate") == 0)
		return rate(argv[2], strtod(argv[3], NULL), strcmp(argv[4], "full") == 0);
	if (argc == 5 && strcmp(argv[1], "oneshot") == 0)
		return oneshot(argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	if (argc == 4 && strcmp(argv[1], "fill") == 0)
		return fill(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "verify") == 0)
		return check(argv[2]);
	(void)fputs("usage: see the head of bench/record.c\n", stderr);
	return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_unpack.c - the line to the unpacker: what comes out, and what is left of a body when
 * the process on the other side ends, hangs or lies. What it makes of archives is
 * egress/test_unpack.py's.
 */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/text/buf.h"
#include "egress/unpack/unpack_side.h"
#include "proc/forked.h"

static struct err e;

static size_t gzipped(const char *p, size_t n, char *out, size_t max)
{
	z_stream z = { 0 };

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)p;
	z.avail_in = (uInt)n;
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)max;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	(void)deflateEnd(&z);
	return max - z.avail_out;
}

static int keep(void *arg, const struct peel_piece *piece, char *p)
{
	buf_add(arg, p, piece->n);
	return 0;
}

static int refuse(void *arg, const struct peel_piece *piece UNUSED, char *p UNUSED)
{
	(*(unsigned *)arg)++;
	return -EPERM;
}

static int feed(struct unpack_body *s, const char *p, size_t n, bool last, struct buf *out)
{
	return unpacking_feed(s, p, n, last, keep, out);
}

static const struct unpack_want sniffs = { .n_codings = 0 };
static const struct unpack_want gzip = { .codings = { PACKING_GZIP }, .n_codings = 1 };

static void two_bodies_are_unpacked_in_turns(void **state UNUSED)
{
	CLEANUP(unpack) struct unpack_side *u = NULL;
	CLEANUP(unpacking) struct unpack_body *a = NULL, *b = NULL;
	CLEANUP(buf) struct buf one = BUF_INIT(4096), two = BUF_INIT(4096);
	struct peel_spent spent[2] = { 0 };
	char coded[256], other[256];
	size_t n = gzipped("the first body", 14, coded, sizeof(coded));
	size_t m = gzipped("the other body", 14, other, sizeof(other));

	assert_int_equal(unpack_start(&u, &e), 0);
	assert_int_equal(unpacking_new(u, &sniffs, &spent[0], &a), 0);
	assert_int_equal(unpacking_new(u, &gzip, &spent[1], &b), 0);
	for (size_t i = 0; i < n || i < m; i++) {
		if (i < n)
			assert_int_equal(feed(a, coded + i, 1, i + 1 == n, &one), 0);
		if (i < m)
			assert_int_equal(feed(b, other + i, 1, i + 1 == m, &two), 0);
	}
	assert_string_equal(buf_str(&one), "the first body");
	assert_string_equal(buf_str(&two), "the other body");
	assert_int_equal(a->unreadable, UNREADABLE_NOT);
	assert_int_equal(spent[0].in, n);
	assert_int_equal(spent[0].out, 14);
}

static void what_is_not_packed_is_no_work(void **state UNUSED)
{
	CLEANUP(unpack) struct unpack_side *u = NULL;
	CLEANUP(unpacking) struct unpack_body *s = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct peel_spent spent = { 0 };
	char text[300];

	memset(text, 'a', sizeof(text));
	assert_int_equal(unpack_start(&u, &e), 0);
	assert_int_equal(unpacking_new(u, &sniffs, &spent, &s), 0);
	assert_int_equal(feed(s, text, sizeof(text), false, &out), 0);
	assert_true(s->idle);
	assert_int_equal(out.len, 0);
}

static void who_wants_no_more_hears_no_more(void **state UNUSED)
{
	CLEANUP(unpack) struct unpack_side *u = NULL;
	CLEANUP(unpacking) struct unpack_body *s = NULL, *next = NULL;
	CLEANUP(mem) char *zeros = calloc(1, 4 << 20), *coded = malloc(1 << 20);
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct peel_spent spent = { 0 };
	unsigned calls = 0;
	size_t n = gzipped(zeros, 4 << 20, coded, 1 << 20);

	assert_int_equal(unpack_start(&u, &e), 0);
	assert_int_equal(unpacking_new(u, &sniffs, &spent, &s), 0);
	assert_int_equal(unpacking_feed(s, coded, n, true, refuse, &calls), -EPERM);
	assert_int_equal(calls, 1);
	/* The line is in order, for others. */
	n = gzipped("next", 4, coded, 256);
	assert_int_equal(unpacking_new(u, &sniffs, &spent, &next), 0);
	assert_int_equal(feed(next, coded, n, true, &out), 0);
	assert_string_equal(buf_str(&out), "next");
}

static int liar(void *arg, int line)
{
	struct unpack_told done = { .said = UNPACK_DONE };
	struct unpack_ask q;
	const char *how = arg;

	while (recv(line, &q, sizeof(q), MSG_TRUNC) > 0) {
		done.stream = q.stream;
		if (q.word != UNPACK_OPEN && strcmp(how, "ends") == 0)
			return 0;
		if (q.word != UNPACK_OPEN && strcmp(how, "number") == 0)
			done.stream = 77;
		if (q.word != UNPACK_OPEN && strcmp(how, "length") == 0)
			done.n = 10;
		if (q.word != UNPACK_OPEN && strcmp(how, "reason") == 0)
			done.unreadable = 200;
		if (q.word != UNPACK_OPEN && strcmp(how, "depth") == 0) {
			done.said = UNPACK_TEXT;
			done.depth = 99;
		}
		if (q.word != UNPACK_CLOSE && send(line, &done, sizeof(done), MSG_NOSIGNAL) < 0)
			return 0;
	}
	return 0;
}

static void a_liar_is_nobody_and_the_run_goes_on(void **state UNUSED)
{
	static const char *const ways[] = { "fair", "ends", "number", "length", "reason", "depth" };

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		const struct forked_want w = { .what = "a liar",
					       .line = FORKED_PACKETS,
					       .run = liar,
					       .arg = (void *)(uintptr_t)ways[i] };
		CLEANUP(unpack) struct unpack_side *u = NULL;
		CLEANUP(unpacking) struct unpack_body *s = NULL, *said = NULL;
		CLEANUP(buf) struct buf out = BUF_INIT(4096);
		struct peel_spent spent = { 0 };
		int line, r;
		pid_t pid = forked_start(&w, &line, &e);

		assert_true(pid > 0);
		assert_non_null(u = unpack_on(line));
		assert_int_equal(unpacking_new(u, &sniffs, &spent, &s), 0);
		r = feed(s, "a", 1, false, &out);
		assert_int_equal(r, i ? -EPIPE : 0); /* the first is the control */
		assert_int_equal(s->unreadable, i ? UNREADABLE_GONE : UNREADABLE_NOT);
		assert_int_equal(unpacking_new(u, &gzip, &spent, &said), 0);
		assert_int_equal(feed(said, "a", 1, false, &out), i ? -EPIPE : 0);
		said = unpacking_free(said);
		s = unpacking_free(s);
		u = unpack_free(u);
		(void)forked_wait(pid);
	}
}

/* What it wrote to be read must not be there, nor anything else it could reach. */
static void it_has_no_files_and_no_network(void **state UNUSED)
{
	CLEANUP(unpack) struct unpack_side *u = NULL;
	CLEANUP(unpacking) struct unpack_body *s = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct peel_spent spent = { 0 };
	char name[64] = "", links[64];
	pid_t child = 0;
	int n = 0;
	FILE *f;

	assert_int_equal(unpack_start(&u, &e), 0);
	/* Its answer comes once it has taken on its role. */
	assert_int_equal(unpacking_new(u, &sniffs, &spent, &s), 0);
	(void)snprintf(name, sizeof(name), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(name, "re");
	if (!f)
		skip();
	while (fscanf(f, "%d", &n) == 1)
		child = n;
	(void)fclose(f);
	(void)snprintf(name, sizeof(name), "/proc/%d/status", (int)child);
	f = fopen(name, "re");
	assert_non_null(f);
	n = 0;
	while (fgets(links, sizeof(links), f))
		n += strncmp(links, "Seccomp:\t2", 10) == 0 ||
		     strncmp(links, "NoNewPrivs:\t1", 13) == 0 ||
		     strncmp(links, "Name:\tbrig-unpacker", 19) == 0;
	(void)fclose(f);
	assert_int_equal(n, 3);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(feed(s, "a", 1, false, &out), -EPIPE);
	assert_int_equal(s->unreadable, UNREADABLE_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_bodies_are_unpacked_in_turns),
		cmocka_unit_test(what_is_not_packed_is_no_work),
		cmocka_unit_test(who_wants_no_more_hears_no_more),
		cmocka_unit_test(a_liar_is_nobody_and_the_run_goes_on),
		cmocka_unit_test(it_has_no_files_and_no_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

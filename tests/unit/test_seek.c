/* SPDX-License-Identifier: Apache-2.0 */
/* The search for known values: it finds what the plainest one finds, and how long it takes tells
 * nothing of a value unless its last sixteen characters stand in the text. */
#include "unit.h"

#include <time.h>

#include "base/text/arena.h"
#include "egress/seek/seek.h"

static struct err e;

static struct seek *made(struct arena *a, const struct secret *kept, size_t n,
			 struct needles *needles)
{
	struct seek *s = NULL;

	if (needles_new(a, kept, n, needles, &e) < 0 || seek_new(a, needles, &s, &e) < 0)
		fail_msg("%s", e.what);
	return s;
}

static bool count_found(void *context, const struct needle *n, ptrdiff_t end)
{
	(void)n;
	(void)end;
	++*(unsigned *)context;
	return true;
}

/* ---- what it costs ---- */

enum { TEXT_LEN = 6000 };

/* What a look at a text costs, counted; cut as streams are. */
static uint64_t work(struct seek *s, const char *text, size_t n, unsigned *found)
{
	uint64_t before = seek_work(s);
	struct seek_text t = { .data = text };

	for (size_t step = 700; t.at < (int64_t)n; t.at += (int64_t)t.n) {
		t.data = text + t.at;
		t.before = egress_text(text, (size_t)t.at);
		t.n = n - (size_t)t.at < step ? n - (size_t)t.at : step;
		(void)seek_feed(s, &t, count_found, found);
	}
	return seek_work(s) - before;
}

/* As often as it goes in, in many ways to any stride. */
static void fill_with(const char *p, size_t n, char *text)
{
	memset(text, '.', TEXT_LEN);
	for (size_t at = 0, i = 0; at + n + 8 < TEXT_LEN; at += n + 1 + i++ % 7)
		memcpy(text + at, p, n);
}

/* As a text of nothing does. */
static void costs_what_nothing_costs(struct seek *s, const char *text)
{
	static char nothing[TEXT_LEN];
	unsigned found = 0;

	memset(nothing, '.', TEXT_LEN);
	assert_int_equal(work(s, text, TEXT_LEN, &found), work(s, nothing, TEXT_LEN, &found));
	assert_int_equal(found, 0);
}

/* So many of its last bytes are sixteen characters, or all of it. */
static size_t tail_of(const struct variant *form)
{
	return form->n < SECRET_TAIL ? form->n : SECRET_TAIL;
}

/* Learns by a look nobody who has all of a value but one of its last sixteen characters: one byte
 * after the other of that part of every form is wrong. Of what stands before it, too, and of any
 * run of fifteen characters. */
static void all_but_one(struct seek *s, const struct variant *form)
{
	static char text[TEXT_LEN], near[SECRET_MAX * SECRET_GROWS];

	for (size_t i = form->n - tail_of(form); i < form->n; i++) {
		memcpy(near, form->p, form->n);
		near[i] ^= i % 2 ? 1 : 2;
		fill_with(near, form->n, text);
		costs_what_nothing_costs(s, text);
	}
	for (size_t n = 8; n < form->n; n++) { /* its beginning, and its end without the rest */
		fill_with(form->p, n, text);
		costs_what_nothing_costs(s, text);
		if (n < tail_of(form)) {
			fill_with(form->p + form->n - n, n, text);
			costs_what_nothing_costs(s, text);
		}
	}
}

/* How long a search takes tells nothing of a value unless at least its last sixteen characters
 * stand in the text at once, in one of its forms; whatever of the others does. */
static void the_work_does_not_depend_on_what_the_text_nearly_is(void **state UNUSED)
{
	static char text[TEXT_LEN];
	static const char *const values[] = {
		"s3cr3t+Value/with\"odd~bytes",
		"0123456789abcdef",
		"ghp_N2dmKEepbnBOa1b2c3d4",
		"\"'&<>/+=?#%\\`~zzzzzzzz",
		"postgres://app:kd93hQ=x7&fZq/2m@db.internal:5432/app",
	};

	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct secret kept = { .name = "K", .value = values[i], .len = strlen(values[i]) };
		CLEANUP(arena) struct arena *a = arena_new(64 << 20);
		struct needles needles;
		struct seek *s = made(a, &kept, 1, &needles);
		unsigned found = 0;
		uint64_t usual;

		for (size_t k = 0; k < needles.n; k++)
			all_but_one(s, &needles.v[k].v);
		memset(text, '.', sizeof(text));
		usual = work(s, text, sizeof(text), &found);
		assert_true(usual > 0);
		memcpy(text + 1000, values[i], kept.len);
		assert_true(work(s, text, sizeof(text), &found) > usual); /* it counts */
		assert_int_equal(found, 1);
	}
}

/* What the sentence leaves out, so that nobody takes it for more: the last sixteen characters, with
 * others before them, do show. */
static void the_last_sixteen_characters_do_show(void **state UNUSED)
{
	static const char value[] = "fedcba9876543210QWERTYUIOPasdfghjklzxcvbnm";
	struct secret kept = { .name = "K", .value = value, .len = sizeof(value) - 1 };
	CLEANUP(arena) struct arena *a = arena_new(64 << 20);
	static char text[TEXT_LEN], nothing[TEXT_LEN];
	struct needles needles;
	struct seek *s = made(a, &kept, 1, &needles);
	unsigned found = 0;

	for (size_t k = 0; k < needles.n; k++) {
		const struct variant *v = &needles.v[k].v;
		size_t n = tail_of(v);

		assert_true(n * kept.len / v->n >= SECRET_SHOWS);
		fill_with(v->p + v->n - n, n, text);
		memset(nothing, '.', TEXT_LEN);
		assert_true(work(s, text, TEXT_LEN, &found) > work(s, nothing, TEXT_LEN, &found));
	}
	assert_int_equal(found, 0);
}

static double cpu(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double time_of(struct seek *s, const char *text)
{
	unsigned found = 0;
	double from = cpu();

	for (int i = 0; i < 50; i++)
		(void)work(s, text, TEXT_LEN, &found);
	return cpu() - from;
}

/* What was counted may hide a branch that a compiler made: in turns, of each text the quickest. By
 * the clock, so of no use on a busy machine: `make soak` sets BRIG_SOAK. */
static void nor_does_the_time(void **state UNUSED)
{
	static const char value[] = "fedcba9876543210QWERTYUIOPasdfghjklzxcvbnm";
	struct secret kept = { .name = "K", .value = value, .len = sizeof(value) - 1 };
	CLEANUP(arena) struct arena *a = arena_new(64 << 20);
	static char text[TEXT_LEN], nothing[TEXT_LEN], near[SECRET_MAX * SECRET_GROWS];
	struct needles needles;
	struct seek *s = made(a, &kept, 1, &needles);

	for (size_t k = 0; k < needles.n; k++) {
		const struct variant *v = &needles.v[k].v;
		double one = 1e9, other = 1e9;

		memcpy(near, v->p, v->n);
		near[v->n - tail_of(v)] ^= 1;
		fill_with(near, v->n, text);
		memset(nothing, '.', TEXT_LEN);
		for (int i = 0; i < 200; i++) {
			double x = time_of(s, text), y = time_of(s, nothing);

			one = x < one ? x : one;
			other = y < other ? y : other;
		}
		print_message("form %d: %.4f\n", v->form, one / other);
		assert_true(one / other > 0.98 && one / other < 1.02);
	}
}

/* ---- against the plainest search there is ---- */

enum { NOISE_LEN = 60000, FINDS_MAX = 1 << 18, ROUNDS = 60, SECRETS = 3 };

struct find {
	size_t needle;
	int64_t end;
};

struct finds {
	const struct needles *needles;
	int64_t at; /* of the call */
	struct find v[FINDS_MAX];
	size_t n;
};

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * 0x2545f4914f6cdd1dULL >> 16;
}

static bool add_find(void *context, const struct needle *n, ptrdiff_t end)
{
	struct finds *f = context;

	assert_true(f->n < FINDS_MAX);
	f->v[f->n++] = (struct find){ (size_t)(n - f->needles->v), f->at + end };
	return true;
}

static bool is_at(const struct variant *w, const char *p, bool caseless)
{
	if (!w->caseless && !caseless)
		return memcmp(p, w->p, w->n) == 0;
	for (size_t i = 0; i < w->n; i++) {
		int a = (unsigned char)p[i], b = (unsigned char)w->p[i];

		a = a >= 'A' && a <= 'Z' ? a + 32 : a;
		b = b >= 'A' && b <= 'Z' ? b + 32 : b;
		if (a != b)
			return false;
	}
	return true;
}

static void find_plainly(const char *text, size_t n, bool caseless, struct finds *f)
{
	f->at = 0;
	for (size_t end = 1; end <= n; end++)
		for (size_t k = 0; k < f->needles->n; k++) {
			const struct variant *w = &f->needles->v[k].v;

			if (w->n <= end && is_at(w, text + end - w->n, caseless))
				(void)add_find(f, &f->needles->v[k], (ptrdiff_t)end);
		}
}

/* Cut anywhere, from one byte to all of it; of what came before as much as a form can need. */
static void find_by_pieces(struct seek *s, const char *text, size_t n, bool caseless, uint64_t *x,
			   struct finds *f)
{
	static const size_t most[] = { 3, 40, 1500, 16384, 16385, NOISE_LEN };
	size_t longest = f->needles->longest, limit = most[next_random(x) % ARRAY_LEN(most)];

	for (size_t at = 0, part; at < n; at += part) {
		size_t before = at < longest - 1 ? at : longest - 1;
		struct seek_text t = { .at = (int64_t)at, .data = text + at, .caseless = caseless };

		part = 1 + next_random(x) % limit;
		part = part < n - at ? part : n - at;
		if (next_random(x) % 2)
			before = at;
		t.n = part;
		t.before = egress_text(text + at - before, before);
		f->at = (int64_t)at;
		assert_true(seek_feed(s, &t, add_find, f));
	}
}

static int by_place(const void *a, const void *b)
{
	const struct find *p = a, *q = b;

	if (p->end != q->end)
		return p->end < q->end ? -1 : 1;
	return p->needle < q->needle ? -1 : p->needle > q->needle;
}

static void are_the_same(struct finds *want, struct finds *got)
{
	qsort(got->v, got->n, sizeof(got->v[0]), by_place);
	qsort(want->v, want->n, sizeof(want->v[0]), by_place);
	assert_int_equal(got->n, want->n);
	assert_memory_equal(got->v, want->v, got->n * sizeof(got->v[0]));
}

/* In pieces of `cut` bytes. */
static void compare(struct seek *s, const char *text, size_t n, size_t cut, struct finds *want,
		    struct finds *got)
{
	want->n = got->n = 0;
	find_plainly(text, n, false, want);
	for (size_t at = 0; at < n; at += cut) {
		struct seek_text t = { .at = (int64_t)at, .data = text + at };

		t.before = egress_text(text, at);
		t.n = n - at < cut ? n - at : cut;
		got->at = (int64_t)at;
		assert_true(seek_feed(s, &t, add_find, got));
	}
	are_the_same(want, got);
}

/* Bytes of few kinds, so that forms overlap themselves, or of all. */
static void fill_noise(char *p, size_t n, unsigned kinds, uint64_t *x)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(kinds < 256 ? 'a' + next_random(x) % kinds : next_random(x));
}

/* Forms at the ends, over the borders of pieces, one in another, cut short and in another case. */
static void plant(char *text, size_t n, const struct needles *needles, uint64_t *x)
{
	size_t longest = 0;

	for (size_t k = 0; k < needles->n; k++)
		longest = needles->v[k].v.n == needles->longest ? k : longest;
	for (size_t i = 1 + next_random(x) % 20; i-- > 0;) {
		size_t which = next_random(x) % 2 ? longest : next_random(x) % needles->n;
		const struct variant *w = &needles->v[which].v;
		size_t borders[] = { 0,
				     n - (w->n < n ? w->n : n),
				     16384 - next_random(x) % w->n,
				     2 * 16384 - next_random(x) % w->n,
				     next_random(x) % n,
				     next_random(x) % n };
		size_t at = borders[next_random(x) % ARRAY_LEN(borders)];
		size_t part = next_random(x) % 8 ? w->n : next_random(x) % w->n;

		for (size_t k = 0; k < part && at < n; k++, at++)
			text[at] = w->p[k];
		if (next_random(x) % 6 == 0)
			text[at - (at > 1) - next_random(x) % (part + 1) % (at + !at)] ^= 0x20;
	}
}

/* Where one of their forms is as long as what is kept of what came before, or a byte longer. */
static size_t secret_length(uint64_t *x)
{
	static const size_t lengths[] = { 16, 17, 43, 170, 171, 682, 683, 4096 };
	size_t n = lengths[next_random(x) % ARRAY_LEN(lengths)];

	return next_random(x) % 4 ? n : SECRET_MIN + next_random(x) % 60;
}

static size_t one_round(uint64_t *x)
{
	static char text[NOISE_LEN], values[SECRETS][SECRET_MAX];
	static struct finds want, got;
	CLEANUP(arena) struct arena *a = arena_new(256 << 20);
	struct secret kept[SECRETS] = { 0 };
	size_t n_secrets = 1 + next_random(x) % 2 * (next_random(x) % SECRETS),
	       n = 1 + next_random(x) % NOISE_LEN;
	bool caseless = next_random(x) % 4 == 0;
	struct needles needles;
	struct seek *s;

	for (size_t i = 0; i < n_secrets; i++) {
		kept[i] =
			(struct secret){ .name = "K", .value = values[i], .len = secret_length(x) };
		fill_noise(values[i], kept[i].len,
			   (unsigned[]){ 1, 2, 26, 256 }[next_random(x) % 4], x);
	}
	s = made(a, kept, n_secrets, &needles);
	fill_noise(text, n, next_random(x) % 8 ? 256 : 2, x);
	plant(text, n, &needles, x);
	want.needles = got.needles = &needles;
	want.n = got.n = 0;
	find_plainly(text, n, caseless, &want);
	find_by_pieces(s, text, n, caseless, x, &got);
	are_the_same(&want, &got);
	return got.n;
}

static void it_finds_what_the_plainest_search_finds(void **state UNUSED)
{
	uint64_t x = 0x9e3779b97f4a7c15ULL;
	size_t found = 0;
	const char *seed = getenv("BRIG_SEED"), *rounds = getenv("BRIG_ROUNDS");

	if (seed)
		x ^= strtoull(seed, NULL, 10);
	for (long i = rounds ? strtol(rounds, NULL, 10) : ROUNDS; i > 0; i--)
		found += one_round(&x);
	assert_true(found > ROUNDS);
}

/* Every form at 72 places, in two pieces, the cut going through all of it. */
static void every_form_is_found_wherever_it_lies_and_is_cut(void **state UNUSED)
{
	static const size_t lengths[] = { 16, 19, 26, 40, 64 };
	static struct finds want, got;
	uint64_t x = 0x9e3779b97f4a7c15ULL;
	char value[64], text[1024];

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct secret kept = { .name = "K", .value = value, .len = lengths[i] };
		CLEANUP(arena) struct arena *a = arena_new(64 << 20);
		struct needles needles;
		struct seek *s;

		for (size_t k = 0; k < lengths[i]; k++)
			value[k] = (char)(33 + next_random(&x) % 94);
		s = made(a, &kept, 1, &needles);
		want.needles = got.needles = &needles;
		for (size_t f = 0; f < needles.n; f++)
			for (size_t off = 0; off < 72; off++) {
				const struct variant *w = &needles.v[f].v;
				size_t n = off + w->n + next_random(&x) % 300;

				fill_noise(text, n, 256, &x);
				memcpy(text + off, w->p, w->n);
				compare(s, text, n, 1 + (off + f) % (n - 1), &want, &got);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_work_does_not_depend_on_what_the_text_nearly_is),
		cmocka_unit_test(the_last_sixteen_characters_do_show),
		cmocka_unit_test(it_finds_what_the_plainest_search_finds),
		cmocka_unit_test(every_form_is_found_wherever_it_lies_and_is_cut),
	};

	const struct CMUnitTest soak[] = { cmocka_unit_test(nor_does_the_time) };

	return getenv("BRIG_SOAK") ? cmocka_run_group_tests(soak, NULL, NULL)
				   : cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_late.c - a plan that is completed while the new process is at work on it.
 *
 * The monitor's side says all of it for a real plan; the new process's side hears it as
 * native/mount.c does, first as it was said, and then with two words in each other's place, one
 * left out, one cut short. Nothing in here starts a sandbox. */
#include <sys/mman.h>
#include <sys/socket.h>

#include "unit.h"

#include "backend/kit/plan/plan.h"
#include "backend/kit/process/late.h"
#include "model/request/code.h"

enum { WORDS_MAX = 64, WORD_MAX = 65536 };

static char top[PATH_MAX];

struct word {
	size_t n;
	unsigned char *data;
	int fds[PREPARED_MAX];
	size_t fd_count;
};

/* A start, with all that the monitor said. */
struct said {
	struct spec *spec;
	struct box_plan *plan;
	struct backend_job job;
	struct box_start start;
	struct op *before; /* as the new process has them */
	size_t op_count;
	struct word words[WORDS_MAX];
	size_t n;
};

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	must(mkdir("ws", 0755) == 0);
	must(mkdir("ws/.git", 0755) == 0);
	must(setenv("PATH", "/usr/bin:/bin", 1) == 0);
	must(setenv("XDG_STATE_HOME", top, 1) == 0);
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

static void take_words(struct said *s)
{
	static unsigned char data[WORD_MAX];

	for (;;) {
		struct word *w = &s->words[s->n];
		ssize_t n;

		assert_true(s->n < WORDS_MAX);
		w->fd_count = PREPARED_MAX;
		n = fd_recv(s->start.inside.control, data, sizeof(data), w->fds, &w->fd_count);
		if (n <= 0)
			return;
		w->n = (size_t)n;
		w->data = malloc(w->n);
		assert_non_null(w->data);
		memcpy(w->data, data, w->n);
		s->n++;
	}
}

static const char *authority(void *arg UNUSED, struct err *e UNUSED)
{
	return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
}

/* `whole`: of a plan that names what it protects already, which the monitor then holds; with a door
 * whose certificate comes last. */
static void say(struct said *s, bool whole)
{
	const struct place at = { .cwd = top };
	const struct job_want w = { .id = "00112233445566778899aabbccddeeff",
				    .host.authority = authority };
	struct err e = { 0 };
	int ends[2];

	*s = (struct said){ .spec = spec_new(&e) };
	assert_non_null(s->spec);
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	s->job = (struct backend_job){ .control = ends[0], .pid = -1 };
	s->start =
		(struct box_start){ .late = true, .trusts_late = whole, .inside.control = ends[1] };
	(void)snprintf(s->job.id, sizeof(s->job.id), "%s", w.id);
	if (spec_set_key(s->spec, "workspace.path", "ws", ORIGIN_FLAG, &e) < 0 ||
	    (whole && spec_set_key(s->spec, "network", "proxy", ORIGIN_FLAG, &e) < 0) ||
	    code_set(s->spec, CODE_PYTHON, "print(1)", 8, NULL, &e) < 0 ||
	    spec_check(s->spec, &at, &e) < 0 ||
	    (whole ? box_plan_new : box_plan_begin)(s->spec, "native", &s->plan, &e) < 0)
		fail_msg("%s", e.what);
	if (s->plan->needs_range && ids_take(&s->job.ids, &e) < 0)
		fail_msg("%s", e.what);
	s->job.plan = s->plan;
	s->start.plan = s->plan;
	if (late_begin(&s->job, &s->start, &w, &e) < 0)
		fail_msg("%s", e.what);
	s->op_count = s->plan->op_count;
	s->before = calloc(s->op_count, sizeof(*s->before));
	assert_non_null(s->before);
	memcpy(s->before, s->plan->ops, s->op_count * sizeof(*s->before));
	if (late_complete(&s->job, &s->start, &w, &e) < 0)
		fail_msg("%s", e.what);
	take_words(s);
}

static void forget(struct said *s)
{
	struct outcome *o = outcome_new();

	if (s->job.protect)
		protect_end(s->job.protect, false, o);
	(void)protect_free(s->job.protect);
	(void)outcome_free(o);
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->words[i].fd_count; k++)
			(void)fd_close(s->words[i].fds[k]);
		free(s->words[i].data);
	}
	free(s->before);
	(void)fd_close(s->job.control);
	(void)fd_close(s->start.inside.control);
	(void)ids_free(s->job.ids);
	(void)box_plan_free(s->plan);
	(void)spec_free(s->spec);
}

/* How far the new process came, and whether it took all of it. */
struct heard {
	int code;
	size_t texts, added;
	bool trusted;
	int trees[PREPARED_MAX];
	struct err e;
};

/* The files as native/mount.c has them by then, without the texts that they begin with. */
static int hear_trust(const struct box_start *c, struct heard *h)
{
	int files[TRUST_FILES], r;
	char text[4096];
	size_t n = 0;

	for (size_t i = 0; i < c->plan->op_count && n < TRUST_FILES; i++)
		if (c->plan->ops[i].awaits) {
			files[n] = memfd_create("test", MFD_CLOEXEC);
			must(files[n++] >= 0);
		}
	r = box_trust(c, files, n, &h->e);
	for (size_t i = 0; i < n; i++) {
		if (r == 0 && i == 0 && c->trusts_late) {
			ssize_t got = pread(files[0], text, sizeof(text) - 1, 0);

			assert_true(got > 0);
			text[got] = '\0';
			h->trusted = strstr(text, authority(NULL, NULL)) != NULL;
		}
		(void)fd_close(files[i]);
	}
	return r;
}

/* As do_all and do_added of native/mount.c. */
static int go_through(const struct box_start *c, struct heard *h)
{
	struct told_texts texts;
	struct op_added room;
	const char *text;
	struct op o;
	int r;

	texts.at = texts.n = 0;
	room.number = 0;
	for (size_t i = 0; i < c->plan->op_count; i++) {
		if ((i == c->looked_from && box_held(c, LATE_LOOKED, &h->e) < 0) ||
		    (i == c->trees_from && box_trees(c, h->trees, &h->e) < 0) ||
		    (i == c->held_from && box_held(c, LATE_HELD, &h->e) < 0))
			return -h->e.code;
		if (box_waits_for_text(c, i)) {
			if (box_text(c, &texts, &text, &h->e) < 0)
				return -h->e.code;
			assert_string_equal(text, c->plan->ops[i].data);
			h->texts++;
		}
	}
	while ((r = box_added(c, &room, &o, &h->e)) > 0)
		h->added++;
	return r < 0 ? r : hear_trust(c, h);
}

/* The words in this order, as if they were all that the monitor will ever say. */
static struct heard hear(struct said *s, const struct word *const *words, size_t n)
{
	struct box_plan plan = *s->plan;
	struct box_start c = s->start;
	struct heard h = { .code = 0 };
	int ends[2];

	memset(h.trees, -1, sizeof(h.trees));
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	plan.op_count = s->op_count;
	plan.ops = calloc(s->op_count, sizeof(*plan.ops));
	assert_non_null(plan.ops);
	/* What the monitor found out is in the texts and the skips: these come by words alone. */
	memcpy(plan.ops, s->before, s->op_count * sizeof(*plan.ops));
	for (size_t i = 0; i < s->op_count; i++)
		if (plan.ops[i].look != LOOK_NOT)
			plan.ops[i].data = s->plan->ops[i].data; /* to compare with */
	c.plan = &plan;
	c.inside.control = ends[1];
	for (size_t i = 0; i < n; i++)
		must(fd_send(ends[0], words[i]->data, words[i]->n, words[i]->fds,
			     words[i]->fd_count) == 0);
	(void)fd_close(ends[0]);
	h.code = go_through(&c, &h);
	(void)fd_close(ends[1]);
	for (size_t i = 0; i < PREPARED_MAX; i++)
		(void)fd_close(h.trees[i]);
	free(plan.ops);
	return h;
}

static struct heard hear_all(struct said *s)
{
	const struct word *all[WORDS_MAX];

	for (size_t i = 0; i < s->n; i++)
		all[i] = &s->words[i];
	return hear(s, all, s->n);
}

static unsigned mark_of(const struct said *s, size_t i)
{
	return s->words[i].data[0];
}

static void the_words_come_in_the_order_of_the_page_and_are_taken_of(bool whole)
{
	unsigned last = 0, kinds = 0;
	struct heard h;
	struct said s;

	say(&s, whole);
	for (size_t i = 0; i < s.n; i++) {
		unsigned mark = mark_of(&s, i);

		assert_in_range(mark, LATE_LOOKED, LATE_TRUST);
		kinds |= 1U << mark;
		if (mark != LATE_TEXTS) { /* these lie between all the others */
			assert_true(mark >= last);
			last = mark;
		}
	}
	assert_int_equal(last, whole ? LATE_TRUST : LATE_END);
	assert_true(kinds & 1U << (whole ? LATE_HELD : LATE_ADDED));
	h = hear_all(&s);
	assert_string_equal(h.e.what, "");
	assert_int_equal(h.code, 0);
	assert_int_equal(h.texts > 0, (kinds & 1U << LATE_TEXTS) != 0);
	assert_int_equal(h.added > 0, (kinds & 1U << LATE_ADDED) != 0);
	assert_int_equal(h.trusted, whole);
	forget(&s);
}

static void the_words_come_in_the_order_of_the_page_and_are_taken(void **state UNUSED)
{
	the_words_come_in_the_order_of_the_page_and_are_taken_of(false);
	the_words_come_in_the_order_of_the_page_and_are_taken_of(true);
}

static void two_words_in_each_others_place_end_the_start_of(bool whole)
{
	const struct word *order[WORDS_MAX];
	size_t tried = 0;
	struct said s;

	say(&s, whole);
	for (size_t a = 0; a < s.n; a++)
		for (size_t b = a + 1; b < s.n; b++) {
			struct heard h;

			if (mark_of(&s, a) == mark_of(&s, b) && mark_of(&s, a) == LATE_TEXTS)
				continue;
			for (size_t i = 0; i < s.n; i++)
				order[i] = &s.words[i == a ? b : i == b ? a : i];
			h = hear(&s, order, s.n);
			assert_int_equal(h.code, -EPROTO);
			tried++;
		}
	assert_true(tried > 0);
	forget(&s);
}

static void two_words_in_each_others_place_end_the_start(void **state UNUSED)
{
	two_words_in_each_others_place_end_the_start_of(false);
	two_words_in_each_others_place_end_the_start_of(true);
}

static void a_word_left_out_ends_the_start_of(bool whole)
{
	const struct word *order[WORDS_MAX];
	struct said s;

	say(&s, whole);
	for (size_t out = 0; out < s.n; out++) {
		size_t n = 0;

		for (size_t i = 0; i < s.n; i++)
			if (i != out)
				order[n++] = &s.words[i];
		assert_true(hear(&s, order, n).code < 0);
	}
	forget(&s);
}

static void a_word_left_out_ends_the_start(void **state UNUSED)
{
	a_word_left_out_ends_the_start_of(false);
	a_word_left_out_ends_the_start_of(true);
}

static void a_word_that_is_not_whole_ends_the_start_of(bool whole)
{
	struct said s;

	say(&s, whole);
	for (size_t cut = 0; cut < s.n; cut++) {
		const struct word *order[WORDS_MAX];
		struct word half = s.words[cut];

		if (half.n < 3)
			continue; /* a mark alone */
		half.n /= 2;
		for (size_t i = 0; i < s.n; i++)
			order[i] = i == cut ? &half : &s.words[i];
		assert_true(hear(&s, order, s.n).code < 0);
	}
	forget(&s);
}

static void a_word_that_is_not_whole_ends_the_start(void **state UNUSED)
{
	a_word_that_is_not_whole_ends_the_start_of(false);
	a_word_that_is_not_whole_ends_the_start_of(true);
}

static int take_by(enum late_mark taker, const struct box_start *c, struct err *e)
{
	struct told_texts texts = { .at = 0, .n = 0 };
	struct op_added room = { .number = 0 };
	int trees[PREPARED_MAX];
	const char *text;
	struct op o;

	switch (taker) {
	case LATE_LOOKED:
	case LATE_HELD:
		return box_held(c, taker, e);
	case LATE_TEXTS:
		return box_text(c, &texts, &text, e);
	case LATE_TREES:
		return box_trees(c, trees, e);
	default:
		return box_added(c, &room, &o, e);
	}
}

/* Whole for every mark: two skips, a text of one letter, a first operation, an end after none. */
static size_t word_of(unsigned mark, struct op_added *word)
{
	*word = (struct op_added){ .mark = (unsigned char)mark };
	if (mark == LATE_TEXTS)
		((char *)word)[1] = 'x';
	word->number = mark == LATE_ADDED;
	return mark == LATE_ADDED   ? offsetof(struct op_added, dst) + 1
	       : mark == LATE_END   ? offsetof(struct op_added, dst)
	       : mark == LATE_TREES ? 1
				    : 3;
}

/* Each taker, and a word of each mark there is, and of two that there are not. */
static void a_taker_takes_the_mark_it_waits_for_alone(void **state UNUSED)
{
	struct op ops[2] = { { .kind = OP_FILE, .look = LOOK_LOGINS, .dst = "/etc/one" } };
	struct box_plan plan = { .ops = ops, .op_count = 2 };
	unsigned char skips[3];

	for (unsigned taker = LATE_LOOKED; taker <= LATE_END; taker++)
		for (unsigned mark = 0; mark <= LATE_END + 1; mark++) {
			bool added = mark == LATE_ADDED || mark == LATE_END;
			struct box_start c = { .plan = &plan, .late = true, .skips = skips };
			struct op_added word;
			size_t n = word_of(mark, &word);
			struct err e = { 0 };
			int ends[2], r;

			must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
			must(fd_send(ends[0], &word, n, NULL, 0) == 0);
			c.inside.control = ends[1];
			r = take_by((enum late_mark)taker, &c, &e);
			if (taker >= LATE_ADDED ? added : mark == taker)
				assert_true(r >= 0);
			else
				assert_int_equal(r, -EPROTO);
			(void)fd_close(ends[0]);
			(void)fd_close(ends[1]);
		}
}

static void nobody_is_waited_for_when_the_monitor_is_gone(void **state UNUSED)
{
	struct heard h;
	struct said s;

	say(&s, false);
	h = hear(&s, NULL, 0);
	assert_int_equal(h.code, -EPIPE);
	assert_string_equal(h.e.what, "the monitor went away");
	forget(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_words_come_in_the_order_of_the_page_and_are_taken, enter, leave),
		cmocka_unit_test_setup_teardown(two_words_in_each_others_place_end_the_start, enter,
						leave),
		cmocka_unit_test_setup_teardown(a_word_left_out_ends_the_start, enter, leave),
		cmocka_unit_test_setup_teardown(a_word_that_is_not_whole_ends_the_start, enter,
						leave),
		cmocka_unit_test(a_taker_takes_the_mark_it_waits_for_alone),
		cmocka_unit_test_setup_teardown(nobody_is_waited_for_when_the_monitor_is_gone,
						enter, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

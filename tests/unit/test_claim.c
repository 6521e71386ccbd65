/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_claim.c - files that say whose something is, while their owner lives and after. */
#include <sys/file.h>

#include "unit.h"

#include "base/files/claim.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/str.h"

#define ONE "0123456789abcdef0123456789abcdef"
#define TWO "ffffffffffffffffffffffffffffffff"
#define SLOW_MS 300

static char place[PATH_MAX];
static int here;

static int arrive(void **state)
{
	(void)state;
	enter_scratch(place);
	here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return here < 0;
}

static int leave(void **state)
{
	(void)state;
	(void)fd_close(here);
	leave_scratch(place);
	return 0;
}

struct shown {
	unsigned n;
	char text[64], id[64];
	time_t age;
	bool gone;
};

static bool note_shown(void *arg, const struct claim_lost *c)
{
	struct shown *s = arg;

	s->n++;
	s->age = c->age;
	(void)snprintf(s->text, sizeof(s->text), "%s", c->text);
	(void)snprintf(s->id, sizeof(s->id), "%s", c->id);
	return s->gone;
}

static void claims(const char *id, const char *text)
{
	(void)fd_close(claim_make(here, id, text, strlen(text)));
	assert_int_equal(faccessat(here, id, F_OK, 0), 0);
}

static void a_claim_with_an_owner_is_never_shown(void **state)
{
	struct shown s = { .gone = true };
	int fd = claim_make(here, ONE, "x", 1);

	(void)state;
	assert_true(fd >= 0);
	assert_true(claim_held(here, ONE));
	claim_sweep(here, 10, note_shown, &s);
	claim_show(here, ONE, 0, note_shown, &s);
	assert_int_equal(s.n, 0);
	(void)close(fd);
	assert_false(claim_held(here, ONE));
	claim_sweep(here, 10, note_shown, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(faccessat(here, ONE, F_OK, 0), -1);
}

static void what_it_says_is_shown_as_it_was_written(void **state)
{
	struct shown s = { .gone = false };

	(void)state;
	claims(ONE, "a\nb\n");
	claim_sweep(here, 10, note_shown, &s);
	assert_string_equal(s.text, "a\nb\n");
	assert_string_equal(s.id, ONE);
	assert_true(s.age >= 0 && s.age < 60);
	assert_int_equal(faccessat(here, ONE, F_OK, 0), 0);
}

static void its_age_counts_from_the_last_word_in_it(void **state)
{
	const struct timespec then[2] = { { .tv_sec = time(NULL) - 5000 },
					  { .tv_sec = time(NULL) - 5000 } };
	struct shown s = { .gone = false };

	(void)state;
	claims(ONE, "x");
	assert_int_equal(utimensat(here, ONE, then, 0), 0);
	claim_show(here, ONE, 0, note_shown, &s);
	assert_true(s.age >= 5000 && s.age < 5060);
}

static void a_second_owner_of_the_same_id_is_refused(void **state)
{
	int fd = claim_make(here, ONE, "first", 5);
	char text[16];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(claim_make(here, ONE, "second", 6), -EEXIST);
	assert_int_equal(fd_read_file(here, ONE, text, sizeof(text)), 5);
	assert_string_equal(text, "first");
	(void)close(fd);
}

static void a_text_that_could_not_be_read_back_is_refused(void **state)
{
	char *text = calloc(1, CLAIM_TEXT);

	(void)state;
	assert_non_null(text);
	assert_int_equal(claim_make(here, ONE, text, CLAIM_TEXT), -ENAMETOOLONG);
	assert_int_equal(faccessat(here, ONE, F_OK, 0), -1);
	(void)fd_close(claim_make(here, ONE, text, CLAIM_TEXT - 1));
	assert_int_equal(faccessat(here, ONE, F_OK, 0), 0);
	free(text);
}

static void nothing_but_claims_is_looked_at(void **state)
{
	struct shown s = { .gone = true };

	(void)state;
	write_text("instance", "x");
	write_text(ONE ".hosts", "x");
	write_text("." TWO, "x");
	must(symlink("instance", TWO) == 0);
	claim_sweep(here, 10, note_shown, &s);
	assert_int_equal(s.n, 0);
	must(unlink(TWO) == 0 && mkfifo(TWO, 0600) == 0);
	claim_sweep(here, 10, note_shown, &s); /* does not wait for a writer */
	assert_true(s.n == 0);
}

static void only_so_many_are_looked_at(void **state)
{
	struct shown s = { .gone = false };

	(void)state;
	claims(ONE, "x");
	claims(TWO, "x");
	claim_sweep(here, 1, note_shown, &s);
	assert_int_equal(s.n, 1);
}

/* The lock goes with the last process that has it open. */
static void an_owner_that_is_about_to_be_gone_is_waited_for(void **state)
{
	struct shown s = { .gone = false };
	int fd = claim_make(here, ONE, "x", 1);
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)usleep(SLOW_MS * 1000);
		_exit(0);
	}
	(void)close(fd);
	claim_show(here, ONE, 20, note_shown, &s);
	assert_int_equal(s.n, 0);
	claim_show(here, ONE, 20000, note_shown, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void an_id_is_thirty_two_digits(void **state)
{
	(void)state;
	assert_true(claim_is_id(ONE));
	assert_false(claim_is_id(ONE "0"));
	assert_false(claim_is_id("0123456789ABCDEF0123456789abcdef"));
	assert_false(claim_is_id(""));
}

static void a_state_folder_keeps_its_name(void **state)
{
	char first[STATE_INSTANCE], again[STATE_INSTANCE];
	struct err e;

	(void)state;
	assert_int_equal(state_instance(here, first, &e), 0);
	assert_int_equal(state_instance(here, again, &e), 0);
	assert_string_equal(first, again);
	assert_true(claim_is_id(first));
	write_text("instance", "short");
	assert_true(state_instance(here, again, &e) < 0);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, arrive, leave)
static const struct CMUnitTest tests[] = {
	IN_SCRATCH(a_claim_with_an_owner_is_never_shown),
	IN_SCRATCH(what_it_says_is_shown_as_it_was_written),
	IN_SCRATCH(its_age_counts_from_the_last_word_in_it),
	IN_SCRATCH(a_second_owner_of_the_same_id_is_refused),
	IN_SCRATCH(a_text_that_could_not_be_read_back_is_refused),
	IN_SCRATCH(nothing_but_claims_is_looked_at),
	IN_SCRATCH(only_so_many_are_looked_at),
	IN_SCRATCH(an_owner_that_is_about_to_be_gone_is_waited_for),
	IN_SCRATCH(an_id_is_thirty_two_digits),
	IN_SCRATCH(a_state_folder_keeps_its_name),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

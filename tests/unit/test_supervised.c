/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_supervised.c - the monitor's side of a supervisor in another process, which is played
 * here by the other end of the socket. */
#include "unit.h"

#include <sys/socket.h>

#include "backend/kit/remote/supervised.h"
#include "base/files/fd.h"

#define ID "0123456789abcdef0123456789abcdef"

struct play {
	struct supervised s;
	int there; /* the supervisor's end */
	unsigned heard, starting;
	int keeps; /* how many descriptors of a word are taken */
	int kept[2];
	int refuses; /* an errno for `starting` */
};

static char tidied[33];

static void play_heard(struct supervised *s, const struct supervisor_msg *m UNUSED, int *fds,
		       size_t n)
{
	struct play *p = CONTAINER_OF(s, struct play, s);

	p->heard++;
	for (int i = 0; i < p->keeps && (size_t)i < n; i++)
		p->kept[i] = TAKE_FD(fds[i]);
}

static int play_starting(struct supervised *s, const struct supervisor_msg *m UNUSED, struct err *e)
{
	struct play *p = CONTAINER_OF(s, struct play, s);

	p->starting++;
	return p->refuses ? err_set(e, ERR_INTERNAL, p->refuses, "not so") : 0;
}

static void play_tidy(const char *id)
{
	(void)snprintf(tidied, sizeof(tidied), "%s", id);
}

static const struct supervised_kind kind = { .what = "the play",
					     .keeper = "the player",
					     .leave_ms = 2000,
					     .gone_ms = 50,
					     .heard = play_heard,
					     .starting = play_starting,
					     .tidy = play_tidy };

static void play_begin(struct play *p)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	*p = (struct play){ .s = { .kind = &kind, .id = ID, .control = pair[0] },
			    .there = pair[1],
			    .kept = { -1, -1 } };
	tidied[0] = '\0';
}

static void play_end(struct play *p)
{
	supervised_done(&p->s);
	(void)fd_close(p->there);
	(void)fd_close(p->kept[0]);
	(void)fd_close(p->kept[1]);
}

static void say(const struct play *p, enum supervisor_said said, int *fds, size_t n)
{
	struct supervisor_msg m = { .said = said, .status = 7 };

	if (said == SUPERVISOR_FAILED)
		(void)err_set(&m.err, ERR_UNAVAILABLE, EIO, "the curtain is stuck");
	assert_int_equal(fd_send(p->there, &m, sizeof(m), fds, n), 0);
}

/* What the monitor has asked. */
static bool was_asked(const struct play *p, int sig)
{
	struct supervisor_request r = { 0 };
	size_t none = 0;

	return fd_recv(p->there, &r, sizeof(r), NULL, &none) == (ssize_t)sizeof(r) &&
	       r.asks == ASK_SIGNAL && r.command == COMMAND_FIRST && r.signal == sig;
}

static void take_note(void *arg, const char *text UNUSED)
{
	++*(unsigned *)arg;
}

static bool gives_up(void *arg UNUSED)
{
	return true;
}

static void a_start_ends_with_its_word_and_passes_notes_on(void **state UNUSED)
{
	unsigned notes = 0;
	const struct job_want w = { .wake = { -1, -1 },
				    .host = { .note = take_note, .arg = &notes } };
	struct err e = { 0 };
	struct play p;

	play_begin(&p);
	say(&p, SUPERVISOR_NOTE, NULL, 0);
	say(&p, SUPERVISOR_STARTED, NULL, 0);
	say(&p, SUPERVISOR_ENDED, NULL, 0);
	assert_int_equal(supervised_start(&p.s, &w, &e), 0);
	assert_true(p.s.begun);
	assert_int_equal(notes, 1);
	assert_int_equal(p.starting, 2);
	assert_false(p.s.ended); /* what comes behind is left for later */
	assert_false(supervised_hear_all(&p.s));
	assert_true(p.s.ended && p.s.told);
	assert_int_equal(p.s.end.status, 7);
	play_end(&p);
}

static void a_start_that_fails_says_why(void **state UNUSED)
{
	const struct job_want w = { .wake = { -1, -1 } };
	struct err e = { 0 };
	struct play p;

	play_begin(&p);
	say(&p, SUPERVISOR_FAILED, NULL, 0);
	assert_int_equal(supervised_start(&p.s, &w, &e), -EIO);
	assert_string_equal(e.what, "the curtain is stuck");
	assert_false(p.s.begun);
	p.there = fd_close(p.there);
	supervised_leave(&p.s);
	assert_string_equal(tidied, ""); /* it has cleaned up itself */
	play_end(&p);

	play_begin(&p);
	p.refuses = EPERM;
	say(&p, SUPERVISOR_STARTED, NULL, 0);
	assert_int_equal(supervised_start(&p.s, &w, &e), -EPERM);
	assert_false(p.s.begun);
	play_end(&p);
}

static void a_supervisor_that_is_killed_is_told_and_tidied_up_after(void **state UNUSED)
{
	const struct job_want w = { .wake = { -1, -1 } };
	struct err e = { 0 };
	struct play p;

	play_begin(&p);
	p.there = fd_close(p.there);
	assert_int_equal(supervised_start(&p.s, &w, &e), -ECHILD);
	assert_string_equal(e.what, "the player was ended from outside");
	assert_false(supervised_hear_all(&p.s));
	supervised_leave(&p.s);
	assert_string_equal(tidied, ID);
	tidied[0] = '\0';
	supervised_leave(&p.s); /* once */
	assert_string_equal(tidied, "");
	play_end(&p);
}

static void whoever_leaves_ends_what_there_is(void **state UNUSED)
{
	struct play p;

	play_begin(&p);
	say(&p, SUPERVISOR_ENDED, NULL, 0);
	assert_false(supervised_hear_all(&p.s));
	supervised_leave(&p.s); /* it is slow, and is not waited for without end */
	assert_string_equal(tidied, "");
	assert_false(was_asked(&p, SIGKILL)); /* all has ended */
	play_end(&p);

	play_begin(&p);
	say(&p, SUPERVISOR_STARTED, NULL, 0);
	say(&p, SUPERVISOR_FAILED, NULL, 0);
	supervised_leave(&p.s);
	assert_true(was_asked(&p, SIGKILL));
	assert_string_equal(tidied, "");
	play_end(&p);
}

static void a_start_can_be_given_up(void **state UNUSED)
{
	int wake[2];
	struct job_want w = { .host = { .asked_to_stop = gives_up } };
	struct err e = { 0 };
	struct play p;

	assert_int_equal(pipe2(wake, O_CLOEXEC), 0);
	w.wake[0] = wake[0];
	w.wake[1] = -1;
	assert_int_equal(write(wake[1], "", 1), 1);
	play_begin(&p);
	assert_int_equal(supervised_start(&p.s, &w, &e), -ECANCELED);
	assert_true(was_asked(&p, SIGKILL));
	play_end(&p);
	(void)close(wake[0]);
	(void)close(wake[1]);
}

static void what_is_not_taken_of_a_words_descriptors_is_closed(void **state UNUSED)
{
	struct supervisor_msg m;
	int pipes[2][2];
	struct play p;

	play_begin(&p);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC | O_NONBLOCK), 0);
		say(&p, SUPERVISOR_DOOR, &pipes[i][1], 1);
		(void)close(pipes[i][1]);
		p.keeps = i;
		assert_int_equal(supervised_hear(&p.s, &m), 1);
		/* At its end once nobody has the other one. */
		assert_int_equal(read(pipes[i][0], &(char){ 0 }, 1), i ? -1 : 0);
		(void)close(pipes[i][0]);
	}
	/* One that is short is no word, and what came with it goes. */
	assert_int_equal(pipe2(pipes[0], O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(fd_send(p.there, "x", 1, &pipes[0][1], 1), 0);
	(void)close(pipes[0][1]);
	assert_int_equal(supervised_hear(&p.s, &m), -ECHILD);
	assert_int_equal(p.heard, 2);
	assert_int_equal(read(pipes[0][0], &(char){ 0 }, 1), 0);
	(void)close(pipes[0][0]);
	play_end(&p);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_start_ends_with_its_word_and_passes_notes_on),
	cmocka_unit_test(a_start_that_fails_says_why),
	cmocka_unit_test(a_supervisor_that_is_killed_is_told_and_tidied_up_after),
	cmocka_unit_test(whoever_leaves_ends_what_there_is),
	cmocka_unit_test(a_start_can_be_given_up),
	cmocka_unit_test(what_is_not_taken_of_a_words_descriptors_is_closed),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

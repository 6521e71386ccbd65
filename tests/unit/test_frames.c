/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_frames.c - a line with two ends: windows, bounds, ends; and one that is a file. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "far/far_job.h"

enum { WINDOW = 65536, TURNS = 64 };

struct end {
	struct loop *loop;
	struct frames *frames;
	uint32_t heard[FRAMES_KINDS];
};

static int hear(void *arg, const struct frames_head *h, const void *payload UNUSED)
{
	struct end *e = arg;

	e->heard[h->kind] += h->size + 1;
	return 0;
}

static void begin(struct end *e, int from, int to, struct frames_line line)
{
	struct err err = { 0 };

	assert_int_equal(loop_new(&e->loop, &err), 0);
	line.from = from;
	line.to = to;
	line.loop = e->loop;
	e->frames = frames_on(&line, hear, e);
	assert_non_null(e->frames);
	assert_non_null(frames_begin(e->frames, 1));
}

static void finish(struct end *e)
{
	(void)frames_free(e->frames);
	(void)loop_free(e->loop);
}

static int turn(struct end *e)
{
	loop_turn(e->loop, 0);
	return frames_turn(e->frames, NULL, 0);
}

/* Both ends of a pipe that takes what it gets; `theirs` is for the line. */
static int pipe_end(struct end *e, size_t channel, bool sends)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(frames_open(frames_find(e->frames, 1), channel, p[sends ? 0 : 1], sends),
			 0);
	return p[sends ? 1 : 0];
}

static size_t drain(int fd)
{
	char part[4096];
	size_t all = 0;
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		all += (size_t)n;
	return all;
}

static void pair(int p[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p), 0);
}

static void a_reader_that_stops_holds_up_its_own_channel_alone(void **state UNUSED)
{
	struct end a = { 0 }, b = { 0 };
	int line[2], in, out, other_in, other_out;
	size_t sent = 0, got;
	char part[8192] = { 0 };

	pair(line);
	begin(&a, line[0], line[0], (struct frames_line){ .newlines = true });
	begin(&b, line[1], line[1], (struct frames_line){ .newlines = true });
	in = pipe_end(&a, 0, true);
	out = pipe_end(&b, 0, false);
	other_in = pipe_end(&a, 1, true);
	other_out = pipe_end(&b, 1, false);
	for (int i = 0; i < TURNS; i++) {
		ssize_t n = write(in, part, sizeof(part));

		sent += n > 0 ? (size_t)n : 0;
		assert_true(turn(&a) == 0 && turn(&b) == 0);
	}
	/* Both pipes and a window are full, and nothing more was taken. */
	assert_true(sent >= WINDOW && sent <= 4 * WINDOW);
	assert_int_equal(write(other_in, "x", 1), 1);
	(void)close(other_in);
	assert_true(turn(&a) == 0 && turn(&b) == 0);
	assert_int_equal(drain(other_out), 1);
	(void)close(in);
	got = drain(out);
	for (int i = 0; i < TURNS; i++) {
		assert_true(turn(&a) == 0 && turn(&b) == 0);
		got += drain(out);
	}
	assert_int_equal(got, sent);
	assert_true(frames_closed(frames_find(a.frames, 1)));
	assert_true(frames_flushed(frames_find(b.frames, 1)));
	finish(&a);
	finish(&b);
	for (int i = 0; i < 2; i++)
		(void)close(line[i]);
	(void)close(out);
	(void)close(other_out);
}

static void a_reader_that_leaves_is_told_of(void **state UNUSED)
{
	struct end a = { 0 }, b = { 0 };
	int line[2], in, out;

	pair(line);
	begin(&a, line[0], line[0], (struct frames_line){ 0 });
	begin(&b, line[1], line[1], (struct frames_line){ 0 });
	in = pipe_end(&a, 0, true);
	out = pipe_end(&b, 0, false);
	assert_true(turn(&a) == 0 && turn(&b) == 0);
	(void)close(out);
	for (int i = 0; i < 2; i++)
		assert_true(turn(&b) == 0 && turn(&a) == 0);
	assert_true(frames_closed(frames_find(a.frames, 1)));
	finish(&b);
	(void)close(line[1]);
	assert_int_equal(turn(&a), -EPIPE); /* and so is one whose line is gone */
	finish(&a);
	(void)close(line[0]);
	(void)close(in);
}

/* What one side has written, the other reads later: all of it, however little room it has. */
static void a_line_may_be_a_file(void **state UNUSED)
{
	const struct frames_line kind = { .newlines = true, .unanswered = true };
	int file = memfd_create("line", MFD_CLOEXEC), in, out;
	struct end a = { 0 }, b = { 0 };
	size_t sent = 0, got = 0;
	char part[8192] = { 0 };

	begin(&a, -1, file, kind);
	in = pipe_end(&a, 0, true);
	frames_find(a.frames, 1)->channels[0].most = 300001;
	for (int i = 0; i < TURNS; i++) {
		ssize_t n = write(in, part, sizeof(part));

		sent += n > 0 ? (size_t)n : 0;
		assert_int_equal(turn(&a), 0);
	}
	assert_true(sent > 300001); /* nobody waits for what is cut off */
	(void)close(in);
	assert_int_equal(turn(&a), 0);
	assert_int_equal(frames_say(a.frames, FRAMES_ENDED, 1, NULL, 0), 0);
	assert_int_equal(turn(&a), 0);
	finish(&a);
	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	begin(&b, file, -1, kind);
	out = pipe_end(&b, 0, false);
	for (int i = 0; i < TURNS; i++) {
		assert_int_equal(turn(&b), 0);
		/* The word behind it is not heard before what it follows. */
		assert_true(!b.heard[FRAMES_ENDED] || got + 3 * WINDOW > 300001);
		got += drain(out);
	}
	assert_int_equal(got, 300001);
	assert_int_equal(b.heard[FRAMES_ENDED], 1);
	assert_true(frames_said_all(b.frames));
	finish(&b);
	(void)close(out);
	(void)close(file);
}

static void what_is_no_frame_ends_the_conversation(void **state UNUSED)
{
	struct frames_head h = { .size = 2, .kind = FRAMES_SAID }, got;
	char text[sizeof(h) + 3];
	const char *payload;

	memcpy(text, &h, sizeof(h));
	memcpy(text + sizeof(h), "ab\n", 3);
	assert_int_equal(frames_look(text, sizeof(h) + 1, false, &got, &payload), 0);
	assert_int_equal(frames_look(text, sizeof(text), false, &got, &payload), sizeof(h) + 2);
	assert_int_equal(frames_look(text, sizeof(text), true, &got, &payload), sizeof(text));
	text[sizeof(text) - 1] = 'c';
	assert_int_equal(frames_look(text, sizeof(text), true, &got, &payload), -EPROTO);
	h.kind = FRAMES_KINDS;
	assert_int_equal(frames_look((char *)&h, sizeof(h), false, &got, &payload), -EPROTO);
	h.kind = FRAMES_SAID;
	h.size = FRAMES_PIECE + 1;
	assert_int_equal(frames_look((char *)&h, sizeof(h), false, &got, &payload), -EPROTO);
	assert_int_equal(frames_look("slurmstepd: error", 17, false, &got, &payload), -EPROTO);
}

/* Slurm's follower passes bytes on as they come, and looks for one kind. */
static void a_kind_is_seen_as_it_goes_by(void **state UNUSED)
{
	static const char big[FRAMES_PIECE];
	const struct frames_head heads[] = { { .size = FRAMES_PIECE, .kind = FRAMES_REPORT },
					     { .kind = FRAMES_PING },
					     { .kind = FRAMES_ENDED } };
	struct frames_glance g = { .kind = FRAMES_ENDED };

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		assert_false(g.seen);
		for (size_t at = 0; at < sizeof(heads[i]); at++)
			frames_glance(&g, (const char *)&heads[i] + at, 1);
		frames_glance(&g, big, heads[i].size);
		assert_false(g.seen);
		frames_glance(&g, "\n", 1);
	}
	assert_true(g.seen);
	assert_false(g.broken);
	frames_glance(&g, "slurmstepd: error: it is no frame", 33);
	assert_true(g.broken);
}

/* One frame as the other side would have it, right or wrong; what comes of it. */
static int raw(struct end *e, int there, struct frames_head h, const void *payload)
{
	assert_int_equal(write(there, &h, sizeof(h)), sizeof(h));
	assert_int_equal(write(there, payload, h.size), h.size);
	return turn(e);
}

static void words_about_channels_are_held_to_their_rules(void **state UNUSED)
{
	static const uint32_t one = 1;
	static const struct {
		enum frames_kind kind;
		uint8_t channel;
		uint32_t size;
		int result;
		const char *what;
	} words[] = {
		{ FRAMES_DATA, 0, 1, 0, "what this side reads" },
		{ FRAMES_END, 0, 0, 0, "the end of it" },
		{ FRAMES_GONE, 1, 0, 0, "a reader over there that left" },
		{ FRAMES_DATA, 2, 4, 0, "a channel that is not open" },
		{ FRAMES_DATA, FRAMES_CHANNELS, 4, -EPROTO, "a channel that no command has" },
		{ FRAMES_DATA, 1, 4, -EPROTO, "data where this side speaks" },
		{ FRAMES_END, 1, 0, -EPROTO, "an end where this side speaks" },
		{ FRAMES_GONE, 0, 0, -EPROTO, "no reader where this side reads" },
		{ FRAMES_CREDIT, 0, 4, -EPROTO, "room where this side reads" },
		{ FRAMES_CREDIT, 1, 4, -EPROTO, "more room than was taken" },
		{ FRAMES_CREDIT, 1, 3, -EPROTO, "a number that is too short" },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		const struct frames_head h = { .size = words[i].size,
					       .command = 1,
					       .kind = (uint8_t)words[i].kind,
					       .channel = words[i].channel };
		struct end a = { 0 };
		int line[2], out, in, r;

		pair(line);
		begin(&a, line[0], line[0], (struct frames_line){ 0 });
		out = pipe_end(&a, 0, false);
		in = pipe_end(&a, 1, true);
		r = raw(&a, line[1], h, &one);
		if (r != words[i].result)
			fail_msg("%s: %d", words[i].what, r);
		finish(&a);
		(void)close(in);
		(void)close(out);
		(void)close(line[0]);
		(void)close(line[1]);
	}
}

static void what_is_sent_beyond_the_window_ends_the_conversation(void **state UNUSED)
{
	static char piece[FRAMES_PIECE];
	const struct frames_head h = { .size = sizeof(piece), .command = 1, .kind = FRAMES_DATA };
	struct end a = { 0 };
	size_t taken = 0;
	int line[2], out;

	pair(line);
	begin(&a, line[0], line[0], (struct frames_line){ 0 });
	out = pipe_end(&a, 0, false);
	while (taken < 4 * WINDOW && raw(&a, line[1], h, piece) == 0)
		taken += sizeof(piece);
	/* What a pipe holds, and a window. */
	assert_true(taken >= WINDOW && taken <= 2 * WINDOW);
	assert_int_equal(drain(out), taken - WINDOW);
	finish(&a);
	(void)close(out);
	(void)close(line[0]);
	(void)close(line[1]);
}

/* A frame may come in any number of parts; one that breaks off is not heard. */
static void a_frame_counts_once_it_is_whole(void **state UNUSED)
{
	const struct frames_head h = { .size = 3, .command = 9, .kind = FRAMES_SAID };
	char text[2 * sizeof(h) + 5];
	struct end a = { 0 };
	int line[2];

	memcpy(text, &h, sizeof(h));
	memcpy(text + sizeof(h), "abc", 3);
	memcpy(text + sizeof(h) + 3, text, sizeof(h) + 2);
	pair(line);
	begin(&a, line[0], line[0], (struct frames_line){ 0 });
	for (size_t i = 0; i < sizeof(text); i++) {
		assert_int_equal(write(line[1], text + i, 1), 1);
		assert_int_equal(turn(&a), 0);
		assert_int_equal(a.heard[FRAMES_SAID], i + 1 < sizeof(h) + 3 ? 0 : 3 + 1);
	}
	(void)close(line[1]);
	assert_int_equal(turn(&a), -EPIPE);
	assert_int_equal(a.heard[FRAMES_SAID], 3 + 1);
	finish(&a);
	(void)close(line[0]);
}

/* ---- the near end ---- */

struct near {
	struct loop *loop;
	struct far_job *job;
	int there; /* the far end of its line */
};

static void near_begin(struct near *n)
{
	struct err e = { 0 };
	int line[2];

	pair(line);
	assert_int_equal(loop_new(&n->loop, &e), 0);
	n->there = line[1];
	assert_int_equal(
		far_job_new(
			&(struct frames_line){ .from = line[0], .to = line[0], .loop = n->loop },
			&n->job, &e),
		0);
	assert_int_equal(far_job_add(n->job, 0, -1, -1, -1, &e), 0);
	assert_int_equal(far_job_add(n->job, 1, -1, -1, -1, &e), 0);
	assert_true(far_job_add(n->job, 1, -1, -1, -1, &e) < 0);
}

static int say(struct near *n, enum frames_kind kind, uint32_t command, const char *text)
{
	const struct frames_head h = { .size = (uint32_t)strlen(text),
				       .command = command,
				       .kind = (uint8_t)kind };

	assert_int_equal(write(n->there, &h, sizeof(h)), sizeof(h));
	assert_int_equal(write(n->there, text, h.size), h.size);
	loop_turn(n->loop, 0);
	return far_job_turn(n->job);
}

static void near_finish(struct near *n)
{
	(void)far_job_free(n->job);
	(void)loop_free(n->loop);
	(void)close(n->there);
}

static void what_is_said_of_each_command_is_kept_for_it(void **state UNUSED)
{
	const char *host, *job;
	struct near n;
	uint64_t news;

	near_begin(&n);
	assert_int_equal(say(&n, FRAMES_READY, 0, "{\"host\":\"a' b\",\"job\":\"7\"}"), 0);
	assert_true(far_job_ready(n.job, &host, &job));
	assert_string_equal(host, "ab");
	assert_string_equal(job, "7");
	assert_null(far_job_facts(n.job));
	assert_int_equal(say(&n, FRAMES_REPORT, 0, "{"), 0);
	assert_int_equal(say(&n, FRAMES_REPORT, 0, "}"), 0);
	assert_int_equal(say(&n, FRAMES_BEGAN, 0, ""), 0);
	assert_string_equal(far_job_facts(n.job)->data, "{}");
	assert_int_equal(say(&n, FRAMES_REPORT, 1, "{\"a\":1}"), 0);
	assert_int_equal(say(&n, FRAMES_REPORT, 9, "nobody's"), 0);
	assert_null(far_job_report(n.job, 1));
	assert_int_equal(read(far_job_news(n.job, 1), &news, sizeof(news)), -1);
	assert_int_equal(say(&n, FRAMES_ENDED, 1, ""), 0);
	assert_string_equal(far_job_report(n.job, 1)->data, "{\"a\":1}");
	assert_int_equal(read(far_job_news(n.job, 1), &news, sizeof(news)), sizeof(news));
	assert_int_equal(far_job_report(n.job, 0) == NULL, 1);
	assert_int_equal(say(&n, FRAMES_REPORT, 1, "more"), -EPROTO); /* of one that has ended */
	near_finish(&n);
}

static void a_far_end_that_breaks_a_rule_is_heard_no_more(void **state UNUSED)
{
	static const struct {
		enum frames_kind kind;
		const char *text;
	} wrong[] = { { FRAMES_READY, "no JSON" }, { FRAMES_EXEC, "" },
		      { FRAMES_SIGNAL, "four" },   { FRAMES_SAID, "" },
		      { FRAMES_SETTINGS, "" },     { FRAMES_GO, "" } };

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct near n;

		near_begin(&n);
		assert_int_equal(say(&n, wrong[i].kind, 1, wrong[i].text), -EPROTO);
		assert_int_equal(say(&n, FRAMES_ENDED, 1, ""), -EPROTO);
		assert_false(far_job_ended(n.job, 1));
		near_finish(&n);
	}
}

static void what_comes_out_of_turn_is_heard_no_more(void **state UNUSED)
{
	static const struct {
		struct {
			enum frames_kind kind;
			uint32_t command;
			const char *text;
		} words[3];
		int result;
		const char *what;
	} cases[] = {
		{ { { FRAMES_BEGAN, 1, "" }, { FRAMES_ENDED, 1, "" } }, 0, "a command" },
		{ { { FRAMES_REPORT, 1, "{}" }, { FRAMES_ENDED, 1, "" } }, 0, "one refused" },
		{ { { FRAMES_BEGAN, 9, "" }, { FRAMES_BEGAN, 9, "" } }, 0, "one that was left" },
		{ { { FRAMES_READY, 0, "{}" }, { FRAMES_READY, 0, "{}" } }, -EPROTO, "two hosts" },
		{ { { FRAMES_BEGAN, 1, "" }, { FRAMES_BEGAN, 1, "" } }, -EPROTO, "begun twice" },
		{ { { FRAMES_BEGAN, 0, "" }, { FRAMES_BEGAN, 0, "" } }, -EPROTO, "open twice" },
		{ { { FRAMES_ENDED, 1, "" }, { FRAMES_BEGAN, 1, "" } }, -EPROTO, "begun late" },
		{ { { FRAMES_ENDED, 1, "" }, { FRAMES_REPORT, 1, "{}" } }, -EPROTO, "told late" },
		{ { { FRAMES_ENDED, 0, "" }, { FRAMES_BEGAN, 0, "" } }, -EPROTO, "open late" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct near n;
		int r = 0;

		near_begin(&n);
		for (size_t w = 0; r == 0 && cases[i].words[w].text; w++)
			r = say(&n, cases[i].words[w].kind, cases[i].words[w].command,
				cases[i].words[w].text);
		if (r != cases[i].result)
			fail_msg("%s: %d", cases[i].what, r);
		near_finish(&n);
	}
}

/* Whoever waits for a command is told as well when nothing more will be said of it. */
static void a_far_end_that_breaks_off_has_ended_nothing(void **state UNUSED)
{
	const struct frames_head h = { .size = 0, .command = 1, .kind = FRAMES_ENDED };
	struct near n;
	uint64_t news;

	near_begin(&n);
	assert_int_equal(say(&n, FRAMES_REPORT, 1, "{}"), 0);
	assert_int_equal(write(n.there, &h, sizeof(h) - 1), sizeof(h) - 1);
	assert_int_equal(far_job_turn(n.job), 0);
	assert_int_equal(read(far_job_news(n.job, 1), &news, sizeof(news)), -1);
	assert_int_equal(shutdown(n.there, SHUT_WR), 0);
	assert_int_equal(far_job_turn(n.job), -EPIPE);
	assert_false(far_job_ended(n.job, 1));
	assert_null(far_job_report(n.job, 1));
	assert_int_equal(read(far_job_news(n.job, 1), &news, sizeof(news)), sizeof(news));
	near_finish(&n);
}

static void a_sandbox_has_so_many_commands_and_no_more(void **state UNUSED)
{
	static const char *const nothing[] = { NULL };
	const struct order o = { .argv = nothing, .envp = nothing, .path = "", .cwd = "" };
	struct err e = { 0 };
	struct near n;

	near_begin(&n); /* it has one */
	for (uint32_t i = 2; i <= COMMANDS_MAX; i++)
		assert_int_equal(far_job_add(n.job, i, -1, -1, -1, &e), 0);
	assert_int_equal(far_job_add(n.job, 1000, -1, -1, -1, &e), -EAGAIN);
	assert_true(far_job_exec(n.job, 1000, &(struct far_exec){ .order = &o }, &e) < 0);
	far_job_leave(n.job, 7);
	assert_int_equal(far_job_add(n.job, 1000, -1, -1, -1, &e), 0);
	/* What is said of the one that was left is nobody's; least of all the next one's. */
	assert_int_equal(say(&n, FRAMES_REPORT, 7, "{}"), 0);
	assert_int_equal(say(&n, FRAMES_ENDED, 7, ""), 0);
	assert_false(far_job_ended(n.job, 1000));
	near_finish(&n);
}

static void reports_are_bounded_together(void **state UNUSED)
{
	static char text[FRAMES_PIECE + 1];
	struct err e = { 0 };
	struct near n;
	size_t kept = 0;
	int r = 0;

	near_begin(&n);
	assert_int_equal(far_job_add(n.job, 2, -1, -1, -1, &e), 0);
	assert_int_equal(far_job_add(n.job, 3, -1, -1, -1, &e), 0);
	memset(text, 'x', FRAMES_PIECE);
	for (uint32_t i = 0; r == 0 && i < 3 * FAR_REPORT_MAX / FRAMES_PIECE; i++) {
		r = say(&n, FRAMES_REPORT, 1 + i % 3, text);
		kept += FRAMES_PIECE;
	}
	assert_int_equal(r, -EPROTO);
	assert_true(kept > FAR_REPORT_MAX && kept <= (size_t)2 * FAR_REPORT_MAX + FRAMES_PIECE);
	near_finish(&n);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_reader_that_stops_holds_up_its_own_channel_alone),
	cmocka_unit_test(a_reader_that_leaves_is_told_of),
	cmocka_unit_test(a_line_may_be_a_file),
	cmocka_unit_test(what_is_no_frame_ends_the_conversation),
	cmocka_unit_test(a_kind_is_seen_as_it_goes_by),
	cmocka_unit_test(words_about_channels_are_held_to_their_rules),
	cmocka_unit_test(what_is_sent_beyond_the_window_ends_the_conversation),
	cmocka_unit_test(a_frame_counts_once_it_is_whole),
	cmocka_unit_test(what_is_said_of_each_command_is_kept_for_it),
	cmocka_unit_test(a_far_end_that_breaks_a_rule_is_heard_no_more),
	cmocka_unit_test(what_comes_out_of_turn_is_heard_no_more),
	cmocka_unit_test(a_far_end_that_breaks_off_has_ended_nothing),
	cmocka_unit_test(a_sandbox_has_so_many_commands_and_no_more),
	cmocka_unit_test(reports_are_bounded_together),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

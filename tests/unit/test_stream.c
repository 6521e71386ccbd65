/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_stream.c - output that is kept, cut or passed on, and input that is given back. */
#include <poll.h>
#include <sys/socket.h>

#include "unit.h"

#include "base/text/str.h"
#include "sandbox/streams/stream.h"

#define TEXT "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x9a\xa2z" /* one character of each length */
#define PATIENCE 10

struct heard {
	struct buf all;
	int calls, empty, broken;
};

static void listen_in(void *arg, int which, const char *data, size_t n)
{
	struct heard *h = arg;

	assert_int_equal(which, 1);
	h->calls++;
	h->empty += n == 0;
	h->broken += utf8_cut(data, n) != n;
	buf_add(&h->all, data, n);
}

struct rig {
	struct pump pump;
	struct stream keep, both;
	struct heard heard;
	int source; /* where the command writes */
};

static void rig_open(struct rig *r, uint64_t limit, int to)
{
	int ends[2];

	*r = (struct rig){ .keep.data = BUF_INIT(1 << 20),
			   .both.data = BUF_INIT(1 << 20),
			   .heard.all = BUF_INIT(1 << 20) };
	must(pipe2(ends, O_CLOEXEC) == 0);
	r->source = ends[1];
	r->pump = (struct pump){ .keep = &r->keep,
				 .both = &r->both,
				 .which = 1,
				 .limit = limit,
				 .on_output = listen_in,
				 .arg = &r->heard };
	pump_open(&r->pump, ends[0], to);
}

static void rig_done(struct rig *r)
{
	pump_close(&r->pump);
	(void)fd_close(r->source);
	buf_done(&r->keep.data);
	buf_done(&r->both.data);
	buf_done(&r->heard.all);
}

static void say(struct rig *r, const char *data, size_t n)
{
	must(write(r->source, data, n) == (ssize_t)n);
	pump_move(&r->pump);
}

/* The command ends; the pump runs dry. */
static void hang_up(struct rig *r)
{
	r->source = fd_close(r->source);
	for (int i = 0; i < 1000 && pump_wants(&r->pump).fd >= 0; i++)
		pump_move(&r->pump);
	assert_int_equal(pump_wants(&r->pump).fd, -1);
}

static void output_is_kept_byte_for_byte(void **state UNUSED)
{
	const char bytes[] = "text\0\xff\xfe\xc3(\xe2\x82 end";
	struct rig r;

	rig_open(&r, 65536, -1);
	say(&r, bytes, sizeof(bytes) - 1);
	hang_up(&r);
	assert_int_equal(r.keep.data.len, sizeof(bytes) - 1);
	assert_memory_equal(r.keep.data.data, bytes, sizeof(bytes));
	assert_int_equal(r.keep.bytes, sizeof(bytes) - 1);
	assert_false(r.keep.truncated);
	assert_int_equal(r.both.data.len, r.keep.data.len);
	rig_done(&r);
}

static void output_that_comes_byte_by_byte_is_heard_in_characters(void **state UNUSED)
{
	struct rig r;

	rig_open(&r, 65536, -1);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < strlen(TEXT); i++)
			say(&r, &TEXT[i], 1);
	hang_up(&r);
	assert_string_equal(buf_str(&r.keep.data), TEXT TEXT TEXT);
	assert_string_equal(buf_str(&r.heard.all), TEXT TEXT TEXT);
	assert_int_equal(r.heard.broken, 0);
	assert_int_equal(r.keep.bytes, 3 * strlen(TEXT));
	rig_done(&r);
}

static void nobody_is_told_of_nothing(void **state UNUSED)
{
	struct rig r;

	rig_open(&r, 65536, -1);
	for (size_t i = 0; i < strlen(TEXT); i++)
		say(&r, &TEXT[i], 1);
	hang_up(&r);
	assert_int_equal(r.heard.empty, 0);
	rig_done(&r);
}

static void the_start_of_a_character_at_the_end_is_not_lost(void **state UNUSED)
{
	static const char *const ends[] = { "x\xc3", "x\xe2\x82", "x\xf0\x9f\x9a", "\xf0" };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct rig r;

		rig_open(&r, 65536, -1);
		say(&r, ends[i], strlen(ends[i]));
		hang_up(&r);
		assert_string_equal(buf_str(&r.keep.data), ends[i]);
		assert_int_equal(r.keep.bytes, strlen(ends[i]));
		rig_done(&r);
	}
}

/* What a stream that ran into `limit` must look like. */
static void expect_cut(const struct stream *s, size_t limit, const char *all)
{
	size_t n = strlen(all);

	assert_int_equal(s->bytes, n);
	assert_int_equal(s->truncated, n > limit);
	assert_true(s->data.len <= limit);
	assert_memory_equal(buf_str(&s->data), all, s->data.len);
	assert_int_equal(utf8_cut(buf_str(&s->data), s->data.len), s->data.len);
	if (n > limit)
		assert_int_equal(s->data.len, utf8_cut(all, limit));
}

static void the_cap_cuts_between_characters_at_any_limit(void **state UNUSED)
{
	const char *all = TEXT TEXT;

	for (size_t limit = 1; limit <= strlen(all) + 1; limit++)
		for (size_t step = 1; step <= strlen(all); step++) {
			struct rig r;

			rig_open(&r, limit, -1);
			for (size_t at = 0; at < strlen(all); at += step)
				say(&r, all + at,
				    strlen(all) - at < step ? strlen(all) - at : step);
			hang_up(&r);
			expect_cut(&r.keep, limit, all);
			expect_cut(&r.both, limit, all);
			rig_done(&r);
		}
}

static void only_what_is_kept_is_heard(void **state UNUSED)
{
	struct rig r;

	rig_open(&r, 6, -1);
	say(&r, TEXT, strlen(TEXT));
	say(&r, TEXT, strlen(TEXT));
	hang_up(&r);
	assert_string_equal(buf_str(&r.keep.data), "a\xc3\xbc\xe2\x82\xac");
	assert_string_equal(buf_str(&r.heard.all), "a\xc3\xbc\xe2\x82\xac");
	rig_done(&r);
}

static size_t drain(int fd, char *out, size_t room)
{
	size_t have = 0;
	ssize_t n;

	while (have < room && (n = read(fd, out + have, room - have)) > 0)
		have += (size_t)n;
	return have;
}

static void a_cap_on_passed_output_cuts_between_characters(void **state UNUSED)
{
	const char *all = TEXT TEXT;

	for (size_t limit = 1; limit <= strlen(all) + 1; limit++) {
		size_t want = limit < strlen(all) ? utf8_cut(all, limit) : strlen(all);
		char got[64];
		struct rig r;
		int goal[2];

		must(pipe2(goal, O_CLOEXEC) == 0);
		rig_open(&r, limit, goal[1]);
		for (size_t i = 0; i < strlen(all); i++)
			say(&r, all + i, 1);
		hang_up(&r);
		pump_close(&r.pump);
		(void)close(goal[1]);
		assert_int_equal(drain(goal[0], got, sizeof(got)), want);
		assert_memory_equal(got, all, want);
		assert_int_equal(r.keep.bytes, strlen(all));
		assert_int_equal(r.keep.truncated, limit < strlen(all));
		(void)close(goal[0]);
		rig_done(&r);
	}
}

/* Moves `total` bytes through a pump into the file `to`. */
static void move_to_file(int to, size_t total)
{
	char block[4096];
	struct rig r;

	memset(block, 'b', sizeof(block));
	rig_open(&r, 0, to);
	for (size_t n = 0; n < total; n += sizeof(block))
		say(&r, block, sizeof(block));
	hang_up(&r);
	assert_int_equal(r.keep.bytes, total);
	rig_done(&r);
}

static void output_passes_into_files_of_either_kind(void **state UNUSED)
{
	static const int flags[] = { 0, O_APPEND };
	char top[PATH_MAX];

	enter_scratch(top);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		int fd = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags[i], 0600);

		assert_true(fd >= 0);
		move_to_file(fd, 1 << 20);
		assert_int_equal(lseek(fd, 0, SEEK_END), 1 << 20);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
		(void)close(fd);
	}
	leave_scratch(top);
}

static void the_callers_descriptor_keeps_its_flags(void **state UNUSED)
{
	struct rig r;
	int goal[2];

	must(pipe2(goal, O_CLOEXEC) == 0);
	rig_open(&r, 0, goal[1]);
	say(&r, "x", 1);
	assert_int_equal(fcntl(goal[1], F_GETFL) & O_NONBLOCK, 0);
	rig_done(&r);
	assert_int_equal(fcntl(goal[1], F_GETFL) & O_NONBLOCK, 0);
	(void)close(goal[0]);
	(void)close(goal[1]);
}

static void a_reader_that_is_gone_ends_the_stream(void **state UNUSED)
{
	static const uint64_t limits[] = { 0, 100 };

	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct rig r;
		int goal[2];

		must(pipe2(goal, O_CLOEXEC) == 0);
		rig_open(&r, limits[i], goal[1]);
		(void)close(goal[0]);
		say(&r, "x\xc3", 2);
		assert_int_equal(pump_wants(&r.pump).fd, -1);
		/* The command finds out by itself. */
		assert_int_equal(write(r.source, "y", 1), -1);
		assert_int_equal(errno, EPIPE);
		assert_int_equal(r.keep.lost, 0);
		(void)close(goal[1]);
		rig_done(&r);
	}
}

static void a_goal_without_room_ends_the_stream_and_is_remembered(void **state UNUSED)
{
	static const uint64_t limits[] = { 0, 100 };

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		int goal = open("/dev/full", O_WRONLY | O_CLOEXEC);
		struct rig r;

		must(goal >= 0);
		rig_open(&r, limits[i], goal);
		say(&r, "x", 1);
		if (pump_wants(&r.pump).fd >= 0) /* a splice that was refused is tried as a copy */
			pump_move(&r.pump);
		assert_int_equal(pump_wants(&r.pump).fd, -1);
		assert_int_equal(r.keep.lost, ENOSPC);
		(void)close(goal);
		rig_done(&r);
	}
}

static void a_socket_whose_reader_is_gone_raises_no_signal(void **state UNUSED)
{
	struct rig r;
	int goal[2];

	(void)signal(SIGPIPE, SIG_DFL);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, goal) == 0);
	rig_open(&r, 0, goal[1]);
	(void)close(goal[0]);
	say(&r, "x", 1);
	assert_int_equal(pump_wants(&r.pump).fd, -1);
	(void)close(goal[1]);
	rig_done(&r);
	(void)signal(SIGPIPE, SIG_IGN);
}

/* More than two pipes hold, with a reader that takes nothing until the pump has stopped asking for
 * input. */
static void slow_reader(void *arg)
{
	uint64_t limit = *(uint64_t *)arg;
	char block[4096];
	struct pollfd want;
	struct rig r;
	int goal[2];

	(void)signal(SIGPIPE, SIG_IGN);
	memset(block, 'b', sizeof(block));
	must(pipe2(goal, O_CLOEXEC) == 0);
	must(fcntl(goal[0], F_SETFL, O_NONBLOCK) == 0);
	rig_open(&r, limit, goal[1]);
	must(fcntl(r.source, F_SETFL, O_NONBLOCK) == 0);
	for (int i = 0; i < 1000; i++) {
		(void)!write(r.source, block, sizeof(block));
		pump_move(&r.pump);
	}
	want = pump_wants(&r.pump);
	must(want.events == POLLOUT && poll(&want, 1, 0) == 0);
	while (read(goal[0], block, sizeof(block)) > 0)
		;
	must(poll(&want, 1, 0) == 1);
	pump_move(&r.pump);
	must(read(goal[0], block, sizeof(block)) > 0);
}

static void a_reader_that_stops_makes_the_command_wait(void **state UNUSED)
{
	uint64_t limit = 0;

	assert_true(in_child(slow_reader, &limit, PATIENCE));
}

/* The deadline and a cancel are kept in the same loop: moving must never wait for the reader. */
static void a_reader_that_stops_does_not_stop_brig_itself(void **state UNUSED)
{
	uint64_t limit = (uint64_t)1 << 30;

	assert_true(in_child(slow_reader, &limit, PATIENCE));
}

static void a_stream_without_a_source_is_at_its_end(void **state UNUSED)
{
	struct stream s = { .data = BUF_INIT(10) };
	struct pump p = { .keep = &s, .both = &s, .limit = 1 };

	pump_open(&p, -1, -1);
	assert_int_equal(pump_wants(&p).fd, -1);
	pump_move(&p);
	pump_close(&p);
	pump_close(&p);
}

static void what_comes_after_the_end_of_a_command_is_not_its_own(void **state UNUSED)
{
	struct rig r;

	rig_open(&r, 100, -1);
	must(write(r.source, "before", 6) == 6);
	pump_end(&r.pump);
	assert_false(pump_done(&r.pump));
	pump_move(&r.pump);
	assert_true(pump_done(&r.pump));
	assert_int_equal(r.keep.bytes, 6);
	rig_done(&r);

	rig_open(&r, 100, -1);
	pump_end(&r.pump); /* nothing is there, though somebody holds the other end */
	assert_true(pump_done(&r.pump));
	rig_done(&r);
}

static int file_with(const char *text)
{
	int fd = open("input", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd >= 0);
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	must(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static void input_the_command_did_not_read_is_given_back(void **state UNUSED)
{
	char top[PATH_MAX], got[8];
	int ends[2], from;
	struct feed f;

	enter_scratch(top);
	from = file_with("first\nsecond\nthird\n");
	must(pipe2(ends, O_CLOEXEC) == 0);
	feed_open(&f, from, ends[1], ends[0], false);
	feed_move(&f);
	assert_int_equal(read(f.peer, got, 6), 6);
	feed_close(&f);
	assert_int_equal(lseek(from, 0, SEEK_CUR), 6);
	(void)close(from);
	leave_scratch(top);
}

static void input_read_to_its_end_stays_read(void **state UNUSED)
{
	char top[PATH_MAX], got[64];
	int ends[2], from;
	struct feed f;

	enter_scratch(top);
	from = file_with("all of it");
	must(pipe2(ends, O_CLOEXEC) == 0);
	feed_open(&f, from, ends[1], ends[0], false);
	while (feed_wants(&f).fd >= 0)
		feed_move(&f);
	assert_int_equal(drain(f.peer, got, sizeof(got)), 9);
	feed_close(&f);
	assert_int_equal(lseek(from, 0, SEEK_CUR), 9);
	(void)close(from);
	leave_scratch(top);
}

static void input_of_any_size_arrives_whole(void **state UNUSED)
{
	size_t total = 1000000, got = 0;
	CLEANUP(mem) char *text = malloc(total + 1);
	CLEANUP(mem) char *back = malloc(total + 1);
	char top[PATH_MAX];
	int ends[2], from;
	struct feed f;

	assert_true(text && back);
	for (size_t i = 0; i < total; i++)
		text[i] = (char)('a' + i * 7 % 26);
	text[total] = '\0';
	enter_scratch(top);
	from = file_with(text);
	must(pipe2(ends, O_CLOEXEC) == 0);
	must(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	feed_open(&f, from, ends[1], ends[0], false);
	for (size_t turn = 0; turn < 100000 && got < total; turn++) {
		ssize_t n;

		feed_move(&f);
		if (turn % 23 != 0 && feed_wants(&f).events != POLLOUT)
			continue;
		n = read(f.peer, back + got,
			 turn % 5000 + 1 < total - got ? turn % 5000 + 1 : total - got);
		got += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(got, total);
	assert_memory_equal(text, back, total);
	feed_close(&f);
	(void)close(from);
	leave_scratch(top);
}

static void a_command_that_does_not_read_is_waited_for(void **state UNUSED)
{
	char block[4096] = { 0 };
	int source[2], ends[2];
	struct feed f;

	must(pipe2(source, O_CLOEXEC) == 0 && pipe2(ends, O_CLOEXEC) == 0);
	feed_open(&f, source[0], ends[1], dup(ends[0]), false);
	assert_int_equal(f.peer, -1); /* a pipe cannot be given back to */
	for (int i = 0; i < 100 && feed_wants(&f).events == POLLIN; i++) {
		must(write(source[1], block, sizeof(block)) > 0);
		feed_move(&f);
	}
	assert_int_equal(feed_wants(&f).events, POLLOUT);
	assert_int_equal(feed_wants(&f).fd, f.to);
	must(read(ends[0], block, sizeof(block)) > 0);
	feed_move(&f);
	assert_int_equal(feed_wants(&f).events, POLLIN);
	feed_close(&f);
	(void)close(source[0]);
	(void)close(source[1]);
	(void)close(ends[0]);
}

static void a_command_that_closed_its_input_is_left_in_peace(void **state UNUSED)
{
	int source[2], ends[2];
	struct feed f;

	must(pipe2(source, O_CLOEXEC) == 0 && pipe2(ends, O_CLOEXEC) == 0);
	feed_open(&f, source[0], ends[1], -1, false);
	(void)close(ends[0]);
	must(write(source[1], "x", 1) == 1);
	feed_move(&f);
	assert_int_equal(f.to, -1);
	assert_int_equal(feed_wants(&f).fd, -1);
	feed_close(&f);
	(void)close(source[0]);
	(void)close(source[1]);
}

static void without_input_the_command_reads_its_end_at_once(void **state UNUSED)
{
	char byte;
	int ends[2];
	struct feed f;

	must(pipe2(ends, O_CLOEXEC) == 0);
	feed_open(&f, -1, ends[1], -1, false);
	assert_int_equal(feed_wants(&f).fd, -1);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	feed_move(&f);
	feed_close(&f);
	(void)close(ends[0]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(output_is_kept_byte_for_byte),
	cmocka_unit_test(output_that_comes_byte_by_byte_is_heard_in_characters),
	cmocka_unit_test(nobody_is_told_of_nothing),
	cmocka_unit_test(the_start_of_a_character_at_the_end_is_not_lost),
	cmocka_unit_test(the_cap_cuts_between_characters_at_any_limit),
	cmocka_unit_test(only_what_is_kept_is_heard),
	cmocka_unit_test(a_cap_on_passed_output_cuts_between_characters),
	cmocka_unit_test(output_passes_into_files_of_either_kind),
	cmocka_unit_test(the_callers_descriptor_keeps_its_flags),
	cmocka_unit_test(a_reader_that_is_gone_ends_the_stream),
	cmocka_unit_test(a_goal_without_room_ends_the_stream_and_is_remembered),
	cmocka_unit_test(a_socket_whose_reader_is_gone_raises_no_signal),
	cmocka_unit_test(a_reader_that_stops_makes_the_command_wait),
	cmocka_unit_test(a_reader_that_stops_does_not_stop_brig_itself),
	cmocka_unit_test(a_stream_without_a_source_is_at_its_end),
	cmocka_unit_test(what_comes_after_the_end_of_a_command_is_not_its_own),
	cmocka_unit_test(input_the_command_did_not_read_is_given_back),
	cmocka_unit_test(input_read_to_its_end_stays_read),
	cmocka_unit_test(input_of_any_size_arrives_whole),
	cmocka_unit_test(a_command_that_does_not_read_is_waited_for),
	cmocka_unit_test(a_command_that_closed_its_input_is_left_in_peace),
	cmocka_unit_test(without_input_the_command_reads_its_end_at_once),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

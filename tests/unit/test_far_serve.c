/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_far_serve.c - the far end of a line: what breaks a rule ends the conversation, and what
 * cannot be had is refused by name. Nothing runs here. */
#include "unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "far/serve/far_serve.h"

#define SETTINGS(version, protocol, more)                                                          \
	"{\"version\":\"" version "\",\"protocol\":" protocol more "}"
#define OTHER SETTINGS("0.0.1", "2", "")

struct said {
	enum frames_kind kind;
	uint32_t command;
	const char *text;
	size_t size; /* 0: the text's */
};

/* What the far end answered. */
struct answers {
	int status;
	unsigned heard[FRAMES_KINDS];
	struct buf report;
};

static void put_frame(struct buf *b, const struct said *s)
{
	const struct frames_head h = { .size = (uint32_t)(s->size ? s->size : strlen(s->text)),
				       .command = s->command,
				       .kind = (uint8_t)s->kind };

	buf_add(b, &h, sizeof(h));
	buf_add(b, s->text, h.size);
}

static void take_answers(int fd, struct answers *a)
{
	CLEANUP(buf) struct buf all = BUF_INIT((size_t)1 << 20);
	struct frames_head h;
	const char *payload;
	char part[4096];
	size_t at = 0;
	ssize_t n;

	while ((n = recv(fd, part, sizeof(part), MSG_DONTWAIT)) > 0)
		buf_add(&all, part, (size_t)n);
	for (; (n = frames_look(all.data + at, all.len - at, false, &h, &payload)) > 0;
	     at += (size_t)n) {
		a->heard[h.kind]++;
		if (h.kind == FRAMES_REPORT)
			buf_add(&a->report, payload, h.size);
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, all.len);
	buf_putc(&a->report, '\0');
}

/* The far end with all of this to hear, and then the line's end if it is one that `ends`. */
static void serve_line(const struct far_line *how, const struct buf *words, bool ends,
		       struct answers *ret)
{
	struct far_line line = *how;
	int pair[2];

	*ret = (struct answers){ .report = BUF_INIT((size_t)1 << 20) };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(write(pair[1], words->data, words->len), words->len);
	if (ends)
		assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
	line.from = line.to = pair[0];
	ret->status = far_serve(&line);
	take_answers(pair[1], ret);
	for (int i = 0; i < 2; i++)
		(void)close(pair[i]);
}

static void serve(const struct buf *words, bool ends, struct answers *ret)
{
	serve_line(&(struct far_line){ 0 }, words, ends, ret);
}

/* Behind each comes a request that is refused, so that it is seen whether that was heard. */
static void put_refused(struct buf *b)
{
	put_frame(b, &(struct said){ FRAMES_SETTINGS, 0, OTHER, 0 });
	put_frame(b, &(struct said){ FRAMES_GO, 0, "", 0 });
}

static void expect(const struct said *first, const char *what, bool heard)
{
	CLEANUP(buf) struct buf words = BUF_INIT((size_t)1 << 20);
	struct answers a;

	put_frame(&words, first);
	put_refused(&words);
	serve(&words, false, &a);
	if (a.status != (heard ? 0 : 1) || a.heard[FRAMES_ENDED] != (heard ? 1 : 0))
		fail_msg("%s: status %d, %u ends", what, a.status, a.heard[FRAMES_ENDED]);
	assert_int_equal(a.heard[FRAMES_READY], 1);
	assert_int_equal(a.heard[FRAMES_BEGAN], 0);
	assert_int_equal(strstr(a.report.data, "same version on both") != NULL, heard);
	buf_done(&a.report);
}

static void what_breaks_a_rule_ends_the_conversation(void **state UNUSED)
{
	static const struct {
		struct said said;
		const char *what;
	} wrong[] = {
		{ { FRAMES_READY, 0, "{}", 0 }, "a word of this side's" },
		{ { FRAMES_REPORT, 1, "{}", 0 }, "a report" },
		{ { FRAMES_BEGAN, 0, "", 0 }, "a beginning" },
		{ { FRAMES_ENDED, 0, "", 0 }, "an end" },
		{ { FRAMES_SAID, 0, "", 0 }, "a pod's word" },
		{ { FRAMES_WANT, 0, "", 0 }, "a pod's request" },
		{ { FRAMES_ORDER, 1, "x", 0 }, "a command before there is a sandbox" },
		{ { FRAMES_EXEC, 1, "x", 0 }, "its end" },
		{ { FRAMES_SIGNAL, 1, "abc", 0 }, "a signal that is too short" },
		{ { FRAMES_SIGNAL, 1, "abcde", 0 }, "a signal that is too long" },
		{ { FRAMES_RESIZE, 1, "abc", 0 }, "a size that is too short" },
		{ { FRAMES_KINDS, 0, "", 0 }, "a kind that is none" },
		{ { 0, 0, "", 0 }, "no kind" },
	};
	static const struct {
		struct said said;
		const char *what;
	} fine[] = {
		{ { FRAMES_PING, 0, "", 0 }, "a sign of life" },
		{ { FRAMES_SIGNAL, 7, "\x0f\0\0\0", 4 }, "a signal for nobody" },
		{ { FRAMES_SIGNAL, 0, "\xff\xff\xff\xff", 4 }, "a signal that is none" },
		{ { FRAMES_RESIZE, 7, "\1\0\1\0", 4 }, "a size of nobody's" },
		{ { FRAMES_DATA, 7, "bytes", 0 }, "input of nobody's" },
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		expect(&wrong[i].said, wrong[i].what, false);
	for (size_t i = 0; i < ARRAY_LEN(fine); i++)
		expect(&fine[i].said, fine[i].what, true);
}

static void a_frame_that_is_too_long_is_none(void **state UNUSED)
{
	static char text[FRAMES_PIECE + 2];

	memset(text, ' ', FRAMES_PIECE + 1);
	expect(&(struct said){ FRAMES_VARIABLES, 0, text, FRAMES_PIECE }, "a whole piece", true);
	expect(&(struct said){ FRAMES_VARIABLES, 0, text, FRAMES_PIECE + 1 }, "one more", false);
}

/* However much of a request came: without its last word nothing of it is had. */
static void a_request_that_breaks_off_is_no_request(void **state UNUSED)
{
	CLEANUP(buf) struct buf whole = BUF_INIT((size_t)1 << 20);

	put_refused(&whole);
	for (size_t n = 0; n <= whole.len; n++) {
		struct buf part = { .data = whole.data, .len = n };
		struct answers a;

		serve(&part, true, &a);
		assert_int_equal(a.status, 1);
		assert_int_equal(a.heard[FRAMES_ENDED], n == whole.len);
		assert_int_equal(a.heard[FRAMES_REPORT], n == whole.len);
		buf_done(&a.report);
	}
}

static void refused(const struct said *q, const char *why)
{
	CLEANUP(buf) struct buf words = BUF_INIT((size_t)1 << 20);
	struct answers a;

	for (; q->text; q++)
		put_frame(&words, q);
	serve(&words, false, &a);
	assert_int_equal(a.status, 0);
	assert_int_equal(a.heard[FRAMES_BEGAN], 0);
	assert_int_equal(a.heard[FRAMES_ENDED], 1);
	if (!strstr(a.report.data, why))
		fail_msg("not refused with '%s': %s", why, a.report.data);
	buf_done(&a.report);
}

#define SAID(...) ((const struct said[]){ __VA_ARGS__, { FRAMES_GO, 0, "", 0 }, { 0 } })
#define MINE(more)                                                                                 \
	{                                                                                          \
		FRAMES_SETTINGS, 0, SETTINGS(BRIG_VERSION, "2", more), 0                           \
	}
#define PATH_ASKED                                                                                 \
	",\"settings\":{},\"paths\":[{\"path\":\"/\",\"what\":\"a path\",\"dev\":1,\"ino\":1}]"

static void what_cannot_be_had_is_refused_by_name(void **state UNUSED)
{
	refused(SAID({ FRAMES_SETTINGS, 0, "{", 0 }), "JSON");
	refused(SAID({ FRAMES_WORDS, 0, "true", 5 }), "JSON");
	refused(SAID({ FRAMES_SETTINGS, 0, OTHER, 0 }), "asked for by brig 0.0.1");
	refused(SAID({ FRAMES_SETTINGS, 0, SETTINGS(BRIG_VERSION, "1", ""), 0 }),
		"same version on both");
	refused(SAID(MINE("")), "no settings were sent");
	refused(SAID(MINE(""), { FRAMES_OPTIONS, 0, "network", 8 }), "an option cannot be read");
	refused(SAID(MINE(""), { FRAMES_OPTIONS, 0, "network=none", 0 }), "options cannot be read");
	refused(SAID(MINE(PATH_ASKED)), "not on a file system that this node shares");
	/* In whatever order they come. */
	refused(SAID({ FRAMES_WORDS, 0, "true", 0 }, MINE(",\"settings\":{}")),
		"no command was sent");
	refused(SAID({ FRAMES_CODE, 0, "pass", 0 }, { FRAMES_WORDS, 0, "python3", 8 },
		     MINE(",\"settings\":{}")),
		"code without an interpreter");
	refused(SAID(MINE(",\"settings\":{}"), { FRAMES_VARIABLES, 0, "A=b", 0 }),
		"variables cannot be read");
}

static void only_the_first_request_counts(void **state UNUSED)
{
	refused(SAID({ FRAMES_SETTINGS, 0, OTHER, 0 }, { FRAMES_GO, 0, "", 0 }, MINE("")),
		"asked for by brig 0.0.1");
}

/* A task of Slurm's reads a file to its end, and what it says is another file. */
static void a_task_answers_what_a_file_asks(void **state UNUSED)
{
	CLEANUP(buf) struct buf words = BUF_INIT((size_t)1 << 20);
	static const char *const names[] = { "a whole request", "one without its last word" };

	put_refused(&words);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct far_line line = { .from = memfd_create("ask", MFD_CLOEXEC),
					 .to = memfd_create("out", MFD_CLOEXEC),
					 .speaks = true,
					 .task = "7_1" };
		size_t n = words.len - i;
		char text[4096];
		ssize_t got;

		assert_int_equal(write(line.from, words.data, n), n);
		assert_int_equal(lseek(line.from, 0, SEEK_SET), 0);
		assert_int_equal(far_serve(&line), i);
		got = pread(line.to, text, sizeof(text) - 1, 0);
		assert_true(got > 0);
		assert_non_null(memmem(text, (size_t)got, "\"job\":\"7_1\"", 11));
		assert_int_equal(memmem(text, (size_t)got, "same version on both", 20) != NULL, !i);
		(void)close(line.from);
		(void)close(line.to);
	}
}

/* A file beside the line is the request, or nothing: the line brings it once more. */
static void a_file_may_be_quicker_than_the_line(void **state UNUSED)
{
	CLEANUP(buf) struct buf asked = BUF_INIT((size_t)1 << 20), none = BUF_INIT(1);
	struct far_line line = { .ask = NULL };
	struct answers a;

	put_refused(&asked);
	line.ask = asked.data;
	for (line.ask_size = 0; line.ask_size <= asked.len; line.ask_size++) {
		bool whole = line.ask_size == asked.len;

		serve_line(&line, whole ? &none : &asked, false, &a);
		assert_int_equal(a.status, 0);
		assert_int_equal(a.heard[FRAMES_ENDED], 1);
		buf_done(&a.report);
	}
	line.ask_size = asked.len;
	serve_line(&line, &asked, false, &a); /* both: it is one request */
	assert_int_equal(a.heard[FRAMES_ENDED], 1);
	buf_done(&a.report);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_breaks_a_rule_ends_the_conversation),
	cmocka_unit_test(a_frame_that_is_too_long_is_none),
	cmocka_unit_test(a_request_that_breaks_off_is_no_request),
	cmocka_unit_test(what_cannot_be_had_is_refused_by_name),
	cmocka_unit_test(only_the_first_request_counts),
	cmocka_unit_test(a_task_answers_what_a_file_asks),
	cmocka_unit_test(a_file_may_be_quicker_than_the_line),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

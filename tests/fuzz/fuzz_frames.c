/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_frames.c - frames out of a pod, or from another brig: whatever comes, nothing beyond a
 * channel's window is kept or written, and nonsense ends the conversation. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "fuzz.h"

#include "base/text/cleanup.h"
#include "far/far_job.h"

static int hear(void *arg, const struct frames_head *h, const void *payload)
{
	size_t *sum = arg;

	for (uint32_t i = 0; i < h->size; i++)
		*sum += ((const uint8_t *)payload)[i];
	return h->kind == FRAMES_SAID ? 0 : -EPROTO;
}

static void open_channels(struct frames *c)
{
	struct frames_command *k = frames_begin(c, 1);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), ends[2];

	if (!k || null < 0 || frames_open(k, 0, null, false) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		abort();
	if (frames_open(k, 1, ends[1], false) < 0)
		abort();
	if (frames_open(k, 2, open("/dev/zero", O_RDONLY | O_CLOEXEC), true) < 0)
		abort();
	(void)close(ends[0]);
}

static void feed_owner(const uint8_t *data, size_t n, struct frames_line line)
{
	struct pollfd p[FRAMES_POLLS];
	size_t sum = 0, sent = 0;
	struct frames *c;
	int pair[2], r = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	line.from = line.to = pair[0];
	c = frames_on(&line, hear, &sum);
	if (!c)
		abort();
	open_channels(c);
	while (r == 0 && sent < n) {
		ssize_t w = write(pair[1], data + sent, n - sent < 4096 ? n - sent : 4096);

		sent += w > 0 ? (size_t)w : 0;
		r = frames_turn(c, p, 0);
		if (w <= 0)
			break;
	}
	(void)frames_free(c);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* The same to the near end of a line to another brig. */
static void feed_job(const uint8_t *data, size_t n)
{
	struct frames_line line = { 0 };
	const struct buf *report;
	struct far_job *j = NULL;
	struct err e = { 0 };
	int pair[2], r = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0 ||
	    loop_new(&line.loop, &e) < 0)
		abort();
	line.from = line.to = pair[0];
	if (far_job_new(&line, &j, &e) < 0 || far_job_add(j, 0, -1, -1, -1, &e) < 0 ||
	    far_job_add(j, 1, -1, open("/dev/null", O_WRONLY | O_CLOEXEC), -1, &e) < 0)
		abort();
	for (size_t sent = 0; r == 0 && sent < n;) {
		ssize_t w = write(pair[1], data + sent, n - sent < 4096 ? n - sent : 4096);

		sent += w > 0 ? (size_t)w : 0;
		r = far_job_turn(j);
		if (w <= 0)
			break;
	}
	report = far_job_report(j, 1);
	require(!report || report->len <= n);
	require(!far_job_facts(j) || far_job_facts(j)->len <= n);
	(void)far_job_free(j);
	(void)loop_free(line.loop);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* Who passes a line on sees in any pieces what it sees in one. */
static void glance(const uint8_t *data, size_t n)
{
	struct frames_glance whole = { .kind = FRAMES_ENDED }, pieces = { .kind = FRAMES_ENDED };

	frames_glance(&whole, data, n);
	for (size_t at = 0; at < n; at += 7)
		frames_glance(&pieces, data + at, n - at < 7 ? n - at : 7);
	require(whole.seen == pieces.seen && whole.broken == pieces.broken);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	(void)signal(SIGPIPE, SIG_IGN);
	feed_owner(data, n, (struct frames_line){ 0 });
	feed_owner(data, n, (struct frames_line){ .newlines = true, .unanswered = true });
	feed_job(data, n);
	glance(data, n);
	return 0;
}

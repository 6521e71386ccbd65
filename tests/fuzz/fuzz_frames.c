/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_frames.c - frames out of a pod: whatever comes, nothing beyond a channel's window is
 * kept or written, and nonsense ends the conversation. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "fuzz.h"

#include "base/text/cleanup.h"
#include "far/frames.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct pollfd p[FRAMES_POLLS];
	size_t sum = 0, sent = 0;
	struct frames *c;
	int pair[2], r = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	c = frames_new(pair[0], pair[0], hear, &sum);
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
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/engine/engine_lines.c - an answer that is a line of JSON for every step. */
#include "backend/docker/engine/engine.h"
#include "base/sys/clock.h"

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define LOOK_MS 250 /* how soon a cancel is seen */

static void engine_lines_take(const struct engine_lines *l, struct buf *b, const char *piece,
			      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (piece[i] != '\n') {
			buf_putc(b, piece[i]);
			continue;
		}
		l->line(l->arg, buf_str(b), b->len);
		b->len = 0;
		b->failed = false;
	}
}

int engine_follow(struct client *c, const struct engine_lines *l, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LINE_MAX_BYTES);
	uint64_t heard = clock_us();
	char piece[8192];

	for (;;) {
		ssize_t n = client_read(c, piece, sizeof(piece), clock_us() + LOOK_MS * 1000, e);

		if (n == 0) {
			if (b.len)
				l->line(l->arg, buf_str(&b), b.len);
			return 0;
		}
		if (n < 0 && n != -EAGAIN)
			return (int)n;
		if (n < 0 && clock_us() - heard > (uint64_t)ENGINE_QUIET_MS * 1000)
			return -ETIMEDOUT;
		if (n > 0) {
			engine_lines_take(l, &b, piece, (size_t)n);
			heard = clock_us();
		}
		if (l->tick(l->arg))
			return -ECANCELED;
	}
}

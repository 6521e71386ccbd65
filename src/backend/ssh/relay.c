/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/relay.c - copies the remote stderr, taking out the lines that are the wrapper's.
 *
 * The mark is one control byte and a secret number; what could be the beginning of it is held back
 * until more has come. Memory is bounded: nothing is read while output waits for its reader. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/ssh/ssh.h"
#include "base/files/fd.h"

#define PART 16384
#define HELD_MAX ((size_t)65536)
#define LINE_MAX_BYTES ((size_t)REPORT_MAX)

static void set_mark(struct relay *r, const char *nonce)
{
	r->mark[0] = MARK;
	memcpy(r->mark + 1, nonce, strlen(nonce) + 1);
}

void relay_init(struct relay *r, int from, int to, const char *nonce)
{
	*r = (struct relay){ .from = from,
			     .to = to,
			     .held = BUF_INIT(HELD_MAX),
			     .unsent = BUF_INIT(HELD_MAX),
			     .line = BUF_INIT(LINE_MAX_BYTES),
			     .drop = true };
	set_mark(r, nonce);
	(void)fcntl(from, F_SETFL, O_NONBLOCK);
	if (to >= 0)
		(void)fcntl(to, F_SETFL, O_NONBLOCK);
}

void relay_expect_end(struct relay *r, const char *nonce, bool report)
{
	set_mark(r, nonce);
	r->drop = false;
	r->last = true;
	r->report = report;
}

void relay_done(struct relay *r)
{
	r->from = fd_close(r->from);
	r->to = fd_close(r->to);
	buf_done(&r->held);
	buf_done(&r->unsent);
	buf_done(&r->line);
}

bool relay_flushed(const struct relay *r)
{
	return !r->unsent.len;
}

static void take_off(struct buf *b, size_t n)
{
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = '\0';
}

/* A reader that went away takes no more: the rest is dropped. */
static void relay_flush(struct relay *r)
{
	while (r->unsent.len && r->to >= 0) {
		ssize_t n = send(r->to, r->unsent.data, r->unsent.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			r->to = fd_close(r->to);
		else
			take_off(&r->unsent, (size_t)n);
	}
	r->unsent.len = r->to < 0 ? 0 : r->unsent.len;
}

static void relay_give(struct relay *r, size_t n)
{
	if (!r->drop && n)
		buf_add(&r->unsent, r->held.data, n);
	if (n)
		take_off(&r->held, n);
}

/* Where the mark begins in what is held, or may begin at its end; held.len: nowhere. */
static size_t mark_at(const struct relay *r, bool *whole)
{
	size_t n = strlen(r->mark);

	for (size_t i = 0; i < r->held.len; i++) {
		size_t left = r->held.len - i, have = left < n ? left : n;

		if (memcmp(r->held.data + i, r->mark, have) != 0)
			continue;
		*whole = have == n;
		return i;
	}
	*whole = false;
	return r->held.len;
}

static bool relay_take_line(struct relay *r)
{
	const char *end =
		r->held.len && !r->report ? memchr(r->held.data, '\n', r->held.len) : NULL;
	size_t n = end ? (size_t)(end - r->held.data) : r->held.len;

	buf_add(&r->line, r->held.data, n);
	if (n)
		take_off(&r->held, n);
	if (r->report ? r->from >= 0 : !end)
		return false;
	if (end)
		take_off(&r->held, 1);
	r->in_line = false;
	r->over = r->last;
	return true;
}

static bool relay_look(struct relay *r)
{
	bool whole;
	size_t at;

	if (r->over) {
		r->after |= r->held.len > 0;
		r->held.len = 0;
		return false;
	}
	if (r->in_line)
		return relay_take_line(r);
	at = mark_at(r, &whole);
	relay_give(r, at);
	if (!whole) {
		if (r->from < 0)
			relay_give(r, r->held.len);
		return false;
	}
	take_off(&r->held, strlen(r->mark));
	r->line.len = 0;
	r->in_line = true;
	return relay_take_line(r);
}

enum said relay_move(struct relay *r)
{
	char part[PART];
	ssize_t n;

	relay_flush(r);
	if (r->held.len && relay_look(r))
		return SAID_LINE;
	while (r->from >= 0 && !r->unsent.len) {
		n = read(r->from, part, sizeof(part));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n > 0)
			buf_add(&r->held, part, (size_t)n);
		else
			r->from = fd_close(r->from);
		if ((r->held.len || r->in_line) && relay_look(r))
			return SAID_LINE;
		relay_flush(r);
	}
	return SAID_NOTHING;
}

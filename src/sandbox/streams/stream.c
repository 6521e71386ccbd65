/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/streams/stream.h"

#include <fcntl.h>
#include <linux/major.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define TYPED_MAX ((size_t)1 << 20)
#define CHUNK 65536
#define SPLICE_CHUNK ((size_t)1 << 20)

/* /dev/null and its like. */
static bool never_blocks(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && major(st->st_rdev) == MEM_MAJOR;
}

/* Pipes and terminals are opened anew, so that not blocking stays our own affair. */
static int own_goal(int to, const struct stat *st)
{
	char path[32];
	int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	if (S_ISFIFO(st->st_mode) || (S_ISCHR(st->st_mode) && !never_blocks(st)))
		fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 ? fd : fcntl(to, F_DUPFD_CLOEXEC, 3);
}

void pump_open(struct pump *p, int from, int to)
{
	struct stat st = { 0 };

	p->from = from;
	p->to = -1;
	p->unsent.max = 2 * (CHUNK + VTFILTER_SLACK);
	p->terminal = from >= 0 && isatty(from);
	if (from >= 0)
		(void)fcntl(from, F_SETFL, O_NONBLOCK);
	if (to < 0 || fstat(to, &st) < 0)
		return;
	p->to = own_goal(to, &st);
	if (p->to < 0) {
		p->keep->lost = errno;
		return;
	}
	p->is_socket = S_ISSOCK(st.st_mode);
	/* Only out of a pipe: a terminal with nothing to say looks as if it were at its end. */
	p->can_splice = !p->limit && !p->filter && !p->tail && !p->is_socket &&
			fstat(from, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Writes what the goal takes now. 0 or more: bytes taken; -errno: it takes nothing any more. */
static ssize_t put_some(const struct pump *p, const char *data, size_t n)
{
	ssize_t w;

	do
		w = p->is_socket ? send(p->to, data, n, MSG_NOSIGNAL | MSG_DONTWAIT)
				 : write(p->to, data, n);
	while (w < 0 && errno == EINTR);
	if (w < 0 && errno != EAGAIN)
		return -errno;
	return w < 0 ? 0 : w;
}

/* What the goal does not take now is kept, and nothing more is read until it did: the loop around
 * us goes on, so that a deadline passes also for a reader that stopped. */
static int stream_put(struct pump *p, const char *data, size_t n)
{
	ssize_t w = n ? put_some(p, data, n) : 0;

	if (w < 0)
		return (int)w;
	buf_add(&p->unsent, data + w, n - (size_t)w);
	return p->unsent.failed ? -ENOMEM : 0;
}

/* Gives the terminal back as it was: whoever speaks next is not the command. */
static void stream_settle(struct pump *p)
{
	char rest[VTFILTER_SLACK];

	if (p->settled)
		return;
	p->settled = true;
	if (p->filter) {
		(void)stream_put(p, rest, vtfilter_flush(p->filter, rest));
		p->keep->moved = p->filter->moved;
		p->keep->mid_line = p->filter->mid_line;
	}
	if (p->raw && p->steered)
		(void)stream_put(p, VT_RESET, sizeof(VT_RESET) - 1);
	p->keep->moved |= p->steered;
}

/* Is there anything in it that a terminal might obey? Bytes of characters beyond ASCII may be. */
static void watch(struct pump *p, const char *data, size_t n)
{
	for (size_t i = 0; i < n && !p->steered; i++) {
		unsigned char c = (unsigned char)data[i];

		p->steered = c == 0x1b || c == 0x0e || c == 0x0f || (c >= 0x80 && c < 0xa0);
	}
	if (n)
		p->keep->mid_line = data[n - 1] != '\n';
}

bool pump_done(const struct pump *p)
{
	return (p->from < 0 || p->silent) && !p->unsent.len;
}

void pump_close(struct pump *p)
{
	if (p->to >= 0)
		stream_settle(p);
	buf_done(&p->unsent);
	p->from = fd_close(p->from);
	p->to = fd_close(p->to);
}

struct pollfd pump_wants(const struct pump *p)
{
	if (p->unsent.len || (p->from >= 0 && p->blocked))
		return (struct pollfd){ .fd = p->to, .events = POLLOUT };
	return (struct pollfd){ .fd = p->silent ? -1 : p->from, .events = POLLIN };
}

static int put_unsent(struct pump *p)
{
	ssize_t w = put_some(p, p->unsent.data + p->sent, p->unsent.len - p->sent);

	if (w < 0)
		return (int)w;
	p->sent += (size_t)w;
	if (p->sent == p->unsent.len)
		p->unsent.len = p->sent = 0;
	return 0;
}

static void keep_bytes(struct stream *s, const char *data, size_t n, uint64_t limit)
{
	size_t room = limit > s->data.len ? (size_t)limit - s->data.len : 0;

	s->bytes += n;
	if (s->truncated)
		return;
	buf_add(&s->data, data, n < room ? n : room);
	if (n <= room)
		return;
	s->truncated = true;
	if (s->data.len) {
		s->data.len = utf8_cut(s->data.data, s->data.len);
		s->data.data[s->data.len] = '\0';
	}
}

/* Passes whole characters on; the first bytes of one that is not complete wait for the rest. */
static size_t whole(struct pump *p, char *data, size_t n)
{
	size_t cut = utf8_cut(data, n);

	p->held_n = n - cut;
	memcpy(p->held, data + cut, p->held_n);
	return cut;
}

static int stream_deliver(struct pump *p, char *data, size_t n)
{
	char clean[CHUNK + sizeof(p->held) + VTFILTER_SLACK];
	size_t room = n;

	if (p->tail)
		last_words_add(p->tail, data, n);
	if (p->to < 0 && !p->tells) {
		size_t before = p->keep->data.len;

		keep_bytes(p->keep, data, n, p->limit);
		keep_bytes(p->both, data, n, p->limit);
		if (p->on_output && p->keep->data.len > before)
			p->on_output(p->arg, p->which, data, p->keep->data.len - before);
		return 0;
	}
	if (p->limit) {
		room = p->limit > p->keep->bytes ? (size_t)(p->limit - p->keep->bytes) : 0;
		if (p->keep->truncated)
			room = 0;
		p->keep->truncated |= room < n;
		room = room < n ? utf8_cut(data, room) : n;
	}
	p->keep->bytes += n;
	if (p->tells) {
		if (room)
			p->on_output(p->arg, p->which, data, room);
		return 0;
	}
	if (p->raw)
		watch(p, data, room);
	if (!p->filter)
		return stream_put(p, data, room);
	return stream_put(p, clean, vtfilter_run(p->filter, data, room, clean));
}

/* A reader that left, or a terminal that hung up, wants no more; from any other goal output is
 * missed. */
static void stream_give_up(struct pump *p, int error)
{
	if (error != EPIPE && !(error == EIO && isatty(p->to)))
		p->keep->lost = error;
}

static void at_end(struct pump *p)
{
	char rest[VTFILTER_SLACK * 2];

	if (p->held_n) {
		size_t n = p->held_n;

		memcpy(rest, p->held, n);
		p->held_n = 0;
		(void)stream_deliver(p, rest, n);
	}
	if (p->to >= 0)
		stream_settle(p);
	/* Closing a terminal's master hangs up on programs that have only let go of it, and are
	 * still busy ending: it stays open until the run is over. */
	if (p->terminal)
		p->silent = true;
	else
		p->from = fd_close(p->from);
}

/* Straight from pipe to goal. false: this pair of files cannot, copy instead. */
static bool splice_some(struct pump *p)
{
	ssize_t n =
		splice(p->from, NULL, p->to, NULL, SPLICE_CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	int left = 0;

	if (n > 0) {
		p->keep->bytes += (uint64_t)n;
		return true;
	}
	if (n == 0) {
		at_end(p);
		return true;
	}
	if (errno == EINVAL)
		return p->can_splice = false;
	if (errno == EAGAIN) {
		/* Which side? Wait for the goal only when it is the full one. */
		p->blocked = ioctl(p->from, FIONREAD, &left) == 0 && left > 0 &&
			     !wait_look(p->to, POLLOUT);
		return true;
	}
	if (errno != EINTR) {
		stream_give_up(p, errno);
		at_end(p);
	}
	return true;
}

static bool was_last(const struct pump *p)
{
	return p->ends && p->from >= 0 && p->keep->bytes + p->held_n >= p->last;
}

void pump_end(struct pump *p)
{
	int left = 0;

	if (p->from < 0)
		return;
	(void)ioctl(p->from, FIONREAD, &left);
	p->last = p->keep->bytes + p->held_n + (uint64_t)left;
	p->ends = true;
	if (was_last(p))
		at_end(p);
}

static void stream_move(struct pump *p)
{
	char data[CHUNK + sizeof(p->held)];
	ssize_t n;
	size_t have;
	int r;

	p->blocked = false;
	if (p->unsent.len) {
		r = put_unsent(p);
		if (r < 0) {
			p->unsent.len = 0;
			stream_give_up(p, -r);
			at_end(p);
		}
		return;
	}
	if (p->from < 0 || (p->can_splice && splice_some(p)))
		return;
	memcpy(data, p->held, p->held_n);
	n = read(p->from, data + p->held_n, CHUNK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* A terminal whose last program is gone answers EIO. */
	if (n <= 0) {
		at_end(p);
		return;
	}
	have = p->held_n + (size_t)n;
	p->held_n = 0;
	have = whole(p, data, have);
	/* Nobody takes it: the command learns it as it would without us, by SIGPIPE. */
	r = stream_deliver(p, data, have);
	if (r < 0) {
		stream_give_up(p, -r);
		at_end(p);
	}
}

void pump_move(struct pump *p)
{
	stream_move(p);
	if (was_last(p))
		at_end(p);
}

void feed_open(struct feed *f, int from, int to, int peer, bool tty)
{
	struct stat st;

	*f = (struct feed){
		.from = from, .to = to, .peer = peer, .terminal = to >= 0 && isatty(to)
	};
	if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
		f->peer = fd_close(f->peer);
	if (to >= 0)
		(void)fcntl(to, F_SETFL, fcntl(to, F_GETFL) | O_NONBLOCK);
	/* One that has hung up already is one, too: that is then seen. */
	f->keyboard = tty && from >= 0 && (isatty(from) || errno == EIO);
	f->shared = !f->keyboard && from >= 0 && isatty(from);
	f->typed = (struct buf)BUF_INIT(TYPED_MAX);
	if (from < 0)
		f->to = fd_close(f->to);
}

struct pollfd feed_wants(const struct feed *f)
{
	if (f->keyboard)
		return (struct pollfd){ .fd = f->from, .events = POLLIN };
	if (f->to >= 0 && f->full)
		return (struct pollfd){ .fd = f->to, .events = POLLOUT };
	return (struct pollfd){ .fd = f->to < 0 || f->over || f->away ? -1 : f->from,
				.events = POLLIN };
}

/* The end of input is a key on a terminal. */
static void type_end(struct feed *f)
{
	struct termios t;
	char key = 4;

	if (tcgetattr(f->to, &t) == 0) {
		f->lines = t.c_lflag & ICANON;
		key = t.c_cc[VEOF] ? (char)t.c_cc[VEOF] : key;
	}
	(void)!write(f->to, &key, 1);
}

static void end_feed(struct feed *f)
{
	f->keyboard = false;
	f->over = f->terminal && f->to >= 0;
	if (f->over)
		type_end(f);
	else
		f->to = fd_close(f->to);
}

void feed_again(struct feed *f)
{
	struct termios t;

	if (f->over && tcgetattr(f->to, &t) == 0 && f->lines != ((t.c_lflag & ICANON) != 0))
		type_end(f);
}

/* A pipe that is ready takes a page whole; a terminal may take less and drops the rest. */
static void put_in(struct feed *f, const char *data, size_t n)
{
	ssize_t w;

	do
		w = write(f->to, data, n);
	while (w < 0 && errno == EINTR);
	if (w < 0 && errno != EAGAIN)
		f->to = fd_close(f->to);
}

struct pollfd feed_room(const struct feed *f)
{
	return (struct pollfd){ .fd = f->typed.len ? f->to : -1, .events = POLLOUT };
}

/* As much as the terminal takes. */
static void put_typed(struct feed *f)
{
	ssize_t w;

	do
		w = f->to < 0 ? -1 : write(f->to, f->typed.data, f->typed.len);
	while (w < 0 && f->to >= 0 && errno == EINTR);
	if (w < 0 && f->to >= 0 && errno == EAGAIN)
		return;
	if (w < 0) {
		f->to = fd_close(f->to);
		buf_done(&f->typed);
		return;
	}
	f->typed.len -= (size_t)w;
	memmove(f->typed.data, f->typed.data + w, f->typed.len);
}

/* The command may read nothing, or have let go of its terminal. */
static void move_typed(struct feed *f)
{
	char data[4096];
	ssize_t n;

	if (wait_look(f->from, POLLIN)) {
		n = read(f->from, data, sizeof(data));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (n <= 0) {
			/* Asked for now: it may have hung up since. Else its end was typed. */
			f->hung = wait_look(f->from, POLLIN) & POLLHUP;
			end_feed(f);
			return;
		}
		f->leave |= keys_leave(&f->keys, data, (size_t)n, clock_us());
		f->typed.failed = false; /* what is too much is lost, not what comes after it */
		buf_add(&f->typed, data, (size_t)n);
	}
	if (f->typed.len)
		put_typed(f);
}

/* To read in the background stops brig, and with it a command that wants no input: a server that
 * was started with `&` would stand still at the next line that is typed to the shell. */
static bool in_background(int terminal)
{
	pid_t front = tcgetpgrp(terminal);

	return front >= 0 && front != getpgrp();
}

void feed_move(struct feed *f)
{
	char data[4096];
	short room;
	ssize_t n;

	if (f->keyboard) {
		move_typed(f);
		return;
	}
	if (f->to < 0 || f->over)
		return;
	f->away = f->shared && in_background(f->from);
	if (f->away)
		return;
	room = wait_look(f->to, POLLOUT);
	f->full = !room;
	if (f->full)
		return;
	n = room & POLLERR ? 0 : read(f->from, data, sizeof(data));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		end_feed(f);
		return;
	}
	put_in(f, data, (size_t)n);
}

void feed_close(struct feed *f)
{
	int unread = 0;

	if (f->peer >= 0 && ioctl(f->peer, FIONREAD, &unread) == 0 && unread > 0)
		(void)lseek(f->from, -(off_t)unread, SEEK_CUR);
	f->to = fd_close(f->to);
	f->peer = fd_close(f->peer);
	f->keyboard = false;
	buf_done(&f->typed);
}

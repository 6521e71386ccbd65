/* SPDX-License-Identifier: Apache-2.0 */
#include "far/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/text/cleanup.h"

#define DATA_ROOM                                                                                  \
	(4 * (FRAMES_PIECE + sizeof(struct frames_head))) /* of what waits; words have more */

#define FILL_MAX ((size_t)1 << 20)

struct frames {
	struct frames_line line;
	struct loop_watch from, to; /* on the line's loop */
	frames_hear_fn *hear;
	void *arg;
	struct buf out; /* what waits, from out_at on */
	size_t out_at, in_len;
	bool broken, full; /* full: a frame waits for room in its channel */
	int deaf, dumb;    /* why nothing is read, or sent, any more */
	struct frames_command all[COMMANDS_MAX];
	char in[sizeof(struct frames_head) + FRAMES_PIECE + 1];
};

static void on_line_ready(struct loop_watch *w UNUSED, uint32_t events UNUSED)
{
	/* The owner turns the line after each turn of the loop. */
}

static void on_channel_ready(struct loop_watch *w, uint32_t events)
{
	struct frames_channel *x = (struct frames_channel *)w;

	x->left |= !x->sends && events & (EPOLLERR | EPOLLHUP);
}

struct frames *frames_on(const struct frames_line *l, frames_hear_fn *hear, void *arg)
{
	struct frames *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->line = *l;
	if (!c->line.window)
		c->line.window = FRAMES_WINDOW;
	c->out = (struct buf)BUF_INIT(2 * (l->most ? l->most : (size_t)FRAMES_OUT));
	c->from = (struct loop_watch){ .fd = l->from, .ready = on_line_ready };
	c->to = (struct loop_watch){ .fd = l->to, .ready = on_line_ready };
	c->hear = hear;
	c->arg = arg;
	return c;
}

struct frames *frames_new(int from, int to, frames_hear_fn *hear, void *arg)
{
	return frames_on(&(struct frames_line){ .from = from, .to = to }, hear, arg);
}

struct frames *frames_free(struct frames *c)
{
	for (size_t i = 0; c && i < COMMANDS_MAX; i++)
		if (c->all[i].number)
			frames_end(&c->all[i]);
	if (c && c->line.loop) {
		(void)loop_want(c->line.loop, &c->from, 0);
		(void)loop_want(c->line.loop, &c->to, 0);
	}
	if (c)
		buf_done(&c->out);
	free(c);
	return NULL;
}

static size_t unsent(const struct frames *c)
{
	return c->out.len - c->out_at;
}

/* ---- frames out ---- */

static int queue(struct frames *c, enum frames_kind kind, uint32_t command, size_t channel,
		 const void *p, size_t n)
{
	const struct frames_head h = { .size = (uint32_t)n,
				       .command = command,
				       .kind = (uint8_t)kind,
				       .channel = (uint8_t)channel };

	if (n > FRAMES_PIECE)
		return -E2BIG;
	if (c->out_at && c->out_at >= unsent(c)) { /* seldom, and then for little */
		memmove(c->out.data, c->out.data + c->out_at, unsent(c));
		c->out.len -= c->out_at;
		c->out_at = 0;
	}
	if (unsent(c) + sizeof(h) + n + 1 > c->out.max / 2)
		return -ENOBUFS;
	buf_add(&c->out, &h, sizeof(h));
	if (n)
		buf_add(&c->out, p, n);
	if (c->line.newlines)
		buf_putc(&c->out, '\n');
	return c->out.failed ? -ENOBUFS : 0;
}

int frames_say(struct frames *c, enum frames_kind kind, uint32_t command, const void *p, size_t n)
{
	return queue(c, kind, command, 0, p, n);
}

int frames_say_all(struct frames *c, enum frames_kind kind, uint32_t command, const void *p,
		   size_t n)
{
	size_t at = 0;
	int r;

	do {
		size_t part = n - at < FRAMES_PIECE ? n - at : FRAMES_PIECE;

		r = queue(c, kind, command, 0, part ? (const char *)p + at : NULL, part);
		at += part;
	} while (r == 0 && at < n);
	return r;
}

const char *frames_unsent(const struct frames *c, size_t *n)
{
	*n = unsent(c);
	return *n ? c->out.data + c->out_at : "";
}

/* Words about channels are few for each window: one that finds no room is the end. */
static void say_channel(struct frames *c, enum frames_kind kind, uint32_t command, size_t channel,
			const void *p, size_t n)
{
	if (queue(c, kind, command, channel, p, n) < 0)
		c->broken = true;
}

static int frames_flush(struct frames *c)
{
	while (unsent(c) && c->line.to >= 0) {
		ssize_t n = write(c->line.to, c->out.data + c->out_at, unsent(c));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -EPIPE;
		c->out_at += (size_t)n;
	}
	c->out.len = c->out_at = 0;
	return 0;
}

/* ---- commands and their channels ---- */

struct frames_command *frames_find(struct frames *c, uint32_t number)
{
	for (size_t i = 0; number && i < COMMANDS_MAX; i++)
		if (c->all[i].number == number)
			return &c->all[i];
	return NULL;
}

struct frames_command *frames_begin(struct frames *c, uint32_t number)
{
	struct frames_command *k = NULL;

	if (!number || frames_find(c, number))
		return NULL;
	for (size_t i = 0; i < COMMANDS_MAX && !k; i++)
		if (!c->all[i].number)
			k = &c->all[i];
	if (!k)
		return NULL;
	*k = (struct frames_command){ .number = number, .line = c };
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		k->channels[i].w.fd = -1;
	return k;
}

int frames_open(struct frames_command *k, size_t channel, int fd, bool sends)
{
	CLEANUP(fd) int owned = fd;
	struct frames_channel *x = &k->channels[channel];
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	*x = (struct frames_channel){ .w = { .fd = -1, .ready = on_channel_ready },
				      .loop = k->line->line.loop,
				      .data = sends ? NULL : malloc(k->line->line.window),
				      .sends = sends,
				      .credit = k->line->line.window,
				      .most = UINT64_MAX };
	if (!sends && !x->data)
		return -ENOMEM;
	x->w.fd = TAKE_FD(owned);
	return 0;
}

static void close_channel(struct frames_channel *x)
{
	if (x->loop && x->w.fd >= 0)
		(void)loop_want(x->loop, &x->w, 0);
	x->w.fd = fd_close(x->w.fd);
	free(x->data);
	x->data = NULL;
	x->at = x->len = 0;
}

void frames_end(struct frames_command *k)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		close_channel(&k->channels[i]);
	*k = (struct frames_command){ 0 };
}

void frames_look_again(struct frames_command *k)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		k->channels[i].quiet = false;
}

bool frames_drained(const struct frames_command *k)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		if (k->channels[i].sends && k->channels[i].w.fd >= 0 && !k->channels[i].quiet)
			return false;
	return true;
}

bool frames_closed(const struct frames_command *k)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		if (k->channels[i].sends && k->channels[i].w.fd >= 0)
			return false;
	return true;
}

bool frames_flushed(const struct frames_command *k)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		if (!k->channels[i].sends && k->channels[i].len)
			return false;
	return true;
}

/* ---- moving ---- */

static void read_channel(struct frames *c, const struct frames_command *k, size_t i,
			 struct frames_channel *x)
{
	char piece[FRAMES_PIECE];

	while (x->credit && unsent(c) <= DATA_ROOM && !c->dumb) {
		size_t most = x->credit < sizeof(piece) ? x->credit : sizeof(piece);
		ssize_t n = read(x->w.fd, piece, most);

		if (n < 0 && errno == EINTR)
			continue;
		x->quiet = n < 0 && errno == EAGAIN;
		if (x->quiet)
			return;
		if (n <= 0) { /* the end; of a terminal it is an error */
			close_channel(x);
			say_channel(c, FRAMES_END, k->number, i, NULL, 0);
			return;
		}
		if (!c->line.unanswered)
			x->credit -= (uint32_t)n;
		if ((uint64_t)n > x->most)
			n = (ssize_t)x->most;
		if (x->most != UINT64_MAX)
			x->most -= (uint64_t)n;
		if (n > 0)
			say_channel(c, FRAMES_DATA, k->number, i, piece, (size_t)n);
	}
}

static void frames_gone(struct frames *c, const struct frames_command *k, size_t i,
			struct frames_channel *x)
{
	bool told = x->ending;

	close_channel(x);
	if (!told)
		say_channel(c, FRAMES_GONE, k->number, i, NULL, 0);
}

static void write_channel(struct frames *c, const struct frames_command *k, size_t i,
			  struct frames_channel *x)
{
	uint32_t window = c->line.window;

	while (x->w.fd >= 0 && x->len) {
		uint32_t run = window - x->at < x->len ? window - x->at : x->len;
		ssize_t n = write(x->w.fd, x->data + x->at, run);
		uint32_t took = n > 0 ? (uint32_t)n : 0;

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EINTR) {
			frames_gone(c, k, i, x);
			return;
		}
		x->len -= took;
		x->at = x->len ? (x->at + took) % window : 0;
		x->credit += took;
		if (took && !x->ending && !c->line.unanswered)
			say_channel(c, FRAMES_CREDIT, k->number, i, &took, sizeof(took));
	}
	if (x->w.fd >= 0 && x->ending)
		close_channel(x);
}

static int take_data(struct frames_channel *x, uint32_t window, const char *p, uint32_t n)
{
	if (n > x->credit || x->ending)
		return -EPROTO;
	x->credit -= n;
	for (uint32_t done = 0; done < n;) {
		uint32_t to = (x->at + x->len) % window;
		uint32_t run = window - to < n - done ? window - to : n - done;

		memcpy(x->data + to, p + done, run);
		x->len += run;
		done += run;
	}
	return 0;
}

static int take_credit(struct frames_channel *x, uint32_t window, const void *p, uint32_t size)
{
	uint32_t n;

	if (size != sizeof(n))
		return -EPROTO;
	memcpy(&n, p, sizeof(n));
	if (n > window - x->credit)
		return -EPROTO;
	x->credit += n;
	return 0;
}

/* A channel that is closed here may still be spoken of there. */
static int on_channel(struct frames *c, const struct frames_head *h, const char *p)
{
	struct frames_command *k = frames_find(c, h->command);
	struct frames_channel *x;

	if (h->channel >= FRAMES_CHANNELS)
		return -EPROTO;
	x = k ? &k->channels[h->channel] : NULL;
	if (!x || x->w.fd < 0)
		return 0;
	if (x->sends != (h->kind == FRAMES_GONE || h->kind == FRAMES_CREDIT))
		return -EPROTO;
	if (h->kind == FRAMES_CREDIT)
		return take_credit(x, c->line.window, p, h->size);
	if (h->kind == FRAMES_DATA)
		return take_data(x, c->line.window, p, h->size);
	if (h->kind == FRAMES_GONE)
		close_channel(x);
	else
		x->ending = true;
	return 0;
}

/* ---- frames in ---- */

ssize_t frames_look(const char *data, size_t n, bool newlines, struct frames_head *ret,
		    const char **payload)
{
	size_t whole;

	if (n < sizeof(*ret))
		return 0;
	memcpy(ret, data, sizeof(*ret));
	if (ret->size > FRAMES_PIECE || !ret->kind || ret->kind >= FRAMES_KINDS || ret->spare)
		return -EPROTO;
	whole = sizeof(*ret) + ret->size + newlines;
	if (n < whole)
		return 0;
	if (newlines && data[whole - 1] != '\n')
		return -EPROTO;
	*payload = data + sizeof(*ret);
	return (ssize_t)whole;
}

/* Where no room is granted, data waits in the file for a channel that has none. */
static bool is_too_early(struct frames *c, const struct frames_head *h)
{
	struct frames_command *k;
	struct frames_channel *x;

	if (!c->line.unanswered || h->kind != FRAMES_DATA || h->channel >= FRAMES_CHANNELS)
		return false;
	k = frames_find(c, h->command);
	x = k ? &k->channels[h->channel] : NULL;
	return x && x->w.fd >= 0 && !x->sends && !x->ending && h->size > x->credit;
}

static int one_frame(struct frames *c, size_t *used)
{
	struct frames_head h;
	const char *payload;
	ssize_t n = frames_look(c->in + *used, c->in_len - *used, c->line.newlines, &h, &payload);
	int r;

	if (n <= 0)
		return (int)n;
	c->full = is_too_early(c, &h);
	if (c->full)
		return 0;
	r = h.kind <= FRAMES_CREDIT ? on_channel(c, &h, payload) : c->hear(c->arg, &h, payload);
	*used += (size_t)n;
	return r < 0 ? r : 1;
}

static int take_frames(struct frames *c)
{
	size_t used = 0;
	int r;

	while ((r = one_frame(c, &used)) > 0)
		;
	memmove(c->in, c->in + used, c->in_len - used);
	c->in_len -= used;
	return r;
}

/* The end of a file is not that of a conversation: all of it was said. */
static int line_ended(struct frames *c)
{
	if (!c->line.unanswered)
		return -EPIPE;
	if (c->line.loop)
		(void)loop_want(c->line.loop, &c->from, 0);
	c->line.from = -1;
	return 0;
}

/* Not more than so much at once: who never stops talking is not the only one to be heard. */
static int frames_fill(struct frames *c)
{
	int r = take_frames(c);

	for (size_t all = 0; r == 0 && all < FILL_MAX && c->line.from >= 0 && !c->full;) {
		ssize_t n = read(c->line.from, c->in + c->in_len, sizeof(c->in) - c->in_len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return line_ended(c);
		c->in_len += (size_t)n;
		all += (size_t)n;
		r = take_frames(c);
	}
	return r;
}

bool frames_said_all(const struct frames *c)
{
	return c->line.from < 0;
}

int frames_deaf(const struct frames *c)
{
	return c->deaf;
}

void frames_hush(struct frames *c)
{
	if (c->line.loop && c->to.fd >= 0)
		(void)loop_want(c->line.loop, &c->to, 0);
	c->line.to = c->to.fd = -1;
	c->dumb = -EPIPE;
	c->out.len = c->out_at = 0;
}

void frames_glance(struct frames_glance *g, const void *p, size_t n)
{
	const char *at = p, *payload;
	struct frames_head h;
	ssize_t took = 0;

	while (n && !g->broken) {
		size_t room = sizeof(g->held) - g->len, part = n < room ? n : room, used = 0;

		memcpy(g->held + g->len, at, part);
		g->len += part;
		at += part;
		n -= part;
		while ((took = frames_look(g->held + used, g->len - used, true, &h, &payload)) >
		       0) {
			g->seen |= h.kind == (uint8_t)g->kind;
			used += (size_t)took;
		}
		g->broken = took < 0;
		memmove(g->held, g->held + used, g->len - used);
		g->len -= used;
	}
}

/* ---- the loop's side ---- */

size_t frames_polls(struct frames *c, struct pollfd *p)
{
	size_t n = 0;

	p[n++] = (struct pollfd){ .fd = c->line.from, .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = unsent(c) ? c->line.to : -1, .events = POLLOUT };
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		const struct frames_command *k = &c->all[i];

		for (size_t x = 0; k->number && x < FRAMES_CHANNELS; x++) {
			const struct frames_channel *ch = &k->channels[x];
			bool reads = ch->sends && ch->credit && unsent(c) <= DATA_ROOM;

			if (ch->w.fd >= 0 && (reads || (!ch->sends && (ch->len || ch->ending))))
				p[n++] = (struct pollfd){ .fd = ch->w.fd,
							  .events = reads ? POLLIN : POLLOUT };
			else if (ch->w.fd >= 0 && !ch->sends) /* its reader may leave */
				p[n++] = (struct pollfd){ .fd = ch->w.fd };
		}
	}
	return n;
}

static bool is_news(const struct pollfd *p, size_t n, int fd)
{
	for (size_t i = 2; i < n; i++)
		if (p[i].fd == fd)
			return p[i].revents;
	return false;
}

static void move_command(struct frames *c, struct frames_command *k, const struct pollfd *p,
			 size_t n)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++) {
		struct frames_channel *x = &k->channels[i];

		if (x->w.fd < 0)
			continue;
		if (x->sends) /* looking is cheap, and says whether there is more */
			read_channel(c, k, i, x);
		else if (x->len || x->ending)
			write_channel(c, k, i, x);
		else if (x->left || is_news(p, n, x->w.fd))
			frames_gone(c, k, i, x);
	}
}

/* What the loop is to wait for, which has changed with each turn. */
static void arrange(struct frames *c)
{
	bool room = unsent(c) <= DATA_ROOM && !c->dumb;

	c->from.fd = c->line.from;
	if (c->from.fd >= 0)
		(void)loop_want(c->line.loop, &c->from, c->full || c->deaf ? 0 : EPOLLIN);
	if (c->to.fd >= 0)
		(void)loop_want(c->line.loop, &c->to, unsent(c) && !c->dumb ? EPOLLOUT : 0);
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		for (size_t k = 0; c->all[i].number && k < FRAMES_CHANNELS; k++) {
			struct frames_channel *x = &c->all[i].channels[k];
			uint32_t events = EPOLLERR | EPOLLHUP;

			if (x->sends)
				events = x->credit && room ? EPOLLIN : 0;
			else if (x->len || x->ending)
				events = EPOLLOUT;
			if (x->w.fd >= 0 && loop_want(c->line.loop, &x->w, events) < 0)
				c->broken = true;
		}
}

int frames_turn(struct frames *c, const struct pollfd *p, size_t n)
{
	if (!c->deaf)
		c->deaf = frames_fill(c);
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (c->all[i].number)
			move_command(c, &c->all[i], p, n);
	if (c->full && !c->deaf)
		c->deaf = frames_fill(c);
	if (c->broken && !c->deaf)
		c->deaf = -ENOBUFS;
	if (!c->dumb)
		c->dumb = frames_flush(c);
	if (c->line.loop)
		arrange(c);
	return c->deaf ? c->deaf : c->dumb;
}

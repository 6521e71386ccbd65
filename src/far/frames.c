/* SPDX-License-Identifier: Apache-2.0 */
#include "far/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/cleanup.h"

#define DATA_ROOM                                                                                  \
	(4 * (FRAMES_PIECE + sizeof(struct frames_head))) /* of what waits; words have more */

#define FILL_MAX ((size_t)1 << 20)

struct frames {
	int from, to;
	frames_hear_fn *hear;
	void *arg;
	size_t out_at, out_len; /* of out */
	size_t in_len;
	bool broken;
	struct frames_command all[COMMANDS_MAX];
	char in[sizeof(struct frames_head) + FRAMES_PIECE];
	char out[FRAMES_OUT];
};

struct frames *frames_new(int from, int to, frames_hear_fn *hear, void *arg)
{
	struct frames *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->from = from;
	c->to = to;
	c->hear = hear;
	c->arg = arg;
	return c;
}

struct frames *frames_free(struct frames *c)
{
	for (size_t i = 0; c && i < COMMANDS_MAX; i++)
		if (c->all[i].number)
			frames_end(&c->all[i]);
	free(c);
	return NULL;
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
	if (c->out_at && c->out_at + c->out_len + sizeof(h) + n > sizeof(c->out)) {
		memmove(c->out, c->out + c->out_at, c->out_len);
		c->out_at = 0;
	}
	if (c->out_at + c->out_len + sizeof(h) + n > sizeof(c->out))
		return -ENOBUFS;
	memcpy(c->out + c->out_at + c->out_len, &h, sizeof(h));
	if (n)
		memcpy(c->out + c->out_at + c->out_len + sizeof(h), p, n);
	c->out_len += sizeof(h) + n;
	return 0;
}

int frames_say(struct frames *c, enum frames_kind kind, uint32_t command, const void *p, size_t n)
{
	return queue(c, kind, command, 0, p, n);
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
	while (c->out_len) {
		ssize_t n = write(c->to, c->out + c->out_at, c->out_len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -EPIPE;
		c->out_at += (size_t)n;
		c->out_len -= (size_t)n;
	}
	c->out_at = 0;
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
	*k = (struct frames_command){ .number = number };
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		k->channels[i].fd = -1;
	return k;
}

int frames_open(struct frames_command *k, size_t channel, int fd, bool sends)
{
	CLEANUP(fd) int owned = fd;
	struct frames_channel *x = &k->channels[channel];
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	x->data = sends ? NULL : malloc(FRAMES_WINDOW);
	if (!sends && !x->data)
		return -ENOMEM;
	x->fd = TAKE_FD(owned);
	x->sends = sends;
	x->credit = FRAMES_WINDOW;
	return 0;
}

static void close_channel(struct frames_channel *x)
{
	x->fd = fd_close(x->fd);
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
		if (k->channels[i].sends && k->channels[i].fd >= 0 && !k->channels[i].quiet)
			return false;
	return true;
}

bool frames_closed(const struct frames_command *k)
{
	for (size_t i = 0; i < FRAMES_CHANNELS; i++)
		if (k->channels[i].sends && k->channels[i].fd >= 0)
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

	while (x->credit && c->out_len <= DATA_ROOM) {
		size_t most = x->credit < sizeof(piece) ? x->credit : sizeof(piece);
		ssize_t n = read(x->fd, piece, most);

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
		x->credit -= (uint32_t)n;
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
	while (x->fd >= 0 && x->len) {
		uint32_t run = FRAMES_WINDOW - x->at < x->len ? FRAMES_WINDOW - x->at : x->len;
		ssize_t n = write(x->fd, x->data + x->at, run);
		uint32_t took = n > 0 ? (uint32_t)n : 0;

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EINTR) {
			frames_gone(c, k, i, x);
			return;
		}
		x->at = (x->at + took) % FRAMES_WINDOW;
		x->len -= took;
		x->credit += took;
		if (took && !x->ending)
			say_channel(c, FRAMES_CREDIT, k->number, i, &took, sizeof(took));
	}
	if (x->fd >= 0 && x->ending)
		close_channel(x);
}

static int take_data(struct frames_channel *x, const char *p, uint32_t n)
{
	if (n > x->credit || x->ending)
		return -EPROTO;
	x->credit -= n;
	for (uint32_t done = 0; done < n;) {
		uint32_t to = (x->at + x->len) % FRAMES_WINDOW;
		uint32_t run = FRAMES_WINDOW - to < n - done ? FRAMES_WINDOW - to : n - done;

		memcpy(x->data + to, p + done, run);
		x->len += run;
		done += run;
	}
	return 0;
}

static int take_credit(struct frames_channel *x, const void *p, uint32_t size)
{
	uint32_t n;

	if (size != sizeof(n))
		return -EPROTO;
	memcpy(&n, p, sizeof(n));
	if (n > FRAMES_WINDOW - x->credit)
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
	if (!x || x->fd < 0)
		return 0;
	if (x->sends != (h->kind == FRAMES_GONE || h->kind == FRAMES_CREDIT))
		return -EPROTO;
	if (h->kind == FRAMES_CREDIT)
		return take_credit(x, p, h->size);
	if (h->kind == FRAMES_DATA)
		return take_data(x, p, h->size);
	if (h->kind == FRAMES_GONE)
		close_channel(x);
	else
		x->ending = true;
	return 0;
}

/* ---- frames in ---- */

static int one_frame(struct frames *c, size_t *used)
{
	struct frames_head h;
	int r;

	if (c->in_len - *used < sizeof(h))
		return 0;
	memcpy(&h, c->in + *used, sizeof(h));
	if (h.size > FRAMES_PIECE || !h.kind || h.kind >= FRAMES_KINDS)
		return -EPROTO;
	if (c->in_len - *used < sizeof(h) + h.size)
		return 0;
	if (h.kind <= FRAMES_CREDIT)
		r = on_channel(c, &h, c->in + *used + sizeof(h));
	else
		r = c->hear(c->arg, &h, c->in + *used + sizeof(h));
	*used += sizeof(h) + h.size;
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

/* Not more than so much at once: who never stops talking is not the only one to be heard. */
static int frames_fill(struct frames *c)
{
	for (size_t all = 0; all < FILL_MAX;) {
		ssize_t n = read(c->from, c->in + c->in_len, sizeof(c->in) - c->in_len);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -EPIPE;
		c->in_len += (size_t)n;
		all += (size_t)n;
		r = take_frames(c);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the loop's side ---- */

size_t frames_polls(struct frames *c, struct pollfd *p)
{
	size_t n = 0;

	p[n++] = (struct pollfd){ .fd = c->from, .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = c->out_len ? c->to : -1, .events = POLLOUT };
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		const struct frames_command *k = &c->all[i];

		for (size_t x = 0; k->number && x < FRAMES_CHANNELS; x++) {
			const struct frames_channel *ch = &k->channels[x];
			bool reads = ch->sends && ch->credit && c->out_len <= DATA_ROOM;

			if (ch->fd >= 0 && (reads || (!ch->sends && (ch->len || ch->ending))))
				p[n++] = (struct pollfd){ .fd = ch->fd,
							  .events = reads ? POLLIN : POLLOUT };
			else if (ch->fd >= 0 && !ch->sends) /* its reader may leave */
				p[n++] = (struct pollfd){ .fd = ch->fd };
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

		if (x->fd < 0)
			continue;
		if (x->sends) /* looking is cheap, and says whether there is more */
			read_channel(c, k, i, x);
		else if (x->len || x->ending)
			write_channel(c, k, i, x);
		else if (is_news(p, n, x->fd))
			frames_gone(c, k, i, x);
	}
}

int frames_turn(struct frames *c, const struct pollfd *p, size_t n)
{
	int r = frames_fill(c);

	for (size_t i = 0; r == 0 && i < COMMANDS_MAX; i++)
		if (c->all[i].number)
			move_command(c, &c->all[i], p, n);
	if (r == 0 && c->broken)
		r = -ENOBUFS;
	return r == 0 ? frames_flush(c) : r;
}

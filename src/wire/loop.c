/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define TICK_US 250000
#define AT_ONCE 64

/* epoll hands back a slot and the serial of the registration that is meant: a watch that was taken
 * off while its event waited in the batch is not called. */
struct loop {
	int fd;
	bool stopped, hurry;
	uint64_t now;
	struct slot {
		struct loop_watch *w;
		unsigned serial;
	} * slots;
	unsigned n_slots, serial;
	unsigned *free_slots, n_free;
};

int loop_new(struct loop **ret, struct err *e)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return err_nomem(e);
	l->fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->fd < 0) {
		(void)err_sys(e, "cannot make an epoll descriptor");
		(void)loop_free(l);
		return -e->code;
	}
	l->now = clock_us();
	*ret = l;
	return 0;
}

struct loop *loop_free(struct loop *l)
{
	if (!l)
		return NULL;
	(void)fd_close(l->fd);
	free(l->slots);
	free(l->free_slots);
	free(l);
	return NULL;
}

static int grow(struct loop *l)
{
	unsigned n = l->n_slots ? l->n_slots * 2 : 64;
	struct slot *slots = realloc(l->slots, n * sizeof(*slots));
	unsigned *spare;

	if (!slots)
		return -ENOMEM;
	l->slots = slots;
	spare = realloc(l->free_slots, n * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	l->free_slots = spare;
	for (unsigned i = n; i > l->n_slots; i--)
		l->free_slots[l->n_free++] = i - 1;
	l->n_slots = n;
	return 0;
}

static int put_on(struct loop *l, struct loop_watch *w, struct epoll_event *ev)
{
	if (!l->n_free && grow(l) < 0)
		return -ENOMEM;
	w->slot = l->free_slots[l->n_free - 1];
	w->serial = ++l->serial;
	ev->data.u64 = (uint64_t)w->serial << 32 | w->slot;
	if (epoll_ctl(l->fd, EPOLL_CTL_ADD, w->fd, ev) < 0)
		return -errno;
	l->n_free--;
	l->slots[w->slot] = (struct slot){ .w = w, .serial = w->serial };
	w->events = ev->events;
	return 0;
}

int loop_want(struct loop *l, struct loop_watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events,
				  .data.u64 = (uint64_t)w->serial << 32 | w->slot };

	if (events == w->events)
		return 0;
	if (!w->events)
		return put_on(l, w, &ev);
	if (events) {
		if (epoll_ctl(l->fd, EPOLL_CTL_MOD, w->fd, &ev) < 0)
			return -errno;
		w->events = events;
		return 0;
	}
	(void)epoll_ctl(l->fd, EPOLL_CTL_DEL, w->fd, NULL);
	l->slots[w->slot].w = NULL;
	l->free_slots[l->n_free++] = w->slot;
	w->events = 0;
	return 0;
}

static void deliver(struct loop *l, const struct epoll_event *ev)
{
	unsigned slot = (unsigned)(ev->data.u64 & UINT32_MAX);
	unsigned serial = (unsigned)(ev->data.u64 >> 32);

	if (slot < l->n_slots && l->slots[slot].w && l->slots[slot].serial == serial)
		l->slots[slot].w->ready(l->slots[slot].w, ev->events);
}

void loop_run(struct loop *l, tick_fn *tick, settle_fn *settle, void *arg)
{
	uint64_t next = clock_us() + TICK_US;

	while (!l->stopped) {
		struct epoll_event ev[AT_ONCE];
		uint64_t now = clock_us();
		int wait = l->hurry || now >= next ? 0 : (int)((next - now) / 1000) + 1;
		int n = epoll_wait(l->fd, ev, AT_ONCE, wait);

		l->hurry = false;
		l->now = clock_us();
		for (int i = 0; i < n && !l->stopped; i++)
			deliver(l, &ev[i]);
		if (l->now >= next) {
			tick(arg, l->now);
			next = l->now + TICK_US;
		}
		if (settle)
			settle(arg);
	}
}

void loop_hurry(struct loop *l)
{
	l->hurry = true;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

uint64_t loop_now(const struct loop *l)
{
	return l->now;
}

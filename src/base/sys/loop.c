/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"

#define AT_ONCE 64
#define SMALL 32 /* watches of a small loop */

/* epoll hands back a slot and the serial of the registration that is meant: a watch that was taken
 * off while its event waited in the batch is not called. */
struct loop {
	int fd;        /* of epoll; -1: a small loop, which polls */
	int outer;     /* for loop_fd: `fd`, or an epoll with a small loop's descriptors; -1: nobody
			  asked */
	int timerfd;   /* ... and our timers, among them */
	uint64_t told; /* when the timerfd is due, in nanoseconds; 0: never */
	bool stopped, hurry;
	uint64_t now;
	unsigned always;          /* how many watches epoll does not take */
	struct loop_timer *first; /* due next; the heap below it */
	struct slot {
		struct loop_watch *w;
		unsigned serial;
		int copy; /* of its descriptor, in the `outer` of a small loop */
	} * slots;
	unsigned n_slots, serial;
	unsigned *free_slots, n_free;
};

static int loop_grow(struct loop *l)
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
	for (unsigned i = n; i > l->n_slots; i--) {
		slots[i - 1] = (struct slot){ .copy = -1 };
		l->free_slots[l->n_free++] = i - 1;
	}
	l->n_slots = n;
	return 0;
}

static int loop_make(int fd, struct loop **ret, struct err *e)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l) {
		(void)fd_close(fd);
		return err_nomem(e);
	}
	l->fd = fd;
	l->outer = l->timerfd = -1;
	l->now = clock_us();
	if (loop_grow(l) < 0) {
		(void)loop_free(l);
		return err_nomem(e);
	}
	*ret = l;
	return 0;
}

int loop_new(struct loop **ret, struct err *e)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	return fd < 0 ? err_sys(e, "cannot make an epoll descriptor") : loop_make(fd, ret, e);
}

int loop_new_small(struct loop **ret, struct err *e)
{
	return loop_make(-1, ret, e);
}

struct loop *loop_free(struct loop *l)
{
	if (!l)
		return NULL;
	if (l->outer != l->fd) {
		(void)fd_close(l->outer);
		for (unsigned i = 0; i < l->n_slots; i++)
			if (l->slots[i].w)
				(void)fd_close(l->slots[i].copy);
	}
	(void)fd_close(l->fd);
	(void)fd_close(l->timerfd);
	free(l->slots);
	free(l->free_slots);
	free(l);
	return NULL;
}

/* A small loop has told its own descriptors to nobody: a loop around it gets copies, which are
 * closed when the watch is taken off, whatever has become of the original. */
static int tell_outer(const struct loop *l, struct loop_watch *w, uint32_t events)
{
	struct slot *s = &l->slots[w->slot];
	struct epoll_event ev = { .events = events };
	bool known = s->copy >= 0;

	if (l->outer < 0)
		return 0;
	if (!events) {
		/* Closing it is not enough: the set forgets a file, not a descriptor of it. */
		if (known)
			(void)epoll_ctl(l->outer, EPOLL_CTL_DEL, s->copy, NULL);
		s->copy = fd_close(s->copy);
		return 0;
	}
	if (!known)
		s->copy = fcntl(w->fd, F_DUPFD_CLOEXEC, 3);
	if (s->copy >= 0 &&
	    epoll_ctl(l->outer, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->copy, &ev) == 0)
		return 0;
	w->always = true; /* a file; or what cannot be told is looked at all the time */
	return 0;
}

static int tell_epoll(const struct loop *l, struct loop_watch *w, uint32_t events)
{
	int op = !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	struct epoll_event ev = { .events = events,
				  .data.u64 = (uint64_t)w->serial << 32 | w->slot };

	if (w->always || epoll_ctl(l->fd, op, w->fd, &ev) == 0 || !events)
		return 0;
	w->always = op == EPOLL_CTL_ADD && errno == EPERM;
	return w->always ? 0 : -errno;
}

static int take_slot(struct loop *l, struct loop_watch *w)
{
	if (l->fd < 0 && l->n_slots - l->n_free == SMALL)
		return -ENOSPC;
	if (!l->n_free && loop_grow(l) < 0)
		return -ENOMEM;
	w->slot = l->free_slots[--l->n_free];
	w->serial = ++l->serial;
	w->always = false;
	l->slots[w->slot] = (struct slot){ .w = w, .serial = w->serial, .copy = -1 };
	return 0;
}

int loop_want(struct loop *l, struct loop_watch *w, uint32_t events)
{
	bool was_always;
	int r;

	if (events == w->events)
		return 0;
	if (!w->events) {
		r = take_slot(l, w);
		if (r < 0)
			return r;
	}
	was_always = w->events && w->always;
	r = l->fd < 0 ? tell_outer(l, w, events) : tell_epoll(l, w, events);
	if (!events || (r < 0 && !w->events)) {
		l->slots[w->slot].copy = fd_close(l->slots[w->slot].copy);
		l->slots[w->slot].w = NULL;
		l->free_slots[l->n_free++] = w->slot;
		w->events = 0;
		l->always -= was_always;
		return r;
	}
	if (r == 0)
		w->events = events;
	l->always += w->always && !was_always;
	return r;
}

/* ---- timers: a pairing heap, whose links are in the timers themselves ---- */

static struct loop_timer *meld(struct loop_timer *a, struct loop_timer *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->at < a->at) {
		struct loop_timer *c = a;

		a = b;
		b = c;
	}
	b->next = a->child;
	if (b->next)
		b->next->link = &b->next;
	b->link = &a->child;
	a->child = b;
	return a;
}

/* The children of one that leaves: in pairs, and those from the last to the first. */
static struct loop_timer *meld_children(struct loop_timer *t)
{
	struct loop_timer *pairs = NULL, *all = NULL;

	for (struct loop_timer *a = t->child, *b, *rest; a; a = rest) {
		b = a->next;
		rest = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	for (struct loop_timer *a = pairs, *rest; a; a = rest) {
		rest = a->next;
		a->next = NULL;
		all = meld(all, a);
	}
	t->child = NULL;
	return all;
}

static void take_off(struct loop *l, struct loop_timer *t)
{
	struct loop_timer *below = meld_children(t);

	if (t == l->first) {
		l->first = below;
	} else {
		*t->link = t->next;
		if (t->next)
			t->next->link = t->link;
		l->first = meld(l->first, below);
	}
	t->at = 0;
	t->next = NULL;
	t->link = NULL;
}

/* For a loop around us: it wakes up for our timers as well. */
static void set_timerfd(struct loop *l)
{
	struct itimerspec when = { 0 };
	uint64_t at = l->first ? l->first->at * 1000 + 1 : 0;

	if (l->hurry || l->always || l->stopped)
		at = 1;
	/* One that was due stays readable until it is set again. */
	if (l->timerfd < 0 || (at == l->told && (!at || at > l->now * 1000)))
		return;
	l->told = at;
	when.it_value.tv_sec = (time_t)(at / 1000000000);
	when.it_value.tv_nsec = (long)(at % 1000000000);
	(void)timerfd_settime(l->timerfd, TFD_TIMER_ABSTIME, &when, NULL);
}

void loop_at(struct loop *l, struct loop_timer *t, uint64_t at_us)
{
	if (t->at)
		take_off(l, t);
	/* One that is due already waits for the next turn: a handler may set its own again. */
	t->at = at_us && at_us <= l->now ? l->now + 1 : at_us;
	if (at_us)
		l->first = meld(l->first, t);
	set_timerfd(l);
}

static int open_outer(struct loop *l)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = UINT64_MAX };

	l->outer = l->fd >= 0 ? l->fd : epoll_create1(EPOLL_CLOEXEC);
	l->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->outer < 0 || l->timerfd < 0 ||
	    epoll_ctl(l->outer, EPOLL_CTL_ADD, l->timerfd, &ev) < 0)
		return -errno;
	for (unsigned i = 0; l->fd < 0 && i < l->n_slots; i++) {
		struct loop_watch *w = l->slots[i].w;
		int r = w ? tell_outer(l, w, w->events) : 0;

		if (r < 0)
			return r;
		l->always += w && w->always;
	}
	set_timerfd(l);
	return 0;
}

int loop_fd(struct loop *l)
{
	int r = l->outer < 0 ? open_outer(l) : 0;

	return r < 0 ? r : l->outer;
}

/* ---- turning ---- */

static int until_due(const struct loop *l, int wait_ms)
{
	uint64_t now, ms;

	if (l->hurry || (l->always && l->fd >= 0) || l->stopped)
		return 0;
	if (!l->first)
		return wait_ms;
	now = clock_us();
	ms = l->first->at <= now ? 0 : (l->first->at - now + 999) / 1000;
	if (wait_ms >= 0 && ms > (uint64_t)wait_ms)
		return wait_ms;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void loop_deliver(struct loop *l, const struct epoll_event *ev)
{
	unsigned slot = (unsigned)(ev->data.u64 & UINT32_MAX);
	unsigned serial = (unsigned)(ev->data.u64 >> 32);

	if (slot < l->n_slots && l->slots[slot].w && l->slots[slot].serial == serial)
		l->slots[slot].w->ready(l->slots[slot].w, ev->events);
}

static void deliver_always(struct loop *l)
{
	for (unsigned i = 0; l->always && i < l->n_slots && !l->stopped; i++)
		if (l->slots[i].w && l->slots[i].w->always)
			l->slots[i].w->ready(l->slots[i].w, l->slots[i].w->events);
}

static void turn_epoll(struct loop *l, int wait_ms)
{
	struct epoll_event ev[AT_ONCE];
	int n = epoll_wait(l->fd, ev, AT_ONCE, wait_ms);

	l->now = clock_us();
	for (int i = 0; i < n && !l->stopped; i++)
		loop_deliver(l, &ev[i]);
	deliver_always(l);
}

static void turn_poll(struct loop *l, int wait_ms)
{
	struct epoll_event ev[SMALL];
	struct pollfd p[SMALL];
	nfds_t n = 0;
	int ready;

	for (unsigned i = 0; i < l->n_slots; i++) {
		if (!l->slots[i].w)
			continue;
		ev[n].data.u64 = (uint64_t)l->slots[i].serial << 32 | i;
		p[n++] = (struct pollfd){ .fd = l->slots[i].w->fd,
					  .events = (short)l->slots[i].w->events };
	}
	ready = poll(p, n, wait_ms);
	l->now = clock_us();
	for (nfds_t i = 0; ready > 0 && i < n && !l->stopped; i++) {
		ev[i].events = (uint32_t)p[i].revents; /* the same bits */
		if (p[i].revents)
			loop_deliver(l, &ev[i]);
	}
}

static void deliver_timers(struct loop *l)
{
	while (l->first && l->first->at <= l->now && !l->stopped) {
		struct loop_timer *t = l->first;

		take_off(l, t);
		t->due(t, l->now);
	}
}

void loop_turn(struct loop *l, int wait_ms)
{
	int wait = until_due(l, wait_ms);

	l->hurry = false;
	if (l->fd < 0)
		turn_poll(l, wait);
	else
		turn_epoll(l, wait);
	deliver_timers(l);
	set_timerfd(l);
}

void loop_run(struct loop *l, settle_fn *settle, void *arg)
{
	while (!l->stopped) {
		loop_turn(l, -1);
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
	set_timerfd(l); /* a loop around it shall see that */
}

uint64_t loop_now(const struct loop *l)
{
	return l->now;
}

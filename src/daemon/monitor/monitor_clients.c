/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_clients.c - those who speak to a monitor: in most cases one daemon.
 *
 * Nobody is waited for. Of a command a client is told that there is news, never the news itself,
 * so that what is still to be said to one that does not listen has a bound: three bits a command.
 * One that takes nothing for a while is dropped, and may come again. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/sockets.h"
#include "base/sys/wait.h"
#include "daemon/monitor/monitor_companions.h"
#include "daemon/monitor/monitor_internal.h"
#include "wire/peer.h"

#define PATIENCE_US ((uint64_t)30 * 1000 * 1000)
#define LAST_US ((uint64_t)1000 * 1000)
#define BACKLOG 8
#define AT_ONCE 64 /* requests of one client at a turn */

enum { FDS = MONITOR_SECRETS };

static size_t number_of(const struct monitor_client *c)
{
	return (size_t)(c - c->m->clients);
}

static void monitor_clients_drop(struct monitor_client *c)
{
	struct monitor *m = c->m;

	if (c->w.fd < 0)
		return;
	(void)loop_want(m->loop, &c->w, 0);
	c->w.fd = fd_close(c->w.fd);
	c->held = c->blocked_since = 0;
	for (struct monitor_task *t = m->tasks; t; t = t->next)
		t->news[number_of(c)] = 0;
	monitor_rest(m);
}

/* false: it takes no more now, or is gone. */
static bool monitor_clients_put(struct monitor_client *c, const struct monitor_say *s, int fd)
{
	int r = c->w.fd < 0 ? -EPIPE : fd_send(c->w.fd, s, sizeof(*s), &fd, fd >= 0);

	if (r == 0) {
		c->blocked_since = 0;
		return true;
	}
	if (r != -EAGAIN) {
		monitor_clients_drop(c);
		return false;
	}
	if (!c->blocked_since)
		c->blocked_since = clock_us();
	(void)loop_want(c->m->loop, &c->w, EPOLLIN | EPOLLOUT);
	return false;
}

void client_say(struct monitor_client *c, const struct monitor_say *s, int fd)
{
	struct monitor_say full = *s;

	full.version = MONITOR_VERSION;
	/* Words that are not news of a command are few: who has no room for one is not there. */
	if (!monitor_clients_put(c, &full, fd) && c->w.fd >= 0)
		monitor_clients_drop(c);
}

bool client_offer(struct monitor_client *c, const struct monitor_say *s)
{
	struct monitor_say full = *s;

	full.version = MONITOR_VERSION;
	return monitor_clients_put(c, &full, -1);
}

void clients_say(struct monitor *m, const struct monitor_say *s)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		if (m->clients[i].w.fd >= 0)
			client_say(&m->clients[i], s, -1);
}

/* ---- news of commands ---- */

static bool tell_one(struct monitor_client *c, struct monitor_task *t, enum task_news what)
{
	static const struct {
		enum task_news news;
		enum monitor_says says;
	} words[] = { { NEWS_RUNS, MONITOR_RUNS },
		      { NEWS_GREW, MONITOR_GREW },
		      { NEWS_DONE, MONITOR_DONE } };
	struct monitor_say s = { .version = MONITOR_VERSION };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].news == what)
			s.says = words[i].says;
	memcpy(s.exec, t->id, sizeof(s.exec));
	if (what == NEWS_DONE) {
		memcpy(s.reason, t->outcome, sizeof(s.reason));
		s.value = (uint32_t)t->status | (t->ran ? MONITOR_RAN : 0);
	}
	return monitor_clients_put(c, &s, -1);
}

/* Most commands have more to say soon: each word by itself would wake the daemon up. */
static bool is_hushed(const struct monitor_task *t, uint64_t now)
{
	struct loop_timer *speaks = &t->m->speaks;

	if (now >= t->hush)
		return false;
	if (!speaks->at || speaks->at > t->hush)
		loop_at(t->m->loop, speaks, t->hush);
	return true;
}

static void monitor_clients_tell(struct monitor_client *c, uint64_t now)
{
	size_t me = number_of(c);

	for (struct monitor_task *t = c->m->tasks; t && c->w.fd >= 0; t = t->next) {
		if (t->news[me] == NEWS_RUNS && is_hushed(t, now))
			continue;
		/* Its end says that it ran, and that it grew. */
		if (t->news[me] & NEWS_DONE) {
			t->ran |= (t->news[me] & NEWS_RUNS) != 0;
			t->news[me] = NEWS_DONE;
		}
		for (unsigned what = NEWS_RUNS; what <= NEWS_DONE; what <<= 1) {
			if (!(t->news[me] & what))
				continue;
			if (!tell_one(c, t, (enum task_news)what))
				return;
			t->news[me] &= (unsigned char)~what;
		}
	}
	if (c->w.fd >= 0)
		(void)loop_want(c->m->loop, &c->w, EPOLLIN);
}

void clients_settle(struct monitor *m)
{
	uint64_t now = clock_us();

	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct monitor_client *c = &m->clients[i];

		if (c->w.fd < 0)
			continue;
		monitor_clients_tell(c, now);
		companions_tell(m, i);
		if (c->w.fd >= 0 && c->blocked_since && now > c->blocked_since + PATIENCE_US)
			monitor_clients_drop(c);
	}
	tasks_forget(m);
	tasks_trim(m);
}

static bool anything_untold(const struct monitor *m, size_t client)
{
	for (const struct monitor_task *t = m->tasks; t; t = t->next)
		if (t->news[client])
			return true;
	return false;
}

void clients_flush(struct monitor *m)
{
	uint64_t until = clock_us() + LAST_US;

	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct monitor_client *c = &m->clients[i];

		while (c->w.fd >= 0 && anything_untold(m, i) && clock_us() < until) {
			(void)wait_fd(c->w.fd, POLLOUT, clock_after(50));
			monitor_clients_tell(c, UINT64_MAX);
		}
	}
}

uint64_t clients_hold(const struct monitor *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		sum += m->clients[i].held;
	return sum;
}

/* ---- requests ---- */

static void monitor_clients_hear(struct monitor_client *c)
{
	const size_t fixed = sizeof(struct monitor_ask);
	struct monitor_packet p;
	int fds[FDS];
	size_t n = FDS;
	ssize_t r = 0;

	for (int i = 0; i < AT_ONCE && c->w.fd >= 0; i++, n = FDS) {
		r = fd_recv(c->w.fd, &p, sizeof(p), fds, &n);
		if (r == -EAGAIN)
			return;
		/* A request of another version begins as ours do. */
		if (r >= (ssize_t)offsetof(struct monitor_ask, exec)) {
			if ((size_t)r < fixed)
				memset((char *)&p + r, 0, fixed - (size_t)r);
			p.ask.exec[sizeof(p.ask.exec) - 1] = '\0';
			monitor_answer(c->m, c, &p, (size_t)r > fixed ? (size_t)r - fixed : 0, fds,
				       n);
		}
		for (size_t k = 0; k < n; k++)
			(void)fd_close(fds[k]);
		if (r < (ssize_t)offsetof(struct monitor_ask, exec)) {
			monitor_clients_drop(c);
			return;
		}
	}
}

static void on_client(struct loop_watch *w, uint32_t events)
{
	struct monitor_client *c = (struct monitor_client *)w;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		monitor_clients_hear(c);
}

/* A newcomer is told of what there is as of news. */
static void greet(struct monitor_client *c)
{
	const struct monitor_say hello = { .says = MONITOR_HELLO, .value = c->m->stage };

	client_say(c, &hello, -1);
	for (struct monitor_task *t = c->m->tasks; t; t = t->next)
		t->news[number_of(c)] =
			(unsigned char)(NEWS_RUNS | (task_runs(t) ? NEWS_GREW : NEWS_DONE));
}

int clients_take(struct monitor *m, int fd)
{
	for (size_t i = 0; i < MONITOR_CLIENTS; i++) {
		struct monitor_client *c = &m->clients[i];

		if (c->w.fd >= 0)
			continue;
		*c = (struct monitor_client){ .w = { .fd = fd, .ready = on_client }, .m = m };
		if (loop_want(m->loop, &c->w, EPOLLIN) < 0) {
			c->w.fd = -1;
			return -ENOMEM;
		}
		companions_meet(m, i);
		greet(c);
		return 0;
	}
	return -EUSERS;
}

/* ---- newcomers ---- */

/* The folder is closed to all but its owner; what runs inside has the owner's number, too. */
static bool monitor_clients_is_ours(int fd)
{
	struct peer p;

	peer_look(fd, &p);
	return p.ours;
}

static void on_newcomer(struct loop_watch *w, uint32_t events UNUSED)
{
	struct monitor *m = CONTAINER_OF(w, struct monitor, accepts);
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && (!monitor_clients_is_ours(fd) || clients_take(m, fd) < 0))
		(void)close(fd);
}

void clients_hide(const struct monitor *m)
{
	(void)unlinkat(MONITOR_FD_SOCKETS, m->id, 0);
}

int clients_listen(struct monitor *m, struct err *e)
{
	struct sockaddr_un at;

	socket_address(MONITOR_FD_SOCKETS, m->id, &at);
	clients_hide(m);
	if (bind(MONITOR_FD_LISTENER, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(MONITOR_FD_LISTENER, BACKLOG) < 0)
		return err_sys(e, "cannot listen for the daemon");
	m->accepts = (struct loop_watch){ .fd = MONITOR_FD_LISTENER, .ready = on_newcomer };
	return loop_want(m->loop, &m->accepts, EPOLLIN) < 0 ? err_nomem(e) : 0;
}

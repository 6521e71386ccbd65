/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_server.c - listening sockets, and who may have how many connections. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "http/http_internal.h"

#define MOST 4096
#define AT_ONCE 64
#define AGAIN_US 100000
#define SCRATCH_MAX ((size_t)HTTP_ANSWER_MAX + 4096)

void conn_due(struct http_conn *c)
{
	if (c->due)
		return;
	c->due = true;
	c->due_next = c->server->due;
	c->server->due = c;
}

void http_settle(struct http_server *s)
{
	while (s->due) {
		struct http_conn *c = s->due;

		s->due = c->due_next;
		c->due = false;
		if (c->state != HTTP_OVER)
			conn_turn(c);
		if (c->state == HTTP_OVER && !c->due)
			(void)conn_free(c);
	}
}

/* Told in one write, without a connection of its own: there are too many of those. */
static void turn_away(int fd)
{
	static const char body[] =
		"{\"type\":\"about:blank\",\"title\":\"There are too many already\",\"status\":503,"
		"\"code\":\"quota\",\"detail\":\"the daemon has too many connections\"}";
	char text[512];
	int n = snprintf(text, sizeof(text),
			 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: "
			 "application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\n"
			 "Content-Length: %zu\r\n\r\n%s",
			 sizeof(body) - 1, body);

	(void)send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	(void)fd_close(fd);
}

static void http_server_rest(struct http_server *s)
{
	for (struct http_listener *d = s->listeners; d; d = d->next)
		(void)loop_want(s->loop, &d->w, 0);
	loop_at(s->loop, &s->again, clock_us() + AGAIN_US);
}

static void listen_again(struct loop_timer *t, uint64_t now UNUSED)
{
	struct http_server *s = CONTAINER_OF(t, struct http_server, again);

	for (struct http_listener *d = s->listeners; d; d = d->next)
		if (d->fd >= 0)
			(void)loop_want(s->loop, &d->w, EPOLLIN);
}

/* Over TCP nobody can keep the owner out. */
static bool full(const struct http_server *s, const struct http_listener *d)
{
	return s->connections >= s->most || (!d->local && s->remote >= s->most / 2);
}

/* Those who have shown no token keep nobody out who may have one: the one that has been silent for
 * longest goes. It is freed by http_settle. */
static bool http_server_make_room(struct http_server *s, const struct http_listener *d)
{
	struct http_conn *oldest = NULL;

	for (struct http_conn *c = s->all; c && !d->local; c = c->next)
		if (!c->from->local && !c->caller.known && c->state != HTTP_SERVE &&
		    c->state != HTTP_TAKE && c->state != HTTP_OVER)
			oldest = c; /* the newest is first */
	if (oldest)
		conn_cut(oldest);
	return oldest != NULL;
}

static void knock(struct loop_watch *w, uint32_t events UNUSED)
{
	struct http_listener *d = (struct http_listener *)w;
	struct http_server *s = d->server;

	for (int i = 0; i < AT_ONCE; i++) {
		int one = 1, fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS)
				http_server_rest(s);
			return;
		}
		if (full(s, d) && !http_server_make_room(s, d)) {
			turn_away(fd);
			continue;
		}
		if (!d->local) {
			(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		}
		(void)conn_new(s, d, fd);
	}
}

/* The same for connections that come out of a socket; TLS has been spoken on each. */
static void knock_passed(struct loop_watch *w, uint32_t events UNUSED)
{
	struct http_listener *d = (struct http_listener *)w;
	struct http_server *s = d->server;

	for (int i = 0; i < AT_ONCE; i++) {
		char word;
		int fd = -1;
		size_t n = 1;
		ssize_t r = fd_recv(d->fd, &word, 1, &fd, &n);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0 && n == 0) {
			(void)loop_want(s->loop, &d->w, 0);
			d->fd = fd_close(d->fd);
			d->lost(d->lost_arg);
			return;
		}
		if (n == 0)
			continue;
		if (full(s, d) && !http_server_make_room(s, d))
			turn_away(fd);
		else
			(void)conn_new(s, d, fd);
	}
}

int http_new(struct loop *l, const struct http_service *by, struct http_server **ret, struct err *e)
{
	struct http_server *s = calloc(1, sizeof(*s));
	struct rlimit r;

	if (!s)
		return err_nomem(e);
	s->loop = l;
	s->by = *by;
	s->again.due = listen_again;
	s->scratch = (struct buf)BUF_INIT(SCRATCH_MAX);
	s->most = MOST;
	/* The other half is for monitors and files. */
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur / 2 < MOST)
		s->most = (size_t)r.rlim_cur / 2;
	*ret = s;
	return 0;
}

static struct http_listener *listener_new(struct http_server *s, int fd)
{
	struct http_listener *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)fd_close(fd);
		return NULL;
	}
	d->server = s;
	d->next = s->listeners;
	s->listeners = d;
	return d;
}

static int listen_on(struct http_listener *d, int fd, watch_fn *ready, struct err *e)
{
	int r;

	d->w = (struct loop_watch){ .fd = fd, .ready = ready };
	d->fd = fd;
	r = loop_want(d->server->loop, &d->w, EPOLLIN);
	return r < 0 ? err_errno(e, r, "cannot listen") : 0;
}

int http_listen(struct http_server *s, int fd, bool local, const char *authority, struct err *e)
{
	struct http_listener *d = listener_new(s, fd);

	if (!d)
		return err_nomem(e);
	d->local = local;
	(void)snprintf(d->authority, sizeof(d->authority), "%s", authority);
	return listen_on(d, fd, knock, e);
}

int http_listen_pages(struct http_server *s, int fd, const char *authority, struct err *e)
{
	int r = http_listen(s, fd, false, authority, e);

	if (r == 0)
		s->listeners->pages = true; /* the newest is first */
	return r;
}

int http_listen_passed(struct http_server *s, int fd, void (*lost)(void *arg), void *arg,
		       struct err *e)
{
	struct http_listener *d = s->listeners;

	while (d && !(d->passed && d->fd < 0))
		d = d->next;
	if (!d)
		d = listener_new(s, fd);
	if (!d)
		return err_nomem(e);
	d->passed = true;
	d->lost = lost;
	d->lost_arg = arg;
	return listen_on(d, fd, knock_passed, e);
}

/* Takes no more connections. */
static void http_deaf(struct http_server *s)
{
	for (struct http_listener *d = s->listeners; d; d = d->next) {
		(void)loop_want(s->loop, &d->w, 0);
		d->fd = fd_close(d->fd);
	}
	loop_at(s->loop, &s->again, 0);
}

struct http_server *http_free(struct http_server *s)
{
	if (!s)
		return NULL;
	while (s->all) {
		(void)conn_flush(s->all);
		(void)conn_free(s->all);
	}
	s->due = NULL;
	http_deaf(s);
	for (struct http_listener *d = s->listeners, *next; d; d = next) {
		next = d->next;
		free(d);
	}
	for (struct http_tenant *t = s->tenants, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	buf_done(&s->scratch);
	free(s);
	return NULL;
}

void http_revoke(struct http_server *s, bool (*keep)(void *arg, const struct http_call *c),
		 void *arg)
{
	for (struct http_conn *c = s->all; c; c = c->next)
		if ((c->state == HTTP_SERVE || c->state == HTTP_TAKE) && !c->ended &&
		    !c->from->local && !keep(arg, &c->call))
			conn_cut(c);
}

bool http_from_page(const struct http_call *c)
{
	return c->conn->from->pages;
}

const char *http_authority(const struct http_call *c)
{
	return c->conn->from->passed ? NULL : c->conn->from->authority;
}

size_t http_connections(const struct http_server *s)
{
	return s->connections;
}

uint64_t http_served(const struct http_server *s)
{
	return s->served;
}

static struct http_tenant *tenant_of(struct http_server *s, const char *name)
{
	struct http_tenant *t = s->tenants;

	while (t && !str_eq(t->name, name))
		t = t->next;
	if (t || !(t = calloc(1, sizeof(*t))))
		return t;
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	t->next = s->tenants;
	s->tenants = t;
	return t;
}

bool http_count(struct http_call *call, const char *tenant)
{
	struct http_caller *by = call->caller;
	struct http_tenant *t = tenant_of(call->conn->server, tenant);

	if (!t)
		return false;
	if (by->counted == t)
		return true;
	if (*tenant && t->connections >= HTTP_TENANT_CONNECTIONS)
		return false;
	if (by->counted)
		by->counted->connections--;
	by->counted = t;
	t->connections++;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/job_bridge.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "backend/kit/net/nearby.h"
#include "backend/kit/net/user_cable.h"
#include "base/files/fd.h"

struct job_bridge {
	int rtnl, follow;
	struct router_cable ends;
	struct user_cable cable;
	struct nearby closed;
};

int job_bridge_inside(int fds[BRIDGE_FDS], struct err *e)
{
	const struct door_want w = DOOR_WANT_NAMES;
	const struct router_cable ends = user_cable_ends();
	struct door_room room;
	int r = door_room(&w, &room, e);

	fds[BRIDGE_NAMES] = TAKE_FD(room.fds[0]);
	fds[BRIDGE_RTNL] = room.rtnl;
	fds[BRIDGE_USER] = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	fds[BRIDGE_NET] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (r < 0)
		return r;
	if (fds[BRIDGE_USER] < 0 || fds[BRIDGE_NET] < 0 || unshare(CLONE_NEWNET) < 0)
		return err_sys(e, "cannot leave the router's namespace");
	return router_inside(&room, &ends, e);
}

static int watch(const struct backend_job *j, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(j->events, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Followed first: nothing comes unseen between the two. */
static int close_near(struct job_bridge *b, struct err *e)
{
	b->follow = nearby_follow();
	if (b->follow < 0)
		return err_errno(e, b->follow, "cannot follow the routes of this machine");
	if (nearby_read(&b->closed, e) < 0)
		return -e->code;
	return router_close(b->rtnl, &b->ends, b->closed.v, b->closed.n, e);
}

static int lay(struct backend_job *j, struct job_bridge *b, struct err *e)
{
	int r;

	if (user_cable_start(j->door[BRIDGE_USER], j->door[BRIDGE_NET], b->rtnl, &b->ends,
			     &b->cable, e) < 0 ||
	    router_outside(b->rtnl, &b->ends, USER_CABLE, e) < 0 || close_near(b, e) < 0)
		return -e->code;
	r = watch(j, b->follow);
	if (r == 0)
		r = watch(j, b->cable.pidfd);
	return r < 0 ? err_errno(e, r, "cannot watch the cable") : 0;
}

int job_bridge_open(struct backend_job *j, struct err *e)
{
	struct job_bridge *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_nomem(e);
	*b = (struct job_bridge){ .rtnl = -1, .follow = -1, .ends = user_cable_ends() };
	b->cable.pidfd = -1;
	j->bridge = b;
	if (j->door_count != BRIDGE_FDS)
		return err_set(e, ERR_INTERNAL, EPROTO, "the sandbox has made no router");
	b->rtnl = TAKE_FD(j->door[BRIDGE_RTNL]);
	r = lay(j, b, e);
	for (size_t i = 1; i < BRIDGE_FDS; i++)
		j->door[i] = fd_close(j->door[i]);
	j->door_count = 1;
	return r;
}

static void job_bridge_cut(struct backend_job *j, const struct err *why, struct outcome *o)
{
	struct job_bridge *b = j->bridge;
	char text[sizeof(why->what) + 64];

	router_cut(b->rtnl, &b->ends);
	(void)epoll_ctl(j->events, EPOLL_CTL_DEL, b->follow, NULL);
	(void)epoll_ctl(j->events, EPOLL_CTL_DEL, b->cable.pidfd, NULL);
	user_cable_stop(&b->cable);
	b->follow = fd_close(b->follow);
	(void)snprintf(text, sizeof(text), "network bridge was cut: %s", why->what);
	outcome_deny(o, "network", "network.closed", text);
	if (j->note)
		j->note(j->note_arg, text);
}

bool job_bridge_turn(struct backend_job *j, int fd, struct outcome *o)
{
	struct job_bridge *b = j->bridge;
	struct err e = { 0 };
	size_t had;

	if (!b || (fd != b->follow && fd != b->cable.pidfd))
		return false;
	had = b->closed.n;
	if (fd == b->cable.pidfd)
		(void)err_set(&e, ERR_UNAVAILABLE, ECHILD, "the process that carries it has ended");
	else
		nearby_heard(fd);
	if (e.code || nearby_read(&b->closed, &e) < 0 ||
	    router_close(b->rtnl, &b->ends, b->closed.v + had, b->closed.n - had, &e) < 0)
		job_bridge_cut(j, &e, o);
	return true;
}

void job_bridge_done(struct backend_job *j)
{
	if (!j->bridge)
		return;
	user_cable_stop(&j->bridge->cable);
	(void)fd_close(j->bridge->rtnl);
	(void)fd_close(j->bridge->follow);
	free(j->bridge);
	j->bridge = NULL;
}

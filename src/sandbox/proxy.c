/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/bytes/random.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "egress/monitor.h"
#include "sandbox/recorder.h"

#define BACKLOG 1024
#define READY_MS 10000
#define DOOR_END_US ((uint64_t)2 * 1000 * 1000)

struct proxy {
	struct egress *door;
	struct recorder *recorder;
	struct outcome *o;
	note_fn *denied;
	void *arg;
};

static int listen_on(uint16_t *port, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(*port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CLEANUP(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t n = sizeof(a);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
		(void)err_sys(e, "cannot listen on port %u of loopback", *port);
		e->kind = ERR_UNAVAILABLE;
		return err_hint(e, "choose another with --port, or 0 for any");
	}
	*port = ntohs(a.sin_port);
	return TAKE_FD(fd);
}

static int proxy_hear(struct proxy *p, struct err *e)
{
	struct egress_event ev;

	for (;;) {
		enum egress_news news = egress_next(p->door, &ev);
		char reason[EGRESS_REASON_SIZE];

		if (news == EGRESS_QUIET)
			return 0;
		if (news == EGRESS_GONE)
			return err_set(e, ERR_INTERNAL, ECHILD, "the door's process is gone");
		if (ev.kind == EGRESS_EVENT_FAILED)
			return err_set(e, ERR_UNAVAILABLE, ECHILD,
				       "the door could not start: %.300s", ev.what);
		egress_count(&ev, p->o);
		if (ev.kind == EGRESS_EVENT_DENY) {
			egress_reason_text(&ev, reason, sizeof(reason));
			p->denied(p->arg, reason);
		}
		if (recorder_egress(p->recorder, &ev, e) < 0)
			return -e->code;
	}
}

/* What was under way is on the record as well. */
static void end_door(struct proxy *p)
{
	uint64_t until = clock_us() + DOOR_END_US;
	struct err e;
	int fd;

	egress_end(p->door);
	while ((fd = egress_fd(p->door)) >= 0 && clock_us() < until) {
		(void)wait_fd(fd, POLLIN, clock_after(50));
		if (proxy_hear(p, &e) < 0)
			return;
	}
}

static int proxy_serve(struct proxy *p, int signals, struct err *e)
{
	struct pollfd w[] = { { .fd = signals, .events = POLLIN },
			      { .fd = egress_fd(p->door), .events = POLLIN } };

	for (;;) {
		if (wait_any(w, ARRAY_LEN(w), 0) < 0)
			return err_sys(e, "cannot wait");
		if (w[1].revents && proxy_hear(p, e) < 0)
			return -e->code;
		if (w[0].revents)
			return 0;
	}
}

static int open_and_serve(struct proxy *p, const struct spec *s, char *const *envp, int own,
			  int signals, proxy_ready_fn *ready, struct err *e)
{
	struct door_socket what = { .kind = own < 0 ? DOOR_PROXY : DOOR_OWN,
				    .port = own < 0 ? (uint16_t)s->egress.port : 0 };
	CLEANUP(fd)
	int fd = own < 0 ? listen_on(&what.port, e) : fcntl(own, F_DUPFD_CLOEXEC, 3);
	const char *authority;

	if (fd < 0 && own >= 0)
		return err_sys(e, "no descriptor for the door");
	if (fd < 0 || egress_start(s, envp, &p->door, e) < 0)
		return -e->code;
	authority = egress_authority(p->door, e);
	if (!authority || egress_attach(p->door, &what, &fd, 1, e) < 0 ||
	    egress_await(p->door, READY_MS, e) < 0 ||
	    recorder_begin(p->recorder, p->o->id, "proxy", e) < 0 ||
	    ready(p->arg, what.port, authority, e) < 0)
		return -e->code;
	p->o->started = true;
	return proxy_serve(p, signals, e);
}

int proxy_run(const struct spec *s, char *const *envp, int own, int signals, proxy_ready_fn *ready,
	      note_fn *denied, void *arg, struct outcome *o, struct err *e)
{
	CLEANUP(recorder) struct recorder *recorder = NULL;
	struct proxy p = { .o = o, .denied = denied, .arg = arg };
	uint64_t from = clock_us();
	struct err ignored;
	int r;

	o->backend = "proxy";
	if (random_hex(o->id, sizeof(o->id), e) < 0 || recorder_new(s, &recorder, e) < 0)
		return -e->code;
	p.recorder = recorder;
	r = open_and_serve(&p, s, envp, own, signals, ready, e);
	if (o->started)
		end_door(&p);
	(void)egress_free(p.door);
	o->duration_us = clock_us() - from;
	o->kind = r == 0 ? OUTCOME_EXITED : OUTCOME_FAILED;
	if (r < 0)
		o->error = *e;
	return recorder_end(recorder, o, r == 0 ? e : &ignored) < 0 && r == 0 ? -e->code : r;
}

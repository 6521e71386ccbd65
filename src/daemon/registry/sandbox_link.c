/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_link.c - the daemon's end of a monitor: what it says becomes the
 * sandbox's state.
 *
 * A monitor that says its last word (REFUSED, CLOSED) has nothing left inside; one whose socket
 * closes without it was killed, and the sandbox died with it. Either way the process itself is
 * waited for before anything else happens to the sandbox: its lock is free then.
 *
 * A monitor drops a daemon that takes nothing for a while (one that was stopped). Such a daemon
 * connects to it anew, as the next daemon would, and says again what may not have been heard. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"

#define AT_ONCE 256 /* words of one monitor at a turn */
#define REACH_FIRST_US ((uint64_t)10 * 1000)
#define REACH_LAST_US ((uint64_t)5 * 1000 * 1000)
#define AWAY_US ((uint64_t)1000 * 1000) /* a monitor that cannot be reached for longer is ended */

static void box_link_reap(int pidfd)
{
	siginfo_t info;

	/* One that an earlier daemon has started is somebody else's child. */
	(void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | __WALL);
}

void link_close(struct sandbox_entry *b)
{
	if (b->link.fd >= 0) {
		(void)loop_want(b->s->loop, &b->link, 0);
		b->link.fd = fd_close(b->link.fd);
	}
	if (b->proc.fd >= 0) {
		(void)loop_want(b->s->loop, &b->proc, 0);
		b->proc.fd = fd_close(b->proc.fd);
	}
	loop_at(b->s->loop, &b->reach, 0);
	b->reach_wait = 0;
}

bool link_is_away(const struct sandbox_entry *b)
{
	return b->unsure && b->proc.fd >= 0 && b->reach_wait < AWAY_US;
}

void link_kill(struct sandbox_entry *b)
{
	if (b->proc.fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, b->proc.fd, SIGKILL, NULL, 0);
}

int link_ask_long(struct sandbox_entry *b, struct monitor_packet *p, size_t order, const int *fds,
		  size_t n)
{
	p->ask.version = MONITOR_VERSION;
	return b->link.fd < 0 ? -ENOTCONN : fd_send(b->link.fd, p, sizeof(p->ask) + order, fds, n);
}

int link_ask(struct sandbox_entry *b, const struct monitor_ask *q, const int *fds, size_t n)
{
	struct monitor_ask full = *q;

	full.version = MONITOR_VERSION;
	return b->link.fd < 0 ? -ENOTCONN : fd_send(b->link.fd, &full, sizeof(full), fds, n);
}

/* What is left of its life, at least a moment; 0: for ever. */
static uint64_t life_left(const struct sandbox_entry *b)
{
	uint64_t end = b->created / 1000 + b->ttl, now = clock_wall_us() / 1000;

	return !b->ttl ? 0 : end > now ? end - now : 1;
}

void link_times(struct sandbox_entry *b)
{
	const struct monitor_ask q = { .asks = MONITOR_TIMES,
				       .idle = b->idle_ttl,
				       .life = life_left(b) };

	(void)link_ask(b, &q, NULL, 0);
}

/* ---- its words ---- */

static void on_opened(struct sandbox_entry *b)
{
	if (!b->opening)
		return;
	b->opening = false;
	if (b->state == STATE_DELETING) /* it was told to stop while it was being opened */
		return;
	b->started = clock_wall_us();
	b->restarting = false;
	entry_becomes(b, STATE_READY,
		      b->state == STATE_PENDING ? "sandbox.ready" : "sandbox.resumed", NULL);
	entry_done(b, SANDBOX_RESUME, PROBLEM_NONE, NULL);
}

static void on_paused(struct sandbox_entry *b, const struct monitor_say *m)
{
	if (m->err.code)
		entry_done(b, SANDBOX_PAUSE, problem_of(&m->err), &m->err);
	if (m->err.code || b->state != STATE_READY)
		return;
	entry_becomes(b, STATE_PAUSED, "sandbox.paused", NULL);
	entry_done(b, SANDBOX_PAUSE, PROBLEM_NONE, NULL);
}

static void on_continued(struct sandbox_entry *b, const struct monitor_say *m)
{
	if (m->err.code)
		entry_done(b, SANDBOX_RESUME, problem_of(&m->err), &m->err);
	if (m->err.code || b->state != STATE_PAUSED)
		return;
	entry_becomes(b, STATE_READY, "sandbox.resumed", NULL);
	entry_done(b, SANDBOX_RESUME, PROBLEM_NONE, NULL);
}

static bool is_awaited(const struct sandbox_entry *b, enum sandbox_verb verb)
{
	const struct verb_waiter *w = b->waiters;

	while (w && w->verb != verb)
		w = w->next;
	return w != NULL;
}

/* What it may not have heard. */
static void ask_again(struct sandbox_entry *b, uint64_t stage)
{
	struct monitor_ask q = { .asks = MONITOR_STOP, .value = b->grace_ms };

	if (b->stopping && stage != MONITOR_IS_STOPPING)
		(void)link_ask(b, &q, NULL, 0);
	q = (struct monitor_ask){ .asks = MONITOR_PAUSE };
	if (stage == MONITOR_IS_OPEN && is_awaited(b, SANDBOX_PAUSE))
		(void)link_ask(b, &q, NULL, 0);
	q.asks = MONITOR_CONTINUE;
	if (stage == MONITOR_IS_PAUSED && is_awaited(b, SANDBOX_RESUME))
		(void)link_ask(b, &q, NULL, 0);
}

static void on_hello(struct sandbox_entry *b, const struct monitor_say *m)
{
	b->strange = m->version != MONITOR_VERSION;
	b->unsure = false;
	b->reach_wait = 0;
	if (!b->found || b->strange)
		return;
	execs_recover(b);
	if (m->value == MONITOR_IS_OPEN || m->value == MONITOR_IS_PAUSED) {
		const struct monitor_say as_it_is = { .says = MONITOR_PAUSED };

		b->opening |= b->state == STATE_PENDING || b->state == STATE_STOPPED;
		on_opened(b);
		if (m->value == MONITOR_IS_PAUSED)
			on_paused(b, &as_it_is);
		else
			on_continued(b, &as_it_is);
		link_times(b);
	} else if (m->value == MONITOR_IS_OPENING) {
		b->opening = true;
	}
	ask_again(b, m->value);
}

static void take_error(struct sandbox_entry *b, const struct err *e)
{
	b->error = *e;
	b->error.what[sizeof(b->error.what) - 1] = b->error.hint[sizeof(b->error.hint) - 1] = '\0';
}

static void on_refused(struct sandbox_entry *b, const struct monitor_say *m)
{
	b->closed = true;
	take_error(b, &m->err);
	(void)snprintf(b->reason, sizeof(b->reason), "%s", m->reason);
	if (!b->error.code)
		b->error.code = EIO;
}

static void box_link_on_closed(struct sandbox_entry *b, const struct monitor_say *m)
{
	b->closed = true;
	if (!b->opening) /* else it was not to be */
		take_error(b, &m->err);
	(void)snprintf(b->reason, sizeof(b->reason), "%.*s", (int)sizeof(m->reason) - 1, m->reason);
}

static void on_companion(const struct sandbox_entry *b, const struct monitor_say *m)
{
	static const char *const types[COMPANION_STATES] = { "companion.starting",
							     "companion.ready",
							     "companion.failed" };
	const struct event_note n = { .type = m->value < COMPANION_STATES ? types[m->value] : NULL,
				      .tenant = b->tenant,
				      .sandbox = b->id,
				      .companion = m->companion,
				      .reason = *m->reason ? m->reason : NULL };

	if (n.type)
		(void)events_add(b->s->events, &n);
}

static void on_denied(const struct sandbox_entry *b, const struct monitor_say *m)
{
	CLEANUP(buf) struct buf data = BUF_INIT(8192);
	struct event_note n = { .type = "companion.denied",
				.tenant = b->tenant,
				.sandbox = b->id,
				.companion = m->companion,
				.reason = m->reason };
	struct json j;

	json_init(&j, &data, false);
	json_object(&j);
	json_kstr(&j, "target", m->err.what);
	json_kstr(&j, "why", m->err.hint);
	json_object_end(&j);
	if (data.failed)
		return;
	n.data = buf_str(&data);
	(void)events_add(b->s->events, &n);
}

static void box_link_take_word(struct sandbox_entry *b, const struct monitor_say *m, int *fd)
{
	if (m->says == MONITOR_HELLO) {
		on_hello(b, m);
		return;
	}
	if (m->version != MONITOR_VERSION)
		return;
	switch ((enum monitor_says)m->says) {
	case MONITOR_OPENED:
		on_opened(b);
		break;
	case MONITOR_REFUSED:
		on_refused(b, m);
		break;
	case MONITOR_PAUSED:
		on_paused(b, m);
		break;
	case MONITOR_CONTINUED:
		on_continued(b, m);
		break;
	case MONITOR_CLOSED:
		box_link_on_closed(b, m);
		break;
	case MONITOR_COMPANION:
		on_companion(b, m);
		break;
	case MONITOR_DENIED:
		on_denied(b, m);
		break;
	case MONITOR_QUESTION:
		questions_opened(b, m);
		break;
	case MONITOR_ANSWERED:
		questions_closed(b, m);
		break;
	default:
		execs_heard(b, m, fd);
		break;
	}
}

/* ---- the end of it ---- */

/* The reason that it has left behind, if it had the time. */
static void find_reason(struct sandbox_entry *b, int folder)
{
	char text[MONITOR_REASON], why[sizeof(struct err) + 1];
	struct err e;

	if (b->closed)
		return;
	if (folder < 0 || fd_read_file(folder, MONITOR_ENDED, text, sizeof(text)) <= 0 || !text[0])
		(void)snprintf(text, sizeof(text), "lost");
	(void)snprintf(b->reason, sizeof(b->reason), "%s", text);
	if (folder < 0 || fd_read_file(folder, MONITOR_WHY, why, sizeof(why)) != sizeof(e))
		return;
	memcpy(&e, why, sizeof(e));
	take_error(b, &e);
}

/* A creation that failed keeps what it said, and nothing else. */
static void clear_failed(const struct sandbox_entry *b, int folder)
{
	static const char *const names[] = { MONITOR_SPEC, MONITOR_SOCKET, MONITOR_FACTS,
					     MONITOR_ASKED };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(folder, names[i], 0);
	(void)unlinkat(folder, MONITOR_EXECS, AT_REMOVEDIR);
	entry_put_aside(b);
}

static void was_refused(struct sandbox_entry *b, int folder)
{
	char reason[MONITOR_REASON];

	(void)snprintf(reason, sizeof(reason), "%s",
		       !b->error.code            ? "lost"
		       : b->closed && *b->reason ? b->reason
						 : err_kind_name(b->error.kind));
	if (!b->error.code)
		(void)err_refuse(&b->error, ERR_INTERNAL, ECHILD, "create it again",
				 "its monitor was killed before the sandbox was ready");
	if (b->state == STATE_PENDING && folder >= 0)
		clear_failed(b, folder);
	b->opening = false;
	if (b->restarting) { /* the next try may do better */
		b->restarting = false;
		entry_becomes(b, STATE_STOPPED, "sandbox.stopped", reason);
		entry_crashed(b, 0);
		return;
	}
	entry_becomes(b, STATE_FAILED, "sandbox.failed", reason);
	entry_done(b, SANDBOX_RESUME, problem_of(&b->error), &b->error);
}

bool entry_is_dead(const struct sandbox_entry *b)
{
	return b->dead && b->s->tidier.fd >= 0;
}

static void resume_wanted(struct sandbox_entry *b)
{
	struct err e = { 0 };
	enum problem p;

	if (!b->wanted)
		return;
	b->wanted = false;
	p = entry_resume(b, &e);
	if (p != PROBLEM_NONE)
		entry_done(b, SANDBOX_RESUME, p, &e);
}

/* Whoever waits for the end of one that was killed. From the last on: one that is deleted leaves
 * the list. */
static void end_dead(struct sandboxes *s)
{
	for (size_t i = s->count; i > 0; i--) {
		struct sandbox_entry *b = s->all[i - 1];

		if (!b->dead)
			continue;
		b->dead = false;
		if (b->link.fd >= 0)
			continue;
		if (b->state == STATE_DELETING) {
			entry_remove(b);
			continue;
		}
		entry_done(b, SANDBOX_STOP, PROBLEM_NONE, NULL);
		resume_wanted(b);
	}
}

static void on_tidied(struct loop_watch *w, uint32_t events UNUSED)
{
	struct sandboxes *s = CONTAINER_OF(w, struct sandboxes, tidier);

	box_link_reap(w->fd);
	link_tidied(s);
	(void)unlinkat(s->folder, MONITOR_ASIDE, AT_REMOVEDIR); /* more may have come */
	if (s->chores)
		link_tidy(s, s->chores);
	if (s->tidier.fd < 0)
		end_dead(s);
}

void link_tidied(struct sandboxes *s)
{
	if (s->tidier.fd < 0)
		return;
	(void)loop_want(s->loop, &s->tidier, 0);
	s->tidier.fd = fd_close(s->tidier.fd);
}

void link_tidy(struct sandboxes *s, unsigned chores)
{
	bool lost = (s->chores | chores) & CHORE_LOST;
	struct err e;
	int pidfd = -1;

	s->chores |= chores;
	if (s->tidier.fd >= 0 || monitor_start_tidy(s->folder, &s->monitors, lost, &pidfd, &e) < 0)
		return;
	s->chores = 0;
	s->tidier = (struct loop_watch){ .fd = pidfd, .ready = on_tidied };
	if (loop_want(s->loop, &s->tidier, EPOLLIN) < 0)
		s->tidier.fd = fd_close(pidfd);
}

void link_lost(struct sandbox_entry *b)
{
	CLEANUP(fd) int folder = entry_folder(b);
	char why[MONITOR_REASON];
	bool killed = !b->closed, told = b->stopping;
	struct err gone = { 0 };

	link_close(b);
	b->stopping = b->unsure = false;
	b->held = 0;
	execs_lost(b);
	questions_forget(b);
	b->dead = killed;
	if (killed)
		link_tidy(b->s, CHORE_LOST);
	if (b->state == STATE_DELETING) {
		if (!entry_is_dead(b))
			entry_remove(b);
		return;
	}
	if (b->opening && b->closed && !b->error.code) {
		b->opening = false; /* somebody did not want to wait for its companions */
		memcpy(why, b->reason, sizeof(why));
		entry_becomes(b, STATE_STOPPED, "sandbox.stopped", why);
	} else if (b->opening || b->state == STATE_PENDING) {
		was_refused(b, folder);
	} else if (b->state == STATE_READY || b->state == STATE_PAUSED) {
		find_reason(b, folder);
		memcpy(why, b->reason, sizeof(why));
		entry_becomes(b, STATE_STOPPED, "sandbox.stopped", why);
		if (!told)
			entry_crashed(b, b->started);
	}
	if (str_eq(b->reason, "expired") && b->state == STATE_STOPPED) {
		(void)sandboxes_do(b->s, "", b->id, SANDBOX_DELETE, 0, NULL, NULL, &gone);
		return;
	}
	if (!entry_is_dead(b))
		entry_done(b, SANDBOX_STOP, PROBLEM_NONE, NULL);
	(void)err_set(&gone, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	entry_done(b, SANDBOX_PAUSE, PROBLEM_SANDBOX_NOT_READY, &gone);
	entry_done(b, SANDBOX_RESUME, PROBLEM_SANDBOX_NOT_READY, &gone);
}

/* One word: 1; 0: there is none now; -1: there will be none. */
static int box_link_hear(struct sandbox_entry *b)
{
	struct monitor_say m;
	size_t n = 1;
	int fd = -1;
	ssize_t r = b->link.fd < 0 ? -ENOTCONN : fd_recv(b->link.fd, &m, sizeof(m), &fd, &n);

	if (r == -EAGAIN)
		return 0;
	if (r < (ssize_t)offsetof(struct monitor_say, exec))
		return -1;
	memset((char *)&m + r, 0, sizeof(m) - (size_t)r);
	m.exec[sizeof(m.exec) - 1] = m.reason[sizeof(m.reason) - 1] = '\0';
	m.companion[sizeof(m.companion) - 1] = '\0';
	box_link_take_word(b, &m, &fd);
	(void)fd_close(fd);
	return 1;
}

static struct sandbox_entry *of_proc(struct loop_watch *w)
{
	return CONTAINER_OF(w, struct sandbox_entry, proc);
}

static void on_exit_of(struct loop_watch *w, uint32_t events UNUSED)
{
	struct sandbox_entry *b = of_proc(w);

	box_link_reap(w->fd);
	while (box_link_hear(b) > 0) /* what it said last is still in the socket */
		;
	link_lost(b);
}

/* ---- one that has let go of us ---- */

static void on_words(struct loop_watch *w, uint32_t events);

/* Those of an earlier build have their socket in the folder of their sandbox. */
static int find_monitor(const struct sandbox_entry *b, int *sock, int *pidfd)
{
	int r = monitor_connect(&b->s->monitors, b->s->sockets, b->id, sock, pidfd);

	if (r == -ENOENT) {
		CLEANUP(fd) int folder = entry_folder(b);

		r = folder < 0
			    ? -errno
			    : monitor_connect(&b->s->monitors, folder, MONITOR_SOCKET, sock, pidfd);
	}
	return r;
}

static int reconnect(struct sandbox_entry *b)
{
	CLEANUP(fd) int sock = -1, pidfd = -1;
	int r = find_monitor(b, &sock, &pidfd);

	if (r < 0)
		return r;
	(void)fd_close(b->link.fd);
	b->link = (struct loop_watch){ .fd = TAKE_FD(sock), .ready = on_words };
	b->found = true;
	b->held = 0;
	return loop_want(b->s->loop, &b->link, EPOLLIN);
}

static void reach(struct sandbox_entry *b)
{
	uint64_t next = b->reach_wait ? b->reach_wait * 2 : REACH_FIRST_US;

	b->reach_wait = next < REACH_LAST_US ? next : REACH_LAST_US;
	if (reconnect(b) < 0)
		loop_at(b->s->loop, &b->reach, clock_us() + b->reach_wait);
}

static void on_reach(struct loop_timer *t, uint64_t now UNUSED)
{
	reach(CONTAINER_OF(t, struct sandbox_entry, reach));
}

/* Its process is there: if that ends, the pidfd says so, and it is lost. The socket is kept until
 * there is another, because who has none has no monitor. */
static void was_dropped(struct sandbox_entry *b)
{
	(void)loop_want(b->s->loop, &b->link, 0);
	if (b->closed)
		return;
	b->unsure = true;
	execs_doubt(b);
	b->reach.due = on_reach;
	if (!b->reach_wait)
		reach(b);
	else
		loop_at(b->s->loop, &b->reach, clock_us() + b->reach_wait);
}

static void on_words(struct loop_watch *w, uint32_t events UNUSED)
{
	struct sandbox_entry *b = (struct sandbox_entry *)w;
	int r = 1;

	for (int i = 0; i < AT_ONCE && r > 0; i++)
		r = box_link_hear(b);
	if (r < 0)
		was_dropped(b);
}

static int box_link_follow(struct sandbox_entry *b, int sock, int pidfd)
{
	b->link = (struct loop_watch){ .fd = sock, .ready = on_words };
	b->proc = (struct loop_watch){ .fd = pidfd, .ready = on_exit_of };
	b->closed = b->stopping = b->strange = false;
	b->held = 0;
	return loop_want(b->s->loop, &b->link, EPOLLIN) < 0 ||
			       loop_want(b->s->loop, &b->proc, EPOLLIN) < 0
		       ? -ENOMEM
		       : 0;
}

int link_start(struct sandbox_entry *b, int folder, const int *secrets, size_t n, struct err *e)
{
	const struct monitor_ask begin = { .asks = MONITOR_BEGIN,
					   .idle = b->idle_ttl,
					   .life = life_left(b) };
	int sock = -1, pidfd = -1, r;

	err_clear(&b->error); /* of its last end */
	(void)unlinkat(folder, MONITOR_ENDED, 0);
	(void)unlinkat(folder, MONITOR_WHY, 0);
	if (monitor_start(folder, &b->s->monitors, b->id, &sock, &pidfd, e) < 0)
		return -e->code;
	b->found = false;
	b->opening = true;
	r = box_link_follow(b, sock, pidfd);
	if (r == 0)
		r = link_ask(b, &begin, secrets, n);
	if (r < 0) {
		(void)err_errno(&b->error, r, "cannot speak to the monitor");
		link_kill(b); /* which is heard of */
	}
	return 0;
}

int link_find(struct sandbox_entry *b)
{
	int sock = -1, pidfd = -1;
	int r = find_monitor(b, &sock, &pidfd);

	if (r < 0)
		return r;
	b->found = true;
	return box_link_follow(b, sock, pidfd);
}

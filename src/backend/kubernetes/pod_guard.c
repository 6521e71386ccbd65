/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard.c - brig-guard: a fork of brig that belongs to nobody.
 *
 *   making the pod -> filling it -> first words -> serving -> removing it -> gone
 *
 * Whatever happens to brig, it sees its end of the socket close, removes the pod and leaves. If it
 * is killed itself, its connection ends, brig-pod's input with it, and so the pod; the object that
 * is left is the next brig's to remove (kube_note.c). */
#include "backend/kubernetes/pod_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/spawn.h"

#define NOTES_MAX 256 /* of a cluster that never stops telling */

int pod_guard_say(const struct pod_guard *g, const struct supervisor_msg *m, int fd)
{
	return fd_send(g->s->control, m, sizeof(*m), &fd, fd >= 0 ? 1 : 0);
}

void pod_guard_say_surely(const struct pod_guard *g, const struct supervisor_msg *m)
{
	while (pod_guard_say(g, m, -1) == -EAGAIN)
		if (wait_fd(g->s->control, POLLOUT, 0) < 0)
			return;
}

void pod_guard_clean(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
}

bool pod_guard_given_up(struct pod_guard *g)
{
	struct supervisor_request r;
	size_t none = 0;
	ssize_t n = fd_recv(g->s->control, &r, sizeof(r), NULL, &none);

	return n != -EAGAIN &&
	       (n != (ssize_t)sizeof(r) || (r.asks == ASK_SIGNAL && r.signal == SIGKILL));
}

bool pod_guard_note(struct pod_guard *g, const char *text)
{
	struct supervisor_msg m = { .said = SUPERVISOR_NOTE };

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	if (g->notes++ < NOTES_MAX)
		pod_guard_say_surely(g, &m);
	return false;
}

static void pod_guard_settle(const struct pod_guard_start *s)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct door_there keep;

	(void)prctl(PR_SET_NAME, "brig-guard", 0, 0, 0);
	proc_default_signals();
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)setsid();
	(void)proc_leave_streams();
	keep = (struct door_there){ -1, -1, -1 };
	if (s->there)
		keep = *s->there;
	(void)fd_close_except(3, (const int[]){ s->control, keep.line, keep.plan, keep.roots },
			      s->there ? 4 : 1);
}

static int make_names(struct pod_guard *g, struct err *e)
{
	char hex[33];

	if (random_hex(hex, sizeof(hex), e) < 0 || kube_instance(g->instance, e) < 0)
		return -e->code;
	(void)snprintf(g->inside, sizeof(g->inside), "/.brig-%s", hex);
	(void)snprintf(g->name, sizeof(g->name), "brig-%.32s", g->s->id);
	return 0;
}

/* Lines: what the image was, and where this is. */
static void tell_started(const struct pod_guard *g)
{
	const struct kube_place *at = kube_place(g->kube);
	struct supervisor_msg m = { .said = SUPERVISOR_STARTED,
				    .container = {
					    .user_ns = g->answer.user_ns,
					    .by_policy = g->by_policy,
					    .node = g->answer.node,
					    .unenforced = g->answer.sized ? 0 : 1U << LIMIT_TMP } };

	(void)snprintf(m.text, sizeof(m.text), "%.200s\n%.80s\n%.63s\n%.60s\n%.60s\n%.40s",
		       g->seen.digest, at->cluster, g->space, g->name, g->seen.uid, g->seen.node);
	pod_guard_say_surely(g, &m);
}

static void hang_up(struct pod_guard *g)
{
	g->frames = frames_free(g->frames);
	kube_streams_done(&g->streams);
}

/* Nothing more is heard of what was done there. */
static void forget_commands(struct pod_guard *g)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct supervisor_msg m = { .said = SUPERVISOR_EXITED,
					    .command = g->held[i].number };

		if (!m.command)
			continue;
		pod_guard_say_surely(g, &m);
		m.said = SUPERVISOR_ENDED;
		pod_guard_say_surely(g, &m);
	}
	memset(g->held, 0, sizeof(g->held));
}

/* What the command may read and not write is put there by the container before its own. */
static int pod_guard_fill(struct pod_guard *g, struct err *e)
{
	const struct supervisor_msg ready = { .said = SUPERVISOR_READY };

	if (!pod_is_filled(g->plan))
		return 0;
	if (pod_guard_wait(g, KUBE_FILLER, e) < 0 || pod_guard_attach(g, KUBE_FILLER, e) < 0)
		return -e->code;
	pod_guard_say_surely(g, &ready);
	pod_guard_serve(g);
	hang_up(g);
	if (!g->filled) {
		*e = g->end.err;
		return e->code ? -e->code
			       : err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	}
	forget_commands(g);
	g->answered = g->compared = false;
	return 0;
}

static void pod_guard_leave(struct pod_guard *g)
{
	hang_up(g);
	pod_guard_door_leave(g);
	g->watch = fd_close(g->watch);
}

_Noreturn void pod_guard_main(const struct pod_guard_start *s)
{
	static struct pod_guard g; /* large, and this process has no other use for its memory */
	struct err e = { 0 };
	bool waits;

	g.s = s;
	g.plan = s->plan;
	g.note = g.watch = g.owner.watch = -1;
	g.streams = g.door.streams = (struct kube_streams){ -1, -1, -1, -1, 0 };
	g.end.said = SUPERVISOR_ENDED;
	pod_guard_settle(s);
	if (make_names(&g, &e) < 0 || pod_guard_make(&g, &e) < 0 || pod_guard_fill(&g, &e) < 0 ||
	    pod_guard_door_open(&g, &e) < 0 || pod_guard_wait(&g, KUBE_CONTAINER, &e) < 0 ||
	    pod_guard_attach(&g, KUBE_CONTAINER, &e) < 0) {
		g.end.said = SUPERVISOR_FAILED;
		g.end.err = e;
	} else {
		pod_guard_door_seen(&g);
		tell_started(&g);
		pod_guard_serve(&g);
	}
	/* Its line closed, brig-pod leaves and everything with it: whoever waits is told, and the
	 * cluster's record of it goes while they read on. What never ran is removed first. */
	pod_guard_leave(&g);
	waits = g.end.said == SUPERVISOR_FAILED || pod_guard_say(&g, &g.end, -1) == -EAGAIN;
	kube_note_done(&g, pod_guard_remove(&g));
	if (waits)
		pod_guard_say_surely(&g, &g.end);
	(void)jread_free(g.asked);
	(void)kube_free(g.kube);
	_exit(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/drover.c - brig-drover: a fork of brig that belongs to nobody.
 *
 *   making the pod -> filling it -> first words -> serving -> removing it -> gone
 *
 * Whatever happens to brig, it sees its end of the socket close, removes the pod and leaves. If it
 * is killed itself, its connection ends, brig-pod's input with it, and so the pod; the object that
 * is left is the next brig's to remove (kube_note.c). */
#include "backend/kubernetes/drover.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "proc/spawn.h"

#define NOTES_MAX 256 /* of a cluster that never stops telling */

int drover_say(const struct drover *d, const struct supervisor_msg *m, int fd)
{
	return fd_send(d->s->control, m, sizeof(*m), &fd, fd >= 0 ? 1 : 0);
}

void drover_say_surely(const struct drover *d, const struct supervisor_msg *m)
{
	struct pollfd p = { .fd = d->s->control, .events = POLLOUT };

	while (drover_say(d, m, -1) == -EAGAIN)
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return;
}

void drover_clean(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
}

bool drover_given_up(struct drover *d)
{
	struct supervisor_request r;
	size_t none = 0;
	ssize_t n = fd_recv(d->s->control, &r, sizeof(r), NULL, &none);

	return n != -EAGAIN &&
	       (n != (ssize_t)sizeof(r) || (r.asks == ASK_SIGNAL && r.signal == SIGKILL));
}

bool drover_note(struct drover *d, const char *text)
{
	struct supervisor_msg m = { .said = SUPERVISOR_NOTE };

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	if (d->notes++ < NOTES_MAX)
		drover_say_surely(d, &m);
	return false;
}

static void drover_settle(const struct drover_start *s)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct door_there keep;

	(void)prctl(PR_SET_NAME, "brig-drover", 0, 0, 0);
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

static int make_names(struct drover *d, struct err *e)
{
	char hex[33];

	if (random_hex(hex, sizeof(hex), e) < 0 || kube_instance(d->instance, e) < 0)
		return -e->code;
	(void)snprintf(d->inside, sizeof(d->inside), "/.brig-%s", hex);
	(void)snprintf(d->name, sizeof(d->name), "brig-%.32s", d->s->id);
	return 0;
}

/* Lines: what the image was, and where this is. */
static void tell_started(const struct drover *d)
{
	const struct kube_place *at = kube_place(d->kube);
	struct supervisor_msg m = { .said = SUPERVISOR_STARTED,
				    .container = {
					    .user_ns = d->answer.user_ns,
					    .by_policy = d->by_policy,
					    .node = d->answer.node,
					    .unenforced = d->answer.sized ? 0 : 1U << LIMIT_TMP } };

	(void)snprintf(m.text, sizeof(m.text), "%.200s\n%.80s\n%.63s\n%.60s\n%.60s\n%.40s",
		       d->seen.digest, at->cluster, d->space, d->name, d->seen.uid, d->seen.node);
	drover_say_surely(d, &m);
}

static void hang_up(struct drover *d)
{
	d->frames = frames_free(d->frames);
	kube_streams_done(&d->streams);
}

/* Nothing more is heard of what was done there. */
static void forget_commands(struct drover *d)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct supervisor_msg m = { .said = SUPERVISOR_EXITED,
					    .command = d->held[i].number };

		if (!m.command)
			continue;
		drover_say_surely(d, &m);
		m.said = SUPERVISOR_ENDED;
		drover_say_surely(d, &m);
	}
	memset(d->held, 0, sizeof(d->held));
}

/* What the command may read and not write is put there by the container before its own. */
static int drover_fill(struct drover *d, struct err *e)
{
	const struct supervisor_msg ready = { .said = SUPERVISOR_READY };

	if (!pod_is_filled(d->plan))
		return 0;
	if (drover_wait(d, KUBE_FILLER, e) < 0 || drover_attach(d, KUBE_FILLER, e) < 0)
		return -e->code;
	drover_say_surely(d, &ready);
	drover_serve(d);
	hang_up(d);
	if (!d->filled) {
		*e = d->end.err;
		return e->code ? -e->code
			       : err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	}
	forget_commands(d);
	d->answered = d->compared = false;
	return 0;
}

static void drover_leave(struct drover *d)
{
	hang_up(d);
	drover_door_leave(d);
	d->watch = fd_close(d->watch);
}

_Noreturn void drover_main(const struct drover_start *s)
{
	static struct drover d; /* large, and this process has no other use for its memory */
	struct err e = { 0 };
	bool waits;

	d.s = s;
	d.plan = s->plan;
	d.note = d.watch = d.owner.watch = -1;
	d.streams = d.door.streams = (struct kube_streams){ -1, -1, -1, -1, 0 };
	d.end.said = SUPERVISOR_ENDED;
	drover_settle(s);
	if (make_names(&d, &e) < 0 || drover_make(&d, &e) < 0 || drover_fill(&d, &e) < 0 ||
	    drover_door_open(&d, &e) < 0 || drover_wait(&d, KUBE_CONTAINER, &e) < 0 ||
	    drover_attach(&d, KUBE_CONTAINER, &e) < 0) {
		d.end.said = SUPERVISOR_FAILED;
		d.end.err = e;
	} else {
		drover_door_seen(&d);
		tell_started(&d);
		drover_serve(&d);
	}
	/* Its line closed, brig-pod leaves and everything with it: whoever waits is told, and the
	 * cluster's record of it goes while they read on. What never ran is removed first. */
	drover_leave(&d);
	waits = d.end.said == SUPERVISOR_FAILED || drover_say(&d, &d.end, -1) == -EAGAIN;
	kube_note_done(&d, drover_remove(&d));
	if (waits)
		drover_say_surely(&d, &d.end);
	(void)jread_free(d.asked);
	(void)kube_free(d.kube);
	_exit(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/guard.c - the process between brig and the engine.
 *
 *   setting up -> serving -> ending -> gone
 *
 * It is a fork of brig that belongs to nobody: whatever happens to brig, it sees its end of the
 * socket close, removes the container and leaves. It holds every connection to the engine, so brig
 * itself never waits for one. */
#include "backend/docker/guard.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "backend/kit/protect/journal.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "proc/spawn.h"

static void send_msg(const struct guard *g, const struct supervisor_msg *m)
{
	(void)fd_send(g->s->control, m, sizeof(*m), NULL, 0);
}

/* Whatever the embedding program had open is gone before anything else happens. */
static void close_foreign(const struct guard_start *s)
{
	const int keep[] = { s->control, s->in,   s->out,
			     s->err,     s->hold, s->seat ? s->seat->router : -1 };

	(void)fd_close_except(3, keep, ARRAY_LEN(keep));
}

/* All signals are blocked since before the fork; the only one of use is the terminal's. */
static void guard_settle(const struct guard_start *s)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)prctl(PR_SET_NAME, "brig-guard", 0, 0, 0);
	proc_default_signals();
	(void)sigaction(SIGXFSZ, &ignore, NULL); /* an error, with words */
	(void)setsid();
	(void)!chdir("/");
	(void)proc_leave_streams();
	close_foreign(s);
}

/* What a look-alike cannot know: the mark of this guard's containers, the word of
 * its gate, and where the gate stands. */
static int make_names(struct guard *g, struct err *e)
{
	char inside[NONCE_HEX + 1];

	if (random_hex(g->nonce, sizeof(g->nonce), e) < 0 ||
	    random_hex(g->secret, sizeof(g->secret), e) < 0 ||
	    random_hex(inside, sizeof(inside), e) < 0)
		return -e->code;
	(void)snprintf(g->gate_inside, sizeof(g->gate_inside), "/.brig-%s", inside);
	return 0;
}

bool guard_hears(struct guard *g, int *signal)
{
	enum { FDS = 4 };
	struct supervisor_request r;
	size_t n = FDS;
	int fds[FDS];
	ssize_t got = fd_recv(g->s->control, &r, sizeof(r), fds, &n);
	bool whole = got == (ssize_t)sizeof(r);

	*signal = 0;
	if (got == -EAGAIN)
		return false;
	/* Of those to an open sandbox the engine's would reach its gate alone. */
	if (whole && r.asks == ASK_SIGNAL && r.command == COMMAND_FIRST &&
	    (r.signal == SIGKILL || !g->s->open))
		*signal = r.signal;
	else if (whole && r.asks == ASK_PAUSE)
		guard_pause(g, r.signal);
	else if (whole && line_pass_on(g, &r, fds, n) < 0)
		*signal = SIGKILL; /* what cannot be reached is ended */
	for (size_t i = 0; i < n; i++)
		(void)fd_close(fds[i]);
	return !whole;
}

bool guard_note(struct guard *g, const char *text)
{
	struct supervisor_msg m = { .said = SUPERVISOR_NOTE };
	int signal;

	if (text) {
		(void)snprintf(m.text, sizeof(m.text), "%s", text);
		send_msg(g, &m);
	}
	return guard_hears(g, &signal) || signal == SIGKILL;
}

void guard_take_words(struct err *to, const struct err *from)
{
	char *const texts[] = { to->what, to->hint };

	*to = *from;
	to->what[sizeof(to->what) - 1] = to->hint[sizeof(to->hint) - 1] = '\0';
	if ((unsigned)to->kind >= ERR_KINDS)
		to->kind = ERR_INTERNAL;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		for (char *c = texts[i]; *c; c++)
			*c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
}

int guard_tell_image(const struct guard *g, struct err *e)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_IMAGE };
	const struct image *i = &g->image;
	CLEANUP(fd) int file = memfd_create("image", MFD_CLOEXEC);
	const char *folder = i->folder ? i->folder : "";
	int r = file < 0 ? -errno : fd_write_all(file, folder, strlen(folder) + 1);

	for (size_t k = 0; r == 0 && k < i->command.n; k++)
		r = fd_write_all(file, i->command.v[k], strlen(i->command.v[k]) + 1);
	if (r == 0)
		r = fd_send(g->s->control, &m, sizeof(m), &file, 1);
	return r < 0 ? err_errno(e, r, "cannot tell what the image runs") : 0;
}

static void tell_started(const struct guard *g)
{
	struct supervisor_msg m = { .said = SUPERVISOR_STARTED,
				    .unlocked = g->unlocked,
				    .container = { .user_ns = g->engine.rootless,
						   .podman = g->engine.podman,
						   .moved = g->moved,
						   .no_seccomp = g->no_filter,
						   .unenforced = g->end.container.unenforced,
						   .first = g->line >= 0 ? g->inside.pid : 0 } };

	(void)snprintf(m.text, sizeof(m.text), "%s", g->image.digest);
	send_msg(g, &m);
}

/* Nothing runs that could miss the placeholders. While this is not known they stay, for the next
 * brig to remove: an engine that starts a container makes what is missing below its mounts. */
static void guard_let_go(const struct guard *g)
{
	journal_let_go(g->s->id);
	(void)fd_close(g->s->hold);
}

_Noreturn void guard_main(const struct guard_start *s)
{
	static struct guard g; /* large, and this process has no other use for its memory */
	struct err e = { 0 };
	bool clean;

	g.s = s;
	g.plan = s->plan;
	g.attach = g.hits[HIT_PIDS] = g.hits[HIT_MEMORY] = -1;
	g.door.listener = g.door.line = g.door.routes = g.listener = g.line = g.bridge.follow = -1;
	g.ledger.fd = g.ledger.dir = g.proc = g.disk.fd = -1;
	g.early.max = (size_t)1 << 20;
	g.end.said = SUPERVISOR_ENDED;
	guard_settle(s);
	if (make_names(&g, &e) < 0 || guard_set_up(&g, &e) < 0) {
		g.end.said = SUPERVISOR_FAILED;
		g.end.err = e;
	} else {
		/* Said before the command can act. */
		tell_started(&g);
		if (gate_go(&g, &e) < 0)
			g.end.err = e;
		else
			guard_serve(&g);
	}
	/* Whoever waits is told as soon as nothing runs any more; the engine's record of the
	 * container goes while they read on. What never ran is removed first: an error should not
	 * leave things to be tidied up behind it. */
	if (g.end.said == SUPERVISOR_ENDED) {
		if (g.end.container.ended)
			guard_let_go(&g);
		send_msg(&g, &g.end);
	}
	clean = guard_clean(&g);
	if (g.end.said == SUPERVISOR_FAILED) {
		if (clean)
			guard_let_go(&g);
		send_msg(&g, &g.end);
	}
	_exit(0);
}

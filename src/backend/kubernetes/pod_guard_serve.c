/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard_serve.c - commands of a pod, carried between brig and brig-pod.
 *
 * brig asks as it asks any supervisor, with an order and pipes; the order goes over as it is, and
 * of each pipe what it is for: the kernel says which end of it this is. What the pod says is
 * checked and its texts are cleaned. A word about a command's end is held back until what the
 * command wrote before it is where brig reads it, and so is what the door decided before it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "backend/kubernetes/pod_guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/order.h"

#define SIZE_MS 200 /* between looks at the size of terminals */
#define LOOK_MS 500
#define WHY_MS 8000  /* for the cluster to say why the pod ended */
#define DOOR_MS 3000 /* for the door to say what it had decided when a command ended */
#define REST_MS                                                                                    \
	10000 /* for the line to end by itself once the cluster says that the pod has; for a       \
	       * brig that is stopped, at the end */

/* ---- the pod's words ---- */

static size_t held_at(const struct pod_guard *g, uint32_t number)
{
	size_t i = 0;

	while (i < COMMANDS_MAX && g->held[i].number != number)
		i++;
	return i;
}

/* The first word on it, that it runs or why not. */
static void pod_guard_serve_begins(struct pod_guard *g, size_t at, const struct frames_said *s)
{
	struct supervisor_msg *m = &g->held[at].first;

	if (g->held[at].began || g->held[at].told_began)
		return;
	*m = (struct supervisor_msg){ .said = (enum supervisor_said)s->said,
				      .command = g->held[at].number,
				      .status = s->status,
				      .at = clock_us() };
	m->err.code = s->code;
	m->err.kind = (unsigned)s->kind < ERR_KINDS ? (enum err_kind)s->kind : ERR_INTERNAL;
	(void)snprintf(m->err.what, sizeof(m->err.what), "%.*s", (int)sizeof(s->what) - 1, s->what);
	(void)snprintf(m->err.hint, sizeof(m->err.hint), "%.*s", (int)sizeof(s->hint) - 1, s->hint);
	pod_guard_clean(m->err.what);
	pod_guard_clean(m->err.hint);
	g->held[at].began = true;
}

/* Each word is held, once: a pod that repeats itself says no more by it. */
static int pod_guard_serve_on_said(struct pod_guard *g, const struct frames_head *h,
				   const void *payload)
{
	size_t at = h->command ? held_at(g, h->command) : COMMANDS_MAX;
	struct frames_said s;

	if (h->size != sizeof(s) || at == COMMANDS_MAX)
		return -EPROTO;
	memcpy(&s, payload, sizeof(s));
	if (s.said == SUPERVISOR_EXITED) {
		if (!g->held[at].exited && !g->held[at].told_exited) {
			g->held[at].exited = true;
			g->held[at].door = pod_guard_door_ask(g);
			g->held[at].since = clock_us();
		}
		g->held[at].status = s.status;
		g->held[at].oom = s.oom;
		g->held[at].pids = s.pids;
	} else if (s.said == SUPERVISOR_ENDED) {
		g->held[at].ended = true;
	} else if (s.said == SUPERVISOR_STARTED || s.said == SUPERVISOR_FAILED) {
		pod_guard_serve_begins(g, at, &s);
	} else {
		return -EPROTO;
	}
	return 0;
}

int pod_guard_frame(void *arg, const struct frames_head *h, const void *payload)
{
	struct pod_guard *g = arg;

	if (h->kind == FRAMES_ANSWER && !g->answered && h->size >= sizeof(struct pod_mark)) {
		memcpy(&g->answer, payload,
		       h->size < sizeof(g->answer) ? h->size : sizeof(g->answer));
		g->answered = true;
		return 0;
	}
	return h->kind == FRAMES_SAID && g->answered ? pod_guard_serve_on_said(g, h, payload)
						     : -EPROTO;
}

static void forget_terminal(struct pod_guard *g, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (g->terminals[i].number == number) {
			(void)fd_close(g->terminals[i].slave);
			g->terminals[i].number = 0;
		}
}

/* true: brig has it, or is gone. */
static bool pod_guard_serve_told(struct pod_guard *g, const struct supervisor_msg *m)
{
	g->full = pod_guard_say(g, m, -1) == -EAGAIN;
	return !g->full;
}

/* The line to the door is another one, and may be slower. One that says nothing is not waited for
 * for long: what it decided is on the record when it comes. */
static bool awaits_door(const struct pod_guard *g, size_t i)
{
	return g->held[i].exited && !pod_guard_door_settled(g, g->held[i].door) &&
	       clock_us() < g->held[i].since + (uint64_t)DOOR_MS * 1000;
}

/* over: nothing more will come. true: it waits for the door. */
static bool let_go_of(struct pod_guard *g, size_t i, bool over)
{
	uint32_t number = g->held[i].number;
	struct frames_command *k = frames_find(g->frames, number);
	struct supervisor_msg m = { .said = SUPERVISOR_EXITED,
				    .command = number,
				    .status = g->held[i].status,
				    .at = clock_us() };

	if (g->held[i].began && !g->held[i].told_began) {
		if (!pod_guard_serve_told(g, &g->held[i].first))
			return false;
		g->held[i].told_began = true;
	}
	if (k && !frames_flushed(k))
		return false;
	if (!over && awaits_door(g, i))
		return true;
	if (g->held[i].exited) {
		m.container.oom = g->held[i].oom;
		m.container.pids = g->held[i].pids;
		if (!pod_guard_serve_told(g, &m))
			return false;
		g->held[i].exited = false;
		g->held[i].told_exited = true;
	}
	m = (struct supervisor_msg){ .said = SUPERVISOR_ENDED, .command = number };
	if (!g->held[i].ended || !pod_guard_serve_told(g, &m))
		return false;
	if (k)
		frames_end(k);
	forget_terminal(g, number);
	memset(&g->held[i], 0, sizeof(g->held[i]));
	return false;
}

/* A brig that is stopped, or busy, hears the rest when it reads again. true: some wait for the
 * door. */
static bool pod_guard_serve_let_go(struct pod_guard *g, bool over)
{
	bool waits = false;

	g->full = false;
	for (size_t i = 0; i < COMMANDS_MAX && !g->full; i++)
		if (g->held[i].number)
			waits |= let_go_of(g, i, over);
	return waits;
}

/* The line is gone, and nothing more comes of any of them. */
static void let_go_last(struct pod_guard *g)
{
	uint64_t until = clock_us() + (uint64_t)REST_MS * 1000;

	(void)pod_guard_serve_let_go(g, true);
	while (g->full && clock_us() < until) {
		(void)wait_fd(g->s->control, POLLOUT, clock_after(LOOK_MS));
		(void)pod_guard_serve_let_go(g, true);
	}
}

/* ---- brig's requests ---- */

static int send_order(struct pod_guard *g, uint32_t number, int order)
{
	char piece[FRAMES_PIECE];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(order, piece, sizeof(piece), at)) > 0) {
		int r = at + n > ORDER_MAX
				? -E2BIG
				: frames_say(g->frames, FRAMES_ORDER, number, piece, (size_t)n);

		if (r < 0)
			return r;
		at += n;
	}
	return n < 0 ? -errno : 0;
}

/* Our end of a terminal of its own, which changes nothing; brig gets the other. */
static int make_terminal(struct pod_guard *g, struct frames_command *k,
			 const struct supervisor_request *r)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_TERMINAL, .command = r->command };
	const struct winsize size = { .ws_row = r->rows, .ws_col = r->cols };
	CLEANUP(fd) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
	struct termios t;
	int off = 0, out, in;
	size_t i = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &off) < 0 ||
	    ioctl(master, TIOCSWINSZ, &size) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || tcgetattr(slave, &t) < 0)
		return -errno;
	cfmakeraw(&t);
	out = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	in = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	if (tcsetattr(slave, TCSANOW, &t) < 0 || out < 0 || in < 0 ||
	    frames_open(k, 0, out, false) < 0 || frames_open(k, 2, in, true) < 0)
		return -EIO;
	while (i < COMMANDS_MAX && g->terminals[i].number)
		i++;
	if (i == COMMANDS_MAX)
		return -EAGAIN;
	if (pod_guard_say(g, &m, master) < 0)
		return -EAGAIN;
	g->terminals[i].number = r->command;
	g->terminals[i].slave = TAKE_FD(slave);
	g->terminals[i].rows = r->rows;
	g->terminals[i].cols = r->cols;
	return 0;
}

/* What the command reads is what can be read here. */
static int open_pipes(struct frames_command *k, int *fds, size_t n, struct frames_exec *x)
{
	for (size_t i = 0; i < n; i++) {
		int mode = fcntl(fds[i], F_GETFL) & O_ACCMODE;
		int r;

		if (mode == O_RDONLY)
			x->inwards |= (uint8_t)(1U << i);
		r = frames_open(k, i, TAKE_FD(fds[i]), mode == O_RDONLY);
		if (r < 0)
			return r;
	}
	x->channels = (uint8_t)n;
	return 0;
}

static int pod_guard_serve_begin(struct pod_guard *g, const struct supervisor_request *r, int *fds,
				 size_t n)
{
	struct frames_exec x = { .tty = r->tty,
				 .files = r->files,
				 .alone = !g->s->open,
				 .rows = r->rows,
				 .cols = r->cols };
	struct frames_command *k = frames_begin(g->frames, r->command);
	size_t at = held_at(g, 0);
	int e;

	if (!k || at == COMMANDS_MAX || n < 1 || n > 1 + FRAMES_CHANNELS)
		return -EAGAIN;
	g->held[at].number = r->command;
	e = r->tty ? make_terminal(g, k, r) : open_pipes(k, fds + 1, n - 1, &x);
	if (e == 0)
		e = send_order(g, r->command, fds[0]);
	return e == 0 ? frames_say(g->frames, FRAMES_EXEC, r->command, &x, sizeof(x)) : e;
}

static void on_exec(struct pod_guard *g, const struct supervisor_request *r, int *fds, size_t n)
{
	int code = pod_guard_serve_begin(g, r, fds, n);
	struct supervisor_msg *m;
	struct frames_command *k;
	size_t at;

	if (code == 0)
		return;
	k = frames_find(g->frames, r->command);
	if (k)
		frames_end(k);
	at = held_at(g, r->command);
	if (at == COMMANDS_MAX)
		at = held_at(g, 0);
	if (at == COMMANDS_MAX) /* as many as brig has room for have one */
		return;
	m = &g->held[at].first;
	*m = (struct supervisor_msg){ .said = SUPERVISOR_FAILED, .command = r->command };
	(void)err_errno(&m->err, code, "cannot bring the command to the pod");
	g->held[at].number = r->command;
	g->held[at].began = g->held[at].ended = true;
}

/* false: it is to end. */
static bool on_request(struct pod_guard *g, const struct supervisor_request *r, int *fds, size_t n)
{
	uint32_t sig = (uint32_t)r->signal;

	if (r->asks == ASK_EXEC)
		on_exec(g, r, fds, n);
	if (r->asks == ASK_GO) {
		g->filled = true;
		return false;
	}
	if (r->asks == ASK_SIGNAL && r->command == COMMAND_FIRST && r->signal == SIGKILL)
		return false;
	if (r->asks == ASK_SIGNAL)
		return frames_say(g->frames, FRAMES_SIGNAL, r->command, &sig, sizeof(sig)) == 0;
	return true;
}

static bool hear_brig(struct pod_guard *g)
{
	for (;;) {
		int fds[1 + FRAMES_CHANNELS];
		struct supervisor_request r;
		size_t n = ARRAY_LEN(fds);
		ssize_t got = fd_recv(g->s->control, &r, sizeof(r), fds, &n);
		bool goes_on;

		if (got == -EAGAIN)
			return true;
		goes_on = got == (ssize_t)sizeof(r) && on_request(g, &r, fds, n);
		for (size_t i = 0; i < n; i++)
			(void)fd_close(fds[i]);
		if (!goes_on)
			return false;
	}
}

static bool look_at_sizes(struct pod_guard *g)
{
	bool any = false;

	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct winsize size;
		uint16_t both[2];

		if (!g->terminals[i].number)
			continue;
		any = true;
		if (ioctl(g->terminals[i].slave, TIOCGWINSZ, &size) < 0 ||
		    (size.ws_row == g->terminals[i].rows && size.ws_col == g->terminals[i].cols))
			continue;
		g->terminals[i].rows = both[0] = size.ws_row;
		g->terminals[i].cols = both[1] = size.ws_col;
		(void)frames_say(g->frames, FRAMES_RESIZE, g->terminals[i].number, both,
				 sizeof(both));
	}
	return any;
}

/* ---- the end ---- */

/* The line is gone; the cluster may know why, a moment later. */
static void find_out(struct pod_guard *g)
{
	uint64_t until = clock_us() + (uint64_t)WHY_MS * 1000;

	while (!g->seen.over && clock_us() < until) {
		struct pollfd p[] = { { .fd = g->watch, .events = POLLIN },
				      { .fd = g->s->control, .events = POLLIN } };

		(void)wait_any(p, ARRAY_LEN(p), until);
		if (pod_guard_hear_watch(g) < 0 || pod_guard_given_up(g))
			break;
	}
	g->end.container.oom = g->seen.oom;
	g->end.container.disk = g->seen.disk;
	if (g->differs[0])
		(void)err_set(&g->end.err, ERR_UNAVAILABLE, EPERM,
			      "the pod was changed while it ran: %s", g->differs);
	else if (g->seen.gone)
		(void)err_set(&g->end.err, ERR_UNAVAILABLE, ESTALE,
			      "the pod was removed by somebody else while it ran");
	else if (g->seen.over && g->seen.reason[0])
		(void)err_set(&g->end.err, ERR_UNAVAILABLE, EIO, "the pod ended: %s",
			      g->seen.reason);
	else if (g->seen.leaving)
		(void)err_set(&g->end.err, ERR_UNAVAILABLE, EHOSTDOWN,
			      "the pod was removed by somebody else, or its node was lost");
	else
		(void)err_set(&g->end.err, ERR_UNAVAILABLE, EPIPE,
			      "the connection to the pod was lost");
}

/* A node without power says nothing, and nobody closes the line to it: the cluster's word on the
 * pod counts, once what is still on its way has had its time. */
static bool is_waited_for_in_vain(const struct pod_guard *g, uint64_t *since)
{
	if (!g->seen.over && !g->seen.leaving)
		*since = 0;
	else if (!*since)
		*since = clock_us();
	return *since && clock_us() > *since + (uint64_t)REST_MS * 1000;
}

void pod_guard_serve(struct pod_guard *g)
{
	static struct pollfd p[2 * FRAMES_POLLS + 3]; /* large, and there is one */
	uint64_t since = 0;

	for (;;) {
		bool sizes = look_at_sizes(g), waits = pod_guard_serve_let_go(g, false);
		size_t n, more;

		n = frames_polls(g->frames, p);
		more = pod_guard_door_polls(g, p + n + 3);
		p[n] = (struct pollfd){ .fd = g->s->control,
					.events = g->full ? POLLIN | POLLOUT : POLLIN };
		p[n + 1] = (struct pollfd){ .fd = g->watch, .events = POLLIN };
		p[n + 2] = (struct pollfd){ .fd = g->streams.err, .events = POLLIN };
		if (is_waited_for_in_vain(g, &since)) {
			find_out(g);
			return;
		}
		if (wait_any(p, n + 3 + more,
			     sizes            ? clock_after(SIZE_MS)
			     : since || waits ? clock_after(LOOK_MS)
					      : 0) < 0)
			return;
		if (p[n + 2].revents) { /* what brig-pod says there is for the node's log */
			char unread[512];

			if (read(g->streams.err, unread, sizeof(unread)) <= 0)
				g->streams.err = fd_close(g->streams.err);
		}
		if (p[n + 1].revents && pod_guard_hear_watch(g) < 0)
			g->watch = fd_close(g->watch);
		if (g->differs[0]) {
			(void)err_set(&g->end.err, ERR_UNAVAILABLE, EPERM,
				      "the pod was changed while it ran: %s", g->differs);
			return;
		}
		pod_guard_door_turn(g, p + n + 3, more);
		if (!hear_brig(g))
			return;
		if (frames_turn(g->frames, p, n) < 0) {
			let_go_last(g);
			find_out(g);
			return;
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/drover_serve.c - commands of a pod, carried between brig and brig-pod.
 *
 * brig asks as it asks any supervisor, with an order and pipes; the order goes over as it is, and
 * of each pipe what it is for: the kernel says which end of it this is. What the pod says is
 * checked and its texts are cleaned. A word about a command's end is held back until what the
 * command wrote before it is where brig reads it, and so is what the door decided before it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "backend/kubernetes/drover.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "proc/order.h"

#define SIZE_MS 200 /* between looks at the size of terminals */
#define LOOK_MS 500
#define WHY_MS 8000  /* for the cluster to say why the pod ended */
#define DOOR_MS 3000 /* for the door to say what it had decided when a command ended */
#define REST_MS                                                                                    \
	10000 /* for the line to end by itself once the cluster says that the pod has; for a       \
	       * brig that is stopped, at the end */

/* ---- the pod's words ---- */

static size_t held_at(const struct drover *d, uint32_t number)
{
	size_t i = 0;

	while (i < COMMANDS_MAX && d->held[i].number != number)
		i++;
	return i;
}

/* The first word on it, that it runs or why not. */
static void drover_serve_begins(struct drover *d, size_t at, const struct frames_said *s)
{
	struct supervisor_msg *m = &d->held[at].first;

	if (d->held[at].began || d->held[at].told_began)
		return;
	*m = (struct supervisor_msg){ .said = (enum supervisor_said)s->said,
				      .command = d->held[at].number,
				      .status = s->status,
				      .at = clock_us() };
	m->err.code = s->code;
	m->err.kind = (unsigned)s->kind < ERR_KINDS ? (enum err_kind)s->kind : ERR_INTERNAL;
	(void)snprintf(m->err.what, sizeof(m->err.what), "%.*s", (int)sizeof(s->what) - 1, s->what);
	(void)snprintf(m->err.hint, sizeof(m->err.hint), "%.*s", (int)sizeof(s->hint) - 1, s->hint);
	drover_clean(m->err.what);
	drover_clean(m->err.hint);
	d->held[at].began = true;
}

/* Each word is held, once: a pod that repeats itself says no more by it. */
static int drover_serve_on_said(struct drover *d, const struct frames_head *h, const void *payload)
{
	size_t at = h->command ? held_at(d, h->command) : COMMANDS_MAX;
	struct frames_said s;

	if (h->size != sizeof(s) || at == COMMANDS_MAX)
		return -EPROTO;
	memcpy(&s, payload, sizeof(s));
	if (s.said == SUPERVISOR_EXITED) {
		if (!d->held[at].exited && !d->held[at].told_exited) {
			d->held[at].exited = true;
			d->held[at].door = drover_door_ask(d);
			d->held[at].since = clock_us();
		}
		d->held[at].status = s.status;
		d->held[at].oom = s.oom;
		d->held[at].pids = s.pids;
	} else if (s.said == SUPERVISOR_ENDED) {
		d->held[at].ended = true;
	} else if (s.said == SUPERVISOR_STARTED || s.said == SUPERVISOR_FAILED) {
		drover_serve_begins(d, at, &s);
	} else {
		return -EPROTO;
	}
	return 0;
}

int drover_frame(void *arg, const struct frames_head *h, const void *payload)
{
	struct drover *d = arg;

	if (h->kind == FRAMES_ANSWER && !d->answered && h->size >= sizeof(struct pod_mark)) {
		memcpy(&d->answer, payload,
		       h->size < sizeof(d->answer) ? h->size : sizeof(d->answer));
		d->answered = true;
		return 0;
	}
	return h->kind == FRAMES_SAID && d->answered ? drover_serve_on_said(d, h, payload)
						     : -EPROTO;
}

static void forget_terminal(struct drover *d, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (d->terminals[i].number == number) {
			(void)fd_close(d->terminals[i].slave);
			d->terminals[i].number = 0;
		}
}

/* true: brig has it, or is gone. */
static bool drover_serve_told(struct drover *d, const struct supervisor_msg *m)
{
	d->full = drover_say(d, m, -1) == -EAGAIN;
	return !d->full;
}

/* The line to the door is another one, and may be slower. One that says nothing is not waited for
 * for long: what it decided is on the record when it comes. */
static bool awaits_door(const struct drover *d, size_t i)
{
	return d->held[i].exited && !drover_door_settled(d, d->held[i].door) &&
	       clock_us() < d->held[i].since + (uint64_t)DOOR_MS * 1000;
}

/* over: nothing more will come. true: it waits for the door. */
static bool let_go_of(struct drover *d, size_t i, bool over)
{
	uint32_t number = d->held[i].number;
	struct frames_command *k = frames_find(d->frames, number);
	struct supervisor_msg m = { .said = SUPERVISOR_EXITED,
				    .command = number,
				    .status = d->held[i].status,
				    .at = clock_us() };

	if (d->held[i].began && !d->held[i].told_began) {
		if (!drover_serve_told(d, &d->held[i].first))
			return false;
		d->held[i].told_began = true;
	}
	if (k && !frames_flushed(k))
		return false;
	if (!over && awaits_door(d, i))
		return true;
	if (d->held[i].exited) {
		m.container.oom = d->held[i].oom;
		m.container.pids = d->held[i].pids;
		if (!drover_serve_told(d, &m))
			return false;
		d->held[i].exited = false;
		d->held[i].told_exited = true;
	}
	m = (struct supervisor_msg){ .said = SUPERVISOR_ENDED, .command = number };
	if (!d->held[i].ended || !drover_serve_told(d, &m))
		return false;
	if (k)
		frames_end(k);
	forget_terminal(d, number);
	memset(&d->held[i], 0, sizeof(d->held[i]));
	return false;
}

/* A brig that is stopped, or busy, hears the rest when it reads again. true: some wait for the
 * door. */
static bool drover_serve_let_go(struct drover *d, bool over)
{
	bool waits = false;

	d->full = false;
	for (size_t i = 0; i < COMMANDS_MAX && !d->full; i++)
		if (d->held[i].number)
			waits |= let_go_of(d, i, over);
	return waits;
}

/* The line is gone, and nothing more comes of any of them. */
static void let_go_last(struct drover *d)
{
	uint64_t until = clock_us() + (uint64_t)REST_MS * 1000;

	(void)drover_serve_let_go(d, true);
	while (d->full && clock_us() < until) {
		struct pollfd p = { .fd = d->s->control, .events = POLLOUT };

		(void)poll(&p, 1, LOOK_MS);
		(void)drover_serve_let_go(d, true);
	}
}

/* ---- brig's requests ---- */

static int send_order(struct drover *d, uint32_t number, int order)
{
	char piece[FRAMES_PIECE];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(order, piece, sizeof(piece), at)) > 0) {
		int r = at + n > ORDER_MAX
				? -E2BIG
				: frames_say(d->frames, FRAMES_ORDER, number, piece, (size_t)n);

		if (r < 0)
			return r;
		at += n;
	}
	return n < 0 ? -errno : 0;
}

/* Our end of a terminal of its own, which changes nothing; brig gets the other. */
static int make_terminal(struct drover *d, struct frames_command *k,
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
	while (i < COMMANDS_MAX && d->terminals[i].number)
		i++;
	if (i == COMMANDS_MAX)
		return -EAGAIN;
	if (drover_say(d, &m, master) < 0)
		return -EAGAIN;
	d->terminals[i].number = r->command;
	d->terminals[i].slave = TAKE_FD(slave);
	d->terminals[i].rows = r->rows;
	d->terminals[i].cols = r->cols;
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

static int drover_serve_begin(struct drover *d, const struct supervisor_request *r, int *fds,
			      size_t n)
{
	struct frames_exec x = { .tty = r->tty,
				 .files = r->files,
				 .alone = !d->s->open,
				 .rows = r->rows,
				 .cols = r->cols };
	struct frames_command *k = frames_begin(d->frames, r->command);
	size_t at = held_at(d, 0);
	int e;

	if (!k || at == COMMANDS_MAX || n < 1 || n > 1 + FRAMES_CHANNELS)
		return -EAGAIN;
	d->held[at].number = r->command;
	e = r->tty ? make_terminal(d, k, r) : open_pipes(k, fds + 1, n - 1, &x);
	if (e == 0)
		e = send_order(d, r->command, fds[0]);
	return e == 0 ? frames_say(d->frames, FRAMES_EXEC, r->command, &x, sizeof(x)) : e;
}

static void on_exec(struct drover *d, const struct supervisor_request *r, int *fds, size_t n)
{
	int code = drover_serve_begin(d, r, fds, n);
	struct supervisor_msg *m;
	struct frames_command *k;
	size_t at;

	if (code == 0)
		return;
	k = frames_find(d->frames, r->command);
	if (k)
		frames_end(k);
	at = held_at(d, r->command);
	if (at == COMMANDS_MAX)
		at = held_at(d, 0);
	if (at == COMMANDS_MAX) /* as many as brig has room for have one */
		return;
	m = &d->held[at].first;
	*m = (struct supervisor_msg){ .said = SUPERVISOR_FAILED, .command = r->command };
	(void)err_errno(&m->err, code, "cannot bring the command to the pod");
	d->held[at].number = r->command;
	d->held[at].began = d->held[at].ended = true;
}

/* false: it is to end. */
static bool on_request(struct drover *d, const struct supervisor_request *r, int *fds, size_t n)
{
	uint32_t sig = (uint32_t)r->signal;

	if (r->asks == ASK_EXEC)
		on_exec(d, r, fds, n);
	if (r->asks == ASK_GO) {
		d->filled = true;
		return false;
	}
	if (r->asks == ASK_SIGNAL && r->command == COMMAND_FIRST && r->signal == SIGKILL)
		return false;
	if (r->asks == ASK_SIGNAL)
		return frames_say(d->frames, FRAMES_SIGNAL, r->command, &sig, sizeof(sig)) == 0;
	return true;
}

static bool hear_brig(struct drover *d)
{
	for (;;) {
		int fds[1 + FRAMES_CHANNELS];
		struct supervisor_request r;
		size_t n = ARRAY_LEN(fds);
		ssize_t got = fd_recv(d->s->control, &r, sizeof(r), fds, &n);
		bool goes_on;

		if (got == -EAGAIN)
			return true;
		goes_on = got == (ssize_t)sizeof(r) && on_request(d, &r, fds, n);
		for (size_t i = 0; i < n; i++)
			(void)fd_close(fds[i]);
		if (!goes_on)
			return false;
	}
}

static bool look_at_sizes(struct drover *d)
{
	bool any = false;

	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct winsize size;
		uint16_t both[2];

		if (!d->terminals[i].number)
			continue;
		any = true;
		if (ioctl(d->terminals[i].slave, TIOCGWINSZ, &size) < 0 ||
		    (size.ws_row == d->terminals[i].rows && size.ws_col == d->terminals[i].cols))
			continue;
		d->terminals[i].rows = both[0] = size.ws_row;
		d->terminals[i].cols = both[1] = size.ws_col;
		(void)frames_say(d->frames, FRAMES_RESIZE, d->terminals[i].number, both,
				 sizeof(both));
	}
	return any;
}

/* ---- the end ---- */

/* The line is gone; the cluster may know why, a moment later. */
static void find_out(struct drover *d)
{
	uint64_t until = clock_us() + (uint64_t)WHY_MS * 1000;

	while (!d->seen.over && clock_us() < until) {
		struct pollfd p[] = { { .fd = d->watch, .events = POLLIN },
				      { .fd = d->s->control, .events = POLLIN } };

		(void)poll(p, ARRAY_LEN(p), (int)((until - clock_us()) / 1000) + 1);
		if (drover_hear_watch(d) < 0 || drover_given_up(d))
			break;
	}
	d->end.container.oom = d->seen.oom;
	d->end.container.disk = d->seen.disk;
	if (d->differs[0])
		(void)err_set(&d->end.err, ERR_UNAVAILABLE, EPERM,
			      "the pod was changed while it ran: %s", d->differs);
	else if (d->seen.gone)
		(void)err_set(&d->end.err, ERR_UNAVAILABLE, ESTALE,
			      "the pod was removed by somebody else while it ran");
	else if (d->seen.over && d->seen.reason[0])
		(void)err_set(&d->end.err, ERR_UNAVAILABLE, EIO, "the pod ended: %s",
			      d->seen.reason);
	else if (d->seen.leaving)
		(void)err_set(&d->end.err, ERR_UNAVAILABLE, EHOSTDOWN,
			      "the pod was removed by somebody else, or its node was lost");
	else
		(void)err_set(&d->end.err, ERR_UNAVAILABLE, EPIPE,
			      "the connection to the pod was lost");
}

/* A node without power says nothing, and nobody closes the line to it: the cluster's word on the
 * pod counts, once what is still on its way has had its time. */
static bool is_waited_for_in_vain(const struct drover *d, uint64_t *since)
{
	if (!d->seen.over && !d->seen.leaving)
		*since = 0;
	else if (!*since)
		*since = clock_us();
	return *since && clock_us() > *since + (uint64_t)REST_MS * 1000;
}

void drover_serve(struct drover *d)
{
	static struct pollfd p[2 * FRAMES_POLLS + 3]; /* large, and there is one */
	uint64_t since = 0;

	for (;;) {
		bool sizes = look_at_sizes(d), waits = drover_serve_let_go(d, false);
		size_t n, more;

		n = frames_polls(d->frames, p);
		more = drover_door_polls(d, p + n + 3);
		p[n] = (struct pollfd){ .fd = d->s->control,
					.events = d->full ? POLLIN | POLLOUT : POLLIN };
		p[n + 1] = (struct pollfd){ .fd = d->watch, .events = POLLIN };
		p[n + 2] = (struct pollfd){ .fd = d->streams.err, .events = POLLIN };
		if (is_waited_for_in_vain(d, &since)) {
			find_out(d);
			return;
		}
		if (poll(p, n + 3 + more,
			 sizes            ? SIZE_MS
			 : since || waits ? LOOK_MS
					  : -1) < 0 &&
		    errno != EINTR)
			return;
		if (p[n + 2].revents) { /* what brig-pod says there is for the node's log */
			char unread[512];

			if (read(d->streams.err, unread, sizeof(unread)) <= 0)
				d->streams.err = fd_close(d->streams.err);
		}
		if (p[n + 1].revents && drover_hear_watch(d) < 0)
			d->watch = fd_close(d->watch);
		if (d->differs[0]) {
			(void)err_set(&d->end.err, ERR_UNAVAILABLE, EPERM,
				      "the pod was changed while it ran: %s", d->differs);
			return;
		}
		drover_door_turn(d, p + n + 3, more);
		if (!hear_brig(d))
			return;
		if (frames_turn(d->frames, p, n) < 0) {
			let_go_last(d);
			find_out(d);
			return;
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/serve.c - a running container: its streams, its signals, its end.
 *
 * One loop, bounded memory: a piece of the engine's stream is read only when the one before it has
 * gone where it belongs, so a reader that stops makes the container wait. The loop ends when the
 * engine has told the exit code and the stream is at its end, or when brig is gone, or when the
 * engine is. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define CHUNK 65536
#define IN_CHUNK 16384
#define AFTER_END_US 3000000 /* for a stream that does not end with its container */
#define AFTER_KILL_US 15000000
#define ENGINE_BACK_MS 5000
#define HITS_MS 10 /* between looks at counters that send no event */
#define WRITES_MS 50

struct out {
	int fd; /* -1: its reader is gone */
	const char *p;
	size_t n;
};

struct serve {
	struct guard *g;
	char from[CHUNK];
	const char *p; /* of `from`, not yet looked at */
	size_t left;
	struct out out, err; /* the piece each must still take */
	char in[IN_CHUNK];
	size_t in_n, in_at;
	bool in_end;
	char held[GATE_FAILED]; /* the first bytes that came, if they may be the gate's own */
	size_t held_n;
	bool held_done;
	bool answered; /* the head of the answer to wait is read */
	struct buf status;
	bool lost;           /* the engine is gone */
	bool abandoned;      /* brig is gone */
	bool gave_up;        /* a command that was killed did not end, and all were ended */
	bool oom_shared;     /* one command ran out of memory, and all were ended */
	int resized;         /* signalfd for the terminal's size; -1 */
	uint64_t give_up_at; /* 0: never */
};

/* ---- asking the engine ---- */

static int freeze(struct guard *g, bool on, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "POST", .path = path };

	(void)snprintf(path, sizeof(path), "/containers/%s/%s", g->container,
		       on ? "pause" : "unpause");
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	if (a.status >= 300)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "stop it instead",
				  "the engine cannot %s the container: %s",
				  on ? "pause" : "continue", a.message);
	g->paused = on;
	return 0;
}

void guard_pause(struct guard *g, bool on)
{
	struct supervisor_msg m = { .said = SUPERVISOR_PAUSED };

	(void)freeze(g, on, &m.err);
	(void)fd_send(g->s->control, &m, sizeof(m), NULL, 0);
}

static void send_signal(struct guard *g, int signal)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "POST", .path = path };
	struct err e;

	(void)snprintf(path, sizeof(path), "/containers/%s/kill?signal=%d", g->container, signal);
	(void)engine_ask(&g->engine, &q, &a, &e);
}

/* A paused container: Docker delivers the signal, Podman does not. So it is continued, and gets the
 * signal once more. */
void guard_kill(struct guard *g, int signal)
{
	struct err e;

	send_signal(g, signal);
	if (!g->paused)
		return;
	g->paused = freeze(g, false, &e) < 0 && g->paused;
	send_signal(g, signal);
}

void guard_resize(struct guard *g)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	struct winsize size = { .ws_row = g->s->rows, .ws_col = g->s->cols };
	char path[160];
	const struct engine_call q = { .method = "POST", .path = path };
	struct err e;

	if (ioctl(g->s->out, TIOCGWINSZ, &size) < 0 || !size.ws_row)
		return;
	(void)snprintf(path, sizeof(path), "/containers/%s/resize?h=%u&w=%u", g->container,
		       size.ws_row, size.ws_col);
	(void)engine_ask(&g->engine, &q, &a, &e);
}

/* ---- output ---- */

static struct out *out_of(struct serve *s, int stream)
{
	return stream == 2 && !s->g->s->tty ? &s->err : &s->out;
}

/* The command learns of it as it would without brig. */
static void reader_gone(struct serve *s, struct out *o)
{
	o->fd = fd_close(o->fd);
	o->n = 0;
	guard_kill(s->g, SIGPIPE);
}

static void serve_put(struct serve *s, struct out *o)
{
	while (o->n && o->fd >= 0) {
		ssize_t w = write(o->fd, o->p, o->n);

		if (w > 0) {
			o->p += w;
			o->n -= (size_t)w;
		} else if (w < 0 && errno == EAGAIN) {
			return;
		} else if (w < 0 && errno != EINTR) {
			reader_gone(s, o);
		}
	}
	if (o->fd < 0)
		o->n = 0;
}

static struct out *serve_told(struct serve *s)
{
	return s->g->s->tty ? &s->out : &s->err;
}

/* Held back are only the very first bytes, and only while they are those of the secret, by which
 * the gate says that it executed nothing. */
static bool serve_hold(struct serve *s, const char *data, size_t n)
{
	size_t known = s->held_n < GATE_SECRET ? GATE_SECRET - s->held_n : 0;

	if (s->held_done)
		return false;
	if (s->held_n + n <= sizeof(s->held) &&
	    memcmp(data, s->g->secret + GATE_SECRET - known, n < known ? n : known) == 0) {
		memcpy(s->held + s->held_n, data, n);
		s->held_n += n;
		return true;
	}
	s->held_done = true;
	return false;
}

/* Lets go of held words, then of the piece that came after them. */
static void serve_release(struct serve *s)
{
	struct out before = { .fd = serve_told(s)->fd, .p = s->held, .n = s->held_n };

	s->held_done = true;
	while (before.n && before.fd >= 0) {
		serve_put(s, &before);
		if (before.n)
			(void)wait_fd(before.fd, POLLOUT, clock_after(100));
	}
	serve_told(s)->fd = before.fd;
	s->held_n = 0;
}

static bool stream_broken(struct serve *s)
{
	(void)err_set(&s->g->end.err, ERR_INTERNAL, EBADMSG,
		      "the engine's stream of the container's output makes no sense");
	guard_kill(s->g, SIGKILL);
	s->g->attach = fd_close(s->g->attach);
	s->left = 0;
	return true;
}

/* Hands out one piece of what was read; false when there is none, or a reader must be waited for.
 */
static bool hand_out(struct serve *s)
{
	const char *data;
	int stream;
	size_t n;

	if (s->out.n || s->err.n || !s->left)
		return false;
	if (s->g->s->tty) {
		stream = 1;
		data = s->p;
		n = s->left;
		s->left = 0;
	} else {
		stream = demux_next(&s->g->demux, &s->p, &s->left, &data, &n);
		if (stream <= 0)
			return stream < 0 && stream_broken(s);
	}
	if (out_of(s, stream) == serve_told(s) && serve_hold(s, data, n))
		return true;
	if (out_of(s, stream) == serve_told(s) && s->held_n)
		serve_release(s);
	out_of(s, stream)->p = data;
	out_of(s, stream)->n = n;
	serve_put(s, &s->out);
	serve_put(s, &s->err);
	return true;
}

static void on_attach(struct serve *s)
{
	ssize_t n = recv(s->g->attach, s->from, sizeof(s->from), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		s->g->attach = fd_close(s->g->attach);
		return;
	}
	s->p = s->from;
	s->left = (size_t)n;
}

/* ---- input ---- */

static void in_done(struct serve *s)
{
	s->in_end = true;
	s->in_n = 0;
	if (s->g->attach >= 0)
		(void)shutdown(s->g->attach, SHUT_WR);
}

static void put_in(struct serve *s)
{
	ssize_t w = send(s->g->attach, s->in + s->in_at, s->in_n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (w < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (w < 0) {
		s->in_end = true; /* the engine takes no more; on_wait hears of the end */
		s->in_n = 0;
		return;
	}
	s->in_at += (size_t)w;
	s->in_n -= (size_t)w;
}

static void on_in(struct serve *s)
{
	ssize_t n = read(s->g->s->in, s->in, sizeof(s->in));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		in_done(s);
		return;
	}
	s->in_at = 0;
	s->in_n = (size_t)n;
	put_in(s);
}

/* ---- the end ---- */

static void engine_lost(struct serve *s)
{
	s->lost = true;
	s->g->wait = client_free(s->g->wait);
}

static void exit_known(struct serve *s)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err e;

	if (jread_parse(s->status.data, s->status.len, &v, &e) == 0 &&
	    jread_int(v, "StatusCode", -1) >= 0) {
		s->g->end.container.ended = true;
		s->g->end.container.exit_code = (int)(jread_int(v, "StatusCode", 0) & 0xff);
		s->give_up_at = clock_us() + AFTER_END_US;
		s->g->wait = client_free(s->g->wait);
	} else {
		engine_lost(s);
	}
}

static void on_wait(struct serve *s)
{
	const struct http1_answer *a;
	char piece[1024];
	struct err e;
	ssize_t n;

	if (!s->answered) {
		if (client_answer(s->g->wait, clock_us() + 5000000, &a, &e) < 0) {
			engine_lost(s);
			return;
		}
		s->answered = true;
	}
	while ((n = client_read(s->g->wait, piece, sizeof(piece), clock_us(), &e)) > 0)
		buf_add(&s->status, piece, (size_t)n);
	if (n == -EAGAIN)
		return;
	if (n < 0)
		engine_lost(s);
	else
		exit_known(s);
}

static void on_control(struct serve *s)
{
	int sig;

	if (guard_hears(s->g, &sig))
		s->abandoned = true;
	if (!sig)
		return;
	guard_kill(s->g, sig);
	if (sig == SIGKILL && !s->give_up_at)
		s->give_up_at = clock_us() + AFTER_KILL_US;
}

/* The memory is all commands' of an open sandbox, and so is its end. */
static void share_oom(struct serve *s)
{
	if (!s->g->s->open || !s->g->end.container.oom || s->oom_shared)
		return;
	s->oom_shared = true;
	guard_kill(s->g, SIGKILL);
}

/* A command that the gate cannot end, or a gate that does not come to it, ends with all there is:
 * its time is up, whatever it does. */
static void end_the_late(struct serve *s)
{
	if (s->gave_up || !line_is_late(s->g))
		return;
	s->gave_up = true;
	(void)err_refuse(&s->g->end.err, ERR_INTERNAL, ETIMEDOUT,
			 "open another; the command may have kept what ends it from running",
			 "a command that was killed did not end: its container was ended");
	guard_kill(s->g, SIGKILL);
	if (!s->give_up_at)
		s->give_up_at = clock_us() + AFTER_KILL_US;
}

static bool over(const struct serve *s)
{
	bool quiet = s->g->attach < 0 && !s->left && !s->out.n && !s->err.n;

	if (s->abandoned)
		return true;
	if (s->give_up_at && clock_us() > s->give_up_at && !s->out.n && !s->err.n)
		return true;
	return quiet && (s->g->end.container.ended || s->lost);
}

/* ---- the loop ---- */

enum {
	AT_CONTROL,
	AT_LINE,
	AT_ATTACH,
	AT_OUT,
	AT_ERR,
	AT_IN,
	AT_WAIT,
	AT_PIDS,
	AT_MEMORY,
	AT_SIZE,
	AT_ROUTER,
	AT_ROUTES,
	PLACES
};

static struct pollfd at_attach(const struct serve *s)
{
	struct pollfd p = { .fd = s->g->attach };

	if (!s->left && !s->out.n && !s->err.n)
		p.events |= POLLIN;
	if (s->in_n)
		p.events |= POLLOUT;
	if (!p.events)
		p.fd = -1; /* not even a hang-up: what came before it goes first */
	return p;
}

static void serve_turn(struct serve *s)
{
	bool wants_in = !s->in_end && !s->in_n && s->g->attach >= 0;
	struct pollfd p[PLACES] = {
		[AT_CONTROL] = { .fd = s->g->s->control, .events = POLLIN },
		[AT_LINE] = { .fd = s->g->line, .events = POLLIN },
		[AT_ATTACH] = at_attach(s),
		[AT_OUT] = { .fd = s->out.n ? s->out.fd : -1, .events = POLLOUT },
		[AT_ERR] = { .fd = s->err.n ? s->err.fd : -1, .events = POLLOUT },
		[AT_IN] = { .fd = wants_in ? s->g->s->in : -1, .events = POLLIN },
		[AT_WAIT] = { .fd = s->g->wait ? client_fd(s->g->wait) : -1, .events = POLLIN },
		[AT_PIDS] = { .fd = s->g->hits[HIT_PIDS], .events = POLLPRI },
		[AT_MEMORY] = { .fd = s->g->hits[HIT_MEMORY], .events = POLLPRI },
		[AT_SIZE] = { .fd = s->resized, .events = POLLIN },
		[AT_ROUTER] = { .fd = s->g->door.line, .events = POLLIN },
		[AT_ROUTES] = { .fd = s->g->bridge.follow, .events = POLLIN },
	};

	if (wait_any(p, PLACES,
		     s->g->look_at_hits ? clock_after(HITS_MS)
		     : s->give_up_at || s->g->look_at_writes || line_waits(s->g)
			     ? clock_after(WRITES_MS)
			     : 0) < 0)
		return;
	if (s->g->look_at_writes)
		guard_read_writes(s->g);
	if (s->g->look_at_hits || p[AT_PIDS].revents || p[AT_MEMORY].revents)
		guard_read_hits(s->g);
	if (p[AT_LINE].revents && !line_hear(s->g))
		s->g->line = fd_close(s->g->line);
	share_oom(s);
	end_the_late(s);
	if (p[AT_ROUTER].revents)
		bridge_lost(s->g);
	else if (p[AT_ROUTES].revents)
		bridge_follow(s->g);
	if (p[AT_CONTROL].revents)
		on_control(s);
	if (p[AT_OUT].revents)
		serve_put(s, &s->out);
	if (p[AT_ERR].revents)
		serve_put(s, &s->err);
	if (p[AT_IN].revents)
		on_in(s);
	if (p[AT_ATTACH].revents & POLLOUT && s->in_n)
		put_in(s);
	if (p[AT_ATTACH].revents & ~POLLOUT && p[AT_ATTACH].events & POLLIN)
		on_attach(s);
	if (p[AT_SIZE].revents) {
		struct signalfd_siginfo info;

		while (read(s->resized, &info, sizeof(info)) == (ssize_t)sizeof(info))
			;
		guard_resize(s->g);
	}
	if (p[AT_WAIT].revents)
		on_wait(s);
	while (hand_out(s))
		;
}

/* ---- what the end means ---- */

static void look_at_state(struct guard *g)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "GET", .path = path };
	struct err e;

	(void)snprintf(path, sizeof(path), "/containers/%s/json", g->container);
	if (engine_ask(&g->engine, &q, &a, &e) == 0)
		g->end.container.oom |= jread_bool(jread_get(a.json, "State"), "OOMKilled");
}

/* Nobody but the gate knows the secret, and it is gone where something was executed. */
static void never_ran(struct serve *s)
{
	const char *name = s->g->plan->box->argv[0];
	struct supervisor_msg *end = &s->g->end;
	char number[GATE_FAILED - GATE_SECRET + 1] = "";
	unsigned error;

	if (s->held_n != GATE_FAILED || s->held_done)
		return;
	memcpy(number, s->held + GATE_SECRET, sizeof(number) - 1);
	error = (unsigned)strtoul(number, NULL, 16);
	end->container.never_ran = true;
	s->held_n = 0;
	if (error == ENOENT) {
		(void)err_set(&end->err, ERR_NOT_FOUND, ENOENT, "'%s': command not found", name);
		(void)err_hint(&end->err, "image '%.100s' does not have it", s->g->plan->image);
	} else {
		(void)err_refuse(
			&end->err, ERR_NOT_EXECUTABLE, EACCES,
			"it must be a file that may be executed: chmod +x, or name its "
			"interpreter in front",
			"'%s': it, or its interpreter, cannot be executed in image '%.100s'", name,
			s->g->plan->image);
	}
}

/* The engine may be back in a moment: then its container is removed, and did not end by itself. */
static void after_loss(struct serve *s)
{
	struct guard *g = s->g;
	uint64_t until = clock_us() + (uint64_t)ENGINE_BACK_MS * 1000;
	struct engine again;
	struct err e;
	bool back = false;

	engine_done(&g->engine);
	while (!s->abandoned && !back && clock_us() < until) {
		back = engine_open_at(g->engine.path, &again, &e) == 0;
		if (back)
			g->engine = again;
		else
			wait_moment(100);
	}
	(void)err_set(&g->end.err, ERR_UNAVAILABLE, ECONNRESET,
		      "the engine went away during the run: how the command ended is not known");
	(void)err_hint(&g->end.err,
		       back ? "its container was removed; start again"
			    : "start the engine again; the next brig removes what it left");
}

static int listen_size(const struct guard *g)
{
	sigset_t set;

	if (!g->s->tty)
		return -1;
	(void)ioctl(g->s->in, TIOCSCTTY, 0);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void serve_begin(struct serve *s)
{
	const struct guard_start *q = s->g->s;
	const int all[] = { q->in, q->out, q->err };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i] >= 0)
			(void)fcntl(all[i], F_SETFL, fcntl(all[i], F_GETFL) | O_NONBLOCK);
	s->out.fd = q->out;
	s->err.fd = q->err;
	s->in_end = q->in < 0;
	s->status.max = 65536;
	s->resized = listen_size(s->g);
	/* What came behind the gate's answer is the first piece. */
	if (s->g->early.len && s->g->early.len <= sizeof(s->from)) {
		memcpy(s->from, s->g->early.data, s->g->early.len);
		s->p = s->from;
		s->left = s->g->early.len;
	}
}

void guard_serve(struct guard *g)
{
	static struct serve s;

	s.g = g;
	serve_begin(&s);
	while (!over(&s))
		serve_turn(&s);
	if (s.lost && !g->end.container.ended)
		after_loss(&s);
	else if (!s.abandoned)
		look_at_state(g);
	if (g->end.container.ended && !s.abandoned && !g->s->open)
		never_ran(&s);
	if (s.held_n && !s.abandoned)
		serve_release(&s);
	s.out.fd = fd_close(s.out.fd);
	s.err.fd = fd_close(s.err.fd);
}

bool guard_clean(struct guard *g)
{
	struct err e = { 0 };
	int r = 0;

	g->attach = fd_close(g->attach);
	g->wait = client_free(g->wait);
	door_leave(g);
	line_leave(g);
	if (g->ledger.fd < 0)
		return true;
	r = remove_run(&g->engine, g->s->id, g->nonce, g->ledger.word, &e);
	bridge_remove(&g->engine, &g->bridge);
	if (r >= 0)
		return ledger_close(&g->ledger);
	ledger_leave(&g->ledger);
	return false;
}

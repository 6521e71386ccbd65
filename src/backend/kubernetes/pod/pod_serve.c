/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_serve.c - brig-pod as the first process of the sandbox's container.
 *
 *     hear what was asked for ─▶ look ─▶ answer ─▶ brig's filter ─▶ commands until brig hangs up
 *
 * Its streams are the line to brig: the container's own, which the kubelet closes with the
 * connection of whoever attached. Nothing inside can have them: it is not dumpable, no command
 * inherits them, and signals from inside do not reach the first process of a namespace. The end of
 * its input is its own, and the kernel ends all the rest with it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "backend/kit/seccomp/seccomp.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "far/frames.h"
#include "proc/commands.h"
#include "proc/order.h"
#include "proc/spawn.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)
#define SIGNALS 64

/* A word that waits until what the command wrote before it is on its way. */
struct held {
	uint32_t number; /* 0: none */
	bool exited, ended;
	bool alone; /* ends with all it started */
	bool oom, pids;
	int status;
};

struct pod {
	uint64_t kills; /* by the kernel, for want of memory, so far */
	struct frames *frames;
	struct commands *commands;
	struct command_terms terms;
	struct pod_want want;
	const char *service, *service_port; /* of the cluster's API; NULL: not told */
	struct pod_pids pids;
	bool ready;
	int order; /* being received; -1 */
	uint32_t order_of;
	size_t order_size;
	struct held held[COMMANDS_MAX];
};

/* ---- the memory limit ---- */

static uint64_t kills_so_far(void)
{
	static const char *const places[] = { "/sys/fs/cgroup/memory.events",
					      "/sys/fs/cgroup/memory/memory.oom_control" };
	char text[1024];

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		const char *at = fd_read_file(AT_FDCWD, places[i], text, sizeof(text)) > 0
					 ? strstr(text, "oom_kill ")
					 : NULL;

		if (at)
			return strtoull(at + strlen("oom_kill "), NULL, 10);
	}
	return 0;
}

static bool has_killed(struct pod *p)
{
	uint64_t before = p->kills;

	p->kills = kills_so_far();
	return p->kills > before;
}

/* ---- words to brig ---- */

static void pod_serve_say(struct pod *p, const struct supervisor_msg *m)
{
	struct frames_said s = { .said = m->said,
				 .oom = m->container.oom,
				 .pids = m->container.pids,
				 .status = m->status,
				 .code = m->err.code,
				 .kind = (int32_t)m->err.kind };

	(void)snprintf(s.what, sizeof(s.what), "%s", m->err.what);
	(void)snprintf(s.hint, sizeof(s.hint), "%s", m->err.hint);
	if (frames_say(p->frames, FRAMES_SAID, m->command, &s, sizeof(s)) < 0)
		_exit(POD_REFUSED); /* brig does not listen */
}

static struct held *held_of(struct pod *p, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (p->held[i].number == number)
			return &p->held[i];
	return NULL;
}

/* The master of a terminal is both ways. */
static void take_terminal(struct pod *p, uint32_t number, int master)
{
	struct frames_command *k = frames_find(p->frames, number);
	int out = fcntl(master, F_DUPFD_CLOEXEC, 3), in = fcntl(master, F_DUPFD_CLOEXEC, 3);

	if (!k || out < 0 || in < 0 || frames_open(k, 0, out, true) < 0 ||
	    frames_open(k, 2, in, false) < 0)
		_exit(POD_REFUSED);
}

static void on_word(void *arg, const struct supervisor_msg *m, int fd)
{
	struct pod *p = arg;
	struct held *h = held_of(p, m->command);
	struct frames_command *k = frames_find(p->frames, m->command);

	if (m->said == SUPERVISOR_TERMINAL) {
		take_terminal(p, m->command, fd);
		return;
	}
	if (k)
		frames_look_again(k);
	if (h && m->said == SUPERVISOR_EXITED) {
		h->exited = true;
		h->status = m->status;
		h->oom = has_killed(p);
		h->pids = p->pids.hit;
		if (h->alone)
			commands_signal(p->commands, &p->terms, m->command, SIGKILL);
	} else if (h && m->said == SUPERVISOR_ENDED) {
		h->ended = true;
	} else {
		pod_serve_say(p, m);
	}
}

/* What was held back, once it is its turn. */
static void pod_serve_let_go(struct pod *p, struct held *h)
{
	struct frames_command *k = frames_find(p->frames, h->number);
	struct supervisor_msg m = { .said = SUPERVISOR_EXITED, .command = h->number };

	if (h->exited && (!k || (h->alone ? frames_closed(k) : frames_drained(k)))) {
		m.status = h->status;
		m.container.oom = h->oom;
		m.container.pids = h->pids;
		h->exited = false;
		pod_serve_say(p, &m);
	}
	if (h->exited || !h->ended || (k && !frames_closed(k)))
		return;
	m.said = SUPERVISOR_ENDED;
	pod_serve_say(p, &m);
	if (k)
		frames_end(k);
	*h = (struct held){ 0 };
}

/* ---- words from brig ---- */

static int on_order(struct pod *p, const struct frames_head *h, const void *data)
{
	if (p->order < 0) {
		p->order = memfd_create("brig-order", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		p->order_of = h->command;
		p->order_size = 0;
	}
	p->order_size += h->size;
	if (p->order < 0 || h->command != p->order_of || p->order_size > ORDER_MAX)
		return -EPROTO;
	return fd_write_all(p->order, data, h->size);
}

/* A pipe for each channel; the command's ends go into fds. */
static int open_channels(struct frames_command *k, const struct frames_exec *x, int *fds)
{
	int r = 0;

	for (size_t i = 0; i < x->channels && r == 0; i++) {
		bool inwards = x->inwards >> i & 1;
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return -errno;
		fds[i] = ends[inwards ? 0 : 1];
		r = frames_open(k, i, ends[inwards ? 1 : 0], !inwards);
	}
	return r;
}

static int on_exec(struct pod *p, const struct frames_head *h, const void *data)
{
	struct command_ask a = { .r = { .asks = ASK_EXEC, .command = h->command },
				 .fds = { TAKE_FD(p->order), -1, -1, -1 } };
	struct frames_command *k = frames_begin(p->frames, h->command);
	struct held *w = held_of(p, 0);
	struct frames_exec x;

	if (h->size != sizeof(x) || !k || !w || a.fds[0] < 0 || p->order_of != h->command)
		return -EPROTO;
	memcpy(&x, data, sizeof(x));
	if (x.channels > FRAMES_CHANNELS || fcntl(a.fds[0], F_ADD_SEALS, SEALS) < 0 ||
	    (!x.tty && open_channels(k, &x, a.fds + 1) < 0))
		return -EPROTO;
	*w = (struct held){ .number = h->command, .alone = x.alone };
	a.r.tty = x.tty;
	a.r.files = x.files;
	a.r.rows = x.rows;
	a.r.cols = x.cols;
	a.n = 1 + (x.tty ? 0U : x.channels);
	commands_exec(p->commands, &p->terms, &a);
	return 0;
}

static int pod_serve_on_signal(struct pod *p, const struct frames_head *h, const void *data)
{
	uint32_t sig;

	if (h->size != sizeof(sig))
		return -EPROTO;
	memcpy(&sig, data, sizeof(sig));
	if (sig && sig <= SIGNALS)
		commands_signal(p->commands, &p->terms, h->command, (int)sig);
	return 0;
}

static int on_resize(struct pod *p, const struct frames_head *h, const void *data)
{
	struct frames_command *k = frames_find(p->frames, h->command);
	struct winsize size = { 0 };
	uint16_t both[2];

	if (h->size != sizeof(both))
		return -EPROTO;
	memcpy(both, data, sizeof(both));
	size.ws_row = both[0];
	size.ws_col = both[1];
	if (k && k->channels[0].w.fd >= 0)
		(void)ioctl(k->channels[0].w.fd, TIOCSWINSZ, &size);
	return 0;
}

static int limit_files(const void *arg)
{
	const struct pod_want *w = arg;
	const struct rlimit most = { .rlim_cur = w->files, .rlim_max = w->files };

	return setrlimit(RLIMIT_NOFILE, &most) < 0 ? -errno : 0;
}

/* From the answer on nothing here can be undone from inside. */
static int pod_serve_settle(struct pod *p, struct pod_answer *a)
{
	int r;

	if (pod_check(&p->want, a) < 0)
		return -a->err.code;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(&a->err, "cannot keep commands from looking into what starts them");
	if (commands_new(&p->commands, &a->err) < 0 ||
	    pod_pids_begin(&p->pids, p->want.pids, &a->err) < 0)
		return -a->err.code;
	r = seccomp_install((enum seccomp_profile)p->want.profile, false);
	if (r < 0)
		return err_errno(&a->err, r, "cannot load brig's system-call filter");
	p->kills = kills_so_far();
	p->ready = true;
	return 0;
}

static int on_want(struct pod *p, const struct frames_head *h, const void *data)
{
	struct pod_answer a = {
		.mark = { .magic = POD_MAGIC, .version = POD_VERSION, .size = sizeof(a) }
	};
	struct pod_mark mark;

	if (p->ready || h->size < sizeof(mark))
		return -EPROTO;
	memcpy(&mark, data, sizeof(mark));
	if (h->size != sizeof(p->want) || mark.size != sizeof(p->want) ||
	    memcmp(mark.magic, a.mark.magic, sizeof(mark.magic)) != 0 ||
	    memcmp(mark.version, a.mark.version, sizeof(mark.version)) != 0)
		(void)err_set(&a.err, ERR_UNAVAILABLE, EPROTO, "another version");
	memcpy(&p->want, data, a.err.code ? 0 : sizeof(p->want));
	if (!a.err.code &&
	    (p->want.targets > POD_TARGETS_MAX || p->want.profile >= SECCOMP_PROFILES))
		return -EPROTO;
	if (!a.err.code) {
		pod_add_services(p->service, p->service_port, &p->want);
		(void)pod_serve_settle(p, &a);
	}
	return frames_say(p->frames, FRAMES_ANSWER, 0, &a, sizeof(a));
}

static int on_frame(void *arg, const struct frames_head *h, const void *data)
{
	struct pod *p = arg;

	if (h->kind == FRAMES_WANT)
		return on_want(p, h, data);
	if (!p->ready)
		return -EPROTO;
	if (h->kind == FRAMES_ORDER)
		return on_order(p, h, data);
	if (h->kind == FRAMES_EXEC)
		return on_exec(p, h, data);
	if (h->kind == FRAMES_SIGNAL)
		return pod_serve_on_signal(p, h, data);
	return h->kind == FRAMES_RESIZE ? on_resize(p, h, data) : -EPROTO;
}

/* ---- the loop ---- */

static void on_nothing(int sig)
{
	(void)sig; /* SIGCHLD: only there to interrupt ppoll */
}

/* The kubelet wants the pod to end, and the kernel ends the rest. A sender inside has a number. */
static void on_term(int sig UNUSED, siginfo_t *info, void *context UNUSED)
{
	if (info->si_pid == 0)
		_exit(0);
}

static void listen_to_signals(void)
{
	const struct sigaction child = { .sa_handler = on_nothing, .sa_flags = SA_NOCLDSTOP };
	const struct sigaction term = { .sa_sigaction = on_term, .sa_flags = SA_SIGINFO };
	/* What is ignored would be ignored by every command; a handler ends with execve. */
	const struct sigaction pipe = { .sa_handler = on_nothing, .sa_flags = SA_RESTART };
	sigset_t both;

	proc_default_signals();
	(void)sigemptyset(&both);
	(void)sigaddset(&both, SIGCHLD);
	(void)sigaction(SIGCHLD, &child, NULL);
	(void)sigaction(SIGTERM, &term, NULL);
	(void)sigaction(SIGPIPE, &pipe, NULL);
	(void)sigprocmask(SIG_SETMASK, &both, NULL);
}

/* Variables that only the cluster has use for are not the command's. */
static void drop_variables(void)
{
	char **to = environ;

	for (char **v = environ; *v; v++)
		if (!str_starts(*v, "KUBERNETES_"))
			*to++ = *v;
	*to = NULL;
}

static void let_all_go(struct pod *p)
{
	bool any = false;

	for (size_t i = 0; i < COMMANDS_MAX; i++)
		any |= p->held[i].number && (p->held[i].exited || p->held[i].ended);
	if (!any)
		return;
	/* A look at what was written just before the end. */
	if (frames_turn(p->frames, NULL, 0) < 0)
		_exit(0);
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (p->held[i].number)
			pod_serve_let_go(p, &p->held[i]);
}

static void pod_serve_turn(struct pod *p, const sigset_t *none)
{
	static struct pollfd polls[FRAMES_POLLS]; /* large, and there is one */
	int ms = p->commands ? commands_turn(p->commands, &p->terms) : -1;
	int look = p->commands ? pod_pids_look(&p->pids, p->commands) : -1;
	struct timespec wait = { 0 };
	size_t n;

	if (ms == -ETIME)
		_exit(POD_REFUSED);
	if (ms < 0 || (look >= 0 && look < ms))
		ms = look;
	wait.tv_nsec = (long)ms * 1000 * 1000;
	let_all_go(p);
	n = frames_polls(p->frames, polls);
	if (ppoll(polls, n, ms < 0 ? NULL : &wait, none) < 0) { /* allow ppoll: for SIGCHLD */
		if (errno != EINTR)
			_exit(POD_REFUSED);
		for (size_t i = 0; i < n; i++)
			polls[i].revents = 0;
	}
	if (frames_turn(p->frames, polls, n) < 0)
		_exit(0); /* brig has hung up */
}

_Noreturn void pod_serve(void)
{
	static struct pod p = { .order = -1 };
	sigset_t none;

	listen_to_signals();
	p.service = getenv("KUBERNETES_SERVICE_HOST");
	p.service_port = getenv("KUBERNETES_SERVICE_PORT");
	drop_variables();
	(void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	(void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
	p.terms = (struct command_terms){ .control = -1,
					  .tell = on_word,
					  .apart = true,
					  .teller = &p,
					  .inside = true,
					  .limit = limit_files,
					  .arg = &p.want,
					  .envp = (const char *const *)environ };
	p.frames = frames_new(STDIN_FILENO, STDOUT_FILENO, on_frame, &p);
	if (!p.frames)
		_exit(POD_REFUSED);
	(void)sigemptyset(&none);
	for (;;)
		pod_serve_turn(&p, &none);
}

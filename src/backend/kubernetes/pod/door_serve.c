/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/door_serve.c - brig-pod as the first process of the door's container.
 *
 *     hear what was asked for ─▶ make the network ─▶ start brig-egress ─▶ give everything up
 *     ─▶ answer ─▶ carry its decisions to brig until brig hangs up
 *
 * Its streams are a line to brig, as those of pod_serve.c. It reads nothing that a command wrote:
 * brig-egress does, which has its own lockdown. Rules and credentials are in a file that only this
 * container has; brig-egress gets it open, and reads it before it gives its rights up. */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/program.h"
#include "base/sys/wait.h"
#include "egress/event_pack.h"
#include "egress/worker_start.h"
#include "far/frames.h"
#include "proc/spawn.h"

#define READY_MS 20000
#define AUTHORITY_MAX 4096
#define COPY 65536

struct doorkeeper {
	struct frames *frames;
	struct pod_door_want want;
	bool ready, wanted;
	int roots; /* being received; -1 */
	size_t roots_size;
	struct pod_doorway way;
	pid_t pid;
	int pidfd;
	int worker;        /* packets of events, from brig-egress */
	int events, ended; /* pipes: to brig; its end, from brig */
	char data[EGRESS_PACKET];
	size_t at, len; /* of a packet that is not on its way yet */
	uint32_t asked; /* brig's number, to be said back behind what was decided by now; 0: none */
};

/* ---- rights ---- */

/* Those of the set alone stay; the bounding set needs none, because nothing can be gained here. */
static int keep_rights(uint32_t set, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct rights[2] = { { .effective = set, .permitted = set } };

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, rights) < 0)
		return err_sys(e, "the door's container cannot give its rights up");
	return 0;
}

/* ---- files ---- */

static int write_trust(const struct doorkeeper *k, const char *path, const char *more,
		       struct err *e)
{
	static char piece[COPY]; /* large, and there is one */
	CLEANUP(fd)
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	off_t at = 0;
	ssize_t n = 0;
	int r = to < 0 ? -errno : 0;

	while (r == 0 && (n = pread(k->roots, piece, sizeof(piece), at)) > 0) {
		r = fd_write_all(to, piece, (size_t)n);
		at += n;
	}
	if (r == 0 && more)
		r = fd_write_all(to, more, strlen(more));
	if (r == 0 && fchmod(to, 0444) < 0)
		r = -errno;
	return r < 0 || n < 0 ? err_errno(e, r < 0 ? r : -EIO, "cannot write '%s'", path) : 0;
}

/* ---- brig-egress ---- */

static int hear_authority(int from, char pem[AUTHORITY_MAX], struct err *e)
{
	uint64_t until = clock_us() + (uint64_t)READY_MS * 1000;
	size_t n = 0;
	ssize_t got;

	while (n < AUTHORITY_MAX - 1 &&
	       (got = wait_read(from, pem + n, AUTHORITY_MAX - 1 - n, until)) > 0)
		n += (size_t)got;
	pem[n] = '\0';
	return strstr(pem, "-----END CERTIFICATE-----")
		       ? 0
		       : err_refuse(e, ERR_UNAVAILABLE, ECHILD,
				    "the helper's image needs a static brig-egress: build "
				    "images/kubernetes anew",
				    "the door has no authority");
}

/* Until it serves, or says why it cannot; the word goes on to brig. */
static int hear_ready(struct doorkeeper *k, struct err *e)
{
	uint64_t until = clock_us() + (uint64_t)READY_MS * 1000;
	struct egress_event ev;
	ssize_t n = wait_fd(k->worker, POLLIN, until);

	if (n == 0)
		n = recv(k->worker, k->data, sizeof(k->data), 0);
	if (n <= 0 || event_unpack(k->data, (size_t)n, &ev) <= 0)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the door's worker ended at once");
	if (ev.kind == EGRESS_EVENT_FAILED)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the door could not start: %.300s",
			       ev.what);
	k->len = (size_t)n;
	return 0;
}

/* Whoever may make Secrets could have made this one: it is a copy of what brig wrote, or nothing.
 */
static int take_plan(const struct doorkeeper *k, struct err *e)
{
	CLEANUP(fd) int from = open(POD_PLAN_FILE, O_RDONLY | O_CLOEXEC);
	CLEANUP(fd) int to = memfd_create("brig-plan", MFD_CLOEXEC);
	unsigned char digest[SHA256_SIZE];
	char piece[4096];
	struct sha256 h;
	ssize_t n = 0;
	int r = 0;

	if (from < 0 || to < 0)
		return err_sys(e, "the door's rules are not there");
	sha256_init(&h);
	while (r == 0 && (n = read(from, piece, sizeof(piece))) > 0) {
		sha256_add(&h, piece, (size_t)n);
		r = fd_write_all(to, piece, (size_t)n);
	}
	explicit_bzero(piece, sizeof(piece));
	sha256_end(&h, digest);
	if (r < 0 || n < 0)
		return err_errno(e, r < 0 ? r : -EIO, "cannot read the door's rules");
	if (memcmp(digest, k->want.plan, sizeof(digest)) != 0)
		return err_refuse(e, ERR_POLICY, EPERM,
				  "who else may make Secrets in this namespace? Use one that "
				  "nothing else has",
				  "the door's Secret is not the one that brig wrote");
	return TAKE_FD(to);
}

static int give_work(const struct doorkeeper *k, struct err *e)
{
	CLEANUP(fd) int plan = take_plan(k, e);
	const struct door_want *w = &k->want.door;
	struct egress_sockets m = { .n = (uint32_t)w->n };
	int r;

	if (plan < 0)
		return -e->code;
	for (size_t i = 0; i < w->n; i++) {
		m.kinds[i] = w->sockets[i].kind;
		m.ports[i] = w->sockets[i].port;
	}
	r = fd_send(k->worker, BRIG_VERSION, sizeof(BRIG_VERSION), &plan, 1);
	if (r == 0)
		r = fd_send(k->worker, &m, sizeof(m), k->way.fds, w->n);
	return r < 0 ? err_errno(e, r, "cannot tell the door its rules") : 0;
}

/* The end of a pipe by which the authority comes. */
static int spawn_worker(struct doorkeeper *k, int *ret, struct err *e)
{
	CLEANUP(fd) int theirs = -1, from = -1, to = -1, door_serve_turn = -1, mine = -1;
	int pair[2], authority[2], one[2];
	char program[PATH_MAX];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "cannot make the door's sockets");
	k->worker = pair[0];
	theirs = pair[1];
	if (pipe2(authority, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make the door's sockets");
	from = authority[0];
	to = authority[1];
	if (pipe2(one, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, "cannot make the door's sockets");
	door_serve_turn = one[0];
	mine = one[1];
	if (write(mine, "", 1) != 1 ||
	    program_find(WORKER_PROGRAM, program, sizeof(program), e) < 0 ||
	    worker_start_at(program, NULL, (const int[]){ theirs, to, door_serve_turn }, 3, &k->pid,
			    &k->pidfd, e) < 0)
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOENT,
			"build images/kubernetes of this version, push it, and name it in "
			"kubernetes.helper_image",
			"the helper's image has no brig-egress");
	*ret = TAKE_FD(from);
	return 0;
}

static int start_worker(struct doorkeeper *k, struct err *e)
{
	CLEANUP(fd) int from = -1;
	char pem[AUTHORITY_MAX] = "";

	if (spawn_worker(k, &from, e) < 0 || give_work(k, e) < 0 ||
	    hear_authority(from, pem, e) < 0 ||
	    write_trust(k, POD_TRUST_FOLDER "/" POD_TRUST_ALL, pem, e) < 0)
		return -e->code;
	return hear_ready(k, e);
}

/* ---- the door ---- */

static int open_line(struct doorkeeper *k)
{
	struct frames_command *c = frames_begin(k->frames, POD_DOOR_COMMAND);
	int out[2], in[2];

	if (!c || pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(in, O_CLOEXEC | O_NONBLOCK) < 0)
		return -EIO;
	k->events = out[1];
	k->ended = in[0];
	return frames_open(c, 0, in[1], false) < 0 || frames_open(c, 1, out[0], true) < 0 ? -EIO
											  : 0;
}

/* Whoever is told the answer knows that nothing more can be done here. */
static int open_all(struct doorkeeper *k, struct pod_door_answer *a)
{
	const uint32_t users = 1U << CAP_SETUID | 1U << CAP_SETGID;
	struct err *e = &a->err;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "the door's container cannot protect itself");
	if (pod_open_door(&k->want.door, &k->way, e) < 0 || keep_rights(users, e) < 0 ||
	    write_trust(k, POD_TRUST_FOLDER "/" POD_TRUST_ROOTS, NULL, e) < 0 ||
	    start_worker(k, e) < 0 || keep_rights(0, e) < 0)
		return -e->code;
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		k->way.fds[i] = fd_close(k->way.fds[i]);
	k->roots = fd_close(k->roots);
	a->port = k->way.port;
	a->six = k->way.six;
	k->ready = true;
	return open_line(k) < 0 ? err_set(e, ERR_INTERNAL, EIO, "cannot make a line") : 0;
}

static int door_serve_answer(struct doorkeeper *k, struct err why)
{
	struct pod_door_answer a = {
		.mark = { .magic = POD_MAGIC, .version = POD_VERSION, .size = sizeof(a) },
		.err = why,
	};

	if (!a.err.code)
		(void)open_all(k, &a);
	return frames_say(k->frames, FRAMES_ANSWER, 0, &a, sizeof(a));
}

static int on_want(struct doorkeeper *k, const struct frames_head *h, const void *data)
{
	const struct pod_mark own = { .magic = POD_MAGIC,
				      .version = POD_VERSION,
				      .size = sizeof(k->want) };
	struct err e = { 0 };

	if (k->wanted || h->size < sizeof(own))
		return -EPROTO;
	if (h->size != sizeof(k->want) || memcmp(data, &own, sizeof(own)) != 0) {
		(void)err_set(&e, ERR_UNAVAILABLE, EPROTO, "another version");
		return door_serve_answer(k, e);
	}
	memcpy(&k->want, data, sizeof(k->want));
	if (k->want.door.n > DOOR_SOCKETS_MAX || k->want.roots > POD_ROOTS_MAX)
		return -EPROTO;
	k->wanted = true;
	k->roots = memfd_create("brig-roots", MFD_CLOEXEC);
	if (k->roots < 0)
		return -errno;
	return k->want.roots ? 0 : door_serve_answer(k, e);
}

static int on_roots(struct doorkeeper *k, const struct frames_head *h, const void *data)
{
	const struct err none = { 0 };
	int r;

	if (!k->wanted || k->ready || h->size > k->want.roots - k->roots_size)
		return -EPROTO;
	r = fd_write_all(k->roots, data, h->size);
	k->roots_size += h->size;
	return r < 0 || k->roots_size < k->want.roots ? r : door_serve_answer(k, none);
}

static int on_frame(void *arg, const struct frames_head *h, const void *data)
{
	struct doorkeeper *k = arg;

	if (h->kind == FRAMES_WANT)
		return on_want(k, h, data);
	if (h->kind == FRAMES_ORDER)
		return on_roots(k, h, data);
	if (h->kind != FRAMES_SIGNAL || !k->ready || h->size != sizeof(k->asked))
		return -EPROTO;
	memcpy(&k->asked, data, sizeof(k->asked));
	if (k->asked == POD_DOOR_SEEN)
		k->way.proof = fd_close(k->way.proof); /* it was seen that all leads here */
	return 0;
}

/* ---- the loop ---- */

static void show_number(const struct doorkeeper *k)
{
	CLEANUP(fd) int fd = accept4(k->way.proof, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) /* a socket that was just made has room for it */
		(void)send(fd, k->want.number, sizeof(k->want.number), MSG_NOSIGNAL);
}

/* A packet goes on whole before the next is taken: what brig does not read waits in brig-egress. */
static void door_serve_pass_on(struct doorkeeper *k)
{
	while (k->len) {
		ssize_t n = write(k->events, k->data + k->at, k->len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			_exit(POD_REFUSED);
		k->at += (size_t)n;
		k->len -= (size_t)n;
	}
	k->at = 0;
}

static void hear_worker(struct doorkeeper *k)
{
	ssize_t n = recv(k->worker, k->data, sizeof(k->data), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	k->len = n > 0 ? (size_t)n : 0;
	if (n > 0)
		return;
	k->worker = fd_close(k->worker);
	k->events = fd_close(k->events); /* and brig hears that it is gone */
}

/* A command has ended, and brig asks for what was decided while it ran: brig-egress says so before
 * the command hears of it. Where there is no room it is another turn's, once there is. true: it was
 * asked again meanwhile. */
static bool answer_asked(struct doorkeeper *k)
{
	struct frames_command *c = frames_find(k->frames, POD_DOOR_COMMAND);
	const uint32_t number = k->asked;

	if (!number)
		return false;
	do {
		door_serve_pass_on(k);
		if (k->len)
			return false;
		if (k->worker >= 0)
			hear_worker(k);
	} while (k->len);
	if (c)
		frames_look_again(c);
	if (frames_turn(k->frames, NULL, 0) < 0)
		_exit(0);
	if (c && !frames_drained(c))
		return k->asked != number;
	(void)frames_say(k->frames, FRAMES_SIGNAL, 0, &number, sizeof(number));
	if (k->asked == number)
		k->asked = 0;
	return k->asked;
}

static void hear_end(struct doorkeeper *k)
{
	char nothing[16];
	ssize_t n = read(k->ended, nothing, sizeof(nothing));

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	k->ended = fd_close(k->ended);
	(void)shutdown(k->worker, SHUT_WR); /* it tells the rest, and ends */
}

static void door_serve_turn(struct doorkeeper *k)
{
	static struct pollfd p[FRAMES_POLLS + 4]; /* large, and there is one */
	size_t n;

	while (answer_asked(k))
		;
	n = frames_polls(k->frames, p);
	p[n] = (struct pollfd){ .fd = k->way.proof, .events = POLLIN };
	p[n + 1] = (struct pollfd){ .fd = k->len ? -1 : k->worker, .events = POLLIN };
	p[n + 2] = (struct pollfd){ .fd = k->len ? k->events : -1, .events = POLLOUT };
	p[n + 3] = (struct pollfd){ .fd = k->ended, .events = POLLIN };
	if (wait_any(p, n + 4, 0) < 0)
		_exit(POD_REFUSED);
	if (p[n].revents)
		show_number(k);
	if (p[n + 1].revents)
		hear_worker(k);
	door_serve_pass_on(k);
	if (p[n + 3].revents)
		hear_end(k);
	if (frames_turn(k->frames, p, n) < 0)
		_exit(0); /* brig has hung up, and the kernel ends the rest */
}

_Noreturn void pod_door(void)
{
	static struct doorkeeper k = { .roots = -1,
				       .way = { .proof = -1 },
				       .pidfd = -1,
				       .worker = -1,
				       .events = -1,
				       .ended = -1 };

	proc_default_signals();
	proc_unblock_signals();
	(void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	(void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
	k.frames = frames_new(STDIN_FILENO, STDOUT_FILENO, on_frame, &k);
	if (!k.frames)
		_exit(POD_REFUSED);
	for (;;)
		door_serve_turn(&k);
}

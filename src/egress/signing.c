/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/signing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/bytes/base64.h"
#include "base/bytes/sha256.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "egress/binder.h"
#include "egress/worker_start.h"
#include "proc/spawn.h"

#define PATIENCE_US ((uint64_t)120 * 1000 * 1000) /* the agent may ask its owner */
#define EACH_US ((uint64_t)5 * 1000)              /* a request, in the long run */
#define AHEAD_US ((uint64_t)2 * 1000 * 1000)      /* how much of that may be used up at once */
#define START_HINT "start one and give it your key: eval \"$(ssh-agent)\"; ssh-add"

struct signing_timer {
	struct loop_timer t; /* first */
	struct signing *s;
};

struct signing_watch {
	struct loop_watch w; /* first */
	struct signing *s;
};

struct signing {
	int agent; /* O_PATH: the user's socket itself, not its name */
	bool logins;
	struct binder *binder; /* NULL: a login may be to any host */
	int listener;          /* -1 once the worker has it */
	struct signing_host host;
	pid_t pid;
	int pidfd;
	struct loop *loop;                        /* once there was a connection */
	struct signing_watch worker, line, proof; /* proof: the binder's */
	struct signing_timer pace, patience;
	uint64_t paid_until;
	unsigned given, failed;
	enum { SIGNING_IDLE, SIGNING_LISTS, SIGNING_SIGNS, SIGNING_BINDS } state;
	struct signing_ask ask;
	size_t have;
	unsigned char answer[AGENTMSG_HEAD + AGENTMSG_ANSWER_MAX];
};

/* ---- the agent ---- */

/* The caller's own process, or nobody. */
static bool signing_is_ours(int fd)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

/* A descriptor or -errno; -EPERM: somebody else answers. */
static int signing_dial(int agent)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d", agent);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return signing_is_ours(fd) ? TAKE_FD(fd) : -EPERM;
}

static int signing_refuse(struct err *e, const char *hint, const char *path, const char *why)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT, hint, "SSH_AUTH_SOCK, '%.200s', %s", path,
			  why);
}

static int find_agent(int *ret, struct err *e)
{
	const char *path = getenv("SSH_AUTH_SOCK");
	CLEANUP(fd) int fd = -1, line = -1;
	struct err why = { 0 };
	struct stat st;

	if (!path || !*path)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT, START_HINT,
				  "--ssh-agent: there is no agent: SSH_AUTH_SOCK is not set");
	if (path[0] != '/')
		return signing_refuse(e, START_HINT, path, "is no absolute path");
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return signing_refuse(e, START_HINT, path, "is not there");
	if (S_ISLNK(st.st_mode))
		return signing_refuse(
			e, "name the socket itself: SSH_AUTH_SOCK=$(realpath \"$SSH_AUTH_SOCK\")",
			path, "is a link");
	if (!S_ISSOCK(st.st_mode))
		return signing_refuse(e, START_HINT, path, "is no socket");
	if (st.st_uid != geteuid())
		return signing_refuse(e, "use an agent of your own: " START_HINT, path,
				      "belongs to another user");
	if (st.st_nlink > 1)
		return signing_refuse(e, START_HINT, path,
				      "has a second name (a hard link), which a command in a "
				      "sandbox may have made");
	if (exposed_path(path, NULL, 0, &why)) {
		(void)signing_refuse(e, "", path, why.what);
		exposed_hint("use an agent of your own: " START_HINT, &why, e);
		return -e->code;
	}
	line = signing_dial(fd);
	if (line == -EPERM)
		return signing_refuse(e, "use an agent of your own: " START_HINT, path,
				      "is another user's agent");
	if (line < 0)
		return signing_refuse(e, START_HINT, path, "has no agent behind it");
	*ret = TAKE_FD(fd);
	return 0;
}

int signing_open(const struct spec *spec, struct signing **ret, struct err *e)
{
	CLEANUP(signing) struct signing *s = calloc(1, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->agent = s->listener = s->pidfd = s->worker.w.fd = s->line.w.fd = s->proof.w.fd = -1;
	s->pid = -1;
	s->logins = spec->ssh_agent == SSH_AGENT_AUTH;
	if (find_agent(&s->agent, e) < 0 || (s->logins && binder_new(spec, &s->binder, e) < 0))
		return -e->code;
	*ret = TAKE_PTR(s);
	return 0;
}

static void signing_leave(struct signing *s, struct signing_watch *w)
{
	if (s->loop && w->w.fd >= 0)
		(void)loop_want(s->loop, &w->w, 0);
	w->w.fd = fd_close(w->w.fd);
}

/* The descriptor is the binder's. */
static void forget_proof(struct signing *s)
{
	if (s->loop && s->proof.w.fd >= 0)
		(void)loop_want(s->loop, &s->proof.w, 0);
	s->proof.w.fd = -1;
}

struct signing *signing_free(struct signing *s)
{
	if (!s)
		return NULL;
	worker_stop(s->pid, s->pidfd);
	signing_leave(s, &s->worker);
	signing_leave(s, &s->line);
	forget_proof(s);
	if (s->loop) {
		loop_at(s->loop, &s->pace.t, 0);
		loop_at(s->loop, &s->patience.t, 0);
	}
	(void)loop_free(s->loop);
	(void)proc_close_apart(s->listener);
	(void)fd_close(s->agent);
	(void)binder_free(s->binder);
	free(s);
	return NULL;
}

/* ---- one request ---- */

/* The answer to what was asked; then the next may come. */
static void signing_give(struct signing *s, const unsigned char *m, size_t n)
{
	signing_leave(s, &s->line);
	forget_proof(s);
	loop_at(s->loop, &s->patience.t, 0);
	s->state = SIGNING_IDLE;
	if (fd_send(s->worker.w.fd, m, n, NULL, 0) < 0 ||
	    loop_want(s->loop, &s->worker.w, EPOLLIN) < 0)
		signing_leave(s, &s->worker);
}

static void signing_fail(struct signing *s)
{
	const unsigned char m = AGENTMSG_FAILURE;

	signing_give(s, &m, sizeof(m));
}

static void signing_refused(struct signing *s, enum signing_refusal why)
{
	s->host.refuses(s->host.arg, why);
	signing_fail(s);
}

/* An agent that asks its owner would ask as often as the command likes: few failures are enough. */
static void unanswered(struct signing *s)
{
	if (s->state != SIGNING_SIGNS) {
		signing_fail(s);
		return;
	}
	s->failed++;
	signing_refused(s, SIGNING_NOT_SIGNED);
}

/* A connection that has only begun takes all of it, or is of no use. */
static bool signing_say(struct signing *s, const unsigned char *m, size_t n)
{
	s->have = 0;
	return send(s->line.w.fd, m, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n;
}

static void fingerprint(const struct agentmsg_bytes *key, char out[SIGNING_KEY_SIZE])
{
	CLEANUP(buf) struct buf b = BUF_INIT(SIGNING_KEY_SIZE);
	unsigned char raw[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, key->p, key->n);
	sha256_end(&h, raw);
	base64_url(&b, raw, sizeof(raw));
	(void)snprintf(out, SIGNING_KEY_SIZE, "SHA256:%.43s", buf_str(&b));
	for (char *p = out; *p; p++)
		*p = *p == '-' ? '+' : *p == '_' ? '/' : *p;
}

/* Whom the login is for; NULL: nobody that is known. */
static const char *login_host(const struct signing *s, const struct agentmsg_sign *want)
{
	struct agentmsg_login l;

	return s->binder && agentmsg_read_login(want, &l) ? binder_host(s->binder, &l) : NULL;
}

/* The keys are here: with one of them, and for nothing but what it is for. */
static void begin_to_sign(struct signing *s, const unsigned char *keys, size_t n)
{
	unsigned char m[AGENTMSG_HEAD + AGENTMSG_REQUEST_MAX];
	struct agentmsg_sign want;
	enum agentmsg_purpose purpose;
	size_t size;

	if (!agentmsg_read_sign(s->ask.request, s->ask.n, &want)) {
		signing_refused(s, SIGNING_OTHER_REQUEST);
		return;
	}
	if (agentmsg_wants_sha1(&want)) {
		signing_refused(s, SIGNING_SHA1);
		return;
	}
	purpose = agentmsg_purpose(&want);
	if (purpose == AGENTMSG_NO_PURPOSE || (purpose == AGENTMSG_LOGIN && !s->logins)) {
		signing_refused(s,
				purpose == AGENTMSG_LOGIN ? SIGNING_LOGIN : SIGNING_OTHER_PURPOSE);
		return;
	}
	if (purpose == AGENTMSG_LOGIN && s->binder && !login_host(s, &want)) {
		signing_refused(s, SIGNING_OTHER_HOST);
		return;
	}
	if (s->given == SIGNING_MOST || s->failed == SIGNING_FAILURES) {
		signing_refused(s, SIGNING_TOO_MANY);
		return;
	}
	size = agentmsg_write_sign(&want, m, sizeof(m));
	s->state = SIGNING_SIGNS;
	if (!size || !agentmsg_has_key(keys, n, &want.key) || !signing_say(s, m, size))
		signing_fail(s);
}

static void signed_now(struct signing *s, const unsigned char *m, size_t n)
{
	struct agentmsg_sign want;
	struct signature done;

	if (!agentmsg_is_signed(m, n) || !agentmsg_read_sign(s->ask.request, s->ask.n, &want)) {
		unanswered(s);
		return;
	}
	fingerprint(&want.key, done.key);
	done.purpose = agentmsg_purpose(&want);
	done.host = done.purpose == AGENTMSG_LOGIN ? login_host(s, &want) : NULL;
	s->given++;
	if (s->host.signs(s->host.arg, &done) < 0)
		signing_fail(s);
	else
		signing_give(s, m, n);
}

static void answered(struct signing *s)
{
	const unsigned char *m = s->answer + AGENTMSG_HEAD;
	size_t n = s->have - AGENTMSG_HEAD;

	if (s->state == SIGNING_SIGNS)
		signed_now(s, m, n);
	else if (!agentmsg_is_keys(m, n))
		signing_fail(s);
	else if (s->ask.what == SIGNING_ASK_SIGN)
		begin_to_sign(s, m, n);
	else
		signing_give(s, m, n);
}

static void on_line(struct loop_watch *w, uint32_t events UNUSED)
{
	struct signing *s = ((struct signing_watch *)w)->s;
	ssize_t n = recv(w->fd, s->answer + s->have, sizeof(s->answer) - s->have, MSG_DONTWAIT);
	size_t want = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	s->have += n > 0 ? (size_t)n : 0;
	if (n > 0 && s->have < AGENTMSG_HEAD)
		return;
	if (n > 0)
		want = agentmsg_number(s->answer);
	if (!want || want > AGENTMSG_ANSWER_MAX || s->have > AGENTMSG_HEAD + want)
		unanswered(s);
	else if (s->have == AGENTMSG_HEAD + want)
		answered(s);
}

static void on_patience(struct loop_timer *t, uint64_t now UNUSED)
{
	unanswered(((struct signing_timer *)t)->s);
}

/* The keys come first, whatever was asked for: nothing is sent to an agent but a key of its own. */
static void signing_begin(struct signing *s)
{
	static const unsigned char list[] = { 0, 0, 0, 1, AGENTMSG_LIST };

	s->state = SIGNING_LISTS;
	s->line.w.fd = signing_dial(s->agent);
	loop_at(s->loop, &s->patience.t, clock_us() + PATIENCE_US);
	if (s->line.w.fd < 0 || !signing_say(s, list, sizeof(list)) ||
	    loop_want(s->loop, &s->line.w, EPOLLIN) < 0)
		signing_fail(s);
}

/* ---- which host a session is with ---- */

static void on_proof(struct loop_watch *w, uint32_t events UNUSED)
{
	const unsigned char bound = AGENTMSG_SUCCESS;
	struct signing *s = ((struct signing_watch *)w)->s;

	(void)loop_want(s->loop, w, 0);
	if (binder_take(s->binder))
		signing_give(s, &bound, sizeof(bound));
	else
		signing_refused(s, SIGNING_OTHER_HOST);
}

/* The agent hears nothing of it: what the run may log in to is decided here. */
static void signing_bind(struct signing *s)
{
	struct agentmsg_bind b;

	s->state = SIGNING_BINDS;
	if (!s->binder || !agentmsg_read_bind(s->ask.request, s->ask.n, &b)) {
		signing_refused(s, SIGNING_OTHER_REQUEST);
		return;
	}
	if (!binder_knows(s->binder, &b.host_key)) {
		signing_refused(s, SIGNING_OTHER_HOST);
		return;
	}
	loop_at(s->loop, &s->patience.t, clock_us() + PATIENCE_US);
	s->proof.w.fd = binder_ask(s->binder, &b);
	if (s->proof.w.fd < 0 || loop_want(s->loop, &s->proof.w, EPOLLIN) < 0)
		signing_fail(s);
}

static void signing_turn_of(struct signing *s)
{
	if (s->ask.what == SIGNING_ASK_BIND)
		signing_bind(s);
	else
		signing_begin(s);
}

static void on_pace(struct loop_timer *t, uint64_t now UNUSED)
{
	signing_turn_of(((struct signing_timer *)t)->s);
}

/* ---- the worker ---- */

/* Who asks without end waits for each turn. */
static void on_worker(struct loop_watch *w, uint32_t events UNUSED)
{
	struct signing *s = ((struct signing_watch *)w)->s;
	size_t none = 0;
	ssize_t n = fd_recv(w->fd, &s->ask, sizeof(s->ask), NULL, &none);
	uint64_t now = clock_us();

	if (n == -EAGAIN)
		return;
	if (n != (ssize_t)sizeof(s->ask) || s->ask.n > sizeof(s->ask.request)) {
		signing_leave(s, &s->worker); /* it is gone, and nobody asks any more */
		return;
	}
	if (s->ask.what == SIGNING_WAS_REFUSED) {
		s->host.refuses(s->host.arg, SIGNING_OTHER_REQUEST);
		return;
	}
	(void)loop_want(s->loop, w, 0);
	s->paid_until = (s->paid_until > now ? s->paid_until : now) + EACH_US;
	if (s->paid_until > now + AHEAD_US)
		loop_at(s->loop, &s->pace.t, s->paid_until - AHEAD_US);
	else
		signing_turn_of(s);
}

static void start_worker(struct signing *s)
{
	int pair[2] = { -1, -1 };
	struct err unused;

	s->worker = (struct signing_watch){ .w = { .fd = -1, .ready = on_worker }, .s = s };
	s->line = (struct signing_watch){ .w = { .fd = -1, .ready = on_line }, .s = s };
	s->proof = (struct signing_watch){ .w = { .fd = -1, .ready = on_proof }, .s = s };
	s->pace = (struct signing_timer){ .t.due = on_pace, .s = s };
	s->patience = (struct signing_timer){ .t.due = on_patience, .s = s };
	if (loop_new(&s->loop, &unused) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0 &&
	    worker_start(SIGNING_WORD, (const int[]){ s->listener, pair[1] }, 2, &s->pid, &s->pidfd,
			 &unused) == 0) {
		s->worker.w.fd = TAKE_FD(pair[0]);
		if (loop_want(s->loop, &s->worker.w, EPOLLIN) < 0)
			signing_leave(s, &s->worker);
	}
	(void)fd_close(pair[0]);
	(void)fd_close(pair[1]);
	s->listener = proc_close_apart(s->listener);
}

void signing_start(struct signing *s, int listener, const struct signing_host *host)
{
	s->listener = listener;
	s->host = *host;
}

int signing_fd(const struct signing *s)
{
	if (s && s->listener >= 0)
		return s->listener;
	return s && s->loop ? loop_fd(s->loop) : -1;
}

void signing_turn(struct signing *s)
{
	if (s->listener >= 0)
		start_worker(s);
	else if (s->loop)
		loop_turn(s->loop, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/monitor.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "egress/egress_plan.h"
#include "egress/event_pack.h"
#include "egress/authority/prepared.h"
#include "egress/renewing.h"
#include "egress/rules/verdict.h"
#include "egress/worker_start.h"
#include "model/outcome/model_use.h"
#include "model/outcome/outcome.h"
#include "proc/host_find.h"

#define PLAN_TEXT_MAX ((size_t)16 << 20)
#define KEEPER_SAYS_MAX (PREPARED_PEM_MAX + PREPARED_MAX)
#define ROOTS_FILE_MAX ((size_t)4 << 20)
#define AUTHORITY_US (10000 * 1000ULL)

struct egress {
	pid_t pid;
	int pidfd, control, authority;
	int turn; /* one byte to read: who has it decides whether the worker serves */
	bool gone;
	bool is_there; /* its processes run elsewhere */
	struct door_there there;
	bool makes_ahead; /* its keeper makes an authority for a later run */
	bool waits;       /* nothing is started: what follows is for the start */
	struct prepared prepared;
	int knock; /* readable: something has reached one of the sockets */
	struct egress_sockets sockets;
	int held[DOOR_SOCKETS_MAX];
	char pem[PREPARED_PEM_MAX]; /* the run's certificate, once it is known */
	char said[KEEPER_SAYS_MAX]; /* by the keeper: a certificate, a record for a later run */
	size_t said_len, record_at;
	struct egress_plan *plan;
	const char **variables;
	char batch[2 * EGRESS_PACKET]; /* heard: of a stream, the last event may be there in part */
	struct renewing renewing;
	size_t heard, next; /* bytes; those before `next` were passed on */
};

/* ---- starting ---- */

static const char *worker_word(const struct egress *g)
{
	if (g->prepared.fd >= 0)
		return WORKER_HAS_AUTHORITY;
	return g->makes_ahead ? WORKER_MAKES_AHEAD : NULL;
}

static int start_process(struct egress *g, struct err *e)
{
	int pair[2] = { -1, -1 }, pipe_ends[2] = { -1, -1 }, turn[2] = { -1, -1 }, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe_ends) < 0 ||
	    pipe2(turn, O_CLOEXEC | O_NONBLOCK) < 0 || write(turn[1], "", 1) != 1)
		r = err_sys(e, "cannot make the door's sockets");
	else
		r = worker_start(worker_word(g),
				 (const int[]){ pair[1], pipe_ends[1], turn[0], g->prepared.fd },
				 g->prepared.fd >= 0 ? 4 : 3, &g->pid, &g->pidfd, e);
	g->control = pair[0];
	g->authority = pipe_ends[0];
	g->turn = turn[0];
	(void)fd_close(pair[1]);
	(void)fd_close(pipe_ends[1]);
	(void)fd_close(turn[1]);
	return r == -ENOENT ? err_wrap(e, "network proxy") : r;
}

static int not_started(const struct egress_event *ev, struct err *e)
{
	(void)err_set(e, ERR_UNAVAILABLE, ECHILD, "the door could not start: %.300s", ev->what);
	return ev->hint[0] ? err_hint(e, "%s", ev->hint) : -e->code;
}

/* Why it ended, if it managed to say so. */
static int died(struct egress *g, struct err *e)
{
	struct egress_event ev;

	if (egress_next(g, &ev) == EGRESS_NEWS && ev.kind == EGRESS_EVENT_FAILED)
		return not_started(&ev, e);
	return err_set(e, ERR_UNAVAILABLE, ECHILD, "the door could not start");
}

/* A sealed memory file: it holds values that must not be on any disk. */
static int sealed(struct buf *b)
{
	CLEANUP(fd) int fd = memfd_create("brig-egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_all(fd, buf_str(b), b->len);

	if (b->data)
		explicit_bzero(b->data, b->len);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

/* The keys of client certificates go past the worker. The keeper waits for their end. */
static int give_keys(struct egress *g, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < g->plan->client_certs.n && r == 0; i++) {
		const struct secret *s = &g->plan->client_keys[i];

		if (send(g->authority, s->value, s->len, MSG_NOSIGNAL) != (ssize_t)s->len ||
		    send(g->authority, "\n", 1, MSG_NOSIGNAL) != 1)
			r = err_sys(e, "cannot give the keeper its keys");
	}
	(void)shutdown(g->authority, SHUT_WR);
	return r;
}

static int send_plan(struct egress *g, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PLAN_TEXT_MAX);
	CLEANUP(fd) int fd = -1;
	int r = egress_plan_write(g->plan, &b, e);

	if (r < 0 || (r = give_keys(g, e)) < 0)
		return r;
	fd = sealed(&b);
	r = fd < 0 ? fd : 0;
	if (r == 0)
		r = fd_send(g->control, BRIG_VERSION, sizeof(BRIG_VERSION), &fd, 1);
	if (r == -EPIPE || r == -ECONNRESET) /* it ended before it heard of them */
		return died(g, e);
	return r < 0 ? err_errno(e, r, "cannot tell the door its rules") : 0;
}

static int make_variables(struct egress *g, struct err *e)
{
	size_t n = g->plan->credentials.n, at = 0;

	g->variables = arena_alloc(g->plan->arena, (n + 1) * sizeof(*g->variables));
	if (!g->variables)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		const char *name = g->plan->credentials.v[i].name;

		/* What a login brings has no variable. */
		if (i && str_eq(name, g->plan->credentials.v[i - 1].name))
			continue;
		g->variables[at] = arena_printf(g->plan->arena, "%s=%s", name,
						g->plan->secrets[i].placeholder);
		if (!g->variables[at++])
			return err_nomem(e);
	}
	return 0;
}

static struct egress *egress_new(void)
{
	struct egress *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->pid = g->pidfd = g->control = g->authority = g->turn = g->knock = g->prepared.fd = -1;
	g->there = (struct door_there){ -1, -1, -1 };
	return g;
}

static int start_now(struct egress *g, const struct spec *s, char *const *envp, struct err *e)
{
	/* The program needs longest: it starts while the rules are being made. */
	if (start_process(g, e) < 0 || egress_plan_new(s, envp, &g->plan, e) < 0 ||
	    send_plan(g, e) < 0 || make_variables(g, e) < 0)
		return -e->code;
	egress_plan_forget(g->plan); /* the worker has them */
	return 0;
}

int egress_start(const struct spec *s, char *const *envp, struct egress **ret, struct err *e)
{
	CLEANUP(egress) struct egress *g = egress_new();

	if (!g)
		return err_nomem(e);
	if (start_now(g, s, envp, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(g);
	return 0;
}

/* ---- on demand ---- */

/* All that a start needs, so that what would refuse the run does so before it begins. */
static int start_waiting(struct egress *g, const struct spec *s, char *const *envp, struct err *e)
{
	char path[PATH_MAX];

	if (host_find_own(WORKER_PROGRAM, path, e) < 0)
		return e->code == ENOENT ? err_wrap(e, "network proxy") : -e->code;
	if (egress_plan_new(s, envp, &g->plan, e) < 0 || make_variables(g, e) < 0)
		return -e->code;
	g->knock = epoll_create1(EPOLL_CLOEXEC);
	if (g->knock < 0)
		return err_sys(e, "cannot wait for the door's sockets");
	g->waits = true;
	return 0;
}

int egress_start_ahead(const struct spec *s, char *const *envp, struct egress **ret, struct err *e)
{
	CLEANUP(egress) struct egress *g = egress_new();

	if (!g)
		return err_nomem(e);
	g->makes_ahead = true;
	prepared_take(&g->prepared, g->pem);
	if ((g->prepared.fd >= 0 ? start_waiting(g, s, envp, e) : start_now(g, s, envp, e)) < 0)
		return -e->code;
	*ret = TAKE_PTR(g);
	return 0;
}

bool egress_is_waiting(const struct egress *g)
{
	return g->waits;
}

/* The sockets stay here until something reaches them; the caller closes its own. */
static int hold_sockets(struct egress *g, const struct egress_sockets *m, const int *fds,
			struct err *e)
{
	for (uint32_t i = 0; i < m->n; i++) {
		struct epoll_event want = { .events = EPOLLIN };

		g->held[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (g->held[i] < 0)
			return err_sys(e, "cannot keep the door's sockets");
		g->sockets.n = i + 1;
		if (epoll_ctl(g->knock, EPOLL_CTL_ADD, g->held[i], &want) < 0)
			return err_sys(e, "cannot wait for the door's sockets");
	}
	g->sockets = *m;
	return 0;
}

static void release_sockets(struct egress *g)
{
	for (uint32_t i = 0; i < g->sockets.n; i++)
		(void)fd_close(g->held[i]);
	g->sockets.n = 0;
}

/* Something has come. What is started now reads nothing of it before it has locked itself down. */
static int begin(struct egress *g, struct err *e)
{
	int r = prepared_spend(&g->prepared);

	g->waits = false;
	if (r < 0)
		return err_errno(e, r, "the authority that was made ahead cannot be taken");
	if (start_process(g, e) < 0 || send_plan(g, e) < 0)
		return -e->code;
	r = fd_send(g->control, &g->sockets, sizeof(g->sockets), g->held, g->sockets.n);
	if (r < 0)
		return died(g, e);
	prepared_close(&g->prepared);
	release_sockets(g);
	egress_plan_forget(g->plan);
	return 0;
}

/* One that cannot be started says so as its worker would have. */
static enum egress_news begin_if_asked(struct egress *g, struct egress_event *ret)
{
	struct err e = { 0 };

	if (!wait_look(g->knock, POLLIN) || begin(g, &e) == 0)
		return EGRESS_QUIET;
	*ret = (struct egress_event){ .kind = EGRESS_EVENT_FAILED };
	(void)snprintf(ret->what, sizeof(ret->what), "%.319s", e.what);
	(void)snprintf(ret->hint, sizeof(ret->hint), "%s", e.hint);
	g->gone = true;
	return EGRESS_NEWS;
}

/* ---- elsewhere ---- */

/* A file of certificates behind those that are there already. */
static int add_roots(struct buf *b, const char *path)
{
	CLEANUP(mem) char *text = malloc(ROOTS_FILE_MAX);
	ssize_t n = text ? fd_read_file(AT_FDCWD, path, text, ROOTS_FILE_MAX) : -ENOMEM;

	if (n < 0)
		return (int)n;
	buf_add(b, text, (size_t)n);
	buf_putc(b, '\n');
	return b->failed ? -ENOMEM : 0;
}

/* What the worker would read of this machine's files. */
static int collect_roots(struct egress *g, struct err *e)
{
	static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
					       "/etc/pki/tls/certs/ca-bundle.crt",
					       "/etc/ssl/ca-bundle.pem" };
	CLEANUP(buf) struct buf b = BUF_INIT(PLAN_TEXT_MAX);
	struct strlist *further = &g->plan->egress.roots;

	for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
		if (add_roots(&b, bundles[i]) == 0)
			break;
	for (size_t i = 0; i < further->n; i++) {
		int r = add_roots(&b, further->v[i]);

		if (r < 0)
			return err_errno(e, r, "egress.roots: cannot read '%s'", further->v[i]);
	}
	further->n = 0;
	g->there.roots = sealed(&b);
	return g->there.roots < 0 ? err_errno(e, g->there.roots, "cannot keep certificates") : 0;
}

static int lay_out(struct egress *g, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PLAN_TEXT_MAX);
	int pair[2];

	if (collect_roots(g, e) < 0 || egress_plan_write(g->plan, &b, e) < 0)
		return -e->code;
	g->there.plan = sealed(&b);
	if (g->there.plan < 0)
		return err_errno(e, g->there.plan, "cannot keep the door's rules");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "cannot make the door's sockets");
	g->control = pair[0];
	g->there.line = pair[1];
	return 0;
}

int egress_start_there(const struct spec *s, char *const *envp, struct egress **ret, struct err *e)
{
	CLEANUP(egress) struct egress *g = egress_new();

	if (!g)
		return err_nomem(e);
	g->is_there = true;
	if (egress_plan_new(s, envp, &g->plan, e) < 0 || lay_out(g, e) < 0 ||
	    make_variables(g, e) < 0)
		return -e->code;
	egress_plan_forget(g->plan);
	*ret = TAKE_PTR(g);
	return 0;
}

const struct door_there *egress_there(const struct egress *g)
{
	return g->is_there ? &g->there : NULL;
}

void egress_there_taken(struct egress *g)
{
	if (!g->is_there)
		return;
	g->there.line = fd_close(g->there.line);
	g->there.plan = fd_close(g->there.plan);
	g->there.roots = fd_close(g->there.roots);
}

/* More of what the keeper says; false: there is no more. */
static bool read_keeper(struct egress *g)
{
	size_t room = sizeof(g->said) - g->said_len;
	ssize_t n = room ? read(g->authority, g->said + g->said_len, room) : 0;

	if (n > 0)
		g->said_len += (size_t)n;
	return n > 0;
}

/* The keeper wrote it before the worker read anything of a guest's. One that it had no time for is
 * not missed. */
static void keep_ahead(struct egress *g)
{
	while (g->makes_ahead && g->authority >= 0 && wait_look(g->authority, POLLIN) &&
	       read_keeper(g))
		;
	if (g->makes_ahead && g->pem[0] && g->said_len > g->record_at)
		prepared_keep(g->said + g->record_at, g->said_len - g->record_at);
	explicit_bzero(g->said, sizeof(g->said));
}

struct egress *egress_free(struct egress *g)
{
	if (!g)
		return NULL;
	egress_there_taken(g);
	worker_stop(g->pid, g->pidfd);
	keep_ahead(g);
	prepared_close(&g->prepared);
	release_sockets(g);
	(void)fd_close(g->knock);
	(void)fd_close(g->control);
	(void)fd_close(g->authority);
	(void)fd_close(g->turn);
	(void)egress_plan_free(g->plan);
	free(g);
	return NULL;
}

/* ---- talking ---- */

/* The certificate is what ends with its last line. */
static void find_pem(struct egress *g)
{
	static const char last[] = "-----END CERTIFICATE-----\n";
	const char *end = memmem(g->said, g->said_len, last, strlen(last));
	size_t n = end ? (size_t)(end - g->said) + strlen(last) : 0;

	if (!n || n >= sizeof(g->pem) || memchr(g->said, '\0', n))
		return;
	memcpy(g->pem, g->said, n);
	g->record_at = n;
}

const char *egress_authority(struct egress *g, struct err *e)
{
	while (!g->pem[0] && g->authority >= 0) {
		if (wait_fd(g->authority, POLLIN, clock_us() + AUTHORITY_US) < 0 || !read_keeper(g))
			g->authority = fd_close(g->authority);
		find_pem(g);
	}
	if (g->pem[0])
		return g->pem;
	(void)died(g, e);
	return NULL;
}

const char *const *egress_variables(const struct egress *g)
{
	return g->variables;
}

int egress_attach(struct egress *g, const struct door_socket *what, const int *fds, size_t n,
		  struct err *e)
{
	struct egress_sockets m = { .n = (uint32_t)n };
	int r;

	if (n > ARRAY_LEN(m.kinds))
		return err_set(e, ERR_INTERNAL, E2BIG, "too many sockets for the door");
	for (size_t i = 0; i < n; i++) {
		m.kinds[i] = what[i].kind;
		m.ports[i] = what[i].port;
	}
	if (g->waits)
		return hold_sockets(g, &m, fds, e);
	r = fd_send(g->control, &m, sizeof(m), fds, n);
	return r < 0 ? died(g, e) : 0;
}

void egress_end(struct egress *g)
{
	char turn;

	g->gone |= g->waits;
	/* One that has not begun has nothing to tell, and will not begin any more. */
	if (g->turn >= 0 && read(g->turn, &turn, 1) == 1) {
		g->gone = true;
		worker_kill(g->pid, g->pidfd);
	}
	if (g->control >= 0)
		(void)shutdown(g->control, SHUT_WR);
}

int egress_fd(const struct egress *g)
{
	if (g->gone)
		return -1;
	return g->waits ? g->knock : g->control;
}

bool egress_answer(struct egress *g, uint32_t id, enum question_answer a)
{
	const struct egress_answer m = { .id = id, .answer = a };

	return !g->gone && !g->waits &&
	       send(g->control, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(m);
}

bool egress_names_host(const struct egress_event *ev)
{
	struct host h;

	return host_parse(egress_text(ev->host, strlen(ev->host)), &h) == HOST_OK &&
	       strcmp(h.name, ev->host) == 0;
}

bool egress_waiting(const struct egress *g)
{
	return !g->gone && event_size(g->batch + g->next, g->heard - g->next) != 0;
}

int egress_await(struct egress *g, unsigned ms, struct err *e)
{
	uint64_t until = clock_us() + (uint64_t)ms * 1000;
	const int fd = egress_fd(g);
	struct egress_event ev;

	while (clock_us() < until) {
		(void)wait_fd(fd, POLLIN, clock_after(100));
		switch (egress_next(g, &ev)) {
		case EGRESS_QUIET:
			continue;
		case EGRESS_GONE:
			return err_set(e, ERR_UNAVAILABLE, ECHILD, "brig-egress ended at once");
		case EGRESS_NEWS:
			return ev.kind == EGRESS_EVENT_READY ? 0 : not_started(&ev, e);
		}
	}
	return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "brig-egress is not ready in time");
}

/* Of a stream the last may be there in part, and is completed by the next look. */
static bool look_again(struct egress *g)
{
	ssize_t n;

	g->heard -= g->next;
	memmove(g->batch, g->batch + g->next, g->heard);
	g->next = 0;
	if (g->heard && !g->is_there) /* a packet holds whole ones */
		return g->gone = true;
	n = recv(g->control, g->batch + g->heard, sizeof(g->batch) - g->heard, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0)
		g->heard += (size_t)n;
	g->gone = n <= 0;
	return g->gone || egress_waiting(g);
}

enum egress_news egress_next(struct egress *g, struct egress_event *ret)
{
	ssize_t n;

	if (g->waits && !g->gone)
		return begin_if_asked(g, ret);
	if (!g->gone && !egress_waiting(g) && !look_again(g))
		return EGRESS_QUIET;
	n = g->gone ? 0 : event_unpack(g->batch + g->next, g->heard - g->next, ret);
	if (n <= 0 || ret->kind >= EGRESS_EVENT_KINDS) {
		g->gone = true;
		return EGRESS_GONE;
	}
	if (ret->kind == EGRESS_EVENT_RENEWED)
		explicit_bzero(g->batch + g->next, (size_t)n);
	g->next += (size_t)n;
	if (ret->kind == EGRESS_EVENT_RENEWED && !renewing_take(&g->renewing, g->plan, ret))
		return egress_next(g, ret);
	return EGRESS_NEWS;
}

void egress_reason_text(const struct egress_event *ev, char *out, size_t n)
{
	const char *word =
		ev->reason < EGRESS_REASONS ? egress_reason_name(ev->reason) : "internal";

	(void)snprintf(out, n, "%s: %s%s%s", word, ev->what, ev->hint[0] ? "; " : "", ev->hint);
}

void egress_count(const struct egress_event *ev, struct outcome *o)
{
	o->egress.allowed += ev->kind == EGRESS_EVENT_ALLOW;
	o->egress.denied += ev->kind == EGRESS_EVENT_DENY;
	o->egress.uninspected += event_is_uninspected(ev);
	o->egress.bytes_out += ev->bytes_out;
	o->egress.bytes_in += ev->bytes_in;
	if (ev->kind == EGRESS_EVENT_USAGE)
		outcome_use(o, &(struct model_use){
				       .host = ev->host,
				       .model = ev->rule,
				       .calls = 1,
				       .in = ev->tokens_in,
				       .cached = ev->tokens_cached,
				       .out = ev->tokens_out,
				       .cost = ev->cost,
				       .unpriced = !(ev->status & EGRESS_USAGE_PRICED),
				       .estimated = (ev->status & EGRESS_USAGE_ESTIMATED) != 0,
				       .uncounted = (ev->status & EGRESS_USAGE_UNCOUNTED) != 0 });
}

void egress_denial(const struct egress_event *ev, struct outcome *o)
{
	char target[sizeof(ev->host) + 8], reason[EGRESS_REASON_SIZE];

	if (ev->kind != EGRESS_EVENT_DENY)
		return;
	event_target(ev, target, sizeof(target));
	if (!target[0])
		(void)snprintf(target, sizeof(target), "no host");
	egress_reason_text(ev, reason, sizeof(reason));
	outcome_deny_as(o,
			ev->reason == EGRESS_LEAK || ev->reason == EGRESS_CREDENTIAL_MISUSE
				? DENIAL_LEAK
				: DENIAL_NETWORK,
			"network", target, reason);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/monitor.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/wait.h"
#include "egress/egress_plan.h"
#include "egress/rules/verdict.h"
#include "egress/worker_start.h"
#include "model/outcome.h"

#define PLAN_TEXT_MAX ((size_t)16 << 20)
#define AUTHORITY_MAX 4096
#define AUTHORITY_US (10000 * 1000ULL)

struct egress {
	pid_t pid;
	int pidfd, control, authority;
	int turn; /* one byte to read: who has it decides whether the worker serves */
	bool gone;
	char pem[AUTHORITY_MAX];
	struct egress_plan *plan;
	const char **variables;
	struct egress_event batch[EGRESS_BATCH];
	size_t n_batch, next; /* heard; those before `next` were passed on */
};

/* ---- starting ---- */

static int start_process(struct egress *g, struct err *e)
{
	int pair[2] = { -1, -1 }, pipe_ends[2] = { -1, -1 }, turn[2] = { -1, -1 }, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
	    pipe2(pipe_ends, O_CLOEXEC) < 0 || pipe2(turn, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    write(turn[1], "", 1) != 1)
		r = err_sys(e, "cannot make the door's sockets");
	else
		r = worker_start(NULL, (const int[]){ pair[1], pipe_ends[1], turn[0] }, 3, &g->pid,
				 &g->pidfd, e);
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
static int send_plan(struct egress *g, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PLAN_TEXT_MAX);
	CLEANUP(fd) int fd = memfd_create("brig-egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = egress_plan_write(g->plan, &b, e);

	if (r < 0)
		return r;
	r = fd < 0 ? -errno : fd_write_all(fd, buf_str(&b), b.len);
	explicit_bzero(b.data, b.len);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r == 0)
		r = fd_send(g->control, BRIG_VERSION, sizeof(BRIG_VERSION), &fd, 1);
	if (r == -EPIPE || r == -ECONNRESET) /* it ended before it heard of them */
		return died(g, e);
	return r < 0 ? err_errno(e, r, "cannot tell the door its rules") : 0;
}

static int make_variables(struct egress *g, struct err *e)
{
	size_t n = g->plan->credentials.n;

	g->variables = arena_alloc(g->plan->arena, (n + 1) * sizeof(*g->variables));
	if (!g->variables)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		g->variables[i] =
			arena_printf(g->plan->arena, "%s=%s", g->plan->credentials.v[i].name,
				     g->plan->secrets[i].placeholder);
		if (!g->variables[i])
			return err_nomem(e);
	}
	return 0;
}

int egress_start(const struct spec *s, char *const *envp, struct egress **ret, struct err *e)
{
	CLEANUP(egress) struct egress *g = calloc(1, sizeof(*g));

	if (!g)
		return err_nomem(e);
	g->pid = g->pidfd = g->control = g->authority = g->turn = -1;
	/* The program needs longest: it starts while the rules are being made. */
	if (start_process(g, e) < 0 || egress_plan_new(s, envp, &g->plan, e) < 0 ||
	    send_plan(g, e) < 0 || make_variables(g, e) < 0)
		return -e->code;
	egress_plan_forget(g->plan); /* the worker has them */
	*ret = TAKE_PTR(g);
	return 0;
}

struct egress *egress_free(struct egress *g)
{
	if (!g)
		return NULL;
	worker_stop(g->pid, g->pidfd);
	(void)fd_close(g->control);
	(void)fd_close(g->authority);
	(void)fd_close(g->turn);
	(void)egress_plan_free(g->plan);
	free(g);
	return NULL;
}

/* ---- talking ---- */

const char *egress_authority(struct egress *g, struct err *e)
{
	size_t have = strlen(g->pem);

	while (g->authority >= 0) {
		ssize_t n = -1;

		if (wait_fd(g->authority, POLLIN, clock_us() + AUTHORITY_US) == 0)
			n = read(g->authority, g->pem + have, sizeof(g->pem) - 1 - have);
		if (n > 0) {
			have += (size_t)n;
			g->pem[have] = '\0';
			continue;
		}
		g->authority = fd_close(g->authority);
	}
	if (strstr(g->pem, "-----END CERTIFICATE-----"))
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
	r = fd_send(g->control, &m, sizeof(m), fds, n);
	return r < 0 ? died(g, e) : 0;
}

void egress_end(struct egress *g)
{
	char turn;

	/* One that has not begun has nothing to tell, and will not begin any more. */
	if (g->turn >= 0 && read(g->turn, &turn, 1) == 1)
		g->gone = true;
	(void)shutdown(g->control, SHUT_WR);
}

int egress_fd(const struct egress *g)
{
	return g->gone ? -1 : g->control;
}

static void cut(char *text, size_t n)
{
	text[n - 1] = '\0';
}

bool egress_waiting(const struct egress *g)
{
	return !g->gone && g->next < g->n_batch;
}

int egress_await(struct egress *g, unsigned ms, struct err *e)
{
	uint64_t until = clock_us() + (uint64_t)ms * 1000;
	struct pollfd p = { .fd = egress_fd(g), .events = POLLIN };
	struct egress_event ev;

	while (clock_us() < until) {
		(void)poll(&p, 1, 100);
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

enum egress_news egress_next(struct egress *g, struct egress_event *ret)
{
	if (!egress_waiting(g)) {
		ssize_t n = recv(g->control, g->batch, sizeof(g->batch), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return EGRESS_QUIET;
		g->next = 0;
		g->n_batch = n > 0 ? (size_t)n / sizeof(*ret) : 0;
		if (n <= 0 || (size_t)n % sizeof(*ret))
			g->gone = true;
	}
	if (!g->gone)
		*ret = g->batch[g->next++];
	if (g->gone || ret->kind >= EGRESS_EVENT_KINDS) {
		g->gone = true;
		return EGRESS_GONE;
	}
	cut(ret->host, sizeof(ret->host));
	cut(ret->method, sizeof(ret->method));
	cut(ret->address, sizeof(ret->address));
	cut(ret->rule, sizeof(ret->rule));
	cut(ret->credential, sizeof(ret->credential));
	cut(ret->what, sizeof(ret->what));
	cut(ret->hint, sizeof(ret->hint));
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
	o->egress.bytes_out += ev->bytes_out;
	o->egress.bytes_in += ev->bytes_in;
}

void egress_denial(const struct egress_event *ev, struct outcome *o)
{
	char target[sizeof(ev->host) + 8], reason[EGRESS_REASON_SIZE];

	if (ev->kind != EGRESS_EVENT_DENY)
		return;
	(void)snprintf(target, sizeof(target), "%s:%u", ev->host, ev->port);
	egress_reason_text(ev, reason, sizeof(reason));
	outcome_deny_as(o,
			ev->reason == EGRESS_LEAK || ev->reason == EGRESS_CREDENTIAL_MISUSE
				? DENIAL_LEAK
				: DENIAL_NETWORK,
			"network", target, reason);
}

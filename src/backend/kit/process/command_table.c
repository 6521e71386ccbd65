/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/command_table.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "backend/kit/process/ends.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/buf.h"
#include "proc/files/files.h"
#include "proc/order.h"

#define BEGIN_MS 60000

struct job_command {
	uint32_t number; /* 0: nobody has this place */
	bool wanted;     /* the conductor has not been told of its end yet */
	bool there;      /* the supervisor has a place for it: it, or something it started, lives */
	int news;        /* an eventfd, readable once it has ended; -1 */
	int master;      /* of its terminal, until the conductor has it; -1 */
	enum supervisor_said said;
	int status;
	uint64_t started;              /* when it was executed; 0: not yet */
	const struct command *command; /* borrowed while it is wanted */
	struct err *failed;            /* why it was not started; NULL: it was, or no memory */
};

struct command_table {
	struct job_command all[COMMANDS_MAX];
	uint32_t last; /* number that was given */
};

struct command_table *command_table_new(void)
{
	return calloc(1, sizeof(struct command_table));
}

struct command_table *command_table_free(struct command_table *t)
{
	for (size_t i = 0; t && i < COMMANDS_MAX; i++)
		if (t->all[i].number) {
			(void)fd_close(t->all[i].news);
			(void)fd_close(t->all[i].master);
			free(t->all[i].failed);
		}
	free(t);
	return NULL;
}

static struct job_command *command_table_find(struct command_table *t, uint32_t number)
{
	for (size_t i = 0; t && number && i < COMMANDS_MAX; i++)
		if (t->all[i].number == number)
			return &t->all[i];
	return NULL;
}

size_t commands_there(const struct command_table *t)
{
	size_t n = 0;

	for (size_t i = 0; t && i < COMMANDS_MAX; i++)
		n += t->all[i].number && t->all[i].there;
	return n;
}

size_t commands_running(const struct command_table *t)
{
	size_t n = 0;

	for (size_t i = 0; t && i < COMMANDS_MAX; i++)
		n += t->all[i].wanted && t->all[i].said != SUPERVISOR_EXITED &&
		     t->all[i].said != SUPERVISOR_FAILED;
	return n;
}

/* A place is free again when neither side has a use for it. */
static void command_table_leave(struct job_command *k)
{
	if (k->wanted || k->there)
		return;
	(void)fd_close(k->news);
	(void)fd_close(k->master);
	free(k->failed);
	*k = (struct job_command){ 0 };
}

/* Of another process: its texts end. */
static struct err *copy_err(const struct err *from)
{
	struct err *e = malloc(sizeof(*e));

	if (!e)
		return NULL;
	*e = *from;
	e->what[sizeof(e->what) - 1] = e->hint[sizeof(e->hint) - 1] = '\0';
	if (!e->code)
		e->code = EIO;
	return e;
}

void command_said(struct command_table *t, const struct supervisor_msg *m)
{
	struct job_command *k = command_table_find(t, m->command);
	uint64_t one = 1;

	if (!k)
		return;
	if (m->said == SUPERVISOR_ENDED) {
		k->there = false;
		command_table_leave(k);
		return;
	}
	k->said = m->said;
	k->status = m->status;
	if (m->said == SUPERVISOR_STARTED)
		k->started = m->at;
	if (m->said == SUPERVISOR_EXITED && m->started)
		k->started = m->started;
	if (m->said == SUPERVISOR_FAILED && !k->failed)
		k->failed = copy_err(&m->err);
	if (m->said == SUPERVISOR_EXITED || m->said == SUPERVISOR_FAILED)
		(void)!write(k->news, &one, sizeof(one));
}

void command_terminal(struct command_table *t, uint32_t number, int master)
{
	struct job_command *k = command_table_find(t, number);

	if (k && k->master < 0 && isatty(master))
		k->master = master;
	else
		(void)fd_close(master);
}

static void say_why(const struct job_command *k, struct err *e)
{
	if (k->failed)
		*e = *k->failed;
	else
		(void)err_nomem(e);
}

bool command_began(const struct command_table *t, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (t->all[i].number == number)
			return t->all[i].started != 0;
	return false;
}

bool command_ended(struct command_table *t, uint32_t number, struct command_end *ret)
{
	struct job_command *k = command_table_find(t, number);

	if (!k || (k->said != SUPERVISOR_EXITED && k->said != SUPERVISOR_FAILED))
		return false;
	*ret = (struct command_end){ .status = k->status,
				     .started = k->started,
				     .refused = k->said == SUPERVISOR_FAILED,
				     .command = k->command };
	if (ret->refused)
		say_why(k, &ret->why);
	k->wanted = false;
	command_table_leave(k);
	return true;
}

void command_refused(const struct command_end *x, struct outcome *o)
{
	o->started = false;
	if (o->kind != OUTCOME_FAILED)
		return;
	o->error = x->why;
	if (x->why.kind != ERR_INTERNAL)
		o->kind = OUTCOME_REFUSED;
}

static struct job_command *new_place(struct command_table *t, const struct command *c,
				     struct err *e)
{
	struct job_command *k = NULL;

	for (size_t i = 0; i < COMMANDS_MAX && !k; i++)
		if (!t->all[i].number)
			k = &t->all[i];
	if (!k || t->last == UINT32_MAX) {
		(void)err_refuse(e, ERR_POLICY, EAGAIN,
				 "end one, or what it has left running, first",
				 "a sandbox has at most %d commands at a time", COMMANDS_MAX);
		return NULL;
	}
	k->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->news < 0) {
		(void)err_sys(e, "cannot listen to the command");
		return NULL;
	}
	k->number = ++t->last;
	k->master = -1;
	k->wanted = true;
	k->command = c;
	k->said = SUPERVISOR_BEGINS;
	return k;
}

/* ---- what the supervisor is told ---- */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* The sandbox's variables, with the command's own in their place or behind them. */
static const char **command_table_variables(const struct command_host *p, const struct command *c)
{
	size_t n = 0, m = 0;
	const char **all;

	while (p->envp[n])
		n++;
	while (c->env && c->env[m])
		m++;
	all = calloc(n + m + 1, sizeof(*all));
	if (!all)
		return NULL;
	memcpy(all, p->envp, n * sizeof(*all));
	for (size_t i = 0; i < m; i++) {
		size_t at = 0;

		while (at < n && !same_name(c->env[i], all[at]))
			at++;
		all[at] = c->env[i];
		n += at == n;
	}
	return all;
}

static const char *command_table_path_of(const char *const *env, const char *otherwise)
{
	for (; env && *env; env++)
		if (same_name("PATH=", *env))
			return *env + strlen("PATH=");
	return otherwise;
}

static int write_order(const struct command_host *p, const struct command *c, struct buf *b,
		       struct err *e)
{
	const char **env = command_table_variables(p, c);
	struct order o = { .argv = c->argv,
			   .envp = env,
			   .path = command_table_path_of(c->env, p->path),
			   .cwd = c->cwd ? c->cwd : p->cwd };
	int r = env ? order_write(&o, b, e) : err_nomem(e);

	free(env);
	return r;
}

/* The order behind the request, where it is taken there; else as the first descriptor. */
static int send_exec(const struct command_host *h, const struct supervisor_request *r,
		     const struct buf *order, const struct ends *pipes, struct err *e)
{
	int fds[] = { -1, pipes->out[1], pipes->err[1], pipes->in[0] };
	size_t n = r->tty ? 1 : ARRAY_LEN(fds) - (pipes->in[0] < 0);
	struct supervisor_packet p = { .ask = *r };
	int sent;

	if (h->takes_short && order->len <= sizeof(p.order)) {
		memcpy(p.order, order->data, order->len);
		sent = fd_send(h->control, &p, sizeof(p.ask) + order->len, fds + 1, n - 1);
	} else if (order_seal(order, &fds[0], e) < 0) {
		return -e->code;
	} else {
		sent = fd_send(h->control, r, sizeof(*r), fds, n);
		(void)fd_close(fds[0]);
	}
	return sent < 0 ? err_errno(e, sent, "cannot reach the sandbox") : 0;
}

static int command_table_ask(const struct command_host *h, struct job_command *k,
			     const struct buf *order, const struct ends *pipes,
			     const struct job_want *w, struct err *e)
{
	const struct supervisor_request r = { .asks = ASK_EXEC,
					      .command = k->number,
					      .tty = job_has_tty(w),
					      .rows = w->rows,
					      .cols = w->cols };
	int sent;

	k->there = true;
	sent = h->room ? h->room(h->job, commands_there(h->table), e) : 0;
	if (sent == 0)
		sent = send_exec(h, &r, order, pipes, e);
	k->there = sent == 0;
	return sent;
}

/* ---- until it has a terminal ---- */

static int wait_for_news(const struct command_host *h, const struct job_want *w, struct err *e)
{
	struct pollfd p[] = { { .fd = h->control, .events = POLLIN },
			      { .fd = h->pidfd, .events = POLLIN },
			      { .fd = w->host.asked_to_stop ? w->wake[0] : -1, .events = POLLIN },
			      { .fd = w->host.asked_to_stop ? w->wake[1] : -1, .events = POLLIN } };
	int n = wait_any(p, ARRAY_LEN(p), clock_after(BEGIN_MS));

	if (n < 0)
		return err_sys(e, "cannot wait for the sandbox");
	if (n == 0)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
			       "the command had no terminal within %d s", BEGIN_MS / 1000);
	if (!h->hear(h->job) || (n > 0 && p[1].revents))
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (n > 0 && w->host.asked_to_stop && (p[2].revents || p[3].revents) &&
	    w->host.asked_to_stop(w->host.arg))
		return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	return 0;
}

/* The supervisor itself makes it, whom nothing inside can stop. Both of our ends are the master. */
static int take_terminal(const struct command_host *h, struct job_command *k,
			 const struct job_want *w, struct ends *pipes, struct err *e)
{
	while (k->said == SUPERVISOR_BEGINS && k->master < 0)
		if (wait_for_news(h, w, e) < 0 && k->master < 0)
			return -e->code;
	if (k->master < 0) {
		say_why(k, e);
		return -e->code;
	}
	pipes->out[0] = TAKE_FD(k->master);
	pipes->in[1] = fcntl(pipes->out[0], F_DUPFD_CLOEXEC, 3);
	return pipes->in[1] < 0 ? err_sys(e, "the command's terminal was lost") : 0;
}

static void command_table_give_up(const struct command_host *h, struct job_command *k)
{
	const struct supervisor_request end = { .asks = ASK_SIGNAL,
						.command = k->number,
						.signal = SIGKILL };

	if (k->there)
		(void)fd_send(h->control, &end, sizeof(end), NULL, 0);
	k->wanted = false;
	command_table_leave(k);
}

/* How it goes is said to whoever holds its other ends. */
static int start_files(const struct command_host *h, const struct job_want *w, uint32_t *ret,
		       struct err *e)
{
	static const char *const none[] = { NULL };
	const struct order o = {
		.argv = w->command->argv, .envp = none, .path = "", .cwd = h->cwd
	};
	struct supervisor_request r = { .asks = ASK_EXEC, .files = true };
	CLEANUP(fd) int order = -1;
	struct job_command *k;
	int fds[1 + FILE_ENDS], sent;
	size_t n = 1;

	if (order_make(&o, &order, e) < 0 || !(k = new_place(h->table, NULL, e)))
		return -e->code;
	fds[0] = order;
	while (n <= FILE_ENDS && w->files[n - 1] >= 0) {
		fds[n] = w->files[n - 1];
		n++;
	}
	r.command = *ret = k->number;
	k->there = true;
	k->wanted = false;
	sent = h->room && h->room(h->job, commands_there(h->table), e) < 0
		       ? -e->code
		       : fd_send(h->control, &r, sizeof(r), fds, n);
	if (sent == 0)
		return 0;
	k->there = false;
	command_table_leave(k);
	return err_errno(e, sent, "cannot reach the sandbox");
}

int command_start(const struct command_host *h, const struct job_want *w, struct job_io *io,
		  uint32_t *ret, struct err *e)
{
	CLEANUP(buf) struct buf order = BUF_INIT(ORDER_MAX);
	struct ends pipes = ENDS_NONE;
	struct job_command *k = NULL;
	int r;

	if (w->files)
		return start_files(h, w, ret, e);
	if (job_has_tty(w) && !h->terminals)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "leave the terminal out",
				  "a command of an open sandbox cannot have a terminal");
	r = write_order(h, w->command, &order, e);
	if (r == 0)
		r = ends_pipes(&pipes, w, e);
	if (r == 0) {
		k = new_place(h->table, w->command, e);
		r = k ? command_table_ask(h, k, &order, &pipes, w, e) : -e->code;
	}
	pipes.out[1] = fd_close(pipes.out[1]);
	pipes.err[1] = fd_close(pipes.err[1]);
	if (k && r == 0 && job_has_tty(w))
		r = take_terminal(h, k, w, &pipes, e);
	if (k && r == 0) {
		*ret = k->number;
		*io = (struct job_io){ .in = TAKE_FD(pipes.in[1]),
				       .out = TAKE_FD(pipes.out[0]),
				       .err = TAKE_FD(pipes.err[0]),
				       .in_peer = TAKE_FD(pipes.in[0]),
				       .events = k->news,
				       .alarm = -1,
				       .names = -1,
				       .agent = -1 };
	} else if (k) {
		command_table_give_up(h, k);
	}
	ends_done(&pipes);
	return r;
}

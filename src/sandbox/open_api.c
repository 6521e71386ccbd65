/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/open_api.c - brig.h: sandboxes that stay open, and the commands in them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "egress/members_named.h"
#include "model/settings/envrules.h"
#include "proc/order.h"
#include "sandbox/manager_internal.h"

struct brig_sandbox {
	struct spec *spec;
	struct sandbox *opened;
	struct outcome *o; /* until brig_sandbox_close gives it away */
	int cancel;        /* a copy of the request's */
	int over;          /* always readable; -1: nobody asked */
};

static void sandbox_free(brig_sandbox *s)
{
	if (!s)
		return;
	run_close(s->opened);
	(void)outcome_free(s->o);
	(void)spec_free(s->spec);
	(void)fd_close(s->cancel);
	(void)fd_close(s->over);
	free(s);
}

/* ---- opening ---- */

static int check_shape(const brig_request *q, struct err *e)
{
	const struct spec *s = q->spec;

	if (q->sandbox)
		return err_set(e, ERR_USAGE, EINVAL, "the request is a command of an open sandbox");
	if (s->command.argv || s->command.code.kind != CODE_NONE || q->io.in >= 0 ||
	    q->io.out >= 0 || q->io.err >= 0)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig_sandbox_command makes a request for it",
				  "a sandbox is opened without a command, input or output");
	if (s->command.tty)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "leave 'tty' out",
				  "a command of an open sandbox cannot have a terminal");
	return 0;
}

static brig_sandbox *sandbox_new(const brig_request *q, struct err *e)
{
	brig_sandbox *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_nomem(e);
		return NULL;
	}
	s->over = -1;
	s->cancel = fcntl(q->io.cancel, F_DUPFD_CLOEXEC, 3);
	s->o = outcome_new();
	s->spec = request_checked(q, e);
	if (s->cancel < 0)
		(void)err_sys(e, "cannot listen to a cancel");
	else if (!s->o)
		(void)err_nomem(e);
	else if (s->spec)
		return s;
	sandbox_free(s);
	return NULL;
}

int brig_sandbox_open(brig_request *q, brig_sandbox **ret, struct brig_error *be)
{
	struct err e = { 0 };
	brig_sandbox *s = check_shape(q, &e) < 0 ? NULL : sandbox_new(q, &e);

	*ret = NULL;
	if (!s)
		return error_give(&e, be);
	s->opened = run_open(s->spec, s->cancel, &q->io, q->note, q->note_arg, s->o);
	if (!s->opened || run_open_over(s->opened)) {
		e = s->o->error;
		sandbox_free(s);
		if (!e.code)
			(void)err_set(&e, ERR_INTERNAL, ECANCELED, "the sandbox was given up");
		return error_give(&e, be);
	}
	*ret = s;
	return 0;
}

/* ---- commands ---- */

brig_request *brig_sandbox_command(brig_sandbox *s)
{
	struct err e;
	brig_request *q = request_with(spec_new(&e));

	if (q)
		q->sandbox = s;
	return q;
}

int brig_request_folder(brig_request *q, const char *path, struct brig_error *be)
{
	struct err e = { 0 };
	char *copy;

	if (!path || path[0] != '/') {
		(void)err_set(&e, ERR_USAGE, EINVAL, "the folder must be named from the root on");
		return error_give(&e, be);
	}
	copy = strdup(path);
	if (!copy) {
		(void)err_nomem(&e);
		return error_give(&e, be);
	}
	free(q->folder);
	q->folder = copy;
	return 0;
}

/* As NAME=VALUE in an arena, each with a name that a variable can have. */
static const char *const *order_variables(struct arena *a, const char *const *from, struct err *e)
{
	const char **v;
	size_t n = 0;

	while (from[n])
		n++;
	v = arena_alloc(a, (n + 1) * sizeof(*v));
	for (size_t i = 0; v && i < n; i++) {
		const char *equals = strchr(from[i], '=');
		const char *name = arena_strndup(a, from[i], strcspn(from[i], "="));

		if (name && (!equals || !env_name_valid(name))) {
			(void)err_refuse(e, ERR_USAGE, EINVAL,
					 "letters, digits and '_', and no digit in front",
					 "'%s' is not a variable name", name);
			return NULL;
		}
		v[i] = arena_strdup(a, from[i]);
		if (!name || !v[i])
			v = NULL;
	}
	if (!v)
		(void)err_nomem(e);
	return v;
}

int request_order(brig_request *q, const struct order *o, struct brig_error *be)
{
	struct command *c = &q->spec->command;
	struct err e = { 0 };

	if (brig_request_argv(q, o->argv, be) < 0 ||
	    (*o->cwd && brig_request_folder(q, o->cwd, be) < 0))
		return -be->errnum;
	c->env = order_variables(q->spec->arena, o->envp, &e);
	return c->env ? 0 : error_give(&e, be);
}

void request_terminal(brig_request *q, unsigned short rows, unsigned short cols)
{
	q->tty = true;
	q->io.rows = rows ? rows : 24;
	q->io.cols = cols ? cols : 80;
}

/* What a command has of its own; the rest is the sandbox's. */
static const enum field_id of_commands[] = { FIELD_ENV, FIELD_TIMEOUT, FIELD_OUTPUT };

static bool is_of_commands(enum field_id id)
{
	for (size_t i = 0; i < ARRAY_LEN(of_commands); i++)
		if (of_commands[i] == id)
			return true;
	return false;
}

static int check_command(const brig_sandbox *s, const brig_request *q, struct err *e)
{
	const char *const *argv = q->spec->command.argv;

	if (q->sandbox != s)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig_sandbox_command makes a request for it",
				  "the request is not for a command of this sandbox");
	if (q->spec->command.code.kind != CODE_NONE)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "write it to the workspace, or name its interpreter and give it "
				  "as input",
				  "code cannot be shown in a sandbox that is open already");
	if (!argv || !argv[0])
		return err_set(e, ERR_USAGE, EINVAL, "no command was given");
	if (!*argv[0])
		return err_refuse(e, ERR_USAGE, EINVAL, "an unset variable? name a program",
				  "the command is an empty word");
	for (int i = 0; i < FIELD_COUNT; i++)
		if (!is_of_commands((enum field_id)i) && spec_asks(q->spec, (enum field_id)i))
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "set it in the request that opens the sandbox",
					  "'%s' is a setting of the sandbox, not of a command",
					  fields[i].key);
	return 0;
}

static const char *const *open_api_variables(struct arena *a, const struct envlist *l)
{
	const char **v = arena_alloc(a, (l->n + 1) * sizeof(*v));

	for (size_t i = 0; v && i < l->n; i++)
		if (!(v[i] = arena_printf(a, "%s=%s", l->v[i].name, l->v[i].value)))
			return NULL;
	return v;
}

/* The sandbox's spec with this command in it. */
static struct spec *spec_of(const brig_sandbox *s, const brig_request *q, struct err *e)
{
	const struct spec *own = q->spec;
	CLEANUP(spec) struct spec *x = spec_clone(s->spec, e);

	if (!x)
		return NULL;
	x->command.tty = q->tty;
	for (size_t i = 0; i < ARRAY_LEN(of_commands); i++)
		if (spec_asks(own, of_commands[i]))
			x->origin[of_commands[i]] = own->origin[of_commands[i]];
	x->command.argv = own->command.argv;
	x->command.env =
		own->command.env ? own->command.env : open_api_variables(x->arena, &own->env);
	x->command.cwd = q->folder;
	if (spec_asks(own, FIELD_TIMEOUT))
		x->command.timeout = own->command.timeout;
	if (spec_asks(own, FIELD_OUTPUT))
		x->command.output = own->command.output;
	if (x->command.env)
		return TAKE_PTR(x);
	(void)err_nomem(e);
	return NULL;
}

struct command_limits sandbox_limits(const brig_sandbox *s, const brig_request *q)
{
	const struct spec *timeout = spec_asks(q->spec, FIELD_TIMEOUT) ? q->spec : s->spec,
			  *output = spec_asks(q->spec, FIELD_OUTPUT) ? q->spec : s->spec;

	return (struct command_limits){ timeout->command.timeout, output->command.output };
}

int brig_sandbox_exec(brig_sandbox *s, brig_request *q, brig_run **ret, struct brig_error *be)
{
	brig_run *x = run_handle_new(q);
	struct err e = { 0 };

	*ret = NULL;
	if (!x) {
		(void)err_nomem(&e);
		return error_give(&e, be);
	}
	telemetry_begin(&x->telemetry, q->note, q->note_arg);
	if (check_command(s, q, &e) < 0 || !(x->spec = spec_of(s, q, &e)))
		run_handle_refuse(x, s->spec, &e);
	else
		x->run = run_exec(s->opened, x->spec, &q->io, q->note, q->note_arg, x->result->o);
	*ret = x;
	return 0;
}

/* ---- turning and closing ---- */

int brig_sandbox_fd(brig_sandbox *s)
{
	if (!run_open_over(s->opened))
		return run_open_fd(s->opened);
	if (s->over < 0)
		s->over = eventfd(1, EFD_CLOEXEC);
	return s->over < 0 ? -errno : s->over;
}

int brig_sandbox_dispatch(brig_sandbox *s)
{
	run_open_dispatch(s->opened);
	return !run_open_over(s->opened);
}

const char *brig_sandbox_id(const brig_sandbox *s)
{
	return s->o->id;
}

void sandbox_signal(brig_sandbox *s, int sig)
{
	run_open_signal(s->opened, sig);
}

void sandbox_end_command(brig_sandbox *s, uint32_t number)
{
	run_end_command(s->opened, number);
}

int sandbox_pause(brig_sandbox *s, bool on, struct err *e)
{
	return run_pause(s->opened, on, e);
}

int sandbox_changes(brig_sandbox *s, int (*put)(void *arg, const char *data, size_t n), void *arg,
		    struct err *e)
{
	return run_open_changes(s->opened, put, arg, e);
}

int sandbox_changes_of(const struct spec *s, const char *run,
		       int (*put)(void *arg, const char *data, size_t n), void *arg, struct err *e)
{
	return run_changes(s, run, put, arg, e);
}

int sandbox_files(brig_sandbox *s, const char *const *words, const int *ends, uint32_t *ret,
		  struct err *e)
{
	return run_files(s->opened, words, ends, ret, e);
}

int sandbox_router(const struct spec *s, struct members_router *ret, struct err *e)
{
	CLEANUP(fd) int router = -1, packets = -1, streams = -1;
	struct resolving names = { 0 };

	if (backend_members_open(&router, &packets, &streams, e) < 0 ||
	    members_named_start(&names, packets, streams, &s->members, e) < 0)
		return -e->code;
	*ret = (struct members_router){ .fd = TAKE_FD(router),
					.pid = names.pid,
					.pidfd = names.pidfd };
	return 0;
}

void sandbox_router_close(struct members_router *r)
{
	struct resolving names = { .pid = r->pid, .pidfd = r->pidfd };

	if (r->fd < 0)
		return;
	resolving_stop(&names);
	*r = (struct members_router){ .fd = fd_close(r->fd) };
}

void request_line(brig_request *q, int here, int there)
{
	q->line[0] = here;
	q->line[1] = there;
	q->io.line = q->line;
}

void request_seat(brig_request *q, int router, unsigned n)
{
	q->seat = (struct seat){ .router = router, .place = n };
	q->io.seat = &q->seat;
}

const char *const *sandbox_image_command(const brig_sandbox *s, const char **folder)
{
	return run_image_command(s->opened, folder);
}

int sandbox_answer(brig_sandbox *s, uint32_t id, enum run_answer a, const char *by, struct err *e)
{
	return run_open_answer(s->opened, id, a, by, e);
}

size_t sandbox_living(const brig_sandbox *s)
{
	return run_living(s->opened);
}

const struct outcome *sandbox_facts(const brig_sandbox *s)
{
	return s->o;
}

uint64_t sandbox_questions(const brig_sandbox *s)
{
	return run_open_questions(s->opened);
}

void sandbox_explain(const brig_sandbox *s, uint64_t questions, const char *said, size_t n,
		     struct outcome *o)
{
	run_open_explain(s->opened, questions, said, n, o);
}

int brig_sandbox_close(brig_sandbox *s, brig_result **ret, struct brig_error *be)
{
	brig_result *r;
	struct err e;

	if (ret)
		*ret = NULL;
	if (!s)
		return 0;
	run_close(s->opened);
	s->opened = NULL;
	e = s->o->error;
	r = ret ? result_new(s->o) : NULL;
	if (r)
		s->o = NULL;
	else if (ret && !e.code)
		(void)err_nomem(&e);
	if (ret)
		*ret = r;
	sandbox_free(s);
	return e.code ? error_give(&e, be) : 0;
}

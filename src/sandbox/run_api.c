/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run_api.c - brig.h: a run, turned to its end, and its result. */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/files/fd.h"
#include "sandbox/manager_internal.h"
#include "sandbox/recorder.h"

#define JSON_MAX ((size_t)3 << 30)

brig_result *result_new(struct outcome *o)
{
	brig_result *r = calloc(1, sizeof(*r));

	if (r)
		r->o = o;
	return r;
}

void run_handle_refuse(brig_run *x, const struct spec *s, const struct err *e)
{
	struct err unrecorded = { 0 };

	x->result->o->kind = OUTCOME_REFUSED;
	x->result->o->error = *e;
	(void)recorder_refused(s, "run", e, &unrecorded); /* refused anyway */
}

brig_run *run_handle_new(const brig_request *q)
{
	brig_run *x = calloc(1, sizeof(*x));
	struct outcome *o = outcome_new();

	if (x && o)
		x->result = result_new(o);
	if (!x || !x->result) {
		(void)outcome_free(o);
		free(x);
		return NULL;
	}
	x->over = -1;
	x->asked = q->spec;
	return x;
}

int brig_start(brig_request *q, brig_run **ret, struct brig_error *be)
{
	brig_run *x = run_handle_new(q);
	struct err e = { 0 };

	*ret = NULL;
	if (!x) {
		(void)err_nomem(&e);
		return error_give(&e, be);
	}
	x->spec = request_to_run(q, &e);
	telemetry_begin(&x->telemetry, q->note, q->note_arg);
	if (x->spec) {
		telemetry_pass(&x->telemetry, x->spec);
		x->run = run_begin(x->spec, &q->io, q->note, q->note_arg, x->result->o);
	} else {
		run_handle_refuse(x, q->spec, &e);
	}
	*ret = x;
	return 0;
}

/* One that is over before anybody asked has no loop to wait for. */
int brig_run_fd(brig_run *x)
{
	if (x->run && !run_over(x->run))
		return run_fd(x->run);
	if (x->over < 0)
		x->over = eventfd(1, EFD_CLOEXEC);
	return x->over < 0 ? -errno : x->over;
}

int brig_run_dispatch(brig_run *x)
{
	if (x->run)
		run_dispatch(x->run);
	return x->run && !run_over(x->run);
}

void run_handle_resize(brig_run *x, unsigned short rows, unsigned short cols)
{
	if (x->run)
		run_resize(x->run, rows, cols);
}

void run_handle_signal(brig_run *x, int sig)
{
	if (x->run)
		run_signal(x->run, sig);
}

int run_handle_answer(brig_run *x, uint32_t id, enum run_answer a, const char *by, struct err *e)
{
	return x->run ? run_answer(x->run, id, a, by, e)
		      : err_set(e, ERR_USAGE, ENOENT, "the run is over");
}

void run_handle_drop(brig_run *x)
{
	if (x->run)
		run_drop_output(x->run);
}

bool run_handle_began(const brig_run *x)
{
	return x->run && run_began(x->run);
}

const char *run_handle_id(const brig_run *x)
{
	return x->result->o->id;
}

uint32_t run_handle_number(const brig_run *x)
{
	return x->run ? run_number(x->run) : 0;
}

int brig_run_finish(brig_run *x, brig_result **ret, struct brig_error *be)
{
	brig_result *r = x->result;

	run_end(x->run);
	(void)fd_close(x->over);
	telemetry_end(&x->telemetry, x->spec ? x->spec : x->asked, r->o);
	(void)spec_free(x->spec);
	free(x);
	*ret = r;
	return r->o->error.code ? error_give(&r->o->error, be) : 0;
}

int brig_execute(brig_request *q, brig_result **ret, struct brig_error *e)
{
	brig_run *x;
	int r;

	*ret = NULL;
	r = brig_start(q, &x, e);
	return r < 0 ? r : brig_run_finish(x, ret, e);
}

static int execute_line(brig_request *q, const char *line, const char *workdir,
			const char *const *env, brig_result **ret, struct brig_error *be)
{
	int r = brig_request_shell(q, line, be);

	if (r == 0)
		r = brig_request_workdir(q, workdir, be);
	for (; r == 0 && env && *env; env++)
		r = brig_request_set(q, "env.set", *env, be);
	return r == 0 ? brig_execute(q, ret, be) : r;
}

static brig_request *new_request(brig_manager *m, struct brig_error *be)
{
	brig_request *q = brig_request_new(m);
	struct err e = { 0 };

	if (!q) {
		(void)err_nomem(&e);
		error_export(&e, be);
	}
	return q;
}

int brig_execute_command(brig_manager *m, const char *line, const char *workdir,
			 const char *const *env, brig_result **ret, struct brig_error *e)
{
	brig_request *q = new_request(m, e);
	int r;

	*ret = NULL;
	r = q ? execute_line(q, line, workdir, env, ret, e) : -ENOMEM;

	brig_request_free(q);
	return r;
}

int brig_execute_with_policy(brig_manager *m, const char *line, const char *workdir,
			     enum brig_policy policy, const char *const *env, brig_result **ret,
			     struct brig_error *e)
{
	brig_request *q = new_request(m, e);
	int r = q ? brig_request_policy(q, policy, e) : -ENOMEM;

	*ret = NULL;
	if (r == 0)
		r = execute_line(q, line, workdir, env, ret, e);
	brig_request_free(q);
	return r;
}

int brig_execute_with_limits(brig_manager *m, const char *line, const char *workdir,
			     const struct brig_limits *limits, brig_result **ret,
			     struct brig_error *e)
{
	brig_request *q = new_request(m, e);
	int r = q ? brig_request_limits(q, limits, e) : -ENOMEM;

	*ret = NULL;
	if (r == 0)
		r = execute_line(q, line, workdir, NULL, ret, e);
	brig_request_free(q);
	return r;
}

void brig_result_free(brig_result *r)
{
	if (!r)
		return;
	(void)outcome_free(r->o);
	free(r);
}

struct outcome *result_outcome(brig_result *r)
{
	return r->o;
}

const char *brig_result_outcome(const brig_result *r)
{
	return outcome_name(r->o->kind);
}

int brig_result_exit_code(const brig_result *r)
{
	return outcome_status(r->o);
}

int brig_result_signal(const brig_result *r)
{
	return r->o->signal;
}

static const char *text(const struct stream *s, size_t *n)
{
	if (n)
		*n = s->data.len;
	return buf_str(&s->data);
}

const char *brig_result_stdout(const brig_result *r, size_t *n)
{
	return text(&r->o->out, n);
}

const char *brig_result_stderr(const brig_result *r, size_t *n)
{
	return text(&r->o->err, n);
}

const char *brig_result_output(const brig_result *r, size_t *n)
{
	return text(&r->o->both, n);
}

char *brig_result_text(const brig_result *r, size_t max)
{
	return outcome_text(r->o, max);
}

int brig_result_lost(const brig_result *r)
{
	return r->o->out.lost ? r->o->out.lost : r->o->err.lost;
}

int brig_result_truncated(const brig_result *r)
{
	return r->o->out.truncated || r->o->err.truncated;
}

uint64_t brig_result_duration_us(const brig_result *r)
{
	return r->o->duration_us;
}

const char *brig_result_id(const brig_result *r)
{
	return r->o->id;
}

char *brig_result_json(const brig_result *r)
{
	CLEANUP(buf) struct buf b = BUF_INIT(JSON_MAX);
	struct json j;

	json_init(&j, &b, true);
	outcome_json(r->o, &j);
	buf_putc(&b, '\n');
	return buf_take(&b);
}

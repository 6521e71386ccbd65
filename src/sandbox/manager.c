/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/manager.c - brig.h: managers, requests and results around the conductor. */
#include "sandbox/manager_internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "backend/backend.h"
#include "base/files/fd.h"
#include "sandbox/health.h"
#include "sandbox/recorder.h"

#define JSON_MAX ((size_t)3 << 30)
#define PLAN_JSON_MAX ((size_t)64 << 20)

struct brig_manager {
	struct spec *spec;
};

const char *brig_version(void)
{
	return BRIG_VERSION;
}

void error_export(const struct err *from, struct brig_error *to)
{
	to->errnum = from->code;
	(void)snprintf(to->code, sizeof(to->code), "%s", err_kind_name(from->kind));
	memcpy(to->what, from->what, sizeof(to->what));
	memcpy(to->hint, from->hint, sizeof(to->hint));
}

void error_import(const struct brig_error *from, struct err *to)
{
	enum err_kind kind = ERR_INTERNAL;

	for (int i = 0; i < ERR_KINDS; i++)
		if (strcmp(from->code, err_kind_name((enum err_kind)i)) == 0)
			kind = (enum err_kind)i;
	(void)err_refuse(to, kind, from->errnum, from->hint, "%s", from->what);
}

int error_give(const struct err *from, struct brig_error *to)
{
	error_export(from, to);
	return -from->code;
}

int error_missing(const char *what, struct brig_error *to)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_USAGE, EINVAL, "no %s was given", what);
	return error_give(&e, to);
}

int error_name(const char *what, const char *name, struct err *e)
{
	if (*name && !strchr(name, '='))
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "what stands behind '=' is the value's place",
			  "'%.60s' cannot be the name of a %s", name, what);
}

brig_manager *brig_manager_new(void)
{
	brig_manager *m = calloc(1, sizeof(*m));
	struct err e;

	if (!m)
		return NULL;
	m->spec = spec_new(&e);
	if (m->spec)
		return m;
	free(m);
	return NULL;
}

void brig_manager_free(brig_manager *m)
{
	if (!m)
		return;
	(void)spec_free(m->spec);
	free(m);
}

const struct spec *manager_spec(const brig_manager *m)
{
	return m->spec;
}

int brig_manager_set(brig_manager *m, const char *key, const char *value, struct brig_error *be)
{
	struct err e = { 0 };

	if (!key || !value)
		return error_missing(key ? "value" : "name of a setting", be);
	return spec_set_key(m->spec, key, value, ORIGIN_API, &e) < 0 ? error_give(&e, be) : 0;
}

int brig_manager_ready(brig_manager *m, struct brig_error *be)
{
	struct backend_choice c;
	struct isolation got;
	struct err e = { 0 };

	if (backend_choose(m->spec, &c, &e) < 0 || c.backend->probe(m->spec, &got, &e) < 0)
		return error_give(&e, be);
	return 0;
}

int brig_backend_health(brig_manager *m, const char *backend, uint64_t timeout_ms, char *detail,
			size_t n)
{
	unsigned ms =
		timeout_ms ? (unsigned)(timeout_ms < 600000 ? timeout_ms : 600000) : HEALTH_MS;
	const struct backend *b = backend ? backend_by_name(backend) : NULL;

	if (!backend)
		return (void)snprintf(detail, n, "no backend was given"), -EINVAL;
	if (b)
		return backend_health(b, m->spec, ms, detail, n);
	(void)snprintf(detail, n, "there is no backend '%.64s'", backend);
	return -EINVAL;
}

void sandbox_tidy(void)
{
	backends_tidy(NULL);
}

int sandbox_judged(const char *path, struct err *e)
{
	return backends_judged(path, e);
}

struct outcome *sandbox_told(const struct spec *s)
{
	struct outcome *o = outcome_new();

	if (o && s->workdir)
		backends_told(s->workdir, o);
	return o;
}

int sandbox_prune_pods(bool dry, void (*said)(void *arg, const char *pod), void *arg, struct err *e)
{
	return kube_prune(dry, said, arg, e);
}

int sandbox_prune_spools(bool dry, void (*said)(void *arg, const char *spool), void *arg,
			 struct err *e)
{
	return slurm_prune(dry, said, arg, e);
}

_Noreturn void sandbox_inside(int letter)
{
	backend_inside(letter);
}

/* The opt-in for a run on the host may not be all that is missing: then the rest is told. */
static int manager_choose(const struct spec *s, struct backend_choice *c, struct err *e)
{
	CLEANUP(spec) struct spec *opted = NULL;
	struct err more = { 0 };

	if (backend_choose(s, c, e) == 0)
		return 0;
	opted = s->full_access_ok ? NULL : spec_clone(s, &more);
	if (!opted)
		return -e->code;
	opted->full_access_ok = true;
	if (backend_choose(opted, c, &more) < 0 || backend_would_take(opted, c->backend, &more) < 0)
		*e = more;
	return -e->code;
}

int spec_backend(const struct spec *s, const char **name, enum spec_fault *why, struct err *e)
{
	struct backend_choice c;
	struct isolation unused;

	*why = FAULT_VERSION;
	if (manager_choose(s, &c, e) < 0)
		return -e->code;
	*name = c.backend->name;
	if (backend_would_take(s, c.backend, e) < 0) {
		*why = e->kind != ERR_UNAVAILABLE ? FAULT_FILE : FAULT_VERSION;
		return -e->code;
	}
	*why = FAULT_MACHINE;
	/* An engine is on this machine; another host is not asked about a file. */
	return c.backend->can & BACKEND_ENGINE ? c.backend->probe(s, &unused, e) : 0;
}

int companion_backend(const struct spec *s, const char **name, struct err *e)
{
	struct backend_choice c;

	if (manager_choose(s, &c, e) < 0)
		return -e->code;
	*name = c.backend->can & BACKEND_ENGINE ? c.backend->name : NULL;
	return 0;
}

brig_request *request_with(struct spec *spec)
{
	brig_request *q = calloc(1, sizeof(*q));

	if (!q) {
		(void)spec_free(spec);
		return NULL;
	}
	q->input = -1;
	q->io = (struct run_io){ .in = -1, .out = -1, .err = -1, .signals = -1, .cancel = -1 };
	q->spec = spec;
	q->io.cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->spec && q->io.cancel >= 0)
		return q;
	brig_request_free(q);
	return NULL;
}

brig_request *request_from(const struct spec *s)
{
	struct err e;

	return request_with(spec_clone(s, &e));
}

brig_request *brig_request_new(brig_manager *m)
{
	return request_from(m->spec);
}

void brig_request_free(brig_request *q)
{
	if (!q)
		return;
	(void)fd_close(q->input);
	(void)fd_close(q->io.cancel);
	(void)spec_free(q->spec);
	free(q->folder);
	free(q);
}

struct spec *request_spec(brig_request *q)
{
	return q->spec;
}

void request_signals(brig_request *q, int signalfd)
{
	q->io.signals = signalfd;
}

void request_tell(brig_request *q)
{
	q->io.tells = q->io.apart = true;
}

void request_apart(brig_request *q)
{
	q->io.apart = true;
}

int brig_request_set(brig_request *q, const char *key, const char *value, struct brig_error *be)
{
	struct err e = { 0 };

	if (!key || !value)
		return error_missing(key ? "value" : "name of a setting", be);
	return spec_set_key(q->spec, key, value, ORIGIN_API, &e) < 0 ? error_give(&e, be) : 0;
}

int brig_request_argv(brig_request *q, const char *const *argv, struct brig_error *be)
{
	struct err e = { 0 };
	int n = 0;

	while (argv && argv[n])
		n++;
	if (!n)
		return error_missing("command", be);
	return spec_set_argv(q->spec, n, (char *const *)(uintptr_t)argv, &e) < 0
		       ? error_give(&e, be)
		       : 0;
}

int brig_request_shell(brig_request *q, const char *line, struct brig_error *e)
{
	const char *const argv[] = { "/bin/sh", "-c", "--", line, NULL };

	return line ? brig_request_argv(q, argv, e) : error_missing("command", e);
}

int brig_request_workdir(brig_request *q, const char *path, struct brig_error *e)
{
	return brig_request_set(q, "workspace.path", path, e);
}

int brig_request_env(brig_request *q, const char *name, const char *value, struct brig_error *be)
{
	char *text = NULL;
	struct err e = { 0 };
	int r;

	if (!name || !value)
		return error_missing(name ? "value" : "name of a variable", be);
	if (error_name("variable", name, &e) < 0)
		return error_give(&e, be);
	r = asprintf(&text, "%s=%s", name, value);
	if (r < 0) {
		(void)err_nomem(&e);
		return error_give(&e, be);
	}
	r = brig_request_set(q, "env.set", text, be);
	free(text);
	return r;
}

int brig_request_policy(brig_request *q, enum brig_policy policy, struct brig_error *be)
{
	struct err e = { 0 };

	if ((unsigned)policy > BRIG_FULL_ACCESS) {
		(void)err_set(&e, ERR_USAGE, EINVAL, "unknown policy %d", (int)policy);
		return error_give(&e, be);
	}
	return brig_request_set(q, "policy", fields[FIELD_POLICY].words[policy], be);
}

static int manager_set_number(brig_request *q, const char *key, uint64_t v, const char *unit,
			      struct brig_error *e)
{
	char text[48];

	if (!v)
		return 0;
	(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, unit);
	return brig_request_set(q, key, text, e);
}

int brig_request_limits(brig_request *q, const struct brig_limits *l, struct brig_error *e)
{
	char cpus[32];
	int r;

	if (!l)
		return error_missing("limit", e);
	r = manager_set_number(q, "limits.memory", l->memory_bytes, "b", e);
	(void)snprintf(cpus, sizeof(cpus), "%llu.%03llu", (unsigned long long)l->cpu_milli / 1000,
		       (unsigned long long)l->cpu_milli % 1000);
	if (r == 0)
		r = manager_set_number(q, "limits.cpu_shares", l->cpu_shares, "", e);
	if (r == 0)
		r = manager_set_number(q, "limits.timeout", l->timeout_ms, "ms", e);
	if (r == 0)
		r = manager_set_number(q, "limits.output", l->max_output_bytes, "b", e);
	if (r == 0)
		r = manager_set_number(q, "limits.pids", l->pids, "", e);
	if (r == 0 && l->cpu_milli)
		r = brig_request_set(q, "limits.cpus", cpus, e);
	return r == 0 ? manager_set_number(q, "limits.disk", l->disk_bytes, "b", e) : r;
}

int brig_request_input(brig_request *q, const void *data, size_t n, struct brig_error *be)
{
	CLEANUP(fd) int fd = memfd_create("brig-input", MFD_CLOEXEC);
	struct err e = { 0 };
	int r = fd < 0 ? -errno : 0;

	if (!data && n)
		return error_missing("input", be);
	if (r == 0 && n)
		r = fd_write_all(fd, data, n);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r < 0) {
		(void)err_errno(&e, r, "cannot keep the input");
		return error_give(&e, be);
	}
	(void)fd_close(q->input);
	q->input = TAKE_FD(fd);
	q->io.in = q->input;
	return 0;
}

void brig_request_stdio(brig_request *q, int in, int out, int err)
{
	q->io.in = in >= 0 ? in : q->input;
	q->io.out = out;
	q->io.err = err;
}

void brig_request_on_output(brig_request *q, brig_output_fn *fn, void *arg)
{
	q->io.on_output = fn;
	q->io.arg = arg;
}

void brig_request_on_note(brig_request *q, brig_note_fn *fn, void *arg)
{
	q->note = fn;
	q->note_arg = arg;
}

void request_asks(brig_request *q, int terminal, always_fn *always)
{
	q->io.terminal = terminal > 0 ? terminal : 0;
	q->io.always = always;
}

void request_asker(brig_request *q, const struct name_asker *a)
{
	q->io.asker = a;
}

void brig_request_cancel(brig_request *q)
{
	uint64_t one = 1;
	int saved = errno;

	(void)!write(q->io.cancel, &one, sizeof(one));
	errno = saved;
}

/* A copy, because checking fills in what was left open and the request may be run again
 * elsewhere. */
struct spec *request_checked(const brig_request *q, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_clone(q->spec, e);

	char cwd[PATH_MAX];
	const char *home = getenv("HOME");
	struct place at = { .cwd = cwd, .home = home && home[0] == '/' ? home : NULL };

	if (!s)
		return NULL;
	s->command.argv = q->spec->command.argv;
	if (getcwd(cwd, sizeof(cwd)) && cwd[0] == '/')
		return spec_check(s, &at, e) == 0 ? TAKE_PTR(s) : NULL;
	(void)err_sys(e, "the current folder is gone");
	(void)err_hint(e, "change to one that exists: cd \"$HOME\"");
	return NULL;
}

/* The request as it is to be run. */
static struct spec *checked(const brig_request *q, struct err *e)
{
	const char *const *argv = q->spec->command.argv;

	if (q->sandbox || q->folder)
		(void)err_refuse(e, ERR_USAGE, EINVAL, "brig_sandbox_exec runs it",
				 "the request is a command of an open sandbox");
	else if (q->spec->command.code.kind == CODE_NONE && (!argv || !argv[0]))
		(void)err_set(e, ERR_USAGE, EINVAL, "no command was given");
	else if (q->spec->command.code.kind == CODE_NONE && !*argv[0])
		(void)err_refuse(e, ERR_USAGE, EINVAL, "an unset variable? name a program",
				 "the command is an empty word");
	else
		return request_checked(q, e);
	return NULL;
}

int brig_request_plan(brig_request *q, char **json, struct brig_error *be)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PLAN_JSON_MAX);
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = checked(q, &e);
	struct json j;

	*json = NULL;
	json_init(&j, &b, true);
	if (!s || sandbox_plan(s, &j, &e) < 0)
		return error_give(&e, be);
	*json = buf_take(&b);
	if (*json)
		return 0;
	(void)err_nomem(&e);
	return error_give(&e, be);
}

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
	x->spec = checked(q, &e);
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

int sandbox_pull(const char *backend, const char *ref, brig_note_fn *note, void *arg, struct err *e)
{
	const struct backend *b = backend ? backend_by_name(backend) : backend_with(BACKEND_ENGINE);

	if (!b || !b->maker || !b->maker->pull)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave out --backend",
				  "backend '%.40s' has no images", backend ? backend : "");
	return b->maker->pull(ref, note, arg, e);
}

int sandbox_build(const char *ref, const char *text, const char *base, brig_note_fn *note,
		  void *arg, struct err *e)
{
	const struct backend *b = backend_with(BACKEND_ENGINE);
	const struct image_recipe r = { .ref = ref, .text = text, .base = base };

	return b && b->maker && b->maker->build
		       ? b->maker->build(&r, note, arg, e)
		       : err_set(e, ERR_UNAVAILABLE, ENOSYS, "no backend builds images");
}

const struct outcome *result_outcome(const brig_result *r)
{
	return r->o;
}

void result_deny_since(brig_result *r, const struct outcome *box, const uint64_t *mark, size_t n)
{
	outcome_deny_since(r->o, box, mark, n);
}

void result_ends_with(brig_result *r, const brig_result *box, const uint64_t *mark, size_t n)
{
	outcome_ends_with(r->o, box->o, mark, n);
}

void result_cut(brig_result *r)
{
	r->o->out.truncated = r->o->err.truncated = true;
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

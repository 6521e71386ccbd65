/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/request_api.c - brig.h: what is asked for, to be run once or often. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/files/fd.h"
#include "sandbox/manager_internal.h"

#define PLAN_JSON_MAX ((size_t)64 << 20)

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
	return request_from(manager_spec(m));
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

void request_learn(brig_request *q, struct sightings *to)
{
	q->io.learn = to;
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

struct spec *request_to_run(const brig_request *q, struct err *e)
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
	CLEANUP(spec) struct spec *s = request_to_run(q, &e);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/code_run.c - requests that are code: read once, kept in memory, never on a command line.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/paths.h"
#include "sandbox/manager.h"

static int code_run_fail(const struct err *from, struct brig_error *to)
{
	error_export(from, to);
	return -from->code;
}

/* A script's body is the interpreter's input; Python code is for the backend to show. */
int request_code(brig_request *q, enum code_kind kind, const void *text, size_t n, const char *file,
		 struct err *e)
{
	struct brig_error be;

	if (code_set(request_spec(q), kind, text, n, file, e) < 0)
		return -e->code;
	if (kind == CODE_SCRIPT && brig_request_input(q, text, n, &be) < 0)
		return err_set(e, ERR_INTERNAL, be.errnum, "%s", be.what);
	return 0;
}

/* Reads code or a script from a descriptor to its end; file is its host path, or NULL. */
static int request_code_fd(brig_request *q, enum code_kind kind, int fd, const char *file,
			   struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(CODE_MAX + 1);
	char part[16384];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "cannot read the code");
		buf_add(&b, part, (size_t)n);
		if (b.failed)
			return err_set(e, ERR_USAGE, E2BIG, "the code is longer than %zu MiB",
				       CODE_MAX >> 20);
	}
	return request_code(q, kind, b.data, b.len, file, e);
}

/* What a shell names a pipe of its own. */
static bool is_own_descriptor(const char *path)
{
	return str_starts(path, "/dev/fd/") || str_starts(path, "/proc/self/fd/") ||
	       str_eq(path, "/dev/stdin");
}

/* The file may lie where an earlier run could write: a link there would show another file of the
 * user's inside, and a named pipe would keep us waiting. */
static int open_code(const char *path, const char *full, struct err *e)
{
	bool own = is_own_descriptor(path);
	CLEANUP(mem) char *real = NULL;
	CLEANUP(fd)
	int fd = own ? open(path, O_RDONLY | O_CLOEXEC)
		     : fd_open_nolinks(AT_FDCWD, full, O_RDONLY | O_NONBLOCK, 0);
	int code = own ? errno : -fd;
	struct stat st;

	if (fd < 0 && code == ENOENT)
		return err_refuse(e, ERR_USAGE, ENOENT,
				  "name a file, or '-' for what is on standard input",
				  "'%.200s' does not exist", path);
	if (fd < 0 && code == ELOOP) {
		real = realpath(full, NULL);
		(void)err_set(e, ERR_POLICY, ELOOP,
			      "'%.200s' is, or passes through, a symbolic link", path);
		return real ? err_hint(e, "use '%.90s'", real) : -e->code;
	}
	if (fd < 0) {
		(void)err_errno(e, code, "cannot open '%.200s'", path);
		return err_hint(e, "brig reads it as you: you must be able to read it");
	}
	if (!own && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		return err_set(e, ERR_POLICY, EINVAL, "'%.200s' is not a plain file", path);
	return TAKE_FD(fd);
}

int request_code_file(brig_request *q, enum code_kind kind, const char *path, struct err *e)
{
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd };
	const char *full = NULL;
	CLEANUP(fd) int fd = -1;

	if (str_eq(path, "-"))
		return request_code_fd(q, kind, STDIN_FILENO, NULL, e);
	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		return err_sys(e, "the current folder has no path");
	if (path_resolve(request_spec(q)->arena, &at, path, &full, e) < 0)
		return -e->code;
	fd = open_code(path, full, e);
	return fd < 0 ? -e->code : request_code_fd(q, kind, fd, full, e);
}

int brig_request_python(brig_request *q, const void *code, size_t n, struct brig_error *be)
{
	struct err e = { 0 };

	if (!code && n)
		return error_missing("code", be);
	return request_code(q, CODE_PYTHON, code, n, NULL, &e) < 0 ? code_run_fail(&e, be) : 0;
}

int brig_request_python_file(brig_request *q, const char *path, struct brig_error *be)
{
	struct err e = { 0 };

	if (!path)
		return error_missing("file", be);
	return request_code_file(q, CODE_PYTHON, path, &e) < 0 ? code_run_fail(&e, be) : 0;
}

int brig_request_arg(brig_request *q, const char *arg, struct brig_error *be)
{
	struct err e = { 0 };

	if (!arg)
		return error_missing("argument", be);
	return code_add_arg(request_spec(q), arg, &e) < 0 ? code_run_fail(&e, be) : 0;
}

static int interpreter(brig_request *q, const char *path, struct err *e)
{
	return path ? spec_set(request_spec(q), FIELD_INTERPRETER, path, ORIGIN_API, e) : 0;
}

int brig_request_script(brig_request *q, const char *path, const void *body, size_t n,
			struct brig_error *be)
{
	struct err e = { 0 };

	if (!body && n)
		return error_missing("script", be);
	return interpreter(q, path, &e) < 0 || request_code(q, CODE_SCRIPT, body, n, NULL, &e) < 0
		       ? code_run_fail(&e, be)
		       : 0;
}

int brig_request_script_file(brig_request *q, const char *with, const char *path,
			     struct brig_error *be)
{
	struct err e = { 0 };

	if (!path)
		return error_missing("file", be);
	return interpreter(q, with, &e) < 0 || request_code_file(q, CODE_SCRIPT, path, &e) < 0
		       ? code_run_fail(&e, be)
		       : 0;
}

int brig_request_param(brig_request *q, const char *name, const char *value, struct brig_error *be)
{
	CLEANUP(mem) char *text = NULL;
	struct err e = { 0 };

	if (!name || !value)
		return error_missing(name ? "value" : "name of a parameter", be);
	if (error_name("parameter", name, &e) < 0)
		return code_run_fail(&e, be);
	if (asprintf(&text, "%s=%s", name, value) < 0) {
		text = NULL;
		(void)err_nomem(&e);
		return code_run_fail(&e, be);
	}
	return spec_set(request_spec(q), FIELD_PARAM, text, ORIGIN_API, &e) < 0
		       ? code_run_fail(&e, be)
		       : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/err.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
	[ERR_INTERNAL] = "internal",       [ERR_USAGE] = "usage",
	[ERR_CONFIG] = "config",           [ERR_POLICY] = "policy",
	[ERR_UNAVAILABLE] = "unavailable", [ERR_PERMISSION] = "permission",
	[ERR_NOT_FOUND] = "not_found",     [ERR_NOT_EXECUTABLE] = "not_executable",
};
static_assert(sizeof(kind_names) / sizeof(*kind_names) == ERR_KINDS, "a name for every kind");

const char *err_kind_name(enum err_kind kind)
{
	return (unsigned)kind < ERR_KINDS ? kind_names[kind] : "internal";
}

enum err_kind err_kind_of(const char *name)
{
	for (int i = 0; name && i < ERR_KINDS; i++)
		if (!strcmp(name, kind_names[i]))
			return (enum err_kind)i;
	return ERR_INTERNAL;
}

void err_clear(struct err *e)
{
	memset(e, 0, sizeof(*e));
}

/* Puts ": " and the cause behind the first n bytes of what; a text too long is cut. */
static void err_append(struct err *e, int n, const char *cause)
{
	size_t at = n < 0 ? 0 : (size_t)n;
	size_t room = at < sizeof(e->what) - 3 ? sizeof(e->what) - 3 - at : 0;

	if (!room)
		return;
	memcpy(e->what + at, ": ", 2);
	room = strnlen(cause, room);
	memcpy(e->what + at + 2, cause, room);
	e->what[at + 2 + room] = '\0';
}

int err_set(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
{
	va_list ap;

	e->code = code > 0 ? code : EIO;
	e->kind = kind;
	e->hint[0] = '\0';
	va_start(ap, fmt);
	(void)vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	return -e->code;
}

int err_refuse(struct err *e, enum err_kind kind, int code, const char *hint, const char *fmt, ...)
{
	va_list ap;

	e->code = code > 0 ? code : EIO;
	e->kind = kind;
	(void)snprintf(e->hint, sizeof(e->hint), "%s", hint);
	va_start(ap, fmt);
	(void)vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	return -e->code;
}

ERR_PRINTF(3, 0)
static int err_fail(struct err *e, int code, const char *fmt, va_list ap)
{
	const char *why;
	int n;

	e->code = code > 0 ? code : EIO;
	e->kind = ERR_INTERNAL;
	e->hint[0] = '\0';
	n = vsnprintf(e->what, sizeof(e->what), fmt, ap);
	/* strerrordesc_np is a table look-up; strerror may allocate, which a child after clone must
	 * not. */
	why = strerrordesc_np(e->code);
	err_append(e, n, why ? why : "unknown error");
	return -e->code;
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int r, saved = errno;
	va_list ap;

	va_start(ap, fmt);
	r = err_fail(e, saved, fmt, ap);
	va_end(ap);
	return r;
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = err_fail(e, code < 0 ? -code : code, fmt, ap);
	va_end(ap);
	return r;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char inner[sizeof(e->what)];
	va_list ap;
	int n;

	memcpy(inner, e->what, sizeof(inner));
	va_start(ap, fmt);
	n = vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	err_append(e, n, inner);
	return -e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return -e->code;
}

int err_kind(struct err *e, enum err_kind kind)
{
	e->kind = kind;
	return -e->code;
}

int err_nomem(struct err *e)
{
	return err_set(e, ERR_INTERNAL, ENOMEM, "out of memory");
}

int err_replaced(struct err *e, const char *path)
{
	return err_refuse(
		e, ERR_POLICY, EPERM,
		"run it again; a package manager that is at work replaces files of the system",
		"'%s' was replaced while the sandbox was set up", path);
}

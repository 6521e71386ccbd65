/* SPDX-License-Identifier: Apache-2.0 */
#include "http/problem.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text/cleanup.h"

static const struct problem_row {
	const char *code, *title;
	int status, code_of_errno;
} rows[] = {
	[PROBLEM_NONE] = { "none", "Nothing is wrong", 200, 0 },
	[PROBLEM_INVALID] = { "invalid", "The request cannot be taken as written", 400, EINVAL },
	[PROBLEM_UNAUTHENTICATED] = { "unauthenticated", "A token is needed", 401, EACCES },
	[PROBLEM_FORBIDDEN] = { "forbidden", "The caller may not do this", 403, EPERM },
	[PROBLEM_POLICY_CEILING] = { "policy-ceiling", "More than the daemon's ceiling allows", 403,
				     EPERM },
	[PROBLEM_FOREIGN_PEER] = { "foreign-peer", "The caller is not of the daemon's own user",
				   403, EPERM },
	[PROBLEM_NOT_FOUND] = { "not-found", "There is no such thing", 404, ENOENT },
	[PROBLEM_SANDBOX_NOT_READY] = { "sandbox-not-ready", "The sandbox is not ready", 409,
					EAGAIN },
	[PROBLEM_SANDBOX_PAUSED] = { "sandbox-paused", "The sandbox is paused", 409, EAGAIN },
	[PROBLEM_CONFLICT] = { "conflict", "Something else is going on", 409, EBUSY },
	[PROBLEM_NAME_TAKEN] = { "name-taken", "Another sandbox has this name", 409, EEXIST },
	[PROBLEM_EXEC_ENDED] = { "exec-ended", "The command has ended", 409, ESRCH },
	[PROBLEM_QUOTA] = { "quota", "There are too many already", 429, EDQUOT },
	[PROBLEM_TOO_LARGE] = { "too-large", "The request is too large", 413, EMSGSIZE },
	[PROBLEM_EVENTS_EXPIRED] = { "events-expired", "Events that old are no longer kept", 410,
				     ESTALE },
	[PROBLEM_IDEMPOTENCY_MISMATCH] = { "idempotency-mismatch",
					   "The key was used for another request", 422, EINVAL },
	[PROBLEM_BACKEND_UNAVAILABLE] = { "backend-unavailable", "It cannot be had on this machine",
					  503, ENODEV },
	[PROBLEM_UNSUPPORTED] = { "unsupported", "This version cannot do this", 501, ENOTSUP },
	[PROBLEM_INTERNAL] = { "internal", "The daemon or the machine failed", 500, EIO },
};
static_assert(ARRAY_LEN(rows) == PROBLEM_COUNT, "a row for every problem");

static const struct problem_row *problem_row_of(enum problem p)
{
	return &rows[(unsigned)p < PROBLEM_COUNT ? p : PROBLEM_INTERNAL];
}

const char *problem_code(enum problem p)
{
	return problem_row_of(p)->code;
}

const char *problem_title(enum problem p)
{
	return problem_row_of(p)->title;
}

int problem_status(enum problem p)
{
	return problem_row_of(p)->status;
}

enum problem problem_say(enum problem p, struct err *e, const char *format, ...)
{
	va_list ap;

	*e = (struct err){ .code = problem_row_of(p)->code_of_errno
					   ? problem_row_of(p)->code_of_errno
					   : EIO,
			   .kind = p == PROBLEM_INTERNAL ? ERR_INTERNAL : ERR_USAGE };
	va_start(ap, format);
	(void)vsnprintf(e->what, sizeof(e->what), format, ap);
	va_end(ap);
	return p;
}

enum problem problem_of(const struct err *e)
{
	switch (e->kind) {
	case ERR_USAGE:
	case ERR_CONFIG:
	case ERR_NOT_FOUND:
	case ERR_NOT_EXECUTABLE:
		return PROBLEM_INVALID;
	case ERR_POLICY:
	case ERR_PERMISSION:
		return PROBLEM_FORBIDDEN;
	case ERR_UNAVAILABLE:
		return e->code == ENOTSUP ? PROBLEM_UNSUPPORTED : PROBLEM_BACKEND_UNAVAILABLE;
	default:
		return PROBLEM_INTERNAL;
	}
}

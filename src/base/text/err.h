/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/err.h - errors as values: what failed, why, and what the user can do about it.
 *
 * A struct err lives on the caller's stack, owns nothing and may cross a pipe. Every function here
 * is safe between clone and exec: no allocation, no lock. */
#pragma once

#include <stdarg.h>

/* What sort of refusal this is; the JSON result shows the word (see err_kind_name). */
enum err_kind {
	ERR_INTERNAL,       /* brig or the machine failed */
	ERR_USAGE,          /* an unknown flag, a value out of bounds */
	ERR_CONFIG,         /* a setting that cannot be taken as written */
	ERR_POLICY,         /* refused on purpose */
	ERR_UNAVAILABLE,    /* a layer or limit that was asked for is not available here */
	ERR_PERMISSION,     /* the user inside could not do its work */
	ERR_NOT_FOUND,      /* the command does not exist inside: exit 127 */
	ERR_NOT_EXECUTABLE, /* the command exists but cannot be run: exit 126 */
	ERR_KINDS
};

struct err {
	int code; /* positive errno value, 0 while nothing failed */
	enum err_kind kind;
	char what[384];
	char hint[256];
};

#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Each returns -code, so that a caller can write `return err_set(...)`. */
int err_set(struct err *e, enum err_kind kind, int code, const char *fmt, ...) ERR_PRINTF(4, 5);
/* err_set with a next step; the hint is taken as it stands. */
int err_refuse(struct err *e, enum err_kind kind, int code, const char *hint, const char *fmt, ...)
	ERR_PRINTF(5, 6);
/* Kind internal, with the cause appended: errno, or a code of either sign. */
int err_sys(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
int err_errno(struct err *e, int code, const char *fmt, ...) ERR_PRINTF(3, 4);
int err_wrap(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3); /* puts "context: " in front */
int err_hint(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3); /* replaces the hint */
int err_kind(struct err *e, enum err_kind kind); /* the same error, of another kind */
int err_nomem(struct err *e);
/* Another file stands where the plan has seen one. */
int err_replaced(struct err *e, const char *path);

const char *err_kind_name(enum err_kind kind);
enum err_kind err_kind_of(const char *name); /* ERR_INTERNAL: there is none of that name */
void err_clear(struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* http/problem.h - why the daemon does not do something, in the words of its API. */
#pragma once

#include "base/text/err.h"

/* Each has a code ("not-found"), a status and a title in one table. */
enum problem {
	PROBLEM_NONE,
	PROBLEM_INVALID,
	PROBLEM_UNAUTHENTICATED,
	PROBLEM_FORBIDDEN,
	PROBLEM_POLICY_CEILING,
	PROBLEM_FOREIGN_PEER,
	PROBLEM_NOT_FOUND,
	PROBLEM_SANDBOX_NOT_READY,
	PROBLEM_SANDBOX_PAUSED,
	PROBLEM_CONFLICT,
	PROBLEM_NAME_TAKEN,
	PROBLEM_EXEC_ENDED,
	PROBLEM_QUOTA,
	PROBLEM_TOO_LARGE,
	PROBLEM_EVENTS_EXPIRED,
	PROBLEM_IDEMPOTENCY_MISMATCH,
	PROBLEM_BACKEND_UNAVAILABLE,
	PROBLEM_UNSUPPORTED,
	PROBLEM_INTERNAL,
	PROBLEM_COUNT
};

const char *problem_code(enum problem p);
const char *problem_title(enum problem p);
int problem_status(enum problem p); /* of HTTP */

/* Fills *e and returns p: `return problem_say(PROBLEM_QUOTA, e, "...", ...)`. */
__attribute__((format(printf, 3, 4))) enum problem problem_say(enum problem p, struct err *e,
							       const char *format, ...);
/* The problem that an error of the library is, by its code. */
enum problem problem_of(const struct err *e);

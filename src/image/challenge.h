/* SPDX-License-Identifier: Apache-2.0 */
/* image/challenge.h - WWW-Authenticate of a registry: what it wants to be shown.
 *
 * Pure. One challenge of one scheme; what else a field may say (RFC 9110) no registry says. */
#pragma once

#include <stddef.h>

#include "base/text/err.h"

enum { CHALLENGE_TEXT_MAX = 512 };

enum challenge_scheme { CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_scheme scheme;
	char realm[CHALLENGE_TEXT_MAX]; /* of Bearer: where tokens are had */
	char service[CHALLENGE_TEXT_MAX], scope[CHALLENGE_TEXT_MAX];
};

/* Refuses another scheme, a Bearer without a realm, a parameter that comes twice, is too long or
 * has a control character. */
int challenge_parse(const char *p, size_t n, struct challenge *ret, struct err *e);

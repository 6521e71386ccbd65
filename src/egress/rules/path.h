/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/path.h - the one form of a request path that rules are compared with.
 *
 * Escapes of unreserved bytes are decoded, other escapes get upper-case digits. Whatever two
 * servers could read differently is refused, not guessed: dot segments in any spelling, encoded
 * slashes, backslashes, NULs and percent signs (double encoding), semicolons, empty segments, dots
 * and blanks at the end of one, broken escapes. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "egress/rules/host.h"

#define PATH_MAX_LEN 8192

enum path_fault {
	PATH_OK,
	PATH_NOT_ABSOLUTE,
	PATH_TOO_LONG,
	PATH_BAD_BYTE,   /* a control, a blank, a fragment, beyond ASCII */
	PATH_BAD_ESCAPE, /* a percent sign without two digits */
	PATH_AMBIGUOUS,
	PATH_FAULTS
};

/* The part of a request target before its '?'. */
struct egress_text path_of_target(struct egress_text target);

/* Checks bytes and length alone: what every target must pass, path rules or not. */
enum path_fault path_check_target(struct egress_text target);

enum path_fault path_normalise(struct egress_text path, struct buf *out);
const char *path_fault_text(enum path_fault f);

/* true when a normalised path lies at or below the prefix, at a segment's edge: "/a" covers "/a"
 * and
 * "/a/b", not "/ab"; "/a/" covers "/a/b", not "/a". */
bool path_below(const char *path, const char *prefix, bool any_case);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/groups.h - named lists of hosts for the egress allowlist, and what a host may look
 * like.
 *
 * Pure text. "*.example.org" covers every name below example.org and never example.org itself; a
 * name without the star covers exactly itself. */
#pragma once

#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

struct group {
	const char *name, *help;
	const char *const *hosts; /* NULL-terminated */
	/* Rules that let packages be read there and nothing be brought out, and what has to be said
	 * about them. NULL: GET and HEAD of each host, which needs no word. */
	const char *const *reading, *remark;
};

#define GROUP_COUNT 7
extern const struct group groups[GROUP_COUNT];

/* By name, with or without the '@' in front; NULL when there is none of that name. */
const struct group *group_find(const char *name);

/* As group_find, with an error that names the nearest one. */
int group_get(const char *name, const struct group **ret, struct err *e);

/* The group whose hosts cover exactly this name (or contain this very pattern); NULL: none. */
const struct group *group_covering(const char *host);
bool host_covers(const char *pattern, const char *host); /* case-insensitive */

/* Refuses whatever is not a host name of letters, digits, hyphens and dots, with at most one "*."
 * in front and two labels behind it. Addresses, ports, paths and schemes are refused by name. */
int host_check(const char *text, struct err *e);

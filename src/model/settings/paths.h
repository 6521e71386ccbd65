/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/paths.h - path text: made absolute, made canonical, compared by component. No file
 * is touched. */
#pragma once

#include <stdbool.h>

#include "base/text/arena.h"
#include "base/text/err.h"

struct place;
struct mount_spec;

/* Absolute form of a path as written on a command line: "~" and "~/x" mean home, anything not
 * absolute is below cwd, "." and ".." are resolved by text. Refuses empty text, control characters,
 * "~user". */
int path_resolve(struct arena *a, const struct place *at, const char *text, const char **ret,
		 struct err *e);

/* true when path is dir itself or lies below it; both canonical */
bool path_under(const char *path, const char *dir);

/* SRC:DST[:rw|:ro]; source stays as written. */
int mount_parse(struct arena *a, const char *text, struct mount_spec *ret, struct err *e);

/* Refuses a target that is not an absolute canonical path or that brig keeps for itself. */
int target_check(const char *target, const char *workspace_target, struct err *e);

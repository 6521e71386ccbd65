/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/protected_names.h - the names in a workspace that programs on the host run or
 * obey, in one table, each with who does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum name_class {
	NAME_HELD,     /* covered; while missing, held by a placeholder */
	NAME_TAKEN,    /* covered where it exists; taken away if the run made it */
	NAME_POINTER,  /* the same for all but a folder, which is the command's to make and fill */
	NAME_REPORTED, /* the command's to change: told afterwards */
	NAME_STEP,     /* the same, in a git folder */
};

struct guarded_name {
	const char *name; /* "*.x": whatever ends so; only of reported ones */
	size_t len;
	enum name_class class;
	const char *reason;
};

extern const struct guarded_name guarded_names[];
extern const size_t guarded_name_count;

/* Is a folder of this name, relative to the workspace, none to be taken away? */
bool name_points(const char *path);

/* The name that `path`, relative to the workspace, is or lies below, at whatever depth and in
 * whatever letters; NULL: none. Of several the strictest. */
const struct guarded_name *name_forbidden(const char *path); /* of those that no command may make */
/* Of all that is told: forbidden names too, but for those at the top, which the plan has made sure
 * of. */
const struct guarded_name *name_reported(const char *path);
/* Is that the last part of a step? Most names are not, and this takes less to say so. */
bool name_ends_step(const char *name);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/request/code.h - code as a request: Python in a file inside, a script on the interpreter's
 * input.
 *
 * A request holds the text; spec_check makes a command of it (code_resolve): where the file
 * appears, what runs it, the parameters as variables. The text itself is never an argument. */
#pragma once

#include "model/settings/spec.h"

#define CODE_MAX ((size_t)8 << 20)
#define CODE_FOLDER "/code"

/* Copies the text, which may hold any byte. `file` is the absolute host path it was read from, or
 * NULL. */
int code_set(struct spec *s, enum code_kind kind, const void *text, size_t n, const char *file,
	     struct err *e);
int code_add_arg(struct spec *s, const char *arg, struct err *e); /* of the program's argv */

/* The variable that a script's parameter becomes; a name that would steer programs is refused. */
int code_variable(const char *name, char *out, size_t n, struct err *e);

/* After paths are resolved: fills spec.argv and spec.code.path. */
int code_resolve(struct spec *s, struct err *e);

/* true: the command is looked for along this PATH. The interpreter of a code request is not, unless
 * the caller itself has set it: a project's file must not choose what runs the caller's code. */
bool code_obeys_path(const struct spec *s, const struct envvar *path);

/* true: the backend has to show spec.code.text as a file at spec.code.path */
bool code_is_file(const struct spec *s);

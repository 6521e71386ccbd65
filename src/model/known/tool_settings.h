/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/tool_settings.h - which settings of a program of the caller's may be shown to what
 * runs in a sandbox.
 *
 * Pure. A list of names that are tastes: a model, a theme, a language. Whatever is not on it stays
 * outside: logins and keys, and everything that names a program (hooks, commands, MCP servers,
 * plugins, status lines, helpers, permissions) or another server. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"

#define TOOL_SETTINGS_MAX ((size_t)256 << 10) /* of one file */

enum settings_form { SETTINGS_JSON, SETTINGS_TOML, SETTINGS_YAML };

struct settings_file {
	const char *path; /* below HOME, there as here */
	enum settings_form form;
	const char *const *names;  /* "theme", or "ui.theme" in JSON; NULL-terminated */
	const char *key;           /* a variable with a key, about which it asks; NULL: none */
	size_t key_end;            /* ... unless these last bytes of it are in the file */
	const char *const *logins; /* pairs: a credential, and the way of logging in that it is;
				    * NULL: it does not ask for one */
};

struct tool_settings {
	const char *name;
	struct settings_file files[2]; /* ended by one without a path, or by the array's end */
};

extern const struct tool_settings tool_settings[]; /* ended by one without a name */

const struct tool_settings *tool_settings_find(const char *name); /* NULL: there is no such */
/* Does the program keep settings in a folder of this name, at home and in projects? */
bool tool_settings_in(const char *program, const char *folder);
int tool_settings_get(const char *name, const struct tool_settings **ret, struct err *e);

/* What of a file's text enters, as the text of a file of that form; nothing is written where none
 * of its names is there. 0, -ENOMEM, or -EBADMSG: it is no such file. */
int tool_settings_take(const struct settings_file *f, const char *text, size_t n, struct buf *out);

/* The same, and the answer to what it would ask: the placeholder that f->key will be, to which its
 * user has agreed, or the way of f->logins. */
int tool_settings_answer(const struct settings_file *f, const char *text, size_t n,
			 const char *answer, struct buf *out);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/envrules.h - which variables of the caller may be seen inside.
 *
 * Two lists: names that always pass when set (language, terminal, time zone), and names that look
 * like a secret and never pass on their own. Everything else passes only when named. */
#pragma once

#include <stdbool.h>

bool env_name_valid(const char *name);
bool env_looks_secret(const char *name); /* by name alone, case-insensitive */
bool env_passes_by_default(const char *name);

/* May a file that nobody has trusted set it? A short list of names, and no value that is a path:
 * nothing of it leads a program to another program, library or file. */
bool env_anybody_may_set(const char *name, const char *value);

/* A variable that makes the loader, a shell or an interpreter load or do something before the
 * program asked for begins: not for configuration files to set. */
bool env_steers_programs(const char *name);

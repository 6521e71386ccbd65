/* SPDX-License-Identifier: Apache-2.0 */
/* proc/host_find.h - finds a program of the host's, past everything that a guest could have
 * written (base/files/exposed.h).
 *
 * `also` are the places of the run that is being planned, as exposed_path takes them; NULL: none.
 */
#pragma once

#include <limits.h>

#include "base/text/arena.h"
#include "base/text/err.h"

#define HOST_USUAL_PATH "/usr/local/bin:/usr/bin:/bin"

/* The first program of that name along `path` (NULL: the caller's PATH). Relative folders count for
 * nothing, and a file that is exposed, by its own name, by a link or by the interpreter in its
 * first line, is passed over. A name with a slash is that file or a refusal. -ENOENT: there is
 * none, and the caller says what would install it. -EPERM: the only ones were exposed; the error
 * names the first, why, and a next step. */
int host_find(const char *name, const char *path, const char *const *also, char full[PATH_MAX],
	      struct err *e);

/* A program of brig's own that stands beside brig or belongs to its installation
 * (base/sys/program.h). -ENOENT: it is not there. -EPERM: a guest could have written it, now that
 * it is to be started: who embeds brig, or builds it, may have it in a workspace. */
int host_find_own(const char *name, char path[PATH_MAX], struct err *e);

/* The first folder or file that a word of argv[1...] names and that is exposed is a refusal: an
 * interpreter is as good as the file that it is given. Seen is what stands there as an absolute
 * path, also behind a sign such as `=`, `@` or a blank. */
int host_check_words(const char *const *argv, const char *const *also, struct err *e);

/* What programs that keep secrets go by: who the user is, where their settings are, and the way to
 * an agent, to the screen and to the network. What else one needs stands in the setting that names
 * it: [env, NAME=value, ...]. */
extern const char *const host_keyring_names[];

/* What a program of brig's own goes by that lets OpenSSL read the environment: roots, and settings
 * that name code to be loaded. */
extern const char *const host_tls_names[];

/* A variable of this process, of these names, that leads to something exposed is a refusal. */
int host_check_variables(const char *const *names, struct err *e);

/* "NAME=value" for each of `names` (NULL-terminated; "LC_*" stands for all that begin so) that
 * `envp` has, NULL-terminated. PATH goes without the folders that are exposed; another value that
 * is the path of something exposed is a refusal. */
int host_environment(struct arena *a, const char *const *names, char *const *envp,
		     const char *const *also, const char *const **ret, struct err *e);

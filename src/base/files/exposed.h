/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/exposed.h - could a guest have written this?
 *
 * Whatever a command in a sandbox may write on the host is a place; it is noted before the command
 * starts, and stays noted until its owner takes it back (base/files/exposed_notes.h): in
 * STATE/exposed, by identity and by path, for this user's runs. A file is exposed when one of the
 * names that lead to it lies in a place: its own, those of the folders above it, those of every
 * link on the way. Places are compared by identity at every step, and by every way that the mounts
 * of this process show. A program, a secret or a file of settings that is exposed was possibly
 * written by hostile code. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

enum {
	/* A file of one's own with a second name counts too: that name may lie in a place, and what
	 * is written there is written here. For settings and secrets; programs often have several.
	 */
	EXPOSED_SHARED = 1,
	/* Nothing counts but the links on the way, those that lie in a place: a guest may have
	 * chosen where they lead. */
	EXPOSED_LINKS = 2,
	/* `also` are places that do not count: could anybody else have written it? */
	EXPOSED_BESIDES = 4,
	/* What cannot be reached is judged as what is not there: for words that may be no paths. */
	EXPOSED_REACHED = 8,
};

/* `also` are further places, of the run that is being planned: paths, NULL-terminated; NULL: none.
 * True with the reason in *why (kind policy), whose hint is how to take the place back; empty: it
 * cannot be. What cannot be looked at is exposed. What is
 * not there is judged by the folder that it would be in; a pipe without a name is not exposed.
 * False means that no guest can change where the path leads, so that nothing is lost between this
 * and opening it. */
bool exposed_path(const char *path, const char *const *also, unsigned flags, struct err *why);
/* The same as a refusal: "`what` 'PATH' is not used: ...", with the next step; or 0. */
int exposed_check(const char *what, const char *path, const char *const *also, unsigned flags,
		  struct err *e);
/* For callers with words of their own: `hint`, and behind it that of *why. */
void exposed_hint(const char *hint, const struct err *why, struct err *e);
/* Opens what the user has named, to be read or gone into: by links of the user's own, and by none
 * that a guest may have made, which would show or change another thing. It does not block. */
int exposed_open(const char *path, int flags, struct err *e);
/* exposed_check for the folders of brig's own, which it believes: another run may have had what a
 * variable names today for its workspace. */
int exposed_check_own(struct err *e);
/* The same for what is open, by the path that it has now. How it was reached is not known. */
bool exposed_fd(int fd, const char *const *also, unsigned flags, struct err *why);

/* SPDX-License-Identifier: Apache-2.0 */
/* image/login.h - what `docker login` and `podman login` have left for a registry.
 *
 * An engine's own command sends credentials along with every pull; the engine itself keeps none. So
 * does brig: it reads the same files and asks the same helper programs, for the one registry it is
 * about to fetch from, and forgets the answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"

enum { LOGIN_HELPER_MAX = 64, LOGIN_USER_MAX = 512, LOGIN_SECRET_MAX = 4096 };

struct login {
	char helper[LOGIN_HELPER_MAX]; /* docker-credential-NAME has it; "": it is below */
	char user[LOGIN_USER_MAX];
	char secret[LOGIN_SECRET_MAX]; /* a password, or an identity token when user is "" */
};

/* The registry of an image's name, as the engine reads it; docker.io where none is named. */
const char *login_registry(const char *ref, char *out, size_t n);

/* What a configuration file says of a registry. 0, 1 when it says nothing, or an error: it says
 * something that cannot be used. Pure. */
int login_read(const char *text, size_t n, const char *registry, struct login *ret, struct err *e);

/* A helper's answer. Pure. */
int login_answer(const char *text, size_t n, struct login *ret, struct err *e);

/* The credentials that were left for a registry, from the first file that knows it; podman: its own
 * files, too. 0, 1 when there are none, or an error. Runs a helper where one is named: `helper` is
 * "" afterwards. */
int login_find(const char *registry, bool podman, struct login *ret, struct err *e);

/* Appends the field for a pull, or nothing when nobody has logged in. On an error, which is a
 * reason to tell and not to stop, nothing either. Runs a helper where one is named. */
int login_field(const char *ref, bool podman, struct buf *out, struct err *e);

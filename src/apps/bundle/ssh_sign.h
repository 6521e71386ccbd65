/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/ssh_sign.h - SSH signatures of archives, made and verified by ssh-keygen. */
#pragma once

#include <stddef.h>

#include "base/text/err.h"

#define SIGN_NAMESPACE "brig-bundle"
#define SIGN_MAX ((size_t)64 << 10) /* of a signature */

/* *ret receives a memory file with the archive's signature. ssh-keygen may ask for the key's words
 * on the terminal, or the user's agent; it is given a copy where no guest can put another one. */
int sign_make(int archive, const char *key, int *ret, struct err *e);

/* Is the signature in `signature` one of the archive's by the only public key in that file? Both
 * are memory files. `signer` receives the key's fingerprint. */
int sign_verify(int archive, int signature, const char *key_file, char *signer, size_t n,
		struct err *e);

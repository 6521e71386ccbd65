/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/random.h - random bytes of the kernel, or an error: never a value that could be
 * guessed. */
#pragma once

#include <stddef.h>

#include "base/text/err.h"

int random_fill(void *p, size_t n, struct err *e); /* at most 256 bytes */
/* size - 1 hexadecimal digits, an even number of them, and the end of the string. */
int random_hex(char *out, size_t size, struct err *e);

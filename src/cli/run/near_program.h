/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/near_program.h - the program that a mistyped name may have meant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Among the distribution's, which every sandbox with the host's programs has. False: none is near.
 */
bool near_program(const char *name, char *ret, size_t n);

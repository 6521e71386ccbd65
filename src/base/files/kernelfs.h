/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/kernelfs.h - file systems that are a door to the host's kernel, not files of
 * anybody's. */
#pragma once

#include <stdbool.h>

/* By the type that mountinfo names. Where one lies in or below a shown tree it is not carried in,
 * on whatever backend. */
bool kernelfs_is(const char *type);

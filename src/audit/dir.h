/* SPDX-License-Identifier: Apache-2.0 */
/* audit/dir.h - the folder of a record and the names in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"

enum { SEGMENT_NAME_SIZE = 24 };

/* The given folder, or brig's own when dir is NULL; a descriptor or -errno. It is made only if
 * `make`. A folder that others may write to is refused: they could put another record there. */
int audit_dir_open(const char *dir, bool make, char *path, size_t n, struct err *e);

/* The numbers of the segments there are, ascending; caller frees *ret. */
int audit_segments(int dirfd, uint32_t **ret, size_t *n, struct err *e);
void audit_segment_name(uint32_t number, char out[SEGMENT_NAME_SIZE]);
/* Files of the record: a descriptor or -errno. Without access times where the owner asks: each look
 * behind a write would else be a write of its own. */
int audit_file_open(int dirfd, const char *name, int flags);
int audit_segment_open(int dirfd, uint32_t number, int flags);

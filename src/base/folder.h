/* SPDX-License-Identifier: Apache-2.0 */
/* base/folder.h - the names in a folder, for those who look through many of them.
 *
 * opendir takes three system calls and an allocation more for each. */
#pragma once

#include "base/fd.h"

struct folder {
	int fd;    /* borrowed */
	int error; /* why it could not be read to its end; 0: it was, or is being */
	size_t at, len;
	_Alignas(struct fd_entry) char data[8192];
};

void folder_begin(struct folder *f, int fd); /* open for reading, at its beginning */

/* Neither "." nor ".."; NULL: no more. Borrowed until the next call. */
const struct fd_entry *folder_next(struct folder *f);

/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/folder.h - the names in a folder, for those who look through many of them.
 *
 * opendir takes three system calls and an allocation more for each. */
#pragma once

#include "base/files/fd.h"

enum { FOLDER_BYTES = 8192 };

struct folder {
	int fd;    /* borrowed */
	int error; /* why it could not be read to its end; 0: it was, or is being */
	size_t at, len;
	size_t room; /* of data, that is used */
	_Alignas(struct fd_entry) char data[FOLDER_BYTES];
};

void folder_begin(struct folder *f, int fd); /* open for reading, at its beginning */

/* Neither "." nor ".."; NULL: no more. Borrowed until the next call. */
const struct fd_entry *folder_next(struct folder *f);

/* Does it count? Most names are none of those that are looked for. */
typedef bool folder_look(void *arg, int folder, const char *name);

/* Shows fn the first entries, until `few` counted, and then as many others in turn: *turn, 0 at
 * first, is for the next call, by whatever process. Its cost does not grow with the folder, and
 * where there are no more than twice as few nobody waits for a turn. The numbers that the kernel
 * gives for places in a folder hold for whoever opens it again. */
void folder_some(int fd, size_t few, int64_t *turn, folder_look *fn, void *arg);

/* SPDX-License-Identifier: Apache-2.0 */
/* far/far_place.h - is a path of one machine the same file on another one?
 *
 * On one kernel the device and the inode tell. Between two machines only a file system that both
 * have can be the same: then the inode's number is, and at least one of them does not have it on a
 * disk of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAR_BOOT_SIZE = 40 };

struct far_place {
	uint64_t dev, ino, type; /* type: of the file system, as statfs has it */
};

int far_place_look(const char *path, struct far_place *ret); /* 0 or -errno */
void far_boot(char out[FAR_BOOT_SIZE]);                      /* this boot of this kernel */
bool far_place_same(const struct far_place *a, const struct far_place *b, bool one_kernel);

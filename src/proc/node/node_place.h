/* SPDX-License-Identifier: Apache-2.0 */
/* proc/node/node_place.h - is a path of one machine the same file on another one?
 *
 * On one kernel the device and the inode tell. Between two machines only a file system that both
 * have can be the same: then the inode's number is, and at least one of them does not have it on a
 * disk of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { NODE_BOOT_SIZE = 40 };

struct node_place {
	uint64_t dev, ino, type; /* type: of the file system, as statfs has it */
};

int node_place_look(const char *path, struct node_place *ret); /* 0 or -errno */
void node_boot(char out[NODE_BOOT_SIZE]);                      /* this boot of this kernel */
bool node_place_same(const struct node_place *a, const struct node_place *b, bool one_kernel);

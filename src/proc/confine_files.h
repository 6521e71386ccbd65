/* SPDX-License-Identifier: Apache-2.0 */
/* proc/confine_files.h - a process that turns a stranger's archive into files, and can do nothing
 * else.
 *
 * Afterwards: system calls that read and write open descriptors and make files and folders by
 * descriptor, on this architecture alone; by Landlock, where the kernel has it, below that folder
 * alone; no core, no process, no privilege; it ends with its parent. Any other call ends it. */
#pragma once

#include <stdbool.h>

/* folder: -1, and no file can be opened at all. allocates: memory can be had from the kernel. 0 or
 * -errno. */
int confine_files(int folder, bool allocates);

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/unpack_child.h - an archive out of a sandbox becomes files of the host.
 *
 * Its bytes are a guest's. They are read by a child of ours that can do nothing but make folders
 * and files below one folder (seccomp, and Landlock where the kernel has it), and takes no link,
 * device or set-id bit (base/tar/tar.h). */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"

struct unpack_child {
	pid_t pid;
	int line; /* the archive goes there, and from there comes how it ended */
};

/* The folder is borrowed until this returns. At most so many bytes of files. */
int unpack_child_start(int folder, uint64_t most, struct unpack_child *ret, struct err *e);
/* That was all: waits for its end. 0 or -errno with *e. */
int unpack_child_end(struct unpack_child *u, struct err *e);

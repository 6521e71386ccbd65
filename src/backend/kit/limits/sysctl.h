/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/sysctl.h - limits that belong to the sandbox's own user namespace.
 *
 * Second lines: the filter, and what the host's user has left, come first. Where they cannot be
 * written they are not there. Those of System V ipc are not among them: the kernel lets only the
 * namespace's user 0 write them, and no such user exists inside. */
#pragma once

/* For the calling process's user namespace, through that procfs. Allocates nothing. */
void sysctl_user_limits(int procfd);

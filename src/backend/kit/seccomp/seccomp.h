/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/seccomp/seccomp.h - load the system-call filter of the native and bwrap backends.
 *
 * The programs are made at build time by tools/gen-seccomp.c from seccomp_table.h; at run time they
 * are only handed to the kernel. What the profiles permit: docs/design/seccomp.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum seccomp_profile {
	SECCOMP_STRICT,
	SECCOMP_DEFAULT,
	SECCOMP_DEBUG,
	SECCOMP_PROFILES,
};

/* Put the calling thread, and all it will ever start, under the filter of the profile; with
 * deny_affinity sched_setaffinity() fails with EPERM as well. There is no way back.
 *
 * Returns 0 or a negative errno; after an error the caller must not go on. No-new-privs must be
 * set. Async-signal-safe, allocates nothing: meant for the child between clone and exec, where one
 * thread exists (other threads would not be covered). */
int seccomp_install(enum seccomp_profile profile, bool deny_affinity);

/* Likewise, in its place, for a run that brig learns from (kit/learn/opens.h): whatever names a
 * file to open, change or execute waits for an answer through the descriptor, but an open with
 * O_NOCTTY. -errno: nothing has changed. */
int seccomp_watch(void);

/* Before it: from now on an open() for writing that neither creates nor empties, with streams those
 * as well, waits for an answer through the descriptor that is returned (selfwrite.h), whoever makes
 * it. One that has O_NOCTTY does not, and the process that answers makes no other. -errno: nothing
 * has changed. */
int seccomp_listen(bool streams);

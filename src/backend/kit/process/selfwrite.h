/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/selfwrite.h - the two files of /proc that a process may write: the name of a
 * thread of its own, and the memory of its own or of what it traces.
 *
 * /proc is read-only inside, because neither mounts nor Landlock can tell task/TID/comm from
 * task/TID/oom_score_adj: both come and go with their process. So the kernel holds an open() that
 * only writes (seccomp_listen), and init, which alone has a /proc that can be written, opens the
 * file in its place. Whatever is not one of the two goes on as if nobody had asked, and meets the
 * read-only mount. Nothing is gained but what the kernel grants to the same process elsewhere:
 * a name can be written by a thread of the same process alone, and who traces another may write its
 * memory word by word. */
#pragma once

#include <stdbool.h>

struct selfwrite {
	int listener; /* of seccomp_listen; -1: nobody asks */
	int procs;    /* root of a procfs that can be written */
	bool memory;  /* or names alone */
};

/* Once the listener is readable: answers one question. Never waits for anybody inside. */
void selfwrite_answer(const struct selfwrite *s);

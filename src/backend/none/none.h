/* SPDX-License-Identifier: Apache-2.0 */
/* backend/none/none.h - the parts of the backend that is not a sandbox; nobody else includes this.
 *
 * Four processes: brig, two guards (forks of brig, without exec), the command. brig and the
 * guards speak proc/supervisor.h. The guard is there
 * so that a run on the host still ends as a whole: what the command leaves behind becomes the
 * guard's child, and the guard ends it. The one above it does the same for a guard that was
 * killed, and ends with it otherwise. Nothing here holds a command that wants to get away: it has
 * the caller's rights, and may kill both first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "base/text/arena.h"
#include "proc/supervisor.h"

struct backend_plan {
	struct arena *arena; /* keeps the texts of the spec as well */
	const char **argv;
	const char **envp;
	const char *cwd;        /* on the host */
	const char *path_value; /* PATH of the command, for finding it */
	const char *code;       /* readable on CODE_FD; NULL: none is */
	size_t code_size;
	uint64_t files;           /* that a process may have open */
	uint64_t output, timeout; /* the command's own limits */
	const char *notes[4];
	size_t note_count;
};

/* Where the command finds Python code: a sealed file without a name. */
#define CODE_FD 3
#define CODE_FD_PATH "/proc/self/fd/3"

/* plan.c */
int none_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	      struct err *e); /* notes may be NULL */
void none_plan_json(const struct backend_plan *p, struct json *j);
struct backend_plan *none_plan_free(struct backend_plan *p);
DEFINE_CLEANUP(none_plan, struct backend_plan *, none_plan_free)

struct none_guard_start {
	const struct backend_plan *plan;
	pid_t brig;       /* whose death ends the run */
	int control;      /* the guard's end */
	int in, out, err; /* the command's streams; in is -1 for no input */
	int code;         /* to become CODE_FD; -1: none */
	bool tty;         /* all three are one terminal, to become the controlling one */
	bool open;        /* there is no command: they come by ASK_EXEC (proc/commands.h) */
};

enum { NONE_GUARD_PATIENCE_MS = 3000 }; /* how long it goes on killing what will not die */

/* none_guard.c: runs between clone and _exit, so it allocates nothing. Never returns. */
_Noreturn void none_guard_main(const struct none_guard_start *s);

/* reap.c: does /proc tell this process its children, by the numbers it would signal? */
bool reap_sees_children(void);

/* Stops, then kills every descendant that is in sight; the rest come into sight as they lose their
 * parents. Reaps nothing: that alone keeps the numbers of direct children from being used again. */
void reap_kill_descendants(void);

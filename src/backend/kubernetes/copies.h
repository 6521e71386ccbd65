/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/copies.h - the workspace of a pod: there before the command, and home again.
 *
 * Both ways it is an archive between a process here and one inside (proc/files/files.h). What comes
 * back is a stranger's: a child that can do nothing else unpacks it into a folder of brig's own,
 * which is then compared with the workspace, and only plain files that differ are taken over. Names
 * that programs on this host obey, and what was changed here meanwhile, stay as they are. */
#pragma once

#include "backend/kit/process/command_table.h"
#include "model/outcome/outcome.h"

/* Behind a dot and the run's id: where it is unpacked, in brig's state folder, and locked
 * meanwhile. One whose lock is free was left by a brig that was killed. */
#define KUBE_STAGE ".out"

/* Whoever may want it to stop; borrowed. */
struct copies_stop {
	bool (*asked)(void *arg); /* NULL: nobody */
	void *arg;
	int wake[2]; /* readable when it is worth asking; -1 */
};

struct copies {
	const struct command_host *host;
	struct copies_stop stop;
	const char *id;                /* of the run */
	const char *workdir;           /* host folder */
	uint64_t most;                 /* bytes */
	const char *not_home;          /* a name directly in it that is brig's own; NULL: none */
	const struct box_plan *obeyed; /* names in it that programs here obey */
	int64_t since; /* when it was packed, in seconds: later changes are the user's */
};

struct copies_count {
	unsigned made, changed, removed, refused;
	bool left_out; /* links, devices: nothing is removed then */
};

int copies_in(struct copies *c, struct err *e);
/* A file that nobody may write to, from the host's folder on. */
int copies_put(const struct copies *c, const char *path, const char *text, size_t n, struct err *e);
/* Denials go into the outcome; the list of changes into a file of the state folder, a JSON object a
 * line. */
int copies_out(const struct copies *c, struct outcome *o, struct copies_count *ret, struct err *e);

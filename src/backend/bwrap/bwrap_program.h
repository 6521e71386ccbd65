/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/bwrap_program.h - the two programs a run on bwrap needs: bubblewrap, and brig
 * inside. */
#pragma once

#include "backend/bwrap/args.h"

struct bwrap_program {
	const char *path; /* absolute; in the arena it was found with */
	struct bwrap_features has;
};

/* Looks for bwrap along PATH, past what a guest could write (proc/host_find.h), and at what it
 * can do. An honest error when there is none, or one older than 0.8. */
int bwrap_find(struct arena *a, const char *const *places, struct bwrap_program *ret,
	       struct err *e);

/* Options in the text of a program; apart for the tests. -ENOTSUP: too old. */
int bwrap_read_features(const char *data, size_t n, struct bwrap_features *ret);

/* A descriptor on brig's own program, which bubblewrap execs inside: this very program when it is
 * brig, else the one installed or on PATH. -errno with *e set. */
int brig_program(struct err *e);

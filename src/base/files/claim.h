/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/claim.h - a file that says whose something is, and whether that owner still lives.
 *
 * It is named by the owner's id and locked for as long as the owner has it open. A file whose lock
 * is free belongs to an owner that was killed, or that left something behind on purpose: the next
 * brig reads there what is to be removed. The kernel lets go of a lock whatever ends a process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
	CLAIM_ID = 32,                 /* hexadecimal digits of an id */
	CLAIM_TEXT = 8192,             /* what a claim can hold, and a NUL */
	CLAIM_KEPT_S = 30 * 24 * 3600, /* after which what it names is given up */
};

bool claim_is_id(const char *name);

/* A file of this name and text, locked before it has the name: no other process can take
 * its owner for dead. The descriptor that holds it, or -errno. */
int claim_make(int folder, const char *id, const char *text, size_t n);

/* Locks an open file or folder. A process that was killed gives its files up one after the other:
 * a process
 * that learns of the end by one of them waits up to `ms` for the next. */
bool claim_lock(int fd, unsigned ms);

/* Has it an owner who lives? */
bool claim_held(int folder, const char *id);

/* A claim without an owner. */
struct claim_lost {
	int folder;
	const char *id;
	char *text; /* as it was written, and a NUL; it may be changed */
	time_t age; /* in seconds, since it was last written to */
};

/* true: nothing is left of what it names, and it is removed. */
typedef bool claim_lost_fn(void *arg, const struct claim_lost *c);

/* Passes one to fn, unless it still has an owner after `ms`, or is not there. */
void claim_show(int folder, const char *id, unsigned ms, claim_lost_fn *fn, void *arg);

/* Passes those without an owner to fn; looks at `most` claims, from the folder's beginning. */
void claim_sweep(int folder, size_t most, claim_lost_fn *fn, void *arg);

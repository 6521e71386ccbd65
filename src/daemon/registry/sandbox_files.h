/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_files.h - operations on files of a sandbox that is ready: what routes may
 * ask.
 *
 * The work is done inside, by a process of brig's own there (proc/files/files.h); the daemon has
 * the other ends of its pipes and believes nothing that comes out of them. Nothing here blocks, and
 * nothing of a file is held: bytes go from one descriptor to another. */
#pragma once

#include "daemon/registry/sandboxes.h"
#include "proc/files/files.h"

enum { FILES_AT_ONCE = 64, FILES_WATCHES = 64 }; /* of a sandbox */

struct file_op;

/* What its owner is told, through the loop, each at most once. */
struct file_listener {
	void (*has)(void *arg, const struct file_answer *a); /* data may flow */
	/* The last word; PROBLEM_NONE: it was done. Not called after file_op_free. */
	void (*done)(void *arg, enum problem p, const struct file_answer *a, const struct err *e);
	void *arg;
};

/* Is it a path that can be asked for? */
enum problem file_path_check(const char *path, struct err *e);

/* The order's texts and the listener are copied; *ret is the caller's. */
enum problem file_op_new(struct sandboxes *s, const char *tenant, const char *ref,
			 const struct file_order *o, const struct file_listener *by,
			 struct file_op **ret, struct err *e);
/* Gives it up if it is not done: what was to be written has not been. Takes NULL. */
struct file_op *file_op_free(struct file_op *f);

/* The end of its data that is ours, non-blocking; borrowed; -1 once file_op_whole was called. */
int file_op_data(const struct file_op *f);
/* All data was given: it may be kept under its name. */
void file_op_whole(struct file_op *f);
/* Its last word is not awaited: file_op_result asks for it. */
void file_op_quiet(struct file_op *f);
/* Data has ended: has it said that it is done? `done` is not called any more then. */
enum problem file_op_result(struct file_op *f, struct file_answer *a, struct err *e);
/* Then, of an archive: the first names of what was left out, each with a NUL behind it, as the
 * guest's own bytes. Borrowed. */
const char *file_op_left(const struct file_op *f, size_t *n);

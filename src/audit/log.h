/* SPDX-License-Identifier: Apache-2.0 */
/* audit/log.h - the writing end of the record.
 *
 * Opened once a process and shared by its threads; other processes open their own. An append that
 * returned 0 is acknowledged: it survives kill -9 of everybody, and with `sync` the machine's own
 * end. Nothing blocks under the lock but the disk. docs/design/audit.md has the states. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/head.h"
#include "audit/key.h"
#include "audit/record.h"
#include "base/text/cleanup.h"

struct log;

struct log_options {
	const char *dir;            /* NULL: audit below brig's state folder */
	bool sync;                  /* fdatasync before acknowledging */
	uint64_t segment_bytes;     /* 0: LOG_SEGMENT_BYTES */
	const char *const *anchors; /* NULL-ended and borrowed, or NULL; see audit/anchor.h */
};

#define LOG_SEGMENT_BYTES ((uint64_t)16 << 20)

/* Makes the folder and the key when there is none yet. */
int log_open(const struct log_options *o, struct log **ret, struct err *e);
struct log *log_share(struct log *l); /* one more owner, each of whom frees it */
struct log *log_free(struct log *l);  /* takes NULL */
DEFINE_CLEANUP(log, struct log *, log_free)

/* Writes n records one after another, all or none. Blocks until they are acknowledged. */
int log_append(struct log *l, const struct record *r, size_t n, struct err *e);

/* The same in two steps, for writers with many at once: whoever waits first writes for all that
 * have submitted. A ticket may be waited for by one thread, once; tickets are in order. */
int log_submit(struct log *l, const struct record *r, size_t n, uint64_t *ticket, struct err *e);
int log_wait(struct log *l, uint64_t ticket, struct err *e);

/* Anchors get the head with the first append and then at most once a second; this sends them what
 * they have not had. To be called before log_free. */
int log_anchor(struct log *l, struct err *e);

const struct audit_key *log_key(const struct log *l);
int log_dirfd(const struct log *l);       /* borrowed */
const char *log_dir(const struct log *l); /* its path, for messages */
struct head log_head(struct log *l);      /* as this process last saw it */

/* For prune and running, which do more under the same lock. */
int log_lock(struct log *l, struct err *e);
void log_unlock(struct log *l);
/* With the lock held: appends without taking it; starts a new segment. */
int log_append_locked(struct log *l, const struct record *r, size_t n, struct err *e);
struct head log_head_locked(const struct log *l);
int log_rotate_locked(struct log *l, struct err *e);

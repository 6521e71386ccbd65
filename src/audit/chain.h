/* SPDX-License-Identifier: Apache-2.0 */
/* audit/chain.h - what a writer does under the lock: finds the end of the record, mends it, goes
 * on.
 *
 * For audit/log.c, which shares one chain among the threads of a process. */
#pragma once

#include <stdbool.h>

#include "audit/head.h"
#include "audit/record.h"
#include "base/text/buf.h"

/* Records to be written, as record_body left them. */
struct bodies {
	struct buf text;
	size_t *ends;
	size_t n, room;
};

int bodies_add(struct bodies *b, const struct record *r, const struct audit_key *k);
void bodies_clear(struct bodies *b); /* keeps the memory */
void bodies_done(struct bodies *b);

/* What was found to be wrong when the lock was taken; goes on the record with the next append. */
struct mending {
	uint64_t adopted, cut; /* records taken over, bytes cut off behind the head */
	bool head_damaged;
	const char *lost; /* why acknowledged records are gone; NULL: they are not */
};

struct chain {
	int dir, head_fd, segment_fd;
	uint32_t segment; /* that segment_fd is */
	uint64_t segment_bytes;
	bool sync;
	struct audit_key key;
	struct head_state state;
	struct mending mending;
	struct buf out;
	char *path; /* of the folder, for messages */
};

/* Makes folder, key and head where there are none. */
int chain_open(struct chain *c, const char *dir, struct err *e);
void chain_done(struct chain *c);

int chain_lock(struct chain *c, struct err *e); /* blocks; afterwards state is the truth */
void chain_unlock(struct chain *c);

/* With the lock: all of them or none. */
int chain_append(struct chain *c, const struct bodies *b, struct err *e);
int chain_rotate(struct chain *c, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* audit/pieces.h - for verify: the lines of a record, checked by many threads.
 *
 * A line can be checked without its neighbours, so the segments are cut into pieces of a few MiB,
 * which threads take one by one: each checks the lines that begin in its piece and how they chain
 * among themselves. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "audit/anchor.h"
#include "audit/record.h"

enum { PIECE_FAULTS = 4 };

enum fault_kind { FAULT_FORM, FAULT_MAC, FAULT_CHAIN, FAULT_LOST, FAULT_UNFINISHED };

struct piece_fault {
	enum fault_kind kind;
	uint64_t line; /* within the piece, from 0 */
	uint64_t seq;  /* found there; 0: unknown */
	uint64_t expected;
};

struct piece {
	uint32_t segment;
	uint64_t from, to; /* lines that begin in here; `to` never beyond the head */
	bool last;         /* of what may be read of its segment */
	uint64_t lines, first_seq, last_seq, last_time;
	unsigned char first_prev[32], last_mac[32];
	unsigned faults;
	struct piece_fault fault[PIECE_FAULTS];
	int error; /* -errno that kept it from reading */
};

struct piece_check {
	int dir;
	const struct audit_key *key;
	struct piece *pieces; /* whoever made the check frees it */
	size_t count, room;
	atomic_size_t next;
	const struct anchor_line *anchored; /* ascending */
	size_t anchored_n;
	atomic_uchar *met; /* one per anchored: 1 the mac is right, 2 it is not */
};

/* Adds a segment, of which `size` bytes count; 0 or -ENOMEM. */
int check_add(struct piece_check *c, uint32_t segment, uint64_t size);
/* Fills all pieces in; wanted 0: one thread per CPU. */
void check_run(struct piece_check *c, unsigned wanted);

/* SPDX-License-Identifier: Apache-2.0 */
/* audit/head.h - the signed last word on how far the record goes.
 *
 * A head is one line of 256 bytes, blanks before the newline. The file `head` has two of them,
 * written in turn, so that one is whole at any time; the higher valid one counts. `base` has one.
 * An anchor gets the line without the blanks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/key.h"

enum { HEAD_SLOT = 256, HEAD_FILE = 2 * HEAD_SLOT };

struct head {
	uint64_t seq;     /* of the last record; 0: none yet */
	uint32_t segment; /* the segment that takes appends */
	uint64_t offset;  /* its length so far */
	uint64_t time_us; /* of the last record */
	unsigned char mac[32];
};

/* head_format writes a whole slot. head_parse takes exactly what it wrote: 0, -EINVAL (damaged) or
 * -EACCES (whole, but signed with another key). */
void head_format(const struct head *h, const struct audit_key *k, char slot[HEAD_SLOT]);
int head_parse(const char slot[HEAD_SLOT], const struct audit_key *k, struct head *ret);
/* A line of an anchor: without the blanks and without the newline. */
int head_parse_line(const char *p, size_t n, const struct audit_key *k, struct head *ret);

struct head_state {
	struct head head;
	int slot;         /* where it was found; the next one goes to the other */
	unsigned damaged; /* bit per slot: there, but neither empty nor valid */
	unsigned foreign; /* bit per slot: signed with another key */
	unsigned empty;   /* bit per slot */
	/* For head_follow: the file as it was last read or written, if it was sound, and its head.
	 */
	bool known;
	struct head on_file;
	char text[HEAD_FILE];
};

/* Reads both slots. 0; -ENOENT: nothing there; -EINVAL: neither slot is valid; -errno. head_read is
 * for whoever has no lock: it looks until two looks agree. */
int head_read(int fd, const struct audit_key *k, struct head_state *ret);
/* With the lock, into a state that this process has been following (or one of zeros): signatures
 * are checked again only if somebody else has written meanwhile. */
int head_follow(int fd, const struct audit_key *k, struct head_state *s);
int head_write(int fd, const struct audit_key *k, struct head_state *s, const struct head *h);

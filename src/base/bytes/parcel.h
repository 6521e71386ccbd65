/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/parcel.h - a record of any length on its way from one process of brig's to another.
 *
 * One function lists the fields of a record and serves both directions: it writes them to a buffer,
 * or reads them back in the same order. Both ends are of one build, which the mark in front says;
 * the reader checks every bound all the same. A failure is kept, and looked at once at the end.
 * Reading without an arena allocates nothing: safe between clone and exec.
 *
 * What always has the same size is a struct in a packet instead (proc/supervisor.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/buf.h"

struct parcel {
	struct buf *out;      /* writing; NULL: reading */
	const char *at, *end; /* reading: what is left */
	struct arena *arena;  /* reading: lists are made there; NULL: in `room` */
	bool copy;            /* reading: texts as well; else they stay where they were read */
	char *room;
	size_t left; /* bytes of `room` */
	bool failed;
};

/* Both begin with the mark: reading has failed if there is another. */
struct parcel parcel_to(struct buf *out, const char *mark);
struct parcel parcel_from(const char *data, size_t n, const char *mark);

bool parcel_whole(const struct parcel *p); /* nothing failed, and nothing is left */

void parcel_number(struct parcel *p, uint64_t *v);
void parcel_flag(struct parcel *p, bool *v);
void parcel_word(struct parcel *p, int *v, int max); /* of an enum that begins at 0 */
void parcel_fixed(struct parcel *p, void *v, size_t n);
void parcel_bytes(struct parcel *p, const char **v, size_t *n); /* read in place, never copied */
void parcel_text(struct parcel *p, const char **v);

/* How many elements follow, *n of them; when reading, zeroed room for them and one more. */
void *parcel_list(struct parcel *p, void *v, size_t *n, size_t size);

/* A list of texts, ended by NULL when it was read. n is NULL: it has always been. */
const char **parcel_texts(struct parcel *p, const char *const *v, size_t *n);

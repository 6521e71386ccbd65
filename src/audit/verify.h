/* SPDX-License-Identifier: Apache-2.0 */
/* audit/verify.h - has anybody touched the record since it was written?
 *
 * Reads everything up to the head with all cores, takes no lock, makes nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/head.h"

enum { VERIFY_FAULTS_MAX = 16, VERIFY_ANCHORS_MAX = 8 };

struct verify_fault {
	char what[160]; /* "the line was changed", "records 5 to 7 are missing" ... */
	char file[64];  /* "000001.jsonl", "head", "base", or the anchor's name */
	uint64_t line;  /* from 1; 0: the file as a whole */
	uint64_t seq;   /* of the record concerned; 0: unknown */
};

struct verify_anchor {
	char name[128];
	uint64_t lines, ignored; /* lines used; lines that are not of this record */
	uint64_t seq;            /* the highest it knows */
};

struct verify_report {
	bool ok;
	bool empty;                    /* there is no record yet, and nothing says that there was */
	uint64_t records, first, last; /* sequence numbers of what is there */
	uint64_t pruned; /* up to this number retention removed them, as `base` says; 0: none */
	uint64_t tail_records, tail_bytes; /* behind the head: never acknowledged */
	uint64_t segments;
	unsigned faults; /* all of them; the first VERIFY_FAULTS_MAX are described */
	struct verify_fault fault[VERIFY_FAULTS_MAX];
	unsigned anchors;
	struct verify_anchor anchor[VERIFY_ANCHORS_MAX];
	char dir[256];
	char key_id[KEY_ID_SIZE];
};

struct verify_options {
	const char *dir;            /* NULL: brig's own */
	const char *const *anchors; /* files with head lines, NULL-ended; NULL: the head alone */
	unsigned threads;           /* 0: one per CPU */
};

/* An error is something that kept it from looking; what it found is in the report. */
int verify(const struct verify_options *o, struct verify_report *ret, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* audit/prune.h - retention: removes the oldest records and leaves a chain that still verifies.
 *
 * What was removed is on the record (log.prune) and in the signed file `base`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/log.h"

struct prune_options {
	uint64_t max_age_ms;  /* 0: any age */
	uint64_t max_records; /* 0: any number */
	bool dry_run;         /* says what it would do */
	bool lazy;            /* only where it is cheap: whole segments */
	uint64_t now_us;      /* 0: the clock */
	const char *reason;   /* for the record; "age" or "count" if NULL */
};

struct prune_report {
	uint64_t removed, last; /* how many, and the last of them */
	uint64_t segments;      /* files that are gone */
	uint64_t left;          /* records that stay */
	uint64_t bytes;         /* given back to the file system */
};

int prune(struct log *l, const struct prune_options *o, struct prune_report *ret, struct err *e);

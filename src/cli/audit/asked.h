/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/asked.h - the command line of brig-audit, and what its commands share. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "audit/read/export.h"
#include "audit/read/filter.h"
#include "audit/read/query.h"
#include "base/text/err.h"
#include "cli/audit/words.h"
#include "model/settings/spec.h"

enum { ANCHORS_MAX = 8 };

struct asked {
	enum audit_command command;
	struct filter filter;
	enum format format;
	bool limited; /* a limit was given */
	bool json, dry_run, no_index, live;
	const char *within;        /* runs of this sandbox; NULL: all that are of none */
	const char *output, *word; /* word: the one positional argument, or NULL */
	uint64_t max_age_ms, max_records;
	bool aged, counted; /* they were given */
	const char *anchors[ANCHORS_MAX + 1];
	size_t anchor_count;
	const char *dir; /* NULL: audit.dir, or brig's own */
	/* From the settings, unless --dir names another record: */
	bool sync;
	const char *destinations[ANCHORS_MAX + 1]; /* of a new head */
};

int asked_parse(int argc, char **argv, struct asked *a, struct err *e);

/* What the command line left open, from the settings; borrows from the spec. */
int asked_settle(struct asked *a, struct spec *s, struct err *e);

/* The folder of the record, opened; its path goes to `path`. -ENOENT: there is none yet. */
int asked_open_dir(const struct asked *a, char path[PATH_MAX], struct err *e);

/* A reader of it. -ENOENT: a record that does not exist yet is an empty one to whoever lists it. */
int asked_query(const struct asked *a, int *dirfd, struct query **q, struct err *e);

/* One per command; each returns 0 or -errno, or 1 for a record that is not as it should be. */
int audit_list(const struct asked *a, struct err *e);
int audit_runs(const struct asked *a, struct err *e);
int audit_show(const struct asked *a, struct err *e);
int audit_tail(const struct asked *a, struct err *e);
int audit_verify(const struct asked *a, struct err *e);
int audit_prune(const struct asked *a, struct err *e);

/* Empties the buffer to fd once it is large, or when told to. */
int flush_to(int fd, struct buf *b, bool all, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/index_internal.h - what the parts of the index share. */
#pragma once

#include <sqlite3.h>

#include "audit/read/index.h"

struct index {
	int dirfd; /* its own; flock on it guards making and discarding the file */
	char *dir;
	ino_t ino; /* of the file it opened */
	sqlite3 *db;
	sqlite3_stmt *insert;
};

/* Puts SQLite's complaint in e. -EBADMSG: the file is damaged, or no index of ours. */
int index_fail(const struct index *ix, int rc, struct err *e);
int index_sql(struct index *ix, const char *sql, struct err *e);
int index_prepare(struct index *ix, const char *sql, sqlite3_stmt **ret, struct err *e);

static inline void cleanup_stmt(sqlite3_stmt **s)
{
	(void)sqlite3_finalize(*s);
}

/* Brings the index up to the end of the segments (index_fill.c). */
int index_catch_up(struct index *ix, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/migrate/migrate_internal.h - shared by the two halves of migrate: the order of things in
 * migrate.c, the work on the text in migrate_rewrite.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes/yaml.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"

struct migrate_text {
	const char *data;
	size_t n;
	size_t *start; /* of each line, and one behind the last */
	size_t lines;
	const char *newline;
};

struct migrate_job {
	const char *name;
	struct migrate_text text;
	const struct node *security, *docker;
	bool enabled;
	struct buf *out;
};

bool migrate_moves(const struct node *n); /* into the sub-block docker */
const char *migrate_backend(const struct migrate_job *j);
int migrate_unable(const struct migrate_job *j, struct err *e); /* sets the error that says so */

int migrate_split(struct arena *a, const char *data, size_t n, struct migrate_text *t,
		  struct err *e);
int migrate_rewrite(const struct migrate_job *j, struct arena *a, struct err *e); /* into j->out */

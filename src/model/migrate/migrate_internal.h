/* SPDX-License-Identifier: Apache-2.0 */
/* model/migrate/migrate_internal.h - shared by the two halves of migrate: the order of things in
 * migrate.c, the work on the text in migrate_rewrite.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes/yaml.h"
#include "base/edit/edit.h"

struct migrate_job {
	const char *name;
	struct edit_text text;
	const char *newline;
	const struct node *security, *docker;
	bool enabled;
	struct buf *out;
};

bool migrate_moves(const struct node *n); /* into the sub-block docker */
const char *migrate_backend(const struct migrate_job *j);
int migrate_unable(const struct migrate_job *j, struct err *e); /* sets the error that says so */

int migrate_rewrite(const struct migrate_job *j, struct arena *a, struct err *e); /* into j->out */

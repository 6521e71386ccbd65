/* SPDX-License-Identifier: Apache-2.0 */
/* model/migrate/migrate.h - an InitRunner role in the old form (`security.docker`), rewritten into
 * the new one (`security.sandbox`). */
#pragma once

#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"

/* Writes the whole document to `out`, everything outside the block byte for byte and comments where
 * they stood; a document without security.docker comes out unchanged. What was written is read
 * again and compared before it counts: a layout that cannot be rewritten without loss is an error.
 */
int migrate_file(const char *name, const char *data, size_t n, struct buf *out, struct err *e);

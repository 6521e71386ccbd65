/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/bundles.h - which bundles this user has installed: a record of each, in the state
 * folder.
 *
 * A record outlives the bundle's files: a later archive of the same name and version must have the
 * digest that is written here. Whatever lies in a recorded folder is a stranger's word, and no
 * configuration until `brig allow` was told its exact content. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/sha256.h"
#include "base/text/err.h"

enum { BUNDLE_RECORD_WORD = 65, BUNDLE_RECORD_SOURCE = 768 };

struct bundle_record {
	char name[BUNDLE_RECORD_WORD], version[BUNDLE_RECORD_WORD];
	char digest[8 + SHA256_HEX];       /* of the archive, with "sha256:" */
	char folder[PATH_MAX];             /* its real path; "": its files were removed */
	char source[BUNDLE_RECORD_SOURCE]; /* the file or reference it came from */
	char signer[BUNDLE_RECORD_SOURCE]; /* the key it was verified with; "": none */
	uint64_t installed;                /* seconds since 1970 */
};

/* 0, 1 when there is none, or an error. */
int bundle_record_load(const char *name, const char *version, struct bundle_record *ret,
		       struct err *e);
int bundle_record_save(const struct bundle_record *b, struct err *e);
int bundle_record_drop(const char *name, const char *version, struct err *e);

/* Called for each record, in no order; what it returns ends the walk unless it is 0. */
typedef int bundle_record_fn(void *arg, const struct bundle_record *b);
int bundle_records(bundle_record_fn *fn, void *arg);

/* Is it a path of an installed bundle's? A file is asked for twice: by the path that was named,
 * which may have become a link, and by its real one. */
bool bundle_has(const char *path);

/* The role of "NAME" or "NAME@VERSION"; without a version there must be one alone, and no
 * file here has that name. 0, 1 when there is no such bundle, or an error. */
int bundle_role(const char *word, char path[PATH_MAX], struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/manifest.h - manifest.json of a bundle: what is in it, and what it says of itself.
 *
 * Pure. A stranger wrote it: what passes is a name, a version and paths that mean the same on every
 * file system (docs/design/bundles.md), within bounds. The rest is text to be shown. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/text/buf.h"
#include "base/text/err.h"

#define MANIFEST_NAME "manifest.json"
#define MANIFEST_ROLE "role.yaml"
#define MANIFEST_MAX ((size_t)1 << 20)
#define BUNDLE_FILE_MAX ((uint64_t)64 << 20)
#define BUNDLE_BYTES_MAX ((uint64_t)256 << 20)

enum {
	BUNDLE_FILES_MAX = 4096,
	BUNDLE_BACKENDS_MAX = 16,
	BUNDLE_PATH_MAX = 240,
	BUNDLE_DEPTH_MAX = 16,
	BUNDLE_WORD_MAX = 64, /* of a name or version */
};

enum bundle_kind { BUNDLE_ROLE, BUNDLE_SKILL, BUNDLE_DATA, BUNDLE_KINDS };
extern const char *const bundle_kinds[BUNDLE_KINDS];

struct bundle_file {
	const char *path; /* in the archive */
	const char *sha256;
	uint64_t size;
	enum bundle_kind kind;
};

struct bundle_manifest {
	struct jread *root; /* all texts are its */
	const char *name, *version;
	/* "" where nothing is said. */
	const char *description, *author, *created_at, *packed_by;
	struct bundle_file *files; /* in the order of their paths */
	size_t n;
	uint64_t bytes; /* of all files */
	const char *backends[BUNDLE_BACKENDS_MAX];
	size_t backend_count;
};

int bundle_manifest_read(const char *text, size_t n, struct bundle_manifest *ret, struct err *e);
void bundle_manifest_done(struct bundle_manifest *m); /* takes one that is empty */

/* The file of that path, or NULL. */
struct bundle_file *bundle_manifest_find(const struct bundle_manifest *m, const char *path);
/* Where it is installed: its path, of data without "data/". */
const char *bundle_file_place(const struct bundle_file *f);

bool bundle_name_ok(const char *name);
bool bundle_version_ok(const char *version);
bool bundle_path_ok(const char *path);

void bundle_manifest_schema(struct buf *out);

/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/image_record.h - what the store knows of an image: JSON that brig writes and reads.
 *
 * It is made once, at the import, from a configuration that a stranger wrote, by a confined
 * process; a start reads this and nothing else of the image's. Pure. */
#pragma once

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "image/ref.h"
#include "model/known/image_root.h"

enum { IMAGE_RECORD_MAX = 512 << 10, IMAGE_ARENA_MAX = 4 << 20, IMAGE_DIFFS_MAX = 128 };
#define IMAGE_CONFIG_MAX ((size_t)1 << 20)

struct image_record {
	struct image_root root; /* without `store` */
	const char *architecture, *os, *variant;
	const char *manifest;     /* digest of the manifest; "": it came without one */
	const char *const *diffs; /* of the layers' contents, "sha256:..."; NULL-terminated */
	const char *const *ports; /* NULL-terminated */
	size_t diff_count;
	uint64_t imported, bytes; /* seconds; of its layers */
	uint64_t dropped;         /* files that lost a set-id bit, or a capability */
};

/* A configuration, as OCI and docker have it. What makes no sense refuses it. */
int image_config_read(const char *text, size_t n, struct arena *a, struct image_record *ret,
		      struct err *e);
void image_record_write(const struct image_record *r, struct buf *out);
/* `whole`: it is in the store, and has layers. */
int image_record_read(const char *text, size_t n, bool whole, struct arena *a,
		      struct image_record *ret, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/import.h - images from files: an OCI layout, as a folder or an archive, or what
 * `docker save` and `podman save` write.
 *
 * Every blob is compared with the digest and the size that lead to it; every layer with what the
 * configuration says of its contents. Ended at any moment it leaves nothing that is used. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"
#include "image/oci.h"
#include "image/store/image_store.h"

/* Where blobs are: a file for a digest, open for reading and at most so large, or -errno. */
typedef int blob_open_fn(void *arg, const struct oci_blob *b, struct err *e);

struct import_want {
	const char *name; /* NULL: as the archive says */
	/* Told of each layer before it is unpacked; may be NULL. */
	void (*progress)(void *arg, size_t layer, size_t of, uint64_t bytes);
	/* An image that is in the store now. */
	int (*added)(void *arg, const char *name, const struct image_record *r, size_t left_out);
	void *arg;
};

/* A file or a folder. */
int image_import(const char *path, const struct import_want *w, struct err *e);

/* One image of which the manifest is known to be that of `digest`; its blobs come from `open`. For
 * layers that are in the store it is not called. */
int image_import_manifest(const struct image_store *s, const char *text, size_t n,
			  const char *digest, const char *name, blob_open_fn *open, void *blobs,
			  const struct import_want *w, struct err *e);

/* Every layer of every image against its sums; `each` is told of each image. */
int image_verify(int (*each)(void *arg, const char *name, const struct image_record *r,
			     const struct err *wrong),
		 void *arg, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/texts.h - what strangers wrote of an image, read by a process that can do nothing
 * else; what that says is looked at again. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "image/oci.h"
#include "image/store/image_record.h"

enum { ARCHIVE_IMAGES_MAX = 16, ARCHIVE_PATH_MAX = 256 };

/* `manifest.json` of docker save: of each image its configuration and layers, by their files. */
struct archive_image {
	char config[ARCHIVE_PATH_MAX], name[OCI_NAME_MAX];
	size_t n;
	char layers[OCI_LAYERS_MAX][ARCHIVE_PATH_MAX];
};

struct archive_list {
	size_t n;
	struct archive_image v[ARCHIVE_IMAGES_MAX];
};

/* Pure: for the process below, and for tests. */
int archive_list_read(const char *text, size_t n, struct archive_list *ret, struct err *e);

int texts_index(const char *text, size_t n, struct oci_index *ret, struct err *e);
int texts_manifest(const char *text, size_t n, struct oci_manifest *ret, struct err *e);
int texts_archive(const char *text, size_t n, struct archive_list *ret, struct err *e);
int texts_config(const char *text, size_t n, struct arena *a, struct image_record *ret,
		 struct err *e);

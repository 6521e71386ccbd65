/* SPDX-License-Identifier: Apache-2.0 */
/* image/oci.h - manifests of OCI images and artifacts, read and written. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "image/ref.h"

#define OCI_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define OCI_EMPTY_TYPE "application/vnd.oci.empty.v1+json"
#define OCI_EMPTY "{}"

enum { OCI_LAYERS_MAX = 128, OCI_TYPE_MAX = 128 };
#define OCI_MANIFEST_MAX ((size_t)1 << 20)

struct oci_blob {
	char type[OCI_TYPE_MAX];
	char digest[REF_DIGEST_MAX];
	uint64_t size;
};

struct oci_manifest {
	char artifact[OCI_TYPE_MAX]; /* "": none is said */
	struct oci_blob config;
	struct oci_blob layers[OCI_LAYERS_MAX];
	size_t n;
};

/* Refuses an index, other digests than SHA-256, and more layers than fit. */
int oci_read(const char *text, size_t n, struct oci_manifest *ret, struct err *e);
void oci_write(const struct oci_manifest *m, struct buf *out);
/* The first layer of that type, or NULL. */
const struct oci_blob *oci_layer(const struct oci_manifest *m, const char *type);

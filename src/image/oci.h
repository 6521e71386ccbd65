/* SPDX-License-Identifier: Apache-2.0 */
/* image/oci.h - manifests of OCI images and artifacts, read and written. Pure. */
#pragma once

#include <stdbool.h>
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

#define DOCKER_MANIFEST_TYPE "application/vnd.docker.distribution.manifest.v2+json"
#define OCI_INDEX_TYPE "application/vnd.oci.image.index.v1+json"
#define DOCKER_INDEX_TYPE "application/vnd.docker.distribution.manifest.list.v2+json"

enum { OCI_INDEX_MAX = 128, OCI_WORD_MAX = 32, OCI_NAME_MAX = 512 };

/* One line of an index: a manifest, or another index. */
struct oci_entry {
	struct oci_blob blob;
	char os[OCI_WORD_MAX], architecture[OCI_WORD_MAX], variant[OCI_WORD_MAX]; /* "": not said */
	char name[OCI_NAME_MAX]; /* by which it was kept; "": none */
};

struct oci_index {
	size_t n;
	struct oci_entry v[OCI_INDEX_MAX];
};

/* An index, or a list of docker's. */
int oci_read_index(const char *text, size_t n, struct oci_index *ret, struct err *e);
bool oci_is_index(const char *type);
/* The same as oci_read for an image: docker's type is one, too, and it has a layer. */
int oci_read_image(const char *text, size_t n, struct oci_manifest *ret, struct err *e);
/* Does every text in it end, and every digest look like one? Of one that another process made. */
bool oci_sound(const struct oci_manifest *m);
bool oci_index_sound(const struct oci_index *x);
/* Can this machine run what is for that system, architecture and variant? 2: it is its own; 1: it
 * is not said, or an older variant; 0: no. */
int oci_fits(const char *os, const char *architecture, const char *variant);

/* Refuses an index, other digests than SHA-256, and more layers than fit. */
int oci_read(const char *text, size_t n, struct oci_manifest *ret, struct err *e);
void oci_write(const struct oci_manifest *m, struct buf *out);
/* The first layer of that type, or NULL. */
const struct oci_blob *oci_layer(const struct oci_manifest *m, const char *type);

/* SPDX-License-Identifier: Apache-2.0 */
/* image/registry.h - a client of the OCI distribution API: manifests and blobs, there and back.
 *
 * Blocks, until its deadline. A connection for each request. TLS with verified names, unless plain
 * HTTP was asked for, which is spoken with this machine alone. Credentials go to the registry, and
 * to whom it names as the issuer of its tokens; a redirect to anywhere else goes without. What is
 * fetched is bounded before it is read; digests are the caller's to compare, who has the bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "image/login.h"
#include "image/oci.h"
#include "image/ref.h"

enum { REGISTRY_REDIRECTS_MAX = 5, REGISTRY_URL_MAX = 4096 };

typedef void registry_progress_fn(void *arg, uint64_t done, uint64_t of);

struct registry_want {
	const struct ref *ref;     /* borrowed, like all of it */
	const struct login *login; /* NULL: nobody has logged in */
	bool plain;                /* HTTP without TLS */
	uint64_t deadline;         /* clock_us */
	registry_progress_fn *progress;
	void *arg;
};

struct registry;

int registry_open(const struct registry_want *w, struct registry **ret, struct err *e);
struct registry *registry_free(struct registry *r); /* takes NULL */
DEFINE_CLEANUP(registry, struct registry *, registry_free)

/* The manifest that the reference names, as bytes: by its digest where that was written. */
int registry_manifest(struct registry *r, struct buf *ret, struct err *e);
/* A blob of exactly the size that the manifest says, written to fd. */
int registry_blob(struct registry *r, const struct oci_blob *b, int fd, struct err *e);

/* Uploads what is in fd from its beginning, unless it is there. */
int registry_put_blob(struct registry *r, const struct oci_blob *b, int fd, struct err *e);
int registry_put_manifest(struct registry *r, const char *text, size_t n, struct err *e);

/* Where a Location leads that came from `from`: a full address, or a path there. */
int registry_follow(const char *from, const char *location, size_t n, char *ret, size_t room,
		    struct err *e);

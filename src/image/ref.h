/* SPDX-License-Identifier: Apache-2.0 */
/* image/ref.h - references to what a registry keeps: HOST[:PORT]/REPOSITORY[:TAG][@sha256:HEX].
 *
 * Pure. The host must be written: nothing is fetched from a place that nobody named. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

enum {
	REF_HOST_MAX = 262, /* with a port */
	REF_REPOSITORY_MAX = 256,
	REF_TAG_MAX = 129,
	REF_DIGEST_MAX = 72, /* "sha256:" and 64 digits, with the NUL */
};

struct ref {
	char host[REF_HOST_MAX]; /* with the port, where one was written */
	char repository[REF_REPOSITORY_MAX];
	char tag[REF_TAG_MAX];       /* "latest" where none was written */
	char digest[REF_DIGEST_MAX]; /* "": none was written */
};

/* "oci://" in front is passed over. */
int ref_parse(const char *text, struct ref *ret, struct err *e);
/* Could it be one? Then it is no file: it has a host with a dot, a colon, or is localhost. */
bool ref_looks_like(const char *text);
/* "sha256:" and 64 lower-case hex digits? */
bool ref_is_digest(const char *text);
/* localhost, 127.0.0.0/8 or [::1]? With or without a port. */
bool ref_is_loopback(const char *host);

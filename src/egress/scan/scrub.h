/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scrub.h - takes the secrets of a run out of what upstream answers.
 *
 * Every form of secret.h is replaced by the secret's placeholder, whatever the chunks. What is held
 * back of a stream without a secret in it depends on that stream alone, never on the secrets:
 * everything behind the last byte of 0x20 or less, at most SCRUB_HOLD bytes. The length changes:
 * the caller re-frames (chunked) and drops Content-Length wherever scrub_needed says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "egress/unpack/coding.h"
#include "egress/seek/secret.h"

/* As long as any form can be. */
#define SCRUB_HOLD (SECRET_MAX * SECRET_ESCAPED)

struct scrubber; /* one a run: the compiled forms */
struct scrub;    /* one a stream */

/* `delayed`: a value may have a blank in it, as its owner said; then SCRUB_HOLD bytes always wait
 * for the end. */
int scrubber_new(const struct secret *secrets, size_t n, bool delayed, struct scrubber **ret,
		 struct err *e);
struct scrubber *scrubber_free(struct scrubber *s);
/* The same with these secrets from now on, in streams that are open, too; these look for those of
 * before as well until they hold nothing back. The old one is freed with the last of them. */
int scrubber_renew(struct scrubber **s, const struct secret *secrets, size_t n, struct err *e);
DEFINE_CLEANUP(scrubber, struct scrubber *, scrubber_free)
bool scrub_needed(const struct scrubber *s); /* false: there is no secret to look for */

/* A whole text, such as a reason phrase or the value of a field, appended to out; *hits grows. */
int scrub_text(struct scrubber *s, const char *p, size_t n, struct buf *out, unsigned *hits,
	       struct err *e);

/* `codings`: the content codings of the body, NULL when there is none. A coded body comes out
 * decoded: drop Content-Encoding. */
int scrub_open(struct scrubber *s, struct unpack_side *u, const struct codings *codings,
	       struct scrub **ret, struct err *e);
struct scrub *scrub_close(struct scrub *b);
DEFINE_CLEANUP(scrub, struct scrub *, scrub_close)

/* Appends to out what may be passed on. -EBADMSG: the coding is broken; -EFBIG: it swells beyond
 * what is bearable. The stream must then be cut. */
int scrub_feed(struct scrub *b, const char *p, size_t n, bool last, struct buf *out, struct err *e);
bool scrub_coded(const struct scrub *b);
unsigned scrub_hits(const struct scrub *b); /* so far, for the record */

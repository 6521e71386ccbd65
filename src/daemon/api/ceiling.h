/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/ceiling.h - what a caller with a token may ask of a sandbox.
 *
 * The owner's own client sends a spec that was put together with the owner's rights, and is
 * believed. What comes over TCP is a layer that nobody has trusted: it may only narrow the ceiling,
 * a brig.yaml of the daemon's user. Without one the ceiling is brig's own defaults: no folder of
 * the host, no network, no image, native or bwrap. */
#pragma once

#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "http/problem.h"

struct ceiling;

/* `path` NULL: what `daemon.ceiling` in the system's and the user's own file says, else the
 * defaults. */
int ceiling_open(const char *path, struct ceiling **ret, struct err *e);
/* What a sandbox was made with is the ceiling of its commands. */
int ceiling_of(const char *spec, size_t n, struct ceiling **ret, struct err *e);
struct ceiling *ceiling_free(struct ceiling *c);
DEFINE_CLEANUP(ceiling, struct ceiling *, ceiling_free)

struct spec;

/* Writes the spec that holds, as JSON, into `out`. `c` NULL: the caller is the owner, and the spec
 * is only read to see that it can be. *ret is the same, the caller's; `ret` may be NULL. */
enum problem ceiling_apply(const struct ceiling *c, const char *spec, size_t n, struct buf *out,
			   struct spec **ret, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/inflate.h - the bytes of a layer: plain, gzip or zstd, as its first bytes say.
 *
 * What comes out is counted and summed. It may be at most INFLATE_RATIO times what went in, beyond
 * the first few MiB, and at most so many bytes: 0-filled disks are no reason to fill one. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes/sha256.h"

enum { INFLATE_RATIO = 200 };
#define INFLATE_FREE ((uint64_t)16 << 20)

/* At most n bytes, 0 at the end, or -errno. */
typedef ssize_t inflate_get_fn(void *arg, void *p, size_t n);

struct inflate;

/* NULL: no memory. `most` is what may come out. */
struct inflate *inflate_new(inflate_get_fn *get, void *arg, uint64_t most);
struct inflate *inflate_free(struct inflate *z);
/* All n bytes, or what is left of them; less only at the end. -EBADMSG: damaged, or something is
 * behind its end; -EFBIG: too much comes out. */
ssize_t inflate_read(struct inflate *z, void *p, size_t n);
/* Of all that was read. */
void inflate_sum(struct inflate *z, char hex[SHA256_HEX]);

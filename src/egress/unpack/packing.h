/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unpack/packing.h - the ways of packing that the door reads, and how content shows them.
 *
 * Recognised by its first bytes alone, never by a name or type that somebody gave it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum packed_as {
	PACKING_NONE,
	PACKING_GZIP,
	PACKING_ZLIB,
	PACKING_DEFLATE, /* as HTTP has it: zlib's form or bare */
	PACKING_BARE,    /* deflate without a head */
	PACKING_ZSTD,
	PACKING_BROTLI, /* has no sign of its own: only where somebody says so */
	PACKING_XZ,
	PACKING_BZIP2,
	PACKING_ZIP,
	PACKING_TAR,
	PACKINGS
};

/* Why content could not be read, or not all of it. */
enum unreadable {
	UNREADABLE_NOT, /* it could */
	UNREADABLE_BROKEN,
	UNREADABLE_LOCKED,
	UNREADABLE_METHOD,
	UNREADABLE_DEEP,
	UNREADABLE_BIG,
	UNREADABLE_SLOW,
	UNREADABLE_MEMORY,
	UNREADABLE_GONE,
	UNREADABLES
};

const char *unreadable_text(enum unreadable u); /* "it is encrypted" */

enum content_class { CONTENT_TEXT, CONTENT_IMAGE, CONTENT_CODE };

#define PACKING_START 264 /* so many bytes tell everything */

/* What begins with these n bytes; *more: others may change that. *sure: nothing else begins so. */
enum packed_as packing_of(const char *p, size_t n, bool *more, bool *sure);
/* Does one more of the same begin here? Meaningful from packing_again_bytes on. */
bool packing_again(enum packed_as k, const char *p, size_t n);
enum content_class content_class(const char *p, size_t n);

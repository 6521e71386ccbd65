/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unpack/packing.h"

#include <string.h>

#include "base/text/cleanup.h"

struct packing_sign {
	enum packed_as packing;
	bool sure;
	unsigned char at, n;
	char bytes[8];
};

static const struct packing_sign signs[] = {
	{ PACKING_GZIP, true, 0, 3, "\x1f\x8b\x08" },
	{ PACKING_ZSTD, true, 0, 4, "\x28\xb5\x2f\xfd" },
	{ PACKING_XZ, true, 0, 6,
	  "\xfd"
	  "7zXZ\0" },
	{ PACKING_ZIP, true, 0, 4, "PK\x03\x04" },
	{ PACKING_BZIP2, true, 4, 6, "1AY&SY" },
	{ PACKING_BZIP2, true, 4, 6, "\x17rE8P\x90" },
	/* Two bytes, with which a text may begin. */
	{ PACKING_ZLIB, false, 0, 2, "\x78\x01" },
	{ PACKING_ZLIB, false, 0, 2, "\x78\x5e" },
	{ PACKING_ZLIB, false, 0, 2, "\x78\x9c" },
	{ PACKING_ZLIB, false, 0, 2, "\x78\xda" },
};

static const struct content_sign {
	enum content_class is;
	unsigned char at, n;
	char bytes[8];
} contents[] = {
	{ CONTENT_IMAGE, 0, 8, "\x89PNG\r\n\x1a\n" },
	{ CONTENT_IMAGE, 0, 3, "\xff\xd8\xff" },
	{ CONTENT_IMAGE, 0, 4, "GIF8" },
	{ CONTENT_IMAGE, 8, 4, "WEBP" },
	{ CONTENT_IMAGE, 4, 4, "ftyp" },
	{ CONTENT_IMAGE, 0, 4, "II*\0" },
	{ CONTENT_IMAGE, 0, 4, "MM\0*" },
	{ CONTENT_IMAGE, 0, 4, "wOF2" },
	{ CONTENT_IMAGE, 0, 4, "wOFF" },
	{ CONTENT_CODE, 0, 4,
	  "\x7f"
	  "ELF" },
	{ CONTENT_CODE, 0, 4, "\xca\xfe\xba\xbe" },
	{ CONTENT_CODE, 0, 4, "\xcf\xfa\xed\xfe" },
	{ CONTENT_CODE, 0, 4, "\0asm" },
	{ CONTENT_CODE, 0, 8, "!<arch>\n" },
	{ CONTENT_CODE, 0, 4, "MZ\x90\0" },
	/* Python's, whose first two bytes are its version's */
	{ CONTENT_CODE, 2, 6, "\r\n\0\0\0\0" },
};

const char *unreadable_text(enum unreadable u)
{
	static const char *const texts[UNREADABLES] = {
		[UNREADABLE_NOT] = "it can be read",
		[UNREADABLE_BROKEN] = "it is broken or says two things of itself",
		[UNREADABLE_LOCKED] = "it is encrypted",
		[UNREADABLE_METHOD] = "it is packed in a way that the door does not know",
		[UNREADABLE_DEEP] = "it is packed more than four times",
		[UNREADABLE_BIG] = "it says too much",
		[UNREADABLE_SLOW] = "reading it takes too long",
		[UNREADABLE_MEMORY] = "reading it takes too much memory",
		[UNREADABLE_GONE] = "the unpacker has ended",
	};

	return texts[u < UNREADABLES ? u : UNREADABLE_BROKEN];
}

static bool packing_holds(const char *p, size_t n, size_t at, const char *bytes, size_t len,
			  bool *more)
{
	size_t have = n > at ? n - at : 0;

	if (have < len && memcmp(p + (at < n ? at : n), bytes, have) == 0)
		*more = true;
	return have >= len && memcmp(p + at, bytes, len) == 0;
}

/* The version may be any of "0" to "9", as in "BZh9". */
static bool is_bzip2_head(const char *p, size_t n)
{
	return n < 4 ? memcmp(p, "BZh", n < 3 ? n : 3) == 0
		     : memcmp(p, "BZh", 3) == 0 && p[3] >= '1' && p[3] <= '9';
}

enum packed_as packing_of(const char *p, size_t n, bool *more, bool *sure)
{
	bool bzip2 = is_bzip2_head(p, n);

	*more = false;
	*sure = true;
	for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
		const struct packing_sign *s = &signs[i];
		bool open = false;

		if (s->packing == PACKING_BZIP2 && !bzip2)
			continue;
		if (packing_holds(p, n, s->at, s->bytes, s->n, &open)) {
			*sure = s->sure;
			return s->packing;
		}
		*more |= open;
	}
	/* "ustar", and a NUL or blank behind it, stands far behind the beginning of a name. */
	if (n >= PACKING_START)
		return memcmp(p + 257, "ustar", 5) == 0 ? PACKING_TAR : PACKING_NONE;
	*more = true;
	return PACKING_NONE;
}

bool packing_again(enum packed_as k, const char *p, size_t n)
{
	bool more, sure;

	/* A frame of zstd that holds nothing to unpack: the raw bytes are looked at. */
	if (k == PACKING_ZSTD && n >= 4 && ((unsigned char)p[0] & 0xf0) == 0x50 &&
	    memcmp(p + 1, "\x2a\x4d\x18", 3) == 0)
		return true;
	return packing_of(p, n, &more, &sure) == k && sure;
}

enum content_class content_class(const char *p, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(contents); i++)
		if (n >= (size_t)contents[i].at + contents[i].n &&
		    memcmp(p + contents[i].at, contents[i].bytes, contents[i].n) == 0)
			return contents[i].is;
	return CONTENT_TEXT;
}

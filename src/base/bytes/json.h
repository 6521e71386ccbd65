/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/json.h - writes JSON into a buffer, in order, without building a tree.
 *
 * Strings come out as valid UTF-8 whatever goes in: a byte that is not UTF-8 becomes U+FFFD,
 * control characters are escaped. Keys and values alternate; the writer places commas and, when
 * asked, indents. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"

/* jansson, which base/bytes/jread.c is made of, has functions of these names and is linked into the
 * same programs. */
#define json_object brig_json_object
#define json_array brig_json_array
#define json_null brig_json_null

struct jread;

struct json {
	struct buf *out;
	unsigned depth;
	bool pretty;
	bool fresh;     /* nothing written yet at this level */
	bool after_key; /* the next value belongs to a key */
};

/* One string, quotes and all: the only place that writes one. What a terminal would obey or hide
 * (clean.h) is escaped, bytes that are not UTF-8 become U+FFFD. */
void json_quote(struct buf *out, const char *p, size_t n);

void json_init(struct json *j, struct buf *out, bool pretty);
void json_object(struct json *j);
void json_object_end(struct json *j);
void json_reopen(struct json *j); /* the object just ended takes more members; end it again */
void json_array(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);
void json_str(struct json *j, const char *s); /* NULL writes null */
void json_strn(struct json *j, const char *p, size_t n);
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_milli(struct json *j, uint64_t thousandths); /* 1500 writes 1.5 */
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
void json_raw(struct json *j, const char *p, size_t n); /* a value that is JSON already */
void json_kvalue(struct json *j, const char *key, const struct jread *v); /* NULL: null */

/* key and value in one call */
void json_kstr(struct json *j, const char *key, const char *s);
void json_ku64(struct json *j, const char *key, uint64_t v);
void json_kbool(struct json *j, const char *key, bool v);
void json_kobject(struct json *j, const char *key); /* ends with json_object_end, */
void json_karray(struct json *j, const char *key);  /* json_array_end */
void json_kstrs(struct json *j, const char *key,
		const char *const *v); /* NULL-terminated; NULL: none */

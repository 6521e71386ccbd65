/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/str.h - text: comparison, nearest word, UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool str_eq(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);
bool str_ends_nocase(const char *s, const char *suffix);
bool str_starts_nocase(const char *s, const char *prefix);
bool str_has_control(const char *s); /* any byte below 0x20 or 0x7f: such names are refused */

/* Of a text: the same in every version and on every machine, since names of files and places of
 * locks come from it. */
uint64_t str_hash(const char *s);

/* Goes on with a sum, 0 at first. Spreads, and finds accidents; whoever wants to can make two that
 * meet. For this machine alone. */
uint64_t mem_hash(uint64_t sum, const void *data, size_t n);

/* One word for a shell, for a line that somebody may paste: in quotes, or the word PATH where it
 * does not fit or a terminal would not show it as it is. */
const char *str_shell_word(const char *s, char *out, size_t n);

/* The word of a NULL-terminated list that `s` most likely meant, or NULL when none is near. */
const char *str_nearest(const char *s, const char *const *words);

/* How many of the first n bytes can be kept without cutting a UTF-8 character in half. Bytes that
 * are not UTF-8 count as characters of their own. */
size_t utf8_cut(const char *p, size_t n);

/* Length of the valid UTF-8 sequence at p (1 to 4), or 0 when the bytes are not UTF-8. */
size_t utf8_len(const char *p, size_t n);

/* The character that those `len` bytes are, as utf8_len measured them. */
uint32_t utf8_code(const char *p, size_t len);

/* SPDX-License-Identifier: Apache-2.0 */
/* git/git_syntax.h - git's configuration format, read as git reads it. Pure. */
#pragma once

#include <stddef.h>

struct git_setting {
	const char *section; /* lower case */
	const char *sub;     /* as written, "" where there is none */
	const char *key;     /* lower case */
	const char *value;   /* unquoted; NULL for a key alone, which means true */
};

enum { GIT_WORD_MAX = 256, GIT_VALUE_MAX = 1024 };

/* Calls `found` for each setting in order, until it returns something other than 0, which is the
 * result. What it gets is borrowed for the call. -EINVAL: git would refuse the text, or a word is
 * longer than the limits above. */
int git_syntax_read(const char *text, size_t n,
		    int (*found)(void *arg, const struct git_setting *s), void *arg);

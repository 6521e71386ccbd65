/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/last_words.h - the last that was said, as much as there is room for. */
#pragma once

#include <stddef.h>

struct last_words {
	char text[4096];
	size_t n;
};

void last_words_add(struct last_words *t, const char *data, size_t n);

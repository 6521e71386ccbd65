/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz.h - what the targets share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

/* The input as text in a block of its own, to be freed; bytes behind a NUL are lost. */
static inline char *text_of(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	require(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

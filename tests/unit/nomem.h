/* SPDX-License-Identifier: Apache-2.0 */
/* unit/nomem.h - the nth allocation fails. For one file of a test, which is linked so that these
 * functions stand in malloc's place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static long left = -1; /* allocations until one fails; negative: none does */
static bool for_good;  /* and all behind it */
static bool struck;

static bool fails_now(void)
{
	if (left < 0)
		return false;
	if (left > 0) {
		left--;
		return false;
	}
	struck = true;
	if (!for_good)
		left = -1;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails_now() ? NULL : __real_realloc(p, n);
}

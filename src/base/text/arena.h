/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/arena.h - memory that is given back all at once: one arena a request.
 *
 * An arena has a maximum set at creation; past it every allocation fails, so that nothing a caller
 * writes can make brig grow without bound. Not thread-safe. */
#pragma once

#include <stddef.h>

#include "base/text/cleanup.h"

struct arena;

struct arena *arena_new(size_t max);
struct arena *arena_new_on(struct arena *base, size_t max); /* keeps base alive as long as itself */
struct arena *arena_free(struct arena *a);                  /* takes NULL; returns NULL */
DEFINE_CLEANUP(arena, struct arena *, arena_free)

void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned for any type; NULL when full */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Makes room for one more element of `size` bytes in the array *v of *n; returns the new slot or
 * NULL. */
/* Makes room for one more element of `size` bytes in the array *v of *n; the new slot or NULL. */
void *arena_push(struct arena *a, void **v, size_t *n, size_t size);
#define ARENA_PUSH(a, v, n) ((__typeof__(v))arena_push((a), (void **)&(v), &(n), sizeof(*(v))))

/* A copy of an array of n elements that arena_push can go on filling; NULL when full, or n is 0. */
void *arena_copy_array(struct arena *a, const void *v, size_t n, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CHUNK 8192
#define ALIGN _Alignof(max_align_t)

struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char data[];
};

struct arena {
	struct chunk *head;
	size_t total, max;
	unsigned owners; /* itself and the arenas made on it */
	struct arena *base;
};

struct arena *arena_new(size_t max)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (a) {
		a->max = max;
		a->owners = 1;
	}
	return a;
}

struct arena *arena_new_on(struct arena *base, size_t max)
{
	struct arena *a = arena_new(max);

	if (a) {
		a->base = base;
		base->owners++;
	}
	return a;
}

struct arena *arena_free(struct arena *a)
{
	if (!a || --a->owners)
		return NULL;
	for (struct chunk *c = a->head, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	(void)arena_free(a->base);
	free(a);
	return NULL;
}

static struct chunk *add_chunk(struct arena *a, size_t need)
{
	size_t size = need > CHUNK ? need : CHUNK;
	struct chunk *c;

	if (size > a->max - a->total)
		return NULL;
	c = calloc(1, sizeof(*c) + size);
	if (!c)
		return NULL;
	c->size = size;
	c->next = a->head;
	a->head = c;
	a->total += size;
	return c;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t need = (n + ALIGN - 1) / ALIGN * ALIGN;
	struct chunk *c = a->head;

	if (n > SIZE_MAX / 2)
		return NULL;
	if (!c || c->size - c->used < need)
		c = add_chunk(a, need);
	if (!c)
		return NULL;
	c->used += need;
	return c->data + c->used - need;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);

	if (p)
		memcpy(p, s, n);
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	char few[256], *p; /* most texts fit, and are made but once */
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(few, sizeof(few), fmt, ap);
	va_end(ap);
	p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
	if (!p)
		return NULL;
	if ((size_t)n < sizeof(few))
		return memcpy(p, few, (size_t)n + 1);
	va_start(ap, fmt);
	(void)vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return p;
}

void *arena_copy_array(struct arena *a, const void *v, size_t n, size_t size)
{
	size_t cap = 8;
	void *copy;

	while (cap < n)
		cap *= 2;
	copy = n ? arena_alloc(a, cap * size) : NULL;
	if (copy)
		memcpy(copy, v, n * size);
	return copy;
}

void *arena_push(struct arena *a, void **v, size_t *n, size_t size)
{
	size_t have = *n;

	/* Full at 0, 8, 16, 32, ...: double. The old array stays in the arena until the end. */
	if (have == 0 || (have >= 8 && (have & (have - 1)) == 0)) {
		size_t cap = have == 0 ? 8 : have * 2;
		void *bigger = arena_alloc(a, cap * size);

		if (!bigger)
			return NULL;
		if (have)
			memcpy(bigger, *v, have * size);
		*v = bigger;
	}
	(*n)++;
	return (char *)*v + have * size;
}

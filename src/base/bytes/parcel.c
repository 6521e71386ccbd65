/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/parcel.h"

#include <string.h>

/* The next n bytes, or NULL and a failure. */
static const char *parcel_take(struct parcel *p, uint64_t n)
{
	const char *at = p->at;

	p->failed |= n > (uint64_t)(p->end - at);
	if (p->failed)
		return NULL;
	p->at += n;
	return at;
}

void parcel_fixed(struct parcel *p, void *v, size_t n)
{
	const char *from = p->out ? NULL : parcel_take(p, n);

	if (p->out)
		buf_add(p->out, v, n);
	else if (from)
		memcpy(v, from, n);
	else
		memset(v, 0, n);
}

void parcel_number(struct parcel *p, uint64_t *v)
{
	parcel_fixed(p, v, sizeof(*v));
}

void parcel_word(struct parcel *p, int *v, int max)
{
	uint64_t n = (uint64_t)*v;

	parcel_number(p, &n);
	p->failed |= n > (uint64_t)max;
	*v = p->failed ? 0 : (int)n;
}

void parcel_flag(struct parcel *p, bool *v)
{
	int n = *v;

	parcel_word(p, &n, 1);
	*v = n;
}

/* A NUL behind them makes a text of them where they are. */
void parcel_bytes(struct parcel *p, const char **v, size_t *n)
{
	uint64_t len = *n;

	parcel_number(p, &len);
	if (p->out) {
		buf_add(p->out, *v, *n);
		buf_putc(p->out, '\0');
		return;
	}
	*v = parcel_take(p, len);
	p->failed |= !*v || !parcel_take(p, 1) || (*v)[len];
	*n = p->failed ? 0 : (size_t)len;
}

void parcel_text(struct parcel *p, const char **v)
{
	size_t n = p->out ? strlen(*v) : 0;

	parcel_bytes(p, v, &n);
	if (p->out)
		return;
	p->failed = p->failed || memchr(*v, '\0', n);
	if (!p->failed && p->copy)
		*v = arena_strndup(p->arena, *v, n);
	p->failed |= !*v;
}

void *parcel_list(struct parcel *p, void *v, size_t *n, size_t size)
{
	uint64_t count = *n;
	size_t need;

	parcel_number(p, &count);
	if (p->out)
		return v;
	/* Every element takes a byte at least, so the sum cannot overflow. */
	p->failed = p->failed || count > (uint64_t)(p->end - p->at);
	need = p->failed ? 0 : (size_t)(count + 1) * size;
	*n = p->failed ? 0 : (size_t)count;
	if (p->arena || p->failed) {
		v = p->failed ? NULL : arena_alloc(p->arena, need);
	} else if (need <= p->left) {
		v = memset(p->room, 0, need);
		p->room += need;
		p->left -= need;
	} else {
		v = NULL;
	}
	if (!v)
		*n = 0;
	p->failed |= !v;
	return v;
}

const char **parcel_texts(struct parcel *p, const char *const *v, size_t *n)
{
	const char **list = (const char **)(uintptr_t)v;
	size_t count = n && p->out ? *n : 0;

	while (!n && p->out && v[count])
		count++;
	list = parcel_list(p, list, &count, sizeof(*list));
	for (size_t i = 0; i < count && !p->failed; i++) {
		const char *text = list[i];

		parcel_text(p, &text);
		if (!p->out)
			list[i] = text;
	}
	if (n)
		*n = count;
	return list;
}

struct parcel parcel_to(struct buf *out, const char *mark)
{
	struct parcel p = { .out = out };

	parcel_text(&p, &mark);
	return p;
}

struct parcel parcel_from(const char *data, size_t n, const char *mark)
{
	struct parcel p = { .at = data, .end = data + n };
	const char *found = NULL;

	parcel_text(&p, &found);
	p.failed = p.failed || strcmp(found, mark) != 0;
	return p;
}

bool parcel_whole(const struct parcel *p)
{
	return !p->failed && p->at == p->end;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/seek/secret.h"

#include <string.h>

#include "egress/seek/unescape.h"

static const char std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int secret_add(struct arena *a, struct variants *l, const struct variant *v, struct err *e)
{
	struct variant *slot;

	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].n == v->n && memcmp(l->v[i].p, v->p, v->n) == 0)
			return 0;
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = *v;
	if (v->n > l->longest)
		l->longest = v->n;
	return 0;
}

/* Where the secret begins `skip` bytes into a group of three: the characters that depend on it
 * alone. The first and the last may share their bits with a neighbour and are left out. */
static char *base64_core(struct arena *a, const struct secret *s, unsigned skip, size_t *len)
{
	size_t first_bit = 0, last_bit = s->len * 8, n = 0;
	/* Bits of the secret that stand before the first whole character. */
	size_t lead = (6 - skip * 8 % 6) % 6;
	char *out;

	first_bit = lead;
	if (last_bit < first_bit + 6)
		return NULL;
	out = arena_alloc(a, (last_bit - first_bit) / 6 + 1);
	for (size_t bit = first_bit; out && bit + 6 <= last_bit; bit += 6) {
		size_t at = bit / 8, shift = bit % 8;
		unsigned pair = (unsigned)(unsigned char)s->value[at] << 8;

		if (at + 1 < s->len)
			pair |= (unsigned char)s->value[at + 1];
		out[n++] = std[(pair >> (10 - shift)) & 63];
	}
	*len = n;
	return out;
}

static int add_base64(struct arena *a, const struct secret *s, struct variants *l, struct err *e)
{
	for (unsigned skip = 0; skip < 3; skip++) {
		size_t n = 0;
		char *p = base64_core(a, s, skip, &n), *url;

		if (!p || !(url = arena_strndup(a, p, n)))
			return err_nomem(e);
		for (size_t i = 0; i < n; i++)
			url[i] = (char)(p[i] == '+' ? '-' : p[i] == '/' ? '_' : p[i]);
		if (secret_add(a, l, &(struct variant){ .form = SECRET_BASE64, .p = p, .n = n },
			       e) < 0 ||
		    secret_add(a, l,
			       &(struct variant){ .form = SECRET_BASE64_URL, .p = url, .n = n },
			       e) < 0)
			return -e->code;
	}
	return 0;
}

static int add_hex(struct arena *a, const struct secret *s, struct variants *l, struct err *e)
{
	static const char digits[] = "0123456789abcdef";
	struct variant v = { .form = SECRET_HEX, .caseless = true, .n = 2 * s->len };
	char *p = arena_alloc(a, v.n);

	if (!p)
		return err_nomem(e);
	for (size_t i = 0; i < s->len; i++) {
		p[2 * i] = digits[(unsigned char)s->value[i] >> 4];
		p[2 * i + 1] = digits[(unsigned char)s->value[i] & 15];
	}
	v.p = p;
	return secret_add(a, l, &v, e);
}

static int add_plus(struct arena *a, const struct secret *s, struct variants *l, struct err *e)
{
	char *p = arena_strndup(a, s->value, s->len);

	if (!p)
		return err_nomem(e);
	for (size_t i = 0; i < s->len; i++)
		p[i] = (char)(p[i] == ' ' ? '+' : p[i]);
	return secret_add(a, l, &(struct variant){ .form = SECRET_PLUS, .p = p, .n = s->len }, e);
}

/* In place; how long it is then. */
static size_t undo(enum unescape_kind k, char *p, size_t n)
{
	struct unescaped u;
	size_t len = 0;

	for (size_t at = 0; at < n; at += u.took) {
		if (unescape_one(k, p, at, n, true, &u) != UNESCAPE_ONE)
			u = (struct unescaped){ .took = 1, .n = 1, .p = { p[at] } };
		memmove(p + len, u.p, u.n);
		len += u.n;
	}
	return len;
}

/* Undoing the escapes of a text undoes what looks like one in the value, too. */
static int add_read(struct arena *a, const struct secret *s, struct variants *l, struct err *e)
{
	static const enum unescape_kind kinds[][2] = {
		{ UNESCAPE_SIGNS, UNESCAPE_SIGNS },
		{ UNESCAPE_QUOTED, UNESCAPE_SIGNS },
	};

	for (size_t i = 0; i < 2; i++) {
		char *p = arena_strndup(a, s->value, s->len);
		size_t n = s->len;

		for (size_t k = 0; p && k < 2; k++) {
			struct variant v = { .form = SECRET_READ, .p = p };

			v.n = n = undo(kinds[i][k], p, n);
			v.p = arena_strndup(a, p, n);
			if (!v.p || (n >= SECRET_MIN && secret_add(a, l, &v, e) < 0))
				return err_nomem(e);
		}
		if (!p)
			return err_nomem(e);
		explicit_bzero(p, s->len);
	}
	return 0;
}

/* All the texts to look for; allocated in the arena, which then holds secrets: wipe it. */
static int secret_variants(struct arena *a, const struct secret *s, struct variants *ret,
			   struct err *e)
{
	struct variants l = { 0 };
	char *raw;

	if (s->len < SECRET_MIN || s->len > SECRET_MAX)
		return err_set(e, ERR_CONFIG, EINVAL,
			       "the value of '%.60s' has %zu bytes, not %d to %d", s->name, s->len,
			       SECRET_MIN, SECRET_MAX);
	raw = arena_strndup(a, s->value, s->len);
	if (!raw)
		return err_nomem(e);
	if (secret_add(a, &l, &(struct variant){ .form = SECRET_RAW, .p = raw, .n = s->len }, e) <
		    0 ||
	    add_base64(a, s, &l, e) < 0 || add_hex(a, s, &l, e) < 0 || add_plus(a, s, &l, e) < 0 ||
	    add_read(a, s, &l, e) < 0)
		return -e->code;
	*ret = l;
	return 0;
}

int needles_new(struct arena *a, const struct secret *secrets, size_t n, struct needles *ret,
		struct err *e)
{
	struct needles all = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct variants l = { 0 };

		if (secret_variants(a, &secrets[i], &l, e) < 0)
			return -e->code;
		for (size_t k = 0; k < l.n; k++) {
			struct needle *slot = ARENA_PUSH(a, all.v, all.n);

			if (!slot)
				return err_nomem(e);
			*slot = (struct needle){ .secret = i, .v = l.v[k] };
		}
		if (l.longest > all.longest)
			all.longest = l.longest;
	}
	*ret = all;
	return 0;
}

/* Every byte is looked at, whatever those before it are. */
bool needle_is(const struct needle *n, const char *p, bool caseless)
{
	unsigned char differs = 0;

	for (size_t i = 0; i < n->v.n; i++) {
		unsigned char a = (unsigned char)p[i], b = (unsigned char)n->v.p[i], low = a | 0x20;
		unsigned char letter = (unsigned char)((low >= 'a') & (low <= 'z'));

		differs |= (a ^ b) & ~(0x20 & -(letter & (n->v.caseless | caseless)));
	}
	return !differs;
}

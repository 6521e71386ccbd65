/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hello.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HANDSHAKE 22
#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define HANDSHAKE_HELLO 1
#define EXT_SERVER_NAME 0
#define EXT_ALPN 16
#define EXT_ENCRYPTED_HELLO 0xfe0d

/* A cursor that never leaves its bytes: a read past the end marks it bad and gives zeros. */
struct hello_cut {
	const unsigned char *p;
	size_t n;
	bool bad;
};

static struct hello_cut hello_take(struct hello_cut *c, size_t n)
{
	struct hello_cut got = { .p = c->p, .n = n };

	if (c->bad || n > c->n) {
		c->bad = true;
		return (struct hello_cut){ .bad = true };
	}
	c->p += n;
	c->n -= n;
	return got;
}

static size_t hello_number(struct hello_cut *c, size_t bytes)
{
	struct hello_cut got = hello_take(c, bytes);
	size_t v = 0;

	for (size_t i = 0; i < got.n; i++)
		v = v << 8 | got.p[i];
	return v;
}

/* What a length of so many bytes stands in front of. */
static struct hello_cut vector(struct hello_cut *c, size_t length_bytes)
{
	return hello_take(c, hello_number(c, length_bytes));
}

/* Copies the handshake bytes of the records at p together; 1 whole, 0 more, or an error. */
static int gather(const unsigned char *p, size_t n, unsigned char *out, size_t *have)
{
	*have = 0;
	for (;;) {
		size_t len,
			need = *have < 4
				       ? SIZE_MAX
				       : 4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);

		if (need != SIZE_MAX && need > HELLO_MAX)
			return -EMSGSIZE;
		if (*have >= need)
			return 1;
		if ((n > 0 && p[0] != RECORD_HANDSHAKE) || (n > 1 && p[1] != 3))
			return -EBADMSG;
		if (n < RECORD_HEAD)
			return 0;
		len = (size_t)p[3] << 8 | p[4];
		if (len == 0 || len > RECORD_MAX)
			return -EBADMSG;
		if (len > HELLO_MAX - *have)
			return -EMSGSIZE;
		if (n < RECORD_HEAD + len)
			return 0;
		memcpy(out + *have, p + RECORD_HEAD, len);
		*have += len;
		if (out[0] != HANDSHAKE_HELLO)
			return -EBADMSG;
		p += RECORD_HEAD + len;
		n -= RECORD_HEAD + len;
	}
}

static bool server_name(struct hello_cut body, struct hello *h)
{
	struct hello_cut list = vector(&body, 2), name;
	size_t type = hello_number(&list, 1);

	name = vector(&list, 2);
	if (body.bad || list.bad || name.bad || body.n || list.n || type != 0 || !name.n ||
	    h->name || memchr(name.p, '\0', name.n))
		return false;
	h->name = (const char *)name.p;
	h->name_len = name.n;
	return true;
}

static bool alpn(struct hello_cut body, struct hello *h)
{
	struct hello_cut list = vector(&body, 2);

	h->has_alpn = true;
	while (!list.bad && list.n) {
		struct hello_cut word = vector(&list, 1);

		if (word.n == 8 && memcmp(word.p, "http/1.1", 8) == 0)
			h->offers_http1 = true;
	}
	return !list.bad && !body.bad && !body.n;
}

static bool extensions(struct hello_cut c, struct hello *h)
{
	while (!c.bad && c.n) {
		size_t type = hello_number(&c, 2);
		struct hello_cut body = vector(&c, 2);

		if (c.bad || (type == EXT_SERVER_NAME && !server_name(body, h)) ||
		    (type == EXT_ALPN && !alpn(body, h)))
			return false;
		if (type == EXT_ENCRYPTED_HELLO)
			h->encrypted = true;
	}
	return !c.bad;
}

int hello_read(const char *p, size_t n, unsigned char scratch[HELLO_MAX], struct hello *ret)
{
	struct hello h = { 0 };
	size_t have;
	int r = gather((const unsigned char *)p, n, scratch, &have);
	struct hello_cut c = { .p = scratch, .n = have }, body;

	if (r <= 0)
		return r;
	(void)hello_number(&c, 1);
	body = vector(&c, 3);
	(void)hello_take(&body, 2 + 32); /* version, random */
	(void)vector(&body, 1);          /* session */
	(void)vector(&body, 2);          /* ciphers */
	(void)vector(&body, 1);          /* compression */
	if (body.bad || c.bad)
		return -EBADMSG;
	if (body.n) {
		struct hello_cut list = vector(&body, 2);

		if (list.bad || body.bad || body.n || !extensions(list, &h))
			return -EBADMSG;
	}
	*ret = h;
	return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/plan/java_store.h"

#include <string.h>

#include "base/bytes/base64.h"
#include "base/bytes/sha1.h"

#define HEADER 12
#define MAGIC "\xfe\xed\xfe\xed\0\0\0\2" /* and the version with a type in every entry */
#define CERT_MAX 4096
#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

struct java_store {
	struct arena *arena;
	char header[HEADER];
	const char *entries;
	size_t n;
	struct sha1 sum; /* of the password, the header and the entries */
};

static void java_store_put(char *to, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		to[i] = (char)(v >> (24 - 8 * i));
}

static uint32_t java_store_get(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

int java_store_new(struct arena *a, const char *old, size_t n, struct java_store **ret,
		   struct err *e)
{
	/* "changeit", as everybody leaves it, in UTF-16, and what the format's authors chose. */
	static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	struct java_store *s = arena_alloc(a, sizeof(*s));
	bool is_jks = n >= HEADER + SHA1_SIZE && memcmp(old, MAGIC, 8) == 0 &&
		      java_store_get(old + 8) < UINT32_MAX;

	if (!s)
		return err_nomem(e);
	s->arena = a;
	s->entries = is_jks ? old + HEADER : "";
	s->n = is_jks ? n - HEADER - SHA1_SIZE : 0;
	memcpy(s->header, MAGIC, 8);
	java_store_put(s->header + 8, is_jks ? java_store_get(old + 8) + 1 : 1);
	sha1_init(&s->sum);
	sha1_add(&s->sum, password, sizeof(password) - 1);
	sha1_add(&s->sum, s->header, HEADER);
	sha1_add(&s->sum, s->entries, s->n);
	*ret = s;
	return 0;
}

/* The bytes between the two lines. */
static ssize_t read_pem(const char *pem, char *out, size_t room)
{
	const char *at = strstr(pem, BEGIN), *stop = at ? strstr(at, END) : NULL;
	char text[2 * CERT_MAX];
	size_t n = 0;

	if (!stop)
		return -EBADMSG;
	for (at += strlen(BEGIN); at < stop; at++) {
		if (*at == '\n' || *at == '\r')
			continue;
		if (n == sizeof(text))
			return -E2BIG;
		text[n++] = *at;
	}
	return base64_read(text, n, out, room);
}

int java_store_end(struct java_store *s, const char *pem, const char **ret, size_t *n,
		   struct err *e)
{
	/* A trusted certificate by the name of "brig", of no age, of the type X.509. */
	static const char entry[] = "\0\0\0\2\0\4brig\0\0\0\0\0\0\0\0\0\5X.509";
	char cert[CERT_MAX], *out, *at;
	ssize_t len = read_pem(pem, cert, sizeof(cert));

	if (len < 0)
		return err_errno(e, (int)len, "the door's certificate cannot be read");
	*n = HEADER + s->n + sizeof(entry) - 1 + 4 + (size_t)len + SHA1_SIZE;
	out = at = arena_alloc(s->arena, *n);
	if (!out)
		return err_nomem(e);
	at = mempcpy(at, s->header, HEADER);
	at = mempcpy(at, s->entries, s->n);
	at = mempcpy(at, entry, sizeof(entry) - 1);
	java_store_put(at, (uint32_t)len);
	at = mempcpy(at + 4, cert, (size_t)len);
	sha1_add(&s->sum, out + HEADER + s->n, (size_t)(at - out) - HEADER - s->n);
	sha1_end(&s->sum, (unsigned char *)at);
	*ret = out;
	return 0;
}

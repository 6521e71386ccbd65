/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/ssh/agentmsg.h"

#include <string.h>

#include "base/text/cleanup.h"

#define RSA_SHA2_256 2U
#define RSA_SHA2_512 4U
#define USERAUTH_REQUEST 50
#define SESSION_MIN 16 /* bytes of a session's identifier: a hash */
#define USER_MAX 256
#define ALGORITHM_MAX 64

/* All of what git has signed but the hash itself, which is the rest. */
#define SIGNED_FOR_GIT(hash, size) "SSHSIG\0\0\0\3git\0\0\0\0\0\0\0\6" hash "\0\0\0" size
#define GIT_HEAD (sizeof(SIGNED_FOR_GIT("sha512", "\x40")) - 1)

static const struct {
	const char *head;
	size_t hash;
} for_git[] = {
	{ SIGNED_FOR_GIT("sha512", "\x40"), 64 },
	{ SIGNED_FOR_GIT("sha256", "\x20"), 32 },
};

struct agentmsg_rest {
	const unsigned char *p;
	size_t n;
	bool bad;
};

uint32_t agentmsg_number(const unsigned char p[AGENTMSG_HEAD])
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void agentmsg_put_number(unsigned char p[AGENTMSG_HEAD], uint32_t v)
{
	for (int i = 0; i < AGENTMSG_HEAD; i++)
		p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static struct agentmsg_bytes agentmsg_take(struct agentmsg_rest *r, size_t n)
{
	struct agentmsg_bytes b = { .p = r->p };

	if (r->bad || n > r->n) {
		r->bad = true;
		return b;
	}
	b.n = n;
	r->p += n;
	r->n -= n;
	return b;
}

static uint32_t take_number(struct agentmsg_rest *r)
{
	struct agentmsg_bytes b = agentmsg_take(r, AGENTMSG_HEAD);

	return r->bad ? 0 : agentmsg_number(b.p);
}

static void take_byte(struct agentmsg_rest *r, unsigned char want)
{
	struct agentmsg_bytes b = agentmsg_take(r, 1);

	r->bad |= r->bad || b.p[0] != want;
}

/* A string of at least `min` and at most `max` bytes. */
static struct agentmsg_bytes take_string(struct agentmsg_rest *r, size_t min, size_t max)
{
	uint32_t n = take_number(r);

	r->bad |= n < min || n > max;
	return agentmsg_take(r, n);
}

static bool agentmsg_same(const struct agentmsg_bytes *a, const void *p, size_t n)
{
	return a->n == n && memcmp(a->p, p, n) == 0;
}

static bool is_text(const struct agentmsg_bytes *a, const char *text)
{
	return agentmsg_same(a, text, strlen(text));
}

bool agentmsg_read_sign(const unsigned char *m, size_t n, struct agentmsg_sign *ret)
{
	struct agentmsg_rest r = { .p = m, .n = n, .bad = n > AGENTMSG_REQUEST_MAX };
	struct agentmsg_sign s;

	take_byte(&r, AGENTMSG_SIGN);
	s.key = take_string(&r, 1, AGENTMSG_KEY_MAX);
	s.data = take_string(&r, 1, AGENTMSG_DATA_MAX);
	s.flags = take_number(&r);
	if (r.bad || r.n || (s.flags && s.flags != RSA_SHA2_256 && s.flags != RSA_SHA2_512))
		return false;
	*ret = s;
	return true;
}

static bool is_for_git(const struct agentmsg_bytes *d)
{
	for (size_t i = 0; i < ARRAY_LEN(for_git); i++)
		if (d->n == GIT_HEAD + for_git[i].hash &&
		    memcmp(d->p, for_git[i].head, GIT_HEAD) == 0)
			return true;
	return false;
}

/* With the very key that signs it; OpenSSH also binds it to the host's. */
bool agentmsg_read_login(const struct agentmsg_sign *s, struct agentmsg_login *ret)
{
	struct agentmsg_rest r = { .p = s->data.p, .n = s->data.n };
	struct agentmsg_login l = { 0 };
	struct agentmsg_bytes service, method, key;

	l.session = take_string(&r, SESSION_MIN, AGENTMSG_SESSION_MAX);
	take_byte(&r, USERAUTH_REQUEST);
	(void)take_string(&r, 1, USER_MAX);
	service = take_string(&r, 1, ALGORITHM_MAX);
	method = take_string(&r, 1, ALGORITHM_MAX);
	take_byte(&r, 1);
	(void)take_string(&r, 1, ALGORITHM_MAX);
	key = take_string(&r, 1, AGENTMSG_KEY_MAX);
	if (!r.bad && is_text(&method, "publickey-hostbound-v00@openssh.com"))
		l.host_key = take_string(&r, 1, AGENTMSG_KEY_MAX);
	else if (!r.bad && !is_text(&method, "publickey"))
		return false;
	*ret = l;
	return !r.bad && !r.n && is_text(&service, "ssh-connection") &&
	       agentmsg_same(&key, s->key.p, s->key.n);
}

bool agentmsg_read_bind(const unsigned char *m, size_t n, struct agentmsg_bind *ret)
{
	struct agentmsg_rest r = { .p = m, .n = n, .bad = n > AGENTMSG_REQUEST_MAX };
	struct agentmsg_bytes name;
	struct agentmsg_bind b;

	take_byte(&r, AGENTMSG_EXTENSION);
	name = take_string(&r, 1, ALGORITHM_MAX);
	b.host_key = take_string(&r, 1, AGENTMSG_KEY_MAX);
	b.session = take_string(&r, SESSION_MIN, AGENTMSG_SESSION_MAX);
	b.proof = take_string(&r, 1, AGENTMSG_PROOF_MAX);
	take_byte(&r, 0); /* not forwarded */
	if (r.bad || r.n || !is_text(&name, "session-bind@openssh.com"))
		return false;
	*ret = b;
	return true;
}

enum agentmsg_purpose agentmsg_purpose(const struct agentmsg_sign *s)
{
	struct agentmsg_login unused;

	return is_for_git(&s->data)              ? AGENTMSG_GIT
	       : agentmsg_read_login(s, &unused) ? AGENTMSG_LOGIN
						 : AGENTMSG_NO_PURPOSE;
}

bool agentmsg_wants_sha1(const struct agentmsg_sign *s)
{
	struct agentmsg_rest r = { .p = s->key.p, .n = s->key.n };
	struct agentmsg_bytes kind = take_string(&r, 1, ALGORITHM_MAX);

	return is_text(&kind, "ssh-dss") || is_text(&kind, "ssh-dss-cert-v01@openssh.com") ||
	       (!s->flags &&
		(is_text(&kind, "ssh-rsa") || is_text(&kind, "ssh-rsa-cert-v01@openssh.com")));
}

static unsigned char *put_string(unsigned char *at, const struct agentmsg_bytes *b)
{
	agentmsg_put_number(at, (uint32_t)b->n);
	memcpy(at + AGENTMSG_HEAD, b->p, b->n);
	return at + AGENTMSG_HEAD + b->n;
}

size_t agentmsg_write_sign(const struct agentmsg_sign *s, unsigned char *out, size_t room)
{
	const size_t around = (size_t)AGENTMSG_HEAD + 1 + 3 * (size_t)AGENTMSG_HEAD;
	unsigned char *at = out + AGENTMSG_HEAD;

	if (s->key.n > AGENTMSG_KEY_MAX || s->data.n > AGENTMSG_DATA_MAX ||
	    around + s->key.n + s->data.n > room)
		return 0;
	*at++ = AGENTMSG_SIGN;
	at = put_string(at, &s->key);
	at = put_string(at, &s->data);
	agentmsg_put_number(at, s->flags);
	at += AGENTMSG_HEAD;
	agentmsg_put_number(out, (uint32_t)(at - out - AGENTMSG_HEAD));
	return (size_t)(at - out);
}

/* Goes through all of it; *found is whether `key`, which may be NULL, was there. */
static bool walk_keys(const unsigned char *m, size_t n, const struct agentmsg_bytes *key,
		      bool *found)
{
	struct agentmsg_rest r = { .p = m, .n = n, .bad = n > AGENTMSG_ANSWER_MAX };
	uint32_t left;

	*found = false;
	take_byte(&r, AGENTMSG_KEYS);
	for (left = take_number(&r); left && !r.bad; left--) {
		struct agentmsg_bytes one = take_string(&r, 1, AGENTMSG_KEY_MAX);

		*found |= !r.bad && key && agentmsg_same(&one, key->p, key->n);
		(void)take_string(&r, 0, AGENTMSG_ANSWER_MAX);
	}
	return !r.bad && !r.n;
}

bool agentmsg_is_keys(const unsigned char *m, size_t n)
{
	bool unused;

	return walk_keys(m, n, NULL, &unused);
}

bool agentmsg_has_key(const unsigned char *m, size_t n, const struct agentmsg_bytes *key)
{
	bool found;

	return walk_keys(m, n, key, &found) && found;
}

bool agentmsg_is_signed(const unsigned char *m, size_t n)
{
	struct agentmsg_rest r = { .p = m, .n = n, .bad = n > AGENTMSG_ANSWER_MAX };

	take_byte(&r, AGENTMSG_SIGNED);
	(void)take_string(&r, 1, AGENTMSG_ANSWER_MAX);
	return !r.bad && !r.n;
}

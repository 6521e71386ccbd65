/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sessions.h"

#include <string.h>

#include "base/random.h"
#include "base/sha256.h"

#define SECOND ((uint64_t)1000000)
#define CODE_TIME (60 * SECOND)
#define READ_TIME (8 * 3600 * SECOND)
#define ADMIN_TIME (15 * 60 * SECOND)

static void sum_of(const char *text, size_t n, unsigned char sum[32])
{
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, text, n);
	sha256_end(&h, sum);
}

/* All of them are looked at, whatever is found: the time says nothing. */
static struct page_session *find(const struct page_session *all, size_t n,
				 const unsigned char sum[32], uint64_t now)
{
	const struct page_session *found = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned differs = 0;

		for (size_t k = 0; k < 32; k++)
			differs |= all[i].sum[k] ^ sum[k];
		if (!differs && all[i].used && now < all[i].until)
			found = &all[i];
	}
	return (struct page_session *)(uintptr_t)found;
}

/* A free place, or that of the oldest. */
static struct page_session *place(struct page_session *all, size_t n, uint64_t now)
{
	struct page_session *oldest = &all[0];

	for (size_t i = 0; i < n; i++) {
		if (!all[i].used || now >= all[i].until)
			return &all[i];
		if (all[i].made < oldest->made)
			oldest = &all[i];
	}
	return oldest;
}

static int make(struct page_session *to, const struct session_for *who, uint64_t now, uint64_t life,
		char secret[SESSION_SECRET], struct err *e)
{
	if (random_hex(secret, SESSION_SECRET, e) < 0)
		return -e->code;
	*to = (struct page_session){ .used = true, .until = now + life, .made = now, .who = *who };
	sum_of(secret, SESSION_SECRET - 1, to->sum);
	return 0;
}

int sessions_code(struct sessions *s, const struct session_for *who, uint64_t now,
		  char code[SESSION_SECRET], struct err *e)
{
	return make(place(s->codes, SESSION_CODES, now), who, now, CODE_TIME, code, e);
}

int sessions_enter(struct sessions *s, const char *code, size_t n, uint64_t now,
		   char cookie[SESSION_SECRET], uint64_t *seconds, struct err *e)
{
	unsigned char sum[32];
	struct page_session *c;
	struct session_for who;
	uint64_t life;

	sum_of(code, n, sum);
	c = find(s->codes, SESSION_CODES, sum, now);
	if (!c) {
		if (++s->guesses >= SESSION_GUESSES) {
			memset(s->codes, 0, sizeof(s->codes));
			s->guesses = 0;
		}
		return err_refuse(e, ERR_POLICY, EACCES, "brig dashboard makes a new one",
				  "the code is not known, was used, or is older than a minute");
	}
	who = c->who;
	memset(c, 0, sizeof(*c));
	s->guesses = 0;
	life = who.scopes & SCOPE_ADMIN ? ADMIN_TIME : READ_TIME;
	*seconds = life / SECOND;
	return make(place(s->open, SESSIONS_MAX, now), &who, now, life, cookie, e);
}

const struct page_session *sessions_find(const struct sessions *s, const char *cookie, size_t n,
					 uint64_t now)
{
	unsigned char sum[32];

	sum_of(cookie, n, sum);
	return n == SESSION_SECRET - 1 ? find(s->open, SESSIONS_MAX, sum, now) : NULL;
}

const struct page_session *sessions_holds(const struct sessions *s, const unsigned char sum[32],
					  uint64_t now)
{
	return find(s->open, SESSIONS_MAX, sum, now);
}

void sessions_leave(struct sessions *s, const unsigned char sum[32])
{
	struct page_session *o = find(s->open, SESSIONS_MAX, sum, 0);

	if (o)
		memset(o, 0, sizeof(*o));
}

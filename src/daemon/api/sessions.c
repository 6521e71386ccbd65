/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/sessions.h"

#include <string.h>

#include "base/bytes/random.h"
#include "base/bytes/sha256.h"
#include "base/text/str.h"

#define SECOND ((uint64_t)1000000)
#define CODE_TIME (60 * SECOND)
#define READ_TIME (8 * 3600 * SECOND)
#define ADMIN_TIME (15 * 60 * SECOND)
#define SESSION_SHARE 4 /* a tenant has no more than this part of all places */

static void sum_of(const char *text, size_t n, unsigned char sum[32])
{
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, text, n);
	sha256_end(&h, sum);
}

/* All of them are looked at, whatever is found: the time says nothing. */
static struct page_session *page_session_find(const struct page_session *all, size_t n,
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

/* ---- names ---- */

void sessions_name(const struct sessions *s, const char *tenant, char name[SESSION_NAME])
{
	unsigned char sum[SHA256_SIZE];
	char hex[SHA256_HEX];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, s->key, sizeof(s->key));
	sha256_add(&h, tenant, strlen(tenant));
	sha256_end(&h, sum);
	sha256_hex(sum, hex);
	memcpy(name, hex, SESSION_NAME - 1);
	name[SESSION_NAME - 1] = '\0';
}

static bool is_name(const struct sessions *s, const char *tenant, const char *name)
{
	char own[SESSION_NAME];

	sessions_name(s, tenant, own);
	return str_eq(own, name);
}

static const char *tenant_named(const struct sessions *s, const struct page_session *all, size_t n,
				const char *name, uint64_t now)
{
	for (size_t i = 0; i < n; i++)
		if (all[i].used && now < all[i].until && is_name(s, all[i].who.tenant, name))
			return all[i].who.tenant;
	return NULL;
}

bool sessions_named(const struct sessions *s, const char *name, uint64_t now,
		    char tenant[TENANT_SIZE])
{
	const char *found = is_name(s, "", name) ? "" : NULL;

	if (!found)
		found = tenant_named(s, s->codes, SESSION_CODES, name, now);
	if (!found)
		found = tenant_named(s, s->open, SESSIONS_MAX, name, now);
	if (found)
		memcpy(tenant, found, strlen(found) + 1);
	return found != NULL;
}

/* ---- places ---- */

static void older(struct page_session **oldest, struct page_session *x)
{
	if (!*oldest || x->made < (*oldest)->made)
		*oldest = x;
}

/* A free place, or that of the oldest: of a tenant that has its share, its own; else a tenant's,
 * and the owner's for the owner alone. NULL: none. */
static struct page_session *sessions_place(struct page_session *all, size_t n, const char *tenant,
					   uint64_t now)
{
	struct page_session *unused = NULL, *own = NULL, *tenants = NULL;
	size_t same = 0;

	for (size_t i = 0; i < n; i++) {
		if (!all[i].used || now >= all[i].until) {
			unused = &all[i];
			continue;
		}
		if (all[i].who.tenant[0])
			older(&tenants, &all[i]);
		if (str_eq(all[i].who.tenant, tenant)) {
			older(&own, &all[i]);
			same++;
		}
	}
	if (*tenant && same >= n / SESSION_SHARE)
		return own;
	if (unused)
		return unused;
	return tenants || *tenant ? tenants : own;
}

static int sessions_make(struct page_session *to, const struct session_for *who, uint64_t now,
			 uint64_t life, char secret[SESSION_SECRET], struct err *e)
{
	if (!to)
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "try again later",
				  "too many look at the dashboard already");
	if (random_hex(secret, SESSION_SECRET, e) < 0)
		return -e->code;
	*to = (struct page_session){ .used = true, .until = now + life, .made = now, .who = *who };
	sum_of(secret, SESSION_SECRET - 1, to->sum);
	return 0;
}

/* ---- codes and sessions ---- */

int sessions_code(struct sessions *s, const struct session_for *who, uint64_t now,
		  char code[SESSION_SECRET], struct err *e)
{
	return sessions_make(sessions_place(s->codes, SESSION_CODES, who->tenant, now), who, now,
			     CODE_TIME, code, e);
}

static void void_codes(struct sessions *s, const char *tenant)
{
	for (size_t i = 0; i < SESSION_CODES; i++)
		if (str_eq(s->codes[i].who.tenant, tenant))
			memset(&s->codes[i], 0, sizeof(s->codes[i]));
	s->guesses = 0;
}

int sessions_enter(struct sessions *s, const char *tenant, const char *code, uint64_t now,
		   char cookie[SESSION_SECRET], uint64_t *seconds, struct err *e)
{
	unsigned char sum[32];
	struct page_session *c;
	struct session_for who;
	uint64_t life;

	sum_of(code, strlen(code), sum);
	c = page_session_find(s->codes, SESSION_CODES, sum, now);
	if (!c || !str_eq(c->who.tenant, tenant)) {
		if (++s->guesses >= SESSION_GUESSES)
			void_codes(s, tenant);
		return err_refuse(e, ERR_POLICY, EACCES, "brig dashboard makes a new one",
				  "the code is not known, was used, or is older than a minute");
	}
	who = c->who;
	memset(c, 0, sizeof(*c));
	s->guesses = 0;
	life = who.scopes & SCOPE_ADMIN ? ADMIN_TIME : READ_TIME;
	*seconds = life / SECOND;
	return sessions_make(sessions_place(s->open, SESSIONS_MAX, who.tenant, now), &who, now,
			     life, cookie, e);
}

const struct page_session *sessions_find(const struct sessions *s, const char *cookie, size_t n,
					 uint64_t now)
{
	unsigned char sum[32];

	sum_of(cookie, n, sum);
	return n == SESSION_SECRET - 1 ? page_session_find(s->open, SESSIONS_MAX, sum, now) : NULL;
}

const struct page_session *sessions_holds(const struct sessions *s, const unsigned char sum[32],
					  uint64_t now)
{
	return page_session_find(s->open, SESSIONS_MAX, sum, now);
}

void sessions_leave(struct sessions *s, const unsigned char sum[32])
{
	struct page_session *o = page_session_find(s->open, SESSIONS_MAX, sum, 0);

	if (o)
		memset(o, 0, sizeof(*o));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "image/challenge.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/text/cleanup.h"

struct cursor {
	const char *p, *end;
};

static bool challenge_is_token(char c)
{
	return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", c);
}

static void blanks(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

static size_t challenge_word(struct cursor *c, const char **ret)
{
	*ret = c->p;
	while (c->p < c->end && challenge_is_token(*c->p))
		c->p++;
	return (size_t)(c->p - *ret);
}

static bool challenge_put(char *out, size_t *n, char c)
{
	if ((unsigned char)c < ' ' || c == 0x7f || *n + 1 >= CHALLENGE_TEXT_MAX)
		return false;
	out[(*n)++] = c;
	out[*n] = '\0';
	return true;
}

/* A token or a quoted string. */
static bool value(struct cursor *c, char out[CHALLENGE_TEXT_MAX])
{
	size_t n = 0;

	out[0] = '\0';
	if (c->p == c->end)
		return false;
	if (*c->p != '"') {
		while (c->p < c->end && challenge_is_token(*c->p))
			if (!challenge_put(out, &n, *c->p++))
				return false;
		return n > 0;
	}
	for (c->p++; c->p < c->end && *c->p != '"'; c->p++) {
		if (*c->p == '\\' && ++c->p == c->end)
			return false;
		if (!challenge_put(out, &n, *c->p))
			return false;
	}
	return c->p < c->end && *c->p++ == '"';
}

static bool parameter(struct cursor *c, struct challenge *ret, bool seen[3])
{
	const struct {
		const char *name;
		char *to;
	} known[] = { { "realm", ret->realm },
		      { "service", ret->service },
		      { "scope", ret->scope } };
	char other[CHALLENGE_TEXT_MAX], *to = other;
	const char *name;
	size_t n = challenge_word(c, &name);

	blanks(c);
	if (!n || c->p == c->end || *c->p++ != '=')
		return false;
	blanks(c);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (n == strlen(known[i].name) && strncasecmp(name, known[i].name, n) == 0) {
			if (seen[i])
				return false;
			seen[i] = true;
			to = known[i].to;
		}
	return value(c, to);
}

int challenge_parse(const char *p, size_t n, struct challenge *ret, struct err *e)
{
	struct cursor c = { .p = p, .end = p + n };
	struct challenge got = { 0 };
	bool seen[3] = { false };
	const char *scheme;
	size_t len = challenge_word(&c, &scheme);

	if (len == 6 && strncasecmp(scheme, "Bearer", 6) == 0)
		got.scheme = CHALLENGE_BEARER;
	else if (len != 5 || strncasecmp(scheme, "Basic", 5) != 0)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP,
			       "the registry asks for a way to log in that brig does not know");
	for (;;) {
		blanks(&c);
		if (c.p == c.end)
			break;
		if (!parameter(&c, &got, seen))
			return err_set(e, ERR_UNAVAILABLE, EBADMSG,
				       "the registry's question for a login makes no sense");
		blanks(&c);
		if (c.p < c.end && *c.p++ != ',')
			return err_set(e, ERR_UNAVAILABLE, EBADMSG,
				       "the registry's question for a login makes no sense");
	}
	if (got.scheme == CHALLENGE_BEARER && !got.realm[0])
		return err_set(e, ERR_UNAVAILABLE, EBADMSG,
			       "the registry wants a token and does not say whose");
	*ret = got;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* egress/oauth/token_name.c - which members of an answer are tokens, and which texts can be kept
 * apart from others. The names of the standard are few; vendors write them in other ways and add
 * their own. */
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/oauth/oauth_internal.h"

enum { NAME_MAX_SIZE = 64 };

/* Small letters alone: access_token, accessToken and Access-Token are one. */
static void bare(struct egress_text name, char out[NAME_MAX_SIZE])
{
	size_t n = 0;

	for (size_t i = 0; i < name.n && n < NAME_MAX_SIZE - 1; i++) {
		char c = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 32 : name.p[i]);

		if (c >= 'a' && c <= 'z')
			out[n++] = c;
	}
	out[n] = '\0';
}

static bool holds(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

enum token_name token_name(struct egress_text name)
{
	/* Of a token, and none: when it ends, what kind it is, where it is from. */
	static const char *const about[] = { "type", "expire", "endpoint", "url", "uri", NULL };
	static const char *const words[] = { "token",  "secret",   "assertion", "jwt",
					     "apikey", "password", NULL };
	char s[NAME_MAX_SIZE];

	bare(name, s);
	if (!holds(s, words) || holds(s, about))
		return TOKEN_NO;
	if (strstr(s, "refreshtoken"))
		return TOKEN_REFRESH;
	return strstr(s, "accesstoken") || strstr(s, "idtoken") ? TOKEN_ACCESS : TOKEN_OTHER;
}

bool token_field(struct egress_text name)
{
	static const char *const words[] = { "token",    "secret", "assertion", "apikey",
					     "password", "code",   NULL };
	static const char *const about[] = { "type", "verifier", "challenge", NULL };
	char s[NAME_MAX_SIZE];

	bare(name, s);
	return holds(s, words) && !holds(s, about);
}

/* A word of a language, a media type or a URL would be found in every other text from then on. What
 * is drawn at random has a digit, or letters of both cases all over it. */
bool token_is_secret(const char *p, size_t n)
{
	size_t digits = 0, upper = 0, lower = 0, kinds = 0;
	bool seen[256] = { false };

	if (n < SECRET_MIN || n > SECRET_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c <= ' ' || c >= 0x7f)
			return false;
		digits += c >= '0' && c <= '9';
		upper += c >= 'A' && c <= 'Z';
		lower += c >= 'a' && c <= 'z';
		kinds += !seen[c];
		seen[c] = true;
	}
	return kinds >= 8 && (digits || (upper >= 3 && lower >= 3));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/labels.c - what names of services never look like, and packed data does.
 *
 * Services have random labels too: sixteen digits of a content network, 32 of an account, a UUID.
 * So length alone says little, and what is refused is longer than those, says a text, or is cut
 * into equal pieces. Where one operator makes up the labels and answers for all of them, nobody
 * else hears of what is in one. */
#include "egress/rules/labels.h"
#include "base/bytes/hex.h"

#include <ctype.h>
#include <string.h>

#define LABELS_WORD 8    /* signs; of fewer nothing follows */
#define LABELS_DIGITS 20 /* of a number */
#define LABELS_HEX 33    /* more than of an account or an MD5 */
#define LABELS_MIXED 33  /* letters and digits in turn: more than of a function's address */
#define LABELS_SAYS 27   /* from so many on they may say a text in base32 or base64 */
#define LABELS_ALL 40    /* in several words together */
#define LABELS_TEXT 7    /* bytes of text that hexadecimal digits say */
#define LABELS_PIECES 3  /* and one more where they may be words */
#define LABELS_WORDS 12

struct labels_seen {
	size_t data, words; /* signs of words like data, and how many there are */
	size_t texts;       /* labels that say a short text */
	size_t equal, last; /* labels of one length, one behind another */
	bool digits;        /* one of these has some */
};

/* Of letters and digits. */
struct labels_word {
	size_t n, digits, turns;
	bool hex;
};

static struct labels_word labels_count(const char *p, size_t n)
{
	struct labels_word w = { .n = n, .hex = true };

	for (size_t i = 0; i < n; i++) {
		bool digit = isdigit((unsigned char)p[i]);

		w.digits += digit;
		w.hex &= isxdigit((unsigned char)p[i]) != 0;
		w.turns += i && digit != (isdigit((unsigned char)p[i - 1]) != 0);
	}
	return w;
}

/* So many bytes of text, when all of them are. A number says only a number so. */
static size_t labels_text(const char *p, size_t n, bool number)
{
	if (n % 2)
		return 0;
	for (size_t i = 0; i < n; i += 2) {
		int c = hex_nibble(p[i]) << 4 | hex_nibble(p[i + 1]);

		if (number ? c < '0' || c > '9'
			   : c < ' ' || c > '~' || (!isalnum(c) && !strchr("_-.:/@=+ ", c)))
			return 0;
	}
	return n / 2;
}

static bool labels_sign(int c)
{
	return c && (isalnum(c) || strchr("_-.:/@=+ ", c));
}

/* All of it text, in the digits of RFC 4648. */
static bool labels_base32(const char *p, size_t n)
{
	unsigned bits = 0, have = 0;

	for (size_t i = 0; i < n; i++) {
		bool letter = p[i] >= 'a' && p[i] <= 'z';
		int c;

		if (!letter && (p[i] < '2' || p[i] > '7'))
			return false;
		bits = (bits << 5 | (unsigned)(letter ? p[i] - 'a' : p[i] - '2' + 26)) & 0xfff;
		have += 5;
		if (have < 8)
			continue;
		have -= 8;
		c = (int)(bits >> have & 0xff);
		if (!labels_sign(c))
			return false;
	}
	return true;
}

static unsigned labels_six(char c, bool capital)
{
	if (isdigit((unsigned char)c))
		return (unsigned)(c - '0') + 52;
	return (unsigned)(c - 'a') + (capital ? 0 : 26);
}

/* May four signs, in whichever letters, stand for three of a text? Of random ones every sixth. */
static bool labels_four(const char *p)
{
	for (unsigned capitals = 0; capitals < 16; capitals++) {
		unsigned bits = 0;

		for (unsigned i = 0; i < 4; i++)
			bits = bits << 6 | labels_six(p[i], capitals >> i & 1);
		if (labels_sign((int)(bits >> 16)) && labels_sign((int)(bits >> 8 & 0xff)) &&
		    labels_sign((int)(bits & 0xff)))
			return true;
	}
	return false;
}

/* The same in base64, which has lost its capitals on the way, as names do. */
static bool labels_base64(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]))
			return false;
	for (size_t i = 0; i + 4 <= n; i += 4)
		if (!labels_four(p + i))
			return false;
	return true;
}

/* The time of something, as in the buckets that tools make: 20240115093012345600000001. */
static bool labels_is_time(const char *p, size_t n)
{
	static const int most[] = { 12, 31, 23, 59, 59 };

	if (n < 14 || n > 26 || memcmp(p, "20", 2) != 0)
		return false;
	for (size_t i = 0; i < 5; i++)
		if ((p[4 + 2 * i] - '0') * 10 + p[5 + 2 * i] - '0' > most[i])
			return false;
	return true;
}

static const char *labels_one(struct labels_seen *s, const char *p, size_t n)
{
	struct labels_word w = labels_count(p, n);
	size_t said = w.hex ? labels_text(p, n, w.digits == n) : 0;

	if (said >= LABELS_TEXT)
		return "a text in hexadecimal digits";
	s->texts += said >= LABELS_TEXT - 2;
	if (s->texts > 1)
		return "texts in hexadecimal digits";
	if (w.digits == n ? n >= LABELS_DIGITS && !labels_is_time(p, n)
	    : w.hex       ? n >= LABELS_HEX && w.digits >= 4
			  : false)
		return "a long row of digits";
	if (!w.hex && n >= LABELS_MIXED && w.turns >= 6)
		return "a long row of letters and digits";
	if (n >= LABELS_SAYS && labels_base32(p, n))
		return "a text in base32";
	if (n >= LABELS_SAYS && w.digits && labels_base64(p, n))
		return "a text in base64";
	if (n < LABELS_WORD || w.digits < 2 || (w.turns < 2 && w.digits < n))
		return NULL;
	s->data += n;
	s->words++;
	return s->data > LABELS_ALL && s->words > 3 ? "many rows of letters and digits" : NULL;
}

/* `settings.frontend.services` are three words; so many of one length are few names' in a row. */
static bool labels_pieces(struct labels_seen *s, const char *p, size_t n)
{
	struct labels_word w = labels_count(p, n);

	s->equal = n >= LABELS_WORD ? (n == s->last ? s->equal + 1 : 1) : 0;
	s->digits = w.digits || (s->digits && s->equal > 1);
	s->last = n;
	return s->equal >= (s->digits || n >= LABELS_WORDS ? LABELS_PIECES : LABELS_PIECES + 1);
}

static const char *labels_label(struct labels_seen *s, const char *p, size_t n)
{
	const char *what = NULL;

	if (labels_pieces(s, p, n))
		return "pieces of one length";
	if (n && *p == '_') { /* of a name that is no host's */
		p++;
		n--;
	}
	if (n > 4 && memcmp(p, "xn--", 4) == 0) {
		p += 4;
		n -= 4;
	}
	while (n && !what) {
		size_t k = 0;

		while (k < n && p[k] != '-')
			k++;
		what = k ? labels_one(s, p, k) : NULL;
		k += k < n;
		p += k;
		n -= k;
	}
	return what;
}

const char *labels_packed(const char *p, size_t n)
{
	struct labels_seen s = { 0 };
	const char *what = NULL;

	while (n && !what) {
		const char *dot = memchr(p, '.', n);
		size_t k = dot ? (size_t)(dot - p) : n;

		what = labels_label(&s, p, k);
		k += dot != NULL;
		p += k;
		n -= k;
	}
	return what;
}

/* Names there are given out by who answers for them: hashes of content, numbers of functions and of
 * web views. What somebody else writes into one is heard by that operator alone. */
static bool labels_are_given(const struct host *h)
{
	static const char *const operators[] = {
		".ipfs.dweb.link",       ".ipns.dweb.link",
		".ipfs.w3s.link",        ".ipfs.nftstorage.link",
		".ipfs.storacha.link",   ".ipfs.4everland.io",
		".arweave.net",          ".vscode-cdn.net",
		".scf.usercontent.goog", ".on.aws",
		".acm-validations.aws",
	};

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		size_t n = strlen(operators[i]);

		if (h->len > n && strcasecmp(h->name + h->len - n, operators[i]) == 0)
			return true;
	}
	return false;
}

size_t labels_below(const char *rule, const struct host *h)
{
	const char *star = rule && !labels_are_given(h) ? strstr(rule, "*.") : NULL;
	size_t n = star ? strcspn(star + 1, ":/, ") : 0;

	return n && h->len > n && strncasecmp(h->name + h->len - n, star + 1, n) == 0 ? h->len - n
										      : 0;
}

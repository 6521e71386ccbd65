/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/known_hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes/base64.h"
#include "base/bytes/sha1.h"
#include "base/text/str.h"

#define LINE_MAX_LEN 8192
#define NAME_MAX_LEN 300
#define HASH_MAGIC "|1|"
#define HMAC_BLOCK 64

struct known_word {
	const char *p;
	size_t n;
};

/* The next word of a line; n 0: there is none. */
static struct known_word next_word(const char **at, const char *end)
{
	struct known_word w;

	while (*at < end && (**at == ' ' || **at == '\t'))
		(*at)++;
	w.p = *at;
	while (*at < end && **at != ' ' && **at != '\t')
		(*at)++;
	w.n = (size_t)(*at - w.p);
	return w;
}

static bool word_is(const struct known_word *w, const char *text)
{
	return w->n == strlen(text) && memcmp(w->p, text, w->n) == 0;
}

static void hmac_sha1(const unsigned char key[SHA1_SIZE], const char *text,
		      unsigned char out[SHA1_SIZE])
{
	unsigned char pad[HMAC_BLOCK];
	struct sha1 h;

	for (int outer = 0; outer < 2; outer++) {
		for (size_t i = 0; i < HMAC_BLOCK; i++)
			pad[i] = (unsigned char)((i < SHA1_SIZE ? key[i] : 0) ^
						 (outer ? 0x5c : 0x36));
		sha1_init(&h);
		sha1_add(&h, pad, sizeof(pad));
		if (outer)
			sha1_add(&h, out, SHA1_SIZE);
		else
			sha1_add(&h, text, strlen(text));
		sha1_end(&h, out);
	}
}

/* |1|SALT|HASH: the name is hidden from whoever reads the file, and one is tried here. */
static bool is_hash_of(const struct known_word *w, const char *name)
{
	const size_t magic = strlen(HASH_MAGIC);
	const char *bar = w->n > magic ? memchr(w->p + magic, '|', w->n - magic) : NULL;
	unsigned char salt[SHA1_SIZE], hash[SHA1_SIZE], own[SHA1_SIZE];

	if (!bar || memcmp(w->p, HASH_MAGIC, magic) != 0 ||
	    base64_read(w->p + magic, (size_t)(bar - w->p) - magic, (char *)salt, sizeof(salt)) !=
		    SHA1_SIZE ||
	    base64_read(bar + 1, w->n - (size_t)(bar + 1 - w->p), (char *)hash, sizeof(hash)) !=
		    SHA1_SIZE)
		return false;
	hmac_sha1(salt, name, own);
	return memcmp(hash, own, SHA1_SIZE) == 0;
}

static bool known_hosts_same(const char *p, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		char c = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] | 0x20) : p[i];

		if (c != name[i]) /* which ends before that, if it is shorter */
			return false;
	}
	return !name[n];
}

/* Does the list name it, without a pattern that could mean others as well? What is revoked for a
 * pattern is revoked for it. */
static bool names_host(const struct known_word *w, const char *name, bool revoked)
{
	const char *end = w->p + w->n;
	bool found = false;

	if (w->n && *w->p == '|')
		return is_hash_of(w, name);
	if (memchr(w->p, '*', w->n) || memchr(w->p, '?', w->n) || memchr(w->p, '!', w->n))
		return revoked;
	for (const char *p = w->p; p < end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;

		found |= known_hosts_same(p, (size_t)(stop - p), name);
		p = stop + 1;
	}
	return found;
}

bool known_key_is(const char *kind, size_t kind_len, const unsigned char *blob, size_t n)
{
	static const struct {
		const char *name;
		size_t exact; /* bytes of the blob; 0: any number */
	} kinds[] = {
		{ "ssh-ed25519", 51 },
		{ "ecdsa-sha2-nistp256", 104 },
		{ "ecdsa-sha2-nistp384", 136 },
		{ "ecdsa-sha2-nistp521", 172 },
		{ "ssh-rsa", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t len = strlen(kinds[i].name);

		if (kind_len != len || memcmp(kind, kinds[i].name, len) != 0)
			continue;
		return n > 4 + len && n <= KNOWN_BLOB_MAX &&
		       (!kinds[i].exact || n == kinds[i].exact) && !blob[0] && !blob[1] &&
		       !blob[2] && blob[3] == len && memcmp(blob + 4, kind, len) == 0;
	}
	return false;
}

static int keep_key(struct arena *a, const struct known_word *kind, const struct known_word *text,
		    bool revoked, struct known_keys *ret, struct err *e)
{
	unsigned char blob[KNOWN_BLOB_MAX];
	ssize_t n = base64_read(text->p, text->n, (char *)blob, sizeof(blob));
	struct known_key k = { .revoked = revoked };

	if (n < 0 || !known_key_is(kind->p, kind->n, blob, (size_t)n))
		return 0;
	if (ret->n == KNOWN_KEYS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d keys for one host",
			       KNOWN_KEYS_MAX);
	k.kind = arena_strndup(a, kind->p, kind->n);
	k.text = arena_strndup(a, text->p, text->n);
	k.blob = arena_copy_array(a, blob, (size_t)n, 1);
	k.n = (size_t)n;
	if (!k.kind || !k.text || !k.blob)
		return err_nomem(e);
	ret->v[ret->n++] = k;
	return 0;
}

static int take_line(struct arena *a, const char *at, const char *end, const char *name,
		     struct known_keys *ret, struct err *e)
{
	struct known_word w = next_word(&at, end), kind, key;
	bool revoked = word_is(&w, "@revoked");

	if (revoked)
		w = next_word(&at, end);
	if (!w.n || *w.p == '#' || *w.p == '@' || !names_host(&w, name, revoked))
		return 0;
	kind = next_word(&at, end);
	key = next_word(&at, end);
	return keep_key(a, &kind, &key, revoked, ret, e);
}

bool known_hosts_is_line(const char *line)
{
	const char *at = line, *end = line + strlen(line);
	struct known_word host = next_word(&at, end), kind = next_word(&at, end),
			  key = next_word(&at, end);
	unsigned char blob[KNOWN_BLOB_MAX];
	ssize_t n = base64_read(key.p, key.n, (char *)blob, sizeof(blob));

	for (size_t i = 0; i < host.n; i++)
		if (strchr("*?!@#|,", host.p[i]))
			return false;
	return host.n && n > 0 && known_key_is(kind.p, kind.n, blob, (size_t)n);
}

int known_hosts_read(struct arena *a, const char *text, size_t n, const char *host, uint16_t port,
		     struct known_keys *ret, struct err *e)
{
	const char *end = text + n;
	char name[NAME_MAX_LEN];
	int len = port == 22 ? snprintf(name, sizeof(name), "%s", host)
			     : snprintf(name, sizeof(name), "[%s]:%u", host, port);

	if (len < 0 || (size_t)len >= sizeof(name))
		return 0;
	while (text < end) {
		const char *feed = memchr(text, '\n', (size_t)(end - text));
		const char *stop = feed ? feed : end, *last = stop;

		if (last > text && last[-1] == '\r')
			last--;
		if (last - text <= LINE_MAX_LEN && !memchr(text, '\0', (size_t)(last - text)) &&
		    take_line(a, text, last, name, ret, e) < 0)
			return -e->code;
		text = stop + 1;
	}
	return 0;
}

void known_hosts_settle(struct known_keys *k)
{
	size_t kept = 0;

	for (size_t i = 0; i < k->n; i++) {
		bool out = k->v[i].revoked;

		for (size_t j = 0; j < k->n && !out; j++) {
			bool same = k->v[j].n == k->v[i].n &&
				    memcmp(k->v[j].blob, k->v[i].blob, k->v[i].n) == 0;

			out = same && (k->v[j].revoked || j < i);
		}
		k->v[i].revoked |= out;
	}
	for (size_t i = 0; i < k->n; i++)
		if (!k->v[i].revoked)
			k->v[kept++] = k->v[i];
	k->n = kept;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/streams/keys.h"

#include <string.h>

#include "base/text/str.h"

#define QUIT '\x1c'
#define KEY '\\'
#define TIMES 3
#define WITHIN_US 1000000

/* A small number, and *at behind it. */
static unsigned keys_number(const char **at)
{
	unsigned n = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++)
		n = n < 100000 ? n * 10 + (unsigned)(**at - '0') : n;
	return n;
}

static bool with_control(unsigned modifiers)
{
	return modifiers > 0 && (modifiers - 1) & 4;
}

/* KEY:SHIFTED:BASE, as far as they are given: the key itself, or where it is on a plain keyboard.
 */
static bool has_key(const char **at, unsigned key)
{
	bool found = keys_number(at) == key;

	while (**at == ':') {
		(*at)++;
		found |= keys_number(at) == key;
	}
	return found;
}

/* CSI KEY ; MODIFIERS u, where a release ends in :3; as xterm has it, CSI 27 ; MODIFIERS ; KEY ~;
 * or, as Windows has it, CSI ... ; ... ; CHARACTER ; DOWN ; ... _ */
static bool is_quit(const char *sequence, char end)
{
	const char *at = sequence;
	unsigned n;

	if (end == '_') {
		for (int skip = 0; skip < 2 && at; skip++)
			at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL;
		return at && keys_number(&at) == QUIT && str_starts(at, ";1");
	}
	if (end == '~' && str_starts(at, "27;")) {
		at += 3;
		n = keys_number(&at);
		return with_control(n) && str_eq(at, ";92");
	}
	if (end != 'u' || !has_key(&at, KEY) || *at != ';')
		return false;
	at++;
	n = keys_number(&at);
	return with_control(n) && !str_starts(at, ":3");
}

/* Was it that key? */
static bool keys_one(struct keys *k, char c)
{
	bool quit;

	switch (k->state) {
	case KEYS_ESCAPE:
		k->state = c == '[' ? KEYS_SEQUENCE : c == '\x1b' ? KEYS_ESCAPE : KEYS_PLAIN;
		k->len = 0;
		return c == QUIT;
	case KEYS_SEQUENCE:
		if (c >= '0' && c <= ';') {
			if (k->len + 1 < sizeof(k->sequence))
				k->sequence[k->len++] = c;
			else
				k->state = KEYS_PLAIN;
			return false;
		}
		k->sequence[k->len] = '\0';
		quit = c == QUIT || is_quit(k->sequence, c);
		k->state = c == '\x1b' ? KEYS_ESCAPE : KEYS_PLAIN;
		return quit;
	case KEYS_PLAIN:
		break;
	}
	if (c == '\x1b')
		k->state = KEYS_ESCAPE;
	return c == QUIT;
}

bool keys_leave(struct keys *k, const char *data, size_t n, uint64_t now)
{
	for (size_t i = 0; i < n; i++) {
		if (!keys_one(k, data[i]))
			continue;
		k->times = k->times && now - k->last <= WITHIN_US ? k->times + 1 : 1;
		k->last = now;
		if (k->times == TIMES)
			return true;
	}
	return false;
}

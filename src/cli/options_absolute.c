/* SPDX-License-Identifier: Apache-2.0 */
/* cli/options_absolute.c - options that outlive the folder where they were typed. */
#include <string.h>

#include "base/text/str.h"
#include "cli/cli.h"
#include "model/settings/paths.h"

struct absolute {
	struct arena *arena;
	const struct place *at;
	struct err *e;
};

static bool is_path(enum field_id id)
{
	switch (fields[id].type) {
	case FIELD_T_PATH:
	case FIELD_T_PATHS:
	case FIELD_T_MOUNTS:
		return true;
	default:
		return id == FIELD_CONFIG || id == FIELD_SSH_IDENTITY_FILE ||
		       id == FIELD_SSH_CONFIG_FILE || id == FIELD_KUBE_CONFIG ||
		       id == FIELD_AUDIT_DIR;
	}
}

/* `head` is what stands before the value in its word. Of a mount the source alone is a path of
 * ours, and its name may have a colon behind a backslash, which stays as it is. */
static int rewrite(const struct absolute *a, enum field_id id, const char *head, size_t n,
		   const char *value, char **word)
{
	const char *colon = fields[id].type == FIELD_T_MOUNTS ? strchr(value, ':') : NULL;
	const char *given, *path, *rest = colon ? colon : "";

	if (value[0] == '/')
		return 0;
	given = arena_strndup(a->arena, value, colon ? (size_t)(colon - value) : strlen(value));
	if (!given)
		return err_nomem(a->e);
	if (path_resolve(a->arena, a->at, given, &path, a->e) < 0)
		return -a->e->code;
	*word = arena_printf(a->arena, "%.*s%s%s", (int)n, head, path, rest);
	return *word ? 0 : err_nomem(a->e);
}

/* KEY=VALUE of --set, behind the first n bytes of its word. */
static int rewrite_pair(const struct absolute *a, size_t n, char **word)
{
	const char *pair = *word + n, *equals = strchr(pair, '=');
	char key[64];
	enum field_id id;

	if (!equals || (size_t)(equals - pair) >= sizeof(key))
		return 0;
	memcpy(key, pair, (size_t)(equals - pair));
	key[equals - pair] = '\0';
	if (!field_by_key(key, &id) || !is_path(id))
		return 0;
	return rewrite(a, id, *word, (size_t)(equals + 1 - *word), equals + 1, word);
}

/* `--NAME=VALUE` and `--NAME VALUE`; returns how many words it took, or negative. */
static int long_option(const struct absolute *a, char **words)
{
	const char *word = words[0] + 2, *equals = strchr(word, '=');
	char *name = arena_strndup(a->arena, word, equals ? (size_t)(equals - word) : strlen(word));
	const struct field *f;
	enum field_id id = 0;
	int r;

	if (!name)
		return err_nomem(a->e);
	f = field_by_flag(name, &id);
	if (str_eq(name, "set") || str_eq(name, "token-file") || (f && is_path(id))) {
		char **at = equals ? &words[0] : &words[1];
		size_t n = equals ? (size_t)(equals + 1 - words[0]) : 0;

		if (!*at)
			return 1;
		r = str_eq(name, "set") ? rewrite_pair(a, n, at)
					: rewrite(a, f ? id : FIELD_CONFIG, *at, n, *at + n, at);
		return r < 0 ? r : equals ? 1 : 2;
	}
	return f && f->type != FIELD_T_BOOL && !equals && !f->alone && words[1] ? 2 : 1;
}

/* `-w PATH`, `-wPATH`; letters of switches may stand before. */
static int short_option(const struct absolute *a, char **words)
{
	enum field_id id;

	for (const char *p = words[0] + 1; *p; p++) {
		const struct field *f = field_by_letter(*p, &id);
		size_t n = (size_t)(p + 1 - words[0]);
		int r;

		if (!f || f->type == FIELD_T_BOOL)
			continue;
		if (!is_path(id) || (!p[1] && !words[1]))
			return p[1] || !words[1] ? 1 : 2;
		r = p[1] ? rewrite(a, id, words[0], n, p + 1, &words[0])
			 : rewrite(a, id, "", 0, words[1], &words[1]);
		return r < 0 ? r : p[1] ? 1 : 2;
	}
	return 1;
}

int options_absolute(struct arena *arena, const struct place *at, char **words, struct err *e)
{
	const struct absolute a = { .arena = arena, .at = at, .e = e };
	int n;

	for (; *words && words[0][0] == '-' && !str_eq(*words, "--"); words += n) {
		n = words[0][1] == '-' ? long_option(&a, words) : short_option(&a, words);
		if (n < 0)
			return n;
	}
	return 0;
}

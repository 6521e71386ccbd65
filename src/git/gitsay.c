/* SPDX-License-Identifier: Apache-2.0 */
#include "git/gitsay.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"

#define VALUE_MAX 4096
#define KEY_MAX 512
#define OPTIONAL ":(optional)"

/* An allow-list: git knows dozens of keys that run a program, and gains more; what an ordinary
 * `git init`, `clone` or `remote add` writes is short. */
/* clang-format off */
static const char *const harmless[] = {
	"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates",
	"core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.autocrlf", "core.eol",
	"core.safecrlf", "core.quotepath", "core.abbrev",
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"remote.url", "remote.fetch", "remote.tagopt", "remote.prune",
	"branch.remote", "branch.merge", "branch.rebase", "branch.description", "init.defaultbranch",
	"pull.rebase", "pull.ff", "push.default", "push.autosetupremote",
	"color.ui", "advice.detachedhead", "extensions.objectformat", "extensions.refstorage",
};
/* clang-format on */

/* Section and key of `name`, which stand before its first dot and behind its last one. */
static bool is_key(const char *name, const char *key)
{
	const char *first = strchr(name, '.'), *dot = strchr(key, '.');

	return first && first - name == dot - key && strncmp(name, key, (size_t)(dot - key)) == 0 &&
	       str_eq(strrchr(name, '.'), dot);
}

static bool is_harmless(const char *name, const char *value)
{
	/* An address may name a helper program: "ext::sh -c ..." */
	if (strstr(value, "::") || str_has_control(value))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (is_key(name, harmless[i]))
			return true;
	return false;
}

static void add_fact(struct buf *facts, const char *what, const char *value)
{
	buf_puts(facts, what);
	buf_add(facts, value, strlen(value) + 1);
}

/* One more where it begins with what is a mark to newer gits and a name to others. */
static void add_path(struct buf *facts, const char *what, const char *value)
{
	add_fact(facts, what, value);
	if (str_starts(value, OPTIONAL))
		add_fact(facts, what, value + strlen(OPTIONAL));
}

static void take_setting(const char *name, const char *value, struct buf *facts)
{
	if (is_key(name, "core.hookspath"))
		add_path(facts, "hooks=", value);
	else if (is_key(name, "include.path") || is_key(name, "includeif.path"))
		add_path(facts, "include=", value);
	else if (is_key(name, "core.worktree"))
		add_fact(facts, "worktree=", value);
	else if (is_key(name, "extensions.objectformat"))
		add_fact(facts, "format=", value);
}

/* A record is "KEY LINE VALUE", or a key alone. false: not as git prints it. */
static bool split(const char *record, char key[KEY_MAX], const char **value)
{
	size_t n = strcspn(record, "\n");

	*value = record + n + (record[n] != '\0');
	return n && snprintf(key, KEY_MAX, "%.*s", (int)n, record) < KEY_MAX;
}

bool gitsay_config(const struct buf *list, struct buf *facts)
{
	bool plain = true;

	if (list->len && list->data[list->len - 1])
		return false;
	for (const char *record = NULL; (record = gitsay_next(list, record));) {
		char name[KEY_MAX];
		const char *value;

		if (!split(record, name, &value) || strlen(value) >= VALUE_MAX)
			return false;
		plain &= is_harmless(name, value) || is_key(name, "core.worktree");
		take_setting(name, value, facts);
	}
	if (plain)
		add_fact(facts, "plain", "");
	return !facts->failed;
}

const char *gitsay_next(const struct buf *list, const char *at)
{
	if (!list->len)
		return NULL;
	at = at ? at + strlen(at) + 1 : list->data;
	return at < list->data + list->len ? at : NULL;
}

bool gitsay_has(const struct buf *list, const char *record)
{
	for (const char *at = NULL; (at = gitsay_next(list, at));)
		if (str_eq(at, record))
			return true;
	return false;
}

/* ---- two lists of one configuration ---- */

/* A key without a value is not what git writes. */
static bool record_harmless(const char *record)
{
	char name[KEY_MAX];
	const char *value;

	return strchr(record, '\n') && split(record, name, &value) && is_harmless(name, value);
}

static bool has_key(const struct buf *list, const char *record)
{
	size_t n = strcspn(record, "\n");

	for (const char *at = NULL; (at = gitsay_next(list, at));)
		if (strcspn(at, "\n") == n && memcmp(at, record, n) == 0)
			return true;
	return false;
}

/* The record of `was` after `at` that is the same; NULL: none, or one on the way is not harmless.
 */
static const char *find_same(const struct buf *was, const char *at, const char *record)
{
	while ((at = gitsay_next(was, at)) && !str_eq(at, record))
		if (!record_harmless(at))
			return NULL;
	return at;
}

/* What another value of leads git nowhere else. */
static bool leads_nowhere(const char *record)
{
	static const char *const sections[] = { "user.", "author.", "committer.", "pull.",
						"color." };
	static const char *const keys[] = { "branch.merge", "branch.rebase", "branch.description" };
	char name[KEY_MAX];
	const char *value;
	bool found = false;

	if (!split(record, name, &value))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		found |= str_starts(name, sections[i]);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		found |= is_key(name, keys[i]);
	return found;
}

enum gitsay_change gitsay_change(const struct buf *was, const struct buf *is)
{
	enum gitsay_change found = GITSAY_PLAIN;
	const char *at = NULL, *same;

	if (!is->len || is->data[is->len - 1] || (was->len && was->data[was->len - 1]))
		return GITSAY_HOSTILE;
	for (const char *record = NULL; (record = gitsay_next(is, record));) {
		same = find_same(was, at, record);
		if (same)
			at = same;
		else if (!record_harmless(record))
			return GITSAY_HOSTILE;
		else if (has_key(was, record) && !leads_nowhere(record))
			found = GITSAY_LED;
	}
	while ((at = gitsay_next(was, at)))
		if (!record_harmless(at))
			return GITSAY_HOSTILE;
	return found;
}

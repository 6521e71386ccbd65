/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gitconfig.c - an allow-list: git knows dozens of keys that run a program, and
 * gains more; what an ordinary `git init`, `clone` or `remote add` writes is short. */
#include "backend/kit/gitconfig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"

#define CONFIG_MAX 65536

static const struct {
	const char *section, *key;
} harmless[] = {
	{ "core", "repositoryformatversion" },
	{ "core", "filemode" },
	{ "core", "bare" },
	{ "core", "logallrefupdates" },
	{ "core", "symlinks" },
	{ "core", "ignorecase" },
	{ "core", "precomposeunicode" },
	{ "core", "autocrlf" },
	{ "core", "eol" },
	{ "core", "safecrlf" },
	{ "core", "quotepath" },
	{ "core", "abbrev" },
	{ "user", "name" },
	{ "user", "email" },
	{ "author", "name" },
	{ "author", "email" },
	{ "committer", "name" },
	{ "committer", "email" },
	{ "remote", "url" },
	{ "remote", "fetch" },
	{ "remote", "tagopt" },
	{ "remote", "prune" },
	{ "branch", "remote" },
	{ "branch", "merge" },
	{ "branch", "rebase" },
	{ "branch", "description" },
	{ "init", "defaultbranch" },
	{ "pull", "rebase" },
	{ "pull", "ff" },
	{ "push", "default" },
	{ "push", "autosetupremote" },
	{ "color", "ui" },
	{ "advice", "detachedhead" },
	{ "extensions", "objectformat" },
	{ "extensions", "refstorage" },
};

struct line {
	char section[64];
	const char *at;
};

/* A header `[name]` or `[name "sub"]`; moves behind it. false: not one that can be read. */
static bool read_header(struct line *l)
{
	const char *name = l->at + 1;
	size_t n = strcspn(name, " \t]\"");
	bool quoted = false;

	if (n >= sizeof(l->section))
		return false;
	memcpy(l->section, name, n);
	l->section[n] = '\0';
	for (l->at = name + n; *l->at && (quoted || *l->at != ']'); l->at++) {
		if (*l->at == '\\' && l->at[1])
			l->at++;
		else if (*l->at == '"')
			quoted = !quoted;
	}
	if (*l->at != ']')
		return false;
	l->at++;
	return true;
}

static bool known(const char *section, const char *key, size_t n)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
		if (strcasecmp(section, harmless[i].section) == 0 && strlen(harmless[i].key) == n &&
		    strncasecmp(key, harmless[i].key, n) == 0)
			return true;
	return false;
}

/* An address may name a helper program: "ext::sh -c ..." */
static bool value_harmless(const char *value)
{
	return !strstr(value, "::") && !strchr(value, '\\');
}

static bool line_harmless(struct line *l)
{
	size_t n;

	l->at += strspn(l->at, " \t\r");
	while (*l->at == '[') {
		if (!read_header(l))
			return false;
		l->at += strspn(l->at, " \t\r");
	}
	if (!*l->at || *l->at == '#' || *l->at == ';')
		return true;
	n = strcspn(l->at, " \t=\r");
	return known(l->section, l->at, n) && value_harmless(l->at + n);
}

bool gitconfig_text_harmless(const char *text)
{
	char *copy = strdup(text), *rest = copy, *line;
	struct line l = { .section = "" };
	bool fine = copy;

	while (fine && (line = strsep(&rest, "\n"))) {
		l.at = line;
		fine = line_harmless(&l);
	}
	free(copy);
	return fine;
}

bool gitconfig_harmless(int tree, const char *path)
{
	CLEANUP(mem) char *text = calloc(1, CONFIG_MAX);
	CLEANUP(fd) int fd = fd_open_nolinks(tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR;
	if (!text || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = read(fd, text, CONFIG_MAX - 1);
	return n >= 0 && n < CONFIG_MAX - 1 && strlen(text) == (size_t)n &&
	       gitconfig_text_harmless(text);
}

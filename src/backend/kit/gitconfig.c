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
#define OWN_MAX (1 << 20)

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

/* Skips to a line's key; false: there is none. */
static bool read_key(struct line *l, size_t *n)
{
	l->at += strspn(l->at, " \t\r");
	while (*l->at == '[') {
		if (!read_header(l))
			return false;
		l->at += strspn(l->at, " \t\r");
	}
	*n = strcspn(l->at, " \t=\r#;");
	return *n > 0;
}

/* What follows the key, without quotes, escapes and comment, written over itself. */
static char *read_value(char *at)
{
	char *value, *out, *end;
	bool quoted = false;

	at += strspn(at, " \t\r");
	if (*at != '=')
		return NULL;
	at += 1 + strspn(at + 1, " \t\r");
	for (value = out = end = at; *at && (quoted || !strchr("#;", *at)); at++) {
		if (*at == '"') {
			quoted = !quoted;
			continue;
		}
		if (*at == '\\' && at[1])
			at++;
		*out++ = *at;
		if (quoted || !strchr(" \t\r", *at))
			end = out;
	}
	*end = '\0';
	return *value ? value : NULL;
}

static bool is_key(const struct line *l, size_t n, const char *section, const char *key)
{
	return strcasecmp(l->section, section) == 0 && strlen(key) == n &&
	       strncasecmp(l->at, key, n) == 0;
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

static int text_paths(char *text, int (*found)(void *arg, const struct gitconfig_path *path),
		      void *arg)
{
	struct line l = { .section = "" };
	char *line;
	size_t n;
	int r = 0;

	while (r == 0 && (line = strsep(&text, "\n"))) {
		struct gitconfig_path path = { 0 };

		l.at = line;
		if (!read_key(&l, &n))
			continue;
		path.hooks = is_key(&l, n, "core", "hooksPath");
		path.submodule = is_key(&l, n, "submodule", "path");
		if (path.hooks || path.submodule || is_key(&l, n, "include", "path") ||
		    is_key(&l, n, "includeIf", "path"))
			path.value = read_value(line + (l.at - line) + n);
		if (path.value)
			r = found(arg, &path);
	}
	return r;
}

int gitconfig_paths(const char *file, int (*found)(void *arg, const struct gitconfig_path *path),
		    void *arg)
{
	CLEANUP(mem) char *text = NULL;
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, file, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;
	ssize_t n;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENAMETOOLONG)
		return 0; /* git could not read it either, or a link that is protected is there */
	if (fd < 0)       /* the placeholder of another run, or where one was a moment ago */
		return (lstat(file, &st) < 0 ? errno == ENOENT : S_ISSOCK(st.st_mode)) ? 0 : fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (st.st_size > OWN_MAX)
		return -EFBIG;
	text = calloc(1, (size_t)st.st_size + 1);
	n = text ? read(fd, text, (size_t)st.st_size) : -1;
	return n < 0 ? -ENOMEM : text_paths(text, found, arg);
}

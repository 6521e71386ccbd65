/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_etc.c - the pieces of /etc that programs look for.
 *
 * Two tables. What says nothing about this machine or its users is shown as it is. What an
 * administrator may have written into is shown only if it is root's, readable by everybody down to
 * the last file, and, where logins are known to be written, without a word that looks like one.
 * Maven's settings.xml is not among them: as it is shipped it speaks of passwords.
 * Anything else is simply not there: a program then does what it does without. Files go in
 * as their text and need no mount; what only a terminal's user misses costs other runs nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define DEPTH_MAX 4
#define ENTRIES_MAX 512

static const char *const plain[] = {
	"/etc/alternatives",    "/etc/crypto-policies", "/etc/fonts",        "/etc/java-17-openjdk",
	"/etc/java-21-openjdk", "/etc/java-25-openjdk", "/etc/ld.so.cache",  "/etc/localtime",
	"/etc/mime.types",      "/etc/os-release",      "/etc/pki/ca-trust", "/etc/pki/tls/certs",
	"/etc/protocols",       "/etc/services",        "/etc/ssl/certs",    "/etc/ssl/openssl.cnf",
};

enum { AT_TERMINAL = 1, LOGINS = 2 };

static const struct {
	const char *path;
	unsigned flags;
} checked[] = {
	{ "/etc/chromium.d", 0 },
	{ "/etc/gradle", LOGINS },
	{ "/etc/magic", 0 },
	{ "/etc/maven/logging/simplelogger.properties", 0 },
	{ "/etc/maven/m2.conf", 0 },
	{ "/etc/npmrc", LOGINS },
	{ "/etc/php", 0 },
	{ "/etc/pip.conf", LOGINS },
	{ "/etc/profile", LOGINS },
	{ "/etc/profile.d", LOGINS },
	{ "/etc/bash.bashrc", AT_TERMINAL | LOGINS },
	{ "/etc/inputrc", AT_TERMINAL },
	{ "/etc/screenrc", AT_TERMINAL },
	{ "/etc/vim", AT_TERMINAL },
};

bool etc_for_everybody(const struct stat *st)
{
	mode_t need = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

	return st->st_uid == 0 && (st->st_mode & need) == need && !(st->st_mode & S_IWOTH);
}

/* Whoever wrote a script says so in its head: "Author(s): ..." is no login. */
static bool has_auth(const char *lower)
{
	while ((lower = strstr(lower, "auth"))) {
		lower += 4;
		if (lower[0] != 'o' || lower[1] != 'r')
			return true;
		lower += lower[2] == 's' ? 3 : 2;
		if ((*lower >= 'a' && *lower <= 'z') || *lower == '_' || *lower == '-')
			return true;
	}
	return false;
}

/* In lower case: a search that looks at both takes ten times as long. */
static bool has_word(const char *text)
{
	static const char *const words[] = { "passw",      "passphrase", "token",   "secret",
					     "credential", "api_key",    "api-key", "apikey",
					     "bearer",     "private key" };
	char lower[LOOKED_TEXT_MAX];
	size_t n = 0;

	for (; n < sizeof(lower) - 1 && text[n]; n++)
		lower[n] = text[n] >= 'A' && text[n] <= 'Z' ? (char)(text[n] | 0x20) : text[n];
	if (text[n])
		return true; /* longer than anything that is shown */
	lower[n] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(lower, words[i]))
			return true;
	return has_auth(lower);
}

bool etc_has_login(const char *text)
{
	if (has_word(text))
		return true;
	while ((text = strstr(text, "://"))) { /* https://user:value@host/ */
		text += 3;
		if (text[strcspn(text, "@/ \t\r\n\"'")] == '@')
			return true;
	}
	return false;
}

/* How long the text is; -1: it is not read to its end, is no text, or has a login in it. */
static ssize_t plan_etc_read_text(int dir, const char *path, bool logins,
				  char text[LOOKED_TEXT_MAX])
{
	ssize_t n = fd_read_file(dir, path, text, LOOKED_TEXT_MAX);

	return n < 0 || n >= LOOKED_TEXT_MAX - 1 || memchr(text, '\0', (size_t)n) ||
			       (logins && etc_has_login(text))
		       ? -1
		       : n;
}

bool etc_folder_for_everybody(int fd, int depth, char *text, unsigned *left)
{
	const struct fd_entry *n;
	bool fine = fd >= 0;
	struct folder d;
	struct stat st;

	folder_begin(&d, fd);
	while (fine && (n = folder_next(&d))) {
		fine = (*left)-- > 0;
		if (fine && n->type != DT_LNK)
			fine = fstatat(fd, n->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
		if (!fine || n->type == DT_LNK || S_ISLNK(st.st_mode))
			continue; /* a link leads to what is shown, or nowhere */
		fine = (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && etc_for_everybody(&st);
		if (fine && text && S_ISREG(st.st_mode))
			fine = plan_etc_read_text(fd, n->name, true, text) >= 0;
		if (fine && S_ISDIR(st.st_mode))
			fine = depth > 0 &&
			       etc_folder_for_everybody(
				       openat(fd, n->name,
					      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
				       depth - 1, text, left);
	}
	(void)fd_close(fd);
	return fine && !d.error;
}

/* Who may not pass a folder may not read what is in it. */
static bool above_for_everybody(const char *path)
{
	char folder[PATH_MAX];
	struct stat st;

	for (const char *slash = path + strlen("/etc/"); (slash = strchr(slash, '/')); slash++) {
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
		if (lstat(folder, &st) < 0 || !S_ISDIR(st.st_mode) || !etc_for_everybody(&st))
			return false;
	}
	return true;
}

/* What is in it is looked at later: plan_etc_look. Of a file its text alone is shown, because a
 * mount would cost more. */
static int show_checked(struct box_plan *p, const char *path, unsigned flags, struct err *e)
{
	struct stat st;

	if ((flags & AT_TERMINAL && !plan_has_terminal(p)) || lstat(path, &st) < 0 ||
	    !etc_for_everybody(&st) || !above_for_everybody(path))
		return 0;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	if ((S_ISREG(st.st_mode) ? plan_file(p, path, "", e) : plan_object(p, path, &st, e)) < 0)
		return -e->code;
	p->ops[p->op_count - 1].look = flags & LOGINS ? LOOK_LOGINS : LOOK_MODES;
	return 0;
}

int plan_etc(struct box_plan *p, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (!plan_packages_have(p, plain[i]) && plan_same_place(p, plain[i], e) < 0)
			return err_wrap(e, "system folder");
	for (size_t i = 0; i < ARRAY_LEN(checked); i++)
		if (!plan_packages_have(p, checked[i].path) &&
		    show_checked(p, checked[i].path, checked[i].flags, e) < 0)
			return err_wrap(e, "system folder");
	return 0;
}

/* false: it is not fit to be shown. */
static bool look_at_file(struct box_plan *p, struct op *o, char text[LOOKED_TEXT_MAX])
{
	ssize_t n = plan_etc_read_text(AT_FDCWD, o->dst, o->look == LOOK_LOGINS, text);
	const char *copy = n < 0 ? NULL : arena_strndup(p->arena, text, (size_t)n);

	if (copy)
		o->data = copy;
	return copy;
}

void plan_etc_look(struct box_plan *p)
{
	char text[LOOKED_TEXT_MAX];

	text[0] = '\0';
	for (size_t i = 0; i < p->op_count; i++) {
		struct op *o = &p->ops[i];
		unsigned left = ENTRIES_MAX;
		int fd;

		if (o->look == LOOK_NOT)
			continue;
		if (o->kind == OP_FILE) {
			o->skip = !look_at_file(p, o, text);
			continue;
		}
		fd = open(o->src, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		o->skip = !etc_folder_for_everybody(fd, DEPTH_MAX,
						    o->look == LOOK_LOGINS ? text : NULL, &left);
	}
}

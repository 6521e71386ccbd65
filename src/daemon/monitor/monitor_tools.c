/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_tools.c - `builtin_tools`: logins of the caller's own tools, copied into
 * HOME.
 *
 * What enters is a short list of files that hold logins, and of each only the members or lines that
 * are one: no hooks, commands, plugins, MCP servers or settings, which name programs. Nothing is
 * mounted. What comes back, when nothing runs inside any more, are new tokens in place of old ones,
 * in a file that the host has and nobody has changed there meanwhile: a provider that gives out a
 * new token takes the old one back, and the host would have lost its login. Caches are the
 * sandbox's own, in its HOME. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/sha256.h"
#include "base/files/draft.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_internal.h"
#include "daemon/monitor/tool_login.h"
#include "model/outcome/store.h"

#define LOGIN_MAX ((size_t)256 << 10)

static int refuse_link(const char *path, struct err *e)
{
	CLEANUP(mem) char *real = realpath(path, NULL);

	(void)err_set(e, ERR_POLICY, ELOOP,
		      "builtin_tools: '%.200s' is, or passes through, a symbolic link", path);
	return err_hint(e, "it leads to '%.150s': 'copies' can name that", real ? real : "nothing");
}

/* Its text, with a NUL; 0: there is none. */
static ssize_t read_login(const char *path, char *text, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;
	ssize_t n;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd == -ELOOP)
		return refuse_link(path, e);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, fd < 0 ? fd : -errno, "builtin_tools: cannot open '%.200s'",
				 path);
	if (exposed_check("builtin_tools: the login", path, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	n = S_ISREG(st.st_mode) && st.st_size < (off_t)LOGIN_MAX ? pread(fd, text, LOGIN_MAX - 1, 0)
								 : -1;
	if (n < 0)
		return err_set(e, ERR_POLICY, EINVAL,
			       "builtin_tools: '%.200s' is no file of logins", path);
	text[n] = '\0';
	return n;
}

/* ---- what entered, so that it is known whether the host's is still that ---- */

#define LOGINS "logins" /* in the sandbox's folder: a tool and a digest a line */
#define LOGINS_MAX 4096

static void note_down(struct buf *list, const struct tool_login *t, const char *text, size_t n)
{
	char hex[SHA256_HEX];

	if (!tool_login_renews(t))
		return;
	sha256_of(text, n, hex);
	buf_printf(list, "%s %s\n", t->name, hex);
}

static int bring(struct monitor *m, const struct tool_login *t, const char *inside,
		 struct buf *entered, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(2 * LOGIN_MAX);
	CLEANUP(mem) char *text = malloc(LOGIN_MAX);
	const char *home = getenv("HOME");
	char from[4096], to[4096], line[512];
	ssize_t n;

	if (!text)
		return err_nomem(e);
	(void)snprintf(from, sizeof(from), "%s/%s", home ? home : "", t->file);
	(void)snprintf(to, sizeof(to), "%s/%s", inside, t->file);
	if (!home || home[0] != '/')
		return err_set(e, ERR_CONFIG, ENOENT, "builtin_tools: HOME is not set");
	n = read_login(from, text, e);
	if (n < 0)
		return (int)n;
	if (!n) {
		(void)snprintf(line, sizeof(line),
			       "builtin_tools: there is no login of '%s' on this host (~/%s), so "
			       "none is inside",
			       t->name, t->file);
		monitor_note(m, line);
		return 0;
	}
	note_down(entered, t, text, (size_t)n);
	if (tool_login_take(t, text, (size_t)n, &out) < 0)
		(void)err_set(e, ERR_CONFIG, EBADMSG, "builtin_tools: '%.200s' cannot be read",
			      from);
	else if (copies_text(m, to, out.data ? out.data : "", out.len, e) == 0)
		(void)snprintf(line, sizeof(line),
			       "builtin_tools: the login of '%s' is inside, and whoever runs there "
			       "has it",
			       t->name);
	explicit_bzero(text, LOGIN_MAX);
	if (out.data)
		explicit_bzero(out.data, out.len);
	if (e->code)
		return -e->code;
	monitor_note(m, line);
	return 0;
}

int tools_make(struct monitor *m, const struct strlist *l, const char *inside, struct err *e)
{
	CLEANUP(buf) struct buf entered = BUF_INIT(LOGINS_MAX);

	for (size_t i = 0; i < l->n; i++) {
		const struct tool_login *t = tool_login_find(l->v[i]);

		if (!t && strstr(l->v[i], ":placeholder"))
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "brig sandbox create puts it in; by the API: "
					  "use_credentials and egress.allow",
					  "builtin_tools '%.60s' is settled by brig's own client",
					  l->v[i]);
		if (!t)
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "claude, codex, git, uv, npm, apt or opencode",
					  "builtin_tools: there is no tool '%.60s'", l->v[i]);
		if (t->file && bring(m, t, inside, &entered, e) < 0)
			return -e->code;
	}
	if (!entered.len)
		return 0;
	if (m->store < 0)
		monitor_note(m,
			     "builtin_tools: HOME is in memory: a login that is renewed inside is "
			     "not written back");
	return monitor_write(m, LOGINS, entered.data, entered.len) < 0 ? err_nomem(e) : 0;
}

/* ---- the way back ---- */

/* What the sandbox has left of it: hostile. Its text, or 0. */
static ssize_t read_inside(const struct monitor *m, const struct tool_login *t, char *text)
{
	char path[256];
	CLEANUP(fd) int fd = -1;
	struct stat st;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", store_folders[STORE_HOME].name, t->file);
	fd = fd_open_nolinks(m->store, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, FD_BENEATH);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size >= (off_t)LOGIN_MAX)
		return 0;
	n = pread(fd, text, LOGIN_MAX - 1, 0);
	return n > 0 ? n : 0;
}

/* In place of the host's own, all of it or nothing. */
static int monitor_tools_replace(const char *path, const struct buf *text)
{
	const char *slash = strrchr(path, '/');
	char above[4096];
	CLEANUP(fd) int folder = -1;
	struct stat st;

	(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	folder = fd_open_nolinks(AT_FDCWD, above, O_RDONLY | O_DIRECTORY, 0);
	if (folder < 0)
		return folder;
	if (fstatat(folder, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		return -EPERM;
	return draft_write(folder, slash + 1, text, st.st_mode & 0777, false);
}

/* What to say of it; NULL: there is nothing to be said. `known` is the digest of what the host had
 * when it entered, and becomes that of what it has now. */
static const char *return_one(const struct monitor *m, const struct tool_login *t,
			      char known[SHA256_HEX], char *host, char *inside)
{
	CLEANUP(buf) struct buf out = BUF_INIT(2 * LOGIN_MAX);
	const char *home = getenv("HOME");
	char path[4096], now[SHA256_HEX];
	ssize_t n, left = read_inside(m, t, inside);
	struct err unused;
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", home ? home : "", t->file);
	n = left ? read_login(path, host, &unused) : 0;
	if (n <= 0)
		return left ? "is no longer on the host: nothing is written there" : NULL;
	sha256_of(host, (size_t)n, now);
	r = tool_login_renew(t, host, (size_t)n, inside, (size_t)left, &out);
	if (r > 0 && !str_eq(now, known))
		r = -EBUSY;
	if (r > 0)
		r = monitor_tools_replace(path, &out) < 0 ? -EIO : 1;
	if (r > 0)
		sha256_of(out.data, out.len, known);
	if (out.data)
		explicit_bzero(out.data, out.len);
	switch (r) {
	case 0:
		return NULL;
	case -EBUSY:
		return "has changed on the host meanwhile: that of inside is not written back";
	case -EPERM:
		return "is another account's inside: it is not written back";
	case -EBADMSG:
		return "cannot be read any more inside: it is not written back";
	default:
		return r > 0 ? "was renewed inside, and is written to the host's file"
			     : "was renewed inside, and cannot be written to the host's file";
	}
}

static void return_line(struct monitor *m, char *line, char *host, char *inside, struct buf *list)
{
	char text[512], *hex = strchr(line, ' '), known[SHA256_HEX];
	const struct tool_login *t;
	const char *word;

	if (!hex || strlen(hex + 1) != SHA256_HEX - 1)
		return;
	*hex = '\0';
	memcpy(known, hex + 1, SHA256_HEX);
	t = tool_login_find(line);
	word = t ? return_one(m, t, known, host, inside) : NULL;
	buf_printf(list, "%s %s\n", line, known);
	if (!word)
		return;
	(void)snprintf(text, sizeof(text), "builtin_tools: the login of '%s' %s", line, word);
	monitor_note(m, text);
}

void tools_return(struct monitor *m)
{
	CLEANUP(mem) char *host = malloc(LOGIN_MAX), *inside = malloc(LOGIN_MAX);
	CLEANUP(buf) struct buf list = BUF_INIT(LOGINS_MAX);
	char text[LOGINS_MAX], *at = text, *line;
	ssize_t n = m->store < 0 ? -1 : fd_read_file(m->folder, LOGINS, text, sizeof(text));

	if (n <= 0 || !host || !inside)
		return;
	while ((line = strsep(&at, "\n")))
		return_line(m, line, host, inside, &list);
	explicit_bzero(host, LOGIN_MAX);
	explicit_bzero(inside, LOGIN_MAX);
	(void)monitor_write(m, LOGINS, buf_str(&list), list.len);
}

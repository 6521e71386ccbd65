/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor_tools.c - `builtin_tools`: logins of the caller's own tools, copied into HOME.
 *
 * What enters is a short list of files that hold logins, and of each only the members or lines that
 * are one: no hooks, commands, plugins, MCP servers or settings, which name programs. Nothing is
 * mounted and nothing comes back, so that whatever is done to them inside, the tools on the host
 * read what they read before. Caches are the sandbox's own, in its HOME. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/monitor_internal.h"
#include "daemon/tool_login.h"

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
	n = S_ISREG(st.st_mode) && st.st_size < (off_t)LOGIN_MAX ? pread(fd, text, LOGIN_MAX - 1, 0)
								 : -1;
	if (n < 0)
		return err_set(e, ERR_POLICY, EINVAL,
			       "builtin_tools: '%.200s' is no file of logins", path);
	text[n] = '\0';
	return n;
}

static int bring(struct monitor *m, const struct tool_login *t, const char *inside, struct err *e)
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
	if (n <= 0)
		return (int)n;
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
	for (size_t i = 0; i < l->n; i++) {
		const struct tool_login *t = tool_login_find(l->v[i]);

		if (!t && strstr(l->v[i], ":placeholder"))
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "leave it out, and give the door the credential "
					  "(credentials:)",
					  "builtin_tools '%.60s' is not in this version of brig",
					  l->v[i]);
		if (!t)
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "claude, codex, git, uv, npm, apt or opencode",
					  "builtin_tools: there is no tool '%.60s'", l->v[i]);
		if (t->file && bring(m, t, inside, e) < 0)
			return -e->code;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/client/summon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "proc/host_program.h"

#define READY_FD 3
#define TEXT_MAX 700

/* What brig itself reads: where its folders are, and the ways to other daemons. */
static const char *const passed_on[] = {
	"PATH",
	"HOME",
	"USER",
	"LOGNAME",
	"LANG",
	"LC_ALL",
	"TZ",
	"XDG_STATE_HOME",
	"XDG_RUNTIME_DIR",
	"XDG_CACHE_HOME",
	"XDG_CONFIG_HOME",
	"DBUS_SESSION_BUS_ADDRESS",
	"DOCKER_HOST",
	"CONTAINER_HOST",
	"DOCKER_CONTEXT",
	"DOCKER_CONFIG",
};

static void short_environment(char **out)
{
	size_t n = 0;

	for (char **v = environ; *v; v++)
		for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
			size_t len = strlen(passed_on[i]);

			if (n < ARRAY_LEN(passed_on) && strncmp(*v, passed_on[i], len) == 0 &&
			    (*v)[len] == '=')
				out[n++] = *v;
		}
	out[n] = NULL;
}

static int summon_spawn(int ready, struct err *e)
{
	static const char *const argv[] = { "brigd", "--ready-fd", "3", NULL };
	char *env[ARRAY_LEN(passed_on) + 1];
	pid_t pid;

	short_environment(env);
	return host_start(&(struct host_program){ .program = "/proc/self/exe",
						  .argv = argv,
						  .envp = (const char *const *)env,
						  .fds = &ready,
						  .fd_count = 1,
						  .session = true,
						  .own = true },
			  &pid, NULL, e);
}

/* "1": it is there; else "CODE WHAT" and, in the next line, a hint. */
static int heard(char *text, struct err *e)
{
	char *space = strchr(text, ' '), *line;

	if (text[0] == '1' && !text[1])
		return 0;
	if (!space)
		return err_set(e, ERR_INTERNAL, ECHILD, "it ended at once");
	line = strchr(text, '\n');
	if (line)
		*line = '\0';
	*space = '\0';
	(void)err_set(e, ERR_UNAVAILABLE, str_eq(text, "busy") ? EBUSY : ECHILD, "%s", space + 1);
	if (line)
		(void)err_hint(e, "%s", line + 1);
	return -e->code;
}

int daemon_summon(struct err *e)
{
	CLEANUP(fd) int from = -1;
	char text[TEXT_MAX];
	size_t len = 0;
	int ends[2], to, r;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	from = ends[0];
	to = fcntl(ends[1], F_DUPFD_CLOEXEC, READY_FD + 1); /* dup2 onto itself keeps CLOEXEC */
	(void)fd_close(ends[1]);
	if (to < 0)
		return err_sys(e, "cannot make a pipe");
	r = summon_spawn(to, e);
	(void)fd_close(to);
	if (r < 0)
		return r;
	while (len < sizeof(text) - 1 &&
	       (n = read(from, text + len, sizeof(text) - 1 - len)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
		if (len == 1 && text[0] == '1')
			break;
	}
	text[len] = '\0';
	return heard(text, e);
}

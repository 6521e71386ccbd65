/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_client.c - starts the OpenSSH client, and reads from its words why it gave up. */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend/ssh/ssh.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define LOG_ROOM 8192

/* The folder holds sockets that are as good as a login: ours alone, and not a link. */
int client_folder(const struct backend_plan *p, struct err *e)
{
	char *parent = p->folder ? arena_strdup(p->arena, p->folder) : NULL,
	     *slash = parent ? strrchr(parent, '/') : NULL;
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (!p->folder)
		return 0;
	if (!slash)
		return err_nomem(e);
	*slash = '\0';
	if (mkdir(parent, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make '%s'", parent);
	if (mkdir(p->folder, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make '%s'", p->folder);
	fd = open(p->folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open '%s'", p->folder);
	if (st.st_uid != geteuid() || st.st_mode & 077)
		return err_refuse(e, ERR_POLICY, EPERM, "remove it; brig makes it with mode 0700",
				  "'%s' is not a private folder of yours", p->folder);
	return 0;
}

/* Waits in a process of its own until the leash is let go of, whose other end must be brig's alone:
 * nothing is allocated, and signals stay blocked. */
static _Noreturn void ssh_client_keep(struct host_program h, int leash)
{
	char word;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "brig-guard", 0, 0, 0);
	proc_default_signals();
	if (proc_place_streams(h.streams[0], h.streams[1], h.streams[2]) < 0 || dup2(leash, 3) < 0)
		_exit(125);
	(void)fd_close_range(4, INT32_MAX);
	if (read(3, &word, 1) != 0)
		_exit(0);
	h.streams = (const int[]){ 0, 1, 2 };
	host_become(&h);
}

/* The client closes what it inherits, so its log goes by way of our own list of descriptors. */
static int ssh_client_arguments(const struct backend_plan *p, const struct client_want *w,
				const struct ssh_client *c, const char ***ret, struct err *e)
{
	const char *const tail[] = { "--", p->ssh.host, w->reader, NULL };
	const char *log = arena_printf(p->arena, "/proc/%d/fd/%d", getpid(), c->log);
	size_t n = 0, m = 0;
	const char **v;

	while (p->argv[n])
		n++;
	while (w->more && w->more[m])
		m++;
	v = arena_alloc(p->arena, (n + m + 2 + ARRAY_LEN(tail)) * sizeof(*v));
	if (!v || !log)
		return err_nomem(e);
	*ret = v;
	for (size_t i = 0; i < n; i++)
		*v++ = p->argv[i];
	for (size_t i = 0; i < m; i++)
		*v++ = w->more[i];
	if (c->log >= 0) {
		*v++ = "-E";
		*v++ = log;
	}
	memcpy(v, tail, sizeof(tail));
	return 0;
}

/* The client opens it by way of our list of descriptors, which a process that must not be looked
 * into, such as a monitor, keeps to itself. What it says then is login noise. */
static bool can_log(void)
{
	return geteuid() == 0 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
}

int client_start(const struct backend_plan *p, const struct client_want *w, struct ssh_client *c,
		 struct err *e)
{
	const int streams[] = { w->in, w->out, w->err };
	struct host_program h = {
		.program = p->program, .envp = p->envp, .streams = streams, .session = true
	};
	const char **argv = NULL;

	*c = (struct ssh_client)CLIENT_NONE;
	if (w->leash < 0 && can_log()) {
		c->log = memfd_create("brig-ssh-log", MFD_CLOEXEC);
		if (c->log < 0)
			return err_sys(e, "cannot keep the log of ssh");
	}
	if (ssh_client_arguments(p, w, c, &argv, e) < 0)
		return -e->code;
	h.argv = argv;
	if (w->leash < 0) {
		h.dies_with = SIGKILL;
		return host_start(&h, &c->pid, &c->pidfd, e);
	}
	c->pid = proc_fork(&c->pidfd);
	if (c->pid == 0)
		ssh_client_keep(h, w->leash);
	return c->pid > 0 ? 0 : err_sys(e, "cannot start a process");
}

bool client_ended(const struct ssh_client *c)
{
	return c->pid <= 0 || wait_look(c->pidfd, POLLIN);
}

int client_reap(struct ssh_client *c, bool kill)
{
	siginfo_t info = { 0 };

	if (c->pid <= 0)
		return -1;
	if (kill)
		(void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
		;
	c->pid = -1;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

void client_done(struct ssh_client *c)
{
	(void)client_reap(c, true);
	c->pidfd = fd_close(c->pidfd);
	c->log = fd_close(c->log);
}

static const struct {
	const char *words, *what, *hint; /* both may name the host once */
	enum err_kind kind;
	int code;
} causes[] = {
	{ "IDENTIFICATION HAS CHANGED", "the host key of '%s' is another one than before",
	  "if the host was set up anew: ssh-keygen -R its name, then connect once with ssh",
	  ERR_POLICY, EKEYREJECTED },
	{ "host key is known", "the host key of '%s' is not known",
	  "connect once by hand, compare the key and accept it: ssh %s", ERR_POLICY, EKEYREJECTED },
	{ "ost key verification failed", "the host key of '%s' is not known",
	  "connect once by hand, compare the key and accept it: ssh %s", ERR_POLICY, EKEYREJECTED },
	{ "Permission denied", "'%s' refused the login",
	  "try: ssh -o BatchMode=yes %s true; then look at ssh-add -l and ssh.identity_file",
	  ERR_PERMISSION, EACCES },
	{ "Too many authentication failures", "'%s' refused the login",
	  "name the key: ssh.identity_file, with IdentitiesOnly yes for %s", ERR_PERMISSION,
	  EACCES },
	{ "Could not resolve hostname", "the name of '%s' cannot be resolved",
	  "check ssh.host, or give it a HostName in ~/.ssh/config", ERR_UNAVAILABLE, EHOSTUNREACH },
	{ "Connection refused", "'%s' is not listening",
	  "is sshd running there, and is the port right? try: ssh %s true", ERR_UNAVAILABLE,
	  ECONNREFUSED },
	{ "timed out", "'%s' did not answer in time",
	  "raise ssh.connect_timeout, or try: ssh %s true", ERR_UNAVAILABLE, ETIMEDOUT },
	{ "No route to host", "'%s' cannot be reached", "try: ssh %s true", ERR_UNAVAILABLE,
	  EHOSTUNREACH },
	{ "unreachable", "'%s' cannot be reached", "try: ssh %s true", ERR_UNAVAILABLE,
	  EHOSTUNREACH },
	{ "Bad configuration option", "ssh does not take its configuration for '%s'",
	  "try: ssh -G %s", ERR_CONFIG, EINVAL },
	{ "user config file", "ssh cannot read its configuration file for '%s'",
	  "check ssh.config_file", ERR_CONFIG, ENOENT },
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int ssh_client_say(size_t i, const char *host, struct err *e)
{
	char what[256], hint[200];

	(void)snprintf(what, sizeof(what), causes[i].what, host);
	(void)snprintf(hint, sizeof(hint), causes[i].hint, host);
	(void)err_set(e, causes[i].kind, causes[i].code, "%s", what);
	return err_hint(e, "%s", hint);
}
#pragma GCC diagnostic pop

/* The last line of what it said, without the control characters. */
static const char *last_line(char *text)
{
	char *at;

	for (char *c = text; *c; c++)
		if (*c != '\n' && (*c < 32 || *c == 127))
			*c = ' ';
	for (size_t n = strlen(text); n && strchr("\n ", text[n - 1]); n--)
		text[n - 1] = '\0';
	at = strrchr(text, '\n');
	return at ? at + 1 : text;
}

/* The client ends before its log begins when the caller has no name. Only asked for an explanation:
 * names may also come from elsewhere. */
static bool has_name(uid_t uid)
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd one, *line = NULL;
	char text[1024];

	while (f && fgetpwent_r(f, &one, text, sizeof(text), &line) == 0 && line->pw_uid != uid)
		line = NULL;
	if (f)
		(void)fclose(f);
	return !f || line;
}

int client_explain(const struct backend_plan *p, const struct ssh_client *c, bool before,
		   struct err *e)
{
	const char *host = p->ssh.host;
	char text[LOG_ROOM];
	ssize_t n = c->log >= 0 ? pread(c->log, text, sizeof(text) - 1, 0) : 0;

	text[n > 0 ? n : 0] = '\0';
	for (size_t i = 0; before && i < ARRAY_LEN(causes); i++)
		if (strstr(text, causes[i].words))
			return ssh_client_say(i, host, e);
	if (before && !text[0] && !has_name(getuid()))
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOENT,
			"give it a line in /etc/passwd, or run brig as a user who has one",
			"ssh does not serve uid %u, which has no name here", getuid());
	if (before) {
		(void)err_set(e, ERR_UNAVAILABLE, EIO, "cannot run anything on '%.60s': %.160s",
			      host, text[0] ? last_line(text) : "it closed the connection");
		return err_hint(e, "try: ssh %.60s true", host);
	}
	return err_refuse(e, ERR_UNAVAILABLE, ECONNRESET,
			  "what ran there is ended as soon as its sshd sees the loss",
			  "the connection to '%.60s' was lost%s%.160s", host, text[0] ? ": " : "",
			  last_line(text));
}

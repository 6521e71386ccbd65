/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_ask.c - Slurm's programs, asked something.
 *
 * They get a short environment of ours: what the caller has set for srun or sbatch (SRUN_*,
 * SBATCH_*, SLURM_*) would be options that nobody wrote into brig's settings. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/slurm/slurm.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "proc/spawn.h"

#define WORDS_ROOM 512

static const char *const passed[] = {
	"HOME", "PATH", "USER", "LOGNAME", "KRB5CCNAME", "SLURM_CONF"
};

const char **slurm_environment(struct arena *a)
{
	const char **v = arena_alloc(a, (ARRAY_LEN(passed) + 2) * sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; v && i < ARRAY_LEN(passed); i++) {
		const char *value = getenv(passed[i]);

		if (value && !(v[n++] = arena_printf(a, "%s=%s", passed[i], value)))
			return NULL;
	}
	if (v)
		v[n] = "LC_ALL=C.UTF-8";
	return v;
}

int slurm_program(struct arena *a, const char *name, const char **ret, struct err *e)
{
	const char *path = getenv("PATH");

	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		const char *at;

		n = strcspn(path, ":");
		at = arena_printf(a, "%.*s/%s", (int)n, path, name);
		if (!at)
			return err_nomem(e);
		if (path[0] == '/' && access(at, X_OK) == 0) {
			*ret = at;
			return 0;
		}
	}
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
			  "apt install slurm-client, and give it the cluster's slurm.conf",
			  "no Slurm on this machine: there is no '%s'", name);
}

static _Noreturn void become(const struct backend_plan *p, const char *const *argv, int in, int out,
			     int err)
{
	proc_default_signals();
	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (proc_place_streams(in, out, err) < 0)
		_exit(125);
	(void)fd_close_range(3, INT32_MAX);
	proc_unblock_signals();
	(void)execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)p->envp);
	_exit(127);
}

/* The last line that it wrote, without control characters. */
static void last_words(int log, char *out, size_t room)
{
	off_t size = lseek(log, 0, SEEK_END);
	ssize_t n = pread(log, out, room - 1, size > (off_t)room - 1 ? size - (off_t)room + 1 : 0);
	char *at;

	out[n > 0 ? n : 0] = '\0';
	for (char *c = out; *c; c++)
		if (*c != '\n' && (*c < 32 || *c == 127))
			*c = ' ';
	for (size_t k = strlen(out); k && strchr("\n ", out[k - 1]); k--)
		out[k - 1] = '\0';
	at = strrchr(out, '\n');
	if (at)
		memmove(out, at + 1, strlen(at));
}

static int as_input(const char *text)
{
	CLEANUP(fd) int fd = memfd_create("brig-slurm-input", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* 0 once it has closed its output; -ETIMEDOUT */
static int collect(int from, uint64_t until, struct buf *out)
{
	for (;;) {
		struct pollfd p = { .fd = from, .events = POLLIN };
		uint64_t now = clock_us();
		char part[4096];
		ssize_t n;

		if (now >= until)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((until - now) / 1000) + 1) <= 0)
			continue;
		n = read(from, part, sizeof(part));
		if (n == 0 || (n < 0 && errno != EINTR))
			return 0;
		if (n > 0)
			buf_add(out, part, (size_t)n);
	}
}

static int judge(const char *name, int log, int late, int status, struct err *e)
{
	char words[WORDS_ROOM];

	if (late < 0)
		return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT, "brig doctor --backend slurm",
				  "Slurm did not answer '%s' in time", name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	last_words(log, words, sizeof(words));
	return err_refuse(e, ERR_UNAVAILABLE, EIO, "brig doctor --backend slurm", "%s: %.300s",
			  name, words[0] ? words : "failed without a word");
}

int slurm_ask(const struct backend_plan *p, const char *const *argv, const char *in,
	      unsigned seconds, struct buf *out, struct err *e)
{
	CLEANUP(fd)
	int input = in ? as_input(in) : -1, log = memfd_create("brig-slurm-log", MFD_CLOEXEC);
	CLEANUP(fd) int from = -1;
	const char *name = strrchr(argv[0], '/');
	int ends[2], pidfd = -1, late, status;
	pid_t pid;

	if ((in && input < 0) || log < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot ask Slurm");
	from = ends[0];
	pid = proc_fork(&pidfd);
	if (pid == 0)
		become(p, argv, input, ends[1], log);
	(void)fd_close(ends[1]);
	if (pid < 0)
		return err_sys(e, "cannot start a process");
	late = collect(from, clock_us() + (uint64_t)seconds * 1000000, out);
	if (late < 0)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	status = proc_wait(pid);
	(void)fd_close(pidfd);
	return judge(name ? name + 1 : argv[0], log, late, status, e);
}

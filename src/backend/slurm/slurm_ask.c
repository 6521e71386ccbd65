/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_ask.c - Slurm's programs, asked something.
 *
 * They get a short environment of ours: what the caller has set for srun or sbatch (SRUN_*,
 * SBATCH_*, SLURM_*) would be options that are in none of brig's settings. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/slurm/slurm.h"
#include "base/sys/clock.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/host_program.h"
#include "proc/host_find.h"
#include "proc/spawn.h"

#define WORDS_ROOM 512

static const char *const passed[] = { "HOME",       "PATH",       "USER", "LOGNAME",
				      "KRB5CCNAME", "SLURM_CONF", NULL };

int slurm_environment(struct backend_plan *p, struct err *e)
{
	const char *const *own;
	const char **v;
	size_t n = 0;

	if (!p->arena)
		return err_nomem(e);
	if (host_environment(p->arena, passed, environ, p->places, &own, e) < 0)
		return -e->code;
	while (own[n])
		n++;
	v = arena_alloc(p->arena, (n + 2) * sizeof(*v));
	if (!v)
		return err_nomem(e);
	memcpy(v, own, n * sizeof(*v));
	v[n] = "LC_ALL=C.UTF-8";
	p->envp = v;
	return 0;
}

int slurm_program(const struct backend_plan *p, const char *name, const char **ret, struct err *e)
{
	char full[PATH_MAX];
	int r = host_find(name, NULL, p->places, full, e);

	if (r == -ENOENT)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
				  "apt install slurm-client, and give it the cluster's slurm.conf",
				  "no Slurm on this machine: there is no '%s'", name);
	if (r < 0)
		return r;
	*ret = arena_strdup(p->arena, full);
	return *ret ? 0 : err_nomem(e);
}

int slurm_start_program(const struct backend_plan *p, const char *const *argv, const int *streams,
			pid_t *pid, int *pidfd, struct err *e)
{
	const struct host_program h = { .program = argv[0],
					.argv = argv,
					.envp = p->envp,
					.streams = streams,
					.session = true,
					/* srun takes that as a wish to end the job. */
					.dies_with = SIGTERM };

	return host_start(&h, pid, pidfd, e);
}

void slurm_words(int log, bool end, char *out, size_t room)
{
	off_t size = end ? lseek(log, 0, SEEK_END) : 0, from = size - (off_t)room + 1;
	ssize_t n = pread(log, out, room - 1, from > 0 ? from : 0);
	char *at;

	out[n > 0 ? n : 0] = '\0';
	for (char *c = out; *c; c++)
		if (*c != '\n' && (*c < 32 || *c == 127))
			*c = ' ';
	for (size_t k = strlen(out); k && strchr("\n ", out[k - 1]); k--)
		out[k - 1] = '\0';
	/* Of a job the first complaint is the cause, what follows are consequences. */
	at = end ? NULL : strstr(out, "error: ");
	if (at) {
		memmove(out, at + 7, strlen(at + 7) + 1);
		out[strcspn(out, "\n")] = '\0';
		return;
	}
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
static int slurm_ask_collect(int from, uint64_t until, struct buf *out)
{
	char part[4096];
	ssize_t n;

	while ((n = wait_read(from, part, sizeof(part), until)) > 0)
		buf_add(out, part, (size_t)n);
	return n == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

static int slurm_ask_judge(const char *name, int log, int late, int status, struct err *e)
{
	char words[WORDS_ROOM];

	if (late < 0)
		return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT, "brig doctor --backend slurm",
				  "Slurm did not answer '%s' in time", name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	slurm_words(log, true, words, sizeof(words));
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
	int ends[2], pidfd = -1, late, status, r;
	pid_t pid = -1;

	if ((in && input < 0) || log < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot ask Slurm");
	from = ends[0];
	r = slurm_start_program(p, argv, (const int[]){ input, ends[1], log }, &pid, &pidfd, e);
	(void)fd_close(ends[1]);
	if (r < 0)
		return r;
	late = slurm_ask_collect(from, clock_us() + (uint64_t)seconds * 1000000, out);
	if (late < 0)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	status = proc_wait(pid);
	(void)fd_close(pidfd);
	return slurm_ask_judge(name ? name + 1 : argv[0], log, late, status, e);
}

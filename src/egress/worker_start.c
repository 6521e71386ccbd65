/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/worker_start.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/program.h"
#include "proc/spawn.h"

#define HELPER "brig-egress"
#define FIRST 3
#define ABOVE 10 /* copies that are moved down in the child */

static const char *const env_names[] = { "ASAN_OPTIONS", "UBSAN_OPTIONS", WORKER_OWN_ADDRESS };
enum { ENV_MAX = ARRAY_LEN(env_names) + 2 };

struct worker_env {
	char text[ARRAY_LEN(env_names)][PATH_MAX];
};

static void read_environment(struct worker_env *env)
{
	for (size_t i = 0; i < ARRAY_LEN(env_names); i++) {
		const char *value = getenv(env_names[i]);

		if (!value ||
		    snprintf(env->text[i], PATH_MAX, "%s=%s", env_names[i], value) >= PATH_MAX)
			env->text[i][0] = '\0';
	}
}

/* All that the door hears of the caller's environment: what sanitizers are told, and one address.
 * Certificates know no time but UTC, so that no file has to say which zone this is. */
static void environment(const struct worker_env *from, char *to[ENV_MAX])
{
	static char utc[] = "TZ=UTC0";
	size_t n = 0;

	to[n++] = utc;
	for (size_t i = 0; i < ARRAY_LEN(env_names); i++)
		if (from->text[i][0])
			to[n++] = (char *)(uintptr_t)from->text[i];
	to[n] = NULL;
}

/* Between fork and exec: no allocation. */
static _Noreturn void become(const char *path, const struct worker_env *env, const char *word,
			     const int *fds, size_t n)
{
	char *const argv[] = { HELPER, (char *)(uintptr_t)word, NULL };
	char *envp[ENV_MAX];
	size_t at = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)setsid(); /* the terminal's signals are the monitor's to judge */
	proc_default_signals();
	proc_unblock_signals();
	environment(env, envp);
	while (at < n && dup2(fds[at], FIRST + (int)at) == FIRST + (int)at)
		at++;
	if (at == n && fd_close_range(FIRST + (int)n, INT_MAX) == 0)
		(void)execve(path, argv, envp);
	_exit(127);
}

int worker_start(const char *word, const int *fds, size_t n, pid_t *pid, int *pidfd, struct err *e)
{
	int up[WORKER_FDS_MAX] = { -1, -1, -1 };
	struct worker_env env = { 0 };
	char path[PATH_MAX];
	int r = 0;

	if (program_find(HELPER, path, sizeof(path), e) < 0)
		return -e->code;
	read_environment(&env);
	for (size_t i = 0; i < n && r == 0; i++) {
		up[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ABOVE);
		r = up[i] < 0 ? err_sys(e, "cannot make the door's sockets") : 0;
	}
	if (r == 0) {
		*pid = proc_fork(pidfd);
		if (*pid == 0)
			become(path, &env, word, up, n);
		r = *pid < 0 ? err_sys(e, "cannot start the door") : 0;
	}
	for (size_t i = 0; i < WORKER_FDS_MAX; i++)
		(void)fd_close(up[i]);
	return r;
}

void worker_stop(pid_t pid, int pidfd)
{
	siginfo_t info;

	if (pid > 0) {
		/* Ours until it is waited for, so the number can still be used where need be. */
		if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 && errno == ENOSYS)
			(void)kill(pid, SIGKILL);
		while (waitid(P_PID, (id_t)pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
			;
	}
	(void)fd_close(pidfd);
}

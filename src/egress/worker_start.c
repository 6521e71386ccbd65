/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/worker_start.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys/program.h"
#include "base/text/cleanup.h"
#include "proc/host_program.h"

#define HELPER "brig-egress"

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
static void environment(const struct worker_env *from, const char *to[ENV_MAX])
{
	size_t n = 0;

	to[n++] = "TZ=UTC0";
	for (size_t i = 0; i < ARRAY_LEN(env_names); i++)
		if (from->text[i][0])
			to[n++] = from->text[i];
	to[n] = NULL;
}

int worker_start(const char *word, const int *fds, size_t n, pid_t *pid, int *pidfd, struct err *e)
{
	const char *const argv[] = { HELPER, word, NULL };
	const char *envp[ENV_MAX];
	struct worker_env env = { 0 };
	char path[PATH_MAX];
	const struct host_program h = { .program = path,
					.argv = argv,
					.envp = envp,
					.streams = (const int[]){ 0, 1, 2 },
					.fds = fds,
					.fd_count = n,
					.dies_with = SIGKILL,
					/* The terminal's signals are the monitor's to judge. */
					.session = true,
					.own = true };

	if (program_find(HELPER, path, sizeof(path), e) < 0)
		return -e->code;
	read_environment(&env);
	environment(&env, envp);
	return host_start(&h, pid, pidfd, e);
}

void worker_kill(pid_t pid, int pidfd)
{
	/* Ours until it is waited for, so the number can still be used where need be. */
	if (pid > 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 &&
	    errno == ENOSYS)
		(void)kill(pid, SIGKILL);
}

void worker_stop(pid_t pid, int pidfd)
{
	siginfo_t info;

	worker_kill(pid, pidfd);
	if (pid > 0)
		while (waitid(P_PID, (id_t)pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
			;
	(void)fd_close(pidfd);
}

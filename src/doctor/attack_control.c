/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/attack_control.c - the same attacks where they must work, and where they harm nobody.
 *
 * A control is a process of its own with a time limit. What could hurt the machine runs in scratch
 * namespaces: root there, nobody on the host, limits on processes and CPU time, and all of it gone
 * when the first process is. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "doctor/attack.h"
#include "proc/forked.h"

#define CONTROL_US ((uint64_t)3 * 1000 * 1000)
#define SCRATCH                                                                                    \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

struct answer {
	int worked;
	char detail[128];
};

typedef void control_fn(const void *arg, struct answer *ret);

static void limit(int resource, rlim_t value)
{
	const struct rlimit r = { .rlim_cur = value, .rlim_max = value };

	(void)setrlimit((__rlimit_resource_t)resource, &r);
}

/* Root of the new namespaces; false where a capability in them is not to be had. */
static bool become_root(uid_t uid, gid_t gid)
{
	char line[64];

	(void)fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
	(void)snprintf(line, sizeof(line), "0 %u 1\n", uid);
	if (fd_write_file(AT_FDCWD, "/proc/self/uid_map", line) < 0)
		return false;
	(void)snprintf(line, sizeof(line), "0 %u 1\n", gid);
	if (fd_write_file(AT_FDCWD, "/proc/self/gid_map", line) < 0)
		return false;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", 0, NULL) == 0;
}

struct control_job {
	bool scratch;
	control_fn *fn;
	const void *arg;
	uid_t uid; /* who we are on the host: inside, before the map is written, one is nobody */
	gid_t gid;
};

static int control_child(void *arg, int out)
{
	const struct control_job *j = arg;
	struct answer a = { .worked = -1 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, 2);
	if (!j->scratch || become_root(j->uid, j->gid)) {
		if (j->scratch)
			limit(RLIMIT_NPROC, 2 * BOMB_FORKS);
		j->fn(j->arg, &a);
	}
	return fd_write_all(out, &a, sizeof(a)) < 0;
}

/* exit_signal SIGCHLD, so that an ordinary wait serves for both kinds. */
static pid_t start_in_scratch(struct control_job *j, int *line)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = (pid_t)syscall(SYS_clone, SCRATCH | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(control_child(j, ends[1]));
	(void)fd_close(ends[1]);
	*line = ends[0];
	return pid;
}

static int attack_control_run(bool scratch, control_fn *fn, const void *arg, struct answer *ret)
{
	struct control_job j = {
		.scratch = scratch, .fn = fn, .arg = arg, .uid = geteuid(), .gid = getegid()
	};
	const struct forked_want w = {
		.what = "an attack", .line = FORKED_BYTES, .run = control_child, .arg = &j
	};
	CLEANUP(fd) int line = -1;
	struct err unused = { 0 };
	ssize_t n = -1;
	pid_t pid = scratch ? start_in_scratch(&j, &line) : forked_start(&w, &line, &unused);

	if (pid > 0 && wait_fd(line, POLLIN, clock_us() + CONTROL_US) == 0)
		n = read(line, ret, sizeof(*ret));
	if (pid > 0) {
		(void)kill(pid, SIGKILL); /* the first of its pid namespace: all of it ends */
		(void)forked_wait(pid);
	}
	return n == (ssize_t)sizeof(*ret) ? ret->worked : -1;
}

struct trial {
	const struct attack *attack;
	struct bait bait;
};

static void attack_control_try(const void *arg, struct answer *ret)
{
	const struct trial *t = arg;

	ret->worked = t->attack->try(&t->bait, ret->detail, sizeof(ret->detail));
}

int attack_control(const struct attack *a, const struct bait *b, char *detail, size_t n)
{
	struct trial t = { .attack = a, .bait = *b };
	struct answer got = { .worked = -1 };
	int r;

	if (a->control == PLACE_ROOT && geteuid() != 0) {
		(void)snprintf(detail, n, "only root can show it");
		return -1;
	}
	t.bait.token = NULL; /* this is the control: reading anything is enough */
	r = attack_control_run(a->control == PLACE_SCRATCH, attack_control_try, &t, &got);
	(void)snprintf(detail, n, "%s", r < 0 ? "no place to show it here" : got.detail);
	return r;
}

static void fork_many(const void *arg UNUSED, struct answer *ret)
{
	ret->worked = attack_forks() == BOMB_FORKS;
}

int attack_control_forks(void)
{
	struct answer got;

	return attack_control_run(true, fork_many, NULL, &got);
}

static void fill_memory(const void *arg UNUSED, struct answer *ret)
{
	attack_memory();
	ret->worked = 1;
}

int attack_control_memory(void)
{
	struct answer got;

	return attack_control_run(true, fill_memory, NULL, &got);
}

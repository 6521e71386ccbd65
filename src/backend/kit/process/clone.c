/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/clone.c - the new process: how it is made, and what it and its parent do for
 * each other until it can go its own way. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "backend/kit/process/start_internal.h"
#include "base/sys/wait.h"
#include "proc/spawn.h"

#define VFORK_STACK 65536

static int write_maps(const struct backend_job *j, const char *which, const struct id_map *m,
		      size_t n, struct err *e)
{
	uint32_t base = j->ids ? ids_base(j->ids) : 0;
	char path[64], text[256] = "";
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", j->pid, which);
	for (size_t i = 0; i < n; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u %u %u\n",
			       m[i].inside, m[i].outside + base, m[i].count);
	r = fd_write_file(AT_FDCWD, path, text);
	return r < 0 ? err_errno(e, r, "cannot write the %s of the sandbox", which) : 0;
}

/* Returns as fork does. */
static pid_t clone_child(struct backend_job *j, struct box_start *c, uint64_t flags)
{
	int cgroup = cgroup_dirfd(j->cgroup);
	pid_t pid;

	c->cgroup = j->cgroup;
	c->attach = cgroup_is_asked_for(j->cgroup);
	c->wait_go = j->plan->by_root || c->attach;
	pid = proc_clone(flags, cgroup, &j->pidfd);
	if (pid >= 0 || cgroup < 0 || (errno != ENOSYS && errno != E2BIG && errno != EINVAL))
		return pid;
	/* This kernel cannot place it: it is moved before it may go on. */
	c->attach = c->wait_go = true;
	return proc_clone(flags, -1, &j->pidfd);
}

struct clone_entry {
	void (*call)(const struct box_start *);
	const struct box_start *c;
};

static int run_entry(void *arg)
{
	const struct clone_entry *e = arg;

	e->call(e->c);
	return 125;
}

int box_vfork(struct backend_job *j, struct box_start *c, void (*call)(const struct box_start *),
	      struct err *e)
{
	_Alignas(16) char stack[VFORK_STACK];
	struct clone_entry entry = { .call = call, .c = c };
	sigset_t all, old;

	/* Only clone3 can place it, and needs a whole process; one that is moved has to wait. */
	if (cgroup_dirfd(j->cgroup) >= 0 || cgroup_is_asked_for(j->cgroup))
		return box_clone(j, c, 0, call, e);
	c->cgroup = j->cgroup;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	j->pid = clone(run_entry, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_PIDFD,
		       &entry, &j->pidfd);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return j->pid > 0 ? 0 : err_sys(e, "cannot start a process");
}

int box_clone(struct backend_job *j, struct box_start *c, uint64_t flags,
	      void (*entry)(const struct box_start *), struct err *e)
{
	j->pid = clone_child(j, c, flags);
	if (j->pid == 0) {
		entry(c);
		_exit(125);
	}
	if (j->pid > 0)
		return 0;
	(void)err_sys(e, "cannot make the namespaces of a sandbox");
	return box_explain(e);
}

int box_become(const struct box_start *c, struct err *e)
{
	const struct box_plan *p = c->plan;

	if (syscall(SYS_setgroups, 0, NULL) < 0)
		return err_sys(e, "cannot drop supplementary groups");
	if (syscall(SYS_setresgid, p->gid, p->gid, p->gid) < 0 ||
	    syscall(SYS_setresuid, p->uid, p->uid, p->uid) < 0)
		return err_sys(e, "cannot become uid %u inside", p->uid);
	return 0;
}

int box_wait_with(const struct box_start *c, int *fds, size_t *n, struct err *e)
{
	struct supervisor_request go;

	(void)wait_fd(c->inside.control, POLLIN, 0);
	if (fd_recv(c->inside.control, &go, sizeof(go), fds, n) != (ssize_t)sizeof(go))
		return err_set(e, ERR_INTERNAL, EPIPE, "the monitor went away");
	return 0;
}

/* The way into the leaves that were made meanwhile comes along. */
static int join_late(const struct box_start *c, struct err *e)
{
	int fds[CGROUP_ENTRIES_MAX];
	size_t n = ARRAY_LEN(fds);
	bool joined = true;

	if (box_wait_with(c, fds, &n, e) < 0)
		return -e->code;
	for (size_t i = 0; i < n; i++) {
		joined &= write(fds[i], "0", 1) == 1;
		(void)fd_close(fds[i]);
	}
	return joined ? 0 : err_sys(e, "cannot join the control group");
}

int box_wait(const struct box_start *c, struct err *e)
{
	if (!c->wait_go)
		return 0;
	return c->join_late ? join_late(c, e) : inside_wait(&c->inside, e);
}

int box_complete_child(struct backend_job *j, const struct box_start *c, struct err *e)
{
	size_t n = 0;
	int entries[CGROUP_ENTRIES_MAX];
	struct supervisor_request go = { .asks = ASK_GO };
	int r;

	if (c->join_late)
		n = cgroup_entries(j->cgroup, entries);
	if (c->attach && cgroup_attach(j->cgroup, j->pid, e) < 0)
		return err_wrap(e, "control group");
	if (j->plan->by_root &&
	    (write_maps(j, "uid_map", j->plan->uids, j->plan->uid_count, e) < 0 ||
	     write_maps(j, "gid_map", j->plan->gids, j->plan->gid_count, e) < 0))
		return -e->code;
	r = c->wait_go ? fd_send(j->control, &go, sizeof(go), entries, n) : 0;
	return r < 0 ? err_errno(e, r, "the sandbox died at once") : 0;
}

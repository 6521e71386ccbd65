/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/probe.c - can this machine do it, and if not, why not.
 *
 * The probe is a real run of `true` with the layout of every other run, so it cannot say yes where
 * a run would fail. The explanation looks for the known causes one by one and names the one it
 * found. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "backend/kit/process/job.h"
#include "base/sys/clock.h"

#define PROBE_MS 5000

static bool reads(const char *path, const char *value)
{
	char text[32];

	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 && text[0] == value[0] &&
	       (text[1] == '\n' || text[1] == '\0');
}

struct cause {
	const char *path, *value, *what, *hint;
	bool root_too;
};

static const struct cause causes[] = {
	{ "/proc/sys/kernel/unprivileged_userns_clone", "0",
	  "user namespaces are off for ordinary users (kernel.unprivileged_userns_clone = 0)",
	  "sudo sysctl -w kernel.unprivileged_userns_clone=1, or use --backend docker" },
	{ "/proc/sys/user/max_user_namespaces", "0",
	  "user namespaces are off (user.max_user_namespaces = 0)",
	  "sudo sysctl -w user.max_user_namespaces=15000, or use --backend docker", true },
	{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
	  "AppArmor keeps ordinary programs from using user namespaces",
	  "sudo brig doctor --fix installs a profile for brig alone; or use --backend docker" },
};

/* What stops docker as well, and so is no reason to doubt this backend. */
#define OFF(kind, name)                                                                            \
	{                                                                                          \
		"/proc/sys/user/max_" kind "_namespaces", "0",                                     \
			name " namespaces are off (user.max_" kind "_namespaces = 0)",             \
			"sudo sysctl -w user.max_" kind "_namespaces=15000", true                  \
	}

static const struct cause limits[] = {
	OFF("mnt", "mount"), OFF("pid", "process"),   OFF("net", "network"),
	OFF("ipc", "IPC"),   OFF("uts", "host name"), OFF("cgroup", "cgroup"),
};

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

/* The root of a chroot is seldom that of a mount; a container's always is. */
static bool in_chroot(void)
{
	struct statx x;

	return statx(AT_FDCWD, "/", 0, STATX_TYPE, &x) == 0 &&
	       x.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	       !(x.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* What is around brig itself, and no setting of the machine. */
static int explain_around(struct err *e)
{
	if (getenv("BRIG_SANDBOX")) {
		e->kind = ERR_UNAVAILABLE;
		(void)err_wrap(e, "this is inside of a sandbox of brig's, which makes no other");
		return err_hint(e, "run the command as it is: it is contained already; or start "
				   "brig outside");
	}
	if (!in_chroot())
		return 0;
	e->kind = ERR_UNAVAILABLE;
	(void)err_wrap(e, "this is a chroot, where the kernel lets nobody make user namespaces");
	return err_hint(e, "enter it by systemd-nspawn -D, or another way that uses pivot_root");
}

static const struct cause *find_cause(const struct cause *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((geteuid() != 0 || list[i].root_too) && reads(list[i].path, list[i].value))
			return &list[i];
	return NULL;
}

bool box_doubtful(void)
{
	if (find_cause(causes, ARRAY_LEN(causes)))
		return true;
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0; /* somebody put a filter around us */
}

int box_explain(struct err *e)
{
	const struct cause *c;

	if (e->hint[0] || (e->code != EPERM && e->code != EACCES && e->code != ENOSPC &&
			   e->code != EINVAL && e->code != EUSERS && e->code != ENOSYS))
		return -e->code;
	if (explain_around(e) < 0)
		return -e->code;
	c = find_cause(causes, ARRAY_LEN(causes));
	if (!c && e->code == ENOSPC)
		c = find_cause(limits, ARRAY_LEN(limits));
	if (c) {
		e->kind = ERR_UNAVAILABLE;
		(void)err_wrap(e, "%s", c->what);
		return err_hint(e, "%s", c->hint);
	}
	if (in_container() && (e->code == EPERM || e->code == EACCES)) {
		e->kind = ERR_UNAVAILABLE;
		(void)err_wrap(e, "this container does not let brig make namespaces");
		return err_hint(e, "start it with --security-opt seccomp=unconfined --security-opt "
				   "apparmor=unconfined --security-opt systempaths=unconfined");
	}
	if (e->code == EPERM || e->code == EACCES) {
		e->kind = ERR_UNAVAILABLE;
		return err_hint(e, "a filter or security module around brig forbids namespaces; "
				   "see brig doctor");
	}
	return -e->code;
}

static int wait_end(const struct backend *b, struct backend_job *j, int events)
{
	struct pollfd p = { .fd = events, .events = POLLIN };

	while (poll(&p, 1, PROBE_MS) > 0)
		if (b->event(j, false, NULL) == JOB_ENDED)
			return 0;
	return -ETIMEDOUT;
}

static int try_plan(const struct backend *b, struct backend_plan *p, const struct command *c,
		    struct outcome *o, struct isolation *ret, struct err *e)
{
	char id[33];
	struct job_want w = { .command = c, .no_input = true, .id = id, .isolation = ret };
	struct backend_job *j = NULL;
	struct job_io io;

	(void)snprintf(id, sizeof(id), "probe-%d-%llx", getpid(), (unsigned long long)clock_us());
	if (b->start(p, &w, &io, &j, e) < 0)
		return -e->code;
	(void)wait_end(b, j, io.events);
	(void)fd_close(io.out);
	(void)fd_close(io.err);
	(void)fd_close(io.names);
	(void)fd_close(io.agent);
	b->finish(j, o);
	return 0;
}

static int try_run(const struct backend *b, struct spec *s, struct isolation *ret, struct err *e)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct backend_plan *p = NULL;
	int r;

	if (!o)
		return err_nomem(e);
	if (b->plan(s, &p, NULL, e) < 0)
		return -e->code;
	r = try_plan(b, p, &s->command, o, ret, e);
	(void)b->plan_free(p);
	if (r < 0)
		return r;
	if (o->kind != OUTCOME_EXITED || o->exit_code != 0)
		return err_set(e, ERR_UNAVAILABLE, EIO, "a trial run of 'true' ended as %s",
			       outcome_name(o->kind));
	return 0;
}

int box_probe(const struct backend *b, struct isolation *ret, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	char *const argv[] = { (char[]){ "true" }, NULL };
	struct place at = { .cwd = "/" };

	if (!s)
		return -e->code;
	if (spec_set_argv(s, 1, argv, e) < 0 || spec_check(s, &at, e) < 0)
		return -e->code;
	return try_run(b, s, ret, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/probe.c - can this machine do it, and if not, why not.
 *
 * The probe is a real run of `true` with the layout of every other run, so it cannot say yes where
 * a run would fail. It costs as much as one, so what it has shown is noted in the state folder and
 * holds for as long as everything that could change the answer is what it was. The explanation
 * looks for the known causes one by one and names the one it found. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kit/process/job.h"
#include "base/bytes/sha256.h"
#include "base/files/draft.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/spawn.h"

#define PROBE_MS 5000
#define PROBED "probed" /* in the state folder: see add_machine */

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

static const struct cause *find_cause(const struct cause *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((geteuid() != 0 || list[i].root_too) && reads(list[i].path, list[i].value))
			return &list[i];
	return NULL;
}

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

/* Does a security module hold this program to a profile? */
static bool confined(void)
{
	char text[256];
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/attr/current", text, sizeof(text));

	return n > 0 && !str_starts(text, "unconfined");
}

/* Does the kernel refuse a user namespace, and nothing else? */
static bool user_namespace_refused(void)
{
	pid_t child = proc_clone(CLONE_NEWUSER, -1, NULL);

	if (child == 0)
		_exit(0);
	if (child < 0)
		return errno == EPERM;
	(void)proc_wait(child);
	return false;
}

/* The root of a chroot is seldom that of a mount; a container's always is. Of one that is, nothing
 * tells but that the kernel refuses what no filter, module or missing id could be the reason for.
 */
static bool in_chroot(void)
{
	char ids[16];
	struct statx x;

	if (statx(AT_FDCWD, "/", 0, STATX_TYPE, &x) == 0 &&
	    x.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	    !(x.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return true;
	return !find_cause(causes, ARRAY_LEN(causes)) && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0 &&
	       !confined() && fd_read_file(AT_FDCWD, "/proc/self/uid_map", ids, sizeof(ids)) > 0 &&
	       user_namespace_refused();
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

static bool box_doubtful(void)
{
	if (find_cause(causes, ARRAY_LEN(causes)))
		return true;
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0; /* somebody put a filter around us */
}

/* ---- what a trial has shown ---- */

static void add_text(struct sha256 *h, const char *path)
{
	char text[4096];
	ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));

	sha256_add(h, path, strlen(path) + 1);
	if (n > 0)
		sha256_add(h, text, (size_t)n);
}

/* A namespace's times are those of the last look at it. */
static void add_identity(struct sha256 *h, const char *path, bool dated)
{
	struct stat st = { 0 };

	(void)stat(path, &st);
	sha256_add(h, &st.st_dev, sizeof(st.st_dev));
	sha256_add(h, &st.st_ino, sizeof(st.st_ino));
	if (dated)
		sha256_add(h, &st.st_ctim, sizeof(st.st_ctim));
}

/* Our rights and filters: the lines from CapInh to Seccomp_filters. */
static void add_rights(struct sha256 *h)
{
	char text[4096];
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/status", text, sizeof(text));
	const char *from = n > 0 ? strstr(text, "\nCapInh:") : NULL;
	const char *to = from ? strstr(from, "\nSpeculation") : NULL;

	if (from)
		sha256_add(h, from, to ? (size_t)(to - from) : strlen(from));
}

/* Of this boot, container, user, program, rights and settings. */
static void add_machine(char sum[SHA256_HEX])
{
	static const char *const files[] = { "/proc/sys/kernel/random/boot_id",
					     "/proc/sys/kernel/osrelease",
					     "/proc/self/attr/current" };
	const uid_t ids[] = { getuid(), geteuid(), getgid(), getegid() };
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, BRIG_VERSION, sizeof(BRIG_VERSION));
	sha256_add(&h, ids, sizeof(ids));
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		add_text(&h, files[i]);
	add_identity(&h, "/proc/self/ns/user", false);
	add_identity(&h, "/proc/self/ns/mnt", false);
	add_identity(&h, "/proc/self/exe", true);
	for (size_t i = 0; i < ARRAY_LEN(causes); i++)
		add_text(&h, causes[i].path);
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		add_text(&h, limits[i].path);
	add_rights(&h);
	sha256_end(&h, digest);
	sha256_hex(digest, sum);
}

bool box_tried(void)
{
	CLEANUP(fd) int dir = -1;
	char sum[SHA256_HEX], noted[SHA256_HEX];

	if (!box_doubtful())
		return true;
	dir = state_find(".", NULL, 0);
	if (dir < 0 || fd_read_file(dir, PROBED, noted, sizeof(noted)) != SHA256_HEX - 1)
		return false;
	add_machine(sum);
	return memcmp(sum, noted, sizeof(noted)) == 0;
}

/* Without the note the next run makes the trial again. */
void box_note_trial(void)
{
	struct err unused = { 0 };
	CLEANUP(fd) int dir = state_open(".", NULL, 0, &unused);
	CLEANUP(buf) struct buf text = BUF_INIT(SHA256_HEX);
	char sum[SHA256_HEX];

	add_machine(sum);
	buf_puts(&text, sum);
	if (dir >= 0)
		(void)draft_write(dir, PROBED, &text, 0600, false);
}

static void box_forget_trial(void)
{
	CLEANUP(fd) int dir = state_find(".", NULL, 0);

	if (dir >= 0)
		(void)unlinkat(dir, PROBED, 0);
}

int box_explain(struct err *e)
{
	const struct cause *c;

	if (e->hint[0] || (e->code != EPERM && e->code != EACCES && e->code != ENOSPC &&
			   e->code != EINVAL && e->code != EUSERS && e->code != ENOSYS))
		return -e->code;
	box_forget_trial();
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
	while (wait_fd(events, POLLIN, clock_after(PROBE_MS)) == 0)
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

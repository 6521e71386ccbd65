/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_cgroup.c - the cgroup module on made-up trees: plain directories and files stand for
 * the hierarchies. The kernel fills a new leaf with control files, so a test makes the leaf it
 * expects beforehand, with the files its host would offer. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/kit/limits/cgroup.h"
#include "backend/kit/limits/cgroup_internal.h"

#define ALL (CGROUP_HAS_MEMORY | CGROUP_HAS_CPUS | CGROUP_HAS_SHARES | CGROUP_HAS_PIDS)
#define OTHERS "1\n2\n" /* processes that are not us */

enum { NOBODY = 65534 };

static const struct cgroup_limits limits = {
	.memory = 64 << 20, .cpus = 1500, .cpu_shares = 512, .pids = 100
};

struct tree {
	char root[64];
	char mountinfo[96], self[96];
	struct cgroup_host host;
};

static char *path_in(const struct tree *t, const char *rel)
{
	static char path[PATH_MAX]; /* used before the next call */

	(void)snprintf(path, sizeof(path), "%s/%s", t->root, rel);
	return path;
}

/* Writes a file, with the directories above it. */
static void put(const struct tree *t, const char *rel, const char *text)
{
	char *path = path_in(t, rel);
	int fd;

	for (char *p = path + strlen(t->root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
	(void)close(fd);
}

static void put_all(const struct tree *t, const char *dir, const char *const *files)
{
	for (; *files; files++) {
		char rel[256];

		(void)snprintf(rel, sizeof(rel), "%s/%s", dir, *files);
		put(t, rel, "");
	}
}

static const char *text_of(const struct tree *t, const char *rel)
{
	static char text[512];
	int fd = open(path_in(t, rel), O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(fd >= 0 && n >= 0);
	(void)close(fd);
	text[n] = '\0';
	return text;
}

/* `mounts` holds %s for the root of the tree, up to four times. */
static void describe(struct tree *t, const char *mounts, const char *self)
{
	char text[4096];
	const char *r = t->root;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
	(void)snprintf(text, sizeof(text), mounts, r, r, r, r);
#pragma GCC diagnostic pop
	put(t, "mountinfo", text);
	put(t, "self", self);
}

/* A v2 cgroup that is not the root: what may be handed down, what is, and who is in it. */
static void group(const struct tree *t, const char *dir, const char *offered, const char *handed,
		  const char *procs)
{
	const char *const name[] = { "cgroup.controllers", "cgroup.subtree_control", "cgroup.procs",
				     "cgroup.type" };
	const char *const text[] = { offered, handed, procs, "domain\n" };

	for (size_t i = 0; i < ARRAY_LEN(name); i++) {
		char rel[256];

		(void)snprintf(rel, sizeof(rel), "%s/%s", dir, name[i]);
		put(t, rel, text[i]);
	}
}

static const char *const v2_files[] = { "cgroup.procs",
					"cgroup.kill",
					"cgroup.freeze",
					"memory.max",
					"memory.events",
					"memory.swap.max",
					"memory.peak",
					"memory.oom.group",
					"pids.max",
					"pids.events",
					"cpu.max",
					"cpu.weight",
					NULL };
static const char *const v1_memory[] = { "tasks",
					 "cgroup.procs",
					 "cgroup.event_control",
					 "memory.limit_in_bytes",
					 "memory.oom_control",
					 "memory.swappiness",
					 NULL };
static const char *const v1_pids[] = { "tasks", "cgroup.procs", "pids.max", "pids.events", NULL };
static const char *const v1_cpu[] = { "tasks", "cgroup.procs", "cpu.shares", "cpu.cfs_quota_us",
				      NULL };
static const char *const v1_devices[] = { "tasks", "cgroup.procs", "devices.allow", "devices.deny",
					  NULL };
static const char *const v1_freezer[] = { "tasks", "cgroup.procs", "freezer.state", NULL };

static int make_tree(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	(void)snprintf(t->root, sizeof(t->root), "/tmp/brig-cgroup-XXXXXX");
	if (!mkdtemp(t->root) || chmod(t->root, 0755) < 0)
		return -1;
	(void)snprintf(t->mountinfo, sizeof(t->mountinfo), "%s/mountinfo", t->root);
	(void)snprintf(t->self, sizeof(t->self), "%s/self", t->root);
	t->host = (struct cgroup_host){ .mountinfo = t->mountinfo, .self_cgroup = t->self };
	*state = t;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_tree(void **state)
{
	struct tree *t = *state;
	int r = nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	free(t);
	return r;
}

static struct cgroup *make(const struct tree *t, const char *id, const struct cgroup_limits *l)
{
	struct cgroup *c = NULL;
	struct err e = { 0 };

	if (cgroup_new(&t->host, id, l, &c, &e) < 0)
		fail_msg("cgroup_new: %s", e.what);
	return c;
}

/* Exit status of fn in a child, as an ordinary user when we are root. */
static int as_user(const struct tree *t, int (*fn)(const struct tree *))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(99);
		_exit(fn(t));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define V2_AT_CG "30 20 0:26 / %s/cg rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

static void v2_goes_up_to_the_first_parent_that_hands_the_controllers_down(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;

	describe(t, V2_AT_CG, "0::/a.slice/b.scope\n");
	group(t, "cg", "cpu memory pids", "cpu memory pids", "");
	group(t, "cg/a.slice", "cpuset cpu io memory pids\n", "cpu memory pids\n", "");
	group(t, "cg/a.slice/b.scope", "cpu memory pids\n", "\n", OTHERS);
	put_all(t, "cg/a.slice/brig-x1", v2_files);
	put(t, "cg/a.slice/brig-x1/memory.events", "low 0\nmax 9\noom 3\noom_kill 2\n");
	put(t, "cg/a.slice/brig-x1/pids.events", "max 7\n");
	put(t, "cg/a.slice/brig-x1/memory.peak", "67108864\n");
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_string_equal(cgroup_version(c), "v2");
	assert_int_equal(cgroup_enforces(c), ALL);
	assert_true(cgroup_dirfd(c) >= 0);
	assert_string_equal(text_of(t, "cg/a.slice/brig-x1/memory.max"), "67108864");
	assert_string_equal(text_of(t, "cg/a.slice/brig-x1/memory.swap.max"), "0");
	assert_string_equal(text_of(t, "cg/a.slice/brig-x1/memory.oom.group"), "1");
	assert_string_equal(text_of(t, "cg/a.slice/brig-x1/pids.max"), "101");
	assert_string_equal(text_of(t, "cg/a.slice/brig-x1/cpu.max"), "150000 100000");
	assert_string_equal(text_of(t, "cg/a.slice/brig-x1/cpu.weight"), "50");
	assert_string_equal(text_of(t, "cg/a.slice/cgroup.subtree_control"), "cpu memory pids\n");
	assert_string_equal(text_of(t, "cg/a.slice/b.scope/cgroup.subtree_control"), "\n");
}

static void at_the_usual_place_mountinfo_is_not_asked(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;
	char usual[96];

	(void)snprintf(usual, sizeof(usual), "%s/usual", t->root);
	t->host.usual = usual;
	describe(t, "nothing is said here\n",
		 "4:memory:/a\n3:cpu,cpuset:/\n2:pids:/\n0::/b.scope\n");
	put(t, "usual/memory/a/cgroup.procs", "");
	put(t, "usual/pids/cgroup.procs", "");
	put(t, "usual/unified/b.scope/cgroup.procs", OTHERS);
	put_all(t, "usual/memory/a/brig-x1", v1_memory);
	put_all(t, "usual/pids/brig-x1", v1_pids);
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS);
	assert_string_equal(text_of(t, "usual/memory/a/brig-x1/memory.limit_in_bytes"), "67108864");
	assert_string_equal(text_of(t, "usual/pids/brig-x1/pids.max"), "101");
}

static void what_is_not_at_the_usual_place_mountinfo_tells(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;
	char usual[96];

	/* As in a container whose cgroup is the root of the mount. */
	(void)snprintf(usual, sizeof(usual), "%s/cg", t->root);
	t->host.usual = usual;
	describe(t, "30 1 0:26 /a %s/cg rw - cgroup2 cgroup2 rw\n", "0::/a/b\n");
	group(t, "cg", "cpu memory pids", "cpu memory pids", "");
	group(t, "cg/b", "", "", OTHERS);
	put_all(t, "cg/brig-x1", v2_files);
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_int_equal(cgroup_enforces(c), ALL);
	assert_string_equal(text_of(t, "cg/brig-x1/pids.max"), "101");
}

static void events_are_read_and_kill_uses_the_kill_file(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;
	struct cgroup_events ev;
	struct err e;

	describe(t, V2_AT_CG, "0::/\n");
	group(t, "cg", "memory pids", "memory pids", "");
	put_all(t, "cg/brig-x1", v2_files);
	put(t, "cg/brig-x1/memory.events",
	    "low 0\noom 3\noom_group_kill 5\noom_kill 2\nsock_throttled 0\n");
	put(t, "cg/brig-x1/pids.events", "max 7\n");
	put(t, "cg/brig-x1/memory.peak", "99999999999999999999999\n");
	c = make(t, "x1", &limits);
	cgroup_events(c, &ev);
	assert_int_equal(ev.oom, 2);
	assert_int_equal(ev.pids_max, 7);
	assert_true(ev.memory_peak == UINT64_MAX);
	assert_int_equal(cgroup_attach(c, 4321, &e), 0);
	assert_string_equal(text_of(t, "cg/brig-x1/cgroup.procs"), "4321");
	assert_int_equal(cgroup_kill(c), 0);
	assert_string_equal(text_of(t, "cg/brig-x1/cgroup.kill"), "1");
}

static void controllers_are_switched_on_where_nobody_is_in_the_way(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;

	describe(t, V2_AT_CG, "0::/a/b\n");
	group(t, "cg/a", "cpu memory pids", "", "");
	group(t, "cg/a/b", "", "", OTHERS);
	put_all(t, "cg/a/brig-x1", v2_files);
	c = make(t, "x1", &limits);
	assert_int_equal(cgroup_enforces(c), ALL);
	assert_string_equal(text_of(t, "cg/a/cgroup.subtree_control"), "+memory+pids+cpu");
}

static void alone_in_its_cgroup_the_monitor_steps_aside_and_comes_back(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	char self[24];

	(void)snprintf(self, sizeof(self), "%d\n", (int)getpid());
	describe(t, V2_AT_CG, "0::/a/run.scope\n");
	group(t, "cg/a", "cpu memory pids", "cpu memory pids", "");
	group(t, "cg/a/run.scope", "memory pids", "", self);
	put_all(t, "cg/a/run.scope/brig-x1", v2_files);
	put(t, "cg/a/run.scope/brig-monitor-x1/cgroup.procs", "");
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS);
	assert_string_equal(text_of(t, "cg/a/run.scope/brig-monitor-x1/cgroup.procs"), "0");
	assert_string_equal(text_of(t, "cg/a/run.scope/cgroup.subtree_control"), "+memory+pids");
	put(t, "cg/a/run.scope/cgroup.subtree_control", "");
	put(t, "cg/a/run.scope/cgroup.procs", "");
	(void)cgroup_free(c);
	assert_string_equal(text_of(t, "cg/a/run.scope/cgroup.subtree_control"), "-memory-pids");
	assert_string_equal(text_of(t, "cg/a/run.scope/cgroup.procs"), "0");
}

static int expect_ancestor(const struct tree *t)
{
	CLEANUP(cgroup) struct cgroup *c = NULL;
	struct err e;

	if (cgroup_new(&t->host, "x1", &limits, &c, &e) < 0)
		return 1;
	return cgroup_enforces(c) == ALL ? 0 : 2;
}

static void give_to_user(const struct tree *t, const char *rel, mode_t mode)
{
	assert_int_equal(chmod(path_in(t, rel), mode), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(path_in(t, rel), NOBODY, NOBODY), 0);
}

static void an_undelegated_cgroup_below_a_delegated_one_uses_the_latter(void **state)
{
	struct tree *t = *state;

	describe(t, V2_AT_CG, "0::/user/mid/own\n");
	group(t, "cg/user", "cpu memory pids", "cpu memory pids", "");
	group(t, "cg/user/mid", "cpu memory pids", "cpu memory pids", "");
	group(t, "cg/user/mid/own", "cpu memory pids", "", OTHERS);
	put_all(t, "cg/user/brig-x1", v2_files);
	give_to_user(t, "cg/user", 0755);
	give_to_user(t, "cg/user/cgroup.procs", 0644);
	give_to_user(t, "cg/user/brig-x1", 0700);
	for (size_t i = 0; v2_files[i]; i++) {
		char rel[64];

		(void)snprintf(rel, sizeof(rel), "cg/user/brig-x1/%s", v2_files[i]);
		give_to_user(t, rel, 0644);
	}
	/* As an ordinary user of this test these would be ours: take the right to write away. */
	assert_int_equal(chmod(path_in(t, "cg/user/mid"), 0555), 0);
	assert_int_equal(chmod(path_in(t, "cg/user/mid/own"), 0555), 0);
	assert_int_equal(as_user(t, expect_ancestor), 0);
	assert_int_equal(chmod(path_in(t, "cg/user/mid"), 0755), 0);
	assert_int_equal(chmod(path_in(t, "cg/user/mid/own"), 0755), 0);
}

static int expect_nothing(const struct tree *t)
{
	struct cgroup *c = (void *)(uintptr_t)1;
	struct err e;

	if (cgroup_new(&t->host, "x1", &limits, &c, &e) < 0)
		return 1;
	return c ? 2 : 0;
}

static void nothing_writable_is_no_error_and_no_cgroup(void **state)
{
	struct tree *t = *state;

	describe(t,
		 V2_AT_CG "31 20 0:27 / %s/mem rw - cgroup cgroup rw,memory\n"
			  "32 20 0:28 / %s/pids rw - cgroup cgroup rw,pids\n",
		 "2:memory:/m\n3:pids:/\n0::/a\n");
	group(t, "cg/a", "cpu memory pids", "cpu memory pids", "");
	put_all(t, "mem/m", v1_memory);
	put_all(t, "pids", v1_pids);
	assert_int_equal(chmod(path_in(t, "cg/a"), 0555), 0);
	assert_int_equal(chmod(path_in(t, "cg"), 0555), 0);
	assert_int_equal(chmod(path_in(t, "mem/m"), 0555), 0);
	assert_int_equal(chmod(path_in(t, "pids"), 0555), 0);
	assert_int_equal(as_user(t, expect_nothing), 0);
	assert_int_equal(chmod(path_in(t, "cg/a"), 0755), 0);
	assert_int_equal(chmod(path_in(t, "cg"), 0755), 0);
	assert_int_equal(chmod(path_in(t, "mem/m"), 0755), 0);
	assert_int_equal(chmod(path_in(t, "pids"), 0755), 0);
}

static void a_host_without_cgroups_is_no_error_and_no_cgroup(void **state)
{
	struct tree *t = *state;
	struct cgroup_events ev;

	assert_int_equal(expect_nothing(t), 0); /* neither file exists */
	describe(t, "", "");
	assert_int_equal(expect_nothing(t), 0);
	describe(t, V2_AT_CG, "0::/\n");
	assert_int_equal(expect_nothing(t), 0); /* mounted where there is nothing */
	put(t, "cg/cgroup.procs", "");
	assert_int_equal(expect_nothing(t), 0); /* a new directory has no control files */
	assert_int_equal(access(path_in(t, "cg/brig-x1"), F_OK), -1);
	assert_string_equal(cgroup_version(NULL), "none");
	assert_int_equal(cgroup_enforces(NULL), 0);
	assert_int_equal(cgroup_dirfd(NULL), -1);
	assert_int_equal(cgroup_oom_fd(NULL), -1);
	assert_int_equal(cgroup_join(NULL), 0);
	assert_int_equal(cgroup_kill(NULL), -ESRCH);
	cgroup_events(NULL, &ev);
	assert_int_equal(ev.oom + ev.pids_max + ev.memory_peak, 0);
}

static void hybrid_takes_limits_from_v1_and_the_kill_file_from_v2(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;

	describe(t,
		 "31 20 0:27 / %s/mem rw - cgroup cgroup rw,memory\n"
		 "32 20 0:28 / %s/pids rw - cgroup cgroup rw,pids\n"
		 "33 20 0:29 / %s/frz rw - cgroup cgroup rw,freezer\n" V2_AT_CG,
		 "5:freezer:/\n2:memory:/m/n\n3:pids:/\n1:name=systemd:/x\n0::/\n");
	put(t, "cg/cgroup.procs", OTHERS);
	put_all(t, "cg/brig-x1", (const char *const[]){ "cgroup.procs", "cgroup.kill", NULL });
	put_all(t, "mem/m/n/brig-x1", v1_memory);
	put_all(t, "pids/brig-x1", v1_pids);
	put_all(t, "frz", v1_freezer);
	put(t, "mem/m/n/brig-x1/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_string_equal(cgroup_version(c), "hybrid");
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS);
	assert_string_equal(text_of(t, "mem/m/n/brig-x1/memory.limit_in_bytes"), "67108864");
	assert_string_equal(text_of(t, "mem/m/n/brig-x1/memory.swappiness"), "0");
	assert_string_equal(text_of(t, "pids/brig-x1/pids.max"), "101");
	assert_int_equal(access(path_in(t, "frz/brig-x1"), F_OK), -1); /* not needed to kill */
	assert_int_equal(cgroup_kill(c), 0);
	assert_string_equal(text_of(t, "cg/brig-x1/cgroup.kill"), "1");
	assert_int_equal(cgroup_join(c), 0);
	assert_string_equal(text_of(t, "mem/m/n/brig-x1/tasks"), "0");
	assert_string_equal(text_of(t, "pids/brig-x1/tasks"), "0");
}

static void controllers_mounted_together_share_one_leaf(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;

	describe(t,
		 "31 20 0:27 / %s/all rw - cgroup cgroup rw,xattr,pids,memory\n"
		 "32 20 0:28 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
		 "33 20 0:29 / %s/dev rw - cgroup cgroup rw,devices\n",
		 "4:cpuacct,cpu:/c\n5:devices:/\n2:memory,pids:/m:n\n");
	put_all(t, "all/m:n/brig-x1", v1_memory);
	put_all(t, "all/m:n/brig-x1", v1_pids);
	put_all(t, "cpu/c/brig-x1", v1_cpu);
	put_all(t, "dev/brig-x1", v1_devices);
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_string_equal(cgroup_version(c), "v1");
	assert_int_equal(cgroup_enforces(c), ALL);
	assert_int_equal(c->v1_count, 3);
	assert_int_equal(cgroup_dirfd(c), -1);
	assert_string_equal(text_of(t, "cpu/c/brig-x1/cpu.cfs_quota_us"), "150000");
	assert_string_equal(text_of(t, "cpu/c/brig-x1/cpu.shares"), "512");
	assert_string_equal(text_of(t, "dev/brig-x1/devices.deny"), "a");
	assert_string_equal(text_of(t, "dev/brig-x1/devices.allow"),
			    "c 1:3 rwmc 1:5 rwmc 1:7 rwmc 1:8 rwmc 1:9 rwmc 5:0 rwmc 5:2 rwm"
			    "c 136:* rwm");
	assert_int_equal(cgroup_join(c), 0);
	assert_string_equal(text_of(t, "all/m:n/brig-x1/tasks"), "0");
}

static void a_leaf_that_takes_nothing_is_not_kept(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;
	struct cgroup_limits plain = { .memory = 1 << 20, .cpu_shares = 1024 };

	describe(t,
		 "31 20 0:27 / %s/mem rw - cgroup cgroup rw,memory\n"
		 "32 20 0:28 / %s/cpu rw - cgroup cgroup rw,cpu\n"
		 "33 20 0:29 / %s/dev rw - cgroup cgroup rw,devices\n"
		 "34 20 0:30 / %s/pids rw - cgroup cgroup rw,pids\n",
		 "4:cpu:/\n5:devices:/\n2:memory:/\n3:pids:/\n");
	put_all(t, "mem/brig-x1", v1_memory);
	put(t, "cpu/tasks", "");
	put(t, "pids/tasks", "");
	put(t, "dev/brig-x1/tasks", "");
	put(t, "dev/brig-x1/cgroup.procs", "");
	c = make(t, "x1", &plain);
	assert_int_equal(c->v1_count, 1);
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_MEMORY | CGROUP_HAS_SHARES);
	assert_int_equal(access(path_in(t, "cpu/brig-x1"), F_OK), -1);
	assert_int_equal(access(path_in(t, "pids/brig-x1"), F_OK), -1);
}

static void a_mount_is_followed_from_its_own_root(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;

	group(t, "cg/in", "memory pids", "memory pids", "");
	put_all(t, "cg/in/brig-x1", v2_files);
	describe(t, "30 20 0:26 /docker/abc %s/cg rw - cgroup2 cgroup rw\n", "0::/docker/abc/in\n");
	c = make(t, "x1", &limits);
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS);
	(void)cgroup_free(c);
	describe(t, "30 20 0:26 /docker/ab %s/cg rw - cgroup2 cgroup rw\n", "0::/docker/abc/in\n");
	assert_int_equal(expect_nothing(t), 0); /* a prefix of the name is not a parent */
	describe(t, "30 20 0:26 /.. %s/cg rw - cgroup2 cgroup rw\n", "0::/in\n");
	assert_int_equal(expect_nothing(t), 0); /* mounted outside our namespace */
	describe(t, "30 20 0:26 / %s/cg rw - cgroup2 cgroup rw\n", "0::/../in\n");
	assert_int_equal(expect_nothing(t), 0); /* we are outside it ourselves */
	describe(t, "30 20 0:26 / %s/cg rw - cgroup2 cgroup rw\n", "0::/in (deleted)\n");
	assert_int_equal(expect_nothing(t), 0);
	describe(t, "30 20 0:26 / %s/cg ro - cgroup2 cgroup rw\n", "0::/in\n");
	assert_int_equal(expect_nothing(t), 0);
	describe(t, "30 20 0:26 / %s/cg rw - cgroup2 cgroup ro\n", "0::/in\n");
	assert_int_equal(expect_nothing(t), 0);
	describe(
		t,
		"30 20 0:26 /other %s/cg rw - cgroup2 a rw\n30 20 0:26 / %s/cg rw - cgroup2 a rw\n",
		"0::/in\n");
	c = make(t, "x1", &limits);
	assert_non_null(c);
	(void)cgroup_free(c);
}

static void odd_lines_of_mountinfo_harm_nobody(void **state)
{
	struct tree *t = *state;
	char *text = calloc(1, 60000), *at = text;
	struct cgroup *c;

	group(t, "a b\\c/own", "memory pids", "memory pids", "");
	put_all(t, "a b\\c/own/brig-x1", v2_files);
	describe(t, "", "\n:\n::\n0:\nx::/own\n7::\n0::own\n9:memory:\n0::/own\n12:pids");
	at += sprintf(at, "\n \n- cgroup2\n1 2 3 - cgroup2 x rw\n1 2 3 / /x rw - cgroup2\n");
	at += sprintf(at, "1 2 3 / relative rw - cgroup2 x rw\n1 2 3 / /x rw - cgroup2 x\n");
	at += sprintf(at, "1 2 3 / /nonexistent rw - cgroup2x x rw\n");
	at += sprintf(at, "5 2 0:1 / /");
	memset(at, 'x', 8000);
	at += 8000;
	at += sprintf(at, " rw - cgroup2 cgroup2 rw\n6 2 0:1 / /l rw - overlay o lowerdir=");
	memset(at, 'y', 40000); /* as long as several buffers */
	at += 40000;
	at += sprintf(at, "\n9 2 0:1 / %s/a\\040b\\134c rw shared:1 master:2 - cgroup2  rw\n",
		      t->root);
	(void)sprintf(at, "6 2 0:1 / /z rw - tmpfs tmpfs rw,memory\n7 2 0:1 / /trunc rw");
	put(t, "mountinfo", text);
	free(text);
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS);
	(void)cgroup_free(c);
}

static void a_hierarchy_with_cpuset_in_it_is_left_alone(void **state)
{
	struct tree *t = *state;

	describe(t, "31 20 0:27 / %s/cpu rw - cgroup cgroup rw,cpuset,cpu\n", "2:cpuset,cpu:/\n");
	put_all(t, "cpu/brig-x1", v1_cpu);
	assert_int_equal(expect_nothing(t), 0);
}

static void a_missing_controller_costs_only_its_own_limit(void **state)
{
	struct tree *t = *state;
	CLEANUP(cgroup) struct cgroup *c = NULL;

	describe(t, V2_AT_CG, "0::/a/b\n");
	group(t, "cg", "pids", "pids", "");
	group(t, "cg/a", "pids", "", "");
	group(t, "cg/a/b", "", "", OTHERS);
	put_all(t, "cg/a/brig-x1", (const char *const[]){ "cgroup.procs", "pids.max", NULL });
	c = make(t, "x1", &limits);
	assert_non_null(c);
	assert_int_equal(cgroup_enforces(c), CGROUP_HAS_PIDS);
	assert_string_equal(text_of(t, "cg/a/cgroup.subtree_control"), "+pids");
	assert_int_equal(cgroup_oom_fd(c), -1);
}

static void weights_and_quotas_stay_within_the_kernels_bounds(void **state)
{
	static const struct {
		uint64_t shares, cpus;
		const char *weight, *quota;
	} rows[] = {
		{ 2, 1, "1", "1000 100000" },
		{ 100, 10, "9", "1000 100000" },
		{ 2048, 100, "200", "10000 100000" },
		{ 262144, 64000, "10000", "6400000 100000" },
	};
	struct tree *t = *state;

	describe(t, V2_AT_CG, "0::/\n");
	group(t, "cg", "cpu", "cpu", "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cgroup_limits l = { .cpu_shares = rows[i].shares, .cpus = rows[i].cpus };
		struct cgroup *c;

		put_all(t, "cg/brig-x1", v2_files);
		c = make(t, "x1", &l);
		assert_string_equal(text_of(t, "cg/brig-x1/cpu.weight"), rows[i].weight);
		assert_string_equal(text_of(t, "cg/brig-x1/cpu.max"), rows[i].quota);
		(void)cgroup_free(c);
	}
}

static void a_leaf_in_use_is_never_taken_over(void **state)
{
	struct tree *t = *state;
	struct cgroup *c = NULL, *other = NULL;
	struct err e = { 0 };

	describe(t, V2_AT_CG, "0::/\n");
	group(t, "cg", "memory pids", "memory pids", "");
	put_all(t, "cg/brig-x1", v2_files);
	c = make(t, "x1", &limits);
	assert_int_equal(cgroup_new(&t->host, "x1", &limits, &other, &e), -EEXIST);
	assert_non_null(strstr(e.what, "brig-x1"));
	(void)cgroup_free(c);
	put(t, "cg/brig-x1/cgroup.procs", OTHERS);
	assert_int_equal(cgroup_new(&t->host, "x1", &limits, &other, &e), -EEXIST);
	assert_null(other);
}

static void an_id_that_is_not_a_plain_word_is_refused(void **state)
{
	static const char *const bad[] = { "", ".", "a.b", "../x", "a/b", "a b", "a\n" };
	char id[CG_ID_MAX + 2];
	struct tree *t = *state;
	struct cgroup *c = NULL;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(cgroup_new(&t->host, bad[i], &limits, &c, &e), -EINVAL);
	memset(id, 'a', sizeof(id));
	id[sizeof(id) - 1] = '\0';
	assert_int_equal(cgroup_new(&t->host, id, &limits, &c, &e), -EINVAL);
	id[CG_ID_MAX] = '\0';
	assert_int_equal(cgroup_new(&t->host, id, &limits, &c, &e), 0);
}

static void a_sweep_takes_abandoned_leaves_only(void **state)
{
	struct tree *t = *state;
	int held;

	describe(t, V2_AT_CG "31 20 0:27 / %s/mem rw - cgroup cgroup rw,memory\n",
		 "2:memory:/\n0::/a/b\n");
	put(t, "cg/a/b/cgroup.procs", OTHERS);
	put(t, "mem/tasks", "");
	put(t, "mem/brig-file", "");
	put(t, "cg/a/brig-busy/cgroup.procs",
	    OTHERS); /* not empty: the rmdir fails, as EBUSY does */
	assert_int_equal(mkdir(path_in(t, "cg/a/brig-dead"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "cg/a/b/brig-monitor-dead"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "mem/brig-dead"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "mem/brig-held"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "mem/brig-daemon.service"), 0755), 0);
	assert_int_equal(mkdir(path_in(t, "mem/other"), 0755), 0);
	held = open(path_in(t, "mem/brig-held"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(held, LOCK_EX), 0);
	assert_int_equal(cgroup_sweep(&t->host, NULL, -1, NULL, &(bool){ false }), 3);
	assert_int_equal(access(path_in(t, "mem/brig-held"), F_OK), 0);
	assert_int_equal(access(path_in(t, "mem/brig-daemon.service"), F_OK), 0);
	assert_int_equal(access(path_in(t, "mem/other"), F_OK), 0);
	assert_int_equal(access(path_in(t, "cg/a/brig-busy"), F_OK), 0);
	assert_int_equal(close(held), 0);
	assert_int_equal(cgroup_sweep(&t->host, NULL, -1, NULL, &(bool){ false }), 1);
	assert_int_equal(cgroup_sweep(&t->host, NULL, -1, NULL, &(bool){ false }), 0);
}

static void a_sweep_finds_what_lies_beside_the_leaf_of_a_run(void **state)
{
	struct tree *t = *state;
	struct cgroup *c;
	struct cg_map *places;

	describe(t, V2_AT_CG, "0::/a/b\n");
	group(t, "cg", "pids", "pids", "");
	group(t, "cg/a", "pids", "", "");
	group(t, "cg/a/b", "", "", OTHERS);
	put_all(t, "cg/a/brig-x1", (const char *const[]){ "cgroup.procs", "pids.max", NULL });
	c = make(t, "x1", &limits);
	places = cgroup_places(c);
	assert_non_null(places);
	assert_null(cgroup_places(c));
	(void)cgroup_free(c);
	/* Below, beside and above where it was. */
	assert_int_equal(mkdir(path_in(t, "cg/a/b/brig-dead"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "cg/a/brig-dead"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "cg/brig-dead"), 0700), 0);
	assert_int_equal(cgroup_sweep(NULL, places, -1, NULL, &(bool){ false }), 3);
	assert_int_equal(cgroup_sweep(NULL, places, -1, NULL, &(bool){ false }), 0);
	/* Nobody looks at the leaf of the run itself; but what lies beside it is found. */
	assert_int_equal(mkdir(path_in(t, "cg/a/b/brig-x2"), 0700), 0);
	assert_int_equal(cgroup_sweep(NULL, places, -1, "x2", &(bool){ false }), 0);
	assert_int_equal(mkdir(path_in(t, "cg/a/b/brig-dead"), 0700), 0);
	assert_true(cgroup_sweep(NULL, places, -1, "x2", &(bool){ false }) >= 1);
	assert_int_equal(access(path_in(t, "cg/a/b/brig-dead"), F_OK), -1);
	assert_int_equal(cgroup_sweep(NULL, places, -1, "other", &(bool){ false }), 0);
	free(places);
}

/* Beside runs that begin all the time: what is being made is left alone, whoever else is dead. */
static void a_sweep_needs_no_quiet_moment(void **state)
{
	struct tree *t = *state;
	int claims, claim;

	describe(t, V2_AT_CG, "0::/a/b\n");
	put(t, "cg/a/b/cgroup.procs", OTHERS);
	put(t, "claims", "");
	claims = open(path_in(t, "claims"), O_RDWR | O_CLOEXEC);
	claim = cgroup_claim(open(path_in(t, "claims"), O_RDWR | O_CLOEXEC), "made");
	assert_true(claims >= 0 && claim >= 0);
	assert_int_equal(mkdir(path_in(t, "cg/a/brig-made"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "cg/a/b/brig-monitor-made"), 0700), 0);
	assert_int_equal(mkdir(path_in(t, "cg/a/brig-dead"), 0700), 0);
	assert_int_equal(cgroup_sweep(&t->host, NULL, claims, NULL, &(bool){ false }), 1);
	assert_int_equal(access(path_in(t, "cg/a/brig-made"), F_OK), 0);
	assert_int_equal(access(path_in(t, "cg/a/b/brig-monitor-made"), F_OK), 0);
	(void)close(claim); /* it died before it had locked them */
	assert_int_equal(cgroup_sweep(&t->host, NULL, claims, NULL, &(bool){ false }), 2);
	(void)close(claims);
}

/* More than a sweep looks at: all that live are asked in turn, so that every dead one is met. */
static void a_dead_leaf_among_many_is_swept_in_turn(void **state)
{
	enum { MANY = 100 };
	struct tree *t = *state;
	int held[MANY], claims, sweeps = 0;
	char name[32];

	describe(t, V2_AT_CG, "0::/a/b\n");
	put(t, "cg/a/b/cgroup.procs", OTHERS);
	put(t, "claims", "");
	claims = open(path_in(t, "claims"), O_RDWR | O_CLOEXEC);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "cg/a/brig-%d", i);
		assert_int_equal(mkdir(path_in(t, name), 0700), 0);
		held[i] = open(path_in(t, name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(flock(held[i], LOCK_EX), 0);
	}
	for (int dead = 0; dead < MANY; dead += MANY / 4) {
		(void)close(held[dead]);
		for (sweeps = 0; sweeps < MANY / 8; sweeps++)
			if (cgroup_sweep(&t->host, NULL, claims, NULL, &(bool){ false }))
				break;
		assert_true(sweeps < MANY / 8);
	}
	for (int i = 0; i < MANY; i++)
		if (i % (MANY / 4))
			(void)close(held[i]);
	(void)close(claims);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON_TREE(v2_goes_up_to_the_first_parent_that_hands_the_controllers_down),
		ON_TREE(at_the_usual_place_mountinfo_is_not_asked),
		ON_TREE(what_is_not_at_the_usual_place_mountinfo_tells),
		ON_TREE(events_are_read_and_kill_uses_the_kill_file),
		ON_TREE(controllers_are_switched_on_where_nobody_is_in_the_way),
		ON_TREE(alone_in_its_cgroup_the_monitor_steps_aside_and_comes_back),
		ON_TREE(an_undelegated_cgroup_below_a_delegated_one_uses_the_latter),
		ON_TREE(nothing_writable_is_no_error_and_no_cgroup),
		ON_TREE(a_host_without_cgroups_is_no_error_and_no_cgroup),
		ON_TREE(hybrid_takes_limits_from_v1_and_the_kill_file_from_v2),
		ON_TREE(controllers_mounted_together_share_one_leaf),
		ON_TREE(a_leaf_that_takes_nothing_is_not_kept),
		ON_TREE(a_mount_is_followed_from_its_own_root),
		ON_TREE(odd_lines_of_mountinfo_harm_nobody),
		ON_TREE(a_hierarchy_with_cpuset_in_it_is_left_alone),
		ON_TREE(a_missing_controller_costs_only_its_own_limit),
		ON_TREE(weights_and_quotas_stay_within_the_kernels_bounds),
		ON_TREE(a_leaf_in_use_is_never_taken_over),
		ON_TREE(an_id_that_is_not_a_plain_word_is_refused),
		ON_TREE(a_sweep_takes_abandoned_leaves_only),
		ON_TREE(a_sweep_finds_what_lies_beside_the_leaf_of_a_run),
		ON_TREE(a_sweep_needs_no_quiet_moment),
		ON_TREE(a_dead_leaf_among_many_is_swept_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_kernel.c - what the kernel gives, and what this user may have of it. */
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "backend/kit/limits/cgroup.h"
#include "backend/kit/process/job.h"
#include "base/text/str.h"
#include "doctor/machine.h"
#include "proc/confine.h"

void check_sandbox(struct machine *m, struct finding *f)
{
	if (!machine_works(m))
		say_error(f, CHECK_FAIL, &m->trouble);
	else if (m->choice.passed_count)
		finding_say(f, CHECK_PASS, "a trial run on %s worked; auto passed over %s: %.200s",
			    m->choice.backend->name, m->choice.passed[0].backend->name,
			    m->choice.passed[0].why.what);
	else
		finding_say(f, CHECK_PASS, "a trial run on %s with the layout of every run worked",
			    m->choice.backend->name);
}

void check_user_namespaces(struct machine *m, struct finding *f)
{
	long long most = setting("/proc/sys/user/max_user_namespaces");
	bool exempt = geteuid() != 0 && apparmor_state("/") == APPARMOR_RESTRICTS;
	struct err e = { 0 };

	if (machine_userns(m) < 0) {
		errno = -m->userns;
		(void)err_sys(&e, "a user namespace cannot be made or used");
		machine_explain(&e);
		say_error(f, CHECK_FAIL, &e);
	} else if (exempt) {
		finding_say(f, CHECK_PASS, "AppArmor restricts them and exempts brig");
	} else if (most >= 0) {
		finding_say(f, CHECK_PASS, "can be made (at most %lld)", most);
	} else {
		finding_say(f, CHECK_PASS, "can be made");
	}
}

void check_procfs(struct machine *m, struct finding *f)
{
	int r;

	if (machine_userns(m) < 0) {
		finding_say(f, CHECK_SKIP, "not reached: no user namespace");
		return;
	}
	r = machine_procfs();
	if (r == 0) {
		finding_say(f, CHECK_PASS, "a fresh /proc can be mounted");
		return;
	}
	finding_say(f, CHECK_FAIL, "a fresh /proc cannot be mounted: %s", strerrordesc_np(-r));
	finding_hint(f, "inside a container: start it with --security-opt "
			"systempaths=unconfined");
}

static bool has_action(uint32_t action)
{
	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void check_seccomp(struct machine *m UNUSED, struct finding *f)
{
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0 || !has_action(SECCOMP_RET_ERRNO) ||
	    !has_action(SECCOMP_RET_KILL_PROCESS)) {
		finding_say(f, CHECK_FAIL, "the kernel cannot filter system calls as brig needs");
		finding_hint(f, "start a kernel with CONFIG_SECCOMP_FILTER=y, Linux 4.14 or newer");
		return;
	}
	finding_say(f, CHECK_PASS, "filters can be loaded%s",
		    under_filter() ? "; brig itself is under somebody else's" : "");
}

void check_landlock(struct machine *m UNUSED, struct finding *f)
{
	int abi = (errno = 0, landlock_abi());

	if (abi == 0 && errno == EOPNOTSUPP) {
		finding_say(f, CHECK_WARN, "switched off at boot: mounts alone protect files");
		finding_hint(f, "add 'landlock' to the list lsm= on the kernel's command line");
	} else if (abi == 0) {
		finding_say(f, CHECK_WARN, "the kernel has none: mounts alone protect files");
		finding_hint(f, "start Linux 6.2 or newer with CONFIG_SECURITY_LANDLOCK=y");
	} else if (abi < 3) {
		finding_say(f, CHECK_WARN,
			    "ABI %d: cutting files short%s is left to the mounts alone", abi,
			    abi < 2 ? " and moving them between folders" : "");
		finding_hint(f, "start Linux 6.2 or newer");
	} else {
		finding_say(f, CHECK_PASS, "ABI %d%s", abi,
			    abi < 6 ? "; sockets and signals are kept apart by namespaces alone"
				    : "");
	}
}

/* What the machine has, whether or not we may use it. */
static const char *cgroup_layout(void)
{
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs) < 0)
		return "none";
	if (fs.f_type == CGROUP2_SUPER_MAGIC)
		return "v2";
	if (statfs("/sys/fs/cgroup/unified", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
		return "hybrid";
	return access("/sys/fs/cgroup/memory", F_OK) == 0 ||
			       access("/sys/fs/cgroup/pids", F_OK) == 0
		       ? "v1"
		       : "none";
}

static void hint_cgroups(struct finding *f, const char *layout)
{
	static const char scope[] = "systemd-run --user --scope -p Delegate=yes brig run ...";

	if (access("/run/systemd/system", F_OK) < 0)
		finding_hint(f, "start brig as root, or in a cgroup that is delegated to you");
	else if (str_eq(layout, "v2"))
		finding_hint(f, "%s", scope);
	else
		finding_hint(f, "boot with systemd.unified_cgroup_hierarchy=1, then: %s", scope);
}

/* "memory by cgroup, cpus by affinity (whole ones)": as the backend chooses when it starts a run.
 * Returns how many are not the cgroup's. */
static size_t list_enforcers(unsigned has, struct buf *out)
{
	const enum enforcer pids = box_counts_processes() ? ENFORCER_RLIMIT : ENFORCER_WATCH;
	const struct {
		unsigned bit;
		enum limit limit;
		enum enforcer otherwise;
		const char *note;
	} rows[] = {
		{ CGROUP_HAS_MEMORY, LIMIT_MEMORY, ENFORCER_PARTIAL, "" },
		{ CGROUP_HAS_PIDS, LIMIT_PIDS, pids, "" },
		{ CGROUP_HAS_CPUS, LIMIT_CPUS, ENFORCER_AFFINITY, " (whole ones)" },
		{ CGROUP_HAS_SHARES, LIMIT_CPU_SHARES, ENFORCER_NICE, " (only below 1024)" },
	};
	size_t missing = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool own = has & rows[i].bit;

		missing += !own;
		buf_printf(out, "%s%s by %s%s", i ? ", " : "", limit_name(rows[i].limit),
			   enforcer_name(own ? ENFORCER_CGROUP : rows[i].otherwise),
			   own ? "" : rows[i].note);
	}
	return missing;
}

/* As a run asks for a limit that is written; *e says why a manager that is there does not. */
static bool manager_makes_groups(const struct cgroup_limits *want, const char *id,
				 struct finding *f, struct err *e)
{
	CLEANUP(cgroup) struct cgroup *c = NULL;
	CLEANUP(buf) struct buf list = BUF_INIT(512);

	if (cgroup_ask(&(struct cgroup_host){ 0 }, id, want, &c, e) < 0 || !c ||
	    list_enforcers(cgroup_enforces(c), &list) > 0)
		return false;
	finding_say(f, CHECK_PASS,
		    "%s, made by this user's service manager for a limit that is written: %s",
		    cgroup_version(c), buf_str(&list));
	return true;
}

void check_cgroups(struct machine *m UNUSED, struct finding *f)
{
	const struct cgroup_limits want = {
		.memory = 64U << 20, .cpus = 500, .cpu_shares = 512, .pids = 16
	};
	CLEANUP(cgroup) struct cgroup *c = NULL;
	CLEANUP(buf) struct buf list = BUF_INIT(512);
	const char *layout = cgroup_layout();
	struct err e = { 0 };
	char id[32];

	(void)snprintf(id, sizeof(id), "doctor-%d", (int)getpid());
	if (cgroup_new(&(struct cgroup_host){ 0 }, id, &want, &c, &e) < 0) {
		say_error(f, CHECK_FAIL, &e);
		finding_hint(f, "look for too many cgroups: cat /proc/cgroups");
		return;
	}
	if (list_enforcers(cgroup_enforces(c), &list) == 0) {
		finding_say(f, CHECK_PASS, "%s: %s", cgroup_version(c), buf_str(&list));
		return;
	}
	if (manager_makes_groups(&want, id, f, &e))
		return;
	finding_say(f, CHECK_WARN, "%s%s: %s%s%s", c ? cgroup_version(c) : layout,
		    c || str_eq(layout, "none") ? "" : ", none writable", buf_str(&list),
		    e.code ? "; " : "", e.what);
	hint_cgroups(f, layout);
}

void check_mount_api(struct machine *m UNUSED, struct finding *f)
{
	/* A bad descriptor is what a kernel that knows the call complains about. */
	bool absent = syscall(SYS_mount_setattr, -1, "", AT_EMPTY_PATH, NULL, 0) < 0 &&
		      (errno == ENOSYS || errno == EPERM);

	if (!absent) {
		finding_say(f, CHECK_PASS, "mount_setattr and its family");
		return;
	}
	finding_say(f, CHECK_WARN,
		    "the classic calls alone: started by root, brig needs a "
		    "workspace that an ordinary user owns");
	finding_hint(f, "start Linux 5.12 or newer; in a container, allow mount_setattr");
}

void check_kernel(struct machine *m UNUSED, struct finding *f)
{
	char *end, *at;
	struct utsname u;
	unsigned long major, minor;

	if (uname(&u) < 0)
		return;
	major = strtoul(u.release, &end, 10);
	minor = *end == '.' ? strtoul(end + 1, &at, 10) : 0;
	/* Distributions carry features back: the number alone never fails. */
	if (major < 5 || (major == 5 && minor < 13)) {
		finding_say(f, CHECK_WARN,
			    "%s %s, older than 5.13: some layers have a fallback only", u.sysname,
			    u.release);
		finding_hint(f, "start Linux 5.13 or newer, best 6.12 or newer");
		return;
	}
	finding_say(f, CHECK_PASS, "%s %s %s", u.sysname, u.release, u.machine);
}

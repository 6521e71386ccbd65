/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/doctor.c - the checks, from essential to optional, and how they are shown.
 *
 * A check prefers trying to reading: the trial run and the trial namespaces below are real. Reading
 * a setting only serves to name the cause of what failed. */
#include "doctor/doctor.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "backend/kit/cgroup.h"
#include "backend/kit/ids.h"
#include "backend/kit/job.h"
#include "backend/kit/landlock.h"
#include "base/fd.h"
#include "base/num.h"
#include "base/state.h"
#include "base/str.h"

/* What the checks learn from one another; each part is found out once, when first asked for. */
struct machine {
	bool probed, works;
	struct isolation isolation; /* of the trial run, when it worked */
	struct err trouble;         /* of the trial run, when not */
	bool tried;
	int userns; /* 0, or -errno of a trial user namespace */
};

static const char *const status_names[] = {
	[CHECK_PASS] = "pass",
	[CHECK_WARN] = "warn",
	[CHECK_FAIL] = "fail",
	[CHECK_SKIP] = "skip",
};
static_assert(ARRAY_LEN(status_names) == CHECK_STATUSES, "a word for every status");

/* ---- findings ---- */

/* A path may hold any byte; on a line of ours it may not break the line or drive a terminal. */
static void one_line(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void finding_say(struct finding *f, enum check_status status, const char *fmt, ...)
{
	va_list ap;

	f->status = status;
	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	one_line(f->detail);
}

void finding_hint(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->hint, sizeof(f->hint), fmt, ap);
	va_end(ap);
	one_line(f->hint);
}

static void say_error(struct finding *f, enum check_status status, const struct err *e)
{
	finding_say(f, status, "%s", e->what);
	finding_hint(f, "%s", e->hint);
}

/* ---- trials ---- */

/* A filter that somebody else put around us: a container's, or another sandbox's. */
static bool under_filter(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

/* The backend knows the causes that are written somewhere; this adds the ones that are not. */
static void explain(struct err *e)
{
	(void)box_explain(e);
	if (e->hint[0])
		return;
	if (e->code == ENOSPC || e->code == EUSERS)
		(void)err_hint(e, "sudo sysctl -w user.max_user_namespaces=15000");
	else if (e->code == EINVAL)
		(void)err_hint(e, "start a kernel with CONFIG_USER_NS=y, or use --backend docker");
	else if ((e->code == EPERM || e->code == EACCES || e->code == ENOSYS) && under_filter()) {
		(void)err_wrap(e, "a system-call filter around brig forbids it");
		(void)err_hint(e, "start brig outside the sandbox or container it is in, or use "
				  "--backend docker");
	} else if (e->code == EPERM || e->code == EACCES) {
		(void)err_hint(e, "look for the refusal in: sudo dmesg | grep -i denied; or use "
				  "--backend docker");
	}
}

static int step_private(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* The kernel refuses this where parts of the /proc we see are covered, as in a container. */
static int step_proc(void)
{
	if (step_private() < 0)
		return -1;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* Runs one step in new user, mount and pid namespaces, which vanish with it: 0 or -errno. The step
 * matters: AppArmor lets the namespace be made and takes its capabilities away. */
static int in_namespaces(int (*step)(void))
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, NULL,
				   NULL, NULL, NULL);
	siginfo_t info = { 0 };

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(step() < 0 ? errno : 0);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return info.si_code == CLD_EXITED ? -info.si_status : -EIO;
}

static int try_userns(struct machine *m)
{
	if (!m->tried)
		m->userns = in_namespaces(step_private);
	m->tried = true;
	return m->userns;
}

/* The trial run has explained what it could; where it met the very refusal that a bare namespace
 * meets, the cause is the same. */
static void explain_probe(struct machine *m)
{
	struct err *e = &m->trouble;

	if (!e->hint[0] && try_userns(m) == -e->code)
		explain(e);
	if (!e->hint[0])
		(void)err_hint(e, "a check that failed below names the layer; if none did, report "
				  "what brig doctor --json says");
}

static bool sandbox_works(struct machine *m)
{
	if (!m->probed) {
		m->works = backend_native.probe(NULL, &m->isolation, &m->trouble) == 0;
		m->probed = true;
		if (!m->works)
			explain_probe(m);
	}
	return m->works;
}

/* The number in a file of /proc/sys, or -1 where there is none. */
static long long setting(const char *path)
{
	char text[32];
	uint64_t v;

	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 1)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return num_count(text, &v) < 0 || v > LLONG_MAX ? -1 : (long long)v;
}

/* ---- the checks ---- */

static void check_sandbox(struct machine *m, struct finding *f)
{
	if (sandbox_works(m))
		finding_say(f, CHECK_PASS, "a trial run with the layout of every run worked");
	else
		say_error(f, CHECK_FAIL, &m->trouble);
}

static void check_user_namespaces(struct machine *m, struct finding *f)
{
	long long most = setting("/proc/sys/user/max_user_namespaces");
	bool exempt = geteuid() != 0 && apparmor_state("/") == APPARMOR_RESTRICTS;
	struct err e = { 0 };

	if (try_userns(m) < 0) {
		errno = -m->userns;
		(void)err_sys(&e, "a user namespace cannot be made or used");
		explain(&e);
		say_error(f, CHECK_FAIL, &e);
	} else if (exempt) {
		finding_say(f, CHECK_PASS, "AppArmor restricts them and exempts brig");
	} else if (most >= 0) {
		finding_say(f, CHECK_PASS, "can be made (at most %lld)", most);
	} else {
		finding_say(f, CHECK_PASS, "can be made");
	}
}

static void check_procfs(struct machine *m, struct finding *f)
{
	int r;

	if (try_userns(m) < 0) {
		finding_say(f, CHECK_SKIP, "not reached: no user namespace");
		return;
	}
	r = in_namespaces(step_proc);
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

static void check_seccomp(struct machine *m, struct finding *f)
{
	(void)m;
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0 || !has_action(SECCOMP_RET_ERRNO) ||
	    !has_action(SECCOMP_RET_KILL_PROCESS)) {
		finding_say(f, CHECK_FAIL, "the kernel cannot filter system calls as brig needs");
		finding_hint(f, "start a kernel with CONFIG_SECCOMP_FILTER=y, Linux 4.14 or newer");
		return;
	}
	finding_say(f, CHECK_PASS, "filters can be loaded%s",
		    under_filter() ? "; brig itself is under somebody else's" : "");
}

static void check_landlock(struct machine *m, struct finding *f)
{
	int abi = (errno = 0, landlock_abi());

	(void)m;
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
	static const struct {
		unsigned bit;
		enum limit limit;
		enum enforcer otherwise;
		const char *note;
	} rows[] = {
		{ CGROUP_HAS_MEMORY, LIMIT_MEMORY, ENFORCER_WATCH, "" },
		{ CGROUP_HAS_PIDS, LIMIT_PIDS, ENFORCER_WATCH, "" },
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

static void check_cgroups(struct machine *m, struct finding *f)
{
	const struct cgroup_limits want = {
		.memory = 64U << 20, .cpus = 500, .cpu_shares = 512, .pids = 16
	};
	CLEANUP(cgroup) struct cgroup *c = NULL;
	CLEANUP(buf) struct buf list = BUF_INIT(512);
	const char *layout = cgroup_layout();
	struct err e = { 0 };
	char id[32];

	(void)m;
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
	finding_say(f, CHECK_WARN, "%s%s: %s", c ? cgroup_version(c) : layout,
		    c || str_eq(layout, "none") ? "" : ", none writable", buf_str(&list));
	hint_cgroups(f, layout);
}

static void check_mount_api(struct machine *m, struct finding *f)
{
	/* A bad descriptor is what a kernel that knows the call complains about. */
	bool absent = syscall(SYS_mount_setattr, -1, "", AT_EMPTY_PATH, NULL, 0) < 0 &&
		      (errno == ENOSYS || errno == EPERM);

	(void)m;
	if (!absent) {
		finding_say(f, CHECK_PASS, "mount_setattr and its family");
		return;
	}
	finding_say(f, CHECK_WARN,
		    "the classic calls alone: started by root, brig needs a "
		    "workspace that an ordinary user owns");
	finding_hint(f, "start Linux 5.12 or newer; in a container, allow mount_setattr");
}

static void check_identity(struct machine *m, struct finding *f)
{
	CLEANUP(ids) struct ids *ids = NULL;
	struct err e = { 0 };

	if (geteuid() == 0 && ids_take(&ids, &e) < 0) {
		if (!e.hint[0])
			(void)err_hint(&e, "start brig as an ordinary user");
		say_error(f, CHECK_FAIL, &e);
		return;
	}
	if (!sandbox_works(m)) {
		finding_say(f, CHECK_SKIP, "not reached: the trial run failed");
		return;
	}
	if (ids)
		finding_say(f, CHECK_PASS, "you are root; inside you are uid %u, on the host %u",
			    m->isolation.uid_inside, ids_base(ids) + m->isolation.uid_inside);
	else
		finding_say(f, CHECK_PASS, "you are uid %u; inside you are uid %u", geteuid(),
			    m->isolation.uid_inside);
}

static void check_idmap(struct machine *m, struct finding *f)
{
	CLEANUP(ids) struct ids *ids = NULL;
	CLEANUP(fd) int mapped = -1;
	char cwd[PATH_MAX];
	struct prepared_tree t = { .src = cwd };
	struct err e = { 0 };
	struct stat st;

	if (geteuid() != 0 || try_userns(m) < 0) {
		finding_say(f, CHECK_SKIP, "%s",
			    geteuid() != 0 ? "only runs started by root need it"
					   : "not reached: no user namespace");
		return;
	}
	if (!getcwd(cwd, sizeof(cwd)) || stat(cwd, &st) < 0 || ids_take(&ids, &e) < 0) {
		finding_say(f, CHECK_SKIP, "the current folder or a range of ids is missing");
		return;
	}
	t.ident = ident_of(&st);
	t.disk_uid = st.st_uid;
	t.disk_gid = st.st_gid;
	mapped = ids_map_tree(&t, ids_base(ids) + 1000, ids_base(ids) + 1000, &e);
	if (mapped >= 0) {
		finding_say(f, CHECK_PASS, "'%s' can be shown to a sandbox with its owner", cwd);
		return;
	}
	finding_say(f, CHECK_WARN, "root's files in '%s' cannot be shown with their owner: %s", cwd,
		    strerrordesc_np(e.code));
	finding_hint(f, "work on ext4, xfs or btrfs and Linux 5.12 or newer, or start brig as the "
			"folder's owner");
}

/* Where base/state would look first; it is not asked itself because it makes what it does not
 * find. */
static bool state_first(char *path, size_t n)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (xdg && xdg[0] == '/')
		return snprintf(path, n, "%s/brig", xdg) < (int)n;
	if (geteuid() == 0)
		return snprintf(path, n, "/var/lib/brig") < (int)n;
	return home && home[0] == '/' && snprintf(path, n, "%s/.local/state/brig", home) < (int)n;
}

/* Could the folder be made: is what there is of the path above it ours to write to? */
static bool can_make(const char *path)
{
	char part[PATH_MAX];
	char *slash;

	(void)snprintf(part, sizeof(part), "%s", path);
	while ((slash = strrchr(part, '/')) && slash > part) {
		*slash = '\0';
		if (access(part, F_OK) == 0)
			break;
	}
	return faccessat(AT_FDCWD, slash > part ? part : "/", W_OK | X_OK, AT_EACCESS) == 0;
}

/* Only for a folder that base/state would take, so that it makes no other. */
static bool can_use(const char *path)
{
	struct err e = { 0 };
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022))
		return false;
	fd = state_open(".", NULL, 0, &e);
	(void)fd_close(fd);
	return fd >= 0;
}

static void check_state(struct machine *m, struct finding *f)
{
	char path[PATH_MAX];

	(void)m;
	if (!state_first(path, sizeof(path))) {
		finding_say(f, CHECK_WARN, "there is no HOME to keep what must survive a crash in");
	} else if (access(path, F_OK) < 0 && errno == ENOENT && can_make(path)) {
		finding_say(f, CHECK_PASS, "'%s', made when first needed", path);
		return;
	} else if (can_use(path)) {
		finding_say(f, CHECK_PASS, "'%s'", path);
		return;
	} else {
		finding_say(f, CHECK_WARN,
			    "'%s' cannot be used: what must survive a crash goes "
			    "to a folder that a reboot empties",
			    path);
	}
	finding_hint(f, "set XDG_STATE_HOME to a folder of yours that nobody else may write to");
}

static void check_installation(struct machine *m, struct finding *f)
{
	char path[PATH_MAX];
	struct err e = { 0 };
	struct stat st;

	(void)m;
	if (stat("/proc/self/exe", &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID))) {
		finding_say(f, CHECK_FAIL, "brig is setuid or setgid, which it is not made for");
		if (own_path(path, sizeof(path), &e) == 0)
			finding_hint(f, "sudo chmod u-s,g-s '%s'", path);
		return;
	}
	if (own_path(path, sizeof(path), &e) < 0 || path_guarded(path, false, &e) < 0)
		say_error(f, CHECK_WARN, &e);
	else
		finding_say(f, CHECK_PASS, "nobody else can replace '%s'", path);
}

static void check_kernel(struct machine *m, struct finding *f)
{
	char *end, *at;
	struct utsname u;
	unsigned long major, minor;

	(void)m;
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

const struct check doctor_checks[] = {
	{ "sandbox", "all layers together, in a trial run", check_sandbox },
	{ "user_namespaces", "a sandbox without root", check_user_namespaces },
	{ "procfs", "other processes stay unseen", check_procfs },
	{ "seccomp", "the kernel, from rare system calls", check_seccomp },
	{ "identity", "nobody inside is root outside", check_identity },
	{ "installation", "brig itself, from being replaced", check_installation },
	{ "kernel", "the layers that came with newer releases", check_kernel },
	{ "landlock", "files, a second time behind the mounts", check_landlock },
	{ "cgroups", "the machine, from a run that takes too much", check_cgroups },
	{ "mount_api", "mounts, from being swapped while they are made", check_mount_api },
	{ "idmap", "owners of files, when root starts a run", check_idmap },
	{ "state_folder", "what must survive a crash of brig", check_state },
};
const size_t doctor_check_count = ARRAY_LEN(doctor_checks);
static_assert(ARRAY_LEN(doctor_checks) <= DOCTOR_CHECKS_MAX, "a diagnosis holds them all");

/* ---- the whole ---- */

void doctor_examine(const struct check *checks, size_t n, struct diagnosis *ret)
{
	struct machine m = { 0 };

	assert(n <= DOCTOR_CHECKS_MAX);
	*ret = (struct diagnosis){ .checks = checks, .count = n };
	for (size_t i = 0; i < n; i++) {
		ret->findings[i].status = CHECK_SKIP;
		checks[i].run(&m, &ret->findings[i]);
	}
}

size_t doctor_failed(const struct diagnosis *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++)
		n += d->findings[i].status == CHECK_FAIL;
	return n;
}

void doctor_text(const struct diagnosis *d, struct buf *out)
{
	size_t failed = doctor_failed(d);

	for (size_t i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		buf_printf(out, "[%s] %s: %s\n", status_names[f->status], d->checks[i].name,
			   f->detail);
		if (f->hint[0])
			buf_printf(out, "hint: %s\n", f->hint);
	}
	if (failed)
		buf_printf(out, "not ready: %zu check%s failed\n", failed, failed == 1 ? "" : "s");
	else
		buf_puts(out, "ready: sandboxes can be made here\n");
}

void doctor_json(const struct diagnosis *d, struct json *j)
{
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kbool(j, "ready", doctor_failed(d) == 0);
	json_key(j, "checks");
	json_array(j);
	for (size_t i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		json_object(j);
		json_kstr(j, "name", d->checks[i].name);
		json_kstr(j, "status", status_names[f->status]);
		json_kstr(j, "detail", f->detail);
		json_kstr(j, "hint", f->hint[0] ? f->hint : NULL);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

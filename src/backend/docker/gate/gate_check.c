/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/gate/gate_check.c - what an engine was asked for, compared with what came of it,
 * from the inside and before the command exists.
 *
 * Every mount that was planned is where it should be, reached without a link, and shows what it
 * should, by device and inode. And no other is there but the engine's own: one that went astray is
 * found wherever it is. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "backend/docker/gate/gate.h"
#include "backend/docker/gate/gate_table.h"
#include "base/files/fd.h"

#define CONFIGFS 0x62656570 /* these two are in no header */
#define FUSECTL 0x65735543
#define TABLE_MAX ((size_t)1 << 20)
#define GROUPS_MAX 64
#define OVERFLOW_GID 65534

/* ---- who runs ---- */

static int not_taken(const char *what, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "nothing was run; use an engine that keeps to it, or --backend native",
			  "the engine started the container %s", what);
}

static int check_groups(const struct gate_want *w, gid_t gid, struct err *e)
{
	gid_t groups[GROUPS_MAX];
	int n = getgroups(GROUPS_MAX, groups);

	if (n < 0)
		return not_taken("in more groups than can be told", e);
	for (int i = 0; i < n; i++)
		if (groups[i] != gid && !(w->rootless && groups[i] == OVERFLOW_GID))
			return not_taken("in groups that nobody asked for, such as the image's", e);
	return 0;
}

static int check_user(const struct gate_want *w, struct err *e)
{
	uid_t uid[3];
	gid_t gid[3];

	if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
		return err_sys(e, "cannot tell the user inside");
	for (int i = 0; i < 3; i++)
		if (uid[i] != uid[0] || gid[i] != gid[0] ||
		    (!w->any_user && (uid[i] != w->uid || gid[i] != w->gid)))
			return not_taken("as another user", e);
	return check_groups(w, gid[0], e);
}

static int check_privileges(const struct gate_want *w, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return err_sys(e, "cannot tell the capabilities inside");
	for (int i = 0; i < 2; i++)
		if ((data[i].effective | data[i].permitted | data[i].inheritable) &
		    ~(i == CAP_TO_INDEX(CAP_SETFCAP) && w->lent ? CAP_TO_MASK(CAP_SETFCAP) : 0))
			return not_taken("with capabilities", e);
	for (unsigned long c = 0; c < 64; c++)
		if (prctl(PR_CAPBSET_READ, c, 0, 0, 0) > 0 && !(w->lent && c == CAP_SETFCAP))
			return not_taken("with capabilities to be had", e);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return not_taken("without no-new-privileges", e);
	/* A kernel in a program has calls of its own, and a filter around it. */
	if (w->same_kernel && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
		return not_taken("without brig's system-call filter", e);
	return 0;
}

/* An engine that gives its containers other ids (userns-remap) leaves the files of the workspace to
 * nobody; a rootless one is asked for the right ones. */
static int check_ids(const struct gate_want *w, struct err *e)
{
	struct statfs fs;
	struct stat st;

	if (w->rootless || !w->users || stat("/proc/self/ns/user", &st) < 0 ||
	    st.st_ino == w->users || statfs(".", &fs) < 0 || (fs.f_flags & ST_RDONLY) ||
	    access(".", W_OK) == 0)
		return 0;
	return err_refuse(
		e, ERR_PERMISSION, EACCES,
		"use --policy readonly, --backend native, or an engine without "
		"userns-remap",
		"the engine maps user ids, and the user inside cannot write to the workspace");
}

/* ---- the table of mounts ---- */

static bool under(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/');
}

/* Is this what is found at its place? What lies under another mount is out of reach, and the other
 * is in the table as well. */
static bool gate_check_is_there(const struct gate_want *w, const struct gate_entry *m,
				struct stat *st)
{
	return lstat(m->point, st) == 0 && (!w->same_kernel || st->st_dev == m->dev);
}

static DIR *gate_check_list(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? NULL : fdopendir(fd);
}

static bool is_empty(int fd)
{
	DIR *d = gate_check_list(fd);
	unsigned n = 0;

	if (!d)
		return errno == EACCES;
	while (n < 3 && readdir(d))
		n++;
	(void)closedir(d);
	return n < 3; /* "." and ".." */
}

static bool may(int fd, int mode)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return access(path, mode) == 0;
}

/* Nothing but folders, links and devices, made there or bound? Of what is closed nobody inside sees
 * anything. The folders where something else is mounted are counted. */
static bool has_no_files(int fd, dev_t own, unsigned *mounted)
{
	DIR *d = gate_check_list(fd);
	const struct dirent *f;
	struct stat st;
	bool r = true;

	*mounted = 0;

	if (!d)
		return errno == EACCES;
	while (r && (f = readdir(d))) {
		if (fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
			continue;
		r = S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode) || S_ISCHR(st.st_mode) ||
		    S_ISBLK(st.st_mode);
		*mounted += S_ISDIR(st.st_mode) && st.st_dev != own && f->d_name[0] != '.';
	}
	(void)closedir(d);
	return r;
}

/* With control groups of the first version the folders of each are in a tmpfs. runc leaves it
 * writable for a root inside since 1.2: then it must be one that was made for them, not the host's.
 */
static bool holds_groups(const struct gate_want *w, int fd, dev_t own)
{
	unsigned mounted;

	return has_no_files(fd, own, &mounted) &&
	       (!may(fd, W_OK) || (mounted > 0 && w->same_kernel && own != w->groups));
}

/* A tmpfs that was made for this container: there is nothing in it yet, and where none is to be
 * written to, none can be. A part of one is somebody else's. */
static bool is_fresh(const struct gate_want *w, const struct gate_entry *m)
{
	CLEANUP(fd) int fd = open(m->point, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	unsigned ignored;

	if (!m->whole)
		return false;
	if (fd < 0)
		return errno == EACCES || errno == ENOENT;
	if (fstat(fd, &st) < 0)
		return false;
	if (w->same_kernel && st.st_dev != m->dev)
		return true; /* another one lies over it */
	if (strcmp(m->point, "/dev/shm") == 0)
		return is_empty(fd);
	if (strcmp(m->point, "/dev") == 0)
		return has_no_files(fd, st.st_dev, &ignored);
	if (strcmp(m->point, "/sys/fs/cgroup") == 0)
		return holds_groups(w, fd, st.st_dev);
	return !may(fd, W_OK) && is_empty(fd);
}

static bool is_hosts(const struct gate_want *w, const struct gate_entry *m)
{
	for (size_t i = 0; i < GATE_HOSTS; i++)
		if (w->hosts[i] && w->hosts[i] == m->dev)
			return true;
	return false;
}

/* Where runc puts a new tmpfs over what is hidden, crun shows an empty folder of its own, a part of
 * the host's /run: nobody inside can put anything there. */
static bool is_nothing(const struct gate_want *w, const struct gate_entry *m)
{
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (!m->nothing || m->whole || !m->read_only || !w->same_kernel)
		return false;
	fd = open(m->point, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == ENOENT;
	if (fstat(fd, &st) < 0)
		return false;
	return st.st_dev != m->dev || /* another one lies over it */
	       (S_ISDIR(st.st_mode) && !may(fd, W_OK) && is_empty(fd));
}

/* What engines mount in the folders of the kernel, or one of the devices that a rootless engine
 * binds because it may not make them. */
static bool is_kernels(const struct gate_want *w, const struct gate_entry *m)
{
	static const struct {
		const char *tree, *type;
	} kinds[] = {
		{ "/proc", "proc" },         { "/sys", "sysfs" },      { "/sys", "cgroup" },
		{ "/sys", "cgroup2" },       { "/dev/pts", "devpts" }, { "/dev/console", "devpts" },
		{ "/dev/mqueue", "mqueue" },
	};
	struct stat st;
	bool dev = under(m->point, "/dev");

	if (!dev && !under(m->point, "/proc") && !under(m->point, "/sys"))
		return false;
	if (gate_check_is_there(w, m, &st) && S_ISCHR(st.st_mode))
		return true;
	if (!dev && is_nothing(w, m))
		return true;
	if (is_hosts(w, m))
		return false;
	if (strcmp(m->type, "tmpfs") == 0)
		return is_fresh(w, m);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (under(m->point, kinds[i].tree) && strcmp(m->type, kinds[i].type) == 0)
			return true;
	return dev && !w->same_kernel && strcmp(m->type, "devtmpfs") == 0;
}

/* What engines mount by themselves, in every container. */
static bool is_engines(const struct gate_want *w, const struct gate_entry *m)
{
	static const struct {
		const char *path;
		bool empty; /* a tmpfs of its own */
	} points[] = { { "/", false },
		       { "/etc/hostname", false },
		       { "/etc/hosts", false },
		       { "/etc/resolv.conf", false },
		       { "/run/.containerenv", false },
		       { "/run/secrets", false },
		       { "/run", true },
		       { "/run/lock", true },
		       { "/tmp", true },
		       { "/var/tmp", true } };

	for (size_t i = 0; i < ARRAY_LEN(points); i++)
		if (strcmp(m->point, points[i].path) == 0)
			return !points[i].empty ||
			       (strcmp(m->type, "tmpfs") == 0 && m->whole && !is_hosts(w, m));
	return is_kernels(w, m);
}

/* A rootless engine carries the host's /sys along, with the file systems of the kernel that are
 * mounted below it. They are root's: nobody here may enter the closed ones, nor make anything in
 * the guarded, whose files take what the kernel takes from any user; in the last stand the user's
 * own connections. What is looked at is the file system itself: its kind and its device. */
static bool is_carried(const struct gate_want *w, const struct gate_entry *m)
{
	static const struct {
		const char *type;
		long magic;
		enum { CLOSED, GUARDED, EMPTY } how;
	} kinds[] = {
		{ "tracefs", TRACEFS_MAGIC, CLOSED },
		{ "debugfs", DEBUGFS_MAGIC, CLOSED },
		{ "bpf", BPF_FS_MAGIC, CLOSED },
		{ "securityfs", SECURITYFS_MAGIC, GUARDED },
		{ "configfs", CONFIGFS, GUARDED },
		{ "pstore", PSTOREFS_MAGIC, GUARDED },
		{ "efivarfs", EFIVARFS_MAGIC, GUARDED },
		{ "selinuxfs", SELINUX_MAGIC, GUARDED },
		{ "fusectl", FUSECTL, EMPTY },
	};
	CLEANUP(fd) int fd = -1;
	struct statfs fs;
	struct stat st;
	size_t i = 0;

	while (i < ARRAY_LEN(kinds) && strcmp(m->type, kinds[i].type) != 0)
		i++;
	if (i == ARRAY_LEN(kinds) || !under(m->point, "/sys") || !w->same_kernel)
		return false;
	fd = open(m->point, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == ENOENT;
	if (fstat(fd, &st) < 0 || st.st_dev != m->dev)
		return st.st_dev != m->dev; /* another one lies over it */
	if (fstatfs(fd, &fs) < 0 || fs.f_type != kinds[i].magic)
		return false;
	return kinds[i].how == CLOSED    ? !may(fd, X_OK)
	       : kinds[i].how == GUARDED ? !may(fd, W_OK)
					 : is_empty(fd);
}

static bool is_planned(const struct gate_want *w, const struct gate_mount *mounts, const char *own,
		       const char *point)
{
	for (uint32_t i = 0; i < w->mounts; i++)
		if (strcmp(mounts[i].path, point) == 0)
			return true;
	return strcmp(own, point) == 0;
}

static int check_strays(const struct gate_want *w, const struct gate_mount *mounts, const char *own,
			const char *table, struct err *e)
{
	static struct gate_entry m; /* large, and there is one thread */
	bool bad = false;

	while (gate_table_next(&table, &m, &bad))
		if (!w->more_mounts && !is_planned(w, mounts, own, m.point) && !is_engines(w, &m) &&
		    !is_carried(w, &m))
			return err_refuse(
				e, ERR_POLICY, EPERM,
				"nothing was run; look at the image and at what else "
				"changes the folders that are mounted",
				"something was mounted at '%.200s', where nothing should be",
				m.point);
	return bad ? err_set(e, ERR_INTERNAL, EBADMSG, "the table of mounts makes no sense") : 0;
}

/* The last one there, which lies over the others. */
static bool is_mounted(const char *table, const char *path, bool *read_only)
{
	static struct gate_entry m;
	bool bad = false, found = false;

	while (gate_table_next(&table, &m, &bad))
		if (strcmp(m.point, path) == 0) {
			*read_only = m.read_only;
			found = true;
		}
	return found;
}

/* ---- each mount ---- */

static int other(const struct gate_mount *m, const char *how, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EPERM,
			  "nothing was run; the image, or somebody who changed the folder "
			  "meanwhile, turned the mount to another place",
			  "'%.200s' inside is not what was to be mounted: %s", m->path, how);
}

static bool gate_check_shows(const struct gate_want *w, const struct gate_mount *m,
			     const struct stat *st, const struct statfs *fs)
{
	if (m->kind == GATE_TMPFS)
		return S_ISDIR(st->st_mode) && (!w->same_kernel || fs->f_type == TMPFS_MAGIC);
	if (m->kind == GATE_NULL)
		return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
	if (!w->same_kernel)
		return (st->st_mode & S_IFMT) == m->type;
	return st->st_dev == m->dev && st->st_ino == m->ino && (st->st_mode & S_IFMT) == m->type;
}

/* Is the working directory at, above or below that path? It needs no way to it. */
static bool begins_near(const char *path)
{
	char cwd[PATH_MAX];
	size_t a, b = strlen(path);

	if (!getcwd(cwd, sizeof(cwd)))
		return true;
	a = strlen(cwd);
	if (a == 1 || b == 1)
		return true;
	return a < b ? strncmp(path, cwd, a) == 0 && path[a] == '/'
		     : strncmp(cwd, path, b) == 0 && (cwd[b] == '/' || !cwd[b]);
}

static int check_mount(const struct gate_want *w, const struct gate_mount *m, const char *table,
		       struct err *e)
{
	CLEANUP(fd) int fd = -1;
	bool read_only = false;
	struct statfs fs;
	struct stat st;

	if (!is_mounted(table, m->path, &read_only))
		return other(m, "nothing is mounted there", e);
	if (m->read_only && !read_only)
		return other(m, "it can be written to", e);
	fd = fd_open_nolinks(AT_FDCWD, m->path, O_PATH | O_CLOEXEC, 0);
	/* Where the user inside may not go the command may not either, but for where it begins. */
	if (fd == -EACCES && !begins_near(m->path))
		return 0;
	if (fd == -EACCES)
		return other(m, "a folder on the way is closed to the user inside", e);
	if (fd < 0)
		return other(m, fd == -ELOOP ? "there is a link on the way" : strerror(-fd), e);
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(e, "cannot look at '%.200s' inside", m->path);
	if (!gate_check_shows(w, m, &st, &fs))
		return other(m, "it is another file or folder", e);
	if (m->read_only && w->same_kernel && !(fs.f_flags & ST_RDONLY))
		return other(m, "it can be written to", e);
	return 0;
}

bool gate_has_proc(void)
{
	struct statfs fs;

	return statfs("/proc", &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static int read_table(char *out, size_t n, struct err *e)
{
	CLEANUP(fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t r = -1;

	while (fd >= 0 && have + 1 < n && (r = read(fd, out + have, n - 1 - have)) > 0)
		have += (size_t)r;
	out[have] = '\0';
	return r == 0 ? 0 : err_sys(e, "cannot read the table of mounts inside");
}

int gate_check(const struct gate_want *w, const struct gate_mount *mounts, const char *own,
	       struct err *e)
{
	static char table[TABLE_MAX];
	bool read_only = false;

	if (check_user(w, e) < 0 || check_privileges(w, e) < 0 ||
	    read_table(table, sizeof(table), e) < 0)
		return -e->code;
	if (w->read_only_root && !(is_mounted(table, "/", &read_only) && read_only))
		return not_taken("without a read-only root", e);
	for (uint32_t i = 0; i < w->mounts; i++)
		if (check_mount(w, &mounts[i], table, e) < 0)
			return -e->code;
	if (check_ids(w, e) < 0)
		return -e->code;
	return check_strays(w, mounts, own, table, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_map.c - where our own cgroup lies in each hierarchy.
 *
 * /proc/self/cgroup names our cgroup relative to the root of the cgroup namespace, mountinfo says
 * which part of a hierarchy a mount shows. The directory is the mount point plus what is left of
 * our path below the mount's root; a mount that does not show our cgroup is of no use.
 *
 * To have the kernel write mountinfo takes as long as a dozen look-ups: where all hierarchies lie
 * at their usual places, whole and writable, it is not asked. */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/files/fd.h"
#include "base/files/mounts.h"

#define FIRST_CGROUP_NS 0xEFFFFFFBU /* its inode: the kernel gives it to no other */

#define LINE_MAX_BYTES 16384 /* a longer line (overlayfs with many layers) is none of ours */
#define SELF_MAX_BYTES 16384

static const char *const kind_names[CG_KINDS] = {
	[CG_MEMORY] = "memory",   [CG_PIDS] = "pids",       [CG_CPU] = "cpu",
	[CG_FREEZER] = "freezer", [CG_DEVICES] = "devices", [CG_UNIFIED] = "",
};

struct parse {
	struct cg_map *map;
	bool described;            /* by files, not by the kernel: any file system will do */
	const char *own[CG_KINDS]; /* our path in each hierarchy; NULL: not in it */
	const char
		*list[CG_KINDS]; /* the controllers of that hierarchy, as the kernel joins them */
};

/* Is `word` one of the comma-separated words of `list`? */
static bool cgroup_map_listed(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (strncmp(list, word, n) == 0 && (list[n] == ',' || list[n] == '\0'))
			return true;
	}
	return false;
}

/* A path that can be followed downwards from a mount: a deleted cgroup, or one outside our cgroup
 * namespace ("/../x"), cannot. */
static bool usable(const char *path)
{
	static const char gone[] = " (deleted)";
	size_t n = strlen(path);

	if (path[0] != '/')
		return false;
	if (n >= sizeof(gone) && strcmp(path + n - (sizeof(gone) - 1), gone) == 0)
		return false;
	for (const char *p = path; p; p = strchr(p + 1, '/'))
		if (strncmp(p, "/..", 3) == 0 && (p[3] == '/' || p[3] == '\0'))
			return false;
	return true;
}

/* "4:cpu,cpuacct:/path" or "0::/path"; the path itself may hold colons. */
static void take_own(struct parse *p, char *line)
{
	char *list = strchr(line, ':');
	char *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return;
	*list++ = '\0';
	*path++ = '\0';
	if (!usable(path))
		return;
	if (!*list) {
		if (strcmp(line, "0") == 0)
			p->own[CG_UNIFIED] = path;
		return;
	}
	for (int k = 0; k < CG_UNIFIED; k++)
		if (cgroup_map_listed(list, kind_names[k])) {
			p->own[k] = path;
			p->list[k] = list;
		}
}

/* What is left of `own` below `root`, or NULL when it is not below it. */
static const char *cgroup_map_below(const char *own, const char *root)
{
	size_t n = strlen(root);

	if (strcmp(root, "/") == 0)
		return own[1] ? own : "";
	if (strncmp(own, root, n) != 0 || (own[n] != '/' && own[n] != '\0'))
		return NULL;
	return own + n;
}

static void take_place(struct parse *p, enum cg_kind kind, const char *root, const char *point)
{
	struct cg_place *to = &p->map->place[kind];
	const char *rest = p->own[kind] ? cgroup_map_below(p->own[kind], root) : NULL;
	size_t n = strlen(point), more = rest ? strlen(rest) + 1 : 0;

	if (!rest || n + more > sizeof(to->dir))
		return;
	memcpy(to->dir, point, n);
	memcpy(to->dir + n, rest, more);
	to->mount_len = n;
}

struct mount_line {
	char *root, *point, *options, *type, *super;
};

/* "ID PARENT DEV ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER": one blank between fields, also
 * around an empty one. */
static bool split(char *line, struct mount_line *m)
{
	char *head[6], *field;

	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		if (!(head[i] = strsep(&line, " ")))
			return false;
	do
		field = strsep(&line, " ");
	while (field && strcmp(field, "-") != 0);
	if (!field)
		return false;
	*m = (struct mount_line){ .root = head[3], .point = head[4], .options = head[5] };
	m->type = strsep(&line, " ");
	field = strsep(&line, " ");
	m->super = strsep(&line, " ");
	return m->type && field && m->super && m->root[0] == '/' && m->point[0] == '/';
}

/* The last mount that shows our cgroup wins: when two lie at one point, it is the upper one. */
static void take_mount(struct parse *p, char *line)
{
	struct mount_line m;

	if (!strstr(line, " - cgroup") || !split(line, &m))
		return;
	if (cgroup_map_listed(m.options, "ro") || cgroup_map_listed(m.super, "ro"))
		return;
	mounts_unescape(m.root);
	mounts_unescape(m.point);
	if (strcmp(m.type, "cgroup2") == 0)
		take_place(p, CG_UNIFIED, m.root, m.point);
	/* A new group of a hierarchy with cpuset in it takes no process until it has CPUs. */
	if (strcmp(m.type, "cgroup") != 0 || cgroup_map_listed(m.super, "cpuset"))
		return;
	for (int k = 0; k < CG_UNIFIED; k++)
		if (cgroup_map_listed(m.super, kind_names[k]))
			take_place(p, (enum cg_kind)k, m.root, m.point);
}

/* Hands every whole line in data to take_mount; returns how many bytes at the end are left. */
static size_t cgroup_map_take_lines(struct parse *p, char *data, size_t have, bool *skip)
{
	char *at = data, *end = data + have, *nl;

	while ((nl = memchr(at, '\n', (size_t)(end - at)))) {
		*nl = '\0';
		if (!*skip)
			take_mount(p, at);
		*skip = false;
		at = nl + 1;
	}
	memmove(data, at, (size_t)(end - at));
	return (size_t)(end - at);
}

static int read_mounts(struct parse *p, const char *path)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char data[LINE_MAX_BYTES];
	bool skip = false;
	size_t have = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, data + have, sizeof(data) - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		have = cgroup_map_take_lines(p, data, have + (size_t)n, &skip);
		if (have == sizeof(data)) {
			skip = true;
			have = 0;
		}
	}
}

/* Is our cgroup of this kind below the usual mount point? What is not, or is mounted read-only, is
 * for mountinfo to tell. */
static bool take_usual(struct parse *p, const char *usual, enum cg_kind kind, bool alone)
{
	const char *sub = kind == CG_UNIFIED ? "unified" : p->list[kind];
	char point[256];
	struct statfs f;
	int n = alone ? snprintf(point, sizeof(point), "%s", usual)
		      : snprintf(point, sizeof(point), "%s/%s", usual, sub);

	if (n < 0 || (size_t)n >= sizeof(point))
		return false;
	take_place(p, kind, "/", point);
	if (!p->map->place[kind].dir[0] || statfs(p->map->place[kind].dir, &f) < 0)
		return false;
	if (!p->described &&
	    f.f_type != (kind == CG_UNIFIED ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
		return false;
	return !(f.f_flags & ST_RDONLY);
}

static void cgroup_map_forget(struct cg_map *m)
{
	for (size_t k = 0; k < CG_KINDS; k++)
		m->place[k].dir[0] = '\0';
}

/* In another cgroup namespace the paths of /proc/self/cgroup begin somewhere below what a mount
 * from outside shows. */
static bool in_first_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/cgroup", &st) == 0 && st.st_ino == FIRST_CGROUP_NS;
}

static bool all_usual(struct parse *p, const char *usual)
{
	bool v1 = false;

	if (!p->described && !in_first_namespace())
		return false;
	for (int k = 0; k < CG_UNIFIED; k++) {
		v1 |= p->own[k] != NULL;
		/* A new group of a hierarchy with cpuset in it takes no process until it has CPUs.
		 */
		if (p->own[k] && !cgroup_map_listed(p->list[k], "cpuset") &&
		    !take_usual(p, usual, (enum cg_kind)k, false))
			return false;
	}
	return !p->own[CG_UNIFIED] || take_usual(p, usual, CG_UNIFIED, !v1);
}

int cg_map_read(const struct cgroup_host *host, struct cg_map *ret)
{
	const char *self = host && host->self_cgroup ? host->self_cgroup : "/proc/self/cgroup";
	const char *mounts = host && host->mountinfo ? host->mountinfo : "/proc/self/mountinfo";
	bool described = host && host->mountinfo;
	const char *usual = described ? host->usual : "/sys/fs/cgroup";
	struct parse p = { .map = ret, .described = described };
	char text[SELF_MAX_BYTES], *at = text, *nl;
	int r;

	cgroup_map_forget(ret);
	r = (int)fd_read_file(AT_FDCWD, self, text, sizeof(text));
	if (r < 0)
		return cg_unavailable(r) ? 0 : r;
	for (; (nl = strchr(at, '\n')); at = nl + 1) {
		*nl = '\0';
		take_own(&p, at);
	}
	if (usual && all_usual(&p, usual))
		return 0;
	cgroup_map_forget(ret);
	r = read_mounts(&p, mounts);
	return r < 0 && !cg_unavailable(r) ? r : 0;
}

bool cg_place_up(struct cg_place *p)
{
	char *slash = strrchr(p->dir, '/');

	if (!slash || (size_t)(slash - p->dir) < p->mount_len)
		return false;
	*slash = '\0';
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/learn/opens.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define AT_ONCE 256 /* at a turn of the monitor's loop, which has more to do */
#define RECENT 4096 /* names whose end is known, a power of two */
#define LEFT_OUT UINT32_MAX

enum does {
	DOES_NOTHING,
	DOES_OPEN,   /* its flags say what */
	DOES_READ,   /* what the name leads to */
	DOES_CHANGE, /* the folder that the name is in */
};

/* Where a call has its names: the argument with the folder they begin in, -1: the working folder.
 */
static const struct watched {
	int nr;
	enum does does;
	signed char folder, name, flags;
	signed char folder2, name2; /* a second one; name2 0: there is none */
} watched[] = {
	{ SYS_openat, DOES_OPEN, 0, 1, 2, 0, 0 },
	{ SYS_openat2, DOES_READ, 0, 1, 0, 0, 0 },
	{ SYS_execve, DOES_READ, -1, 0, 0, 0, 0 },
	{ SYS_execveat, DOES_READ, 0, 1, 0, 0, 0 },
	{ SYS_readlinkat, DOES_READ, 0, 1, 0, 0, 0 },
	{ SYS_renameat, DOES_CHANGE, 0, 1, 0, 2, 3 },
	{ SYS_renameat2, DOES_CHANGE, 0, 1, 0, 2, 3 },
	{ SYS_mkdirat, DOES_CHANGE, 0, 1, 0, 0, 0 },
	{ SYS_unlinkat, DOES_CHANGE, 0, 1, 0, 0, 0 },
	{ SYS_symlinkat, DOES_CHANGE, 1, 2, 0, 0, 0 },
	{ SYS_linkat, DOES_CHANGE, 2, 3, 0, 0, 0 },
#ifdef SYS_open
	{ SYS_open, DOES_OPEN, -1, 0, 1, 0, 0 },
	{ SYS_creat, DOES_CHANGE, -1, 0, 0, 0, 0 },
	{ SYS_readlink, DOES_READ, -1, 0, 0, 0, 0 },
	{ SYS_rename, DOES_CHANGE, -1, 0, 0, -1, 1 },
	{ SYS_mkdir, DOES_CHANGE, -1, 0, 0, 0, 0 },
	{ SYS_rmdir, DOES_CHANGE, -1, 0, 0, 0, 0 },
	{ SYS_unlink, DOES_CHANGE, -1, 0, 0, 0, 0 },
	{ SYS_symlink, DOES_CHANGE, -1, 1, 0, 0, 0 },
	{ SYS_link, DOES_CHANGE, -1, 1, 0, 0, 0 },
#endif
};

/* What became of a name the last time; those that were missing are asked for again. */
struct opens_recent {
	uint64_t hash;
	uint32_t file; /* in the sightings, from 1 on; 0: nothing is known */
};

struct opens {
	int listener;
	int root; /* of the sandbox; -1: nobody has asked yet */
	struct sightings *to;
	struct opens_recent recent[RECENT];
};

struct opens *opens_new(int listener, struct sightings *to)
{
	struct opens *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->listener = listener;
	o->root = -1;
	o->to = to;
	return o;
}

struct opens *opens_free(struct opens *o)
{
	if (o)
		(void)fd_close(o->root);
	free(o);
	return NULL;
}

/* ---- what was asked for ---- */

/* One page and the next: a read that begins in memory and ends outside of it gives what there is.
 */
static bool read_name(pid_t pid, uint64_t at, char out[PATH_MAX])
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), first = page - at % page;
	struct iovec to = { out, PATH_MAX }, from[2];
	ssize_t n;

	if (first > PATH_MAX)
		first = PATH_MAX;
	from[0] = (struct iovec){ (void *)(uintptr_t)at, first };
	from[1] = (struct iovec){ (void *)(uintptr_t)(at + first), PATH_MAX - first };
	n = process_vm_readv(pid, &to, 1, from, first < PATH_MAX ? 2 : 1, 0);
	return n > 0 && memchr(out, '\0', (size_t)n);
}

/* The folder that a name begins in, as the sandbox sees it. */
static bool read_folder(pid_t pid, int folder, char out[PATH_MAX])
{
	char link[64];
	ssize_t n;

	if (folder == AT_FDCWD)
		(void)snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	else
		(void)snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, folder);
	n = readlink(link, out, PATH_MAX);
	if (n <= 0 || n == PATH_MAX || out[0] != '/')
		return false;
	out[n] = '\0';
	return true;
}

/* The whole name, from the sandbox's root on. */
static bool name_of(const struct seccomp_notif *q, int folder, int arg, char out[PATH_MAX])
{
	char name[PATH_MAX], base[PATH_MAX];
	pid_t pid = (pid_t)q->pid;
	int n;

	if (!pid || !read_name(pid, q->data.args[arg], name) || !name[0])
		return false;
	if (name[0] == '/') {
		memcpy(out, name, strlen(name) + 1);
		return true;
	}
	if (!read_folder(pid, folder < 0 ? AT_FDCWD : (int)q->data.args[folder], base))
		return false;
	n = snprintf(out, PATH_MAX, "%s%s%s", base, base[1] ? "/" : "", name);
	return n > 0 && n < PATH_MAX;
}

/* ---- where it leads ---- */

static bool find_root(struct opens *o, pid_t pid)
{
	char link[64];

	if (o->root >= 0)
		return true;
	(void)snprintf(link, sizeof(link), "/proc/%d/root", pid);
	o->root = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->root >= 0;
}

/* Below the sandbox's root, and never by a link of /proc's, which would lead the monitor to files
 * of its own. 0 or -errno. */
static int resolve(const struct opens *o, const char *name, char out[PATH_MAX], bool *folder)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	CLEANUP(fd) int fd = (int)syscall(SYS_openat2, o->root, name, &how, sizeof(how));
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !st.st_nlink)
		return -ENOENT;
	*folder = S_ISDIR(st.st_mode);
	return fd_real_path(fd, out);
}

/* By way of a link both the link and its goal are used: the folder that has both. */
static void sight(struct opens *o, const char *name, char *real, bool folder, bool changed)
{
	size_t n;

	if (str_eq(name, real) || !seen_is_plain(name)) {
		sightings_file(o->to, real, folder, changed);
		return;
	}
	sightings_file(o->to, name, folder, changed);
	sightings_file(o->to, real, folder, changed);
	seen_common(real, name);
	n = strlen(real);
	if (n > 1 && real[n - 1] == '/')
		real[n - 1] = '\0';
	sightings_file(o->to, real, true, changed);
}

static void cut_last(char *name)
{
	char *slash;
	size_t n = strlen(name);

	while (n > 1 && name[n - 1] == '/')
		name[--n] = '\0';
	slash = strrchr(name, '/');
	if (slash)
		slash[slash == name] = '\0';
}

static void learn(struct opens *o, char *name, enum does does, int flags)
{
	bool writes = does == DOES_OPEN && (flags & O_ACCMODE) != O_RDONLY, folder;
	char real[PATH_MAX];
	int r;

	if (does == DOES_CHANGE)
		cut_last(name);
	r = resolve(o, name, real, &folder);
	if (r == -ENOENT && does == DOES_OPEN && flags & O_CREAT) {
		does = DOES_CHANGE;
		cut_last(name);
		r = resolve(o, name, real, &folder);
	}
	if (r == 0)
		sight(o, name, real, folder, writes || does == DOES_CHANGE);
	else if ((r == -ENOENT || r == -ENOTDIR) && seen_is_plain(name))
		sightings_missed(o->to, name);
	else
		o->to->unread++;
}

/* ---- one call ---- */

static uint64_t hash_of(const char *name, unsigned how)
{
	uint64_t h = 14695981039346656037ULL ^ how;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 1099511628211ULL;
	return h ? h : 1;
}

/* Most names are asked for again and again, and most of those are of the system's. */
static void look_up(struct opens *o, pid_t pid, char *name, enum does does, int flags)
{
	unsigned how =
		(unsigned)does << 8 | (unsigned)(flags & O_ACCMODE) << 4 | ((flags & O_CREAT) != 0);
	uint64_t hash = hash_of(name, how);
	struct opens_recent *r = &o->recent[hash & (RECENT - 1)];
	size_t before = o->to->n_files;

	o->to->opens++;
	if (r->file && r->hash == hash) {
		if (r->file != LEFT_OUT)
			o->to->files[r->file - 1].count++;
		return;
	}
	if (seen_is_plain(name) && sightings_leaves_out(o->to, name)) {
		*r = (struct opens_recent){ hash, LEFT_OUT };
		return;
	}
	if (!find_root(o, pid)) {
		o->to->unread++;
		return;
	}
	learn(o, name, does, flags);
	if (o->to->n_files == before + 1)
		*r = (struct opens_recent){ hash, (uint32_t)before + 1 };
}

static const struct watched *row_of(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(watched); i++)
		if (watched[i].nr == nr)
			return &watched[i];
	return NULL;
}

static void note_name(struct opens *o, const struct seccomp_notif *q, const struct watched *w,
		      int folder, int arg)
{
	char name[PATH_MAX];
	bool read = name_of(q, folder, arg, name);

	/* Its number is its own as long as its question stands. */
	if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &q->id) < 0)
		return;
	if (!read) /* the first is init's own: nobody can look into that one */
		o->to->unread += o->to->opens > 0;
	else
		look_up(o, (pid_t)q->pid, name, w->does,
			w->flags ? (int)q->data.args[w->flags] : 0);
}

static void note(struct opens *o, const struct seccomp_notif *q)
{
	const struct watched *w = row_of(q->data.nr);

	if (!w)
		return;
	note_name(o, q, w, w->folder, w->name);
	if (w->name2)
		note_name(o, q, w, w->folder2, w->name2);
}

void opens_serve(struct opens *o)
{
	/* A later kernel's may be larger. */
	union {
		struct seccomp_notif ask;
		char room[256];
	} in;

	for (int i = 0; i < AT_ONCE && wait_look(o->listener, POLLIN) & POLLIN; i++) {
		struct seccomp_notif_resp go_on = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

		memset(&in, 0, sizeof(in));
		if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
			continue;
		note(o, &in.ask);
		go_on.id = in.ask.id;
		(void)ioctl(o->listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
	}
}

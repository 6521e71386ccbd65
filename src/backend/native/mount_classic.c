/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/mount_classic.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "base/text/str.h"
#include "model/settings/paths.h"

#define LIST_MAX ((size_t)1 << 20)

static const struct {
	const char *name;
	unsigned long flag;
} options[] = { { "ro", MS_RDONLY },        { "nosuid", MS_NOSUID },
		{ "nodev", MS_NODEV },      { "noexec", MS_NOEXEC },
		{ "noatime", MS_NOATIME },  { "nodiratime", MS_NODIRATIME },
		{ "relatime", MS_RELATIME } };

/* What is set already stays set: the kernel refuses to clear a flag of an outer namespace. */
static unsigned long flags_of(const char *text)
{
	unsigned long flags = 0;

	while (*text) {
		size_t n = strcspn(text, ",");

		for (size_t i = 0; i < ARRAY_LEN(options); i++)
			if (strlen(options[i].name) == n && memcmp(options[i].name, text, n) == 0)
				flags |= options[i].flag;
		text += n + (text[n] == ',');
	}
	return flags;
}

static unsigned long mount_classic_wanted(const struct op *o)
{
	switch (o->kind) {
	case OP_DEVPTS:
		return MS_NOSUID | MS_NOEXEC;
	case OP_DEVICE:
	case OP_MASK:
	case OP_HIDE:
		return MS_RDONLY | MS_NOSUID | MS_NOEXEC;
	case OP_PROC:
		return PROC_FLAGS; /* and read-only by mount_lock */
	default:
		return MS_NOSUID | MS_NODEV | (o->writable ? 0 : MS_RDONLY) |
		       (o->noexec ? MS_NOEXEC : 0);
	}
}

static bool makes_mount(const struct op *o)
{
	return !o->skip && o->kind != OP_DIR && o->kind != OP_FILE && o->kind != OP_SYMLINK;
}

/* The deepest operation that a mount point lies in; the later one of two at the same place. */
static const struct op *owner(const struct box_plan *p, const char *path)
{
	const struct op *best = NULL;

	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if (makes_mount(o) && path_under(path, o->dst) &&
		    (!best || strlen(o->dst) >= strlen(best->dst)))
			best = o;
	}
	return best;
}

static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[3] >= '0') {
			*out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

static int remount(const char *path, unsigned long flags, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, path, O_PATH, 0);
	char at[32];

	if (fd < 0)
		return err_errno(e, fd, "cannot open the mount '%s'", path);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	if (mount(NULL, at, NULL, MS_REMOUNT | MS_BIND | flags, NULL) < 0)
		return err_sys(e, "cannot set the attributes of '%s'", path);
	return 0;
}

/* A line: id, parent, device, root, mount point, options, ... */
static int mount_classic_one_line(const struct box_plan *p, char *line, struct err *e)
{
	char *field[6], *at = line;
	const struct op *o;

	for (size_t i = 0; i < ARRAY_LEN(field); i++) {
		field[i] = strsep(&at, " ");
		if (!field[i] || !at)
			return err_set(e, ERR_INTERNAL, EIO, "a line of mountinfo cannot be read");
	}
	unescape(field[4]);
	if (str_eq(field[4], "/"))
		return 0;
	o = owner(p, field[4]);
	if (!o)
		return err_set(e, ERR_INTERNAL, EIO, "a mount at '%s' that nobody planned",
			       field[4]);
	return remount(field[4], flags_of(field[5]) | mount_classic_wanted(o), e);
}

int mount_attributes(const struct box_plan *p, struct err *e)
{
	char *list =
		mmap(NULL, LIST_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t n;
	int r = 0;

	if (list == MAP_FAILED)
		return err_sys(e, "no memory for the list of mounts");
	n = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", list, LIST_MAX);
	if (n < 0)
		r = err_errno(e, (int)-n, "cannot read the list of mounts");
	else if ((size_t)n == LIST_MAX - 1)
		r = err_set(e, ERR_INTERNAL, E2BIG, "too many mounts");
	for (char *at = list, *line; r == 0 && n > 0 && (line = strsep(&at, "\n")) && *line;)
		r = mount_classic_one_line(p, line, e);
	(void)munmap(list, LIST_MAX);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_letters.c - names that a file system knows in more letters than the kernel.
 *
 * A mount lies over a name in the kernel's memory. ext4, vfat and their like, told to take small
 * letters for capital ones, tell the kernel so, and both spellings are that one name. What serves
 * files by FUSE, 9p or NFS may not: `.GIT/config` is then another name of the same file, over which
 * nothing lies. Neither a cover nor a narrower grant holds there. */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/str.h"

/* false: it has no letters. */
static bool in_other_letters(const char *name, char other[NAME_MAX + 1])
{
	bool any = false;
	size_t i;

	for (i = 0; i < NAME_MAX && name[i]; i++) {
		unsigned char c = (unsigned char)name[i];
		bool letter = c < 0x80 && isalpha(c);

		other[i] = (char)(letter ? c ^ 0x20 : c);
		any |= letter;
	}
	other[i] = '\0';
	return any;
}

static bool is_listed(int folder, const char *name)
{
	CLEANUP(fd) int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *d;
	struct folder f;

	folder_begin(&f, fd);
	while (fd >= 0 && (d = folder_next(&f)))
		if (str_eq(d->name, name))
			return true;
	return false;
}

/* The kernel's own name for what is open. */
static bool letters_same_name(int one, int other)
{
	char a[PATH_MAX], b[PATH_MAX];

	return fd_real_path(one, a) == 0 && fd_real_path(other, b) == 0 && str_eq(a, b);
}

/* Does `other` lead somewhere though no entry is called so, past what is mounted over `name`?
 * Numbers say nothing: what serves files may give each spelling one of its own. */
static bool leads_past(int folder, const char *name, const char *other)
{
	CLEANUP(fd) int second = openat(folder, other, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(fd) int first = -1;

	if (second < 0)
		return false;
	first = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return first >= 0 && !letters_same_name(first, second) && !is_listed(folder, other);
}

/* The name that a file system of Windows makes up for one that its oldest programs could not take:
 * eight capital letters and three. false: they could. */
static bool short_name(const char *name, char ret[16])
{
	const char *from = name + strspn(name, ". "), *dot = strrchr(from, '.');
	size_t base = dot ? (size_t)(dot - from) : strlen(from), n = 0;

	if (!*from || (from == name && base <= 8 && (!dot || strlen(dot) <= 4)))
		return false;
	for (size_t i = 0; i < base && n < 6; i++)
		if (from[i] != '.' && from[i] != ' ')
			ret[n++] = (char)toupper((unsigned char)from[i]);
	ret[n++] = '~';
	ret[n++] = '1';
	for (size_t i = 0; dot && dot[i] && i < 4; i++)
		ret[n++] = (char)toupper((unsigned char)dot[i]);
	ret[n] = '\0';
	return true;
}

static bool is_known_otherwise(int folder, const char *name)
{
	char other[NAME_MAX + 1], brief[16];

	return (in_other_letters(name, other) && leads_past(folder, name, other)) ||
	       (short_name(name, brief) && leads_past(folder, name, brief));
}

/* The folder that a path lies in, and its last name. */
static int open_above(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char above[PATH_MAX];

	*name = slash + 1;
	if (snprintf(above, sizeof(above), "%.*s/", (int)(slash - path), path) >= PATH_MAX)
		return -ENAMETOOLONG;
	return open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int letters_refuse(const char *path, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EOPNOTSUPP,
			  "work on a file system of this kernel's (ext4, xfs, btrfs), with small "
			  "and capital letters; or --policy readonly, with nothing in there that "
			  "is not to be read",
			  "'%.200s' has other names on its file system, in other letters: what "
			  "keeps a command from it would not hold",
			  path);
}

/* `whole` is the path of the tree `n` bytes long, and what lies over a part of it. A cover's
 * folders are covers of their own. */
static int check_way(const char *whole, size_t n, bool last, struct err *e)
{
	char path[PATH_MAX];
	size_t end = strlen(whole);

	(void)snprintf(path, sizeof(path), "%s", whole);
	for (; end > n; end = (size_t)(strrchr(path, '/') - path)) {
		CLEANUP(fd) int folder = -1;
		const char *name;

		path[end] = '\0';
		folder = open_above(path, &name);
		if (folder >= 0 && is_known_otherwise(folder, name))
			return letters_refuse(path, e);
		if (last)
			break;
	}
	return 0;
}

static bool shows_host(const struct op *o)
{
	return (o->kind == OP_BIND || o->kind == OP_BIND_FD) && !o->fixed && o->src &&
	       S_ISDIR(o->ident.type);
}

int plan_letters_held(int folder, const char *name, const char *tree, struct err *e)
{
	return is_known_otherwise(folder, name) ? letters_refuse(tree, e) : 0;
}

struct host_tree {
	const struct op *op;
	bool looked; /* at its top */
};

struct host_trees {
	struct host_tree *v;
	size_t n;
};

static int host_trees(struct box_plan *p, struct host_trees *ret, struct err *e)
{
	for (size_t i = 0; i < p->op_count; i++) {
		struct host_tree *slot;

		if (!shows_host(&p->ops[i]))
			continue;
		slot = ARENA_PUSH(p->arena, ret->v, ret->n);
		if (!slot)
			return err_nomem(e);
		*slot = (struct host_tree){ .op = &p->ops[i] };
	}
	return 0;
}

/* The innermost around it, which it lies over a part of. */
static struct host_tree *tree_of(const struct host_trees *trees, const struct op *o)
{
	struct host_tree *best = NULL;

	for (size_t i = 0; i < trees->n; i++) {
		struct host_tree *t = &trees->v[i];

		if (path_under(o->dst, t->op->dst) && !str_eq(o->dst, t->op->dst) &&
		    (!best || strlen(t->op->dst) >= strlen(best->op->dst)))
			best = t;
	}
	return best;
}

static bool lies_over(const struct op *o)
{
	return o->kind == OP_COVER || o->kind == OP_MASK || o->kind == OP_HIDE ||
	       ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && !o->fixed);
}

/* A name that is held only later tells nothing yet: any other in its folder does, if it has
 * letters. Where there is none, protect.c asks of the first that it holds. */
static int check_top(struct host_tree *t, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	const struct fd_entry *d;
	char other[NAME_MAX + 1];
	struct folder f;

	if (t->looked)
		return 0;
	t->looked = true;
	fd = open(t->op->src, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	folder_begin(&f, fd);
	while (fd >= 0 && (d = folder_next(&f)))
		if (in_other_letters(d->name, other))
			return leads_past(fd, d->name, other) ? letters_refuse(t->op->src, e) : 0;
	return 0;
}

int plan_letters(struct box_plan *p, struct err *e)
{
	struct host_trees trees = { 0 };
	char whole[PATH_MAX];

	if (host_trees(p, &trees, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];
		struct host_tree *t = lies_over(o) ? tree_of(&trees, o) : NULL;

		if (!t || snprintf(whole, sizeof(whole), "%s%s", t->op->src,
				   o->dst + strlen(t->op->dst)) >= PATH_MAX)
			continue;
		if (check_top(t, e) < 0 ||
		    check_way(whole, strlen(t->op->src), o->kind == OP_COVER, e) < 0)
			return -e->code;
	}
	return 0;
}

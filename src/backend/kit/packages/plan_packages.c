/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/plan_packages.c - what packages ship below /etc and /var/lib.
 *
 * One mount shows brig's copy of all of it (packages.h), and a link at each entry's own place leads
 * there: a link costs a tenth of a mount. The mount comes with the fixed tree; the links come last,
 * where nothing else stands; those of /etc are made before the start where that can be had
 * (plan_links_etc.c). Below a folder that the plan makes itself, because something is
 * mounted in it, there is a link for each thing in that folder. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "backend/kit/packages/packages.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/str.h"

#define PLACE PACKAGES_PLACE

enum { DEPTH_MAX = 16 };

/* Late, something may be there already. */
static bool stands(const struct box_plan *p, const char *path)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (path_under(p->ops[i].dst, path) ||
		    (p->ops[i].kind == OP_BIND && path_under(path, p->ops[i].dst)))
			return true;
	return false;
}

static int show_live(struct box_plan *p, const struct package_entry *v, struct err *e)
{
	struct stat st;

	if (lstat(v->path, &st) < 0 || !S_ISDIR(st.st_mode) || stands(p, v->path))
		return 0;
	if (plan_object(p, v->path, &st, e) < 0)
		return -e->code;
	p->ops[p->op_count - 1].package = v->packages;
	return 0;
}

/* Root's cache is closed to whoever is inside: the parent has to hand the tree over, which takes
 * newer calls of the kernel's. */
static bool can_hand_over(void)
{
	return syscall(SYS_open_tree, -1, "", AT_EMPTY_PATH) < 0 && errno == EBADF;
}

static int show_copy(struct box_plan *p, struct err *e)
{
	const char *tree = p->packages->tree;
	struct stat st;
	struct op *o;

	if (lstat(tree, &st) < 0)
		return err_sys(e, "cannot look at '%s'", tree);
	if (plan_bind_seen(p, tree, PLACE, false, false, &st, e) < 0)
		return -e->code;
	o = &p->ops[p->op_count - 1];
	o->kept = true;
	o->package = "";
	return p->by_root ? plan_hand_over(p, o, &st, e) : 0;
}

static int plan_packages_show(struct box_plan *p, const struct packages *found, struct err *e)
{
	p->packages = found;
	for (size_t i = 0; i < found->n; i++)
		if (found->v[i].live && show_live(p, &found->v[i], e) < 0)
			return -e->code;
	return p->by_root ? 0 : show_copy(p, e);
}

int plan_packages_root(struct box_plan *p, struct err *e)
{
	struct packages *found = arena_alloc(p->arena, sizeof(*found));

	if (!found)
		return err_nomem(e);
	if ((p->by_root && !can_hand_over()) || !packages_find(p->arena, found))
		return 0;
	return plan_packages_show(p, found, e);
}

bool plan_packages_have(const struct box_plan *p, const char *path)
{
	for (size_t i = 0; p->packages && i < p->packages->n; i++)
		if (p->packages->v[i].whole && str_eq(p->packages->v[i].path, path))
			return true;
	return false;
}

bool plan_packages_cpus(struct box_plan *p, const char *list)
{
	char path[PATH_MAX], text[4096];

	if (!plan_packages_have(p, "/sys/devices/system/cpu"))
		return false;
	(void)snprintf(path, sizeof(path), "%s" CPU_ONLINE, p->packages->tree);
	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) >= 0 && str_eq(text, list);
}

bool plan_cache_is_writable(const struct box_plan *p)
{
	char cache[PATH_MAX], real[PATH_MAX], other[PATH_MAX];

	if (state_place(STATE_CACHE, NULL, cache, sizeof(cache)) < 0)
		return true;
	while (!realpath(cache, real)) {
		char *end = strrchr(cache, '/');

		if (errno != ENOENT || !end || end == cache)
			return true;
		*end = '\0';
	}
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && o->writable &&
		    (!realpath(o->src, other) || path_under(real, other)))
			return true;
	}
	return false;
}

/* Late, when all that can be refused by then was: a run that is refused makes nothing. */
static int renew(struct box_plan *p, struct err *e)
{
	struct packages *made = arena_alloc(p->arena, sizeof(*made));

	if (!made)
		return err_nomem(e);
	if (plan_cache_is_writable(p) || !packages_renew(p->arena, made))
		return 0;
	return plan_packages_show(p, made, e);
}

/* What the plan has put below the folders that are linked into: few of all its operations. */
struct linker {
	struct box_plan *plan;
	const char **dirs, **others; /* folders that the plan makes; what else stands there */
	size_t dir_count, other_count;
};

static bool plan_packages_has(const char *const *v, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i], path))
			return true;
	return false;
}

static int stand(struct linker *s, struct err *e)
{
	struct box_plan *p = s->plan;

	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];
		const char **slot;

		if ((o->look != LOOK_NOT && o->skip) ||
		    !(str_starts(o->dst, "/etc") || str_starts(o->dst, "/var") ||
		      str_starts(o->dst, "/sys")))
			continue;
		slot = o->kind == OP_DIR ? ARENA_PUSH(p->arena, s->dirs, s->dir_count)
					 : ARENA_PUSH(p->arena, s->others, s->other_count);
		if (!slot)
			return err_nomem(e);
		*slot = o->dst;
	}
	return 0;
}

static int link_all(struct linker *s, const char *place, const char *packages, int depth,
		    struct err *e);

/* `place` is that of the copy inside, below PLACE. */
static int link_one(struct linker *s, const char *place, const char *packages, int depth,
		    struct err *e)
{
	const char *path = place + strlen(PLACE);
	struct op *o;

	if (plan_packages_has(s->others, s->other_count, path))
		return 0;
	if (plan_packages_has(s->dirs, s->dir_count, path))
		return link_all(s, place, packages, depth, e);
	o = plan_op(s->plan, OP_SYMLINK, path, e);
	if (!o)
		return -e->code;
	o->data = place;
	o->package = packages;
	return 0;
}

/* The same for everything in a folder of the copy. */
static int link_all(struct linker *s, const char *place, const char *packages, int depth,
		    struct err *e)
{
	struct arena *a = s->plan->arena;
	const char *host = arena_printf(a, "%s%s", s->plan->packages->tree, place + strlen(PLACE));
	CLEANUP(fd)
	int fd = host ? open(host, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	const struct fd_entry *n;
	struct folder d;

	if (!host)
		return err_nomem(e);
	if (fd < 0 || depth == 0)
		return 0;
	folder_begin(&d, fd);
	while ((n = folder_next(&d))) {
		const char *below = arena_printf(a, "%s/%s", place, n->name);

		if (!below)
			return err_nomem(e);
		if (link_one(s, below, packages, depth - 1, e) < 0)
			return -e->code;
	}
	return 0;
}

/* What is linked into is there; false: it is not brig's to put something into. */
static int linked_into(struct linker *s, const char *folder, bool *ret, struct err *e)
{
	struct box_plan *p = s->plan;

	for (size_t i = p->op_count; i-- > 0;) {
		const struct op *o = &p->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && path_under(folder, o->dst)) {
			*ret = false;
			return 0;
		}
	}
	*ret = true;
	return plan_packages_has(s->dirs, s->dir_count, folder) ||
			       (plan_parents(p, folder, e) == 0 && plan_op(p, OP_DIR, folder, e))
		       ? 0
		       : -e->code;
}

static int link_into(struct linker *s, const char *folder, struct err *e)
{
	const struct packages *found = s->plan->packages;
	bool any = false, may = false;
	size_t n = strlen(folder);

	for (size_t i = 0; i < found->n; i++) {
		const struct package_entry *v = &found->v[i];

		if (v->live || (v->terminal && !plan_has_terminal(s->plan)) ||
		    memcmp(v->path, folder, n) != 0 || v->path[n] != '/')
			continue;
		if (!any && linked_into(s, folder, &may, e) < 0)
			return -e->code;
		any = true;
		if (may && link_one(s, v->place, v->packages, DEPTH_MAX, e) < 0)
			return -e->code;
	}
	return 0;
}

int plan_packages_links(struct box_plan *p, struct err *e)
{
	struct linker s = { .plan = p };

	if (!p->packages && (!p->by_root || can_hand_over()) && renew(p, e) < 0)
		return -e->code;
	if (!p->packages)
		return 0;
	if ((p->by_root && show_copy(p, e) < 0) || stand(&s, e) < 0 ||
	    link_into(&s, "/etc", e) < 0 || link_into(&s, "/var/lib", e) < 0 ||
	    link_into(&s, "/var/cache", e) < 0 || link_into(&s, "/sys/devices/system", e) < 0)
		return err_wrap(e, "system folder");
	return 0;
}

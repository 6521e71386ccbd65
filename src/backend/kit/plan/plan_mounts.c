/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_mounts.c - the workspace and what the user asked to see, parents first. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"
#include "model/settings/paths.h"
#include "model/request/volume.h"

/* Without a source: what is at dst already, once more (OP_COVER); of a volume that is not made yet,
 * an empty folder. */
struct want {
	const char *src, *dst, *flag;
	bool writable, owned, volume;
};

struct wants {
	struct want *v;
	size_t n;
};

static int plan_mounts_add(struct box_plan *p, struct wants *w, struct want one, struct err *e)
{
	struct want *slot = ARENA_PUSH(p->arena, w->v, w->n);

	if (!slot)
		return err_nomem(e);
	*slot = one;
	return 0;
}

/* A parent's path is a prefix of its child's, so byte order puts it first. */
static int by_target(const void *a, const void *b)
{
	return strcmp(((const struct want *)a)->dst, ((const struct want *)b)->dst);
}

static bool plan_mounts_names(const struct strlist *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], path))
			return true;
	return false;
}

static int collect_volumes(struct box_plan *p, struct wants *w, struct err *e)
{
	const struct spec *s = p->spec;
	struct volume v;

	for (size_t i = 0; i < volumes_of(s); i++) {
		struct want one = { .flag = i < s->caches.n ? "cache" : "volume", .volume = true };

		if (volume_of(s, i, &v, e) < 0)
			return -e->code;
		one.src = s->volume_folders ? s->volume_folders[i] : NULL;
		one.dst = v.target;
		one.writable = !v.read_only;
		if (plan_mounts_add(p, w, one, e) < 0)
			return -e->code;
	}
	return 0;
}

static int plan_mounts_collect(struct box_plan *p, struct wants *w, struct err *e)
{
	const struct spec *s = p->spec;
	bool change = s->policy != POLICY_READONLY;

	if (p->repository && !plan_mounts_names(&s->read, p->repository) &&
	    plan_mounts_add(p, w, (struct want){ p->repository, p->repository, "git", false, true },
			    e) < 0)
		return -e->code;
	if (p->workspace &&
	    plan_mounts_add(p, w, (struct want){ p->workspace, s->inside, "workdir", change, true },
			    e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++) {
		const struct mount_spec *m = &s->mounts.v[i];

		if (plan_mounts_add(p, w,
				    (struct want){ m->source, m->target, "mount", m->writable,
						   m->writable },
				    e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->read.n; i++)
		if (plan_mounts_add(
			    p, w, (struct want){ s->read.v[i], s->read.v[i], "read", false, false },
			    e) < 0)
			return -e->code;
	for (size_t i = 0; i < p->toolchain_count; i++) {
		const char *path = p->toolchains[i].path;

		if (!plan_mounts_names(&s->read, path) && !plan_mounts_names(&s->write, path) &&
		    plan_mounts_add(p, w, (struct want){ path, path, "toolchains", false, true },
				    e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->write.n; i++)
		if (plan_mounts_add(
			    p, w,
			    (struct want){ s->write.v[i], s->write.v[i], "write", true, true },
			    e) < 0)
			return -e->code;
	return 0;
}

/* The tree that decides what stands at dst: the innermost one. */
static const struct want *innermost(const struct wants *w, size_t n, const char *dst)
{
	const struct want *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (path_under(dst, w->v[i].dst) &&
		    (!best || strlen(w->v[i].dst) >= strlen(best->dst)))
			best = &w->v[i];
	return best;
}

static int add_cover(struct box_plan *p, struct wants *w, const char *dst, bool pin, struct err *e)
{
	for (size_t i = 0; i < w->n; i++)
		if (!w->v[i].src && str_eq(w->v[i].dst, dst)) {
			w->v[i].writable &= pin;
			return 0;
		}
	return plan_mounts_add(p, w, (struct want){ .dst = dst, .flag = "read", .writable = pin },
			       e);
}

/* The folders on the way from a tree to what is narrower in it are mounted on themselves: a mount
 * point cannot be renamed, and who renames a folder puts another one in its place. */
static int pin_way(struct box_plan *p, struct wants *w, size_t n, const struct want *tree,
		   const char *inside, struct err *e)
{
	for (const char *slash = inside + strlen(tree->dst); (slash = strchr(slash + 1, '/'));) {
		const char *part = arena_printf(p->arena, "%.*s", (int)(slash - inside), inside);

		if (!part)
			return err_nomem(e);
		if (str_eq(innermost(w, n, part)->dst, tree->dst) &&
		    add_cover(p, w, part, true, e) < 0)
			return -e->code;
	}
	return 0;
}

/* `narrow` is read-only and lies in `tree`, which can be written. At the place of its own it is a
 * tree; what is named to be read cannot be written by the other way either: the workspace, and
 * mounts, show it elsewhere. */
static int hold_narrow(struct box_plan *p, struct wants *w, size_t n, const struct want *narrow,
		       const struct want *tree, struct err *e)
{
	const char *inside =
		arena_printf(p->arena, "%s%s", tree->dst, narrow->src + strlen(tree->src));
	bool own = inside && str_eq(inside, narrow->dst);

	if (!inside)
		return err_nomem(e);
	if (!own && !str_eq(narrow->flag, "read"))
		return 0;
	if (pin_way(p, w, n, tree, inside, e) < 0)
		return -e->code;
	if (own || !str_eq(innermost(w, n, inside)->dst, tree->dst))
		return 0;
	return add_cover(p, w, inside, false, e);
}

static int hold_narrower(struct box_plan *p, struct wants *w, struct err *e)
{
	size_t n = w->n; /* without the covers made here */

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			const struct want narrow = w->v[i], tree = w->v[k]; /* the array may move */

			if (!narrow.writable && tree.writable && path_under(narrow.src, tree.src) &&
			    !str_eq(narrow.src, tree.src) &&
			    hold_narrow(p, w, n, &narrow, &tree, e) < 0)
				return -e->code;
		}
	return 0;
}

/* Another run may move the place away between a look and the engine's mount; the engine would make
 * it anew, as root, where the caller cannot remove it. */
static int check_kept_home(const struct box_plan *p, const struct want *w, struct err *e)
{
	if (!p->by_name || p->spec->home != HOME_KEEP || !path_under(w->dst, p->home))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM,
			  "choose a target elsewhere, such as /data; or --home private; or the "
			  "backend native or bwrap",
			  "%s: '%.200s' is in a kept HOME: no engine mounts there, as another run "
			  "may change it meanwhile",
			  w->flag, w->dst);
}

/* brig makes no mount point inside a host tree: it would stay behind, or be seen by others. */
static int mount_point_exists(struct box_plan *p, const struct want *w, struct err *e)
{
	for (size_t i = p->op_count; i-- > 0;) {
		const struct op *o = &p->ops[i];
		CLEANUP(fd) int fd = -1;
		const char *host;

		if ((o->kind != OP_BIND && o->kind != OP_BIND_FD) || !path_under(w->dst, o->dst))
			continue;
		if (o->stored)
			return 0;
		host = arena_printf(p->arena, "%s%s", o->src, w->dst + strlen(o->dst));
		fd = host ? fd_open_nolinks(AT_FDCWD, host, O_PATH, 0) : -ENOMEM;
		if (fd >= 0 || (host && w->src &&
				str_eq(host, w->src))) /* the same, and missing: so it says */
			return 0;
		(void)err_set(e, ERR_USAGE, ENOENT, "%s: '%s' has no place to be mounted on",
			      w->flag, w->dst);
		if (o->kept)
			return err_hint(e,
					"in a kept HOME it must be a folder or file, and no link: "
					"make it inside first, in a run without this mount");
		return err_hint(e, "make '%s' on the host first, or choose a target outside '%s'",
				host ? host : w->dst, o->dst);
	}
	return 0;
}

/* The tree that decides what stands at dst so far: the last one bound at or above it. */
static const struct op *tree_at(const struct box_plan *p, const char *dst)
{
	for (size_t i = p->op_count; i-- > 0;) {
		const struct op *o = &p->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && path_under(dst, o->dst))
			return o;
	}
	return NULL;
}

/* Nobody asked for the repository around the workspace: it may have to stay behind. */
static bool is_around(const struct box_plan *p, const struct op *o)
{
	return p->repository && str_eq(o->dst, p->repository) &&
	       !plan_mounts_names(&p->spec->read, p->repository);
}

/* A wish to read what is shown there already, and cannot be written there either. What is narrower
 * than the tree around it is bound over it. */
static bool seen_already(const struct box_plan *p, const struct want *w)
{
	const struct op *o = tree_at(p, w->dst);

	return o && !is_around(p, o) && o->kind == OP_BIND && !w->writable && !o->writable &&
	       !(p->layered && str_eq(o->src, p->workspace)) && str_eq(o->src, o->dst) &&
	       str_eq(w->src, w->dst);
}

/* The command could not even begin to write: say so before it starts. */
static int check_writable(struct box_plan *p, struct err *e)
{
	char word[160];
	struct stat st;

	if (!p->workspace || p->spec->policy != POLICY_WORKSPACE_WRITE)
		return 0;
	if (faccessat(AT_FDCWD, p->workspace, W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	/* Somebody mounted it so, and may mean it: what only reads works. */
	if (errno == EROFS && p->layered)
		return 0;
	if (errno == EROFS)
		return plan_note(p, "the workspace is mounted read-only: the command cannot write "
				    "to it"),
		       0;
	if (p->by_root)
		return 0;
	if (stat(p->workspace, &st) < 0)
		return err_sys(e, "cannot look at '%s'", p->workspace);
	(void)err_set(e, ERR_PERMISSION, EACCES,
		      "Permission denied: the user inside cannot write to '%s' (owner %u)",
		      p->workspace, st.st_uid);
	if (st.st_uid == geteuid())
		return err_hint(e, "use --policy readonly, or: chmod u+rwx %s",
				str_shell_word(p->workspace, word, sizeof(word)));
	return err_hint(e, "use --policy readonly, or: sudo chown -R %u:%u %s", geteuid(),
			getegid(), str_shell_word(p->workspace, word, sizeof(word)));
}

static int private_workspace(struct box_plan *p, struct err *e)
{
	int r;

	if (p->spec->private_workspace && !p->spec->no_workspace)
		plan_note(p, "the current folder is not a project: an empty private workspace is "
			     "used (see "
			     "--workdir)");
	r = plan_stored(p, STORE_WORKSPACE, p->spec->inside, e);
	return r ? (r < 0 ? r : 0) : plan_private(p, p->spec->inside, 0755, e);
}

/* One that is not made yet takes its place in the plan all the same. */
static int volume_at(struct box_plan *p, const struct want *w, struct err *e)
{
	if (check_kept_home(p, w, e) < 0 || mount_point_exists(p, w, e) < 0)
		return -e->code;
	if (!w->src)
		return plan_private(p, w->dst, 0700, e);
	return plan_bind_volume(p, w->src, w->dst, w->writable, e) < 0 ? err_wrap(e, "%s", w->flag)
								       : 0;
}

static int one_want(struct box_plan *p, const struct want *w, struct err *e)
{
	if (w->volume)
		return volume_at(p, w, e);
	if (!w->src) {
		struct op *o = plan_op(p, OP_COVER, w->dst, e);

		if (o)
			o->writable = w->writable;
		return o ? 0 : -e->code;
	}
	if (seen_already(p, w))
		return 0;
	if (check_kept_home(p, w, e) < 0 || mount_point_exists(p, w, e) < 0)
		return -e->code;
	if (p->layered && str_eq(w->flag, "workdir"))
		return plan_layer(p, e) < 0 ? err_wrap(e, "workspace.mode overlay") : 0;
	if (plan_bind(p, w->src, w->dst, w->writable, w->owned, e) < 0)
		return err_wrap(e, "%s", w->flag);
	return w->writable && !str_eq(w->flag, "workdir") ? plan_programs(p, w->flag, w->src, e)
							  : 0;
}

/* The git folder outside of the workspace lies over what was asked for in there. */
static int check_below(const char *path, const char *flag, const struct op *git, struct err *e)
{
	if (!path_under(path, git->dst))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM,
			  "--git read shows the git folder read-only, --git none not at all",
			  "%s: '%.200s' is in the git folder of the workspace's repository, which "
			  "has rules of its own",
			  flag, path);
}

static int check_volumes_below(const struct spec *s, const struct op *git, struct err *e)
{
	struct volume v;

	for (size_t i = 0; i < volumes_of(s); i++)
		if (volume_of(s, i, &v, e) < 0 || check_below(v.target, "volume", git, e) < 0)
			return -e->code;
	return 0;
}

int plan_git_grants(const struct box_plan *p, size_t from, struct err *e)
{
	const struct spec *s = p->spec;

	for (size_t i = from; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if (o->kind != OP_BIND && o->kind != OP_BIND_FD)
			continue;
		for (size_t k = 0; o->writable && k < s->read.n; k++)
			if (check_below(s->read.v[k], "read", o, e) < 0)
				return -e->code;
		for (size_t k = 0; k < s->write.n; k++)
			if (check_below(s->write.v[k], "write", o, e) < 0)
				return -e->code;
		for (size_t k = 0; k < s->mounts.n; k++)
			if (check_below(s->mounts.v[k].target, "mount", o, e) < 0)
				return -e->code;
		if (check_volumes_below(s, o, e) < 0)
			return -e->code;
	}
	return 0;
}

int plan_mounts(struct box_plan *p, struct err *e)
{
	struct wants w = { 0 };

	if (check_writable(p, e) < 0 || plan_mounts_collect(p, &w, e) < 0)
		return -e->code;
	if (!p->workspace && private_workspace(p, e) < 0)
		return -e->code;
	if (hold_narrower(p, &w, e) < 0 || collect_volumes(p, &w, e) < 0)
		return -e->code;
	if (w.n)
		qsort(w.v, w.n, sizeof(*w.v), by_target);
	for (size_t i = 0; i < w.n; i++)
		if (one_want(p, &w.v[i], e) < 0)
			return -e->code;
	return 0;
}

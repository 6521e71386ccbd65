/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_guard.c - what no tree may show, whatever way it was asked for.
 *
 * brig's own state, record and settings, file systems of the host's kernel, sockets of the host.
 * The trees and what is guarded are compared by their place on their file system: a link or a bind
 * that leads to one of them is as good as its path. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/files/home.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

static bool is_tree(const struct op *o)
{
	return o->kind == OP_BIND || o->kind == OP_BIND_FD;
}

static int plan_guard_show(struct box_plan *p, struct sight *s, struct shown one, struct err *e)
{
	struct shown *slot = ARENA_PUSH(p->arena, s->v, s->n);

	if (!slot)
		return err_nomem(e);
	*slot = one;
	return 0;
}

/* The workspace under a layer: its sockets and pipes are dead, whatever is looked for there. */
static bool is_layered(const struct box_plan *p, const struct op *o)
{
	return p->layered && str_eq(o->src, p->workspace) && str_eq(o->dst, p->spec->inside);
}

/* A tree is carried in with what is mounted below it. */
static int show_below(struct box_plan *p, struct sight *s, const struct op *o, struct err *e)
{
	for (size_t i = 0; i < s->mounts.n; i++) {
		const struct mount *m = &s->mounts.v[i];
		struct shown one = { .at = { .dev = m->dev, .path = m->root, .real = m->point },
				     .writable = o->writable,
				     .folder = true,
				     .system = o->fixed };

		if (!path_under(m->point, o->src) || str_eq(m->point, o->src))
			continue;
		if (is_layered(p, o))
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "take --workspace direct, or unmount it first",
					  "workspace.mode overlay: '%.200s' is mounted in the "
					  "workspace, and an overlay shows no mounts",
					  m->point);
		one.inside = arena_printf(p->arena, "%s%s", o->dst, m->point + strlen(o->src));
		if (!one.inside)
			return err_nomem(e);
		if (plan_guard_show(p, s, one, e) < 0)
			return -e->code;
	}
	return 0;
}

static int plan_guard_look(struct box_plan *p, struct sight *s, struct err *e)
{
	if (mounts_read(p->arena, &s->mounts, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];
		struct shown one = { .inside = o->dst,
				     .writable = o->writable,
				     .folder = S_ISDIR(o->ident.type),
				     .asked = true,
				     .system = o->fixed,
				     .kept = o->kept };
		int r;

		if (!is_tree(o) || (o->fixed && !one.folder))
			continue;
		/* The system's own folders are many, and no links. */
		r = o->fixed ? mounts_where_text(&s->mounts, p->arena, o->src, &one.at)
			     : mounts_find(&s->mounts, p->arena, o->src, &one.at);
		if (r < 0)
			return err_errno(e, r, "cannot find the mount of '%s'", o->src);
		if (one.folder && show_below(p, s, o, e) < 0)
			return -e->code;
		one.folder &= !is_layered(p, o);
		if (plan_guard_show(p, s, one, e) < 0)
			return -e->code;
	}
	return 0;
}

/* --- the kernel's own file systems --- */

static bool in_kernelfs(const struct sight *s, const struct op *o)
{
	const struct mount *best = NULL;

	for (size_t i = 0; i < s->mounts.n; i++)
		if (path_under(o->src, s->mounts.v[i].point) &&
		    (!best || strlen(s->mounts.v[i].point) >= strlen(best->point)))
			best = &s->mounts.v[i];
	return best && best->kernel;
}

/* Something empty over it; it cannot be taken off inside. */
static int blank(struct box_plan *p, const char *host, const char *inside, struct err *e)
{
	struct stat st;
	bool folder = lstat(host, &st) < 0 || S_ISDIR(st.st_mode);

	return plan_op(p, folder ? OP_MASK : OP_HIDE, inside, e) ? 0 : -e->code;
}

static int leave_out_kernelfs(struct box_plan *p, const struct sight *s, struct err *e)
{
	size_t n = p->op_count;
	bool any = false;

	for (size_t k = 0; k < n; k++) {
		const struct op o = p->ops[k]; /* the array may move */

		if (!is_tree(&o))
			continue;
		if (!o.fixed && in_kernelfs(s, &o))
			return err_refuse(e, ERR_POLICY, EPERM,
					  "put what is needed of it into a file, and show that",
					  "'%s' is part of a file system of the host's kernel",
					  o.src);
		for (size_t i = 0; i < s->mounts.n; i++) {
			const struct mount *m = &s->mounts.v[i];
			const char *inside;

			if (!m->kernel || !path_under(m->point, o.src))
				continue;
			inside = arena_printf(p->arena, "%s%s", o.dst, m->point + strlen(o.src));
			if (!inside)
				return err_nomem(e);
			if (blank(p, m->point, inside, e) < 0)
				return -e->code;
			any = true;
		}
	}
	if (any)
		plan_note(p,
			  "a file system of the host's kernel lies below a folder that is shown: "
			  "it is left out");
	return 0;
}

/* --- brig's own state, and the record in it --- */

static int plan_guard_refuse(const struct shown *v, const char *what, const char *hint,
			     struct err *e)
{
	(void)err_set(e, ERR_POLICY, EPERM, "'%.200s' would %s", v->at.real, what);
	return err_hint(e, "%s", hint);
}

/* What brig keeps for itself: no run may write to it, or make the folder before brig does. Nor is
 * it anything to read: whoever can open a file can lock it, and brig would wait. In a tree that
 * shows it there is an empty folder in its place; nobody is shown it alone, or a part of it. */
struct kept {
	struct where at;
	bool there;                      /* nothing is masked before there is something */
	const char *writable, *parts;    /* what a tree would do with it */
	const char *elsewhere, *instead; /* what to do, in these cases */
};

static int guard_kept(struct box_plan *p, const struct sight *s, const struct kept *k,
		      struct err *e)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct shown *v = &s->v[i];
		bool around = within(&k->at, &v->at), part = within(&v->at, &k->at);
		const char *inside;

		if (v->kept && part && !around) /* this run's own HOME */
			continue;
		if (v->writable && (around || part))
			return plan_guard_refuse(v, k->writable, k->elsewhere, e);
		if (part && (!around || v->asked))
			return plan_guard_refuse(v, k->parts, k->instead, e);
		if (!around || !k->there)
			continue;
		inside = arena_printf(p->arena, "%s%s", v->inside, rest_of(&k->at, &v->at));
		if (!inside)
			return err_nomem(e);
		if (!plan_op(p, OP_MASK, inside, e))
			return -e->code;
	}
	return 0;
}

static int guard_record(struct box_plan *p, const struct sight *s, const char *path, struct err *e)
{
	struct kept record = { .there = true,
			       .writable = "make the folder of brig's own record writable",
			       .parts = "show brig's own record",
			       .elsewhere = "choose another folder, or another audit.dir",
			       .instead = "brig audit export gives what is in it" };

	if (access(path, F_OK) < 0 || mounts_find(&s->mounts, p->arena, path, &record.at) < 0)
		return 0;
	return guard_kept(p, s, &record, e);
}

static int guard_place(struct box_plan *p, const struct sight *s, const char *place, bool cache,
		       struct err *e)
{
	struct kept state = {
		.writable = cache ? "make brig's own cache folder writable"
				  : "make brig's own state folder writable",
		.parts = cache ? "show brig's own cache" : "show brig's own state",
		.elsewhere =
			cache ? "choose another folder, or set XDG_CACHE_HOME to one elsewhere"
			      : "choose another folder, or set XDG_STATE_HOME to one elsewhere",
		.instead = "copy what is needed of it to another folder, and show that",
	};

	/* What this user cannot reach is no place for its state. */
	if (mounts_find(&s->mounts, p->arena, place, &state.at) < 0)
		return 0;
	state.there = !state.at.missing;
	return guard_kept(p, s, &state, e);
}

/* In every place where it may be: the next run may come with other variables. */
static int guard_places(struct box_plan *p, const struct sight *s, const char *listed,
			struct err *e)
{
	const char *before[STATE_PLACES];
	char place[PATH_MAX];
	size_t n = 0;

	for (int i = 0; i < STATE_PLACES; i++) {
		bool again = false;

		if (state_place(i, listed, place, sizeof(place)) < 0)
			continue;
		for (size_t k = 0; k < n && !again; k++)
			again = str_eq(place, before[k]);
		if (again)
			continue;
		before[n] = arena_strdup(p->arena, place);
		if (!before[n++])
			return err_nomem(e);
		if (guard_place(p, s, place, i >= STATE_CACHE, e) < 0)
			return -e->code;
	}
	return p->spec->audit.dir ? guard_record(p, s, p->spec->audit.dir, e) : 0;
}

/* --- what else brig reads or writes on the host --- */

const char *plan_settings_place(struct box_plan *p, int which, const char *listed)
{
	const char *base = which == 0   ? getenv("XDG_CONFIG_HOME")
			   : which == 1 ? getenv("HOME")
					: listed;

	if (!base || base[0] != '/' || strlen(base) >= PATH_MAX)
		return NULL;
	return arena_printf(p->arena, "%s%s/brig", base, which == 0 ? "" : "/.config");
}

#define ELSEWHERE "choose another folder, or --policy readonly"
#define SETTINGS "make brig's own settings writable"
#define IRONCLAW ".ironclaw/.env"

/* A path of the host's that no tree may let the command write to, by whatever links it is reached;
 * with all that lies in it where it is a folder. */
struct shut {
	const char *path, *what, *hint;
	const char *except; /* a tree that may: there it is covered; or NULL */
	bool folder;
};

/* 1: it is not there. */
static int guard_shut(struct box_plan *p, const struct sight *s, const struct shut *k,
		      struct err *e)
{
	struct where at;

	if (!k->path)
		return err_nomem(e);
	if (mounts_find(&s->mounts, p->arena, k->path, &at) < 0)
		return 1;
	for (size_t i = 0; i < s->n; i++) {
		const struct shown *v = &s->v[i];

		if (v->writable && (within(&at, &v->at) || (k->folder && within(&v->at, &at))) &&
		    !(k->except && str_eq(v->at.real, k->except)))
			return plan_guard_refuse(v, k->what, k->hint, e);
	}
	return at.missing;
}

static int guard_setting(struct box_plan *p, const struct sight *s, const char *folder,
			 const char *name, struct err *e)
{
	const struct shut file = { .path = arena_printf(p->arena, "%s/%s", folder, name),
				   .what = SETTINGS,
				   .hint = ELSEWHERE };

	return guard_shut(p, s, &file, e);
}

/* One of these places. The file itself may be a link to elsewhere, as those who keep their settings
 * in a repository have it; in a folder that is not there it cannot be. */
static int guard_folder(struct box_plan *p, const struct sight *s, const char *path, struct err *e)
{
	const struct shut folder = {
		.path = path, .what = SETTINGS, .hint = ELSEWHERE, .folder = true
	};
	int r = guard_shut(p, s, &folder, e);

	return r ? r : guard_setting(p, s, path, "config.yaml", e);
}

/* A run that writes the settings of the next one is contained by nothing. */
static int guard_settings(struct box_plan *p, const struct sight *s, const char *listed,
			  struct err *e)
{
	const char *own = getenv("HOME");
	bool same = own && listed && str_eq(own, listed);

	for (int i = 0; i < (same ? SETTINGS_PLACES - 1 : SETTINGS_PLACES); i++) {
		const char *folder = plan_settings_place(p, i, listed);

		if (folder && guard_folder(p, s, folder, e) < 0)
			return -e->code;
	}
	/* IronClaw's file in a home folder is obeyed as well. */
	if (own && own[0] == '/' && guard_setting(p, s, own, IRONCLAW, e) < 0)
		return -e->code;
	return listed && !same ? guard_setting(p, s, listed, IRONCLAW, e) : 0;
}

/* A file of settings in the workspace is covered; by another way it would be the command's. That of
 * metrics is neither changed inside nor a link put in its place, by whatever name it is called. */
static int guard_files(struct box_plan *p, const struct sight *s, struct err *e)
{
	const struct shut files[] = {
		{ .path = p->spec->config_file,
		  .what = "let the command change the file of --config",
		  .hint = ELSEWHERE,
		  .except = p->workspace },
		{ .path = p->spec->metrics_textfile,
		  .what = "let the command change metrics.textfile",
		  .hint = "choose a folder for it that the command cannot write to" },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (files[i].path && guard_shut(p, s, &files[i], e) < 0)
			return -e->code;
	return 0;
}

int plan_guard(struct box_plan *p, struct err *e)
{
	struct sight *s = arena_alloc(p->arena, sizeof(*s));
	char home[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	if (!s)
		return err_nomem(e);
	*s = (struct sight){ 0 };
	if (plan_guard_look(p, s, e) < 0 || plan_ways(p, s, e) < 0 ||
	    guard_places(p, s, listed, e) < 0 || guard_settings(p, s, listed, e) < 0 ||
	    guard_files(p, s, e) < 0 || leave_out_kernelfs(p, s, e) < 0 || plan_letters(p, e) < 0)
		return -e->code;
	p->sight = s;
	return 0;
}

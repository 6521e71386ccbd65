/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/bwrap/args.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/survey/placeholder.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/paths.h"

struct maker {
	struct box_plan *plan;
	const struct bwrap_features *has;
	struct bwrap_args *args;
	bool failed; /* no memory; looked at once, in the end */
};

static void args_put(struct maker *m, struct bwrap_arg a)
{
	struct bwrap_arg *slot = ARENA_PUSH(m->plan->arena, m->args->v, m->args->n);

	if (slot && a.text)
		*slot = a;
	else
		m->failed = true;
}

static void text(struct maker *m, const char *s)
{
	args_put(m, (struct bwrap_arg){ .text = s });
}

static void args_option(struct maker *m, const char *name, const char *value)
{
	text(m, name);
	text(m, value);
}

static void args_put_number(struct maker *m, const char *name, const char *fmt,
			    unsigned long long value)
{
	char digits[32];

	(void)snprintf(digits, sizeof(digits), fmt[1] == 'o' ? "%04llo" : "%llu", value);
	args_option(m, name, arena_strdup(m->plan->arena, digits));
}

static void descriptor(struct maker *m, const char *name, enum bwrap_fd fd, const char *shown,
		       size_t op)
{
	text(m, name);
	args_put(m, (struct bwrap_arg){ .text = arena_printf(m->plan->arena, "FD:%s", shown),
					.fd = fd,
					.op = op });
}

/* The last tree bound over dst. */
static const struct op *tree_of(const struct box_plan *p, const char *dst)
{
	for (size_t i = p->op_count; i-- > 0;) {
		const struct op *o = &p->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD) && path_under(dst, o->dst))
			return o;
	}
	return NULL;
}

const char *bwrap_host_path(struct box_plan *p, const struct op *o)
{
	const struct op *t = tree_of(p, o->dst);

	return t ? arena_printf(p->arena, "%s%s", t->src, o->dst + strlen(t->dst)) : o->dst;
}

bool bwrap_one_folder(const struct box_plan *p)
{
	return p->prepared_count == 1 && S_ISDIR(p->prepared[0].ident.type);
}

/* Where bubblewrap finds it: root's idmapped trees are not at their own place. */
static const char *source(struct box_plan *p, const struct op *o)
{
	const struct op *t = tree_of(p, o->dst);

	if (!t || t->kind != OP_BIND_FD)
		return bwrap_host_path(p, o);
	if (bwrap_one_folder(p))
		return arena_printf(p->arena, BWRAP_TREES "%s", o->dst + strlen(t->dst));
	return arena_printf(p->arena, BWRAP_TREES "/%d%s", t->fd_slot, o->dst + strlen(t->dst));
}

bool bwrap_by_fd(const struct op *o)
{
	return o->kind == OP_BIND && !o->fixed;
}

static void bind(struct maker *m, const struct op *o)
{
	const char *src = source(m->plan, o);
	size_t index = (size_t)(o - m->plan->ops);

	if (m->has->bind_fd && bwrap_by_fd(o) && src)
		descriptor(m, o->writable ? "--bind-fd" : "--ro-bind-fd", BWRAP_OP, src, index);
	else
		args_option(m, o->writable ? "--bind" : "--ro-bind", src);
	text(m, str_eq(o->dst, PLAN_UPPER) ? BWRAP_LAYER : o->dst);
}

bool bwrap_may_hold(const struct box_plan *p, size_t op)
{
	for (size_t i = 0; p->ops[op].kind == OP_COVER && i < p->protected_count; i++) {
		const struct protected_name *n = &p->protected[i];

		if (n->covered && n->op == op)
			return !n->existed || S_ISSOCK(n->was.ident.type);
	}
	return false;
}

/* A protected name: itself, or what is seen of a placeholder. */
static void cover(struct maker *m, const struct op *o)
{
	size_t op = (size_t)(o - m->plan->ops);
	const char *host = bwrap_may_hold(m->plan, op) ? bwrap_host_path(m->plan, o) : NULL;
	CLEANUP(fd) int fd = host ? fd_open_nolinks(AT_FDCWD, host, O_PATH, 0) : -1;

	if (fd < 0 || !placeholder_reads(fd)) {
		bind(m, o);
		return;
	}
	args_put_number(m, "--perms", "%o", 0444);
	descriptor(m, "--ro-bind-data", BWRAP_OP, o->dst, op);
	text(m, o->dst);
}

/* An empty folder that nobody can write to. */
static void empty_folder(struct maker *m, const char *dst)
{
	args_put_number(m, "--perms", "%o", 0555);
	args_put_number(m, "--size", "%u", 4096);
	args_option(m, "--tmpfs", dst);
	args_option(m, "--remount-ro", dst);
}

/* The mode alone keeps it from everybody but the host's root, who is never inside. */
static bool closed_anyway(const struct stat *st)
{
	return S_ISREG(st->st_mode) && !(st->st_mode & 0077) && st->st_uid == 0;
}

static bool passes(const struct stat *folder, const struct stat *top)
{
	mode_t bits = folder->st_mode & S_IXOTH;

	if (top && folder->st_uid == top->st_uid)
		bits |= folder->st_mode & S_IXUSR;
	if (top && folder->st_gid == top->st_gid)
		bits |= folder->st_mode & S_IXGRP;
	return bits;
}

size_t bwrap_closed(const char *top, const char *path, bool mapped)
{
	size_t n = str_eq(top, "/") ? 0 : strlen(top);
	struct stat own, st;
	char part[PATH_MAX];

	if (stat(top, &own) < 0 || strlen(path) >= sizeof(part))
		return 0;
	for (const char *slash = strchr(path + n, '/'); slash; slash = strchr(slash + 1, '/')) {
		n = (size_t)(slash - path);
		(void)snprintf(part, sizeof(part), "%.*s", n ? (int)n : 1, path);
		if (stat(part, &st) == 0 && !passes(&st, mapped ? &own : NULL))
			return n;
	}
	return 0;
}

/* Behind a folder that is closed to the user inside, as one that root started meets it, bubblewrap
 * can mount nothing, and gives up. Nor can anybody look into it: an empty one in its place takes
 * nothing away. */
static bool behind_closed(struct maker *m, const struct op *o, const char *host)
{
	const struct op *t = tree_of(m->plan, o->dst);
	size_t n = m->plan->by_root && t ? bwrap_closed(t->src, host, t->kind == OP_BIND_FD) : 0;

	if (!n)
		return false;
	empty_folder(m, arena_printf(m->plan->arena, "%s%.*s", t->dst, (int)(n - strlen(t->src)),
				     host + strlen(t->src)));
	return true;
}

/* The procfs inside has the names of the one out here. */
static void mask(struct maker *m, const struct op *o)
{
	const char *host = bwrap_host_path(m->plan, o);
	struct stat st;

	if (!host || lstat(host, &st) < 0 || (o->kind == OP_MASK && closed_anyway(&st)))
		return;
	if (behind_closed(m, o, host))
		return;
	if (S_ISDIR(st.st_mode)) {
		empty_folder(m, o->dst);
		return;
	}
	args_option(m, "--dev-bind", "/dev/null");
	text(m, o->dst);
}

/* Sysctls of the new namespaces would belong to the user inside, since bubblewrap maps it to their
 * root for a while: the host's view of them, which shows who reads it its own values, is mounted
 * over them. */
static void proc(struct maker *m, const struct op *o)
{
	args_option(m, "--proc", o->dst);
	args_option(m, "--ro-bind", "/proc/sys");
	text(m, "/proc/sys");
	args_option(m, "--remount-ro", o->dst);
	/* One more, for selfwrite.h: behind a folder that nobody enters without a capability, in a
	 * root that is read-only, so that nobody opens it. */
	args_put_number(m, "--perms", "%o", 0);
	args_option(m, "--dir", BWRAP_PROCS_FOLDER);
	args_option(m, "--proc", BWRAP_PROCS);
}

static void private(struct maker *m, const struct op *o)
{
	struct bwrap_args *a = m->args;

	args_put_number(m, "--perms", "%o", o->mode);
	args_put_number(m, "--size", "%u", m->plan->limits.tmp);
	args_option(m, "--tmpfs", o->dst);
	if (a->tmpfs_count < ARRAY_LEN(a->tmpfs))
		a->tmpfs[a->tmpfs_count++] = o->dst;
	else
		m->failed = true;
}

static void args_folder(struct maker *m, const struct op *o)
{
	/* The devices, their links and devpts come with it. */
	if (str_eq(o->dst, "/dev")) {
		args_option(m, "--dev", o->dst);
		return;
	}
	if (path_under(o->dst, "/dev") || str_eq(o->dst, "/proc"))
		return;
	args_put_number(m, "--perms", "%o", o->mode);
	args_option(m, "--dir", o->dst);
}

static void file(struct maker *m, const struct op *o)
{
	args_put_number(m, "--perms", "%o", 0644);
	descriptor(m, "--file", BWRAP_OP, o->dst, (size_t)(o - m->plan->ops));
	text(m, o->dst);
}

static void operation(struct maker *m, const struct op *o)
{
	switch (o->kind) {
	case OP_DIR:
		args_folder(m, o);
		break;
	case OP_FILE:
		file(m, o);
		break;
	case OP_SYMLINK:
		if (path_under(o->dst, "/dev"))
			break;
		args_option(m, "--symlink", o->data);
		text(m, o->dst);
		break;
	case OP_PRIVATE:
		private
		(m, o);
		break;
	case OP_COVER:
		if (!str_eq(o->dst, CODE_FOLDER)) /* read-only with the root */
			cover(m, o);
		break;
	case OP_BIND:
	case OP_BIND_FD:
		if (o->copy) /* bubblewrap reads its whole list of mounts after each */
			file(m, o);
		else
			bind(m, o);
		break;
	case OP_SHOW:
		args_put_number(m, "--perms", "%o", 0644);
		descriptor(m, "--ro-bind-data", BWRAP_OP, o->src, (size_t)(o - m->plan->ops));
		text(m, o->dst);
		break;
	case OP_CODE:
		args_put_number(m, "--perms", "%o", 0444);
		descriptor(m, "--ro-bind-data", BWRAP_OP, o->dst, (size_t)(o - m->plan->ops));
		text(m, o->dst);
		break;
	case OP_PROC:
		proc(m, o);
		break;
	case OP_MASK:
	case OP_HIDE: /* gone by now: bubblewrap would make a mount point for it in the workspace */
		mask(m, o);
		break;
	case OP_DEVICE:
	case OP_DEVPTS:
	case OP_IMAGE:   /* refused */
	case OP_LAYER:   /* brig's, inside: bwrap_inside.c */
	case OP_OVERLAY: /* refused, or left out and said, by the plan */
	case OP_KINDS:
		break;
	}
}

static void namespaces(struct maker *m)
{
	static const char *const always[] = { "--unshare-user", "--unshare-pid", "--unshare-ipc",
					      "--unshare-uts", "--unshare-cgroup" };

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		text(m, always[i]);
	if (m->plan->network != NETWORK_HOST)
		text(m, "--unshare-net");
	args_put_number(m, "--uid", "%u", m->plan->uid);
	args_put_number(m, "--gid", "%u", m->plan->gid);
	args_option(m, "--hostname", m->plan->hostname);
	text(m, "--clearenv");
	text(m, "--new-session");
	text(m, "--as-pid-1"); /* brig's own init reaps */
}

/* The layer comes last: it lies in a folder that is made with procfs. */
static void layer(struct maker *m)
{
	for (size_t i = 0; i < m->plan->op_count; i++)
		if (str_eq(m->plan->ops[i].dst, PLAN_UPPER))
			bind(m, &m->plan->ops[i]);
}

/* A private folder that nothing is put into can come last. bubblewrap reads the list of mounts
 * after each bind, and the later a mount is made the fewer times it is read. */
static bool can_wait(const struct box_plan *p, const struct op *o)
{
	if (o->kind != OP_PRIVATE)
		return false;
	for (const struct op *later = o + 1; later < p->ops + p->op_count; later++)
		if (path_under(later->dst, o->dst))
			return false;
	return true;
}

int bwrap_args(struct box_plan *p, const struct bwrap_features *f, struct bwrap_args *ret,
	       struct err *e)
{
	struct maker m = { .plan = p, .has = f, .args = ret };

	*ret = (struct bwrap_args){ 0 };
	namespaces(&m);
	for (int late = 0; late < 2; late++)
		for (size_t i = 0; i < p->op_count; i++)
			if (!p->ops[i].skip && can_wait(p, &p->ops[i]) == late &&
			    !str_eq(p->ops[i].dst, PLAN_UPPER))
				operation(&m, &p->ops[i]);
	layer(&m);
	args_option(&m, "--remount-ro", "/dev");
	args_option(&m, "--remount-ro", "/");
	args_option(&m, "--chdir", p->cwd);
	descriptor(&m, "--info-fd", BWRAP_INFO, "info", 0);
	return m.failed ? err_nomem(e) : 0;
}

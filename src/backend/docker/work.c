/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/work.c - a workspace that the user inside could not write to, started by root; and
 * a folder that brig keeps for root, which is root's on disk.
 *
 * An engine cannot map the ids of a mount, but it binds what it is shown: in the run's folder,
 * where only root looks, there is a copy of the tree's mount in which its owner on disk
 * appears as the user inside. An engine with a view of its own may not see it, and would bind the
 * folder below; a file in there gives that away before anything is started. It is named after the
 * run: what an earlier command has left in the tree is not taken for it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "backend/docker/guard.h"
#include "backend/kit/plan/ids.h"
#include "base/fd.h"

#define WORK "work"
#define KEPT "kept"

static void name_of(char out[64], const char *id, const char *what)
{
	(void)snprintf(out, 64, "%.32s.%s", id, what);
}

/* The file in the folder below. */
static void below_of(char out[64], const char *id)
{
	(void)snprintf(out, 64, ".brig-not-mounted-%.32s", id);
}

static int make_folder(int dir, const char *name, const char *id)
{
	CLEANUP(fd) int fd = -1, file = -1;
	char below[64];

	below_of(below, id);
	if (mkdirat(dir, name, 0700) < 0)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	file = fd < 0 ? -1 : openat(fd, below, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return file < 0 ? -errno : 0;
}

static int show(struct guard *g, const struct prepared_tree *t, const char *what,
		char out[WORK_PATH_MAX], struct err *e)
{
	const struct backend_plan *p = g->plan;
	CLEANUP(fd) int tree = -1;
	char name[64];

	if (g->engine.rootless) /* has no say over a mount of root's */
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP, "a rootless engine cannot show '%s'",
			       t->src);
	name_of(name, g->s->id, what);
	tree = ids_map_tree(t, p->uid, p->gid, NULL, e);
	if (tree < 0)
		return -e->code;
	if (make_folder(g->ledger.dir, name, g->s->id) < 0 ||
	    move_mount(tree, "", g->ledger.dir, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "cannot show '%s' to the engine", t->src);
	(void)snprintf(out, WORK_PATH_MAX, "%s/%s", g->ledger.path, name);
	return 0;
}

static int show_workspace(struct guard *g, struct err *e)
{
	const struct backend_plan *p = g->plan;
	const struct prepared_tree t = { .src = p->box->workspace,
					 .ident = p->box->workspace_ident,
					 .disk_uid = p->disk_uid,
					 .disk_gid = p->disk_gid };

	return show(g, &t, WORK, g->work, e) < 0 ? docker_not_writable(p, e) : 0;
}

/* There is one at most: a companion has no kept HOME. */
static const struct op *kept_of(const struct backend_plan *p)
{
	for (size_t i = 0; i < p->box->op_count; i++)
		if (p->box->ops[i].kept)
			return &p->box->ops[i];
	return NULL;
}

static int show_kept(struct guard *g, struct err *e)
{
	const struct op *o = kept_of(g->plan);
	const struct prepared_tree t = { .kept = true, .src = o->src, .ident = o->ident };

	return show(g, &t, KEPT, g->kept, e);
}

int work_show(struct guard *g, struct err *e)
{
	if (g->plan->map_work && show_workspace(g, e) < 0)
		return -e->code;
	return g->plan->map_kept ? show_kept(g, e) : 0;
}

/* Does the engine see what is mounted there, and not what lies below? 1: below. */
static int sees_below(struct guard *g, const char *target, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(8192);
	struct engine_call q = { .method = "HEAD" };
	char below[64];

	below_of(below, g->s->id);
	buf_printf(&b, "/containers/%s/archive?path=", g->container);
	engine_escape(&b, target);
	engine_escape(&b, "/");
	engine_escape(&b, below);
	q.path = buf_str(&b);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	return a.status != 404;
}

int work_check(struct guard *g, struct err *e)
{
	bool companion = g->plan->companion;
	int r = g->plan->map_work ? sees_below(g, g->plan->box->cwd, e) : 0;

	if (r)
		return r < 0 ? r : docker_not_writable(g->plan, e);
	r = g->plan->map_kept ? sees_below(g, kept_of(g->plan)->dst, e) : 0;
	return r > 0 ? err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  companion ? "leave its 'data' out" : "leave --home keep out",
				  "the engine does not see the %s that is kept for root",
				  companion ? "data" : "HOME")
		     : r;
}

static void remove_one(int dir, const char *id, const char *what)
{
	char path[96], name[64], below[64];
	CLEANUP(fd) int fd = -1;

	name_of(name, id, what);
	below_of(below, id);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)unlinkat(fd, below, 0);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

void work_remove(int dir, const char *id)
{
	remove_one(dir, id, WORK);
	remove_one(dir, id, KEPT);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/work.c - a workspace that the user inside could not write to, started by root; and
 * the HOME that brig keeps for root, which is root's on disk.
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
#include "base/files/fd.h"

#define WORK "work"
#define HOME "home"

static void work_name_of(char out[64], const char *id, const char *what)
{
	(void)snprintf(out, 64, "%.32s.%s", id, what);
}

/* The file in the folder below. */
static void below_of(char out[64], const char *id)
{
	(void)snprintf(out, 64, ".brig-not-mounted-%.32s", id);
}

static int work_make_folder(int dir, const char *name, const char *id)
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

static int tree_show(struct guard *g, const struct prepared_tree *t, const char *what,
		     char out[WORK_PATH_MAX], struct err *e)
{
	const struct backend_plan *p = g->plan;
	CLEANUP(fd) int tree = -1;
	char name[64];

	if (g->engine.rootless) /* has no say over a mount of root's */
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP, "a rootless engine cannot show '%s'",
			       t->src);
	work_name_of(name, g->s->id, what);
	tree = ids_map_tree(t, p->uid, p->gid, NULL, e);
	if (tree < 0)
		return -e->code;
	if (work_make_folder(g->ledger.dir, name, g->s->id) < 0 ||
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

	return tree_show(g, &t, WORK, g->work, e) < 0 ? docker_not_writable(p, e) : 0;
}

static int show_home(struct guard *g, struct err *e)
{
	struct prepared_tree t = { .kept = true };

	for (size_t i = 0; i < g->plan->box->op_count; i++)
		if (g->plan->box->ops[i].kept && !g->plan->box->ops[i].stored) {
			t.src = g->plan->box->ops[i].src;
			t.ident = g->plan->box->ops[i].ident;
		}
	return tree_show(g, &t, HOME, g->home, e);
}

/* What lies in a folder that only the caller can reach, root gives to the user inside, and needs no
 * mount that an engine would have to see. */
static int work_give(const struct guard *g, const struct op *o, struct err *e)
{
	const struct backend_plan *p = g->plan;
	CLEANUP(fd) int fd = open(o->src, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct ident now;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open '%s'", o->src);
	now = ident_of(&st);
	if (!ident_same(&now, &o->ident))
		return err_replaced(e, o->src);
	return fchown(fd, p->uid, p->gid) < 0 ? err_sys(e, "cannot give '%s' away", o->src) : 0;
}

/* The data of a companion, and what of a long-lived sandbox outlives a stop. */
static int give_all(const struct guard *g, struct err *e)
{
	const struct box_plan *b = g->plan->box;

	for (size_t i = 0; geteuid() == 0 && i < b->op_count; i++) {
		const struct op *o = &b->ops[i];

		if (!o->stored && !(o->kept && g->plan->companion))
			continue;
		if (o->stored && g->engine.rootless)
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "use an engine of root's, or set limits.tmp, so that "
					  "HOME and /tmp are in memory",
					  "a rootless engine cannot be given root's '%s'", o->src);
		if (work_give(g, o, e) < 0)
			return -e->code;
	}
	return 0;
}

int work_show(struct guard *g, struct err *e)
{
	if (give_all(g, e) < 0)
		return -e->code;
	if (g->plan->map_work && show_workspace(g, e) < 0)
		return -e->code;
	return g->plan->map_home ? show_home(g, e) : 0;
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
	int r = g->plan->map_work ? sees_below(g, g->plan->box->cwd, e) : 0;

	if (r)
		return r < 0 ? r : docker_not_writable(g->plan, e);
	r = g->plan->map_home ? sees_below(g, g->plan->box->home, e) : 0;
	return r > 0 ? err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "leave --home keep out",
				  "the engine does not see the HOME that is kept for root")
		     : r;
}

static void work_remove_one(int dir, const char *id, const char *what)
{
	char path[96], name[64], below[64];
	CLEANUP(fd) int fd = -1;

	work_name_of(name, id, what);
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
	work_remove_one(dir, id, WORK);
	work_remove_one(dir, id, HOME);
}

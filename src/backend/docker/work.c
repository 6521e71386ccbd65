/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/work.c - a workspace that the user inside could not write to, started by root.
 *
 * An engine cannot map the ids of a mount, but it binds what it is shown: in the run's folder,
 * where only root looks, there is a copy of the workspace's mount in which its owner on disk
 * appears as the user inside. An engine with a view of its own may not see it, and would bind the
 * folder below; a file in there gives that away before anything is started. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "backend/docker/guard.h"
#include "backend/kit/plan/ids.h"
#include "base/fd.h"

#define BELOW ".brig-not-mounted"

static void name_of(char out[64], const char *id)
{
	(void)snprintf(out, 64, "%.32s.work", id);
}

static int make_folder(int dir, const char *name)
{
	CLEANUP(fd) int fd = -1, file = -1;

	if (mkdirat(dir, name, 0700) < 0)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	file = fd < 0 ? -1 : openat(fd, BELOW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return file < 0 ? -errno : 0;
}

int work_show(struct guard *g, struct err *e)
{
	const struct backend_plan *p = g->plan;
	const struct prepared_tree t = { .src = p->box->workspace,
					 .ident = p->box->workspace_ident,
					 .disk_uid = p->disk_uid,
					 .disk_gid = p->disk_gid };
	CLEANUP(fd) int tree = -1;
	char name[64];

	if (g->engine.rootless) /* has no say over a mount of root's */
		return docker_not_writable(p, e);
	name_of(name, g->s->id);
	tree = ids_map_tree(&t, p->uid, p->gid, NULL, e);
	if (tree < 0)
		return docker_not_writable(p, e);
	if (make_folder(g->ledger.dir, name) < 0 ||
	    move_mount(tree, "", g->ledger.dir, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "cannot show '%s' to the engine", p->box->workspace);
	(void)snprintf(g->work, sizeof(g->work), "%s/%s", g->ledger.path, name);
	return 0;
}

int work_check(struct guard *g, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(8192);
	struct engine_call q = { .method = "HEAD" };

	buf_printf(&b, "/containers/%s/archive?path=", g->container);
	engine_escape(&b, g->plan->box->cwd);
	engine_escape(&b, "/" BELOW);
	q.path = buf_str(&b);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	return a.status == 404 ? 0 : docker_not_writable(g->plan, e);
}

void work_remove(int dir, const char *id)
{
	char path[96], name[64];
	CLEANUP(fd) int fd = -1;

	name_of(name, id);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)unlinkat(fd, BELOW, 0);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

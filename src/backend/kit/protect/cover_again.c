/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/cover_again.c - a file that the user's own git or editor has replaced while a
 * run lasts is covered anew, and the run goes on.
 *
 * They rename a new file over the old one, and the kernel takes the cover off with it: for a moment
 * the command can open the new file, write to it, give it a second name or put another in its
 * place. None of that is prevented; what it has gained by then is made worthless. Of a
 * configuration of git's, which is obeyed all the time, in this order:
 *
 *   lost -> covered: no name inside leads to it for writing any more
 *        -> leased: nobody has it open for writing, and nobody will without our knowing first:
 *           neither by a descriptor from that moment, which leads past the cover (O_PATH), nor by a
 *           second name, nor by the mounts of another run
 *        -> judged: what it says differs by plain settings alone
 *        -> as before
 *        -> when no command runs any more, a copy in its place: what was got hold of, and may have
 *           been given to another run, leads to a file without a name
 *
 * Any other file is covered, and compared when the run has ended (kept_files.c). Whatever fails on
 * the way ends the run, as it does when somebody opens the file later on. */
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/kit/protect/protect_internal.h"
#include "base/sys/wait.h"
#include "proc/spawn.h"

#define QUIET_MS 5
#define TRIES 1000 /* a millisecond each: git replaces the file once for each setting */
#define ABSENT                                                                                     \
	200 /* of them, while nothing is there: some editors move the old one aside first          \
	     */

/* ---- in the sandbox's mount namespace ---- */

static int cover_again_enter(int space)
{
	CLEANUP(fd) int user = ioctl(space, NS_GET_USERNS);

	return user < 0 || setns(user, CLONE_NEWUSER) < 0 || setns(space, CLONE_NEWNS) < 0 ? -errno
											   : 0;
}

/* -ESTALE: something else is there by now. */
static int put_cover(const char *inside, const struct ident *want)
{
	struct mount_attr a = { .attr_set =
					MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	CLEANUP(fd) int at = fd_open_nolinks(AT_FDCWD, inside, O_PATH, 0);
	CLEANUP(fd) int tree = -1;
	struct statvfs fs;
	struct ident now;
	struct stat st;

	if (at < 0 || fstat(at, &st) < 0 || fstatvfs(at, &fs) < 0)
		return at < 0 ? at : -errno;
	now = ident_of(&st);
	if (!ident_same(&now, want))
		return -ESTALE;
	if (fs.f_flag & ST_RDONLY)
		return 0;
	tree = open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return -errno;
	return move_mount(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
		       ? -errno
		       : 0;
}

/* By a process of its own: nobody leaves a user namespace again. */
static int cover_inside(int space, const char *inside, const struct ident *want)
{
	pid_t pid = space < 0 ? -1 : proc_fork(NULL);
	int status;

	if (pid == 0) {
		int r = cover_again_enter(space);

		_exit(r < 0 ? EPERM : -put_cover(inside, want));
	}
	status = pid < 0 ? -EPERM : proc_wait(pid);
	if (status < 0)
		return status;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EPERM;
}

/* ---- the lease ---- */

/* A signal that nobody minds: we ask. */
static bool take_lease(int fd)
{
	return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
}

static bool is_leased(const struct kept_file *k)
{
	return k->leased >= 0 && fcntl(k->leased, F_GETLEASE) == F_RDLCK;
}

bool protect_leases_hold(const struct protect *t)
{
	for (size_t i = 0; !t->resting && i < t->kept_count; i++)
		if (t->kept[i].leased >= 0 && !is_leased(&t->kept[i]))
			return false;
	return true;
}

/* Who opens the file for writing waits for us, and nobody would look. What another run was given
 * of it is to be worth nothing by then. */
void protect_rest(struct protect *t)
{
	t->asleep = true;
	for (size_t i = 0; i < t->kept_count; i++) {
		struct kept_file *k = &t->kept[i];

		if (k->leased < 0)
			continue;
		if (k->bare)
			protect_config_own(t, k);
		k->bare = false;
		(void)fcntl(k->leased, F_SETLEASE, F_UNLCK);
		t->resting = true;
	}
}

/* ---- one file ---- */

struct again {
	struct protect *t;
	struct live_name *l;
	int space;
	int absent;
	bool anew;
};

static bool lose(const struct again *a, enum lost_why why)
{
	a->t->lost = a->l->n->path;
	a->t->lost_why = why;
	return false;
}

/* A configuration that is covered, and is what the name leads to on the host. */
static bool cover_again_hold(struct again *a, int *fd)
{
	struct kept_file *k = a->l->kept;
	struct stamp stamp;
	struct stat now;

	if (!take_lease(*fd) || fstat(*fd, &now) < 0 || now.st_nlink > 1)
		return lose(a, LOST_OPEN);
	stamp = stamp_of(&now);
	if (!(k->leased >= 0 && stamp_same(&stamp, &k->stamp)) &&
	    protect_config_change(a->t, k->copy, *fd) == GITSAY_HOSTILE)
		return lose(a, LOST_SETTINGS);
	(void)fd_close(k->leased);
	k->leased = TAKE_FD(*fd);
	k->stamp = stamp;
	k->bare = !a->t->asleep;
	return true;
}

/* As a name that was missing from the start: what the command makes there is found afterwards. */
static int cover_again_gone(const struct again *a)
{
	if (a->l->kept->config)
		return lose(a, LOST_NAME) ? 1 : -1;
	a->t->plan->ops[a->l->n->op].skip = a->l->kept->gone = true;
	return 1;
}

/* 1: done; 0: it was replaced once more; -1: lost. */
static int try_once(struct again *a)
{
	struct live_name *l = a->l;
	CLEANUP(fd) int fd = protect_file_open(l->tree->fd, l->n->path);
	struct ident now, there;
	struct stat st;
	int r;

	if (fd == -ENOENT)
		return a->absent++ < ABSENT ? 0 : cover_again_gone(a);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return lose(a, LOST_NAME) ? 1 : -1;
	/* The kernel takes the cover off while the name still leads to the old file. */
	if (!st.st_nlink)
		return 0;
	now = ident_of(&st);
	if (ident_same(&now, &l->cover) && (l->kept->leased < 0 || is_leased(l->kept)))
		return 1;
	r = cover_inside(a->space, l->n->inside, &now);
	if (r < 0 && r != -ESTALE && r != -ENOENT)
		return lose(a, LOST_COVER) ? 1 : -1;
	/* Nobody is asked, which takes longer, before git is done. */
	if (r == 0)
		wait_moment(QUIET_MS);
	if (r < 0 || !protect_look_at(l, &there) || !ident_same(&there, &now))
		return 0;
	if (l->kept->config && !cover_again_hold(a, &fd))
		return -1;
	l->cover = now;
	a->anew = true;
	return 1;
}

static bool cover_file(struct again *a)
{
	int r = 0;

	a->absent = 0;
	for (int tries = 0; r == 0 && tries < TRIES; tries++) {
		if (tries)
			wait_moment(1);
		r = try_once(a);
	}
	return r == 1 || (r == 0 && lose(a, LOST_COVER));
}

/* All that is covered, once; a->anew says whether anything was lost. */
static bool cover_names(struct again *a)
{
	struct protect *t = a->t;

	a->anew = false;
	for (a->l = t->names; a->l < t->names + t->name_count; a->l++) {
		const struct kept_file *k = a->l->kept;

		if (!protect_has_cover(t, a->l))
			continue;
		if (!k && !protect_in_place(a->l))
			return lose(a, LOST_NAME);
		if (k && !t->resting && k->leased >= 0 && !is_leased(k))
			return lose(a, LOST_OPEN);
		if (k && !cover_file(a))
			return false;
	}
	t->resting = false;
	t->lost = NULL;
	return true;
}

bool protect_cover_again(struct protect *t, int space, int mountinfo)
{
	struct again a = { .t = t, .space = space };

	t->asker = (struct reader_asker){ .avoid = t->asker.avoid }; /* each look has its own */
	/* git may have replaced it once more; what nobody replaced was lost by other means. */
	for (int tries = 0; tries < TRIES && cover_names(&a); tries++)
		if (protect_covers_hold(t, mountinfo))
			return true;
		else if (!a.anew)
			return false;
	return false;
}

bool protect_wake(struct protect *t, int space, int mountinfo)
{
	bool held = !t->resting || protect_cover_again(t, space, mountinfo);

	t->asleep &= !held;
	return held;
}

int protect_lost(const struct protect *t, const char *what, struct err *e)
{
	static const char *const hints[] = {
		[LOST_NAME] = "a program on the host replaced or removed it; change it while no "
			      "run is there, then start again",
		[LOST_COVER] = "a program on the host replaced or removed it, and it could not be "
			       "covered anew (on docker none can); save it in place, or while no "
			       "run is there, and start again",
		[LOST_OPEN] = "it was replaced on the host, and then opened for writing, or given "
			      "a second name, by the command or another program; look at it, then "
			      "start again",
		[LOST_SETTINGS] = "it was replaced on the host, with more than new names, remotes "
				  "and branches; make other settings while no run is there, then "
				  "start again",
	};

	return err_refuse(e, ERR_POLICY, EPERM, hints[t->lost_why],
			  "a protected name in the workspace lost its cover%s%.200s: the %s was "
			  "ended",
			  t->lost ? ", " : "", t->lost ? t->lost : "", what);
}

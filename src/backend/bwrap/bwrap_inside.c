/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/bwrap_inside.c - from bubblewrap's exec to where kit/process/inside.h takes over.
 *
 * bubblewrap has made the namespaces and mounts and dropped the capabilities. What it cannot do
 * follows here: to lock the mounts, the look whether each tree is the one that was meant, resource
 * limits, Landlock, the filter, the look whether all of it holds. */
#include "backend/bwrap/bwrap_inside.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/bwrap/args.h"
#include "backend/bwrap/letter.h"
#include "backend/kit/process/layer_mount.h"
#include "backend/kit/seccomp/seccomp.h"
#include "base/files/fd.h"

static int same_objects(const struct letter *l, struct err *e)
{
	for (size_t i = 0; i < l->check_count; i++) {
		const struct letter_check *c = &l->checks[i];
		struct ident now;
		struct stat st;

		if (lstat(c->path, &st) < 0)
			return err_sys(e, "cannot look at '%s' inside", c->path);
		now = ident_of(&st);
		if (c->ident.ino ? !ident_same(&now, &c->ident) : now.type != c->ident.type)
			return err_replaced(e, c->path);
	}
	return 0;
}

/* Some machines let bubblewrap make namespaces and nobody else. There its mounts stay as they are,
 * which the monitor tells; who asked for the strict profile did not mean that. */
static int bwrap_inside_lock(struct inside *c, int *fds, struct err *e)
{
	bool entered;
	int r = inside_lock(c->proc, &entered, e);

	c->proc = fd_close(c->proc);
	/* With the capabilities of the new namespace, until inside_lock_down. */
	if (entered)
		fds[INIT_FD_PROCS] = open(BWRAP_PROCS, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (entered || (r != -EPERM && r != -EACCES))
		return r;
	if (c->profile == SECCOMP_STRICT)
		return err_hint(e, "the strict profile needs it: use another backend");
	c->unlocked = true;
	return 0;
}

/* The workspace through its layer. The layer stays at its place, which is a locked mount by now,
 * behind a folder that nobody enters without a capability, and under an empty one. */
static int bwrap_inside_layer(const struct inside *c, struct err *e)
{
	CLEANUP(fd) int target = open(c->layered, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(fd) int layer = open(BWRAP_LAYER, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (c->unlocked)
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOTSUP, "take --workspace direct, or another backend",
			"a security module lets bubblewrap have namespaces and brig none: "
			"there can be no overlay workspace");
	if (target < 0 || layer < 0)
		return err_sys(e, "cannot open the layer");
	if (layer_mount(target, layer, e) < 0)
		return -e->code;
	if (mount("none", BWRAP_LAYER, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
		  "size=4k,mode=000") < 0)
		return err_sys(e, "cannot take the layer away");
	return chdir(c->cwd) < 0 ? err_sys(e, "cannot enter '%.200s'", c->cwd) : 0;
}

static int bwrap_inside_enter(struct letter *l, int *fds, struct err *e)
{
	struct inside *c = &l->inside;

	if (inside_close(c, &c->proc, 1, e) < 0 || inside_count(c, fds, e) < 0 ||
	    inside_sockets(c, fds, e) < 0 || bwrap_inside_lock(c, fds, e) < 0 ||
	    same_objects(l, e) < 0 || (c->layered[0] && bwrap_inside_layer(c, e) < 0) ||
	    inside_open(c, fds, e) < 0)
		return -e->code;
	return inside_lock_down(c, fds, e);
}

/* None of ours is to reach the command; it gets its streams by dup2. */
static void close_on_exec(const struct inside *c)
{
	const int all[] = { c->control, c->in, c->out, c->err };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i] >= 0)
			(void)fcntl(all[i], F_SETFD, FD_CLOEXEC);
}

_Noreturn void bwrap_inside(int letter)
{
	int fds[INIT_FD_ALL], abi;
	struct err e = { 0 };
	struct letter l;
	struct stat st;
	void *data;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "brig-init", 0, 0, 0);
	memset(fds, -1, sizeof(fds));
	if (fstat(letter, &st) < 0 || st.st_size == 0)
		_exit(125);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, letter, 0);
	if (data == MAP_FAILED || letter_read(data, (size_t)st.st_size, &l, &e) < 0)
		_exit(124);
	close_on_exec(&l.inside);
	abi = bwrap_inside_enter(&l, fds, &e);
	if (abi < 0 || inside_check(&l.inside, &e) < 0 || inside_permit(&l.inside, &e) < 0)
		init_fail(l.inside.control, &e);
	init_main(&l.inside, abi, fds);
}

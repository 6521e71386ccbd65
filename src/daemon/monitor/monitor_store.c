/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_store.c - what of a sandbox outlives a stop, and how much that may be.
 *
 * The folders are made here and shown by the plan. What is in them was written by hostile code:
 * nothing of it is opened but folders, by descriptor, and no link is followed. While the sandbox
 * runs the file system is asked how much room there is; where it has become less the store is
 * looked through, and now and then while anything runs: others may have made room meanwhile, as
 * may who is inside, in the workspace. One that does nothing costs nothing. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/files/fd.h"
#include "base/bytes/random.h"
#include "base/files/claim.h"
#include "base/files/tree.h"
#include "base/sys/clock.h"
#include "daemon/monitor/monitor_companions.h"
#include "daemon/monitor/monitor_internal.h"
#include "model/outcome/store.h"
#include "sandbox/layers/layer.h"
#include "sandbox/manager.h"

#define LOOK_US ((uint64_t)2 * 1000 * 1000)
#define ANYWAY_US ((uint64_t)60 * 1000 * 1000)
#define SHARE 20                  /* of the time between two looks that one takes at most */
#define STEP ((uint64_t)64 << 20) /* bytes less on the file system that call for a look */
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* The command owns its folders and may have closed them; nobody but us can put another in its
 * place. */
static int make_one(int store, const struct store_folder *f, struct err *e)
{
	struct stat st;

	if (mkdirat(store, f->name, f->mode) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a folder for what is kept");
	if (fstatat(store, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "cannot look at what is kept");
	/* Root gives them to the user in a container. */
	if (!S_ISDIR(st.st_mode) || (geteuid() && st.st_uid != geteuid()))
		return err_refuse(e, ERR_POLICY, EPERM, "delete the sandbox, and create it again",
				  "'%s' in the store of the sandbox is not what brig made",
				  f->name);
	if ((st.st_mode & 07777) != f->mode && fchmodat(store, f->name, f->mode, 0) < 0)
		return err_sys(e, "cannot open what is kept to its owner");
	return 0;
}

static int make_all(struct monitor *m, struct err *e)
{
	if (mkdirat(m->folder, MONITOR_STORE, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a folder for what is kept");
	m->store = openat(m->folder, MONITOR_STORE, FOLDER);
	if (m->store < 0)
		return err_sys(e, "cannot open the folder of what is kept");
	for (int i = 0; i < STORE_PLACES; i++)
		if (make_one(m->store, &store_folders[i], e) < 0)
			return -e->code;
	return 0;
}

static int too_large(const struct monitor *m, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EDQUOT, "delete it, or create one with a larger home_size",
			  "the sandbox keeps more than home_size, %llu MiB",
			  (unsigned long long)(m->store_most >> 20));
}

static uint64_t monitor_store_room(const struct monitor *m)
{
	struct statfs fs;

	return fstatfs(m->store, &fs) < 0 ? 0 : (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
}

/* Is it too much? What cannot be looked at, because it is too deep, is. */
static bool monitor_store_is_over(struct monitor *m)
{
	uint64_t bytes = 0, begun = clock_us(), ended, pause;
	CLEANUP(fd) int own = openat(m->store, ".", FOLDER);
	int r = own < 0 ? -errno : tree_size(own, m->store_most, &bytes);

	ended = clock_us();
	pause = SHARE * (ended - begun);
	m->store_next = ended + (pause > ANYWAY_US ? pause : ANYWAY_US);
	m->store_room = monitor_store_room(m);
	/* It may be closing its folders at this moment: the next look tells. */
	return r == -ELOOP || (r == 0 && bytes > m->store_most);
}

static int name_it(const struct monitor *m, struct spec *s, struct err *e)
{
	char by[64], path[PATH_MAX];
	ssize_t n;

	(void)snprintf(by, sizeof(by), "/proc/self/fd/%d", m->store);
	n = readlink(by, path, sizeof(path) - 1);
	if (n <= 0)
		return err_sys(e, "cannot tell where the store is");
	path[n] = '\0';
	s->store = arena_strdup(s->arena, path);
	return s->store ? 0 : err_nomem(e);
}

static void monitor_store_on_look(struct loop_timer *t, uint64_t now)
{
	struct monitor *m = CONTAINER_OF(t, struct monitor, looks);
	uint64_t left = monitor_store_room(m);
	bool anyway;

	if (m->over)
		return;
	anyway = now >= m->store_next && sandbox_living(m->sandbox);
	if (left > m->store_room)
		m->store_room = left;
	if ((anyway || left + STEP < m->store_room) && monitor_store_is_over(m)) {
		monitor_note(m, "what the sandbox keeps (HOME, /tmp) has grown beyond home_size: "
				"it is stopped");
		monitor_stop(m, "disk", 0);
		return;
	}
	if (sandbox_living(m->sandbox) || companions_living(m))
		loop_at(m->loop, t, now + LOOK_US);
}

void store_wake(struct monitor *m)
{
	if (m->looks.due && !m->looks.at)
		loop_at(m->loop, &m->looks, clock_us() + LOOK_US);
}

/* ---- the layer over its workspace ---- */

static bool read_layer(int folder, const char *name, char id[CLAIM_ID + 1])
{
	return fd_read_file(folder, name, id, CLAIM_ID + 1) == CLAIM_ID && claim_is_id(id);
}

/* Its name is written down before there is one: none is ever without its sandbox. */
int store_layer(const struct monitor *m, struct spec *s, struct err *e)
{
	char id[CLAIM_ID + 1];
	int r;

	if (!spec_has_layer(s))
		return 0;
	if (!read_layer(m->folder, MONITOR_LAYER, id)) {
		if (random_hex(id, sizeof(id), e) < 0)
			return -e->code;
		r = monitor_write(m, MONITOR_LAYER, id, strlen(id));
		if (r < 0)
			return err_errno(e, r, "cannot write down which layer is the sandbox's");
	}
	s->layer_id = arena_strdup(s->arena, id);
	s->layer_of = m->id;
	return s->layer_id ? 0 : err_nomem(e);
}

void store_release_layer(int folder, const char *name)
{
	char id[CLAIM_ID + 1];

	if (read_layer(folder, name, id))
		layer_release(id);
}

int store_open(struct monitor *m, struct spec *s, struct err *e)
{
	const char *engine;
	struct statfs fs;

	m->store = -1;
	if (spec_over_ssh(s) || spec_on_host(s))
		return 0;
	if (companion_backend(s, &engine, e) < 0)
		return -e->code;
	if (engine && !spec_keeps_owner(s, geteuid())) {
		monitor_note(m, "the user in the container is somebody else than the caller: what "
				"is written outside of the workspace and of mounts is in the "
				"container, and a stop drops it");
		return 0;
	}
	if (engine && !s->read_only_root)
		monitor_note(m,
			     "what is written to the container's root is dropped by a stop: HOME "
			     "and /tmp are kept");
	if (spec_wrote(s, FIELD_TMP)) {
		monitor_note(m, "limits.tmp is set: HOME and /tmp are in memory, and a stop drops "
				"them");
		return 0;
	}
	m->store_most = s->home_size;
	if (make_all(m, e) < 0 || name_it(m, s, e) < 0)
		return -e->code;
	if (monitor_store_is_over(m))
		return too_large(m, e);
	if (s->limits.disk && (fstatfs(m->store, &fs) < 0 || fs.f_type == TMPFS_MAGIC))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "set XDG_STATE_HOME to a folder on a disk, or leave --disk out",
				  "limits.disk cannot count what is kept in memory");
	m->looks.due = monitor_store_on_look;
	store_wake(m);
	return 0;
}

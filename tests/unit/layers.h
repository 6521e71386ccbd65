/* SPDX-License-Identifier: Apache-2.0 */
/* unit/layers.h - real layers for tests: a workspace, an overlay over it in namespaces of its own,
 * and a script that writes there. */
#pragma once

#include "unit.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "base/files/fd.h"
#include "sandbox/layers/layer.h"

static char top[PATH_MAX]; /* has the workspace `w`, and `outside` */

static inline void shell(const char *script)
{
	must(system(script) == 0); /* NOLINT: a script of the test's own */
}

static inline int layers_enter(void **state UNUSED)
{
	enter_scratch(top);
	set_below("XDG_CACHE_HOME", top, "cache");
	set_below("XDG_STATE_HOME", top, "state");
	must(mkdir("w", 0755) == 0 && mkdir("outside", 0755) == 0);
	return 0;
}

static inline int layers_leave(void **state UNUSED)
{
	shell("chmod -R u+rwX . 2>/dev/null || true");
	leave_scratch(top);
	return 0;
}

static inline void map_own(const char *file, unsigned id)
{
	char line[64];

	(void)snprintf(line, sizeof(line), "%u %u 1", id, id);
	must(fd_write_file(AT_FDCWD, file, line) == 0);
}

struct overlay_run {
	const char *layer, *workspace, *script;
};

static inline void overlay_main(void *arg)
{
	const struct overlay_run *r = arg;
	char options[3 * PATH_MAX + 128], work[PATH_MAX + 16];
	unsigned uid = geteuid(), gid = getegid();

	must(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
	(void)fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
	map_own("/proc/self/uid_map", uid);
	map_own("/proc/self/gid_map", gid);
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	(void)snprintf(work, sizeof(work), "%s/work", r->layer);
	(void)snprintf(options, sizeof(options),
		       "lowerdir=%s,upperdir=%s/upper,workdir=%s,userxattr,volatile", r->workspace,
		       r->layer, work);
	must(mount("overlay", r->workspace, "overlay", 0, options) == 0);
	must(chdir(r->workspace) == 0);
	must(system(r->script) == 0); /* NOLINT: a script of the test's own */
}

static inline void layer_begin(struct layer *l, unsigned n)
{
	char path[PATH_MAX + 8], id[CLAIM_ID + 1];
	const struct layer_want want = { .id = id, .workspace = path };
	struct err e = { 0 };

	(void)snprintf(path, sizeof(path), "%s/w", top);
	(void)snprintf(id, sizeof(id), "%032x", n);
	*l = LAYER_NONE;
	(void)usleep(12000); /* what was made within a tick counts as changed since */
	if (layer_make(&want, l, &e) < 0)
		fail_msg("%s", e.what);
}

/* What the script does in the workspace is in the layer. */
static inline void layer_run(struct layer *l, const char *script)
{
	struct overlay_run r = { l->path, l->about.workspace, script };

	assert_true(in_child(overlay_main, &r, 60));
}

static inline void layer_close(struct layer *l)
{
	char id[CLAIM_ID + 1];
	struct err e = { 0 };

	if (layer_finish(l, &e) < 0)
		fail_msg("%s", e.what);
	(void)snprintf(id, sizeof(id), "%s", l->about.id);
	layer_done(l);
	*l = LAYER_NONE;
	if (layer_open(id, NULL, LAYER_ALONE, l, &e) < 0)
		fail_msg("%s", e.what);
}

static inline void layer_of(struct layer *l, const char *script)
{
	layer_begin(l, 1);
	layer_run(l, script);
	layer_close(l);
}

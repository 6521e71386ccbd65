/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/layer_mount.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/files/fd.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Without `volatile` every file is synced before its first change. No other option: neither
 * redirects nor files without content are ever in a layer. */
static const char *const flags[] = { "userxattr", "volatile" };

struct layers {
	int lower, upper, work;
};

static int give(int fs, const struct layers *l)
{
	const struct {
		const char *key;
		int fd;
	} layers[] = { { "lowerdir+", l->lower },
		       { "upperdir", l->upper },
		       { "workdir", l->work } };

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (fsconfig(fs, FSCONFIG_SET_FLAG, flags[i], NULL, 0) < 0)
			return -errno;
	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		if (fsconfig(fs, FSCONFIG_SET_FD, layers[i].key, NULL, layers[i].fd) < 0)
			return -errno;
	return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

/* -errno: this kernel does not take layers so, or takes none at all. */
static int mount_by_descriptor(int target, const struct layers *l)
{
	CLEANUP(fd) int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	CLEANUP(fd) int tree = -1;

	if (fs < 0 || give(fs, l) < 0)
		return -errno;
	tree = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (tree < 0 ||
	    move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

static int mount_by_name(int target, const struct layers *l)
{
	char options[192], at[32];

	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", target);
	(void)snprintf(options, sizeof(options),
		       "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/"
		       "%d,userxattr,volatile",
		       l->lower, l->upper, l->work);
	return mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

int layer_mount(int target, int layer, struct err *e)
{
	CLEANUP(fd) int lower = openat(target, ".", FOLDER);
	CLEANUP(fd) int upper = openat(layer, "upper", FOLDER);
	CLEANUP(fd) int work = openat(layer, "work", FOLDER);
	struct layers l = { .lower = lower, .upper = upper, .work = work };

	if (lower < 0 || upper < 0 || work < 0)
		return err_sys(e, "cannot open the layer");
	if (mount_by_descriptor(target, &l) == 0 || mount_by_name(target, &l) == 0)
		return 0;
	(void)err_sys(e, "an overlay over the workspace is not to be had here");
	e->kind = ERR_UNAVAILABLE;
	return err_hint(e, "it needs overlayfs in user namespaces (Linux 5.11) and no mounts in "
			   "the workspace; --workspace direct needs neither");
}

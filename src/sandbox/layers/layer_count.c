/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/layers/layer_count.c - how much a layer has. Hostile code made it: folder after folder by
 * descriptor, to a bounded depth and number, nothing else opened. */
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/files/folder.h"
#include "base/files/tree.h"
#include "sandbox/layers/layer_internal.h"

#define ORIGIN "user.overlay.origin" /* of what was in the workspace before */
#define OPAQUE "user.overlay.opaque" /* of a folder in the place of another */

struct layer_tally {
	uint64_t names, bytes, most;
	bool more;
};

/* Only passed through: its own mark says that it was there, and it was not replaced. */
static bool was_there(int folder)
{
	return fgetxattr(folder, ORIGIN, NULL, 0) >= 0 && fgetxattr(folder, OPAQUE, NULL, 0) < 0;
}

static void count_in(struct layer_tally *t, int folder, unsigned depth);

static void count_one(struct layer_tally *t, int folder, const char *name, unsigned depth)
{
	CLEANUP(fd) int below = -1;
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	t->bytes += (uint64_t)st.st_blocks * 512;
	if (S_ISDIR(st.st_mode)) {
		below = openat(folder, name, LAYER_FOLDER);
		t->more |= below < 0 || depth >= TREE_DEPTH;
		if (below >= 0 && depth < TREE_DEPTH)
			count_in(t, below, depth + 1);
		if (below >= 0 && was_there(below))
			return;
	}
	t->names++;
}

static void count_in(struct layer_tally *t, int folder, unsigned depth)
{
	const struct fd_entry *en;
	struct folder d;

	folder_begin(&d, folder);
	while ((en = folder_next(&d))) {
		if (t->names >= t->most) {
			t->more = true;
			return;
		}
		count_one(t, folder, en->name, depth);
	}
	t->more |= d.error != 0;
}

int layer_count(const struct layer *l, uint64_t most, uint64_t *names, uint64_t *bytes, bool *more)
{
	struct layer_tally t = { .most = most };

	if (lseek(l->upper, 0, SEEK_SET) < 0)
		return -errno;
	count_in(&t, l->upper, 1);
	if (lseek(l->upper, 0, SEEK_SET) < 0) /* for whoever reads it next */
		return -errno;
	*names = t.names;
	*bytes = t.bytes;
	*more = t.more;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/add_layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "image/store/sums.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

bool layer_is_there(const struct image_store *s, const char *hex)
{
	struct stat st;

	return fstatat(s->layers, hex, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int layer_part(const struct image_store *s, char name[64], struct err *e)
{
	char hex[33];
	int fd;

	if (random_hex(hex, sizeof(hex), e) < 0)
		return -e->code;
	(void)snprintf(name, 64, IMAGE_PART "%s", hex);
	if (mkdirat(s->layers, name, 0700) < 0)
		return err_sys(e, "cannot make a folder for an image");
	fd = openat(s->layers, name, FOLDER);
	return fd < 0 ? err_sys(e, "cannot open a folder for an image") : fd;
}

static int layer_compare(const struct layer_unpacked *u, const struct layer_want_sums *w,
			 struct err *e)
{
	if ((w->sent && !str_eq(u->sent, w->sent)) ||
	    (w->size != UINT64_MAX && u->sent_bytes != w->size))
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the layer is refused: its bytes are not those that %.80s says",
			       w->sent ? w->sent : "the archive");
	if (!str_eq(u->diff, w->diff))
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the layer is refused: it holds something else than %.80s", w->diff);
	return 0;
}

static int layer_fill(int part, int blob, const struct layer_want_sums *w, struct layer_unpacked *u,
		      struct err *e)
{
	CLEANUP(fd) int tree = -1, names = -1;

	if (mkdirat(part, IMAGE_TREE, 0755) < 0 || (tree = openat(part, IMAGE_TREE, FOLDER)) < 0)
		return err_sys(e, "cannot make a folder for a layer");
	if (fchmod(tree, 0755) < 0)
		return err_sys(e, "cannot prepare a folder for a layer");
	if (layer_unpack(blob, tree, w->size == UINT64_MAX ? LAYER_TAR_BYTES : w->size, u, e) < 0 ||
	    layer_compare(u, w, e) < 0)
		return -e->code;
	names = openat(part, IMAGE_NAMES, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (names < 0)
		return err_sys(e, "cannot write the list of a layer");
	if (sums_write(tree, names, e) < 0)
		return -e->code;
	return syncfs(tree) < 0 ? err_sys(e, "the layer could not be written to disk") : 0;
}

int layer_add(const struct image_store *s, int blob, const struct layer_want_sums *w,
	      char hex[SHA256_HEX], struct unpack_tally *tally, struct err *e)
{
	struct layer_unpacked u = { .sent_bytes = 0 };
	char name[64];
	CLEANUP(fd) int part = layer_part(s, name, e);
	int r;

	if (part < 0)
		return part;
	r = layer_fill(part, blob, w, &u, e);
	if (r == 0) {
		(void)snprintf(hex, SHA256_HEX, "%.64s", u.sent + strlen("sha256:"));
		*tally = u.tally;
		if (renameat2(s->layers, name, s->layers, hex, RENAME_NOREPLACE) == 0)
			return fsync(s->layers) < 0 ? err_sys(e, "cannot sync the store") : 0;
		/* Somebody else has added the same meanwhile. */
		r = errno == EEXIST ? 0 : err_sys(e, "cannot name a layer");
	}
	(void)tree_remove(s->layers, name);
	return r;
}

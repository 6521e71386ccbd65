/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/image/plan_image.c - a root that is an image's: its layers in the place of the host's
 * folders, with brig's own files and places over them.
 *
 * What brig makes there is a layer above all of the image's, so that no link of the image is on the
 * way to any of it: a folder of brig's own is a folder, whatever the image has by that name. The
 * folders below are brig's own as a whole. */
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define NAMES_TEXT_MAX ((size_t)160 << 10)

static const char *const own_folders[] = { "/dev",  "/proc", "/sys",     "/tmp",    "/run",
					   "/code", "/role", PLAN_LAYER, PLAN_UPPER };

bool plan_image_shows(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(own_folders); i++)
		if (path_under(path, own_folders[i]))
			return false;
	return true;
}

int plan_image_root(struct box_plan *p, struct err *e)
{
	const struct image_root *i = p->spec->image_root;
	struct stat st;
	struct op *o = plan_op(p, OP_IMAGE, "/", e);

	if (!o)
		return -e->code;
	p->image = i;
	o->src = arena_strdup(p->arena, i->store);
	if (!o->src)
		return err_nomem(e);
	if (plan_source(i->store, &st, e) < 0)
		return err_wrap(e, "image");
	o->ident = ident_of(&st);
	o->mode = st.st_mode & S_IFMT;
	o->kept = true;
	/* As root the layers are root's, and appear as the user inside. */
	return p->by_root ? plan_prepare(p, o, &st, e) : 0;
}

/* What it declares to be data: private, empty, writable, unless something is there already. */
int plan_image_volumes(struct box_plan *p, struct err *e)
{
	const char *const *v = p->image ? p->image->volumes : NULL;

	for (; v && *v; v++) {
		bool there = !plan_image_shows(*v) || path_under("/etc", *v);

		for (size_t i = 0; i < p->op_count && !there; i++)
			there = str_eq(p->ops[i].dst, *v) && p->ops[i].kind != OP_DIR;
		if (!there && plan_private(p, *v, 0755, e) < 0)
			return err_wrap(e, "volume of the image");
	}
	return 0;
}

/* Are the words of its command found in it, and not in a tree of the host's? */
void plan_image_mark(struct box_plan *p)
{
	for (size_t i = 0; p->image && i < p->op_count; i++) {
		struct op *o = &p->ops[i];

		o->imaged =
			(o->kind == OP_DIR || o->kind == OP_FILE || o->kind == OP_SYMLINK ||
			 o->kind == OP_PRIVATE || o->kind == OP_BIND || o->kind == OP_BIND_FD) &&
			plan_image_shows(o->dst);
	}
}

/* In a project the command begins there; else where the image says. */
int plan_image_folder(struct box_plan *p, struct err *e)
{
	const char *folder = p->image ? p->image->workdir : NULL;
	struct op *o;

	if (!folder || p->workspace || !plan_image_shows(folder) || !folder[1])
		return 0;
	p->cwd = folder;
	for (size_t i = 0; i < p->op_count; i++)
		if (str_eq(p->ops[i].dst, folder))
			return 0;
	if (plan_parents(p, folder, e) < 0)
		return -e->code;
	o = plan_op(p, OP_DIR, folder, e);
	return o ? 0 : -e->code;
}

/* Of the image's users those that are not ours already, for their names. */
const char *plan_image_lines(struct box_plan *p, const char *ours, const char *theirs)
{
	CLEANUP(buf) struct buf b = BUF_INIT(NAMES_TEXT_MAX);

	buf_puts(&b, ours);
	for (const char *line = theirs; *line;) {
		size_t n = strcspn(line, "\n"), name = strcspn(line, ":") + 1;
		const char *next = line + n + (line[n] == '\n');
		bool known = false;

		for (const char *at = ours; *at && !known; at += strcspn(at, "\n") + 1)
			known = strncmp(at, line, name) == 0;
		if (!known)
			buf_add(&b, line, (size_t)(next - line));
		line = next;
	}
	return b.failed ? NULL : arena_strndup(p->arena, buf_str(&b), b.len);
}

int plan_image_user(struct box_plan *p, struct err *e)
{
	const struct image_root *i = p->spec->image_root;

	if (!i || p->spec->user.given)
		return 0;
	if (i->has_user) {
		p->uid = i->uid;
		p->gid = i->gid;
		return 0;
	}
	if (!i->user[0] || str_eq(i->user, "0") || str_eq(i->user, "root") ||
	    str_starts(i->user, "0:") || str_starts(i->user, "root:"))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "--user UID:GID says whom it is to be",
			  "the image's user '%.60s' is not in its /etc/passwd", i->user);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_code.c - Python code as a file that nobody inside can change, hide or move.
 *
 * It is mounted last, over whatever the workspace shows there. In the workspace the mount needs a
 * name to stand on: the user's own file of that name is covered and stays as it is; a missing one
 * is a placeholder of protect.c's, gone after the run. Elsewhere, in a root that is writable, the
 * folder around it is covered as well, so that it cannot be moved away. */
#include <fcntl.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/placeholder.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/paths.h"

/* What stands at the name on the host decides how the code can be put over it. */
static int in_workspace(struct box_plan *p, const char *name, struct err *e)
{
	struct protected_name *slot = ARENA_PUSH(p->arena, p->protected, p->protected_count);
	struct protected_name n = { .path = name,
				    .tree = p->workspace,
				    .inside = p->spec->command.code.path,
				    .covered = true,
				    .file = true,
				    .op = p->op_count };
	CLEANUP(fd) int tree = fd_open_nolinks(AT_FDCWD, p->workspace, O_PATH | O_DIRECTORY, 0);
	struct stat st;

	if (!slot)
		return err_nomem(e);
	if (tree < 0)
		return err_errno(e, tree, "cannot open '%s'", p->workspace);
	if (fstatat(tree, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!S_ISREG(st.st_mode) && (S_ISDIR(st.st_mode) || !placeholder_is(tree, name))) {
			(void)err_set(e, ERR_POLICY, EPERM,
				      "the code cannot appear at '%s': '%s' in the workspace is "
				      "not a plain file",
				      p->spec->command.code.path, name);
			return err_hint(e, "rename it, or --set code.path=%s/_run.py", CODE_FOLDER);
		}
		n.existed = true;
		n.was = stamp_of(&st);
	}
	*slot = n;
	return 0;
}

int plan_code(struct box_plan *p, struct err *e)
{
	const struct spec *s = p->spec;
	const char *path = s->command.code.path;
	bool work;
	struct op *o;

	if (!code_is_file(s))
		return 0;
	work = path_under(path, s->inside);
	if (work && p->layered)
		return err_refuse(e, ERR_USAGE, EINVAL, "--set code.path=" CODE_FOLDER "/_run.py",
				  "the code cannot appear in an overlay workspace: '%.200s'", path);
	if (work && p->workspace && in_workspace(p, path + strlen(s->inside) + 1, e) < 0)
		return -e->code;
	if (!work && plan_parents(p, path, e) < 0)
		return -e->code;
	o = plan_op(p, OP_CODE, path, e);
	if (!o)
		return -e->code;
	o->data = s->command.code.text;
	o->size = s->command.code.size;
	/* A root that is sealed needs no more. */
	return work || s->read_only_root || plan_op(p, OP_COVER, CODE_FOLDER, e) ? 0 : -e->code;
}

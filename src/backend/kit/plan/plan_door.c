/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_door.c - what a sandbox behind the door finds in its tree: the certificates to
 * trust, which are the host's and, once it exists, the run's own authority. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/kit/plan/plan_internal.h"
#include "model/paths.h"

#define OWN_ROOM 4096                 /* for the run's own authority */
#define ROOTS_MAX ((size_t)768 << 10) /* the root file system has room for it */

/* Where systems keep the bundle: Debian and most others, Fedora, openSUSE. */
static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
				       "/etc/pki/tls/certs/ca-bundle.crt",
				       "/etc/ssl/ca-bundle.pem" };

/* Read where it stays, with room behind it: the sandbox waits for this. */
static const char *read_bundle(struct box_plan *p, const char *path)
{
	struct stat st;
	char *text;

	if (stat(path, &st) < 0 || st.st_size <= 0 || (size_t)st.st_size >= ROOTS_MAX)
		return NULL;
	text = arena_alloc(p->arena, (size_t)st.st_size + 1 + OWN_ROOM);
	return text && fd_read_file(AT_FDCWD, path, text, (size_t)st.st_size + 1) > 0 ? text : NULL;
}

static bool is_shown(const struct box_plan *p, const char *path)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_BIND && path_under(path, p->ops[i].dst))
			return true;
	return false;
}

/* The system's own bundle, for programs that read no variable. */
static int show_over(struct box_plan *p, const char *path, struct err *e)
{
	char real[PATH_MAX];
	struct op *o;

	if (!realpath(path, real) || !is_shown(p, real))
		return 0;
	o = plan_op(p, OP_SHOW, real, e);
	if (!o)
		return -e->code;
	o->src = DOOR_ROOTS;
	return 0;
}

int plan_door(struct box_plan *p, struct err *e)
{
	struct door_want *w;
	const char *text = NULL;
	struct op *o;
	size_t i = 0;

	if (p->spec->network != NETWORK_PROXY)
		return 0;
	w = arena_alloc(p->arena, sizeof(*w));
	if (!w)
		return err_nomem(e);
	if (door_want(&p->spec->egress, w, e) < 0)
		return -e->code;
	p->door = w;
	while (i < ARRAY_LEN(bundles) && !(text = read_bundle(p, bundles[i])))
		i++;
	if (plan_parents(p, DOOR_ROOTS, e) < 0)
		return -e->code;
	p->roots_op = p->op_count;
	o = plan_op(p, OP_FILE, DOOR_ROOTS, e);
	if (!o)
		return -e->code;
	o->mode = 0644;
	p->roots_room = text ? OWN_ROOM : 0;
	o->data = text ? text : "";
	return text ? show_over(p, bundles[i], e) : 0;
}

int box_plan_trust(struct box_plan *p, const char *pem, struct err *e)
{
	struct op *o = &p->ops[p->roots_op];
	size_t n = strlen(pem);

	if (p->roots_room > n + 1) {
		char *end = (char *)(uintptr_t)o->data + strlen(o->data);

		*end = '\n';
		memcpy(end + 1, pem, n + 1);
		p->roots_room = 0;
		return 0;
	}
	o->data = arena_printf(p->arena, "%s\n%s", o->data, pem);
	return o->data ? 0 : err_nomem(e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/plan_links_etc.c - /etc without making it anew at every start.
 *
 * Of what is in /etc most are links into the copy of what packages ship, the same in run after run.
 * So there is a folder of links in that copy for every set of names, made once: names of packages
 * lead into the copy, and those of the run's own files and mounts to the same name in /.etc, where
 * they are made. One mount shows it as /etc. A link costs as much as a mount, and there are some
 * fifty on a machine with compilers and a desktop.
 *
 * Only for what every run has: where somebody asked for something in /etc, or may write there, it
 * is made as it was planned. */
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "backend/kit/packages/packages.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/bytes/sha256.h"
#include "base/text/str.h"

#define ETC "/etc/"
#define OWN "/." /* before a path of the plan's: "/.etc/passwd" */

enum { KEY_LEN = 24, FEW = 8 };

struct names {
	struct package_link *v;
	size_t n;
};

static bool in_etc(const struct op *o)
{
	return str_starts(o->dst, ETC);
}

static bool is_top_link(const struct op *o)
{
	return o->kind == OP_SYMLINK && !strchr(o->dst + strlen(ETC), '/');
}

/* The descriptors that it takes came with the same kernel. */
static bool can_attach(void)
{
	return mount_setattr(-1, "", AT_EMPTY_PATH, NULL, 0) < 0 && errno != ENOSYS &&
	       errno != EPERM;
}

static bool is_usual(const struct op *o)
{
	switch (o->kind) {
	case OP_DIR:
	case OP_FILE:
	case OP_SYMLINK:
	case OP_SHOW:
		return true;
	case OP_BIND:
		return o->fixed && !o->writable;
	default:
		return false;
	}
}

static bool plan_links_etc_fits(const struct box_plan *p)
{
	size_t links = 0;
	bool has_etc = false;

	if (!p->packages || !p->read_only_root || !str_eq(p->backend, "native"))
		return false;
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		has_etc |= o->kind == OP_DIR && str_eq(o->dst, "/etc");
		if (in_etc(o) && !is_usual(o))
			return false;
		links += in_etc(o) && is_top_link(o);
	}
	return has_etc && links >= FEW && can_attach();
}

/* Neighbours in the plan share a folder, mostly. */
static bool has_name(const struct names *s, const char *name, size_t n)
{
	for (size_t i = s->n; i-- > 0;)
		if (strncmp(s->v[i].name, name, n) == 0 && !s->v[i].name[n])
			return true;
	return false;
}

static int add_name(struct box_plan *p, struct names *s, const struct op *o, struct err *e)
{
	const char *name = o->dst + strlen(ETC);
	size_t n = strcspn(name, "/");
	struct package_link one = { .name = name, .to = o->data };
	struct package_link *slot;

	if (!is_top_link(o) && has_name(s, name, n)) /* where a link is, nothing else stands */
		return 0;
	if (!is_top_link(o)) {
		one.name = arena_strndup(p->arena, name, n);
		one.to = arena_printf(p->arena, "/.etc/%.*s", (int)n, name);
	}
	slot = one.name && one.to ? ARENA_PUSH(p->arena, s->v, s->n) : NULL;
	if (!slot)
		return err_nomem(e);
	*slot = one;
	return 0;
}

static void key_of(const struct names *s, char key[SHA256_HEX])
{
	unsigned char sum[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (size_t i = 0; i < s->n; i++) {
		sha256_add(&h, s->v[i].name, strlen(s->v[i].name) + 1);
		sha256_add(&h, s->v[i].to, strlen(s->v[i].to) + 1);
	}
	sha256_end(&h, sum);
	sha256_hex(sum, key);
	key[KEY_LEN] = '\0';
}

int plan_moved(struct box_plan *p, struct op *o, struct err *e)
{
	if (o->kind == OP_SHOW && o->src && str_starts(o->src, ETC)) {
		o->src = arena_printf(p->arena, OWN "%s", o->src + 1);
		if (!o->src)
			return err_nomem(e);
	}
	if (!in_etc(o))
		return 0;
	o->at = arena_printf(p->arena, OWN "%s", o->dst + 1);
	return o->at ? 0 : err_nomem(e);
}

/* What is made in /etc is made in /.etc; the links are there. */
static int plan_links_etc_move(struct box_plan *p, struct err *e)
{
	for (size_t i = 0; i < p->op_count; i++) {
		if (plan_moved(p, &p->ops[i], e) < 0)
			return -e->code;
		p->ops[i].skip |= in_etc(&p->ops[i]) && is_top_link(&p->ops[i]);
	}
	return 0;
}

int plan_links_etc(struct box_plan *p, struct err *e)
{
	struct names s = { 0 };
	char key[SHA256_HEX];
	struct op *o;

	if (!plan_links_etc_fits(p))
		return 0;
	for (size_t i = 0; i < p->op_count; i++)
		if (in_etc(&p->ops[i]) && add_name(p, &s, &p->ops[i], e) < 0)
			return -e->code;
	key_of(&s, key);
	if (!packages_has_folder(p->arena, p->packages, key) &&
	    (plan_cache_is_writable(p) || !packages_make_folder(p->packages, key, s.v, s.n)))
		return 0;
	if (plan_links_etc_move(p, e) < 0)
		return -e->code;
	o = plan_op(p, OP_SHOW, "/etc", e);
	if (!o)
		return -e->code;
	o->src = arena_printf(p->arena, PACKAGES_PLACE "/" PACKAGES_FOLDER "%s", key);
	p->links_etc = true;
	return o->src ? 0 : err_nomem(e);
}

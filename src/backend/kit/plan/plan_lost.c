/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_lost.c - what must be looked for in the trees that are shown.
 *
 * Sockets whose name does not lead to their file: renamed after they were bound (as OpenSSH's
 * masters are), linked a second time, or removed, which the kernel does not tell. First in the
 * folder of the name, then in the trees, within a budget.
 *
 * Named pipes where nothing stops a write: a mount that is read-only does not, and Landlock does
 * not below a path that may be changed. */
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define FOLDERS 1024 /* in about five milliseconds */
#define ENTRIES 65536
#define LOST_MAX 4096 /* each sandbox of another user is one, in a folder closed to us */
#define LOST_SLOTS ((size_t)2 * LOST_MAX)

struct lost_look {
	struct hiding *h;
	struct lost *lost;
	bool pipes; /* are those of this tree to be covered? */
};

/* Where it stands in the table, or would stand. */
static uint16_t *lost_slot(const struct lost *l, dev_t dev, uint32_t ino)
{
	const struct {
		uint64_t dev, ino;
	} key = { dev, ino };
	size_t at = (size_t)mem_hash(0, &key, sizeof(key)) % LOST_SLOTS;

	for (; l->slots[at]; at = (at + 1) % LOST_SLOTS)
		if (l->v[l->slots[at] - 1].dev == dev && l->v[l->slots[at] - 1].ino == ino)
			break;
	return &l->slots[at];
}

static struct lost_socket *lost_find(const struct lost *l, dev_t dev, uint32_t ino)
{
	uint16_t at = l->slots ? *lost_slot(l, dev, ino) : 1;

	return at && l->n && l->v[at - 1].dev == dev && l->v[at - 1].ino == ino ? &l->v[at - 1]
										: NULL;
}

/* One whose file has this name alone is found for good. */
static int found(void *ctx, const struct where *folder, const char *name, const struct stat *st,
		 struct err *e)
{
	struct lost_look *l = ctx;
	struct lost_socket *one;

	if (S_ISFIFO(st->st_mode))
		return l->pipes ? hide_in(l->h, folder, name, e) : 0;
	one = S_ISSOCK(st->st_mode) ? lost_find(l->lost, folder->dev, (uint32_t)st->st_ino) : NULL;
	if (one && hide_in(l->h, folder, name, e) < 0)
		return -e->code;
	if (one && st->st_nlink == 1 && !one->found) {
		one->found = true;
		l->lost->left--;
	}
	return !l->lost->left && !l->pipes;
}

static struct folder_search search_new(struct lost_look *l)
{
	return (struct folder_search){ .mounts = &l->h->sight->mounts,
				       .folders = FOLDERS,
				       .entries = ENTRIES,
				       .found = found,
				       .ctx = l };
}

int lost_add(struct hiding *h, struct lost *l, const struct bound_socket *b,
	     const struct where *folder, struct err *e)
{
	struct lost here = { .v = &(struct lost_socket){ .dev = b->dev, .ino = b->ino },
			     .n = 1,
			     .left = 1 };
	struct lost_look look = { .h = h, .lost = &here };
	struct folder_search s = search_new(&look);
	struct lost_socket *slot;
	uint16_t *place;

	if (!l->slots)
		l->slots = arena_alloc(h->plan->arena, LOST_SLOTS * sizeof(*l->slots));
	if (!l->slots)
		return err_nomem(e);
	if (lost_find(l, b->dev, b->ino))
		return 0;
	if (folder && search_folder(&s, folder, e) < 0)
		return -e->code;
	if (!here.left || l->n == LOST_MAX)
		return l->more |= here.left > 0, 0;
	place = lost_slot(l, b->dev, b->ino);
	slot = ARENA_PUSH(h->plan->arena, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*place = (uint16_t)l->n;
	l->left++;
	*slot = here.v[0];
	slot->name = arena_strdup(h->plan->arena, b->name);
	return slot->name ? 0 : err_nomem(e);
}

/* Can pipes in it be written to? */
static bool open_pipes(const struct hiding *h, const struct shown *v)
{
	if (!v->folder || v->system || v->writable)
		return false;
	for (size_t i = 0; i < h->plan->writable_count; i++)
		if (path_under(v->inside, h->plan->writable[i]))
			return true;
	for (size_t i = 0; i < h->sight->n; i++)
		if (h->sight->v[i].writable && within(&v->at, &h->sight->v[i].at))
			return true;
	return h->plan->mounts_alone;
}

static bool could_hold(const struct shown *v, const struct lost_socket *one)
{
	return !one->found && v->folder && !v->system && !v->kept && v->at.dev == one->dev;
}

static bool holds_lost(const struct lost *l, const struct shown *v)
{
	for (size_t i = 0; i < l->n; i++)
		if (could_hold(v, &l->v[i]))
			return true;
	return false;
}

static int look_for(struct lost_look *l, struct folder_search *s, bool pipes, struct err *e)
{
	const struct sight *sight = l->h->sight;

	for (size_t i = 0; i < sight->n; i++) {
		const struct shown *v = &sight->v[i];

		l->pipes = pipes;
		if ((pipes ? open_pipes(l->h, v) : holds_lost(l->lost, v)) &&
		    search_tree(s, &v->at, e) < 0)
			return -e->code;
	}
	return 0;
}

/* The first of them by name: whoever knows it knows what could be connected to. */
static int note_unseen(struct hiding *h, const struct lost *l, struct err *e)
{
	const char *name = NULL, *text;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < h->sight->n; k++)
			if (could_hold(&h->sight->v[k], &l->v[i])) {
				name = name ? name : l->v[i].name;
				n++;
				break;
			}
	if (!n)
		return 0;
	if (n == 1)
		text = arena_printf(h->plan->arena,
				    "a socket of the host's programs is not where it was bound "
				    "('%.108s'): if it lies in a shown folder that is too large to "
				    "be searched, the command can connect to it",
				    name);
	else
		text = arena_printf(h->plan->arena,
				    "%zu sockets of the host's programs are not where they were "
				    "bound (one was '%.108s'): the command can connect to those "
				    "that lie in a shown folder that is too large to be searched",
				    n, name);
	if (!text)
		return err_nomem(e);
	plan_note(h->plan, text);
	return 0;
}

int plan_lost(struct hiding *h, struct lost *l, struct err *e)
{
	struct lost_look look = { .h = h, .lost = l };
	struct folder_search pipes = search_new(&look), sockets = search_new(&look);

	if (look_for(&look, &pipes, true, e) < 0 || look_for(&look, &sockets, false, e) < 0)
		return -e->code;
	if (pipes.unseen)
		plan_note(h->plan, "a folder that can only be read is too large to be searched for "
				   "named pipes: those in it could be written to");
	if (l->more)
		plan_note(h->plan, "many sockets of programs on this host are not where they were "
				   "bound, too many to be looked for in the folders shown: if one "
				   "is in there, the command can connect to it");
	else if (l->left && sockets.unseen)
		return note_unseen(h, l, e);
	return 0;
}

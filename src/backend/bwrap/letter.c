/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/bwrap/letter.h"

#include "base/bytes/parcel.h"

#define MARK "brig-letter " BRIG_VERSION
#define LISTS_MAX ((size_t)64 << 20)

static void fields_of(struct parcel *p, struct letter *l)
{
	struct inside *c = &l->inside;

	c->argv = parcel_texts(p, c->argv, NULL);
	c->envp = parcel_texts(p, c->envp, NULL);
	parcel_text(p, &c->path);
	parcel_text(p, &c->cwd);
	parcel_text(p, &c->layered);
	c->writable = parcel_texts(p, c->writable, &c->writable_count);
	for (size_t i = 0; i < c->tmpfs_count; i++)
		parcel_text(p, &c->tmpfs[i]);
	l->checks = parcel_list(p, l->checks, &l->check_count, sizeof(*l->checks));
	for (size_t i = 0; i < l->check_count; i++) {
		struct letter_check check = p->out ? l->checks[i] : (struct letter_check){ 0 };

		parcel_fixed(p, &check.ident, sizeof(check.ident));
		parcel_text(p, &check.path);
		if (!p->out)
			l->checks[i] = check;
	}
}

void letter_write(const struct inside *c, const struct letter_check *checks, size_t n,
		  struct buf *out)
{
	struct letter l = { .inside = *c,
			    .checks = (struct letter_check *)(uintptr_t)checks,
			    .check_count = n };
	struct parcel p = parcel_to(out, MARK);

	parcel_fixed(&p, &l.inside, sizeof(l.inside)); /* its pointers mean nothing there */
	fields_of(&p, &l);
}

int letter_read(const char *data, size_t n, struct letter *ret, struct err *e)
{
	struct parcel p = parcel_from(data, n, MARK);
	struct letter l = { .arena = arena_new(LISTS_MAX) };

	if (!l.arena)
		return err_nomem(e);
	p.arena = l.arena;
	parcel_fixed(&p, &l.inside, sizeof(l.inside));
	p.failed |= l.inside.tmpfs_count > INSIDE_TMPFS_MAX || l.inside.rlimit_count > RLIMITS_MAX;
	if (!p.failed)
		fields_of(&p, &l);
	if (!parcel_whole(&p) || (!l.inside.argv[0] && !l.inside.open)) {
		letter_done(&l);
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the program started inside is another version of brig");
	}
	*ret = l;
	return 0;
}

void letter_done(struct letter *l)
{
	(void)arena_free(l->arena);
	*l = (struct letter){ 0 };
}

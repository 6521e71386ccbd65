/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scanner.c - the scanner of a run: shapes and forms compiled, made anew when a secret
 * comes. */
#include <assert.h>
#include <string.h>

#include "egress/scan/scan_internal.h"

#define SCANNER_BYTES ((size_t)64 << 20)

static int read_actions(struct scanner *s, const struct leak_spec *l, struct err *e)
{
	enum leak_action action;
	enum leak_kind kind;

	for (int i = 0; i < LEAK_KINDS; i++)
		s->actions[i] = l->scan ? leak_rows[i].action : LEAK_OFF;
	for (size_t i = 0; l->scan && i < l->rules.n; i++) {
		if (leak_kind_by_name(l->rules.v[i].name, &kind, e) < 0 ||
		    leak_action_by_name(l->rules.v[i].value, &action, e) < 0)
			return -e->code;
		/* Hiding the first line of a key would hide nothing. */
		s->written[kind] = true;
		s->actions[kind] =
			action == LEAK_REDACT && shape_is_block(kind) ? LEAK_BLOCK : action;
	}
	return 0;
}

static const struct secret *scan_own_list(struct arena *a, const struct secret *secrets, size_t n)
{
	struct secret *own = arena_alloc(a, (n + 1) * sizeof(*own));

	if (own && n)
		memcpy(own, secrets, n * sizeof(*own));
	return own;
}

static int scan_compile(struct scanner *s, struct err *e)
{
	CLEANUP(mem) struct literal *l = calloc(shapes_count, sizeof(*l));
	size_t n = 0;

	s->ids = arena_alloc(s->arena, shapes_count * sizeof(*s->ids));
	if (!l || !s->ids)
		return err_nomem(e);
	for (size_t i = 0; i < shapes_count; i++)
		if (s->actions[shapes[i].kind] != LEAK_OFF || shapes[i].check) {
			size_t len = strlen(shapes[i].literal);

			s->ids[n] = (struct candidate){ &shapes[i], len };
			l[n++] = (struct literal){ shapes[i].literal, len, shapes[i].caseless };
		}
	return matcher_new(l, n, &s->matcher, e);
}

static int make_windows(struct scanner *s, struct err *e)
{
	if (!s->needles.n)
		return 0;
	s->body.p = arena_alloc(s->arena, WINDOW_MAX);
	s->query.p = arena_alloc(s->arena, WINDOW_MAX);
	s->labels.p = arena_alloc(s->arena, WINDOW_MAX);
	return s->body.p && s->query.p && s->labels.p ? 0 : err_nomem(e);
}

/* What is held back is seen by the other side: of the values it tells no more than whether one is
 * of a length that hardly any has. */
static size_t hold_for(const struct needles *n)
{
	static_assert(4 * (SHAPE_BACK + SHAPE_AHEAD) < HOLD_USUAL, "no shape is longer");
	size_t value = n->n ? n->longest / SECRET_GROWS : 0;

	return value * SECRET_ESCAPED * SECRET_ESCAPED <= HOLD_USUAL
		       ? HOLD_USUAL
		       : (size_t)SECRET_MAX * SECRET_ESCAPED;
}

size_t scan_hold(const struct scanner *s)
{
	return s->hold;
}

int scanner_new(const struct scan_options *o, struct scanner **ret, struct err *e)
{
	CLEANUP(scanner) struct scanner *s = calloc(1, sizeof(*s));

	if (!s || !(s->arena = arena_new(SCANNER_BYTES)))
		return err_nomem(e);
	s->text = (struct buf)BUF_INIT(1 << 20);
	s->secrets = scan_own_list(s->arena, o->secrets, o->n_secrets);
	if (!s->secrets)
		return err_nomem(e);
	s->redact_json = o->redact_json;
	s->report = o->report;
	s->context = o->context;
	if (read_actions(s, o->leaks, e) < 0 ||
	    needles_new(s->arena, o->secrets, o->n_secrets, &s->needles, e) < 0 ||
	    views_new(s->arena, &s->needles, &s->views, e) < 0 || scan_compile(s, e) < 0 ||
	    make_windows(s, e) < 0)
		return -e->code;
	s->hold = hold_for(&s->needles);
	if (scan_alloc(s, &s->head, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(s);
	return 0;
}

static void drop_spare(struct scanner *s)
{
	/* One that goes may leave others behind, which looked behind its encodings. */
	for (struct scan *b; (b = s->spare); (void)scan_free(b)) {
		s->spare = b->next;
		s->n_spare--;
	}
}

struct scanner *scanner_free(struct scanner *s)
{
	if (!s)
		return NULL;
	(void)scan_free(s->head);
	drop_spare(s);
	(void)matcher_free(s->matcher);
	for (size_t i = 0; i < s->needles.n; i++)
		explicit_bzero((char *)s->needles.v[i].v.p, s->needles.v[i].v.n);
	if (s->views)
		views_wipe(s->views);
	if (s->text.data)
		explicit_bzero(s->text.data, s->text.len);
	buf_done(&s->text);
	(void)arena_free(s->arena);
	free(s);
	return NULL;
}

struct scanner *scanner_hold(struct scanner *s)
{
	s->users++;
	return s;
}

void scanner_release(struct scanner *s)
{
	if (--s->users == 0 && s->replaced)
		(void)scanner_free(s);
}

static void copy_window(struct window *to, const struct window *from)
{
	if (from->p && to->p)
		memcpy(to->p, from->p, from->n);
	to->n = from->p && to->p ? from->n : 0;
}

int scanner_renew(struct scanner **s, const struct secret *secrets, size_t n, struct err *e)
{
	CLEANUP(scanner) struct scanner *new = calloc(1, sizeof(*new));
	struct scanner *old = *s;

	if (!new || !(new->arena = arena_new(SCANNER_BYTES)))
		return err_nomem(e);
	new->text = (struct buf)BUF_INIT(1 << 20);
	memcpy(new->actions, old->actions, sizeof(new->actions));
	memcpy(new->written, old->written, sizeof(new->written));
	new->redact_json = old->redact_json;
	new->report = old->report;
	new->context = old->context;
	new->ids = arena_alloc(new->arena, shapes_count * sizeof(*new->ids));
	new->secrets = scan_own_list(new->arena, secrets, n);
	if (!new->ids || !new->secrets)
		return err_nomem(e);
	memcpy(new->ids, old->ids, shapes_count * sizeof(*new->ids));
	new->matcher = matcher_share(old->matcher);
	if (needles_new(new->arena, secrets, n, &new->needles, e) < 0 ||
	    views_new(new->arena, &new->needles, &new->views, e) < 0 || make_windows(new, e) < 0)
		return -e->code;
	new->hold = hold_for(&new->needles);
	if (scan_alloc(new, &new->head, e) < 0)
		return -e->code;
	copy_window(&new->body, &old->body);
	copy_window(&new->query, &old->query);
	copy_window(&new->labels, &old->labels);
	*s = TAKE_PTR(new);
	old->replaced = true;
	(void)scanner_hold(old);
	drop_spare(old);
	scanner_release(old);
	return 0;
}

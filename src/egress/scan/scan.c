/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan.c - streams through the leak scan.
 *
 * The matcher names places where a literal ends. The literal of a known secret is the end of one of
 * its forms: the whole form is compared backwards, at once. The literal of a shape is its
 * beginning: what follows decides, and when it is not there yet the candidate waits for the next
 * piece. What is held back is long enough for either, so nothing of a secret has left when it is
 * found. */
#include "egress/scan/scan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "egress/scan/scan_internal.h"

/* --- ends --- */

static void wipe(struct scan *b)
{
	for (int i = 0; i < 2; i++)
		if (b->win[i])
			explicit_bzero(b->win[i], b->scanner->hold);
	if (b->view)
		view_wipe(b->view);
	runs_wipe(b->runs);
	escapes_wipe(b->escapes);
}

struct scan *scan_free(struct scan *b)
{
	if (!b)
		return NULL;
	wipe(b);
	(void)match_close(b->stream);
	(void)view_free(b->view);
	(void)runs_free(b->runs);
	(void)escapes_free(b->escapes);
	free(b->win[0]);
	free(b->win[1]);
	free(b);
	return NULL;
}
DEFINE_CLEANUP(scan_whole, struct scan *, scan_free)

/* --- one stream --- */

void window_add(struct window *w, const char *p, size_t n)
{
	size_t keep;

	if (!w->p)
		return;
	if (n >= WINDOW_MAX) {
		memcpy(w->p, p + n - WINDOW_MAX, WINDOW_MAX);
		w->n = WINDOW_MAX;
		return;
	}
	keep = w->n < WINDOW_MAX - n ? w->n : WINDOW_MAX - n;
	memmove(w->p, w->p + w->n - keep, keep);
	if (n)
		memcpy(w->p + keep, p, n);
	w->n = keep + n;
}

int scan_alloc(struct scanner *s, struct scan **ret, struct err *e)
{
	CLEANUP(scan_whole) struct scan *b = calloc(1, sizeof(*b));

	if (!b)
		return err_nomem(e);
	b->scanner = s;
	b->win[0] = malloc(s->hold);
	b->win[1] = malloc(s->hold);
	if (!b->win[0] || !b->win[1])
		return err_nomem(e);
	if (match_open(s->matcher, &b->stream, e) < 0 || view_new(s->views, &b->view, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(b);
	return 0;
}

void scan_restart(struct scan *b)
{
	match_reset(b->stream);
	view_reset(b->view);
	b->base = 0;
	b->which = 0;
	b->win_n = b->held = 0;
	b->n_pending = b->n_masks = 0;
	b->masking = NULL;
	b->blocked = false;
	b->on_run = NULL;
	b->stops = false;
	runs_restart(b->runs);
	escapes_restart(b->escapes);
}

struct scan *scan_close(struct scan *b)
{
	struct scanner *s;
	bool counts;

	if (!b)
		return NULL;
	s = b->scanner;
	counts = !b->outer;
	if (s->n_spare == SPARE_MAX || s->replaced) {
		(void)scan_free(b);
	} else {
		wipe(b);
		b->next = s->spare;
		s->spare = b;
		s->n_spare++;
	}
	if (counts)
		scanner_release(s);
	return NULL;
}

static struct scan *take_spare(struct scanner *s)
{
	struct scan *b = s->spare;

	if (b) {
		s->spare = b->next;
		s->n_spare--;
		scan_restart(b);
	}
	return b;
}

static int scan_make(struct scanner *s, enum scan_direction d, struct scan **ret, struct err *e)
{
	struct scan *b = take_spare(s);

	if (!b && scan_alloc(s, &b, e) < 0)
		return -e->code;
	b->direction = d;
	b->part = SCAN_BODY;
	b->needles_only = b->shapes_only = b->credential_field = b->hashed = b->no_redact = false;
	b->can_mask = NULL;
	b->soften = false;
	b->take_out = NULL;
	b->outer = NULL;
	b->depth = 0;
	*ret = b;
	return 0;
}

int scan_open_inner(struct scan *outer, struct scan **ret, struct err *e)
{
	if (scan_make(outer->scanner, outer->direction, ret, e) < 0)
		return -e->code;
	(*ret)->shapes_only = true;
	(*ret)->outer = outer;
	(*ret)->depth = outer->depth + 1;
	return 0;
}

int scan_open(struct scanner *s, enum scan_direction d, struct scan **ret, struct err *e)
{
	const struct window *w = &s->body;
	struct scan *b = NULL;

	if (scan_make(s, d, &b, e) < 0)
		return -e->code;
	if (d == SCAN_OUT && w->n) {
		/* The end of the last body comes first: it was judged then, its tail is not. */
		size_t n = w->n < s->hold ? w->n : s->hold;

		memcpy(b->win[0], w->p + w->n - n, n);
		b->win_n = n;
	}
	s->users++;
	*ret = b;
	return 0;
}

/* --- the bytes at hand --- */

int64_t scan_first(const struct scan *b)
{
	return b->base - (int64_t)b->win_n;
}

/* A run of bytes from..to of the stream in one piece, in place or copied to tmp. */
static const char *scan_bytes(const struct scan *b, int64_t from, int64_t to, char *tmp)
{
	const char *win = b->win[b->which];
	size_t n = (size_t)(to - from), in_win;

	if (from >= b->base)
		return b->data + (from - b->base);
	in_win = (size_t)(b->base - from) < n ? (size_t)(b->base - from) : n;
	if (in_win == n)
		return win + b->win_n - (b->base - from);
	memcpy(tmp, win + b->win_n - (b->base - from), in_win);
	memcpy(tmp + in_win, b->data, n - in_win);
	return tmp;
}

/* --- what was found --- */

static enum leak_action action_for(const struct scan *b, enum leak_kind kind, bool sample)
{
	enum leak_action a = b->scanner->actions[kind];
	bool token = kind == LEAK_JWT || kind == LEAK_BEARER || kind == LEAK_AUTHORIZATION;

	if (b->soften && a == LEAK_BLOCK && !b->scanner->written[kind] && !shape_is_block(kind))
		a = LEAK_REDACT;
	if (b->no_redact && a == LEAK_REDACT)
		a = LEAK_BLOCK;
	/* A token nobody knows, in the field made for it, is how programs log in. */
	if (sample || b->direction == SCAN_IN || (token && b->credential_field))
		a = a < LEAK_WARN ? a : LEAK_WARN;
	return a;
}

/* The first and last four signs; nothing of what is too short to show them. */
static void preview(char out[24], const char *p, size_t n)
{
	out[0] = '\0';
	if (n >= 16)
		(void)snprintf(out, 24, "%.4s...%.4s", p, p + n - 4);
	for (char *c = out; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

/* What stands in base64 or behind escapes by itself is a token that somebody hid or packed; a text
 * about tokens, a hash and a placeholder are not. */
static bool scan_counts(const struct scan *b, enum leak_kind kind)
{
	return !b->outer || (kind != LEAK_BEARER && kind != LEAK_AUTHORIZATION &&
			     kind != LEAK_HEX64 && kind != LEAK_PLACEHOLDER);
}

/* Takes it out of the stream that somebody gets; false: it is not all there any more. */
static bool scan_mask_outside(struct scan *b, int64_t from, int64_t to)
{
	struct scan *o = b->outer;

	if (!behind_place(b, &from, &to))
		return false;
	if (o->outer)
		return scan_mask_outside(o, from, to);
	return from >= o->base - (int64_t)o->held && to <= o->base + (int64_t)o->n &&
	       (!o->can_mask || o->can_mask(o->owner, from, to)) && scan_mask(o, NULL, from, to);
}

/* Was anything undone between the two? What stands as it is somebody else has judged. */
static bool scan_is_behind(const struct scan *b, int64_t from, int64_t to)
{
	int64_t n = to - from;

	return !b->outer || !behind_place(b, &from, &to) || to - from != n;
}

static void scan_tell(struct scan *b, const struct scan_hit *hit)
{
	if (b->scanner->report)
		b->scanner->report(b->scanner->context, hit);
}

bool scan_mask(struct scan *b, const struct shape *shape, int64_t from, int64_t to)
{
	if (b->n_masks == MASKS_MAX) {
		b->blocked = true;
		return verdict_deny(b->verdict, EGRESS_LEAK, NULL, "too many secrets in one piece");
	}
	b->masks[b->n_masks++] = (struct mask){ .from = from, .to = to, .shape = shape };
	return true;
}

static const char *part_name(enum scan_part p)
{
	static const char *const names[] = { "host name", "URL", "header", "body" };

	return names[p];
}

bool scan_found(struct scan *b, enum leak_kind kind, const struct shape *shape, bool sample,
		int64_t from, int64_t to)
{
	struct scan_hit hit = { .kind = leak_rows[kind].name, .part = b->part };
	char tmp[SHAPE_BACK + SHAPE_AHEAD + 64], hint[96];
	int64_t first = scan_first(b);
	const char *p;

	hit.action = action_for(b, kind, sample);
	if (from < first)
		from = first;
	if (hit.action == LEAK_OFF || !scan_counts(b, kind) || !scan_is_behind(b, from, to))
		return true;
	if (hit.action == LEAK_REDACT && b->can_mask && !b->can_mask(b->owner, from, to))
		hit.action = LEAK_BLOCK;
	p = scan_bytes(b, from, to, tmp);
	/* In a head it is for the credentials to say whether one of ours stands where it may; in
	 * what comes in it is what stands for a value now. */
	if (kind == LEAK_PLACEHOLDER && *p == 'b' &&
	    (b->part != SCAN_BODY || b->direction == SCAN_IN))
		return true;
	if (!shape_is_block(kind))
		preview(hit.preview, p, (size_t)(to - from));
	if (b->outer && hit.action == LEAK_REDACT) {
		if (scan_mask_outside(b, from, to)) {
			scan_tell(b, &hit);
			return true;
		}
		hit.action = LEAK_BLOCK;
	}
	scan_tell(b, &hit);
	if (hit.action == LEAK_REDACT)
		return scan_mask(b, shape, from, to);
	if (hit.action == LEAK_WARN)
		return true;
	b->blocked = true;
	(void)snprintf(hint, sizeof(hint), "--set leaks.rules=%s=warn lets it pass", hit.kind);
	return verdict_deny(b->verdict, EGRESS_LEAK, hint, "the request's %s carries a secret: %s",
			    part_name(b->part), leak_rows[kind].help);
}

static bool found_needle(struct scan *b, const struct needle *n, int64_t from, int64_t to)
{
	struct scan_hit hit = { .kind = "secret",
				.name = b->scanner->secrets[n->secret].name,
				.part = b->part,
				.action = b->direction == SCAN_OUT || b->stops ? LEAK_BLOCK
									       : LEAK_WARN };
	bool again = false;

	if (b->take_out && b->take_out(b->taker, from, to, &again)) {
		hit.action = LEAK_REDACT;
		if (!again)
			scan_tell(b, &hit);
		return true;
	}
	scan_tell(b, &hit);
	if (hit.action != LEAK_BLOCK)
		return true;
	b->blocked = true;
	if (b->direction == SCAN_IN)
		return verdict_deny(b->verdict, EGRESS_LEAK, NULL,
				    "the answer holds, packed, the value of the credential '%s'",
				    hit.name);
	return verdict_deny(b->verdict, EGRESS_LEAK, NULL,
			    "the request's %s carries the value of the credential '%s'",
			    part_name(b->part), hit.name);
}

/* --- candidates --- */

/* false: blocked. A candidate that needs more than there is goes to the list. */
static bool try_shape(struct scan *b, const struct shape *shape, int64_t start)
{
	char tmp[SHAPE_BACK + SHAPE_AHEAD + 64];
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), end = b->base + (int64_t)b->n;
	int64_t from = start - SHAPE_BACK < first ? first : start - SHAPE_BACK;
	int64_t to = start + SHAPE_AHEAD < end ? start + SHAPE_AHEAD : end;
	struct shape_view v = { .before = (size_t)(start - from),
				.after = (size_t)(to - start),
				.begins = from == 0,
				.ends = b->last && to == end };
	struct shape_range r = { .kind = shape->kind };
	enum shape_found f;

	v.p = scan_bytes(b, from, to, tmp) + v.before;
	f = shape_check(shape, &v, &r);
	if (f == SHAPE_NO)
		return true;
	if (f == SHAPE_MORE) {
		if (to < end || b->last)
			return true;
		if (b->n_pending == PENDING_MAX) {
			b->blocked = true;
			return verdict_deny(b->verdict, EGRESS_INTERNAL, NULL,
					    "the leak scan has too much to remember");
		}
		b->pending[b->n_pending++] = (struct pending){ shape, start };
		return true;
	}
	return scan_found(b, r.kind, shape, f == SHAPE_SAMPLE,
			  start - (int64_t)r.back + (int64_t)r.skip, start + (int64_t)r.ahead);
}

static bool try_pending(struct scan *b)
{
	size_t n = b->n_pending;
	struct pending waiting[PENDING_MAX];

	memcpy(waiting, b->pending, n * sizeof(*waiting));
	b->n_pending = 0;
	for (size_t i = 0; i < n; i++)
		if (!try_shape(b, waiting[i].shape, waiting[i].start))
			return false;
	return true;
}

/* "sk-" is found in every task-list: most candidates end here, by the byte before them. */
static bool on_literal(void *context, size_t i, uint64_t end)
{
	struct scan *b = context;
	const struct candidate *c = &b->scanner->ids[i];
	int64_t start = (int64_t)end - (int64_t)c->len;

	if (start > b->base &&
	    !shape_may_stand(c->shape, b->data + (start - b->base), (size_t)(start - b->base)))
		return true;
	return try_shape(b, c->shape, start);
}

static bool on_needle(void *context, const struct needle *n, ptrdiff_t from, ptrdiff_t to)
{
	struct scan *b = context;

	return found_needle(b, n, b->base + from, b->base + to);
}

/* --- redaction --- */

/* Bytes number `at` and following of a token: every token is longer than the word. */
static void put_mask(char *p, size_t n, size_t at)
{
	static const char word[] = "[REDACTED]";
	size_t len = sizeof(word) - 1;

	for (size_t i = 0; i < n; i++, at++)
		p[i] = at < len ? word[at] : '*';
}

/* Only what has not been released can still be changed. */
static void apply_mask(struct scan *b, const struct mask *m)
{
	int64_t from = m->from, end = b->base + (int64_t)b->n, to = m->to;
	char *win = b->win[b->which];

	if (from < b->base - (int64_t)b->held)
		from = b->base - (int64_t)b->held;
	while (m->shape && to < end && to >= b->base &&
	       shape_continues(m->shape, b->data[to - b->base]))
		to++;
	if (from < b->base && from < to) {
		int64_t stop = to < b->base ? to : b->base;

		put_mask(win + b->win_n - (b->base - from), (size_t)(stop - from),
			 (size_t)(from - m->from));
		from = stop;
	}
	if (from < to)
		put_mask(b->data + (from - b->base), (size_t)(to - from), (size_t)(from - m->from));
	if (to == end && m->shape)
		b->masking = m->shape;
}

static void go_on_masking(struct scan *b)
{
	size_t i = 0;

	if (!b->masking)
		return;
	while (i < b->n && shape_continues(b->masking, b->data[i]))
		b->data[i++] = '*';
	if (i < b->n)
		b->masking = NULL;
}

/* --- feeding --- */

/* Moves the window on; returns what is held back from now on. */
static void slide(struct scan *b, size_t keep)
{
	size_t max = b->scanner->hold, n = b->n < max ? b->n : max;
	size_t old = b->win_n < max - n ? b->win_n : max - n;
	char *next = b->win[!b->which];

	memcpy(next, b->win[b->which] + b->win_n - old, old);
	if (n)
		memcpy(next + old, b->data + b->n - n, n);
	b->which = !b->which;
	b->win_n = old + n;
	b->held = keep;
	b->base += (int64_t)b->n;
}

static void scan_release_up_to(struct scan *b, struct scan_release *ret)
{
	size_t all = b->held + b->n, limit = b->direction == SCAN_OUT ? b->scanner->hold : 0;
	size_t keep = b->last ? 0 : all < limit ? all : limit, out = all - keep;
	size_t from_held = out < b->held ? out : b->held;

	ret->held = egress_text(b->win[b->which] + b->win_n - b->held, from_held);
	ret->data = egress_text(b->data, out - from_held);
	slide(b, keep);
	if (b->last && b->direction == SCAN_OUT && b->part == SCAN_BODY && !b->needles_only &&
	    !b->outer)
		window_add(&b->scanner->body, b->win[b->which], b->win_n);
}

static bool scan_failed(struct scan *b)
{
	b->blocked = true;
	return verdict_deny(b->verdict, EGRESS_INTERNAL, NULL, "the leak scan failed");
}

static bool look_for_needles(struct scan *b)
{
	const struct seek_text t = { .at = b->base,
				     .before = egress_text(b->win[b->which], b->win_n),
				     .data = b->data,
				     .n = b->n };
	int r = b->shapes_only ? 0 : view_feed(b->view, &t, b->last, on_needle, b);

	return r < 0 ? scan_failed(b) : r == 0;
}

static bool scan_look(struct scan *b)
{
	int r;

	if (!look_for_needles(b))
		return false;
	if (b->needles_only)
		return true;
	if (!try_pending(b))
		return false;
	r = match_feed(b->stream, b->data, b->n, on_literal, b);
	if (r < 0)
		return scan_failed(b);
	/* So many digits as are of interest are a run. */
	return r == 0 && runs_look(b) && (!runs_were_seen(b) || scan_hex(b)) && escapes_look(b);
}

void scan_shapes(struct scan *b)
{
	b->shapes_only = true;
}

void scan_values(struct scan *b)
{
	b->needles_only = true;
}

void scan_stops(struct scan *b)
{
	b->stops = true;
}

void scan_packed(struct scan *b, scan_run_fn *fn, void *context)
{
	b->on_run = fn;
	b->run_context = context;
}

void scan_keep(struct scan *b)
{
	b->no_redact = true;
}

bool scan_feed(struct scan *b, char *p, size_t n, bool last, struct scan_release *ret,
	       struct egress_verdict *v)
{
	static char none[1]; /* the end of a stream may come without bytes */

	*ret = (struct scan_release){ 0 };
	if (b->blocked)
		return verdict_deny(v, EGRESS_LEAK, NULL,
				    "this request was stopped by the leak scan");
	b->data = p ? p : none;
	b->n = n;
	b->last = last;
	b->verdict = v;
	if (!scan_look(b))
		return false;
	go_on_masking(b);
	for (size_t i = 0; i < b->n_masks; i++)
		apply_mask(b, &b->masks[i]);
	b->n_masks = 0;
	scan_release_up_to(b, ret);
	return true;
}

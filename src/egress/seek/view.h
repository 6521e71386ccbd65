/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/view.h - known secrets in a stream, however they are written.
 *
 * The stream is searched as it is, and so is what its escapes stand for, two deep: of JSON in a URL
 * in mail no writer has to be known, only how each escape reads (unescape.h). A text without an
 * escape costs one look for their signs. What is read twice, and how far, follows from the text and
 * from the class of the longest form, never from a value.
 *
 * A scanner or scrubber has one `views`, a stream of it a `view`. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/seek/seek.h"

struct views;
struct view;

/* Allocated in the arena; the needles are borrowed. */
int views_new(struct arena *a, const struct needles *n, struct views **ret, struct err *e);
void views_wipe(struct views *w); /* texts were in it */
struct seek *views_seek(const struct views *w);

int view_new(struct views *w, struct view **ret, struct err *e);
void view_reset(struct view *v); /* as if it had just been made; what it holds stays */
void view_wipe(struct view *v);
struct view *view_free(struct view *v);

/* A secret stands in from..to, in data or before it. false: stop. */
typedef bool view_fn(void *context, const struct needle *n, ptrdiff_t from, ptrdiff_t to);

/* Names every needle that ends in data, and what is written with escapes as soon as these are whole
 * (at most VIEW_LATE bytes later). t->at counts from call to call. 0, 1 when fn said stop, or
 * -ENOMEM: then nothing may pass. */
int view_feed(struct view *v, const struct seek_text *t, bool last, view_fn *fn, void *context);

#define VIEW_LATE 32

/* The last call was looked at, and no escape in it counts. */
bool view_slept(const struct view *v);

/* May a form go on across p[at], which is 0x20 or less, of what is known so far? */
bool view_goes_on(const char *p, size_t at, size_t n);

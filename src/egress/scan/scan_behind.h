/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_behind.h - shapes of tokens behind base64, hex and escapes, for the leak scan.
 *
 * What such bytes stand for is fed to a scan of its own, two deep, which looks for shapes alone and
 * whose findings act on the bytes of the stream. What is decoded follows from the text, and from
 * nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan;

#define BEHIND_DEPTH 2

struct behind; /* a text that is said */

struct behind *behind_free(struct behind *s);
void behind_wipe(struct behind *s);
void behind_restart(struct behind *s);

/* The next byte that is said stands at `raw` of the stream, and so do those that follow: `num`
 * bytes for `den` of them. Made when it is needed; false: no memory. */
bool behind_mark(struct scan *b, struct behind **s, int64_t raw, unsigned num, unsigned den);
/* false: blocked, or no memory. */
bool behind_say(struct scan *b, struct behind *s, const char *p, size_t n);
/* What comes next is another text. */
bool behind_break(struct scan *b, struct behind *s);
bool behind_flush(struct scan *b, struct behind *s, bool last);

/* Where from..to of what `inner` reads stands in the scan it belongs to; false: it is not known any
 * more. */
bool behind_place(const struct scan *inner, int64_t *from, int64_t *to);

/* ---- runs of base64 and hex: scan_runs.c ---- */

struct runs;

struct runs *runs_free(struct runs *r);
void runs_wipe(struct runs *r);
void runs_restart(struct runs *r);
bool runs_look(struct scan *b); /* at the bytes at hand; false: blocked */

/* ---- escapes: scan_escapes.c ---- */

struct escapes;

struct escapes *escapes_free(struct escapes *x);
void escapes_wipe(struct escapes *x);
void escapes_restart(struct escapes *x);
bool escapes_look(struct scan *b);

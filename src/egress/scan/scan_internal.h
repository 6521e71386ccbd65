/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_internal.h - the parts of the leak scan, for one another. */
#pragma once

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "egress/scan/match.h"
#include "egress/scan/scan.h"
#include "egress/scan/shapes.h"
#include "egress/seek/view.h"

/* At least so much is held back: the longest shape and what is looked at behind it, in base64
 * behind escapes. */
#define HOLD_USUAL 4096
#define PENDING_MAX 512
#define MASKS_MAX 256
#define SPARE_MAX 16
#define WINDOW_MAX 1024 /* bytes remembered from one request to the next */

/* The last bytes of what went out before, so that a secret in two pieces is one. */
struct window {
	char *p;
	size_t n;
};

struct candidate {
	const struct shape *shape;
	size_t len; /* of its literal */
};

struct scanner {
	struct arena *arena;     /* holds forms of secrets */
	struct matcher *matcher; /* of the shapes; shared with the one that takes its place */
	size_t users;            /* open scans, and others who hold it */
	bool replaced;           /* freed with the last of them */
	struct needles needles;
	struct views *views;
	const struct secret *secrets;
	enum leak_action actions[LEAK_KINDS];
	bool written[LEAK_KINDS]; /* by somebody, not the table */
	bool redact_json;
	struct candidate *ids; /* of the matcher's literals */
	size_t hold;
	struct window body, query, labels;
	struct scan *head;  /* for texts that are there as a whole */
	struct scan *spare; /* closed ones, to be opened again: making one costs more than a scan */
	size_t n_spare;
	struct buf text; /* of the head being scanned */
	scan_report *report;
	void *context;
};

struct pending {
	const struct shape *shape;
	int64_t start; /* of its literal, in the stream */
};

struct mask {
	int64_t from, to;
	const struct shape *shape; /* whose bytes may go on; NULL: they end here */
};

/* Offsets count from the first byte of the stream; those of the window in front of it are negative.
 * `win` has the last bytes before `data`; the last `held` of them have not been released. */
struct scan {
	struct scanner *scanner;
	struct scan *next; /* spare */
	struct match_stream *stream;
	struct view *view;
	enum scan_direction direction;
	enum scan_part part;
	bool needles_only, shapes_only, credential_field, hashed, no_redact; /* of the text at hand
									      */
	int64_t base;                                                        /* offset of data[0] */
	char *win[2];
	unsigned which;
	size_t win_n, held;
	struct pending pending[PENDING_MAX];
	size_t n_pending;
	struct mask masks[MASKS_MAX];
	size_t n_masks;
	/* Can these bytes be replaced? NULL: any can. */
	bool (*can_mask)(const void *owner, int64_t from, int64_t to);
	const void *owner;
	bool soften; /* what would be blocked is redacted, unless `block` was explicitly set */
	/* Takes a known value out; false: it cannot be. *again: it was, before. */
	bool (*take_out)(void *taker, int64_t from, int64_t to, bool *again);
	void *taker;
	scan_run_fn *on_run; /* NULL: nobody asks */
	void *run_context;
	bool stops;
	/* What base64, hex and escapes in it say; NULL: nothing yet. Of a scan of such texts: whose
	 * they are, which of the two, and how deep it is. */
	struct base_runs *runs;
	struct escapes *escapes;
	struct scan *outer;
	const struct behind *mapped;
	unsigned depth;
	const struct shape *masking; /* a redaction that went on to the end of the last piece */

	/* of the call at hand */
	char *data;
	size_t n;
	bool last, blocked;
	struct egress_verdict *verdict;
};

int64_t scan_first(const struct scan *b); /* offset of the first byte that can still be seen */
/* Says what was found and acts on it. false: blocked. */
bool scan_found(struct scan *b, enum leak_kind kind, const struct shape *shape, bool sample,
		int64_t from, int64_t to);
bool scan_mask(struct scan *b, const struct shape *shape, int64_t from, int64_t to);
bool scan_hex(struct scan *b); /* 64 hexadecimal digits on their own, which no literal finds */
/* A scan of what `outer` says in another way. */
int scan_open_inner(struct scan *outer, struct scan **ret, struct err *e);
void window_add(struct window *w, const char *p, size_t n);
int scan_alloc(struct scanner *s, struct scan **ret, struct err *e);
struct scan *scan_free(struct scan *b);
void scan_restart(struct scan *b);

/* ---- shapes behind base64, hex and escapes: scan_behind.c ----
 *
 * What such bytes stand for is fed to a scan of its own, two deep, which looks for shapes alone and
 * whose findings act on the bytes of the stream. What is decoded follows from the text alone. */

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

/* ---- the text that base64 says: scan_base64.c ---- */

#define BASE64_TEXTS 4 /* groups in a row that are text */
#define BASE64_GROUPS (BASE64_TEXTS + 1)

struct base64_group {
	int64_t at; /* of its first sign */
	unsigned n;
	char b[3];
};

struct base64_says {
	char signs[4]; /* of a group that is not whole */
	unsigned n;
	int64_t at;
	struct base64_group last[BASE64_GROUPS];
	unsigned n_last, texts; /* so many of the last ones are text */
	bool skipped;           /* they begin with this one, which nobody read */
	char before[4];
	int64_t before_at;
	bool telling;
	int64_t next; /* where what is told goes on; INT64_MIN: it does not */
};

extern const unsigned char base64_six[256]; /* one more than a sign's value; 0: it is none */

void base64_begins(struct base64_says *s);
/* Signs, the first of which stands at `at` of the stream. false: blocked. */
bool base64_say(struct scan *b, struct behind **said, struct base64_says *s, const char *p,
		size_t n, int64_t at);
/* A line ends, or all of it: so does the group at hand. */
bool base64_stops(struct scan *b, struct behind **said, struct base64_says *s);

/* ---- runs of base64 and hex: scan_runs.c ---- */

struct base_runs;

struct base_runs *runs_free(struct base_runs *r);
void runs_wipe(struct base_runs *r);
void runs_restart(struct base_runs *r);
bool runs_look(struct scan *b); /* at the bytes at hand; false: blocked */
/* Did any of these lie in one? Where nobody looks they may have. */
bool runs_were_seen(const struct scan *b);

/* ---- escapes ---- */

struct escapes;

struct escapes *escapes_free(struct escapes *x);
void escapes_wipe(struct escapes *x);
void escapes_restart(struct escapes *x);
bool escapes_look(struct scan *b);

/* SPDX-License-Identifier: Apache-2.0 */
/* interp/interp_answer.h - one line that the program of a context has written.
 *
 * Whoever runs code in a context can write any line: an answer is data to be shown, and never
 * obeyed. What is not exactly one of these is refused as a whole: unknown types, members, kinds of
 * data, ends; images that are no base64 or do not begin as one; deeper or more than fits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/text/cleanup.h"

#define INTERP_LINE_MAX ((size_t)8 << 20)

enum interp_type { INTERP_READY, INTERP_OUT, INTERP_SHOW, INTERP_FAIL, INTERP_DONE };

enum interp_mime {
	MIME_PLAIN,
	MIME_HTML,
	MIME_MARKDOWN,
	MIME_LATEX,
	MIME_SVG,
	MIME_JSON,
	MIME_PNG, /* this and the next as base64 */
	MIME_JPEG,
	MIME_COUNT
};

enum interp_end { INTERP_OK, INTERP_ERROR, INTERP_EXIT, INTERP_INTERRUPTED };

struct interp_answer {
	struct jread *root; /* owns the texts */
	enum interp_type type;
	uint64_t id;                  /* of the request that it says it is about */
	int stream;                   /* out: 1 or 2 */
	const char *text;             /* out; fail: the trace */
	const char *name, *message;   /* fail */
	bool value;                   /* show: of the last expression */
	const char *data[MIME_COUNT]; /* show; NULL: not of that kind */
	enum interp_end end;          /* done */
	int code;                     /* done: 0 to 255 */
};

/* true: *ret is an answer, for interp_answer_done. */
bool interp_answer_read(const char *p, size_t n, struct interp_answer *ret);
void interp_answer_done(struct interp_answer *a);
static inline void cleanup_interp_answer(struct interp_answer *a)
{
	interp_answer_done(a);
}

const char *interp_mime_name(enum interp_mime m);
static inline bool interp_mime_image(enum interp_mime m)
{
	return m == MIME_PNG || m == MIME_JPEG;
}

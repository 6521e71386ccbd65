/* SPDX-License-Identifier: Apache-2.0 */
/* wire/http1.h - HTTP/1.1 answers, read strictly and as they arrive.
 *
 * Pure: no socket, clock or allocation. The caller keeps the bytes; everything returned points into
 * them. Whatever two readers could understand differently is refused rather than guessed: a bare CR
 * or LF, folded lines, a blank before the colon, a length beside a transfer coding, repeated or
 * signed lengths, any coding but one final `chunked`, chunk extensions, a size that does not fit.
 * After an error the connection must be closed: where the next answer begins is not known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"
#include "wire/http1_name.h"

enum {
	HTTP1_HEAD_MAX = 65536,
	HTTP1_FIELDS_MAX = 100,
	HTTP1_TRAILER_MAX = 8192,
};

/* Not NUL-terminated. */
struct http1_text {
	const char *p;
	size_t n;
};

struct http1_field {
	struct http1_text name, value; /* the value without blanks around it */
	enum http1_name is;            /* its name, as every reader of heads has it */
};

enum http1_framing {
	HTTP1_NO_BODY,
	HTTP1_LENGTH,
	HTTP1_CHUNKED,
	HTTP1_UNTIL_CLOSE,
	HTTP1_UPGRADED, /* no HTTP any more: the bytes belong to another protocol, both ways */
};

struct http1_answer {
	unsigned minor; /* of HTTP/1.x: 0 or 1 */
	int status;     /* 100 to 599 */
	struct http1_text reason;
	enum http1_framing framing;
	uint64_t length;   /* with HTTP1_LENGTH */
	bool keeps_alive;  /* another request may follow this answer's body */
	bool asks_upgrade; /* `Upgrade` is among the Connection tokens */
	size_t n_fields;
	struct http1_field fields[HTTP1_FIELDS_MAX]; /* last: only those that are there are set */
};

/* What was asked decides how an answer is framed. */
enum http1_asked {
	HTTP1_ASKED_PLAIN,
	HTTP1_ASKED_HEAD,      /* the answer has no body, whatever it says */
	HTTP1_ASKED_WEBSOCKET, /* 101 is welcome; what follows its head is no HTTP */
	HTTP1_ASKED_UPGRADE, /* 101 is welcome, and so is a 200 that means the same (old engines) */
};

/* Reads one head. Returns how many bytes it took, 0 when more must come, or -EBADMSG / -EMSGSIZE
 * with *e set. A 1xx other than 101 is an answer of its own without a body: read the next. */
ssize_t http1_read_answer(const char *p, size_t n, enum http1_asked asked, struct http1_answer *ret,
			  struct err *e);

/* The value of the only field of that name (any case); p is NULL when there is none or several. */
struct http1_text http1_field(const struct http1_answer *a, const char *name);
/* Seconds that Retry-After names; 0: it is not there, or is a date. */
uint64_t http1_retry_after(const struct http1_answer *a);
/* The same for any list of fields. */
struct http1_text http1_only(const struct http1_field *f, size_t n, const char *name);
size_t http1_count(const struct http1_field *f, size_t n, const char *name);
/* Is the word one of the comma-separated tokens of any field of that name? */
bool http1_lists(const struct http1_field *f, size_t n, const char *name, const char *word);
bool http1_text_is(struct http1_text t, const char *word); /* compared without regard to case */

/* What writers of heads and chunks need: digits to the base of 10 or 16, and their number. */
enum { HTTP1_DIGITS = 20 };
size_t http1_digits(char out[HTTP1_DIGITS], uint64_t v, unsigned base);

/* ---- the body ---- */

enum http1_state {
	HTTP1_DATA,    /* `left` bytes of it, or until the end of the connection */
	HTTP1_SIZE,    /* in the line with a chunk's size */
	HTTP1_SIZE_LF, /* behind its CR */
	HTTP1_DATA_CR, /* behind a chunk's data */
	HTTP1_DATA_LF,
	HTTP1_TRAILER,      /* at the start of a trailer line */
	HTTP1_TRAILER_NAME, /* before its colon */
	HTTP1_TRAILER_IN,   /* behind it */
	HTTP1_TRAILER_LF,
	HTTP1_LAST_LF, /* behind the CR of the empty line */
	HTTP1_DONE,
};

struct http1_body {
	enum http1_state state;
	bool chunked, until_close;
	uint64_t left;    /* of the length, or of this chunk */
	unsigned digits;  /* of the size being read */
	unsigned trailer; /* bytes of it so far */
	char *keep;       /* where its bytes go, HTTP1_TRAILER_MAX of them; NULL: nowhere */
	size_t kept;
};

/* Of a request or of an answer. */
void http1_body_start(struct http1_body *b, enum http1_framing framed, uint64_t length);
void http1_body_init(struct http1_body *b, const struct http1_answer *a);

/* Takes some of the bytes at p: *data points to the body's bytes among them, possibly none. Returns
 * how many it took, at least 1 while n > 0 and the body is not done, or -EBADMSG. Call it again
 * with the rest. */
ssize_t http1_body_read(struct http1_body *b, const char *p, size_t n, struct http1_text *data);
bool http1_body_done(const struct http1_body *b);
/* So many bytes of a body with a length, at most what is left of it, went another way. */
void http1_body_skip(struct http1_body *b, uint64_t n);

/* The connection is at its end: 0 when the body is whole, otherwise -EBADMSG. */
int http1_body_end(struct http1_body *b);

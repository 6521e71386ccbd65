/* SPDX-License-Identifier: Apache-2.0 */
/* audit/record.h - one event, and the line it becomes.
 *
 * A record borrows the texts it is given until it is written. Every text passes the redactor and is
 * cut at 512 bytes when the line is built, so nobody who fills a record has to think of that.
 *
 * A line is canonical: the same event gives the same bytes, and a reader accepts only what the
 * writer would have written around the fields (order of keys, digits, lower-case hex). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "audit/events.h"
#include "audit/key.h"
#include "base/text/buf.h"

enum {
	RECORD_TEXT_MAX = 512,        /* bytes of one text */
	RECORD_LIST_MAX = 64,         /* elements of one list */
	RECORD_LINE_MAX = 256 * 1024, /* more than any record can become */
	RECORD_TIME_SIZE = 28,        /* "2026-01-02T03:04:05.678901Z" and the NUL */
};

struct record_value {
	const char *text; /* NULL: not given */
	const char *const *list;
	int64_t number;
	bool given;
};

struct record {
	enum event type;
	const char *run;       /* 32 hex digits; NULL: none */
	const char *policy;    /* 16 hex digits; NULL: none */
	const char *rule;      /* NULL: none */
	const char *principal; /* NULL: none */
	const char *agent;     /* NULL: none */
	struct record_value values[EVENT_FIELDS_MAX];
};

/* An empty record. The setters take the name of a field of its type and that field's kind; anything
 * else is a programming error. A NULL text or list is left out. */
void record_init(struct record *r, enum event type);
void record_text(struct record *r, const char *field, const char *text);
void record_number(struct record *r, const char *field, int64_t v);
/* A field in milliseconds; it is written with its thousandths. */
void record_micros(struct record *r, const char *field, uint64_t us);
void record_bool(struct record *r, const char *field, bool v);
void record_list(struct record *r, const char *field, const char *const *list); /* NULL-ended */

/* The part of a line that does not depend on its place: `"type":...` up to the last field. */
void record_body(const struct record *r, const struct audit_key *k, struct buf *out);

/* Where in the chain a line stands. */
struct record_link {
	uint64_t seq;
	uint64_t time_us; /* since 1970 */
	bool clock_back;  /* the clock was behind the record before */
	unsigned char prev[32];
};

/* Appends the whole line, newline included; mac receives its own. */
void record_line(const struct record_link *at, const char *body, size_t n,
		 const struct audit_key *k, struct buf *out, unsigned char mac[32]);

/* A line taken apart, as far as the chain goes; texts are borrowed from it. */
struct line {
	struct record_link at;
	const char *type; /* not NUL-terminated */
	size_t type_n;
	const char *body; /* from "type" to the last field */
	size_t body_n;
	unsigned char mac[32];
	size_t signed_n; /* bytes the mac covers */
};

/* p is one line without its newline. 0, or -EINVAL: not a line of ours. Checks the form only. */
int line_parse(const char *p, size_t n, struct line *ret);
bool line_genuine(const char *p, const struct line *l, const struct audit_key *k);

void record_time(uint64_t us, char out[RECORD_TIME_SIZE]);
int record_time_parse(const char *p, size_t n, uint64_t *us); /* exactly that form; 0 or -EINVAL */

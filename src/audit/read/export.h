/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/export.h - records in the forms others read. Pure: into a buffer, which the caller
 * empties between records.
 *
 * Every form is safe on a terminal: text and CSV replace control characters, the JSON forms escape
 * them. The chain (prev, mac) is left out, except in `raw`, which is the line as it stands. */
#pragma once

#include <stdbool.h>

#include "audit/read/entry.h"
#include "base/text/buf.h"

enum format {
	FORMAT_TEXT,       /* a line each, for people */
	FORMAT_JSON,       /* an array of objects */
	FORMAT_JSONL,      /* an object a line */
	FORMAT_RAW,        /* the lines of the record, chain and all */
	FORMAT_CSV,        /* RFC 4180, with a head line; no cell is a formula */
	FORMAT_OCSF,       /* an array of events of the Open Cybersecurity Schema Framework */
	FORMAT_OCSF_JSONL, /* the same, an object a line */
	FORMAT_COUNT
};

bool format_by_name(const char *name, enum format *ret);

struct exporter {
	enum format format;
	struct buf *out;
	bool some;     /* a record was written */
	bool terminal; /* even `raw` escapes what a terminal would obey */
};

void export_begin(struct exporter *x, enum format f, struct buf *out);
void export_entry(struct exporter *x, const struct entry *en);
void export_end(struct exporter *x);

/* A value fit for a terminal: texts without quotes and escapes, the rest as it is. */
void export_value(struct buf *out, const struct pair *p);

/* The same as the value of a JSON key. */
void export_json_value(struct buf *out, const struct pair *p);

/* One event in OCSF's shape (ocsf.c). */
void ocsf_event(struct buf *out, const struct entry *en);

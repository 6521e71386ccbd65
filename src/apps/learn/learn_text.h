/* SPDX-License-Identifier: Apache-2.0 */
/* apps/learn/learn_text.h - the settings that a run would have needed, as a .brig.yaml.
 *
 * Pure. Every name in it was chosen by the command that ran: a rule or path is quoted as JSON does,
 * a remark has printable ASCII alone and ends with its line. Nothing is granted that the run had
 * not: hosts that answered at an open door, and of its own mounts the parts that it used. */
#pragma once

#include <time.h>

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "model/learn/sightings.h"
#include "model/outcome/outcome.h"
#include "model/settings/spec.h"

enum { LEARN_TEXT_MAX = 4 << 20, LEARN_FILES = 16, LEARN_TOLD = 64 };

struct learned_line {
	const char *text;
	uint64_t count, first_us; /* count 0: it comes from an earlier run */
};

struct learned_list {
	struct learned_line *v;
	size_t n;
};

struct learn_text {
	struct arena *arena;
	const struct spec *run; /* as it ran: checked */
	const struct spec *add; /* of an earlier run; NULL: there is none */
	const struct sightings *seen;
	const struct outcome *outcome; /* what was refused; NULL: it is not told */
	time_t at;
	/* What is written, filled by learn_settle. */
	struct learned_list allow, fields, read, write, mounts;
	struct learned_list odd; /* what was asked for and no rule can name */
};

int learn_settle(struct learn_text *t, struct err *e);
/* "12 requests, the first after 1.2 s" */
void learn_reason(struct buf *out, const char *what, const struct learned_line *l);
void learn_write(const struct learn_text *t, struct buf *out);
void learn_json(const struct learn_text *t, const char *text, struct json *j);

/* learn_hosts.c, learn_files.c: the parts of learn_settle. */
int learn_hosts(struct learn_text *t, struct err *e);
int learn_files(struct learn_text *t, struct err *e);
/* Adds a line, or its count to that of the same text. */
int learn_line(struct learn_text *t, struct learned_list *l, const char *text, uint64_t count,
	       uint64_t first_us, struct err *e);

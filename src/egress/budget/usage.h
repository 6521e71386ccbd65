/* SPDX-License-Identifier: Apache-2.0 */
/* egress/budget/usage.h - what a model's answer says of tokens, and which model a request names.
 *
 * A text comes in any pieces and is kept nowhere: JSON, one value or several behind one another (or
 * in one array), or the same in events (text/event-stream). Only numbers at certain places count,
 * so that the words of an answer say nothing; of one place the highest number does, since a stream
 * repeats them as they grow. Names of members are read as lax servers read them: with their escapes
 * undone and in any case. Pure, in constant memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum usage_number {
	USAGE_IN,
	USAGE_READ,    /* from a cache, beside those */
	USAGE_WRITTEN, /* to one, beside those */
	USAGE_HOUR,    /* of these, for an hour, which is dearer */
	USAGE_TOOLS,   /* of tools' prompts, beside those */
	USAGE_CACHED,  /* of the first, from a cache */
	USAGE_OUT,
	USAGE_THOUGHTS, /* beside those */
	USAGE_TOTAL,    /* of everything; 0: not said */
	USAGE_NUMBERS
};

enum {
	USAGE_MODEL_MAX = 95,
	USAGE_DEPTH = 64,
	USAGE_PATH = 96,
};

/* More than any answer has: who says so says nothing that can be added up. */
#define USAGE_MOST 1000000000ULL

enum usage_framing { USAGE_JSON, USAGE_EVENTS };

struct usage {
	uint64_t n[USAGE_NUMBERS];
	bool in, out;                    /* there was a number of it */
	bool bad;                        /* one was none, or not JSON */
	bool ended;                      /* a value of JSON, the last of them at least */
	bool later;                      /* a request wants its answer kept for later */
	char model[USAGE_MODEL_MAX + 1]; /* the first that was named; "": none */
	uint64_t since;                  /* bytes behind the last number of what came out */
};

/* Each model that is named, as often as it is. */
typedef void usage_model_fn(void *arg, const char *model);

struct usage_reader {
	struct usage u;
	enum usage_framing framing;
	usage_model_fn *named;
	void *arg;

	/* of events: so much of "data:" begins the line, or none of it does */
	unsigned char line;
	bool empty, cr; /* nothing was in it; it ended with a CR, and an LF may belong to that */

	/* of JSON */
	unsigned char state, hex, of_string;
	bool lost; /* not JSON: nothing more is read, of an event to its end */
	unsigned depth;
	uint64_t objects;  /* a bit a level */
	unsigned open;     /* levels whose members may have a path */
	unsigned followed; /* the level whose member the path is; 0: none */
	char path[USAGE_PATH];
	unsigned char len, at[USAGE_DEPTH]; /* of the path; where a level's members begin in it */
	char text[USAGE_MODEL_MAX + 1];     /* a name or a string, as far as it is wanted */
	unsigned char n_text;
	bool cut, wanted; /* text had no room; somebody wants it */
	unsigned code;    /* of an escape */
	uint64_t number;
	bool negative, point, part, huge, digits, exponent;
};

void usage_open(struct usage_reader *r, enum usage_framing framing);
void usage_feed(struct usage_reader *r, const char *p, size_t n);
void usage_end(struct usage_reader *r); /* of the text; a number may have been the last of it */

/* What it adds up to. */
struct usage_sum {
	uint64_t in, cached, written, hour, out; /* cached and written are part of in, hour of
						    written */
};
struct usage_sum usage_sum(const struct usage *u);

/* SPDX-License-Identifier: Apache-2.0 */
/* proc/node/node_frame.h - what two brigs say to each other when one runs a command for the other
 * on a node: docs/design/slurm.md.
 *
 * A frame is eight bytes (a mark, its kind, two zeros, its size, most significant byte first), its
 * content and a newline, because Slurm holds back a line until its end. Either side reads what the
 * other one writes as hostile: a kind that is not the other's to send, or a size beyond that
 * kind's, ends the conversation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

enum { NODE_PROTOCOL = 1, NODE_HEADER = 8, NODE_PART = 32 << 10 /* of a stream, in a frame */ };
/* Input that is under way to the node and was not yet taken. */
enum { NODE_WINDOW = 256 << 10 };

enum node_word {
	/* To the node. */
	NODE_SETTINGS, /* JSON: version, settings as in brig.yaml, paths to compare, the rest */
	NODE_WORDS,    /* of the command, each with its NUL */
	NODE_VARIABLES,
	NODE_CODE,
	NODE_GO, /* nothing more comes before the command begins */
	NODE_INPUT,
	NODE_INPUT_END,
	NODE_SIGNAL, /* one byte */
	NODE_SIZE,   /* rows, columns: two bytes each */
	NODE_PING,   /* somebody is still there */
	/* From the node. */
	NODE_READY, /* JSON: version, host, job */
	NODE_BEGAN, /* the command runs */
	NODE_OUT,
	NODE_ERR,
	NODE_TAKEN,  /* four bytes: so much input was taken */
	NODE_ALIVE,  /* the run goes on, and so does its node */
	NODE_NOTE,   /* a line for the user */
	NODE_REPORT, /* the object of --json, without the streams; the last one */
	NODE_KINDS
};

enum node_side { NODE_FROM_HERE, NODE_FROM_NODE };

struct node_frame {
	enum node_word kind;
	const char *data; /* borrowed until the next call */
	size_t size;
};

struct node_reader {
	enum node_side from;
	struct buf held;
	size_t used; /* of held: the frame that was given last */
	bool broken; /* nothing is read any more */
};

void node_reader_init(struct node_reader *r, enum node_side from);
void node_reader_done(struct node_reader *r);
void node_reader_add(struct node_reader *r, const void *p, size_t n);
/* 1: a whole frame; 0: more is needed; -EPROTO: this is none of them. */
int node_reader_next(struct node_reader *r, struct node_frame *ret);

void node_put(struct buf *b, enum node_word kind, const void *p, size_t n);
void node_put_number(struct buf *b, enum node_word kind, uint32_t v, size_t bytes);
uint32_t node_number(const struct node_frame *f); /* of up to four bytes */
size_t node_max(enum node_word kind);

/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/streams/stream.h - moves one stream of the command, with bounded memory and without
 * blocking.
 *
 * A pump reads the command's pipe only when its goal can take more, so a reader that stops makes
 * the command wait, never brig grow. Output goes to a descriptor of the caller's (spliced where the
 * kernel can) or is kept in a struct stream up to a limit; past the limit it is counted and
 * dropped. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/last_words.h"
#include "model/outcome/outcome.h"
#include "sandbox/sandbox.h"
#include "sandbox/streams/keys.h"
#include "sandbox/streams/vtfilter.h"

struct pump {
	int from;  /* owned; -1 when at its end */
	int to;    /* owned; -1: kept in the outcome, or only told */
	int which; /* 1 or 2, for on_output */
	bool is_socket, can_splice, blocked;
	bool terminal;              /* `from` is the master of one */
	bool silent;                /* nothing more comes, but it stays open */
	struct stream *keep, *both; /* borrowed */
	struct last_words *tail;    /* borrowed; NULL: nobody asks for it */
	uint64_t limit;             /* 0: none */
	bool tells;                 /* what is not kept goes to on_output alone */
	output_fn *on_output;
	void *arg;
	char held[4]; /* the first bytes of a character whose rest has not come */
	size_t held_n;
	struct vtfilter *filter; /* when `to` is a terminal */
	bool raw;          /* ... that the command has for its own: what it says is not looked at */
	bool steered;      /* and it has said more than text */
	bool settled;      /* the terminal is as it was */
	struct buf unsent; /* read, but not yet taken by `to` */
	size_t sent;       /* of unsent */
	bool ends;         /* once `last` bytes were read */
	uint64_t last;
};

/* `to` may be -1. Takes `from`; makes a descriptor of its own for `to`, whose flags stay untouched.
 */
void pump_open(struct pump *p, int from, int to);
bool pump_done(const struct pump *p); /* at its end, and all of it delivered */
void pump_close(struct pump *p);      /* a terminal gets its own colours back, if it takes them */
/* What to wait for; fd is -1 when there is nothing to do any more. */
struct pollfd pump_wants(const struct pump *p);
void pump_move(struct pump *p);
/* The command is gone, and somebody else may hold its end: what is in the pipe now is the last. */
void pump_end(struct pump *p);

/* The command's input. What the command never read is given back where the source can seek, so that
 * `while read x; do brig run ...; done < file` works as it does without brig. */
struct feed {
	int from; /* borrowed */
	int to;   /* owned; -1 when the command was told that there is no more */
	int peer; /* owned: the command's own end, to count what is left in the pipe; -1: cannot
		     seek */
	bool full;
	bool terminal;    /* `to` is one: the end of input is a character there */
	bool over;        /* and was typed, */
	bool lines;       /* when the terminal gave out whole lines, or keys */
	bool keyboard;    /* `from` is one, and `to` a terminal: it is read whether or not that can
			     take more, for the way out */
	struct buf typed; /* and not yet taken by `to` */
	bool shared;      /* `from` is a terminal that others of its session read as well */
	bool away;        /* and they are in its foreground: their input is left to them */
	bool leave;       /* somebody typed the way out */
	bool hung;        /* the keyboard is gone for good */
	struct keys keys;
};

/* Takes to and peer. `tty`: the command has a terminal of its own. */
void feed_open(struct feed *f, int from, int to, int peer, bool tty);
struct pollfd feed_wants(const struct feed *f);
struct pollfd feed_room(const struct feed *f); /* for what was typed; fd is -1: nothing waits */
/* Sets `away`, which whoever waits takes back after a while. */
void feed_move(struct feed *f);
/* After output: a program that begins to read keys does not see an end that was typed before. */
void feed_again(struct feed *f);
void feed_close(struct feed *f); /* after the command is gone */

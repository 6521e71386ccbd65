/* SPDX-License-Identifier: Apache-2.0 */
/* proc/files/files.h - one operation on files of an open sandbox, done inside by a process of
 * brig's own.
 *
 * The supervisor forks it as it forks a reaper (commands.h): the same user, filter and Landlock as
 * any command, not to be looked into, with limits of its own. What is asked for is an order
 * (order.h) whose words are those of struct file_order; its folder is the workspace, from which
 * relative paths lead. No link is followed, and nothing but folders and regular files is opened.
 *
 * It speaks through pipes alone, so that it holds nothing that leads out: answers, of which the
 * last is FILE_DONE; data, to or from it; and, where data goes to it, a word that this was all.
 * The other end believes none of it. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"

enum file_verb {
	FILE_STAT,
	FILE_READ,  /* out: the bytes, as many as FILE_HAS says */
	FILE_WRITE, /* in: the bytes. The name is given once all have come */
	FILE_LIST,  /* out: struct file_entry, each with its name behind it */
	FILE_MKDIR,
	FILE_MOVE,
	FILE_REMOVE,
	FILE_WATCH,  /* out: struct file_entry whose mode is bits of enum file_change */
	FILE_PACK,   /* out: an archive (base/tar/tar.h) */
	FILE_UNPACK, /* in: an archive, into a folder */
	FILE_VERBS
};

enum file_flags {
	FILE_PARENTS = 1, /* of MKDIR: those above, too, and it may be there already */
	FILE_ALL = 2,     /* of REMOVE: a folder with all that is in it */
	FILE_OVER = 4,    /* of MOVE: what is there already is replaced */
};

enum file_change {
	CHANGE_MADE = 1,
	CHANGE_WRITTEN = 2,
	CHANGE_GONE = 4,
	CHANGE_MISSED = 8, /* something was not told: look again */
};

enum {
	FILE_MODE_SAME = 01000,   /* that of the file that is replaced, else 0644 */
	FILE_ENTRIES_MAX = 10000, /* of LIST */
	FILE_TREE_MAX = 1000000,  /* entries of an archive, or to remove */
	FILE_PATIENCE_MS = 30000, /* without a byte, either way */
	FILE_ENDS = 3,
};

#define FILE_BYTES_MAX ((uint64_t)64 << 30) /* of a file or an archive */

/* Borrowed texts; path and to are never NULL. */
struct file_order {
	enum file_verb verb;
	unsigned flags, mode;
	uint64_t limit; /* bytes */
	const char *path, *to;
};

enum { FILE_WORDS = 6 };

enum file_says {
	FILE_HAS,  /* it is there, or can be made: data may flow */
	FILE_DONE, /* the last: how it ended */
	FILE_LEFT, /* struct file_left, as many as it takes; before FILE_DONE of FILE_PACK */
};

struct file_answer {
	uint32_t says;
	int32_t error;       /* errno; 0: it was done */
	uint32_t mode, more; /* more: how many entries were left out, of LIST at least */
	uint64_t size;
	int64_t mtime; /* microseconds since 1970 */
};

enum { FILE_LEFT_TEXT = 24, FILE_LEFT_MAX = 1024 };

/* In place of an answer, and as long: a piece of the names of what was left out of an archive,
 * each with a NUL behind it. They are the first ones, FILE_LEFT_MAX bytes at most. */
struct file_left {
	uint32_t says, length;
	char text[FILE_LEFT_TEXT];
};
static_assert(sizeof(struct file_left) == sizeof(struct file_answer), "read alike");

struct file_entry {
	uint64_t size;
	int64_t mtime;
	uint32_t mode;
	uint32_t length; /* of the name, which follows without a NUL: 1 to 255 */
};

/* The words of an order, for its argv: FILE_WORDS and NULL, in `room`. */
struct file_words {
	char number[4][24];
	const char *argv[FILE_WORDS + 1];
};

void file_order_words(const struct file_order *o, struct file_words *ret);
/* 0 or -EPROTO. */
int file_order_read(const char *const *argv, struct file_order *ret);

/* Which ends a verb has: FILE_ENDS descriptors are handed in, in this order. */
enum file_end {
	FILE_END_DATA,    /* FILE_WRITE, FILE_UNPACK: to read from; else to write to */
	FILE_END_ANSWERS, /* to write to */
	FILE_END_WORD,    /* to read from: one byte once all data was given */
};
static inline bool file_takes(enum file_verb v)
{
	return v == FILE_WRITE || v == FILE_UNPACK;
}

/* Takes file_entry after file_entry out of bytes that come in pieces. */
struct file_entries {
	struct file_entry e;
	char name[256]; /* with a NUL */
	size_t have;    /* of both, so far */
};
/* 1: one is whole; 0: more is needed; -EBADMSG. *p and *n go on. */
int file_entries_take(struct file_entries *x, const char **p, size_t *n);

/* For who cannot do it: that is answered, and nothing else. */
void file_refuse(int answers, int error);

/* files.c: in the process that was forked for it, within the folder that paths lead from. ends: as
 * above, -1 where there is none. *written follows what it has written to disk, in bytes. */
_Noreturn void files_main(const char *const *argv, const int ends[FILE_ENDS], uint64_t *written);

/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/change.h - what a layer would change in its workspace: the list, and its form between
 * the confined process that makes it (layer_look.h) and those who use it.
 *
 * A folder of the list stands before what is in it. What is read from bytes is checked as a
 * stranger's: every path leads below the workspace, by names alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"

enum change_kind {
	CHANGE_ADDED,   /* a file or link where nothing is */
	CHANGE_CHANGED, /* the bytes of a file, the goal of a link */
	CHANGE_MODE,    /* only the mode: of a file or a folder */
	CHANGE_TYPE,    /* a file for a folder, a link for a file, and so on */
	CHANGE_DELETED, /* a file, or a folder with all that is in it */
	CHANGE_FOLDER,  /* a new one; what it has follows */
	CHANGE_OTHER,   /* a socket, pipe or device, or what cannot be read: never applied */
	CHANGE_KINDS
};

/* What the host did meanwhile. */
enum change_conflict {
	CONFLICT_NONE,
	CONFLICT_CHANGED, /* it was changed, or made */
	CONFLICT_GONE,    /* it was there when the run began */
	CONFLICT_BELOW,   /* something in a folder that the run has removed or replaced */
	CONFLICT_ANOTHER, /* another file or folder has its name */
	CONFLICTS
};

/* What something was when it was looked at: its ctime, unlike that of `struct stamp`, is told
 * apart, because a rename may set it. */
struct change_was {
	uint64_t dev, ino, mode, size; /* mode 0: nothing was there */
	struct timespec mtime, ctime;
};

struct change {
	const char *path, *link; /* link: where it leads; "" of all else */
	enum change_kind kind;
	enum change_conflict conflict;
	struct change_was now, was; /* in the layer; in the workspace */
	bool more_names;            /* in the layer it has others besides */
	bool origin;                /* marked as there before */
	bool within;                /* a folder above it is new too, or takes another's place */
	/* The innermost git folder that it is, or lies in: how long its path is and one more; 0:
	 * none. And was that one before? */
	uint64_t git;
	bool git_was;
	enum change_text {
		CHANGE_UNCOUNTED,
		CHANGE_COUNTED,
		CHANGE_BINARY,
		CHANGE_LARGE,
		CHANGE_TEXTS
	} text;
	uint64_t added, removed; /* lines, where they were counted */
	/* Of who has read the list: why it is by name only besides (apply_guard.h), or NULL; and
	 * how much of the path has to be named. */
	const char *obeyed;
	size_t obeyed_at;
};

struct change_list {
	struct arena *arena; /* owns the rest */
	struct change *v;
	size_t n;
};

enum { CHANGES_MAX = 500000 };
#define CHANGES_BYTES ((size_t)256 << 20)

void change_list_done(struct change_list *l);
static inline void cleanup_change_list(struct change_list *l)
{
	change_list_done(l);
}

void change_list_write(const struct change_list *l, struct buf *out);
/* 0 or -EBADMSG, -ENOMEM. The bytes are not needed afterwards. */
int change_list_read(const char *data, size_t n, struct change_list *ret);

struct change_was change_was_of(const struct stat *st);
/* The same object, as it was: by all but its ctime. */
bool change_was_same(const struct change_was *a, const struct change_was *b);

/* Relative, without an empty part, "." or "..". */
bool change_path_ok(const char *path);
/* Is `path` the folder `above`, or below it? "" is above all. */
bool change_path_below(const char *path, const char *above);

const char *change_word(enum change_kind k);
const char *change_type_word(uint64_t mode);
const char *change_conflict_text(enum change_conflict c);

/* Does a link of that text at that path lead out of the workspace, by its letters? */
bool change_leads_out(const char *path, const char *link);

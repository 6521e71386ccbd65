/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/dialect.h - five ways to write one spec.
 *
 * A dialect's reader first puts the dialect's documented defaults into the spec (ORIGIN_DIALECT:
 * not requests), then what the file says (the source's origin, with FILE:LINE:COLUMN in
 * spec.where). Unknown keys and values are errors that name the nearest valid word. Pure: nothing
 * is opened or run; paths are resolved by text against the folder of the file. */
#pragma once

#include "base/bytes/yaml.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

enum dialect {
	DIALECT_BRIG,
	DIALECT_INITRUNNER,
	DIALECT_RLM,
	DIALECT_AGENTS,
	DIALECT_IRONCLAW,
	DIALECT_COUNT
};

/* Where settings come from. */
struct source {
	const char *name;   /* as shown in errors */
	const char *folder; /* absolute; relative paths in the file are below it */
	const char *home;   /* for "~"; NULL: unknown */
	const char *cwd;    /* the working folder of the run; NULL: unknown */
	enum origin origin;
	bool trusted;         /* may loosen: an untrusted project file may not */
	struct spec *ceiling; /* what `daemon.ceiling` is read into; NULL: it is passed over */
};

/* Which dialect a document is in. More than one possible answer is an error that says how to settle
 * it
 * (--dialect). */
int dialect_of_tree(const struct source *src, const struct node *root, enum dialect *ret,
		    struct err *e);
/* Refuses a sandbox's settings at a place of the document where they would not count (stray.c). */
int stray_check(enum dialect d, const struct source *src, const struct node *root, struct err *e);
/* Lines of KEY=value named SANDBOX_*: IronClaw's env file, which is not YAML. */
bool dialect_is_env(const char *data, size_t n);

const char *dialect_name(enum dialect d); /* "brig", "initrunner", "rlm", "agents", "ironclaw" */
int dialect_by_name(const char *name, enum dialect *ret,
		    struct err *e); /* nearest word in the hint */

int brig_read(struct spec *s, const struct source *src, const struct node *root, struct err *e);
int rlm_read(struct spec *s, const struct source *src, const struct node *root, struct err *e);
int agents_read(struct spec *s, const struct source *src, const struct node *root, struct err *e);

extern const char *const rlm_keys[];    /* below `sandbox`; NULL-terminated */
extern const char *const agents_keys[]; /* of the document; NULL-terminated */

/* One variable of IronClaw's. */
struct env_line {
	const char *name, *value;
	int line; /* 0: from the environment */
};

/* Reads an env file (KEY=value, export, quotes, comments) into lines of the arena. */
int env_file_parse(struct arena *a, const struct source *src, const char *data, size_t n,
		   struct env_line **ret, size_t *count, struct err *e);
int ironclaw_read(struct spec *s, const struct source *src, const struct env_line *lines, size_t n,
		  struct err *e);
/* Is any of them one of IronClaw's, and not empty? The environment has other programs' SANDBOX_*
 * too. */
bool ironclaw_knows(const struct env_line *lines, size_t n);

/* --- helpers the readers share (dialect.c) ---
 *
 * Paths (FIELD_T_PATH, FIELD_T_PATHS, sources of mounts) are made absolute as they are read: "~" is
 * home, anything relative is below the folder of the file. */

/* Sets one field from a scalar node: text, position and error prefix in one call. A list or map
 * where a scalar belongs is an error; null means "not written". */
int read_scalar(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
		struct err *e);
int read_list(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
	      struct err *e); /* of scalars; null is the empty list; lists replace what weaker
				 origins wrote */
int read_default(struct spec *s, enum field_id id, const char *text,
		 struct err *e); /* ORIGIN_DIALECT */

/* What a dialect documents as its default. */
struct dialect_default {
	enum field_id id;
	const char *text;
};

int read_defaults(struct spec *s, const struct dialect_default *v, size_t n, struct err *e);

/* The text of a scalar node; NULL (and 0) for null. */
int read_text(const struct source *src, const struct node *n, const char **ret, struct err *e);
/* One mount, its source made absolute. `at` is where the file says so; the list begins anew by
 * spec_list_begin(s, FIELD_MOUNT, src->origin), which the caller has called once. */
int read_mount(struct spec *s, const struct source *src, const struct node *at, const char *source,
	       const char *target, bool writable, struct err *e);
/* Puts "FILE:LINE:COLUMN: key: " in front of an error that spec_set and its like gave; kind CONFIG
 * instead of USAGE. Returns -code. */
int read_failed(const struct source *src, const struct node *n, struct err *e);
/* Notes where the field came from, if this source's value is the one that counts. */
int read_where(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
	       struct err *e);

/* Refuses a member of the map whose key is not in the NULL-terminated list, naming the nearest. */
int read_only_keys(const struct source *src, const struct node *map, const char *const *keys,
		   const char *in, struct err *e);

/* A path of the file made absolute: "~", relative to the folder, or as it stands. */
int read_path(struct spec *s, const struct source *src, const struct node *n, const char **ret,
	      struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner.h - what an InitRunner role says beyond the spec: its tools
 * and its preset.
 *
 * Notes for people (names dropped, settings a backend ignores, a backend assumed) are put into
 * spec.notes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/err.h"
#include "model/dialect/dialect.h"
#include "model/dialect/presets.h"
#include "model/settings/spec.h"

enum role_tool_kind { ROLE_TOOL_SHELL, ROLE_TOOL_PYTHON, ROLE_TOOL_SCRIPT };

struct role_tool {
	enum role_tool_kind kind;
	uint64_t timeout;        /* milliseconds */
	uint64_t output;         /* characters kept */
	const char *working_dir; /* absolute; NULL: the working folder */
	const char *interpreter; /* of scripts */
	bool confirm, network_disabled;
	bool confirm_written;
	const char *offline; /* where network_disabled: true is written; NULL: nowhere */
	struct strlist allowed, blocked; /* programs of the shell tool; allowed empty: any */
	bool default_blocked;            /* blocked was not written: the documented list counts */
	struct code_script *scripts;
	size_t script_count;
};

struct role {
	const char *name; /* metadata.name; NULL: none */
	const struct preset *preset;
	struct role_tool *tools; /* shell, python and script only */
	size_t tool_count;
	struct strlist other; /* types that are passed over, each once */
};

/* Reads a role into the spec and *ret; everything lives in the spec's arena. `cwd` is the working
 * folder, one of the roots mounts may come from, or NULL when it is not known. */
int initrunner_read_role(struct spec *s, const struct source *src, const char *cwd,
			 const struct node *root, struct role *ret, struct err *e);

/* --- parts of the reader, in files of their own --- */

struct role_reader {
	struct spec *s;
	const struct source *src;
	const char *cwd;
	struct role *role;
};

/* A word of this dialect (the field itself may know more of them) or a value of its field's type.
 * n may be NULL: nothing was written. */
int role_read_word(struct role_reader *r, const struct node *n, enum field_id id,
		   const char *const *words, const char *list, struct err *e);
int role_read_plain(struct role_reader *r, const struct node *n, enum field_id id, struct err *e);

/* Refuses a key that is not in the list yet looks like a slip of one that is; others pass. */
int role_near_keys(const struct role_reader *r, const struct node *map, const char *const *keys,
		   const char *in, struct err *e);

/* initrunner_blocks.c: each takes NULL for a block that is not there */
int role_read_env(struct role_reader *r, const struct node *list, struct err *e);
int role_read_docker(struct role_reader *r, const struct node *docker, struct err *e);
int role_read_ssh(struct role_reader *r, const struct node *ssh, struct err *e);

/* initrunner_mounts.c: bind_mounts, allowed_read_paths and allowed_write_paths of security.sandbox
 */
int role_read_mounts(struct role_reader *r, const struct node *sandbox, struct err *e);

/* initrunner_hooks.c: security.tools, as far as it is about the audit hook */
int role_read_hooks(struct role_reader *r, const struct node *tools, struct err *e);

/* initrunner_model.c: model, role and guardrails of spec */
int role_read_model(struct role_reader *r, const struct node *spec, struct err *e);

/* initrunner_tools.c: the list spec.tools, and what its entries are read with. A value that is not
 * there leaves *ret as it is; texts are kept in the spec's arena. */
struct role_bounds {
	uint64_t min, max;
};
int role_read_number(const struct role_reader *r, const struct node *map, const char *key,
		     const struct role_bounds *b, uint64_t *ret, struct err *e);
int role_read_flag(const struct role_reader *r, const struct node *map, const char *key, bool *ret,
		   struct err *e);
int role_read_string(const struct role_reader *r, const struct node *map, const char *key,
		     const char **ret, struct err *e);
int role_read_strings(const struct role_reader *r, const struct node *map, const char *key,
		      struct strlist *ret, struct err *e);
int role_read_tools(struct role_reader *r, const struct node *tools, struct err *e);

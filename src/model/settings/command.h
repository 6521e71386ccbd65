/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/command.h - what is run in a sandbox: a run's only command, or one of an open
 * sandbox's. Plain data, borrowed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/settings/lists.h"

enum code_kind { CODE_NONE, CODE_PYTHON, CODE_SCRIPT };

/* A script that a role has under a name, for a model to call. */
struct code_parameter { /* becomes a variable of the script, in upper case */
	const char *name, *fallback, *about;
	bool required;
};

struct code_script {
	const char *name, *about, *body;
	const char *interpreter; /* NULL: the tool's */
	uint64_t timeout;        /* milliseconds; 0: the tool's */
	struct code_parameter *parameters;
	size_t parameter_count;
	struct strlist allowed; /* first words of its lines; empty: any */
};

/* What the audit hook of Python runs looks at (model/request/code_hook.h), as a role's
 * security.tools says.
 */
struct code_hooks {
	const char *where;             /* where it is switched on; NULL: nowhere */
	struct strlist write;          /* folders that may be written to */
	struct strlist hosts, blocked; /* names to be asked for, none: any; modules not to import */
	bool near;                     /* private addresses may be connected to */
	bool programs, evals;          /* may be started; may be run from a text */
	bool log;                      /* tell, and go on */
};

/* What `brig python` and `brig script` run; see model/request/code.h. */
struct code_spec {
	enum code_kind kind;
	const char *text; /* size bytes and a NUL */
	size_t size;
	const char *file;        /* host path it came from; NULL: none */
	const char *path;        /* where Python code appears inside */
	const char *interpreter; /* NULL: python3; of scripts what "#!" says, or /bin/sh */
	const char *given;       /* as an argument of brig's own */
	struct strlist args;
	struct envlist params;
	bool in_place; /* the workspace shows the file already */
	/* What a role says of its tool for this kind of code; 0 and NULL: nothing. */
	struct {
		uint64_t timeout, output;
		const char *interpreter;
		const char *offline; /* where network_disabled is written; NULL: nowhere */
		/* Programs that a model should ask for, none: any; and those it should not. */
		struct strlist allowed, blocked;
	} tool[CODE_SCRIPT + 1];
	struct code_hooks hooks;
	struct code_script *scripts;
	size_t script_count;
};

struct command {
	const char *const *argv;
	struct code_spec code;
	const char *const *env; /* NAME=VALUE, in place of the sandbox's own of that name */
	const char *cwd;        /* inside; NULL: where the sandbox's first command would begin */
	bool tty;
	bool unattended;     /* a terminal, and nobody who types */
	uint64_t timeout;    /* milliseconds; 0: none */
	uint64_t kill_after; /* the milliseconds from SIGTERM to SIGKILL then; 0: none */
	uint64_t output; /* bytes kept of each stream; 0: no limit (passed-through output only) */
};

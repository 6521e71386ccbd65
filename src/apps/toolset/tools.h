/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tools.h - what a model may ask for: commands, code, scripts and files in sandboxes.
 *
 * A table of tools, and the calls of them that are under way. What is allowed comes from one spec,
 * the user's; an argument chooses within it and never adds to it. Each call has a sandbox of its
 * own unless it names one that create_sandbox has made. Everything is turned by the caller's loop;
 * only the start and the end of a sandbox are waited for, which takes milliseconds. Nothing
 * outlives struct tools, except for named sandboxes that are the daemon's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/sys/loop.h"
#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "model/settings/answer.h"
#include "model/settings/spec.h"

/* Whoever has the person that is asked about names that no rule allows (egress.ask). */
struct tools_asks {
	void *arg;
	void (*asked)(void *arg, uint32_t handle, const char *host, uint16_t port);
	void (*closed)(void *arg, uint32_t handle);
};

enum { TOOLS_BOXES_MAX = 16, TOOLS_CALLS_MAX = 64 };

struct tools;
struct tool_call;

/* From now on, for sandboxes of this process. */
void tools_ask_by(struct tools *t, const struct tools_asks *by);
void tools_answer(struct tools *t, uint32_t handle, enum run_answer a, const char *by);

typedef int tool_fn(struct tool_call *c, const struct jread *args, struct err *e);

enum tool_type {
	TOOL_TEXT,
	TOOL_WORD, /* one of `words` */
	TOOL_TEXTS,
	TOOL_NUMBER, /* whole, not negative */
	TOOL_COUNT,  /* the same, from 1 */
	TOOL_FLAG,
	TOOL_MAP,  /* of texts */
	TOOL_LIST, /* of objects; results alone */
};

/* A member of what a tool takes or gives. */
struct tool_arg {
	const char *name; /* NULL: the end */
	enum tool_type type;
	const char *about;
	const char *const *words;
	const struct tool_arg *of;
	const char *alias; /* what models say for it, and no schema names; or NULL */
	bool need;
};

struct tool {
	const char *name, *title, *about; /* about: for the model */
	const struct tool_arg *input, *output;
	bool reads; /* changes nothing */
	bool keeps; /* destroys nothing */
	bool runs;  /* whatever it is given */
	tool_fn *begin;
	const struct code_script *script; /* of a role; NULL: the tool is brig's own */
};

extern const struct tool tool_table[]; /* brig's own; ends with a name that is NULL */
void tool_schema(struct json *j, const struct tool_arg *args); /* as JSON Schema */

/* Something to look at that a context has shown: text, or an image as base64. */
struct tool_shown {
	const char *mime; /* one of a fixed list */
	char *data;       /* valid UTF-8; the base64 is valid, what it means nobody has looked at */
	size_t len;
	bool image;
};

enum { TOOL_SHOWN_MAX = 64 }; /* CONTEXT_SHOWN_MAX */

/* How a call ended. Borrowed by `done`. */
struct tool_result {
	bool failed;        /* as the model is told: also a command that did not exit with 0 */
	bool cancelled;     /* by tool_cancel */
	struct buf text;    /* for the model, UTF-8 */
	struct buf json;    /* an object that fits the tool's output schema; empty: there is none */
	struct buf denials; /* the list that is in it, alone: output may hold what no reader of JSON
			     * takes. Empty: there is none */
	uint64_t more;      /* denials that are not in it */
	char run[33];       /* on the record; "": nothing was run */
	struct tool_shown shown[TOOL_SHOWN_MAX];
	size_t shown_count;
};

struct tool_listener {
	/* Output has come: how many bytes so far, and its last whole line. May be NULL. */
	void (*progress)(void *arg, uint64_t bytes, const char *line);
	void (*done)(void *arg, const struct tool_result *r); /* the last word; the call is gone */
	void *arg;
};

/* How the daemon is asked for sandboxes, where they are its own and no children of this process's.
 * All of it is borrowed as long as the tools are there. */
struct tools_daemon {
	const char *tenant; /* "@NAME", whose they are; NULL: no daemon takes part */
	const char
		*spec; /* the settings as JSON, with whatever depends on where we stand resolved */
	size_t spec_len;
	const int *secrets; /* values of credentials, for the daemon to hand on */
	size_t secret_count;
};

/* The spec is copied. Fails when no sandbox could be made from it at all. `d` may be NULL. */
int tools_new(struct loop *l, const struct spec *s, const struct tools_daemon *d,
	      struct tools **ret, struct err *e);
/* Makes one sandbox, and ends it: whether calls will have any. */
int tools_probe(struct tools *t, struct err *e);
struct tools *tools_free(struct tools *t); /* ends what runs, and tells so */
DEFINE_CLEANUP(tools, struct tools *, tools_free)
/* brig's own tools, then the scripts of a role: one after another, NULL at the end; by name. */
const struct tool *tools_at(const struct tools *t, size_t i);
const struct tool *tools_named(const struct tools *t, const char *name);
bool tools_fleeting(const struct tools *t);  /* no folder of the user's is the workspace */
bool tools_reach_out(const struct tools *t); /* what runs has a network */

/* Begins a call. `done` may come before this returns; until then *at is the call. `args` is
 * borrowed until this returns; NULL: none. */
void tool_begin(struct tools *t, const struct tool *tool, const struct jread *args,
		const struct tool_listener *by, struct tool_call **at);
/* Ends it with everything that it has started; `done` follows, through the loop. */
void tool_cancel(struct tool_call *c);

/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tools_internal.h - what the files of the tools share. */
#pragma once

#include "apps/toolset/tool_ask.h"
#include "apps/toolset/tools.h"
#include "brig.h"
#include "interp/context.h"
#include "model/outcome/outcome.h"
#include "proc/files/files.h"
#include "sandbox/sandbox.h"

#define TOOL_PATH_MAX 4096
#define TOOL_FILE_MAX ((size_t)8 << 20) /* of a file that is read or edited */
#define TOOL_ID_SIZE 33
#define FAR_REF_SIZE 64

/* Asks for one sandbox, or one run; where they are is looked at when there is an answer. */
struct tool_asker {
	struct name_asker as;
	struct tools *of;
	brig_sandbox *const *sandbox;
	brig_run *const *run;
};

/* A sandbox that stays: one that create_sandbox made, or a call's own for its files. */
struct tool_box {
	struct loop_watch w; /* first */
	struct tools *of;
	struct tool_box *next; /* of the listed ones */
	brig_request *request;
	brig_sandbox *sandbox;
	char id[TOOL_ID_SIZE], name[64];
	bool ended;                /* by itself: a limit, or somebody's doing */
	struct outcome_mark *told; /* what it was denied up to here belongs to calls */
	struct tool_asker asker;
};

/* Variables that live from one call of run_python to the next (tool_context.c). */
struct tool_context;

typedef void file_next_fn(struct tool_call *c, int error);

/* One operation on files under way. */
struct tool_file {
	struct loop_watch answers, data; /* fd -1: closed */
	struct loop_timer late;
	enum file_verb verb;
	int word;
	uint32_t number;
	bool has;
	struct file_answer last;
	struct buf got;   /* what came out */
	const char *give; /* what goes in; borrowed */
	size_t give_len, given;
	file_next_fn *next;
};

/* What a call has to do with the daemon, if its sandboxes are the daemon's. */
struct tool_far {
	struct tool_ask ask;
	struct buf body; /* of the question, as it is being written */
	struct json json;
	bool in_env;
	bool runs;      /* the question is a command */
	bool ended;     /* which has said how */
	bool own;       /* the sandbox was made for this call */
	bool waits;     /* for a sandbox that is being made, be it cancelled or not */
	bool makes;     /* that one is to stay */
	bool code;      /* the command is a call of a context */
	bool makes_own; /* ... whose own sandbox is made if it is not there */
	size_t made_before;
	char ref[FAR_REF_SIZE], exec[FAR_REF_SIZE];
	struct outcome *o;
	uint64_t began;
	enum file_verb verb; /* an operation on files */
	char path[TOOL_PATH_MAX];
	file_next_fn *next;
};

struct tool_call {
	struct loop_watch w; /* first; of its run */
	struct loop_timer end;
	struct tools *of;
	struct tool_call *next, **at;
	const struct tool *tool;
	struct tool_listener by;
	brig_request *request;
	brig_run *run;
	struct tool_asker asker;
	struct tool_box *box; /* NULL: the run has a sandbox of its own */
	bool own_box;
	bool cancelled, over;
	struct outcome_mark *denied; /* of the box, as it began */
	uint64_t timeout_ms;
	/* What its output looks like so far. */
	uint64_t seen;
	char line[256];
	size_t line_len;
	void (*ended)(struct tool_call *c, const struct outcome *o); /* its run */
	struct tool_context *context; /* that it is busy with; NULL: none */
	struct outcome *o;            /* of its code in that, so far */
	struct buf plain;             /* what that has shown, as text */
	size_t shown_bytes, shown_lost;
	struct tool_far far;
	struct tool_file file;
	char path[TOOL_PATH_MAX];
	struct buf body;       /* of a file to be written */
	uint64_t first, count; /* lines to show, entries to list */
	struct tool_result result;
};

struct tools {
	struct loop *loop;
	struct spec *spec;
	struct tools_daemon daemon; /* tenant NULL: sandboxes are this process's own */
	struct tool_ask *asks;      /* that nobody waits for */
	struct tool *scripts; /* of the role; in the spec's arena, as all that they are made of */
	size_t script_count;
	bool fleeting;  /* the workspace is empty, and goes with each sandbox */
	bool reach_out; /* its sandboxes have a network, also where only a list of hosts says so */
	struct tool_call *calls;
	size_t call_count;
	struct tool_box *boxes;
	size_t box_count;
	struct tool_context *contexts;
	size_t context_count;
	/* Of the daemon's that stay: how many are being made, and how many ever were. */
	size_t making, made;
	struct tools_asks asks_by;
	struct tool_question *questions; /* open ones */
	uint32_t asked;
};

/* ---- questions (tool_questions.c) ---- */

void asker_begin(struct tool_asker *a, struct tools *t, brig_request *q);

/* ---- arguments (tool_args.c) ---- */

/* Refuses what the tool does not take, and what it needs and is not there. */
int args_check(const struct jread *args, const struct tool_arg *takes, struct err *e);
bool args_there(const struct jread *args, const char *key); /* null is as good as nothing */
/* NULL when there is none; an error when it is no string, or longer than max. */
int args_text(const struct jread *args, const char *key, size_t max, const char **ret,
	      struct err *e);
int args_number(const struct jread *args, const char *key, uint64_t min, uint64_t max,
		uint64_t *ret, struct err *e); /* *ret stays when there is none */
int args_flag(const struct jread *args, const char *key, bool *ret, struct err *e);
/* A path for brig-files: not empty, no "..", no control character. */
int args_path(const char *path, struct err *e);

/* ---- ends (tools.c) ---- */

/* It is over: `done` is called through the loop, and the call is freed. */
void call_end(struct tool_call *c);
void call_fail(struct tool_call *c, const struct err *e);

/* ---- runs (tool_run.c) ---- */

/* Starts the request that is in the call; `ended` is told when it is over. */
int call_start(struct tool_call *c, struct err *e);
void call_output(struct tool_call *c, int stream, const char *data, size_t n);
/* A request for a command with these arguments, in the box that `sandbox` names, or alone. */
int call_request(struct tool_call *c, const struct jread *args, enum code_kind kind, struct err *e);
int call_argv(struct tool_call *c, const char *const *argv, struct err *e);
tool_fn run_command, run_python, run_script, run_role_script;

/* How long a call may take, within what the user has set: c->timeout_ms. */
int call_timeout(struct tool_call *c, const struct jread *args, enum code_kind kind, struct err *e);
/* Is there a setting that keeps Python code out of a sandbox that is open already? `without` is
 * what to leave out. */
int call_check_offline(const struct tool_call *c, const char *without, struct err *e);

/* ---- contexts (tool_context.c) ---- */

/* run_python with `context`. */
int contexts_run(struct tool_call *c, const struct jread *args, const char *code, struct err *e);
bool contexts_asked(const struct jread *args);
void contexts_cancel(struct tool_call *c);
void contexts_forget(struct tool_call *c); /* everything ends: nobody is told */
void contexts_leave(struct tools *t, const struct tool_box *b); /* the box is about to end */
void contexts_free(struct tools *t);

/* ---- what contexts show (tool_shown.c) ---- */

void shown_add(struct tool_call *c, const struct interp_answer *a);
void shown_put_text(const struct tool_call *c, struct buf *b); /* in words */
void shown_put_json(const struct tool_call *c, struct json *j);
void shown_done(struct tool_call *c);

/* ---- results (tool_result.c) ---- */

void result_run(struct tool_call *c, const struct outcome *o);
/* What was denied beside a command: by an operation on files, or as its box ended. */
void result_denied(struct tool_call *c, const struct outcome *o);

/* ---- what was changed (tool_diff.c) ---- */

tool_fn workspace_diff;

/* ---- boxes (tool_boxes.c) ---- */

/* `name`: what the list of runs calls it; NULL: nothing. */
int box_open(struct tools *t, const char *name, struct tool_box **ret, struct err *e);
/* What it was denied while a call used it belongs to the call, and is told of then. */
void box_begin_call(struct tool_call *c);
void box_end_call(struct tool_call *c, struct outcome *o);
/* Ends it; what it was denied and nobody was told of is added to `o`, unless NULL. Takes NULL. */
void box_close(struct tool_box *b, struct outcome *o);
/* Ends a command of it with all that it has started, and waits for that: commands are apart
 * (request_apart), and what tells of their end comes to the sandbox. */
void box_end_run(struct tool_box *b, brig_request *q, brig_run *run, brig_result **ret);
/* The one that the argument `sandbox` names; NULL and 0: none was named. */
int box_of(struct tools *t, const struct jread *args, struct tool_box **ret, struct err *e);
bool box_name_ok(const char *s);
tool_fn create_sandbox, list_sandboxes, delete_sandbox;

/* ---- files (tool_files.c, tool_file_op.c) ---- */

/* Does one operation in the call's box; `next` is called with an errno, 0 for none. */
int file_begin(struct tool_call *c, const struct file_order *o, file_next_fn *next, struct err *e);
void file_done(struct tool_file *f, struct loop *l); /* closes what is open */
void file_cancel(struct tool_call *c);
tool_fn read_file, write_file, edit_file, list_files, search_files;

/* ---- sandboxes of the daemon's (tool_far.c, tool_far_boxes.c) ---- */

static inline bool is_far(const struct tool_call *c)
{
	return c->of->daemon.tenant != NULL;
}
bool far_ref_ok(const char *ref);
int far_ref(struct tool_call *c, const struct jread *args, struct err *e); /* of `sandbox` */
int far_request(struct tool_call *c, const struct jread *args, struct err *e);
void far_timeout(struct tool_call *c);
void far_argv(struct tool_call *c, const char *const *argv);
void far_input(struct tool_call *c, const char *text);
void far_env(struct tool_call *c, const char *name, const char *value);
void far_env_end(struct tool_call *c); /* after the last of them */
int far_start(struct tool_call *c, struct err *e);
bool far_cancel(struct tool_call *c); /* true: it will say itself that it has ended */
/* Deletes the sandbox that was made for a call. */
int far_leave(struct tool_call *c, void (*done)(void *arg, const struct err *e));
void far_done(struct tool_call *c); /* frees what it holds, and ends what it has begun */
void far_settle(struct tools *t);   /* what nobody waits for has been heard */
int far_create(struct tool_call *c, const char *name, struct err *e);
/* One question of a call, whose last is over; what it was answered. */
int far_ask(struct tool_call *c, const struct daemon_question *q, size_t max,
	    void (*done)(void *arg, const struct err *e), struct err *e);
struct jread *far_answer(struct tool_call *c);
/* Makes a sandbox. `lives`: how long, as members of the body. */
int far_open(struct tool_call *c, const char *name, const char *label, const char *lives,
	     void (*done)(void *arg, const struct err *e), struct err *e);
/* The one that was made; false: it did not come to life, which was said. */
bool far_opened(struct tool_call *c, const struct err *e);
void far_made(struct tool_call *c); /* it is no longer being made, if it was */
int far_list(struct tool_call *c, struct err *e);
int far_delete(struct tool_call *c, const struct jread *args, struct err *e);
int far_file(struct tool_call *c, const struct file_order *o, file_next_fn *next, struct err *e);

/* Contexts of theirs (tool_far_context.c). */
#define CONTEXT_INTERRUPTED                                                                        \
	"\nThe code was interrupted; the variables of the context are still there."
int far_context(struct tool_call *c, const struct jread *args, const char *name, const char *code,
		bool again, struct err *e);
void far_shown(struct tool_call *c, const struct jread *v); /* an event */
bool far_context_missing(struct tool_call *c); /* true: its sandbox is made, and it asked again */

/* ---- scripts of a role (tool_scripts.c) ---- */

int scripts_new(struct tools *t, struct err *e);

/* ---- text (tool_text.c) ---- */

/* Lines first.. (from 1), at most `count` (0: all) and `max` bytes. true: all of them were put. */
bool text_lines(const char *p, size_t n, uint64_t first, uint64_t count, size_t max,
		struct buf *out, uint64_t *total);
/* Replaces the only occurrence of `old`, or all of them. How often it was found. */
size_t text_replace(const char *p, size_t n, const char *old, const char *new, bool all,
		    struct buf *out);
/* Puts text behind a line (0: before the first). false: there is no such line. */
bool text_insert(const char *p, size_t n, uint64_t line, const char *text, struct buf *out);
bool text_is(const char *p, size_t n); /* UTF-8 without NUL */

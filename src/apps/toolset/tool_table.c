/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_table.c - the tools, as a model is told of them. */
#include <string.h>

#include "apps/toolset/tools_internal.h"

#define ABOUT_BOX                                                                                  \
	"A sandbox of create_sandbox, by id or name. Without it the call has one of its own that " \
	"ends with it; the workspace stays either way."
#define ABOUT_PATH                                                                                 \
	"A path inside; a relative one leads from the workspace. No '..', and no link is "         \
	"followed."
#define ABOUT_TIMEOUT                                                                              \
	"Seconds after which everything is ended; the user's limit is the upper bound."

#define ARG_BOX                                                                                    \
	{                                                                                          \
		"sandbox", TOOL_TEXT, .about = ABOUT_BOX                                           \
	}
#define ARG_TIMEOUT                                                                                \
	{                                                                                          \
		"timeout", TOOL_COUNT, .about = ABOUT_TIMEOUT                                      \
	}
#define ARG_PATH                                                                                   \
	{                                                                                          \
		"path", TOOL_TEXT, .about = ABOUT_PATH, .need = true                               \
	}
#define ARG_END                                                                                    \
	{                                                                                          \
		NULL                                                                               \
	}

static const struct tool_arg in_command[] = {
	{ "argv", TOOL_TEXTS, .about = "Program and arguments, such as [\"make\", \"test\"]." },
	{ "shell", TOOL_TEXT, .about = "A line for /bin/sh -c, in place of argv.",
	  .alias = "command" },
	{ "cwd", TOOL_TEXT,
	  .about = "Folder inside in which it starts; by default the workspace." },
	{ "stdin", TOOL_TEXT, .about = "What it reads on standard input." },
	ARG_TIMEOUT,
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_python[] = {
	{ "code", TOOL_TEXT, .about = "The program.", .need = true },
	{ "args", TOOL_TEXTS, .about = "sys.argv[1:]." },
	{ "context", TOOL_TEXT,
	  .about = "A name, such as 'main': variables, imports and figures live on for the next "
		   "call with this name. The value of the last expression is shown, and what "
		   "display() is given." },
	{ "restart", TOOL_FLAG, .about = "Begin the context anew, without its variables." },
	ARG_TIMEOUT,
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_script[] = {
	{ "body", TOOL_TEXT, .about = "The script.", .need = true },
	{ "interpreter", TOOL_TEXT,
	  .about = "Path inside of its interpreter; by default that of its first line, else "
		   "/bin/sh." },
	{ "params", TOOL_MAP, .about = "Variables of the script." },
	ARG_TIMEOUT,
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_read[] = {
	ARG_PATH,
	{ "first_line", TOOL_COUNT, .about = "First line to show, from 1." },
	{ "lines", TOOL_COUNT, .about = "How many lines to show." },
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_write[] = {
	ARG_PATH,
	{ "text", TOOL_TEXT, .about = "The whole of its new text.", .alias = "content",
	  .need = true },
	ARG_BOX,
	ARG_END,
};

static const char *const edits[] = { "replace", "insert", NULL };

static const struct tool_arg in_edit[] = {
	ARG_PATH,
	{ "command", TOOL_WORD, .words = edits, .need = true },
	{ "old_text", TOOL_TEXT, .about = "What is to be replaced, blanks and all." },
	{ "new_text", TOOL_TEXT, .about = "What stands there afterwards.", .need = true },
	{ "all", TOOL_FLAG, .about = "Replace every occurrence." },
	{ "line", TOOL_NUMBER, .about = "The line behind which new_text is inserted." },
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_list[] = {
	{ "path", TOOL_TEXT, .about = ABOUT_PATH },
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_search[] = {
	{ "pattern", TOOL_TEXT, .about = "What to look for.", .need = true },
	{ "path", TOOL_TEXT, .about = ABOUT_PATH },
	{ "name", TOOL_TEXT, .about = "Only files whose name fits this glob, such as *.c." },
	{ "regex", TOOL_FLAG, .about = "The pattern is an extended regular expression." },
	ARG_TIMEOUT,
	ARG_BOX,
	ARG_END,
};

static const struct tool_arg in_create[] = {
	{ "name", TOOL_TEXT, .about = "Lower-case letters, digits, '.', '_' and '-'." },
	ARG_END,
};

static const struct tool_arg in_diff[] = {
	{ "sandbox", TOOL_TEXT, .about = "A sandbox of create_sandbox, by id or name." },
	{ "run", TOOL_TEXT,
	  .about = "The `run` of an earlier call. Without either: the last call that had a sandbox "
		   "of its own." },
	ARG_END,
};

static const struct tool_arg in_nothing[] = { ARG_END };

static const struct tool_arg in_delete[] = {
	{ "sandbox", TOOL_TEXT, .about = "Its id or name.", .need = true },
	ARG_END,
};

/* ---- what comes back ---- */

static const struct tool_arg denial[] = {
	{ "kind", TOOL_TEXT },
	{ "target", TOOL_TEXT },
	{ "reason", TOOL_TEXT },
	{ "setting", TOOL_TEXT, .about = "What the user could change; absent: nothing." },
	ARG_END,
};

static const struct tool_arg shown[] = {
	{ "mime", TOOL_TEXT },
	{ "bytes", TOOL_NUMBER },
	ARG_END,
};

static const struct tool_arg out_run[] = {
	{ "outcome", TOOL_TEXT, .need = true },
	{ "exit_code", TOOL_NUMBER, .need = true },
	{ "signal", TOOL_NUMBER },
	{ "stdout", TOOL_TEXT, .need = true },
	{ "stderr", TOOL_TEXT, .need = true },
	{ "stdout_truncated", TOOL_FLAG },
	{ "stderr_truncated", TOOL_FLAG },
	{ "duration_ms", TOOL_NUMBER },
	{ "limits_hit", TOOL_TEXTS },
	{ "denials", TOOL_LIST, .of = denial },
	{ "run", TOOL_TEXT, .about = "Its id in brig's record." },
	{ "error", TOOL_TEXT },
	{ "shown", TOOL_LIST, .of = shown, .about = "In a context: what follows as content." },
	ARG_END,
};

static const struct tool_arg out_read[] = {
	{ "path", TOOL_TEXT, .need = true }, { "text", TOOL_TEXT, .need = true },
	{ "total_lines", TOOL_NUMBER },      { "bytes", TOOL_NUMBER },
	{ "truncated", TOOL_FLAG },          ARG_END,
};

static const struct tool_arg out_write[] = {
	{ "path", TOOL_TEXT, .need = true },
	{ "bytes", TOOL_NUMBER, .need = true },
	ARG_END,
};

static const struct tool_arg entry[] = {
	{ "name", TOOL_TEXT },
	{ "kind", TOOL_TEXT },
	{ "bytes", TOOL_NUMBER },
	ARG_END,
};

static const struct tool_arg out_list[] = {
	{ "path", TOOL_TEXT, .need = true },
	{ "entries", TOOL_LIST, .of = entry, .need = true },
	{ "truncated", TOOL_FLAG },
	ARG_END,
};

static const struct tool_arg match[] = {
	{ "path", TOOL_TEXT },
	{ "line", TOOL_NUMBER },
	{ "text", TOOL_TEXT },
	ARG_END,
};

static const struct tool_arg out_search[] = {
	{ "matches", TOOL_LIST, .of = match, .need = true },
	{ "truncated", TOOL_FLAG },
	ARG_END,
};

static const struct tool_arg out_box[] = {
	{ "sandbox", TOOL_TEXT, .need = true },
	{ "name", TOOL_TEXT },
	{ "state", TOOL_TEXT, .need = true },
	ARG_END,
};

static const struct tool_arg out_boxes[] = {
	{ "sandboxes", TOOL_LIST, .of = out_box, .need = true },
	ARG_END,
};

static const struct tool_arg out_diff[] = {
	{ "diff", TOOL_TEXT, .need = true },
	{ "truncated", TOOL_FLAG },
	ARG_END,
};

static const struct tool_arg out_delete[] = { { "deleted", TOOL_TEXT, .need = true }, ARG_END };

/* ---- the tools ---- */

const struct tool tool_table[] = {
	{ .name = "run_command",
	  .title = "Run a command",
	  .about = "Runs a program in a sandbox around the workspace and returns its exit code and "
		   "output. Give argv (no shell is involved), or shell for pipes and operators. "
		   "What the sandbox denies is listed in `denials` with the setting that would "
		   "allow it: only the user can change settings, and no argument of any tool can.",
	  .input = in_command,
	  .output = out_run,
	  .runs = true,
	  .begin = run_command },
	{ .name = "run_python",
	  .title = "Run Python code",
	  .about = "Runs Python 3 code in a sandbox around the workspace and returns its exit code "
		   "and output. The code is a read-only file inside. With `context` it runs in one "
		   "Python process that stays, and what it shows (HTML, SVG, images, figures of "
		   "matplotlib) comes back as content.",
	  .input = in_python,
	  .output = out_run,
	  .runs = true,
	  .begin = run_python },
	{ .name = "run_script",
	  .title = "Run a script",
	  .about = "Feeds a script to an interpreter in a sandbox around the workspace and returns "
		   "its exit code and output. Parameters become variables with their names in "
		   "upper case.",
	  .input = in_script,
	  .output = out_run,
	  .runs = true,
	  .begin = run_script },
	{ .name = "read_file",
	  .title = "Read a file",
	  .about = "Returns the text of a file, or some of its lines.",
	  .input = in_read,
	  .output = out_read,
	  .reads = true,
	  .keeps = true,
	  .begin = read_file },
	{ .name = "write_file",
	  .title = "Write a file",
	  .about = "Makes a file with this text, and the folders above it; one that is there is "
		   "replaced.",
	  .input = in_write,
	  .output = out_write,
	  .begin = write_file },
	{ .name = "edit_file",
	  .title = "Edit a file",
	  .about = "command replace: puts new_text in the place of old_text, which must be in the "
		   "file exactly once (or all: true). command insert: puts new_text behind a line; "
		   "line 0 is the beginning.",
	  .input = in_edit,
	  .output = out_write,
	  .begin = edit_file },
	{ .name = "list_files",
	  .title = "List a folder",
	  .about = "Lists a folder's entries with their kinds and sizes.",
	  .input = in_list,
	  .output = out_list,
	  .reads = true,
	  .keeps = true,
	  .begin = list_files },
	{ .name = "search_files",
	  .title = "Search in files",
	  .about = "Searches the files below a folder for a text or a regular expression.",
	  .input = in_search,
	  .output = out_search,
	  .reads = true,
	  .keeps = true,
	  .begin = search_files },
	{ .name = "workspace_diff",
	  .title = "Show what was changed",
	  .about =
		  "Where the workspace is an overlay (workspace.mode), what a command or a sandbox "
		  "has changed there and nobody has applied yet, as a patch. Only the user can "
		  "apply it.",
	  .input = in_diff,
	  .output = out_diff,
	  .reads = true,
	  .keeps = true,
	  .begin = workspace_diff },
	{ .name = "create_sandbox",
	  .title = "Create a sandbox",
	  .about =
		  "Makes a sandbox that stays, so that calls can share processes and files outside "
		  "of the workspace. Its policy is the user's.",
	  .input = in_create,
	  .output = out_box,
	  .keeps = true,
	  .begin = create_sandbox },
	{ .name = "list_sandboxes",
	  .title = "List sandboxes",
	  .about = "Lists the sandboxes that create_sandbox has made.",
	  .input = in_nothing,
	  .output = out_boxes,
	  .reads = true,
	  .keeps = true,
	  .begin = list_sandboxes },
	{ .name = "delete_sandbox",
	  .title = "Delete a sandbox",
	  .about = "Ends everything that runs in a sandbox and removes it; the workspace stays.",
	  .input = in_delete,
	  .output = out_delete,
	  .begin = delete_sandbox },
	{ .name = NULL },
};

/* ---- schemas ---- */

static void put_type(struct json *j, const struct tool_arg *a)
{
	static const char *const names[] = {
		[TOOL_TEXT] = "string",   [TOOL_WORD] = "string",    [TOOL_TEXTS] = "array",
		[TOOL_COUNT] = "integer", [TOOL_NUMBER] = "integer", [TOOL_FLAG] = "boolean",
		[TOOL_MAP] = "object",    [TOOL_LIST] = "array",
	};

	json_kstr(j, "type", names[a->type]);
	if (a->type == TOOL_TEXTS || a->type == TOOL_MAP) {
		json_key(j, a->type == TOOL_MAP ? "additionalProperties" : "items");
		json_raw(j, "{\"type\":\"string\"}", strlen("{\"type\":\"string\"}"));
	}
	if (a->type == TOOL_COUNT)
		json_ku64(j, "minimum", 1);
	if (a->words)
		json_kstrs(j, "enum", a->words);
	if (a->of) {
		json_key(j, "items");
		tool_schema(j, a->of);
	}
}

void tool_schema(struct json *j, const struct tool_arg *args)
{
	json_object(j);
	json_kstr(j, "type", "object");
	json_kobject(j, "properties");
	for (const struct tool_arg *a = args; a->name; a++) {
		json_kobject(j, a->name);
		put_type(j, a);
		if (a->about)
			json_kstr(j, "description", a->about);
		json_object_end(j);
	}
	json_object_end(j);
	json_karray(j, "required");
	for (const struct tool_arg *a = args; a->name; a++)
		if (a->need)
			json_str(j, a->name);
	json_array_end(j);
	json_kbool(j, "additionalProperties", false);
	json_object_end(j);
}

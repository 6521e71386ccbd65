/* SPDX-License-Identifier: Apache-2.0 */
/* tools/tool_table.c - the tools, as a model is told of them. */
#include <stddef.h>

#include "tools/tools_internal.h"

/* Objects that take nothing else. */
#define SCHEMA(props, required)                                                                    \
	"{\"type\":\"object\",\"properties\":{" props "},\"required\":[" required                  \
	"],\"additionalProperties\":false}"

#define P_STRING(name, about) "\"" name "\":{\"type\":\"string\",\"description\":\"" about "\"}"
#define P_NUMBER(name, least, about)                                                               \
	"\"" name "\":{\"type\":\"integer\",\"minimum\":" least ",\"description\":\"" about "\"}"
#define P_BOOL(name, about) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" about "\"}"
#define P_STRINGS(name, about)                                                                     \
	"\"" name                                                                                  \
	"\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"" about "\"}"

#define P_SANDBOX                                                                                  \
	P_STRING("sandbox", "A sandbox of create_sandbox, by id or name. Without it the call has " \
			    "one of its own that ends with it; the workspace stays either way.")
#define P_TIMEOUT                                                                                  \
	P_NUMBER("timeout", "1",                                                                   \
		 "Seconds after which everything is ended; the user's limit is the upper bound.")
#define P_PATH                                                                                     \
	P_STRING("path",                                                                           \
		 "A path inside; a relative one leads from the workspace. No '..', and no "        \
		 "link is followed.")

#define O_TEXT(name) "\"" name "\":{\"type\":\"string\"}"
#define O_NUMBER(name) "\"" name "\":{\"type\":\"integer\"}"
#define O_BOOL(name) "\"" name "\":{\"type\":\"boolean\"}"
#define O_LIST(name, props)                                                                        \
	"\"" name "\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" props   \
	"}}}"

#define OUT_RUN                                                                                                                                                                                                 \
	SCHEMA(                                                                                                                                                                                                 \
		O_TEXT("outcome") "," O_NUMBER("exit_code") "," O_NUMBER("signal") "," O_TEXT(                                                                                                                  \
			"std"                                                                                                                                                                                   \
			"ou"                                                                                                                                                                                    \
			"t") "," O_TEXT("stderr") "," O_BOOL("stdout_truncated") "," O_BOOL("stde"                                                                                                              \
											    "rr_"                                                                                                               \
											    "trun"                                                                                                              \
											    "cate"                                                                                                              \
											    "d") "," O_NUMBER("duration_ms") ",\"limits_hit\":{\"type\":"                                                       \
															     "\"array\",\"items\":{\"type\":\"string\"}}," O_LIST(                              \
																     "denials",                                                                 \
																     O_TEXT("kind") "," O_TEXT("target") "," O_TEXT(                            \
																	     "rea"                                                              \
																	     "so"                                                               \
																	     "n") "," O_TEXT("setting")) "," O_TEXT("run") "," O_TEXT("error"), \
		"\"outcome\",\"exit_code\",\"stdout\",\"stderr\"")
#define OUT_BOX O_TEXT("sandbox") "," O_TEXT("name") "," O_TEXT("state")

const struct tool tool_table[] = {
	{ "run_command", "Run a command",
	  "Runs a program in a sandbox around the workspace and returns its exit code and "
	  "output. "
	  "Give argv (no shell is involved), or shell for pipes and operators. What the "
	  "sandbox "
	  "denies is listed in `denials` with the setting that would allow it: only the "
	  "user can "
	  "change settings, and no argument of any tool can.",
	  SCHEMA(P_STRINGS(
			 "argv",
			 "Program and arguments, such as [\\\"make\\\", "
			 "\\\"test\\\"].") "," P_STRING("shell",
							"A line for "
							"/bin/sh -c, "
							"in place of "
							"argv.") "," P_STRING("cwd",
									      "Folder inside in "
									      "which it starts; by "
									      "default the "
									      "workspace.") "," P_STRING("stdin",
													 "What it reads on standard "
													 "input.") "," P_TIMEOUT
														   "," P_SANDBOX,
		 ""),
	  OUT_RUN, false, false, run_command },
	{ "run_python", "Run Python code",
	  "Runs Python 3 code in a sandbox around the workspace and returns its exit code "
	  "and "
	  "output. The code is a read-only file inside.",
	  SCHEMA(P_STRING("code", "The program.") "," P_STRINGS(
			 "args", "sys.argv[1:].") "," P_TIMEOUT "," P_SANDBOX,
		 "\"code\""),
	  OUT_RUN, false, false, run_python },
	{ "run_script", "Run a script",
	  "Feeds a script to an interpreter in a sandbox around the workspace and returns "
	  "its exit "
	  "code and output. Parameters become variables with their names in upper case.",
	  SCHEMA(P_STRING("body", "The script.") "," P_STRING(
			 "interpreter",
			 "Path inside of its interpreter; by default that of its first "
			 "line, "
			 "else /bin/sh.") ",\"params\":{\"type\":\"object\","
					  "\"additionalProperties\":{\"type\":\"string\"},"
					  "\"description\":\"Variables of the "
					  "script.\"}," P_TIMEOUT "," P_SANDBOX,
		 "\"body\""),
	  OUT_RUN, false, false, run_script },
	{ "read_file", "Read a file", "Returns the text of a file, or some of its lines.",
	  SCHEMA(P_PATH "," P_NUMBER("first_line", "1", "First line to show, from 1.") "," P_NUMBER(
			 "lines", "1",
			 "How many lines to "
			 "show.") "," P_SANDBOX,
		 "\"path\""),
	  SCHEMA(O_TEXT("path") "," O_TEXT("text") "," O_NUMBER("total_lines") "," O_NUMBER(
			 "bytes") "," O_BOOL("truncated"),
		 "\"path\",\"text\""),
	  true, true, read_file },
	{ "write_file", "Write a file",
	  "Makes a file with this text, and the folders above it; one that is there is "
	  "replaced.",
	  SCHEMA(P_PATH "," P_STRING("text", "The whole of its new text.") "," P_SANDBOX,
		 "\"path\",\"text\""),
	  SCHEMA(O_TEXT("path") "," O_NUMBER("bytes"), "\"path\",\"bytes\""), false, false,
	  write_file },
	{ "edit_file", "Edit a file",
	  "command replace: puts new_text in the place of old_text, which must be in the "
	  "file exactly "
	  "once (or all: true). command insert: puts new_text behind a line; line 0 is the "
	  "beginning.",
	  SCHEMA(P_PATH
		 ",\"command\":{\"type\":\"string\",\"enum\":[\"replace\","
		 "\"insert\"]}," P_STRING(
			 "old_text",
			 "What is to be replaced, "
			 "blanks and all.") "," P_STRING("new_text", "What stands there "
								     "afterwards.") "," P_BOOL("al"
											       "l",
											       "Rep"
											       "lac"
											       "e "
											       "eve"
											       "ry "
											       "occ"
											       "urr"
											       "enc"
											       "e.") "," P_NUMBER("line",
														  "0",
														  "The line "
														  "behind "
														  "which "
														  "new_text "
														  "is "
														  "inserted"
														  ".") "," P_SANDBOX,
		 "\"path\",\"command\",\"new_text\""),
	  SCHEMA(O_TEXT("path") "," O_NUMBER("bytes"), "\"path\",\"bytes\""), false, false,
	  edit_file },
	{ "list_files", "List a folder", "Lists a folder's entries with their kinds and sizes.",
	  SCHEMA(P_PATH "," P_SANDBOX, ""),
	  SCHEMA(O_TEXT("path") "," O_LIST("entries",
					   O_TEXT("name") "," O_TEXT("kind") "," O_NUMBER(
						   "bytes")) "," O_BOOL("truncated"),
		 "\"path\",\"entries\""),
	  true, true, list_files },
	{ "search_files", "Search in files",
	  "Searches the files below a folder for a text or a regular expression.",
	  SCHEMA(P_STRING("pattern", "What to look for.") "," P_PATH "," P_STRING(
			 "name",
			 "Only files whose name "
			 "fits this glob, such "
			 "as *.c.") "," P_BOOL("regex", "The pattern is an extended regular "
							"expression.") "," P_TIMEOUT "," P_SANDBOX,
		 "\"pattern\""),
	  SCHEMA(O_LIST("matches", O_TEXT("path") "," O_NUMBER("line") "," O_TEXT(
					   "text")) "," O_BOOL("truncated"),
		 "\"matches\""),
	  true, true, search_files },
	{ "create_sandbox", "Create a sandbox",
	  "Makes a sandbox that stays, so that calls can share processes and files outside "
	  "of the "
	  "workspace. Its policy is the user's.",
	  SCHEMA(P_STRING("name", "Lower-case letters, digits, '.', '_' and '-'."), ""),
	  SCHEMA(OUT_BOX, "\"sandbox\",\"state\""), false, true, create_sandbox },
	{ "list_sandboxes", "List sandboxes", "Lists the sandboxes that create_sandbox has made.",
	  SCHEMA("", ""), SCHEMA(O_LIST("sandboxes", OUT_BOX), "\"sandboxes\""), true, true,
	  list_sandboxes },
	{ "delete_sandbox", "Delete a sandbox",
	  "Ends everything that runs in a sandbox and removes it; the workspace stays.",
	  SCHEMA(P_STRING("sandbox", "Its id or name."), "\"sandbox\""),
	  SCHEMA(O_TEXT("deleted"), "\"deleted\""), false, false, delete_sandbox },
	{ NULL },
};

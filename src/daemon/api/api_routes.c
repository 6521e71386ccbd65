/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/api_routes.c - the tables: every route, every member of a body or an answer. */
#include "daemon/api/api.h"

/* clang-format off */
#define END { .name = NULL }

static const struct api_member create_members[] = {
	{ "name", API_STRING, NULL, "unique among the tenant's own; free again once it is deleted", false },
	{ "labels", API_TEXTS, NULL, "words to find it by", false },
	{ "spec", API_OBJECT, "Spec", "the settings, as in brig.yaml; over TCP they may only narrow the daemon's ceiling", false },
	{ "idle_ttl", API_TIME, NULL, "stopped when nothing has run for so long (10m); 0: never", false },
	{ "ttl", API_TIME, NULL, "deleted so long after its creation; 0: never", false },
	{ "cleanup_ttl", API_TIME, NULL, "deleted so long after it has stopped or failed (360h); 0: never", false },
	{ "restart", API_STRING, NULL, "on-failure: begun again when it ends by itself, until it has not run for 30 s in 5 minutes; no (the default)", false },
	END
};

static const struct api_member change_members[] = {
	{ "name", API_STRING, NULL, "a new name", false },
	{ "labels", API_TEXTS, NULL, "all of its labels from now on", false },
	{ "idle_ttl", API_TIME, NULL, "as of create, from now on", false },
	{ "ttl", API_TIME, NULL, "as of create, since its creation", false },
	{ "egress", API_OBJECT, "Narrowing", "of a sandbox that is stopped: fewer hosts than it had", false },
	END
};

static const struct api_member narrowing_members[] = {
	{ "allow", API_STRINGS, NULL, "those of its hosts that stay, as they were written", true },
	END
};

static const struct api_member sandbox_members[] = {
	{ "id", API_STRING, NULL, "sb_ and 26 characters; never used again", true },
	{ "name", API_STRING, NULL, "null: none", false },
	{ "state", API_STRING, NULL, "pending, ready, failed, paused, stopped, deleting or deleted", true },
	{ "reason", API_STRING, NULL, "why it is in this state, in one word", false },
	{ "created", API_STRING, NULL, "RFC 3339", true },
	{ "started", API_STRING, NULL, "RFC 3339; null: not yet", false },
	{ "backend", API_STRING, NULL, "what contains it", false },
	{ "spec", API_OBJECT, "Spec", "as it was resolved", false },
	{ "isolation", API_OBJECT, NULL, "what is enforced, and by whom", false },
	{ "run", API_STRING, NULL, "the run that it is on the record; null: not yet open", false },
	{ "workspace_target", API_STRING, NULL, "where the workspace is inside; null: not yet known", false },
	{ "labels", API_TEXTS, NULL, "as given", true },
	{ "ports", API_LIST, NULL, "published ones", false },
	{ "companions", API_LIST, NULL, "name, state, address and reason of each", false },
	{ "restart", API_STRING, NULL, "no or on-failure", false },
	{ "store", API_BOOL, NULL, "HOME, /tmp and a writable layer are on disk, and outlive a stop", false },
	{ "execs_running", API_INT, NULL, "commands that run now", true },
	{ "idle_ttl_ms", API_INT, NULL, "as of create, in milliseconds", true },
	{ "cleanup_ttl_ms", API_INT, NULL, "likewise", true },
	{ "expires", API_STRING, NULL, "RFC 3339; null: never", false },
	END
};

static const struct api_member list_members[] = {
	{ "sandboxes", API_LIST, "Sandbox", "one page of them", true },
	{ "next", API_STRING, NULL, "what to give as `cursor` for the next page; null: this was the last", false },
	END
};

static const struct api_member ids_members[] = {
	{ "sandboxes", API_STRINGS, NULL, "ids of those that are being deleted", true },
	END
};

static const struct api_member exec_members[] = {
	{ "argv", API_STRINGS, NULL, "the command and its arguments", false },
	{ "command", API_STRING, NULL, "a line for sh -c, in place of argv", false },
	{ "code", API_STRING, NULL, "Python for a context, in place of argv", false },
	{ "context", API_STRING, NULL, "whose variables live from call to call; main if not given", false },
	{ "args", API_STRINGS, NULL, "sys.argv of the code, behind its name", false },
	{ "restart", API_BOOL, NULL, "in a new context of this name", false },
	{ "env", API_TEXTS, NULL, "variables for this command", false },
	{ "cwd", API_STRING, NULL, "a path inside; the workspace if not given", false },
	{ "stdin", API_STRING, NULL, "what it reads, as text", false },
	{ "stdin_open", API_BOOL, NULL, "its input comes by execs/{exec}/stdin", false },
	{ "tty", API_BOOL, NULL, "on a terminal of its own", false },
	{ "rows", API_INT, NULL, "of the terminal", false },
	{ "cols", API_INT, NULL, "of the terminal", false },
	{ "timeout", API_TIME, NULL, "end it after so long; the sandbox's own if not given", false },
	{ "output_limit", API_SIZE, NULL, "bytes kept of each stream; the sandbox's own if not given", false },
	{ "detach", API_BOOL, NULL, "answer with its id, do not wait for it", false },
	END
};

static const struct api_member run_members[] = {
	{ "spec", API_OBJECT, "Spec", "the settings of its sandbox, as of createSandbox", false },
	{ "argv", API_STRINGS, NULL, "the command and its arguments", false },
	{ "command", API_STRING, NULL, "a line for sh -c, in place of argv", false },
	{ "env", API_TEXTS, NULL, "variables for this command", false },
	{ "cwd", API_STRING, NULL, "a path inside; the workspace if not given", false },
	{ "stdin", API_STRING, NULL, "what it reads, as text", false },
	{ "timeout", API_TIME, NULL, "end it after so long; the sandbox's own if not given", false },
	{ "output_limit", API_SIZE, NULL, "bytes kept of each stream; the sandbox's own if not given", false },
	END
};

static const struct api_member started_members[] = {
	{ "exec", API_STRING, NULL, "ex_ and 26 characters", true },
	END
};

static const struct api_member execs_members[] = {
	{ "execs", API_LIST, "Exec", "those that run or are kept, the oldest first", true },
	END
};

static const struct api_member exec_object[] = {
	{ "id", API_STRING, NULL, "ex_ and 26 characters", true },
	{ "sandbox", API_STRING, NULL, "the id of its sandbox", true },
	{ "state", API_STRING, NULL, "running or ended", true },
	{ "started", API_STRING, NULL, "RFC 3339; null: not yet", false },
	{ "argv", API_STRINGS, NULL, "the command and its arguments; null: not yet started, or code", false },
	{ "context", API_STRING, NULL, "of code: its context", false },
	{ "cwd", API_STRING, NULL, "as asked for", false },
	{ "tty", API_BOOL, NULL, "on a terminal of its own", false },
	{ "result", API_OBJECT, "Result", "of one that has ended, without what it wrote", false },
	END
};

static const struct api_member question_members[] = {
	{ "question", API_INT, NULL, "its number in this sandbox", true },
	{ "host", API_STRING, NULL, "the name, as the resolver would get it", true },
	{ "port", API_INT, NULL, "where it would be connected to", true },
	END
};

static const struct api_member questions_members[] = {
	{ "questions", API_LIST, "Question", "those that wait for an answer, the oldest first", true },
	END
};

static const struct api_member answer_members[] = {
	{ "answer", API_STRING, NULL, "once, run or no", true },
	END
};

static const struct api_member signal_members[] = {
	{ "signal", API_STRING, NULL, "its name, with or without SIG, or its number", true },
	END
};

static const struct api_member size_members[] = {
	{ "rows", API_INT, NULL, "1 to 65535", true },
	{ "cols", API_INT, NULL, "1 to 65535", true },
	END
};

static const struct api_member file_members[] = {
	{ "name", API_STRING, NULL, "the last part of its path; bytes that are not UTF-8 are replaced", true },
	{ "name_base64", API_STRING, NULL, "its bytes, where they are not UTF-8", false },
	{ "type", API_STRING, NULL, "file, folder, link or other", true },
	{ "size", API_INT, NULL, "bytes", true },
	{ "mode", API_STRING, NULL, "permissions, octal", true },
	{ "modified", API_STRING, NULL, "RFC 3339", true },
	END
};

static const struct api_member files_members[] = {
	{ "files", API_LIST, "File", "sorted by name", true },
	{ "truncated", API_BOOL, NULL, "there are more than 10,000", true },
	END
};

static const struct api_member mkdir_members[] = {
	{ "path", API_STRING, NULL, "inside; relative paths lead from the workspace", true },
	{ "parents", API_BOOL, NULL, "make those above, too; it may be there already", false },
	END
};

static const struct api_member move_members[] = {
	{ "from", API_STRING, NULL, "a path inside", true },
	{ "to", API_STRING, NULL, "its new path", true },
	{ "replace", API_BOOL, NULL, "something else may be there", false },
	END
};

static const struct api_member stop_members[] = {
	{ "grace", API_TIME, NULL, "from SIGTERM to SIGKILL (5s)", false },
	END
};

static const struct api_member daemon_stop_members[] = {
	{ "all", API_BOOL, NULL, "stop every sandbox, too", false },
	END
};

static const struct api_member info_members[] = {
	{ "version", API_STRING, NULL, "of brig", true },
	{ "schema", API_INT, NULL, "of /v1", true },
	{ "pid", API_INT, NULL, "of the daemon; the owner alone is told", false },
	{ "uptime_ms", API_INT, NULL, "since it began", true },
	{ "sandboxes", API_INT, NULL, "that are not deleted", true },
	{ "execs_running", API_INT, NULL, "commands that run now", true },
	{ "connections", API_INT, NULL, "to the daemon; the owner alone is told", false },
	{ "last_event", API_INT, NULL, "number of the last event", true },
	END
};

static const struct api_member dashboard_members[] = {
	{ "port", API_INT, NULL, "of the listener (any); over the daemon's socket alone", false },
	{ "admin", API_BOOL, NULL, "a session that may also apply a change, for 15 minutes; the owner alone", false },
	END
};

static const struct api_member dashboard_object[] = {
	{ "url", API_STRING, NULL, "with a code in its fragment, which is good once", true },
	{ "expires_s", API_INT, NULL, "for so many seconds", true },
	END
};

static const struct api_member code_members[] = {
	{ "code", API_STRING, NULL, "of the address", true },
	END
};

static const struct api_member session_members[] = {
	{ "tenant", API_STRING, NULL, "whose sandboxes it sees; null: all, as the owner does", false },
	{ "admin", API_BOOL, NULL, "may it apply a change?", true },
	{ "expires_s", API_INT, NULL, "seconds that are left", true },
	{ "version", API_STRING, NULL, "of brig", true },
	END
};

static const struct api_member records_members[] = {
	{ "records", API_LIST, NULL, "as of brig audit list --json, the oldest first", true },
	END
};

static const struct api_member runs_members[] = {
	{ "runs", API_LIST, NULL, "as of brig audit runs --json, the newest first", true },
	END
};

static const struct api_member used_members[] = {
	{ "sandboxes", API_OBJECT, NULL, "by id: processes, threads, memory in bytes, cpu_ms; null where nothing can be seen", true },
	END
};

static const struct api_member changes_members[] = {
	{ "run", API_STRING, NULL, "whose layer it is", true },
	{ "workspace", API_STRING, NULL, "the host's folder", true },
	{ "finished", API_BOOL, NULL, "false: it is damaged, or of a paused sandbox", true },
	{ "changes", API_LIST, NULL, "as of brig diff --json --stat", true },
	{ "text", API_STRING, NULL, "the patch; hostile text", true },
	{ "text_cut", API_BOOL, NULL, "there is more of it: brig diff", true }, END
};
static const struct api_member changes_apply_members[] = {
	{ "run", API_STRING, NULL, "the same once more: somebody meant it", true }, END
};
static const struct api_member applied_members[] = {
	{ "run", API_STRING, NULL, "whose layer it was", true },
	{ "applied", API_INT, NULL, "changes", true },
	{ "left", API_LIST, NULL, "paths and reasons of what comes by name only, or never", true }, END
};
static const struct api_member discarded_members[] = {
	{ "discarded", API_STRING, NULL, "whose layer it was", true }, END
};
static const struct api_member policy_members[] = {
	{ "rule", API_STRING, NULL, "what would be allowed", true },
	{ "file", API_STRING, NULL, "the user's own", true },
	{ "diff", API_STRING, NULL, "what changes there; empty: it is there already", true },
	{ "command", API_STRING, NULL, "the line that does the same", true },
	{ "run_option", API_STRING, NULL, "what allows it for one run", true },
	{ "changed", API_BOOL, NULL, "was it done?", true },
	END
};

static const struct api_member apply_members[] = {
	{ "rule", API_STRING, NULL, "HOST or HOST:PORT", true },
	{ "typed", API_STRING, NULL, "the same once more, as a person typed it", true },
	END
};

static const struct api_member problem_members[] = {
	{ "type", API_STRING, NULL, "about:blank", true },
	{ "title", API_STRING, NULL, "what sort of problem this is", true },
	{ "status", API_INT, NULL, "as in the status line", true },
	{ "code", API_STRING, NULL, "one word for programs", true },
	{ "detail", API_STRING, NULL, "what exactly", true },
	{ "hint", API_STRING, NULL, "what to do about it", false },
	{ "oldest", API_INT, NULL, "with events-expired: the oldest number that is kept", false },
	END
};

static const struct api_member any_members[] = { END };

const struct api_schema api_schemas[] = {
	{ "Create", create_members }, { "Change", change_members }, { "Narrowing", narrowing_members },
	{ "Sandbox", sandbox_members },
	{ "SandboxList", list_members }, { "SandboxIds", ids_members }, { "ExecStart", exec_members },
	{ "Run", run_members },
	{ "ExecStarted", started_members }, { "ExecList", execs_members }, { "Exec", exec_object },
	{ "Result", any_members }, { "Spec", any_members }, { "Signal", signal_members },
	{ "Question", question_members }, { "QuestionList", questions_members }, { "Answer", answer_members },
	{ "Size", size_members }, { "File", file_members }, { "FileList", files_members },
	{ "Mkdir", mkdir_members }, { "Move", move_members }, { "Stop", stop_members }, { "DaemonStop", daemon_stop_members },
	{ "DashboardOpen", dashboard_members }, { "Dashboard", dashboard_object }, { "Code", code_members },
	{ "Session", session_members }, { "Records", records_members }, { "Runs", runs_members }, { "Use", used_members },
	{ "Changes", changes_members }, { "ChangesApply", changes_apply_members },
	{ "ChangesApplied", applied_members }, { "ChangesDiscarded", discarded_members }, { "PolicyDiff", policy_members }, { "PolicyApply", apply_members }, { "Doctor", any_members },
	{ "Info", info_members }, { "Problem", problem_members }, { NULL, NULL },
};

static const struct api_member wait_query[] = {
	{ "wait", API_BOOL, NULL, "answer when it is ready, or has failed", false }, END
};
static const struct api_member done_query[] = {
	{ "wait", API_BOOL, NULL, "false: 202 as soon as it has begun (true: answer when it is done)", false }, END
};
static const struct api_member list_query[] = {
	{ "label", API_STRING, NULL, "KEY=VALUE; repeatable, all of them must hold", false },
	{ "state", API_STRING, NULL, "only those in this state", false },
	{ "limit", API_INT, NULL, "at most so many (100; at most 500)", false },
	{ "cursor", API_STRING, NULL, "`next` of the page before", false }, END
};
static const struct api_member label_query[] = {
	{ "label", API_STRING, NULL, "KEY=VALUE; repeatable, all of them must hold", true }, END
};
static const struct api_member from_query[] = {
	{ "from", API_INT, NULL, "the `seq` to go on at; 0: from the beginning", false }, END
};
static const struct api_member close_query[] = {
	{ "close", API_BOOL, NULL, "this was all of the input", false }, END
};
#define PATH_ROW { "path", API_STRING, NULL, "inside; relative paths lead from the workspace. No link is followed", true }
static const struct api_member path_query[] = { PATH_ROW, END };
static const struct api_member write_query[] = {
	PATH_ROW, { "mode", API_STRING, NULL, "permissions, octal (those of the file that is replaced, or 644)", false }, END
};
static const struct api_member remove_query[] = {
	PATH_ROW, { "recursive", API_BOOL, NULL, "a folder with all that is in it", false }, END
};
static const struct api_member events_query[] = {
	{ "sandbox", API_STRING, NULL, "of this one alone, by its id", false },
	{ "since", API_INT, NULL, "those after this number; also as Last-Event-ID", false },
	{ "follow", API_BOOL, NULL, "false: end when there are no more", false }, END
};

#define AUDIT_ROWS \
	{ "sandbox", API_STRING, NULL, "of this one alone, by id or name, since it was last started; a tenant must say which", false }, \
	{ "type", API_STRING, NULL, "such as limit.hit, or egress.* for all that begin so; repeatable", false }, \
	{ "host", API_STRING, NULL, "about this host, or *.NAME for all below it", false }, \
	{ "limit", API_INT, NULL, "the newest so many (100; at most 500)", false }
static const struct api_member audit_query[] = {
	AUDIT_ROWS,
	{ "run", API_STRING, NULL, "of this run, by its id or the first digits of it", false },
	{ "outcome", API_STRING, NULL, "of commands that ended so", false },
	{ "agent", API_STRING, NULL, "of this agent", false },
	{ "principal", API_STRING, NULL, "of this one, such as uid:1000", false },
	{ "since", API_STRING, NULL, "from then on: 2h, 7d (ago), or RFC 3339", false },
	{ "until", API_STRING, NULL, "up to then", false }, END
};
static const struct api_member follow_query[] = {
	AUDIT_ROWS,
	{ "run", API_STRING, NULL, "of this run, by its id or the first digits of it", false }, END
};
static const struct api_member runs_query[] = {
	{ "limit", API_INT, NULL, "the newest so many (100; at most 500)", false },
	{ "live", API_BOOL, NULL, "true: those in progress alone", false },
	{ "run", API_STRING, NULL, "this one, by its id or the first digits of it", false },
	{ "within", API_STRING, NULL, "commands of the sandbox that is this run", false }, END
};
static const struct api_member use_query[] = {
	{ "sandbox", API_STRING, NULL, "by id or name; repeatable, at most 100", true }, END
};
static const struct api_member rule_query[] = {
	{ "rule", API_STRING, NULL, "HOST or HOST:PORT", true }, END
};

#define BOX "/v1/sandboxes/{id}"
#define EXEC BOX "/execs/{exec}"

const struct api_route api_routes[] = {
	{ "GET", "/healthz", 0, serve_health, "health", "is the daemon alive?", .status = 200, .type = "text/plain" },
	{ "GET", "/readyz", 0, serve_ready, "ready", "does it take requests?", .status = 200, .type = "text/plain" },
	{ "GET", "/metrics", SCOPE_READ, serve_metrics, "metrics", "counts, in the text format of Prometheus",
		.status = 200, .type = "text/plain; version=0.0.4", .page = SCOPE_READ },
	{ "GET", "/openapi.json", SCOPE_READ, serve_openapi, "openapi", "this document", .status = 200 },
	{ "GET", "/v1/info", SCOPE_READ, serve_info, "info", "the daemon itself", .status = 200, .answers = "Info", .page = SCOPE_READ },
	{ "POST", "/v1/stop", SCOPE_ADMIN, serve_stop, "stopDaemon", "end the daemon; over its socket only",
		.asks = "DaemonStop", .status = 202 },
	{ "POST", "/v1/run", SCOPE_RUN, serve_run, "run", "one command in a sandbox of its own; the object of --json, or events",
		.asks = "Run", .status = 200, .answers = "Result", .stream = true },
	{ "POST", "/v1/sandboxes", SCOPE_RUN, serve_create, "createSandbox", "make a sandbox",
		.query = wait_query, .asks = "Create", .status = 202, .answers = "Sandbox" },
	{ "GET", "/v1/sandboxes", SCOPE_READ, serve_list, "listSandboxes", "the sandboxes of the caller",
		.query = list_query, .status = 200, .answers = "SandboxList", .page = SCOPE_READ },
	{ "DELETE", "/v1/sandboxes", SCOPE_RUN, serve_delete_many, "deleteSandboxes", "delete those with these labels",
		.query = label_query, .status = 202, .answers = "SandboxIds" },
	{ "GET", BOX, SCOPE_READ, serve_show, "getSandbox", "one sandbox, by id or name", .status = 200, .answers = "Sandbox", .page = SCOPE_READ },
	{ "PATCH", BOX, SCOPE_RUN, serve_update, "updateSandbox", "change its name, labels or times, or narrow its hosts",
		.asks = "Change", .status = 200, .answers = "Sandbox" },
	{ "DELETE", BOX, SCOPE_RUN, serve_delete, "deleteSandbox", "end and remove it", .query = done_query, .status = 204 },
	{ "POST", BOX "/pause", SCOPE_RUN, serve_pause, "pauseSandbox", "stop all of its processes, to go on later",
		.query = done_query, .status = 200, .answers = "Sandbox" },
	{ "POST", BOX "/resume", SCOPE_RUN, serve_resume, "resumeSandbox", "go on after pause or stop",
		.query = done_query, .status = 200, .answers = "Sandbox" },
	{ "POST", BOX "/stop", SCOPE_RUN, serve_halt, "stopSandbox", "end its processes, keep its files",
		.asks = "Stop", .query = done_query, .status = 200, .answers = "Sandbox" },
	{ "GET", BOX "/questions", SCOPE_READ, serve_questions, "listQuestions", "names that no rule allows, held until somebody answers (egress.ask)",
		.status = 200, .answers = "QuestionList", .page = SCOPE_READ },
	{ "POST", BOX "/questions/{question}", SCOPE_ADMIN, serve_question_answer, "answerQuestion", "may it be reached? the owner alone may say",
		.asks = "Answer", .status = 204, .page = SCOPE_ADMIN },
	{ "GET", BOX "/logs", SCOPE_RUN, serve_logs, "logs", "notes about it, and why it failed", .status = 200, .type = "text/plain", .page = SCOPE_READ },
	{ "POST", BOX "/exec", SCOPE_RUN, serve_exec, "exec", "run a command in it; the object of --json, or events",
		.asks = "ExecStart", .status = 200, .answers = "Result", .stream = true, .own_keys = true },
	{ "GET", BOX "/execs", SCOPE_RUN, serve_execs, "listExecs", "its commands", .status = 200, .answers = "ExecList", .page = SCOPE_READ },
	{ "GET", EXEC, SCOPE_RUN, serve_exec_show, "getExec", "one command", .status = 200, .answers = "Exec", .page = SCOPE_READ },
	{ "GET", EXEC "/stream", SCOPE_RUN, serve_exec_stream, "streamExec", "what it has written and writes, as events",
		.query = from_query, .status = 200, .type = "text/event-stream", .page = SCOPE_READ },
	{ "POST", EXEC "/signal", SCOPE_RUN, serve_exec_signal, "signalExec", "send it a signal", .asks = "Signal", .status = 204 },
	{ "POST", EXEC "/cancel", SCOPE_RUN, serve_exec_cancel, "cancelExec", "end it with every descendant", .status = 204 },
	{ "POST", EXEC "/stdin", SCOPE_RUN, serve_exec_stdin, "writeExec", "bytes for its input",
		.query = close_query, .raw = true, .status = 204 },
	{ "POST", EXEC "/resize", SCOPE_RUN, serve_exec_resize, "resizeExec", "the size of its terminal", .asks = "Size", .status = 204 },
	{ "GET", BOX "/files", SCOPE_RUN, serve_file_read, "readFile", "the bytes of a regular file",
		.query = path_query, .status = 200, .type = "application/octet-stream" },
	{ "PUT", BOX "/files", SCOPE_RUN, serve_file_write, "writeFile", "make or replace a file; it has its name once all has come",
		.query = write_query, .takes = "application/octet-stream", .status = 204 },
	{ "DELETE", BOX "/files", SCOPE_RUN, serve_file_remove, "removeFile", "remove a file or folder",
		.query = remove_query, .status = 204 },
	{ "GET", BOX "/files/list", SCOPE_RUN, serve_file_list, "listFiles", "what is in a folder",
		.query = path_query, .status = 200, .answers = "FileList" },
	{ "GET", BOX "/files/stat", SCOPE_RUN, serve_file_stat, "statFile", "one file or folder",
		.query = path_query, .status = 200, .answers = "File" },
	{ "GET", BOX "/files/watch", SCOPE_RUN, serve_file_watch, "watchFiles", "what changes in a folder, or a file, as events",
		.query = path_query, .status = 200, .type = "text/event-stream" },
	{ "POST", BOX "/files/mkdir", SCOPE_RUN, serve_file_mkdir, "makeFolder", "make a folder", .asks = "Mkdir", .status = 204 },
	{ "POST", BOX "/files/move", SCOPE_RUN, serve_file_move, "moveFile", "give a file or folder another path", .asks = "Move", .status = 204 },
	{ "GET", BOX "/archive", SCOPE_RUN, serve_pack, "packFiles", "a folder as tar, with folders and regular files alone",
		.query = path_query, .status = 200, .type = "application/x-tar" },
	{ "PUT", BOX "/archive", SCOPE_RUN, serve_unpack, "unpackFiles", "a tar into a folder that is there",
		.query = path_query, .takes = "application/x-tar", .status = 204 },
	{ "GET", "/v1/events", SCOPE_READ, serve_events, "events", "what happens to the caller's sandboxes, as it happens",
		.query = events_query, .status = 200, .type = "text/event-stream", .page = SCOPE_READ },
	{ "POST", "/v1/dashboard", SCOPE_READ, serve_dashboard, "openDashboard", "an address for a browser, with a code that is good once",
		.asks = "DashboardOpen", .status = 200, .answers = "Dashboard" },
	{ "POST", "/v1/dashboard/session", 0, serve_enter, "enter", "a code for a session, which is a cookie; for browsers",
		.asks = "Code", .status = 200, .answers = "Session", .browser = true },
	{ "GET", "/v1/dashboard/session", SCOPE_READ, serve_session, "getSession", "the session itself; for browsers",
		.status = 200, .answers = "Session", .browser = true, .page = SCOPE_READ },
	{ "DELETE", "/v1/dashboard/session", SCOPE_READ, serve_leave, "leave", "end the session; for browsers",
		.status = 204, .browser = true, .page = SCOPE_READ },
	{ "GET", "/", 0, serve_asset, "page", "the dashboard; for browsers", .status = 200, .type = "text/html; charset=utf-8", .browser = true },
	{ "GET", "/dashboard.css", 0, serve_asset, "style", "its style", .status = 200, .type = "text/css; charset=utf-8", .browser = true },
	{ "GET", "/dashboard.js", 0, serve_asset, "script", "its script", .status = 200, .type = "text/javascript; charset=utf-8", .browser = true },
	{ "GET", "/runs.js", 0, serve_asset, "runsScript", "the script of its runs", .status = 200, .type = "text/javascript; charset=utf-8", .browser = true },
	{ "GET", "/v1/audit", SCOPE_READ, serve_audit, "audit", "records; of a tenant those of one of its own sandboxes",
		.query = audit_query, .status = 200, .answers = "Records", .page = SCOPE_READ },
	{ "GET", "/v1/audit/follow", SCOPE_READ, serve_audit_follow, "followAudit", "the newest records, then each new one, as events",
		.query = follow_query, .status = 200, .type = "text/event-stream", .page = SCOPE_READ },
	{ "GET", "/v1/runs", SCOPE_READ, serve_runs, "runs", "all runs of the owner's, the daemon's and others, live and ended",
		.query = runs_query, .status = 200, .answers = "Runs", .page = SCOPE_READ },
	{ "GET", "/v1/runs/{run}/changes", SCOPE_READ, serve_changes, "showChanges", "what a run, or a sandbox that is paused or stopped, would change in its overlay workspace; as of brig diff --json --text",
		.status = 200, .answers = "Changes", .page = SCOPE_READ },
	{ "POST", "/v1/runs/{run}/changes/apply", SCOPE_ADMIN, serve_changes_apply, "applyChanges", "put that into the workspace, but for what comes by name only; the owner alone may",
		.asks = "ChangesApply", .status = 200, .answers = "ChangesApplied", .page = SCOPE_ADMIN },
	{ "POST", "/v1/runs/{run}/changes/discard", SCOPE_ADMIN, serve_changes_discard, "discardChanges", "throw it away; the owner alone may",
		.asks = "ChangesApply", .status = 200, .answers = "ChangesDiscarded", .page = SCOPE_ADMIN },
	{ "GET", "/v1/doctor", SCOPE_READ, serve_doctor, "doctor", "is this machine ready? the owner alone may ask",
		.status = 200, .answers = "Doctor", .page = SCOPE_READ },
	{ "GET", "/v1/use", SCOPE_READ, serve_use, "use", "what sandboxes use now", .query = use_query, .status = 200,
		.answers = "Use", .page = SCOPE_READ },
	{ "GET", "/v1/policy/allow", SCOPE_READ, serve_policy, "showAllow", "what it would change in the user's own file to allow a host",
		.query = rule_query, .status = 200, .answers = "PolicyDiff", .page = SCOPE_READ },
	{ "POST", "/v1/policy/allow", SCOPE_ADMIN, serve_policy_apply, "allow", "change it; the owner alone may",
		.asks = "PolicyApply", .status = 200, .answers = "PolicyDiff", .page = SCOPE_ADMIN },
	{ .method = NULL },
};
/* clang-format on */

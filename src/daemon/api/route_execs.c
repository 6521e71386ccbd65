/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_execs.c - routes about commands in a sandbox.
 *
 * Who starts a command listens to it, as somebody who comes back later does: one struct attached
 * for both. A caller who leaves lets go of the command, which runs on. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/base64.h"
#include "base/sys/clock.h"
#include "base/text/arena.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "daemon/api/api.h"
#include "daemon/shared/exec_result.h"
#include "interp/context.h"

#define ARGS_MAX 4096
#define CODE_WORDS 2             /* a context's name, and code */
#define PIECE ((size_t)24 << 10) /* of output, in one event */
#define ANSWER_MAX ((size_t)64 << 20)

/* ---- listening ---- */

struct attached {
	struct loop_timer later; /* first; frees it outside of the listener's own calls */
	struct api *api;
	struct http_call *call; /* NULL: the caller has left, or was answered */
	struct exec_watch *watch;
	bool events;                    /* as a stream; else the result alone */
	bool begun;                     /* the stream's head is written */
	struct buf early;               /* the end came before that */
	struct exec_result result;      /* without a stream: what it wrote */
	char discards[SANDBOX_ID_SIZE]; /* a sandbox that was made for this; "": none */
};

static void route_execs_discard(struct api *a, const char *id)
{
	struct err e;

	if (*id)
		(void)sandboxes_do(a->boxes, "", id, SANDBOX_DELETE, 0, NULL, NULL, &e);
}

static void attached_free(struct loop_timer *t, uint64_t now UNUSED)
{
	struct attached *x = (struct attached *)t;

	if (x->watch)
		(void)exec_unwatch(x->watch);
	exec_result_done(&x->result);
	buf_done(&x->early);
	route_execs_discard(x->api, x->discards);
	free(x);
}

static void route_execs_let_go(struct attached *x)
{
	if (x->call)
		x->call->room = x->call->gone = NULL;
	x->call = NULL;
	loop_at(x->api->loop, &x->later, 1);
}

static void attached_gone(void *arg)
{
	route_execs_let_go(arg);
}

static void attached_room(void *arg)
{
	struct attached *x = arg;

	if (x->watch)
		exec_more(x->watch);
}

static size_t route_execs_on_output(void *arg, int stream, uint64_t seq, const void *data, size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(2 * PIECE);
	struct attached *x = arg;
	size_t room = x->call && x->events ? http_room(x->call) : 0;

	if (!x->begun)
		return 0;
	if (x->call && !x->events)
		exec_result_add(&x->result, stream, data, n);
	if (!x->call || !x->events)
		return n;
	if (n > PIECE)
		n = PIECE;
	if (room < 2 * PIECE)
		return 0;
	buf_printf(&b, "{\"seq\":%llu,\"data\":\"", (unsigned long long)seq);
	base64_put(&b, data, n);
	buf_puts(&b, "\"}");
	http_event(x->call, stream == 2 ? "stderr" : "stdout", 0, buf_str(&b), b.len);
	return n;
}

static bool on_shown(void *arg, const char *json, size_t n)
{
	struct attached *x = arg;

	if (!x->begun || (x->call && x->events && http_room(x->call) < 2 * PIECE))
		return false;
	if (x->call && x->events)
		http_event(x->call, "shown", 0, json, n);
	else if (x->call)
		exec_result_show(&x->result, json, n);
	return true;
}

/* A result as its monitor wrote it needs no reading where nothing is to be added to it. A quote
 * inside a text has a backslash before it: the words looked for are members. */
static bool say_plain(struct attached *x, const char *result, size_t n)
{
	bool cut = memmem(result, n, "_truncated\":true", strlen("_truncated\":true"));

	if (n < 2 || result[0] != '{' || result[n - 1] != '}' || memchr(result, '\n', n) ||
	    (x->events ? cut : x->result.both.len || x->result.shown.len))
		return false;
	if (!x->events) {
		http_answer(x->call, 200, NULL, "application/json", result, n);
		return true;
	}
	http_event(x->call, "end", 0, result, n);
	http_stream_end(x->call);
	return true;
}

static void route_execs_say_end(struct attached *x, const struct jread *result)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);

	if (!x->events) {
		exec_result_write(&x->result, result, &b);
		api_answer_json(x->call, 200, &b);
		return;
	}
	if (jread_bool(result, "stdout_truncated") || jread_bool(result, "stderr_truncated"))
		http_event(x->call, "truncated", 0, "{}", 2);
	jread_write(result, &b);
	http_event(x->call, "end", 0, buf_str(&b), b.len);
	http_stream_end(x->call);
}

static void route_execs_on_end(void *arg, const char *result, size_t n)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct attached *x = arg;
	struct err e;

	if (!x->begun)
		buf_add(&x->early, result, n);
	if (!x->begun || !x->call)
		return;
	if (say_plain(x, result, n))
		;
	else if (jread_parse(result, n, &v, &e) == 0)
		route_execs_say_end(x, v);
	else if (!x->events)
		http_problem(x->call, PROBLEM_INTERNAL, &e);
	else
		http_stream_end(x->call);
	route_execs_let_go(x);
}

static void say_start(struct http_call *c, const char *exec)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "{\"exec\":\"%s\"}", exec);

	http_event(c, "start", 0, text, (size_t)n);
}

static void route_execs_attach(struct api *a, struct http_call *c, const char *exec, uint64_t from,
			       bool events, const char *discards)
{
	struct attached *x = calloc(1, sizeof(*x));
	struct exec_listener by = { .output = route_execs_on_output,
				    .shown = on_shown,
				    .end = route_execs_on_end,
				    .arg = x };
	struct exec_watch *w = NULL;
	struct err e = { 0 };
	enum problem p;

	if (!x) {
		(void)err_nomem(&e);
		http_problem(c, PROBLEM_INTERNAL, &e);
		route_execs_discard(a, discards);
		return;
	}
	*x = (struct attached){ .later = { .due = attached_free },
				.api = a,
				.events = events,
				.early = BUF_INIT(ANSWER_MAX) };
	exec_result_init(&x->result);
	(void)snprintf(x->discards, sizeof(x->discards), "%s", discards);
	p = exec_listen(a->boxes, c->caller->tenant, c->parts[0], exec, from, &by, &w, &e);
	x->watch = w;
	if (p != PROBLEM_NONE) {
		buf_done(&x->early);
		free(x);
		http_problem(c, p, &e);
		route_execs_discard(a, discards);
		return;
	}
	x->begun = true;
	if (events && !http_stream(c, NULL)) {
		route_execs_let_go(x);
		return;
	}
	x->call = c;
	c->gone = attached_gone;
	c->arg = x;
	if (events) {
		say_start(c, exec);
		c->room = attached_room;
	}
	if (x->early.len)
		route_execs_on_end(x, x->early.data, x->early.len);
}

/* ---- starting ---- */

struct exec_words {
	const char *argv[ARGS_MAX + CODE_WORDS + 1];
	const char *env[ARGS_MAX + 1];
	struct arena *arena;
};

static enum problem read_argv(const struct jread *body, struct exec_words *w, struct err *e)
{
	const struct jread *list = jread_get(body, "argv");
	const char *line = jread_str(body, "command");
	size_t n = jread_count(list);

	if ((n != 0) == (line != NULL))
		return problem_say(PROBLEM_INVALID, e,
				   "either 'argv' or 'command' says what to run");
	if (n > ARGS_MAX)
		return problem_say(PROBLEM_TOO_LARGE, e, "more than %d arguments", ARGS_MAX);
	for (size_t i = 0; i < n; i++)
		w->argv[i] = jread_text(jread_at(list, i));
	if (line) {
		w->argv[0] = "/bin/sh";
		w->argv[1] = "-c";
		w->argv[2] = "--";
		w->argv[3] = line;
	}
	return *w->argv[0] ? PROBLEM_NONE
			   : problem_say(PROBLEM_INVALID, e, "the command is an empty word");
}

/* A context has what its sandbox has; a call of it brings code and words for that. */
static enum problem read_code(const struct jread *body, struct exec_start *x, struct exec_words *w,
			      struct err *e)
{
	static const char *const other[] = { "argv",  "command",    "env", "cwd",
					     "stdin", "stdin_open", "tty" };
	const char *name = jread_str(body, "context");
	const struct jread *args = jread_get(body, "args");

	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		if (jread_kind(jread_get(body, other[i])) > JREAD_NULL)
			return problem_say(PROBLEM_INVALID, e, "'%s' does not go with 'code'",
					   other[i]);
	w->argv[0] = name ? name : "main";
	w->argv[1] = jread_str(body, "code");
	if (!context_name_ok(w->argv[0]))
		return problem_say(PROBLEM_INVALID, e,
				   "the name of a context has at most %d lower-case letters, "
				   "digits, '.', '_' and '-'",
				   CONTEXT_NAME_SIZE - 1);
	if (jread_count(args) > ARGS_MAX)
		return problem_say(PROBLEM_TOO_LARGE, e, "more than %d arguments", ARGS_MAX);
	for (size_t i = 0; i < jread_count(args); i++)
		w->argv[CODE_WORDS + i] = jread_text(jread_at(args, i));
	x->code = true;
	x->again = jread_bool(body, "restart");
	return PROBLEM_NONE;
}

static enum problem read_words(const struct jread *body, struct exec_start *x, struct exec_words *w,
			       struct err *e)
{
	static const char *const code[] = { "context", "args", "restart" };

	if (jread_str(body, "code"))
		return read_code(body, x, w, e);
	for (size_t i = 0; i < ARRAY_LEN(code); i++)
		if (jread_kind(jread_get(body, code[i])) > JREAD_NULL)
			return problem_say(PROBLEM_INVALID, e, "'%s' goes with 'code'", code[i]);
	return read_argv(body, w, e);
}

static enum problem read_env(const struct jread *body, struct exec_words *w, struct err *e)
{
	const struct jread *map = jread_get(body, "env");
	size_t n = 0;

	for (void *it = jread_first(map); it; it = jread_next(map, it)) {
		if (n == ARGS_MAX)
			return problem_say(PROBLEM_TOO_LARGE, e, "more than %d variables",
					   ARGS_MAX);
		if (!*jread_key(it) || strchr(jread_key(it), '='))
			return problem_say(PROBLEM_INVALID, e, "'%.60s' is not a name",
					   jread_key(it));
		w->env[n] =
			arena_printf(w->arena, "%s=%s", jread_key(it), jread_text(jread_value(it)));
		if (!w->env[n++])
			return problem_say(PROBLEM_TOO_LARGE, e, "the variables are too large");
	}
	return PROBLEM_NONE;
}

static enum problem cell(const struct jread *body, const char *key, unsigned short *ret,
			 struct err *e)
{
	int64_t v = jread_int(body, key, 0);

	if (v < 0 || v > UINT16_MAX)
		return problem_say(PROBLEM_INVALID, e, "'%s' is not 1 to 65535", key);
	*ret = (unsigned short)v;
	return PROBLEM_NONE;
}

static enum problem within_quota(struct api *a, const struct http_call *c, struct err *e)
{
	struct sandbox_count n;

	if (!c->caller->tenant[0])
		return PROBLEM_NONE;
	sandboxes_count(a->boxes, c->caller->tenant, &n);
	return n.execs_running < API_TENANT_EXECS
		       ? PROBLEM_NONE
		       : problem_say(PROBLEM_QUOTA, e, "this tenant runs %d commands",
				     API_TENANT_EXECS);
}

/* A command of a tenant gets no more than its sandbox was given. */
static enum problem within_ceiling(struct api *a, const struct http_call *c,
				   const struct exec_start *x, struct err *e)
{
	CLEANUP(buf) struct buf own = BUF_INIT(ANSWER_MAX);
	CLEANUP(buf) struct buf all = BUF_INIT(ANSWER_MAX);
	CLEANUP(buf) struct buf asked = BUF_INIT(128);
	CLEANUP(ceiling) struct ceiling *top = NULL;
	enum problem p;

	if (c->caller->local || (!x->timeout && !x->output))
		return PROBLEM_NONE;
	p = sandboxes_spec(a->boxes, c->caller->tenant, c->parts[0], &own, e);
	if (p != PROBLEM_NONE)
		return p;
	if (ceiling_of(buf_str(&own), own.len, &top, e) < 0)
		return problem_say(PROBLEM_INTERNAL, e, "the sandbox's spec cannot be read");
	buf_puts(&asked, "{\"limits\":{");
	if (x->timeout)
		buf_printf(&asked, "\"timeout\":\"%llums\"%s", (unsigned long long)x->timeout,
			   x->output ? "," : "");
	if (x->output)
		buf_printf(&asked, "\"output\":\"%llub\"", (unsigned long long)x->output);
	buf_puts(&asked, "}}");
	return ceiling_apply(top, buf_str(&asked), asked.len, &all, NULL, e);
}

static enum problem route_execs_start(struct api *a, struct http_call *c, const struct jread *body,
				      bool last, struct exec_words *w, char id[EXEC_ID_SIZE],
				      struct err *e)
{
	const char *text = jread_str(body, "stdin");
	struct exec_start x = {
		.order = { .argv = w->argv, .envp = w->env, .cwd = jread_str(body, "cwd") },
		.tty = jread_bool(body, "tty"),
		.last = last,
		.stdin_open = text || jread_bool(body, "stdin_open")
	};
	enum problem p = within_quota(a, c, e);

	if (p == PROBLEM_NONE)
		p = read_words(body, &x, w, e);
	if (p == PROBLEM_NONE)
		p = read_env(body, w, e);
	if (p == PROBLEM_NONE)
		p = cell(body, "rows", &x.rows, e);
	if (p == PROBLEM_NONE)
		p = cell(body, "cols", &x.cols, e);
	if (p == PROBLEM_NONE)
		p = api_time(body, "timeout", 0, &x.timeout, e);
	if (p == PROBLEM_NONE)
		p = api_size(body, "output_limit", 0, &x.output, e);
	if (p == PROBLEM_NONE)
		p = within_ceiling(a, c, &x, e);
	if (p == PROBLEM_NONE && text)
		p = exec_input_room(a, c, strlen(text), e);
	if (p == PROBLEM_NONE)
		p = sandboxes_exec(a->boxes, c->caller->tenant, c->parts[0], &x, id, e);
	if (p != PROBLEM_NONE || !text)
		return p;
	if (!exec_input_give(a, c, id, text))
		return problem_say(PROBLEM_INTERNAL, e, "out of memory");
	return PROBLEM_NONE;
}

static enum problem start_words(struct api *a, struct http_call *c, const struct jread *body,
				bool last, char id[EXEC_ID_SIZE], struct err *e)
{
	struct exec_words *w = calloc(1, sizeof(*w));
	enum problem p = PROBLEM_INTERNAL;

	(void)err_nomem(e);
	if (w && (w->arena = arena_new((size_t)4 << 20)))
		p = route_execs_start(a, c, body, last, w, id, e);
	if (w)
		(void)arena_free(w->arena);
	free(w);
	return p;
}

static void answer_started(struct http_call *c, const char *exec)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "{\"exec\":\"%s\"}", exec);

	http_answer(c, 202, NULL, "application/json", text, (size_t)n);
}

/* With a key that was seen before, the command is the one that was started then. */
void serve_exec(struct api *a, struct http_call *c, const struct jread *body)
{
	CLEANUP(buf) struct buf before = BUF_INIT(EXEC_ID_SIZE);
	bool keyed = http1_count(c->head->fields, c->head->n_fields, "Idempotency-Key") > 0;
	char key[ONCE_ID_SIZE], id[EXEC_ID_SIZE] = "";
	enum once_found found = keyed ? api_once(a, c, key, &before) : ONCE_NEW;
	struct err e = { 0 };
	enum problem p = PROBLEM_NONE;

	if (found != ONCE_NEW && found != ONCE_DONE)
		return;
	if (found == ONCE_DONE)
		(void)snprintf(id, sizeof(id), "%s", buf_str(&before));
	else
		p = start_words(a, c, body, false, id, &e);
	if (keyed && found == ONCE_NEW && p == PROBLEM_NONE)
		once_keep(a->once, key, 200, id, strlen(id));
	else if (keyed && found == ONCE_NEW)
		once_forget(a->once, key);
	if (p != PROBLEM_NONE)
		http_problem(c, p, &e);
	else if (jread_bool(body, "detach"))
		answer_started(c, id);
	else
		route_execs_attach(a, c, id, 0, api_wants_events(c), "");
}

enum problem exec_begin(struct api *a, struct http_call *c, const struct jread *body,
			char id[EXEC_ID_SIZE], struct err *e)
{
	return start_words(a, c, body, true, id, e);
}

void exec_attach(struct api *a, struct http_call *c, const char *exec, uint64_t from,
		 const char *discards)
{
	route_execs_attach(a, c, exec, from, api_wants_events(c), discards);
}

/* ---- what runs, or ran ---- */

void serve_execs(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	api_answer_of(a, c, "execs", ANSWER_MAX, exec_list);
}

void serve_exec_show(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(ANSWER_MAX);
	struct err e = { 0 };
	enum problem p;
	struct json j;

	json_init(&j, &b, false);
	p = exec_show(a->boxes, c->caller->tenant, c->parts[0], c->parts[1], &j, &e);
	if (p != PROBLEM_NONE)
		http_problem(c, p, &e);
	else
		api_answer_json(c, 200, &b);
}

void serve_exec_stream(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	char text[24];
	uint64_t from = 0;
	struct err e;
	int r = http_param(c, "from", text, sizeof(text));

	if (r != -ENOENT && (r < 0 || num_count(text, &from) < 0)) {
		(void)problem_say(PROBLEM_INVALID, &e, "'from' is not a number");
		http_problem(c, PROBLEM_INVALID, &e);
		return;
	}
	route_execs_attach(a, c, c->parts[1], from, true, "");
}

/* ---- telling it something ---- */

static void answer_done(struct http_call *c, enum problem p, const struct err *e)
{
	if (p != PROBLEM_NONE)
		http_problem(c, p, e);
	else
		http_answer(c, 204, NULL, NULL, "", 0);
}

static int signal_number(const char *text)
{
	uint64_t n;

	if (num_count(text, &n) == 0)
		return n > 0 && n < (uint64_t)NSIG ? (int)n : 0;
	if (str_starts(text, "SIG"))
		text += 3;
	for (int i = 1; i < NSIG; i++)
		if (sigabbrev_np(i) && str_eq(sigabbrev_np(i), text))
			return i;
	return 0;
}

void serve_exec_signal(struct api *a, struct http_call *c, const struct jread *body)
{
	int sig = signal_number(jread_str(body, "signal"));
	struct err e = { 0 };
	enum problem p =
		sig ? exec_signal(a->boxes, c->caller->tenant, c->parts[0], c->parts[1], sig, &e)
		    : problem_say(PROBLEM_INVALID, &e, "there is no such signal");

	answer_done(c, p, &e);
}

void serve_exec_cancel(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct err e = { 0 };

	answer_done(c, exec_cancel(a->boxes, c->caller->tenant, c->parts[0], c->parts[1], &e), &e);
}

void serve_exec_resize(struct api *a, struct http_call *c, const struct jread *body)
{
	unsigned short rows = 0, cols = 0;
	struct err e = { 0 };
	enum problem p = cell(body, "rows", &rows, &e);

	if (p == PROBLEM_NONE)
		p = cell(body, "cols", &cols, &e);
	if (p == PROBLEM_NONE)
		p = exec_resize(a->boxes, c->caller->tenant, c->parts[0], c->parts[1], rows, cols,
				&e);
	answer_done(c, p, &e);
}

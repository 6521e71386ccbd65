/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/chat/chat_loop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "apps/chat/chat_endpoint.h"
#include "base/bytes/jread.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "sandbox/recorder.h"

#define BODY_MAX ((size_t)HISTORY_MAX + ((size_t)4 << 20))
#define RESULT_MAX ((size_t)128 << 10) /* of a tool, for the model */
#define TURN_MS 200
#define BYTES_A_TOKEN 4 /* where a server does not count */
#define BILLION 1000000000ULL

struct chat {
	struct chat_with w;
	struct chat_report r;
	/* Of this prompt. */
	struct chat_report before;
	uint64_t deadline;
	/* The call under way. */
	struct loop_watch signals; /* on the loop while one is */
	struct tool_call *call;
	const struct chat_call *asked;
	struct err *failed;
	bool done, interrupted;
};

int chat_new(const struct chat_with *w, struct chat **ret, struct err *e)
{
	const struct chat_spec *s = &w->spec->chat;
	struct chat *c;

	if (s->cost && !w->prices.in && !w->prices.out)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "--price IN:OUT, USD for a million tokens of each",
				  "a bound of cost needs the model's prices");
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_nomem(e);
	c->w = *w;
	c->r.text = (struct buf)BUF_INIT(CHAT_TEXT_MAX);
	*ret = c;
	return 0;
}

struct chat *chat_free(struct chat *c)
{
	if (!c)
		return NULL;
	buf_done(&c->r.text);
	free(c);
	return NULL;
}

const struct chat_report *chat_report(const struct chat *c)
{
	return &c->r;
}

/* ---- the request ---- */

static bool is_offered(const struct chat *c, const struct tool *t)
{
	const struct chat_spec *s = &c->w.spec->chat;

	return t->script || (s->shell && str_eq(t->name, "run_command")) ||
	       (s->python && str_eq(t->name, "run_python"));
}

static void put_tools(const struct chat *c, struct json *j)
{
	const struct tool *t;

	if (!c->w.tools)
		return;
	json_karray(j, "tools");
	for (size_t i = 0; (t = tools_at(c->w.tools, i)); i++) {
		if (!is_offered(c, t))
			continue;
		json_object(j);
		json_kstr(j, "type", "function");
		json_kobject(j, "function");
		json_kstr(j, "name", t->name);
		json_kstr(j, "description", t->about);
		json_key(j, "parameters");
		tool_schema(j, t->input);
		json_object_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void put_messages(const struct chat *c, struct json *j)
{
	json_karray(j, "messages");
	if (c->w.spec->chat.prompt) {
		json_object(j);
		json_kstr(j, "role", "system");
		json_kstr(j, "content", c->w.spec->chat.prompt);
		json_object_end(j);
	}
	history_write(c->w.history, j);
	json_array_end(j);
}

static void put_request(const struct chat *c, struct buf *b)
{
	const struct chat_spec *s = &c->w.spec->chat;
	uint64_t most = s->answer_tokens, out = c->r.out_tokens - c->before.out_tokens;
	bool reasons = chat_reasons(s);
	struct json j;

	if (s->out_tokens && s->out_tokens - out < most)
		most = s->out_tokens - out;
	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "model", s->name);
	put_messages(c, &j);
	put_tools(c, &j);
	json_kbool(&j, "stream", true);
	json_key(&j, "stream_options");
	json_raw(&j, "{\"include_usage\":true}", strlen("{\"include_usage\":true}"));
	json_ku64(&j, reasons ? "max_completion_tokens" : "max_tokens", most);
	if (!reasons) {
		json_key(&j, "temperature");
		json_milli(&j, s->temperature);
	}
	json_object_end(&j);
}

/* ---- bounds ---- */

/* true: one is reached, and the report says which. */
static bool chat_loop_is_over(struct chat *c)
{
	const struct chat_spec *s = &c->w.spec->chat;
	const struct chat_report *r = &c->r, *b = &c->before;
	uint64_t in = r->in_tokens - b->in_tokens, out = r->out_tokens - b->out_tokens;
	const struct {
		uint64_t now, most;
		const char *what;
	} bounds[] = {
		{ r->turns - b->turns, s->requests, "requests (max_request_limit, --max-turns)" },
		{ out, s->out_tokens, "tokens of answers (max_tokens_per_run)" },
		{ in, s->in_tokens, "tokens of requests (input_tokens_limit)" },
		{ in + out, s->tokens, "tokens (total_tokens_limit, --max-tokens)" },
		{ (r->spent - b->spent) / (BILLION / 1000), s->cost,
		  "thousandths of a USD (cost_limit, --max-cost)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
		if (bounds[i].most && bounds[i].now >= bounds[i].most) {
			(void)snprintf(c->r.stopped, sizeof(c->r.stopped), "%llu of %llu %s",
				       (unsigned long long)bounds[i].now,
				       (unsigned long long)bounds[i].most, bounds[i].what);
			return true;
		}
	return false;
}

static void account(struct chat *c, const struct chat_answer *a, size_t sent)
{
	uint64_t in = a->in_tokens, out = a->out_tokens;

	/* None at all cannot be: it does not count. */
	if (!a->counted || !in)
		in = sent / BYTES_A_TOKEN;
	if (!a->counted || !out)
		out = (a->text.len + a->args_len) / BYTES_A_TOKEN + 1;
	c->r.turns++;
	c->r.in_tokens += in;
	c->r.out_tokens += out;
	c->r.spent += in * c->w.prices.in + out * c->w.prices.out;
}

/* ---- a call ---- */

static void chat_loop_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	struct chat *c = CONTAINER_OF(w, struct chat, signals);

	c->interrupted = true;
	(void)loop_want(c->w.loop, w, 0);
	if (c->call)
		tool_cancel(c->call);
}

static const char *word_of(const struct tool_result *r)
{
	return r->cancelled ? "cancelled" : r->failed ? "failed" : "ok";
}

/* The model gets what it can use; the record gets what happened. */
static void chat_loop_keep(struct chat *c, const struct tool_result *r, const char *outcome)
{
	CLEANUP(jread) struct jread *root = NULL;
	CLEANUP(buf) struct buf b = BUF_INIT(RESULT_MAX + 64);
	size_t n = r->text.len;
	struct err unused;

	if (r->denials.len)
		(void)jread_parse(buf_str(&r->denials), r->denials.len, &root, &unused);
	c->r.failed += r->failed;
	c->r.denied += jread_count(root) + r->more;
	if (c->w.to.result)
		c->w.to.result(c->w.to.arg, c->asked, r);
	buf_add(&b, buf_str(&r->text), n > RESULT_MAX ? utf8_cut(r->text.data, RESULT_MAX) : n);
	if (n > RESULT_MAX)
		buf_puts(&b, "\n[truncated]");
	if (r->cancelled)
		buf_puts(&b, "\n[cancelled]");
	if (!c->failed->code && recorder_tool(c->w.spec, c->w.history->id, c->asked->name,
					      r->run[0] ? r->run : NULL, outcome, c->failed) < 0)
		(void)err_wrap(c->failed, "the call of a tool");
	if (!c->failed->code)
		(void)history_result(c->w.history, c->asked, buf_str(&b), b.len, c->failed);
}

static void chat_loop_on_done(void *arg, const struct tool_result *r)
{
	struct chat *c = arg;

	c->call = NULL;
	c->done = true;
	chat_loop_keep(c, r, word_of(r));
}

/* Nothing is run: the model is told why. */
static void answer_for(struct chat *c, const char *outcome, const char *text)
{
	struct tool_result r = { .failed = true, .text = BUF_INIT(4096) };

	buf_puts(&r.text, text);
	chat_loop_keep(c, &r, outcome);
	buf_done(&r.text);
}

static void run_tool(struct chat *c, const struct tool *tool, const struct jread *args)
{
	const struct tool_listener by = { .done = chat_loop_on_done, .arg = c };

	c->done = false;
	c->signals = (struct loop_watch){ .fd = c->w.signals, .ready = chat_loop_on_signal };
	(void)loop_want(c->w.loop, &c->signals, EPOLLIN);
	tool_begin(c->w.tools, tool, args, &by, &c->call);
	while (!c->done) {
		loop_turn(c->w.loop, TURN_MS);
		if (!c->done && c->call && clock_us() >= c->deadline)
			tool_cancel(c->call);
	}
	(void)loop_want(c->w.loop, &c->signals, 0);
}

static void one_call(struct chat *c, const struct chat_call *asked)
{
	const struct tool *tool = c->w.tools ? tools_named(c->w.tools, asked->name) : NULL;
	CLEANUP(jread) struct jread *args = NULL;
	struct err unused;
	char text[160];

	if (!tool || !is_offered(c, tool)) {
		(void)snprintf(text, sizeof(text), "Error: there is no tool '%.64s'.", asked->name);
		answer_for(c, "refused", text);
	} else if (asked->args.len &&
		   (jread_parse(asked->args.data, asked->args.len, &args, &unused) < 0 ||
		    jread_kind(args) != JREAD_OBJECT)) {
		answer_for(c, "refused", "Error: the arguments are not an object of JSON.");
	} else if (c->w.spec->chat.confirm && str_eq(tool->name, "run_command") &&
		   !(c->w.to.confirm && c->w.to.confirm(c->w.to.arg, asked))) {
		answer_for(c, "refused", "Error: the user did not agree to this command.");
	} else {
		run_tool(c, tool, args);
	}
}

/* Every call is answered, so that the conversation can go on from here whatever happens. */
static int do_calls(struct chat *c, const struct chat_answer *a, struct err *e)
{
	const struct chat_spec *s = &c->w.spec->chat;

	c->failed = e;
	for (size_t i = 0; i < a->n_calls && !e->code; i++) {
		c->asked = &a->calls[i];
		if (c->interrupted) {
			answer_for(c, "refused", "Error: interrupted by the user; not run.");
			continue;
		}
		if (clock_us() >= c->deadline) {
			answer_for(c, "refused", "Error: the time for this run is over; not run.");
			continue;
		}
		if (c->r.calls - c->before.calls >= s->calls) {
			(void)snprintf(c->r.stopped, sizeof(c->r.stopped),
				       "%llu calls of tools (max_tool_calls)",
				       (unsigned long long)s->calls);
			answer_for(c, "refused", "Error: the bound of calls is reached; not run.");
			continue;
		}
		c->r.calls++;
		if (c->w.to.calls)
			c->w.to.calls(c->w.to.arg, c->asked);
		one_call(c, c->asked);
	}
	return e->code ? -e->code : 0;
}

/* ---- a prompt ---- */

static int chat_loop_ask(struct chat *c, struct chat_answer *a, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(BODY_MAX);
	struct chat_ask q = { .deadline = c->deadline,
			      .signals = c->w.signals,
			      .text = c->w.to.text,
			      .arg = c->w.to.arg };

	put_request(c, &b);
	if (b.failed)
		return err_refuse(e, ERR_UNAVAILABLE, E2BIG, "begin a new one, without --resume",
				  "the conversation is too long to go on");
	q.body = b.data;
	q.len = b.len;
	if (chat_line_ask(c->w.line, &q, a, e) < 0)
		return -e->code;
	account(c, a, b.len);
	if (c->w.to.answered)
		c->w.to.answered(c->w.to.arg);
	c->r.text.len = 0;
	buf_add(&c->r.text, buf_str(&a->text), a->text.len);
	return history_answer(c->w.history, a, e);
}

/* 1: the model has called nothing more. An answer is large: it is not the stack's. */
static int chat_loop_turn(struct chat *c, struct err *e)
{
	CLEANUP(mem) struct chat_answer *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return err_nomem(e);
	r = chat_loop_ask(c, a, e);
	if (r == 0)
		r = a->n_calls ? do_calls(c, a, e) : 1;
	chat_answer_done(a);
	return r;
}

static int converse(struct chat *c, struct err *e)
{
	for (;;) {
		int r;

		if (chat_loop_is_over(c))
			return 0;
		r = chat_loop_turn(c, e);
		if (r != 0 || c->r.stopped[0])
			return r < 0 ? r : 0;
		if (c->interrupted)
			return err_set(e, ERR_USAGE, EINTR, "interrupted");
		if (clock_us() >= c->deadline)
			return err_set(
				e, ERR_UNAVAILABLE, ETIMEDOUT,
				"the time for this run is over (guardrails.timeout_seconds)");
	}
}

static size_t characters(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

int chat_say(struct chat *c, const char *prompt, struct err *e)
{
	const struct chat_spec *s = &c->w.spec->chat;
	struct err unkept = { 0 };
	int r;

	if (s->prompt_chars && characters(prompt) > s->prompt_chars)
		return err_set(e, ERR_USAGE, E2BIG, "a prompt has at most %llu characters here",
			       (unsigned long long)s->prompt_chars);
	c->before = c->r;
	c->r.stopped[0] = '\0';
	c->interrupted = false;
	c->deadline = s->timeout ? clock_us() + s->timeout * 1000 : UINT64_MAX;
	if (history_user(c->w.history, prompt, e) < 0)
		return -e->code;
	r = converse(c, e);
	if (history_save(c->w.history, &unkept) < 0 && r == 0) {
		*e = unkept;
		return -e->code;
	}
	return r;
}

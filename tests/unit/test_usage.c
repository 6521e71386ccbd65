/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_usage.c - what answers of models say of tokens, in every API's form and in any pieces;
 * what budgets make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/arena.h"
#include "egress/budget/budget.h"
#include "egress/budget/price.h"

#define LEN(a) (sizeof(a) / sizeof(*(a)))

static struct usage read_all(enum usage_framing framing, const char *text, size_t piece)
{
	struct usage_reader r;
	size_t n = strlen(text);

	usage_open(&r, framing);
	for (size_t at = 0; at < n; at += piece)
		usage_feed(&r, text + at, n - at < piece ? n - at : piece);
	usage_end(&r);
	return r.u;
}

static const struct {
	const char *name;
	enum usage_framing framing;
	const char *text, *model;
	uint64_t in, cached, out;
} forms[] = {
	{ "chat", USAGE_JSON,
	  "{\"id\":\"x\",\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"message\":{\"content\":"
	  "\"{\\\"usage\\\":{\\\"prompt_tokens\\\":999999}}\",\"usage\":{\"prompt_tokens\":99999}}}"
	  "]"
	  ",\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":7,\"total_tokens\":107,"
	  "\"prompt_tokens_details\":{\"cached_tokens\":60}}}",
	  "gpt-4o-2024-08-06", 100, 60, 7 },
	{ "chat, streamed", USAGE_EVENTS,
	  "data: "
	  "{\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n"
	  ": a comment\n\ndata: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
	  "\"completion_tokens\":6}}\r\n\r\ndata: [DONE]\n\n",
	  "m", 5, 0, 6 },
	{ "reasoning beside the answer", USAGE_JSON,
	  "{\"model\":\"grok-4\",\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,"
	  "\"total_tokens\":115}}",
	  "grok-4", 10, 0, 105 },
	{ "responses, streamed", USAGE_EVENTS,
	  "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":"
	  "\"gpt-5-codex\",\"usage\":null}}\n\nevent: response.completed\ndata: {\"type\":"
	  "\"response.completed\",\"response\":{\"model\":\"gpt-5-codex\",\"metadata\":{\"usage\":"
	  "{\"input_tokens\":88888}},\"usage\":{\"input_tokens\":40,\"input_tokens_details\":"
	  "{\"cached_tokens\":30},\"output_tokens\":12,\"total_tokens\":52}}}\n\n",
	  "gpt-5-codex", 40, 30, 12 },
	{ "messages", USAGE_JSON,
	  "{\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input_tokens\":10,"
	  "\"cache_creation_input_tokens\":200,\"cache_read_input_tokens\":3000,\"output_tokens\":4"
	  "}}",
	  "claude-sonnet-4-5-20250929", 3210, 3000, 4 },
	{ "messages, streamed", USAGE_EVENTS,
	  "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-"
	  "opus-4-5\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\nevent: ping\ndata: "
	  "{\"type\":\"ping\"}\n\nevent: message_delta\ndata: "
	  "{\"type\":\"message_delta\",\"delta\":"
	  "{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n",
	  "claude-opus-4-5", 25, 0, 15 },
	{ "gemini, an array", USAGE_JSON,
	  "[{\"candidates\":[{\"content\":{}}],\"usageMetadata\":{\"promptTokenCount\":8,"
	  "\"candidatesTokenCount\":2},\"modelVersion\":\"gemini-2.5-pro\"}\n,\n{\"usageMetadata\":"
	  "{\"promptTokenCount\":8,\"candidatesTokenCount\":9,\"thoughtsTokenCount\":30,"
	  "\"totalTokenCount\":47},\"modelVersion\":\"gemini-2.5-pro\"}]",
	  "gemini-2.5-pro", 8, 0, 39 },
	{ "gemini's command line", USAGE_EVENTS,
	  "data: {\"response\":{\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":"
	  "3,\"cachedContentTokenCount\":5},\"modelVersion\":\"gemini-2.5-flash\"}}\r\n\r\n",
	  "gemini-2.5-flash", 8, 5, 3 },
	{ "ollama, a line each", USAGE_JSON,
	  "{\"model\":\"llama3\",\"done\":false}\n{\"model\":\"llama3\",\"done\":true,"
	  "\"prompt_eval_count\":26,\"eval_count\":290}\n",
	  "llama3", 26, 0, 290 },
	{ "cohere", USAGE_JSON,
	  "{\"usage\":{\"billed_units\":{\"input_tokens\":1},\"tokens\":{\"input_tokens\":71.0,"
	  "\"output_tokens\":3.5}}}",
	  "", 71, 0, 4 },
	{ "groq", USAGE_EVENTS,
	  "data:{\"x_groq\":{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}}\n\n", "", 3,
	  0, 4 },
	{ "bedrock", USAGE_JSON,
	  "{\"usage\":{\"inputTokens\":3,\"outputTokens\":4,\"cacheReadInputTokens\":9}}", "", 12,
	  9, 4 },
	{ "the highest of two", USAGE_JSON,
	  "{\"usage\":{\"prompt_tokens\":30,\"prompt_tokens\":3,\"completion_tokens\":4}}", "", 30,
	  0, 4 },
	{ "an escape in a name", USAGE_JSON,
	  "{\"us\\u0061ge\":{\"Prompt_Tokens\":30,\"completion_tokens\":4}}", "", 30, 0, 4 },
};

static void each_form_in_every_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(forms); i++)
		for (size_t piece = 1; piece < 90; piece++) {
			struct usage u = read_all(forms[i].framing, forms[i].text, piece);
			struct usage_sum s = usage_sum(&u);

			if (s.in != forms[i].in || s.cached != forms[i].cached ||
			    s.out != forms[i].out || strcmp(u.model, forms[i].model) != 0 || u.bad)
				fail_msg("%s, pieces of %zu: in %llu cached %llu out %llu model %s "
					 "bad %d",
					 forms[i].name, piece, (unsigned long long)s.in,
					 (unsigned long long)s.cached, (unsigned long long)s.out,
					 u.model, u.bad);
		}
}

/* None of them may lower what is counted: they are none, and said to be. */
static void what_is_no_number_is_told(void **state)
{
	static const char *const odd[] = {
		"{\"usage\":{\"prompt_tokens\":-1}}",
		"{\"usage\":{\"prompt_tokens\":1e3}}",
		"{\"usage\":{\"prompt_tokens\":18446744073709551617}}",
		"{\"usage\":{\"prompt_tokens\":1000000001}}",
		"{\"usage\":{\"prompt_tokens\":\"5\"}}",
		"{\"usage\":{\"prompt_tokens\":5",
		"{\"usage\":{\"prompt_tokens\":5}]",
		"{\"usage\" {\"prompt_tokens\":5}}",
		"Nothing of the kind",
	};
	char deep[400] = "";

	(void)state;
	for (size_t i = 0; i < LEN(odd); i++)
		if (!read_all(USAGE_JSON, odd[i], 3).bad)
			fail_msg("taken: %s", odd[i]);
	memset(deep, '[', 300);
	assert_true(read_all(USAGE_JSON, deep, 7).bad);
}

static void words_say_nothing(void **state)
{
	static const char *const texts[] = {
		"{\"content\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":5}\"}",
		"{\"a\":{\"usage\":{\"prompt_tokens\":5}}}",
		"{\"usage.prompt_tokens\":5}",
		"{\"usage\":[{\"prompt_tokens\":5}]}",
		"[[{\"usage\":{\"prompt_tokens\":5}}]]",
		"{\"usage\":null,\"prompt_tokens\":5}",
		"{\"usage\":{\"x\":{\"prompt_tokens\":5}}}",
		"{\"usage\\u0000\":{\"prompt_tokens\":5}}",
	};

	(void)state;
	for (size_t i = 0; i < LEN(texts); i++) {
		struct usage u = read_all(USAGE_JSON, texts[i], 1);

		if (u.in || u.out || u.bad)
			fail_msg("counted: %s", texts[i]);
	}
}

static void prices_are_of_one_model(void **state)
{
	static const struct {
		const char *name;
		uint32_t in; /* 0: not known */
	} names[] = {
		{ "gpt-5", 1250 },
		{ "gpt-5-2025-08-07", 1250 },
		{ "gpt-5-pro", 15000 },
		{ "gpt-5-ultra", 0 },
		{ "gpt-5.9", 0 },
		{ "gpt-5.1", 1250 },
		{ "claude-opus-4-20250514", 15000 },
		{ "claude-opus-4-9", 0 },
		{ "claude-sonnet-4-5@20250929", 3000 },
		{ "anthropic/claude-sonnet-4.5", 3000 },
		{ "models/gemini-2.5-pro-preview-05-06", 1250 },
		{ "gemini-2.5-flash-image", 0 },
		{ "gpt-4o-mini-2024-07-18", 150 },
		{ "gpt-4o-audio-preview", 0 },
		{ "", 0 },
		{ "mine", 500 },
		{ "mine-too", 0 },
	};
	struct arena *a = arena_new(1 << 16);
	struct strlist own = { .v = (const char *[]){ "mine 0.50 1.50 0.05" }, .n = 1 };
	struct price_list l = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(price_list_read(a, &own, &l, &e), 0);
	for (size_t i = 0; i < LEN(names); i++) {
		const struct model_price *p = price_find(&l, names[i].name);

		if ((p ? p->in : 0) != names[i].in)
			fail_msg("%s: %u", names[i].name, p ? p->in : 0);
	}
	assert_int_equal(price_of(price_find(&l, "mine"),
				  &(struct usage_sum){ .in = 100, .cached = 40, .out = 10 }),
			 60 * 500 + 40 * 50 + 10 * 1500);
	/* Past 200,000 tokens of a request. */
	assert_int_equal(price_of(price_find(&l, "gemini-2.5-pro"),
				  &(struct usage_sum){ .in = 300000, .out = 10 }),
			 300000ULL * 2500 + 10 * 15000);
	(void)arena_free(a);
}

static void odd_settings_are_refused(void **state)
{
	static const char *const budgets[] = { "api.openai.com",
					       "api.openai.com tokens",
					       "api.openai.com tokens=x",
					       "*.com tokens=5",
					       "api.openai.com/v1 tokens=5",
					       "api.openai.com cost=1.5x",
					       "" };
	static const char *const prices[] = { "m",      "m 1",      "m 1 x", "m 1 2 3 4 5",
					      "m -1 2", "m 1001 1", " 1 2" };
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < LEN(budgets); i++) {
		struct egress_spec s = { .inspect = true,
					 .budgets = { (const char *[]){ budgets[i] }, 1 } };
		struct budget *b = NULL;

		if (budget_new(&s, &b, &e) == 0)
			fail_msg("taken: %s", budgets[i]);
	}
	for (size_t i = 0; i < LEN(prices); i++) {
		struct egress_spec s = { .inspect = true,
					 .prices = { (const char *[]){ prices[i] }, 1 } };
		struct budget *b = NULL;

		if (budget_new(&s, &b, &e) == 0)
			fail_msg("taken: %s", prices[i]);
	}
}

static void what_is_not_opened_has_no_budget(void **state)
{
	static const char *const passed[] = { "api.openai.com", "*.openai.com",
					      "*.openai.azure.com", "mine.openai.azure.com",
					      "own.test" };
	struct err e = { 0 };
	struct budget *b = NULL;
	struct egress_spec s = { .inspect = false, .tokens = 5 };

	(void)state;
	assert_true(budget_new(&s, &b, &e) < 0);
	s.inspect = true;
	s.models = (struct strlist){ (const char *[]){ "own.test" }, 1 };
	for (size_t i = 0; i < LEN(passed); i++) {
		s.passthrough = (struct strlist){ (const char *[]){ passed[i] }, 1 };
		if (budget_new(&s, &b, &e) == 0)
			fail_msg("taken: %s", passed[i]);
	}
	s.passthrough = (struct strlist){ (const char *[]){ "other.test" }, 1 };
	assert_int_equal(budget_new(&s, &b, &e), 0);
	b = budget_free(b);
}

/* ---- calls ---- */

struct scene {
	struct budget *b;
	struct budget_call *c;
	struct egress_verdict v;
};

static void begin(struct scene *t, const struct egress_spec *s)
{
	struct err e = { 0 };

	*t = (struct scene){ 0 };
	if (budget_new(s, &t->b, &e) < 0)
		fail_msg("%s", e.what);
}

static bool call_of(struct scene *t, const char *host, const char *method, const char *path)
{
	struct host h;

	assert_int_equal(host_parse(egress_text(host, strlen(host)), &h), HOST_OK);
	t->v = (struct egress_verdict){ 0 };
	t->c = NULL;
	return budget_open(t->b,
			   &(struct budget_request){ .host = &h,
						     .method = egress_text(method, strlen(method)),
						     .target = egress_text(path, strlen(path)),
						     .has_body = true },
			   &t->c, &t->v);
}

static bool asks(struct scene *t, const char *body)
{
	return budget_up(t->c, body, strlen(body), true, &t->v);
}

static struct budget_told answers(struct scene *t, const char *body, bool whole)
{
	struct budget_told told;

	budget_answer(t->c, 200, egress_text("application/json", 16), true);
	budget_down(t->c, body, strlen(body));
	assert_true(budget_charge(t->c, whole, true, 1000, strlen(body), &told));
	t->c = budget_close(t->c);
	return told;
}

#define CHAT "/v1/chat/completions"
#define OPENAI "api.openai.com"

static void tokens_are_used_up(void **state)
{
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 100 });
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	(void)answers(&t, "{\"usage\":{\"prompt_tokens\":90,\"completion_tokens\":9}}", true);
	assert_true(call_of(&t, OPENAI, "POST", CHAT)); /* one is left, and it may go beyond */
	(void)answers(&t, "{\"usage\":{\"prompt_tokens\":90,\"completion_tokens\":9}}", true);
	assert_false(call_of(&t, OPENAI, "POST", CHAT));
	assert_int_equal(t.v.reason, EGRESS_BUDGET);
	assert_string_equal(t.v.what, "the budget is used up: 198 of 100 tokens");
	assert_false(call_of(&t, "api.anthropic.com", "POST", "/v1/messages?beta=true"));
	assert_true(call_of(&t, "example.org", "POST", "/"));
	assert_true(call_of(&t, OPENAI, "GET", "/v1/models"));
	t.b = budget_free(t.b);
}

static void each_host_has_its_own(void **state)
{
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){
			  .inspect = true,
			  .models = { (const char *[]){ "own.test" }, 1 },
			  .budgets = { (const char *[]){ "own.test tokens=0.1k" }, 1 } });
	assert_true(call_of(&t, "own.test", "POST", CHAT));
	(void)answers(&t, "{\"usage\":{\"prompt_tokens\":100}}", true);
	assert_false(call_of(&t, "own.test", "POST", CHAT));
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

static void money_needs_a_price(void **state)
{
	static const char *const bodies[] = {
		"{\"model\":\"unheard-of\"}",
		"{\"messages\":[]}",
		"{\"model\":\"gpt-4o-mini\",\"model\":\"unheard-of\"}",
		"{\"model\":\"gpt-4o-mini\",\"\\u006dODEL\":\"unheard-of\"}",
		"{\"model\":{\"x\":\"gpt-4o-mini\"}}",
		"model=gpt-4o-mini",
		"",
	};
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .cost = 1000 });
	for (size_t i = 0; i < LEN(bodies); i++) {
		assert_true(call_of(&t, OPENAI, "POST", CHAT));
		if (asks(&t, bodies[i]))
			fail_msg("let go: %s", bodies[i]);
		t.c = budget_close(t.c);
	}
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	assert_true(asks(&t, "{\"messages\":[{\"model\":\"unheard-of\"}],\"model\":\"gpt-4o\"}"));
	assert_int_equal(answers(&t,
				 "{\"model\":\"gpt-4o-2024-08-06\",\"usage\":{\"prompt_tokens\":"
				 "400000,\"completion_tokens\":0}}",
				 true)
				 .cost,
			 BUDGET_NANO * 1000);
	assert_false(call_of(&t, OPENAI, "POST", CHAT));
	assert_string_equal(t.v.what, "the budget is used up: 1.000 of 1.000 USD");
	t.b = budget_free(t.b);
}

/* The last of it decides before it is sent: what went before is no request. */
static void the_end_of_a_request_waits_for_its_model(void **state)
{
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .cost = 1000 });
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	assert_true(budget_up(t.c, "{\"messages\":[]", 14, false, &t.v));
	assert_false(budget_up(t.c, "}", 1, false, &t.v));
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

static void what_nobody_counts_stops(void **state)
{
	static const char *const bodies[] = { "{\"choices\":[]}", "", "{\"usage\":null}",
					      "{\"usage\":{\"prompt_tokens\":-5}}", "words" };
	struct scene t;

	(void)state;
	for (size_t i = 0; i < LEN(bodies); i++) {
		begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 1000000 });
		assert_true(call_of(&t, OPENAI, "POST", CHAT));
		assert_true(answers(&t, bodies[i], true).uncounted);
		assert_false(call_of(&t, OPENAI, "POST", CHAT));
		assert_true(call_of(&t, "api.mistral.ai", "POST", CHAT));
		t.c = budget_close(t.c);
		t.b = budget_free(t.b);
	}
	/* Without a budget it is told, and that is all. */
	begin(&t, &(struct egress_spec){ .inspect = true });
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	assert_true(answers(&t, "{}", true).uncounted);
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

static void what_was_cut_is_estimated(void **state)
{
	struct budget_told told;
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 1000000 });
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	told = answers(&t, "{\"choices\":[", false);
	assert_true(told.estimated && !told.uncounted);
	assert_int_equal(told.in, 1000);
	assert_int_equal(told.out, BUDGET_UNSAID);
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	told = answers(&t, "{\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}", false);
	assert_int_equal(told.in, 5);
	assert_int_equal(told.out, 6); /* it had been said */
	/* Nothing of it reached the host, or the host said no. */
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	assert_false(budget_charge(t.c, false, false, 10, 0, &told));
	t.c = budget_close(t.c);
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	budget_answer(t.c, 429, egress_text("application/json", 16), true);
	assert_false(budget_charge(t.c, true, true, 10, 10, &told));
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

/* A request may say "go on with what you have kept". */
static void what_was_cut_counts_as_the_largest(void **state)
{
	struct budget_told told;
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 1000000 });
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	told = answers(&t, "{\"usage\":{\"prompt_tokens\":70000,\"completion_tokens\":6}}", true);
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	told = answers(&t, "{\"choices\":[", false);
	assert_int_equal(told.in, 70000);
	/* Of another host that says nothing. */
	assert_true(call_of(&t, "api.groq.com", "POST", CHAT));
	told = answers(&t, "{\"choices\":[", false);
	assert_int_equal(told.in, 1000);
	t.b = budget_free(t.b);
}

/* Such an answer is fetched by a request that only reads. */
static void what_is_answered_later_is_refused(void **state)
{
	static const char *const bodies[] = {
		"{\"background\":true}",
		"{\"model\":\"gpt-5\",\"\\u0062ackground\":true,\"input\":\"x\"}",
		"{\"background\":false,\"background\":true}",
		"{\"Background\":1}",
		"{\"deferred\":\"yes\"}",
		"{} {\"deferred\":true}",
	};
	static const char *const fine[] = {
		"{\"background\":false,\"deferred\": null}",
		"{\"tools\":[{\"type\":\"image_generation\",\"background\":\"auto\"}]}",
		"{\"input\":\"background: true\",\"metadata\":{\"background\":true}}",
	};
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 1000 });
	for (size_t i = 0; i < LEN(bodies); i++) {
		assert_true(call_of(&t, OPENAI, "POST", "/v1/responses"));
		if (asks(&t, bodies[i]))
			fail_msg("let go: %s", bodies[i]);
		t.c = budget_close(t.c);
	}
	for (size_t i = 0; i < LEN(fine); i++) {
		assert_true(call_of(&t, OPENAI, "POST", "/v1/responses"));
		if (!asks(&t, fine[i]))
			fail_msg("refused: %s: %s", fine[i], t.v.what);
		t.c = budget_close(t.c);
	}
	assert_true(call_of(&t, OPENAI, "POST", "/v1/responses"));
	assert_false(asks(&t, "")); /* all of it was unreadable */
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
	begin(&t, &(struct egress_spec){ .inspect = true });
	assert_true(call_of(&t, OPENAI, "POST", "/v1/responses"));
	assert_true(asks(&t, bodies[0])); /* without a budget it is the command's affair */
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

static void other_names_of_the_same_hosts_count(void **state)
{
	static const struct {
		const char *host, *path;
	} all[] = {
		{ "bedrock-runtime-fips.us-east-1.amazonaws.com", "/model/x/invoke" },
		{ "bedrock-runtime.cn-north-1.amazonaws.com.cn", "/model/x/converse" },
		{ "bedrock-mantle.us-west-2.api.aws", CHAT },
		{ "aiplatform.eu.rep.googleapis.com", "/v1/models/x:generateContent" },
		{ "eu-west-1.api.x.ai", CHAT },
		{ "models.github.ai", "/inference/chat/completions" },
		{ "name.eastus2.models.ai.azure.com", CHAT },
		{ "API.OpenAI.com.", CHAT },
	};
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true });
	for (size_t i = 0; i < LEN(all); i++) {
		assert_true(call_of(&t, all[i].host, "POST", all[i].path));
		if (!t.c)
			fail_msg("uncounted: %s", all[i].host);
		t.c = budget_close(t.c);
	}
	/* The control: hosts of the same owners that are no models'. */
	assert_true(call_of(&t, "bucket.s3.us-east-1.amazonaws.com", "POST", CHAT));
	assert_null(t.c);
	t.b = budget_free(t.b);
}

static void other_ways_are_closed(void **state)
{
	static const char *const paths[] = {
		"/v1/images/generations",
		"/v1/batches",
		"/v1/chat%2fcompletions/count_tokens",
		"/v1/messages/count_tokens/../../messages",
		"/v1//messages/count_tokens",
		"/v1/messages;/count_tokens",
		"/async/chat/completions",
		"/",
	};
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 1000 });
	for (size_t i = 0; i < LEN(paths); i++)
		if (call_of(&t, OPENAI, "POST", paths[i]))
			fail_msg("let go: %s", paths[i]);
	assert_true(
		call_of(&t, "api.anthropic.com", "POST", "/v1/messages/count_tokens?beta=true"));
	assert_null(t.c);
	assert_true(call_of(&t, "generativelanguage.googleapis.com", "POST",
			    "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"));
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

static void so_many_at_a_time(void **state)
{
	struct budget_call *calls[BUDGET_CALLS];
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = 1000 });
	for (size_t i = 0; i < BUDGET_CALLS; i++) {
		assert_true(call_of(&t, OPENAI, "POST", CHAT));
		calls[i] = t.c;
	}
	assert_false(call_of(&t, OPENAI, "POST", CHAT));
	assert_int_equal(t.v.reason, EGRESS_LIMIT);
	calls[0] = budget_close(calls[0]);
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	calls[0] = t.c;
	for (size_t i = 0; i < BUDGET_CALLS; i++)
		calls[i] = budget_close(calls[i]);
	t.b = budget_free(t.b);
}

/* Nobody who answers can bring the sum back to nothing. */
static void sums_do_not_wrap(void **state)
{
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .tokens = (uint64_t)1 << 50 });
	for (size_t i = 0; i < 1000; i++) {
		assert_true(call_of(&t, OPENAI, "POST", CHAT));
		(void)answers(&t, "{\"usage\":{\"prompt_tokens\":1000000000}}", true);
	}
	assert_true(call_of(&t, OPENAI, "POST", CHAT));
	t.c = budget_close(t.c);
	t.b = budget_free(t.b);
}

/* Another model answered than the one that was asked for, and nobody knows its price. */
static void the_answer_says_which_model(void **state)
{
	struct scene t;

	(void)state;
	begin(&t, &(struct egress_spec){ .inspect = true, .cost = 100000 });
	assert_true(call_of(&t, "openrouter.ai", "POST", "/api/v1/chat/completions"));
	assert_true(asks(&t, "{\"model\":\"openai/gpt-4o-mini\",\"models\":[\"dear/one\"]}"));
	(void)answers(&t, "{\"model\":\"dear/one\",\"usage\":{\"prompt_tokens\":5}}", true);
	assert_false(call_of(&t, "openrouter.ai", "POST", "/api/v1/chat/completions"));
	t.b = budget_free(t.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_in_every_pieces),
		cmocka_unit_test(what_is_no_number_is_told),
		cmocka_unit_test(words_say_nothing),
		cmocka_unit_test(prices_are_of_one_model),
		cmocka_unit_test(odd_settings_are_refused),
		cmocka_unit_test(what_is_not_opened_has_no_budget),
		cmocka_unit_test(tokens_are_used_up),
		cmocka_unit_test(each_host_has_its_own),
		cmocka_unit_test(money_needs_a_price),
		cmocka_unit_test(the_end_of_a_request_waits_for_its_model),
		cmocka_unit_test(what_nobody_counts_stops),
		cmocka_unit_test(what_was_cut_is_estimated),
		cmocka_unit_test(what_was_cut_counts_as_the_largest),
		cmocka_unit_test(what_is_answered_later_is_refused),
		cmocka_unit_test(other_names_of_the_same_hosts_count),
		cmocka_unit_test(other_ways_are_closed),
		cmocka_unit_test(so_many_at_a_time),
		cmocka_unit_test(sums_do_not_wrap),
		cmocka_unit_test(the_answer_says_which_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

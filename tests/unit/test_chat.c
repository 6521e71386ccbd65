/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "apps/chat/chat_endpoint.h"
#include "apps/chat/chat_events.h"

static int take(const char *text, struct chat_answer *a, struct err *e)
{
	struct chat_events x;
	int r;

	*a = (struct chat_answer){ 0 };
	*e = (struct err){ 0 };
	chat_events_init(&x, false, a, NULL, NULL);
	r = chat_events_feed(&x, text, strlen(text), e);
	if (r == 0)
		r = chat_events_end(&x, e);
	chat_events_done(&x);
	return r;
}

static void pieces_of_calls_come_together(void **state)
{
	static struct chat_answer a;
	struct err e;

	(void)state;
	assert_int_equal(
		take("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"i\","
		     "\"function\":{\"name\":\"n\",\"arguments\":\"{\\\"a\"}}]}}]}\n\n"
		     "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"\","
		     "\"function\":{\"name\":\"n\",\"arguments\":\"\\\":1}\"}}]},"
		     "\"finish_reason\":\"tool_calls\"}]}\n\n"
		     "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
		     "\"completion_tokens\":99999999999999}}\n\n",
		     &a, &e),
		0);
	assert_int_equal(a.n_calls, 1);
	assert_string_equal(a.calls[0].name, "n");
	assert_string_equal(a.calls[0].id, "i");
	assert_string_equal(buf_str(&a.calls[0].args), "{\"a\":1}");
	assert_true(a.counted && a.in_tokens == 5 && a.out_tokens == (uint64_t)1 << 32);
	chat_answer_done(&a);
}

static void what_breaks_a_bound_is_refused(void **state)
{
	static struct chat_answer a;
	struct buf b = BUF_INIT((size_t)16 << 20);
	struct err e;

	(void)state;
	for (int i = 0; i <= CHAT_CALLS_MAX; i++)
		buf_printf(&b,
			   "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,"
			   "\"function\":{\"name\":\"n\"}}]}}]}\n\n",
			   i);
	assert_int_equal(take(buf_str(&b), &a, &e), -EMSGSIZE);
	chat_answer_done(&a);
	b.len = 0;
	for (int i = 0; i < 5; i++) {
		buf_puts(&b, "data: {\"choices\":[{\"delta\":{\"content\":\"");
		for (int k = 0; k < 1000000; k++)
			buf_putc(&b, 'x');
		buf_puts(&b, "\"}}]}\n\n");
	}
	assert_int_equal(take(buf_str(&b), &a, &e), -EMSGSIZE);
	chat_answer_done(&a);
	b.len = 0;
	buf_puts(&b, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"
		     "\"name\":\"");
	for (int k = 0; k < 65; k++)
		buf_putc(&b, 'n');
	buf_puts(&b, "\"}}]}}]}\n\n");
	assert_int_equal(take(buf_str(&b), &a, &e), -EMSGSIZE);
	chat_answer_done(&a);
	buf_done(&b);
}

static void where_a_model_is(void **state)
{
	static const struct {
		struct chat_spec spec;
		const char *url, *pin, *key, *error;
	} rows[] = {
		{ { .provider = "openai", .name = "m" },
		  "https://api.openai.com/v1/chat/completions",
		  "",
		  "OPENAI_API_KEY",
		  NULL },
		{ { .provider = "ollama", .name = "m" },
		  "http://model.brig.internal:11434/v1/chat/completions",
		  "127.0.0.1",
		  NULL,
		  NULL },
		{ { .provider = "x", .name = "m", .base_url = "https://a.example/v2/" },
		  "https://a.example/v2/chat/completions",
		  "",
		  NULL,
		  NULL },
		/* The provider's key is not for another server. */
		{ { .provider = "openai", .name = "m", .base_url = "https://a.example:8443" },
		  "https://a.example:8443/chat/completions",
		  "",
		  NULL,
		  NULL },
		{ { .provider = "x", .name = "m", .base_url = "http://10.0.0.7/v1" },
		  "http://model.brig.internal/v1/chat/completions",
		  "10.0.0.7",
		  NULL,
		  NULL },
		{ { .provider = "x", .name = "m", .base_url = "https://a.example/", .key = "K" },
		  "https://a.example/chat/completions",
		  "",
		  "K",
		  NULL },
		{ { .provider = "x", .name = "m" }, NULL, NULL, NULL, "is not known" },
		{ { .provider = "openai", .name = "m", .slip = "a:1:1: unknown key" },
		  NULL,
		  NULL,
		  NULL,
		  "unknown key" },
		{ { .provider = "openai" }, NULL, NULL, NULL, "names no model" },
		{ { .name = "m", .base_url = "https://1.2.3.4/" }, NULL, NULL, NULL, "a name" },
		{ { .name = "m", .base_url = "https://a.example/?x" }, NULL, NULL, NULL, "query" },
		{ { .name = "m", .base_url = "http://a.example/", .key = "K" },
		  NULL,
		  NULL,
		  NULL,
		  "plain HTTP" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct chat_endpoint to;
		struct err e = { 0 };
		int r = chat_endpoint(&rows[i].spec, &to, &e);

		assert_int_equal(r == 0, rows[i].error == NULL);
		if (rows[i].error) {
			assert_non_null(strstr(e.what, rows[i].error));
			continue;
		}
		assert_string_equal(to.url, rows[i].url);
		assert_string_equal(to.pin, rows[i].pin);
		assert_true(rows[i].key ? to.key && strcmp(to.key, rows[i].key) == 0 : !to.key);
	}
}

static void a_vendor_is_known_by_its_host_and_its_variable(void **state UNUSED)
{
	static const struct {
		const char *key, *url;
		bool known;
	} rows[] = {
		{ "OPENAI_API_KEY", "https://api.openai.com/v1", true },
		{ "OPENAI_API_KEY", "https://api.openai.com/v9/other", true },
		{ "OPENAI_API_KEY", "https://API.openai.com/v1", false },
		{ "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1", true },
		{ "GROQ_API_KEY", "https://api.groq.com/openai/v1", true },
		{ "OPENAI_API_KEY", "https://api.openai.com:8443/v1", false },
		{ "OPENAI_API_KEY", "https://api.openai.com.example.org/v1", false },
		{ "OPENAI_API_KEY", "https://api.groq.com/v1", false },
		{ "GROQ_API_KEY", "https://api.openai.com/v1", false },
		{ "HOME", "https://api.openai.com/v1", false },
		{ "GITHUB_TOKEN", "https://api.openai.com/v1", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct chat_spec c = { .provider = "openai",
					     .name = "m",
					     .base_url = rows[i].url,
					     .key = rows[i].key };
		struct chat_endpoint to;
		struct err e = { 0 };

		assert_int_equal(chat_endpoint(&c, &to, &e), 0);
		if (chat_endpoint_known(&to) != rows[i].known)
			fail_msg("%s at %s", rows[i].key, rows[i].url);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_vendor_is_known_by_its_host_and_its_variable),
		cmocka_unit_test(pieces_of_calls_come_together),
		cmocka_unit_test(what_breaks_a_bound_is_refused),
		cmocka_unit_test(where_a_model_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

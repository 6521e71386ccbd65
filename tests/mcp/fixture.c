/* SPDX-License-Identifier: Apache-2.0 */
/* brig with other tools: those that the official conformance suite calls by name. It is `brig` but
 * for this table and the time after which a call becomes a task (tests/meson.build). Those that
 * take time are commands in sandboxes, so that progress, tasks and cancellation are the real ones.
 */
#include <stdio.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/json.h"

static const struct tool_arg none[] = { { NULL } }, schema_2020[] = { { NULL } };

static const struct tool_arg greet_args[] = { { "name", TOOL_TEXT, NULL, NULL, NULL, false },
					      { NULL } };
static const struct tool_arg slow_args[] = { { "seconds", TOOL_NUMBER, NULL, NULL, NULL, false },
					     { "label", TOOL_TEXT, NULL, NULL, NULL, false },
					     { NULL } };

static const char schema_text[] =
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/"
	"schema\",\"type\":\"object\",\"$defs\":{"
	"\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":{"
	"\"type\":"
	"\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":"
	"\"string\"},"
	"\"address\":{\"$ref\":\"#/$defs/"
	"address\"},\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\","
	"\"email\"]},\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},\"allOf\":[{"
	"\"anyOf\":[{"
	"\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":{"
	"\"contactMethod\":{"
	"\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]"
	"},\"else\":{"
	"\"required\":[\"email\"]},\"additionalProperties\":false}";

void tool_schema(struct json *j, const struct tool_arg *args)
{
	if (args == schema_2020) {
		json_raw(j, schema_text, strlen(schema_text));
		return;
	}
	json_object(j);
	json_kstr(j, "type", "object");
	json_key(j, "properties");
	json_object(j);
	for (; args->name; args++) {
		json_key(j, args->name);
		json_object(j);
		json_kstr(j, "type", args->type == TOOL_NUMBER ? "integer" : "string");
		json_object_end(j);
	}
	json_object_end(j);
	json_object_end(j);
}

static int say(struct tool_call *c, const char *text)
{
	buf_puts(&c->result.text, text);
	call_end(c);
	return 0;
}

static int simple(struct tool_call *c, const struct jread *args, struct err *e)
{
	(void)args;
	(void)e;
	return say(c, "This is a simple text response for testing.");
}

static int error(struct tool_call *c, const struct jread *args, struct err *e)
{
	(void)args;
	(void)e;
	c->result.failed = true;
	return say(c, "This tool intentionally returns an error for testing");
}

static int greet(struct tool_call *c, const struct jread *args, struct err *e)
{
	char text[128];

	(void)e;
	(void)snprintf(text, sizeof(text), "Hello, %.60s!",
		       jread_str(args, "name") ? jread_str(args, "name") : "you");
	return say(c, text);
}

static int line(struct tool_call *c, const struct jread *args, const char *text, struct err *e)
{
	const char *const argv[] = { "/bin/sh", "-c", text, NULL };

	return call_request(c, args, CODE_NONE, e) < 0 || call_argv(c, argv, e) < 0
		       ? -e->code
		       : call_start(c, e);
}

static int progress(struct tool_call *c, const struct jread *args, struct err *e)
{
	return line(c, args, "for i in 1 2 3; do echo $i; sleep 0.3; done", e);
}

static int slow(struct tool_call *c, const struct jread *args, struct err *e)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "sleep %lld; echo done",
		       (long long)jread_int(args, "seconds", 1));
	return line(c, args, text, e);
}

static int failing(struct tool_call *c, const struct jread *args, struct err *e)
{
	return line(c, args, "sleep 1; echo failed >&2; exit 1", e);
}

static void break_result(struct tool_call *c, const struct outcome *o)
{
	(void)o;
	c->result.text.failed = true;
	call_end(c);
}

/* What no tool says by itself: there is no result to be had. */
static int broken(struct tool_call *c, const struct jread *args, struct err *e)
{
	c->ended = break_result;
	return line(c, args, "sleep 1", e);
}

const struct tool tool_table[] = {
	{ "test_simple_text", "", "text", none, none, true, true, false, simple },
	{ "test_error_handling", "", "an error", none, none, true, true, false, error },
	{ "test_tool_with_progress", "", "progress", none, none, false, true, true, progress },
	{ "json_schema_2020_12_tool", "", "Tool with JSON Schema 2020-12 features", schema_2020,
	  none, true, true, false, simple },
	{ "test_logging_tool", "", "says nothing on the way", none, none, true, true, false,
	  simple },
	{ "test_streaming_elicitation", "", "asks for nothing", none, none, true, true, false,
	  simple },
	{ "greet", "", "at once", greet_args, none, true, true, false, greet },
	{ "slow_compute", "", "later", slow_args, none, false, true, true, slow },
	{ "failing_job", "", "fails later", none, none, false, true, true, failing },
	{ "protocol_error_job", "", "breaks later", none, none, false, true, true, broken },
	{ .name = NULL },
};

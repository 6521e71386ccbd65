/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_search.c - search_files: grep inside, its lines taken apart. */
#include <string.h>
#include <unistd.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/json.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "sandbox/manager.h"

#define GREP "/bin/grep"
#define PATTERN_MAX 4096
#define FOUND_MAX 500
#define LINE_SHOWN 400

/* "PATH NUL NUMBER : TEXT \n", written inside: what has another form ends the list. */
static bool tool_search_take(const char **at, const char *end, struct json *j, struct buf *text)
{
	const char *path = *at, *nul = memchr(path, '\0', (size_t)(end - path)),
		   *nl = nul ? memchr(nul, '\n', (size_t)(end - nul)) : NULL,
		   *colon = nl ? memchr(nul, ':', (size_t)(nl - nul)) : NULL;
	char digits[24] = "";
	uint64_t line;
	size_t len;

	if (!colon || colon - nul > 20)
		return false;
	memcpy(digits, nul + 1, (size_t)(colon - nul - 1));
	if (num_count(digits, &line) < 0)
		return false;
	len = (size_t)(nl - colon - 1);
	len = len > LINE_SHOWN ? utf8_cut(colon + 1, LINE_SHOWN) : len;
	json_object(j);
	json_kstr(j, "path", path);
	json_ku64(j, "line", line);
	json_key(j, "text");
	json_strn(j, colon + 1, len);
	json_object_end(j);
	/* A name with a line end in it would be a line of its own. */
	clean_put(text, path, strlen(path));
	buf_printf(text, ":%llu:", (unsigned long long)line);
	buf_add(text, colon + 1, len);
	buf_putc(text, '\n');
	*at = nl + 1;
	return true;
}

static void search_ended(struct tool_call *c, const struct outcome *o)
{
	const char *at = buf_str(&o->out.data), *end = at + o->out.data.len;
	size_t found = 0;
	struct json j;

	/* 1: nothing was found. */
	if (o->kind != OUTCOME_EXITED || o->exit_code > 1) {
		result_run(c, o);
		c->result.json.len = 0;
		c->result.failed = true;
		call_end(c);
		return;
	}
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_karray(&j, "matches");
	while (found < FOUND_MAX && at < end && tool_search_take(&at, end, &j, &c->result.text))
		found++;
	json_array_end(&j);
	json_kbool(&j, "truncated", at < end || o->out.truncated);
	json_object_end(&j);
	if (!found)
		buf_puts(&c->result.text, "(nothing was found)");
	else if (at < end || o->out.truncated)
		buf_puts(&c->result.text, "[truncated] search for something rarer");
	call_end(c);
}

/* By its place: PATH may have folders that what ran before has written to. What a program prints is
 * text to us whichever it is. */
static const char *program(const struct spec *s)
{
	return spec_other_programs(s) || access(GREP, X_OK) == 0 ? GREP : "grep";
}

int search_files(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *pattern = NULL, *path = NULL, *name = NULL;
	const char *argv[11] = { program(c->of->spec), "-rnIZ", "-Dskip", "-F", "-e" };
	size_t n = 5;
	CLEANUP(buf) struct buf include = BUF_INIT(PATTERN_MAX + 32);
	bool regex = false;

	if (args_text(args, "pattern", PATTERN_MAX, &pattern, e) < 0 ||
	    args_text(args, "path", TOOL_PATH_MAX - 1, &path, e) < 0 ||
	    args_text(args, "name", PATTERN_MAX, &name, e) < 0 ||
	    args_flag(args, "regex", &regex, e) < 0 || (path && args_path(path, e) < 0) ||
	    call_request(c, args, CODE_NONE, e) < 0)
		return -e->code;
	argv[3] = regex ? "-E" : "-F";
	argv[n++] = pattern;
	if (!path || !strstr(path, ".git")) /* who names it wants it */
		argv[n++] = "--exclude-dir=.git";
	if (name) {
		buf_printf(&include, "--include=%s", name);
		argv[n++] = buf_str(&include);
	}
	argv[n++] = "--";
	argv[n] = path ? path : ".";
	c->ended = search_ended;
	return call_argv(c, argv, e) < 0 ? -e->code : call_start(c, e);
}

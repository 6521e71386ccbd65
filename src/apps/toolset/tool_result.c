/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_result.c - how a command ended, for a model: what happened, what was denied,
 * and who could allow it. */
#include <stdio.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/json.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "sandbox/manager.h"

#define HEAD "\n\nDenied by the sandbox:\n"
#define TAIL                                                                                       \
	"Only the user can grant this, in brig's configuration. No tool can: do without it, or "   \
	"ask the user."

enum { DENIALS_SHOWN = 16, NAMES_SHOWN = 8 };

/* Which setting would allow what was denied; NULL: none would. */
static const struct {
	const char *kind, *setting, *words;
} settings[] = {
	{ "network", "egress.allow", "egress.allow in brig.yaml, or the option --allow HOST" },
	{ "protected-path", NULL,
	  "none: programs on the host obey this name, and the user changes it outside of the "
	  "sandbox" },
	{ "ssh-agent", "ssh_agent", "ssh_agent in brig.yaml, or the option --ssh-agent" },
};

static size_t setting_of(const char *kind)
{
	size_t i = 0;

	while (i < ARRAY_LEN(settings) && !str_eq(settings[i].kind, kind))
		i++;
	return i;
}

/* ---- as text ---- */

static void put_some(struct buf *b, const char *s, size_t max)
{
	size_t n = strnlen(s, max + 1);

	clean_put(b, s, n > max ? utf8_cut(s, max) : n);
}

/* What is not among those shown: a flood hides no denial. */
static uint64_t not_shown(const struct outcome *o)
{
	uint64_t all = outcome_denied(o), known = 0;

	for (size_t i = 0; i < o->denial_count && i < DENIALS_SHOWN; i++)
		known += o->denials[i].count;
	return all > known ? all - known : 0;
}

static void say_denials(struct buf *b, const struct outcome *o)
{
	uint64_t more = not_shown(o);

	for (size_t i = 0; i < o->denial_count && i < DENIALS_SHOWN; i++) {
		const struct denial *d = &o->denials[i];
		size_t k = setting_of(d->kind);

		if (outcome_is_asked(d)) /* see say_names */
			continue;
		buf_printf(b, "- %s: ", d->kind);
		put_some(b, d->target, 200);
		buf_puts(b, " (");
		put_some(b, d->reason, 300);
		buf_printf(b, "). Setting: %s\n",
			   k < ARRAY_LEN(settings) ? settings[k].words : "none");
	}
	if (more)
		buf_printf(b, "- and %llu more\n", (unsigned long long)more);
}

/* Every question counts: which names the last of them were for nobody knows. */
static uint64_t names_not_shown(const struct outcome *o)
{
	return o->asked_count > NAMES_SHOWN ? o->questions - NAMES_SHOWN : 0;
}

static void say_names(struct buf *b, const struct outcome *o)
{
	if (!o->questions)
		return;
	buf_puts(b, "- network: there is none in this sandbox; names asked for:");
	for (size_t i = 0; i < o->asked_count && i < NAMES_SHOWN; i++)
		buf_printf(b, " %s", o->asked[i]);
	if (names_not_shown(o))
		buf_puts(b, " and others");
	buf_printf(b, ". Setting: %s\n", settings[0].words);
}

static void say_limits(struct buf *b, const struct tool_call *c, const struct outcome *o)
{
	if (o->kind == OUTCOME_TIMEOUT)
		buf_printf(b,
			   "\nThe time limit of this call was %llu s. `timeout` may be lower or, "
			   "up to "
			   "the user's limits.timeout, higher.",
			   (unsigned long long)c->timeout_ms / 1000);
	else if (o->kind == OUTCOME_OOM)
		buf_puts(b,
			 "\nIt ran out of memory. Setting: limits.memory, which only the user can "
			 "raise.");
	else if (o->kind == OUTCOME_LIMIT)
		buf_puts(b, "\nIt went over limits.disk or limits.pids, which only the user can "
			    "raise.");
	if (o->out.truncated || o->err.truncated)
		buf_puts(
			b,
			"\n[truncated] Output is kept up to limits.output of each stream; write it "
			"to a file and look at parts of that.");
}

static void tell_denials(struct buf *b, const struct outcome *o)
{
	CLEANUP(buf) struct buf denied = BUF_INIT(b->max);

	say_denials(&denied, o);
	say_names(&denied, o);
	if (denied.len)
		buf_printf(b, HEAD "%s" TAIL, buf_str(&denied));
}

static void tool_result_explain(struct buf *b, const struct tool_call *c, const struct outcome *o)
{
	say_limits(b, c, o);
	tell_denials(b, o);
	for (size_t i = 0; i < o->hint_count; i++)
		buf_printf(b, "\nHint for the user: %s", o->hints[i]);
	if (o->error.hint[0])
		buf_printf(b, "\nHint: %s", o->error.hint);
	if (!o->trust_count)
		return;
	buf_printf(b, "\nNote: %zu changed file%s (such as ", o->trust_count,
		   o->trust_count == 1 ? "" : "s");
	put_some(b, o->trust[0].path, 200);
	buf_puts(b, ") can make programs on the host do something; the user is told to look at "
		    "them.");
}

/* ---- as JSON ---- */

/* Names were chosen inside: what a terminal would obey is shown instead, also to who prints this.
 */
static void tool_result_put_clean(struct json *j, const char *key, const char *text, size_t max)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 14);

	put_some(&b, text, max);
	json_kstr(j, key, buf_str(&b));
}

static void put_denials(struct buf *b, const struct outcome *o)
{
	struct json j;

	json_init(&j, b, false);
	json_array(&j);
	for (size_t i = 0; i < o->denial_count && i < DENIALS_SHOWN; i++) {
		size_t k = setting_of(o->denials[i].kind);

		json_object(&j);
		json_kstr(&j, "kind", o->denials[i].kind);
		tool_result_put_clean(&j, "target", o->denials[i].target, 1000);
		tool_result_put_clean(&j, "reason", o->denials[i].reason, 1000);
		if (k < ARRAY_LEN(settings) && settings[k].setting)
			json_kstr(&j, "setting", settings[k].setting);
		json_object_end(&j);
	}
	json_array_end(&j);
}

static void put_streams(struct json *j, const struct outcome *o)
{
	json_key(j, "stdout");
	json_strn(j, buf_str(&o->out.data), o->out.data.len);
	json_key(j, "stderr");
	json_strn(j, buf_str(&o->err.data), o->err.data.len);
	json_kbool(j, "stdout_truncated", o->out.truncated);
	json_kbool(j, "stderr_truncated", o->err.truncated);
}

static void put_limits(struct json *j, const struct outcome *o)
{
	json_karray(j, "limits_hit");
	for (unsigned l = 0; l < LIMIT_COUNT; l++)
		if (o->limits_hit & (1U << l))
			json_str(j, limit_name((enum limit)l));
	json_array_end(j);
}

static void tool_result_put_text(struct buf *b, const struct tool_call *c, const struct outcome *o,
				 size_t max)
{
	bool silent = !c->result.failed && !o->out.data.len && !o->err.data.len && c->plain.len;
	char *text = outcome_text(o, max);

	if (!silent)
		buf_puts(b, text ? text : "(no memory for the output)");
	free(text);
	shown_put_text(c, b);
}

void result_run(struct tool_call *c, const struct outcome *o)
{
	uint64_t max = o->dialect == DIALECT_INITRUNNER ? c->of->spec->command.output : 0;
	struct buf *b = &c->result.text;
	struct json j;

	c->result.failed = outcome_status(o) != 0;
	tool_result_put_text(b, c, o, (size_t)max);
	tool_result_explain(b, c, o);
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_kstr(&j, "outcome", outcome_name(o->kind));
	json_ku64(&j, "exit_code", (uint64_t)outcome_status(o));
	json_key(&j, "signal");
	json_i64(&j, o->signal);
	put_streams(&j, o);
	json_ku64(&j, "duration_ms", o->duration_us / 1000);
	put_limits(&j, o);
	put_denials(&c->result.denials, o);
	c->result.more = not_shown(o) + (names_not_shown(o) ? o->questions - o->asked_count : 0);
	json_key(&j, "denials");
	json_raw(&j, buf_str(&c->result.denials), c->result.denials.len);
	(void)snprintf(c->result.run, sizeof(c->result.run), "%s", o->id);
	json_kstr(&j, "run", o->id);
	if (o->error.code)
		json_kstr(&j, "error", o->error.what);
	if (o == c->o || c->far.code)
		shown_put_json(c, &j);
	json_object_end(&j);
}

void result_denied(struct tool_call *c, const struct outcome *o)
{
	tell_denials(&c->result.text, o);
	c->result.denials.len = 0;
	put_denials(&c->result.denials, o);
	c->result.more = not_shown(o);
}

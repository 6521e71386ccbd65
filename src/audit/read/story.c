/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/story.h"

#include <string.h>

#include "audit/read/export.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define LABEL "%-12s"
#define STORY_MAX ((size_t)8 << 20)

/* --- values --- */

static bool story_get(const struct entry *en, const char *key, struct pair *ret)
{
	return entry_get(en, key, ret) && ret->value.n;
}

/* "before VALUE after", or nothing where the record has no such field. */
static bool story_put(struct buf *out, const char *before, const struct entry *en, const char *key,
		      const char *after)
{
	struct pair p;

	if (!story_get(en, key, &p))
		return false;
	buf_puts(out, before);
	export_value(out, &p);
	buf_puts(out, after);
	return true;
}

/* A whole number of the record; false where there is none. */
static bool whole(const struct entry *en, const char *key, uint64_t *ret)
{
	char text[24];
	struct pair p;

	if (!story_get(en, key, &p) || p.kind != PAIR_NUMBER || p.value.n >= sizeof(text))
		return false;
	memcpy(text, p.value.p, p.value.n);
	text[p.value.n] = '\0';
	return num_count(text, ret) == 0;
}

static void put_size(struct buf *out, const char *before, const struct entry *en, const char *key)
{
	char text[32];
	uint64_t v;

	if (!whole(en, key, &v))
		return;
	num_size_text(v, text, sizeof(text));
	buf_printf(out, "%s%s", before, text);
}

static void put_duration(struct buf *out, const char *before, const struct entry *en,
			 const char *key)
{
	char text[32];
	uint64_t v;

	if (!whole(en, key, &v))
		return;
	num_duration_text(v, text, sizeof(text));
	buf_printf(out, "%s%s", before, text);
}

/* --- the head --- */

static void tell_command(struct story *s, const struct entry *en)
{
	struct pair p;

	buf_printf(s->out, LABEL, "command");
	if (story_get(en, "argv", &p))
		export_value(s->out, &p);
	else
		buf_puts(s->out, story_put(s->out, "", en, "argv0", "")
					 ? "; its arguments are recorded where audit.argv is true"
					 : "not on the record");
	buf_putc(s->out, '\n');
}

static void tell_head(struct story *s, const struct entry *en)
{
	s->told_head = true;
	buf_printf(s->out, LABEL, "run");
	clean_put(s->out, en->run.p, en->run.n);
	buf_printf(s->out, "\n" LABEL, "began");
	clean_put(s->out, en->when.p, en->when.n);
	buf_putc(s->out, '\n');
	tell_command(s, en);
	buf_printf(s->out, LABEL, "asked by");
	if (!story_put(s->out, "", en, "principal", ""))
		buf_puts(s->out, "nobody named");
	(void)story_put(s->out, ", for agent ", en, "agent", "");
	buf_printf(s->out, "\n" LABEL, "policy");
	if (!story_put(s->out, "", en, "access", ""))
		buf_puts(s->out, "as resolved");
	(void)story_put(s->out, ", network ", en, "network", "");
	(void)story_put(s->out, ", profile ", en, "profile", "");
	put_size(s->out, ", memory ", en, "memory");
	put_duration(s->out, ", time limit ", en, "timeout_ms");
	(void)story_put(s->out, "; digest ", en, "policy", "");
	buf_putc(s->out, '\n');
	if (story_put(s->out, "workspace   ", en, "workspace", ""))
		buf_putc(s->out, '\n');
	if (story_put(s->out, "sandbox     ", en, "within",
		      ", where its network's decisions are told\n"))
		s->within = true;
}

static void tell_layers(struct story *s, const struct entry *en)
{
	struct pair p;

	if (s->told_layers || !story_get(en, "layers", &p))
		return;
	s->told_layers = true;
	buf_printf(s->out, LABEL, "contained");
	(void)story_put(s->out, "by ", en, "backend", ": ");
	export_value(s->out, &p);
	buf_putc(s->out, '\n');
}

/* --- what happened --- */

static void tell_target(struct story *s, const struct entry *en)
{
	(void)story_put(&s->events, " ", en, "method", "");
	(void)story_put(&s->events, " ", en, "host", "");
	(void)story_put(&s->events, ":", en, "port", "");
	(void)story_put(&s->events, "", en, "path", "");
	(void)story_put(&s->events, " (", en, "address", ")");
}

static void tell_reason(struct story *s, const struct entry *en)
{
	(void)story_put(&s->events, ": ", en, "reason", "");
	(void)story_put(&s->events, " [rule ", en, "rule", "]");
}

static void tell_network(struct story *s, const struct entry *en)
{
	bool denied = slice_eq(en->type, "egress.deny");

	buf_puts(&s->events, denied ? "network   DENIED " : "network   allowed");
	tell_target(s, en);
	tell_reason(s, en);
}

static void tell_done(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "network   done   ");
	tell_target(s, en);
	(void)story_put(&s->events, "  status ", en, "status", "");
	(void)story_put(&s->events, ", bytes out ", en, "bytes_out", "");
	(void)story_put(&s->events, ", in ", en, "bytes_in", "");
	(void)story_put(&s->events, ", with ", en, "credential", "");
	(void)story_put(&s->events, ", of ", en, "count", " more like it");
}

static void tell_denial(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "denied   ");
	(void)story_put(&s->events, " ", en, "kind", "");
	(void)story_put(&s->events, " ", en, "target", "");
	tell_reason(s, en);
}

static void tell_trust(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "look at  ");
	(void)story_put(&s->events, " ", en, "target", "");
	tell_reason(s, en);
}

static void tell_limit(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "limit    ");
	(void)story_put(&s->events, " ", en, "limit", " reached");
	(void)story_put(&s->events, " (", en, "value", ")");
	(void)story_put(&s->events, ", held by ", en, "enforcer", "");
}

static void tell_secret(struct story *s, const struct entry *en)
{
	static const struct {
		const char *type, *text;
	} words[] = {
		{ "leak.block", "a secret on its way out was stopped" },
		{ "leak.redact", "a secret was replaced on its way" },
		{ "leak.warn", "something like a secret passed" },
		{ "credential.inject", "a credential was used" },
		{ "credential.token", "a login brought tokens" },
		{ "credential.misuse", "a credential was asked for where it is not bound" },
		{ "credential.scrub", "a secret was kept out" },
	};

	buf_puts(&s->events, "secret    ");
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (slice_eq(en->type, words[i].type))
			buf_puts(&s->events, words[i].text);
	(void)story_put(&s->events, ", ", en, "pattern", "");
	(void)story_put(&s->events, ", ", en, "name", "");
	(void)story_put(&s->events, ", to ", en, "host", "");
	(void)story_put(&s->events, ":", en, "port", "");
	tell_reason(s, en);
}

static void tell_more(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "counted  ");
	(void)story_put(&s->events, " ", en, "count", " more");
	(void)story_put(&s->events, " of ", en, "of", "");
	(void)story_put(&s->events, " ", en, "kind", "");
	(void)story_put(&s->events, " ", en, "target", "");
	(void)story_put(&s->events, " ", en, "host", "");
}

static void tell_signature(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "signature ");
	(void)story_put(&s->events, "by the ssh-agent's key ", en, "key", "");
	(void)story_put(&s->events, ", for ", en, "purpose", "");
	(void)story_put(&s->events, " to ", en, "host", "");
}

static void tell_answer(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "answer     ");
	(void)story_put(&s->events, "", en, "host", "");
	(void)story_put(&s->events, ":", en, "port", "");
	(void)story_put(&s->events, ": ", en, "answer", "");
	(void)story_put(&s->events, ", by ", en, "by", "");
}

static void tell_usage(struct story *s, const struct entry *en)
{
	buf_puts(&s->events, "tokens     ");
	(void)story_put(&s->events, "", en, "tokens_in", " in, ");
	(void)story_put(&s->events, "", en, "tokens_out", " out");
	(void)story_put(&s->events, ", of ", en, "model", "");
	(void)story_put(&s->events, " at ", en, "host", "");
	(void)story_put(&s->events, ", ", en, "cost_micro_usd", " millionths of a USD");
	(void)story_put(&s->events, ", ", en, "known", "");
	(void)story_put(&s->events, ", of ", en, "count", " calls alike");
}

static void tell_other(struct story *s, const struct entry *en)
{
	clean_put(&s->events, en->type.p, en->type.n);
	buf_puts(&s->events, "  ");
	(void)story_put(&s->events, "", en, "error", "");
	tell_reason(s, en);
}

static const struct {
	const char *prefix;
	bool denial; /* counts as one */
	void (*tell)(struct story *s, const struct entry *en);
} tellers[] = {
	{ "egress.allow", false, tell_network }, { "egress.deny", true, tell_network },
	{ "egress.done", false, tell_done },     { "egress.answer", false, tell_answer },
	{ "egress.usage", false, tell_usage },   { "access.deny", true, tell_denial },
	{ "limit.hit", false, tell_limit },      { "leak.block", true, tell_secret },
	{ "leak.", false, tell_secret },         { "credential.misuse", true, tell_secret },
	{ "credential.", false, tell_secret },   { "sandbox.create", false, NULL },
	{ "sandbox.ready", false, NULL },        { "log.summary", false, tell_more },
	{ "sandbox.exec", false, NULL },         { "agent.sign", false, tell_signature },
	{ "trust.change", false, tell_trust },   { "", false, tell_other },
};

static void tell_event(struct story *s, const struct entry *en)
{
	size_t i = 0;
	int64_t ms;

	while (en->type.n < strlen(tellers[i].prefix) ||
	       memcmp(en->type.p, tellers[i].prefix, strlen(tellers[i].prefix)) != 0)
		i++;
	if (!tellers[i].tell)
		return;
	if (!s->events.len)
		buf_puts(&s->events, "happened\n");
	s->denials += tellers[i].denial;
	ms = (en->time - s->began) / 1000;
	buf_printf(&s->events, "  +%lld.%03lld s  ", (long long)(ms / 1000),
		   (long long)(ms % 1000));
	tellers[i].tell(s, en);
	buf_putc(&s->events, '\n');
}

/* --- the end --- */

static void tell_how(struct story *s, const struct entry *en)
{
	static const struct {
		const char *outcome, *text, *field;
	} words[] = {
		{ "exited", "exited with status ", "rc" },
		{ "signalled", "ended by signal ", "signal" },
		{ "timeout", "ended by its time limit", NULL },
		{ "oom", "ended by its memory limit", NULL },
		{ "limit", "ended by a limit", NULL },
		{ "refused", "refused, never begun", NULL },
		{ "cancelled", "cancelled", NULL },
		{ "failed", "failed: brig or the machine, not the command", NULL },
		{ "crashed", "brig itself died during the run", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (slice_eq(en->outcome, words[i].outcome)) {
			buf_puts(&s->end, words[i].text);
			if (words[i].field && !story_put(&s->end, "", en, words[i].field, ""))
				buf_puts(&s->end, "that is not on the record");
			return;
		}
	if (!story_put(&s->end, "", en, "outcome", ""))
		buf_puts(&s->end, "ended");
}

static void tell_end(struct story *s, const struct entry *en)
{
	uint64_t questions = 0;

	buf_printf(&s->end, LABEL, "outcome");
	tell_how(s, en);
	(void)story_put(&s->end, " after ", en, "duration_ms", " ms");
	(void)story_put(&s->end, ", set up in ", en, "setup_ms", " ms");
	(void)story_put(&s->end, ": ", en, "reason", "");
	if (story_put(&s->end, "\noutput      ", en, "stdout_bytes", " bytes, errors "))
		(void)story_put(&s->end, "", en, "stderr_bytes", " bytes");
	if (story_put(&s->end, "\nno network  questions for names that were refused: ", en,
		      "questions", ""))
		(void)story_put(&s->end, " (", en, "names", ")");
	if (whole(en, "questions", &questions))
		s->denials += questions;
	buf_putc(&s->end, '\n');
}

void story_begin(struct story *s, struct buf *out)
{
	*s = (struct story){ .out = out,
			     .events = BUF_INIT(STORY_MAX),
			     .end = BUF_INIT(ENTRY_LINE_MAX) };
}

void story_entry(struct story *s, const struct entry *en)
{
	if (!s->records++) {
		s->began = en->time;
		s->first = en->seq;
	}
	s->last = en->seq;
	if (!s->told_head)
		tell_head(s, en);
	tell_layers(s, en);
	tell_event(s, en);
	if (slice_eq(en->type, "sandbox.exec"))
		tell_end(s, en);
}

void story_end(struct story *s)
{
	buf_add(s->out, buf_str(&s->events), s->events.len);
	if (s->events.failed)
		buf_puts(s->out, "  more than can be told here: brig audit list --run shows all\n");
	if (s->end.len)
		buf_add(s->out, buf_str(&s->end), s->end.len);
	else
		buf_printf(s->out,
			   LABEL "not on the record: it is still running, or brig was killed and "
				 "the next run says so\n",
			   "outcome");
	buf_printf(s->out, LABEL "%llu%s\n", "denials", (unsigned long long)s->denials,
		   s->within ? ", besides those of its sandbox" : "");
	buf_printf(s->out,
		   LABEL "%llu, numbers %llu to %llu; brig audit verify says whether they were "
			 "touched\n",
		   "records", (unsigned long long)s->records, (unsigned long long)s->first,
		   (unsigned long long)s->last);
	buf_done(&s->events);
	buf_done(&s->end);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/denials.h"

#include <stdio.h>
#include <string.h>

#include "apps/wrap/wrap_agents.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/settings/groups.h"

#define NAMES_SHOWN 4 /* names in the line about a network that was not there */
#define TRUST_SHOWN 6 /* names in the line about changed files */

/* What would open the host, for one that no rule names at all; NULL: another reason. */
static const char *opened_by(const struct denial *d)
{
	static const char closed[] = "not-allowed: Host not in allowlist: ", sign[] = "; --allow ";
	const char *hint = str_starts(d->reason, closed) ? strstr(d->reason, sign) : NULL;

	return d->class == DENIAL_NETWORK && hint ? hint + 2 : NULL;
}

/* One denial; false where texts tell it in other words. */
static bool denial_say(const struct denial *d)
{
	const char *option = opened_by(d);
	char text[1024], times[48] = "";

	if (outcome_is_asked(d) || outcome_is_covered(d))
		return false;
	if (d->count > 1)
		(void)snprintf(times, sizeof(times), "%s%llu times%s", option ? ", " : " (",
			       (unsigned long long)d->count, option ? "" : ")");
	if (option)
		(void)snprintf(text, sizeof(text), "refused: %.400s (%.400s%s)", d->target, option,
			       times);
	else
		(void)snprintf(text, sizeof(text), "%.60s '%.400s': %.500s%s", d->kind, d->target,
			       d->reason, times);
	message_log(PRIORITY_WARNING, "brig", text);
	return true;
}

/* Is it a host that the agent asks on every run? */
static bool is_chatter(const struct wrap_agent *a, const struct denial *d)
{
	char host[256];

	(void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(d->target, ":"), d->target);
	for (const char *const *h = a && opened_by(d) ? a->chatter : NULL; h && *h; h++)
		if (host_covers(*h, host))
			return true;
	return false;
}

/* One line, with their names: one of them may be what the task needs. */
static void say_chatter(const struct outcome *o, const struct wrap_agent *a)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);

	for (size_t i = 0; i < o->denial_count; i++)
		if (is_chatter(a, &o->denials[i]))
			buf_printf(&text, "%s%.*s",
				   text.len ? ", " : "refused, as on every run of this agent: ",
				   (int)strcspn(o->denials[i].target, ":"), o->denials[i].target);
	if (text.len)
		message_log(PRIORITY_INFO, "brig", buf_str(&text));
}

static void say_list(const struct outcome *o, const char *agent)
{
	const struct wrap_agent *a = agent ? wrap_agent_find(agent) : NULL;
	size_t said[DENIAL_CLASSES] = { 0 };
	uint64_t more = 0;
	char text[128];

	say_chatter(o, a);
	for (size_t i = 0; i < o->denial_count; i++) {
		const struct denial *d = &o->denials[i];

		if (is_chatter(a, d))
			continue;
		if (said[d->class] >= DENIALS_SAID)
			more += d->count;
		else
			said[d->class] += denial_say(d);
	}
	for (int c = 0; c < DENIAL_CLASSES; c++)
		more += o->denials_dropped[c];
	if (!more)
		return;
	(void)snprintf(text, sizeof(text), "%llu more denials; brig audit show %s",
		       (unsigned long long)more, o->id);
	message_log(PRIORITY_WARNING, "brig", text);
}

static bool is_first_of_its_kind(const struct outcome *o, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (str_eq(o->trust[i].reason, o->trust[at].reason))
			return false;
	return true;
}

/* One line, however many there are; one of each kind comes before the second of any. */
static void say_trust(const struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	uint64_t more = o->trust_count + o->trust_more;
	size_t said = 0;

	if (!o->trust_count)
		return;
	buf_puts(&text, "changed, and obeyed by tools on the host:");
	for (int first = 1; first >= 0; first--)
		for (size_t i = 0; i < o->trust_count && said < TRUST_SHOWN; i++)
			if (is_first_of_its_kind(o, i) == first) {
				buf_puts(&text, said++ ? ", " : " ");
				trust_put(&text, o->trust[i].path, o->trust[i].reason);
				more--;
			}
	if (more)
		buf_printf(&text, " and %llu more", (unsigned long long)more);
	message_log(PRIORITY_NOTICE, "brig", buf_str(&text));
}

/* The first was told when it was asked for. */
static void say_asked(const struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	size_t i = 0;

	if (!o->asked_count)
		return;
	buf_printf(&text, "it had no network: %llu question%s for names %s refused (",
		   (unsigned long long)o->questions, o->questions == 1 ? "" : "s",
		   o->questions == 1 ? "was" : "were");
	for (; i < o->asked_count && i < NAMES_SHOWN; i++)
		buf_printf(&text, "%s%s", i ? ", " : "", o->asked[i]);
	buf_puts(&text, i < o->asked_count ? ", ...)" : ")");
	message_log(PRIORITY_NOTICE, "brig", buf_str(&text));
}

/* What of it is in the folder already: workspace.apply auto. */
static void say_applied(const struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(1024);

	if (o->layer_kept.code)
		buf_printf(&text, "nothing was applied to the workspace: %s; brig diff %.8s",
			   o->layer_kept.what, o->layer);
	else if (o->layer_left)
		buf_printf(&text,
			   "%llu %s applied to the workspace, and %llu %s not: brig diff %.8s",
			   (unsigned long long)o->layer_applied,
			   o->layer_applied == 1 ? "change was" : "changes were",
			   (unsigned long long)o->layer_left, o->layer_left == 1 ? "was" : "were",
			   o->layer);
	if (text.len)
		message_log(PRIORITY_NOTICE, "brig", buf_str(&text));
}

/* What an overlay workspace has in front, and what to do with it; nothing is nothing to tell. */
static void say_layer(const struct outcome *o)
{
	unsigned long long n = o->layer_changed;
	char text[256];

	if (!o->layer || (!n && !o->layer_more))
		return;
	if (o->layer_tried) {
		say_applied(o);
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "%s%llu name%s changed in a layer, and the workspace is as it was: brig "
		       "diff, brig apply or brig discard %.8s",
		       o->layer_more ? "more than " : "", n, n == 1 ? "" : "s", o->layer);
	message_log(PRIORITY_NOTICE, "brig", text);
}

void denials_say(const struct outcome *o, const char *agent)
{
	say_layer(o);
	say_list(o, agent);
	say_trust(o);
	if (o->unsettled)
		message_log(PRIORITY_NOTICE, "brig",
			    "what it left in the workspace is looked at when the last command in "
			    "the sandbox has ended");
	say_asked(o);
	for (size_t i = 0; i < o->hint_count; i++)
		message_print("hint", o->hints[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/denials.h"

#include <stdio.h>
#include <string.h>

#include "apps/wrap/wrap_agents.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/settings/groups.h"

/* What would open the host, for one that no rule names at all; NULL: another reason. */
static const char *opened_by(const struct denial *d)
{
	static const char closed[] = "not-allowed: Host not in allowlist: ", sign[] = "; --allow ";
	const char *hint = str_starts(d->reason, closed) ? strstr(d->reason, sign) : NULL;

	return d->class == DENIAL_NETWORK && hint ? hint + 2 : NULL;
}

bool denial_say(const struct denial *d)
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

void denials_say(const struct outcome *o, const char *agent)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_names.c - names that were asked for where there is no network. */
#include "sandbox/run/run.h"

#include <stdio.h>

#include "base/text/str.h"
#include "egress/unresolved.h"
#include "model/settings/groups.h"
#include "sandbox/explain.h"

/* A companion has its name in /etc/hosts, with an address of one family: who looks for the other
 * asks, and is no less served. */
static bool is_member(const struct sandbox *s, const char *name)
{
	for (size_t i = 0; i < s->spec->members.n; i++)
		if (str_eq(s->spec->members.v[i].name, name))
			return true;
	return false;
}

/* Once a run, while it may still be waiting for an answer. The command chose the name, perhaps so
 * that it looks like another: an option to type as it stands is said for the shipped groups alone.
 */
void run_names_turn(struct sandbox *s)
{
	bool first = unresolved_turn(s->unresolved);
	const struct err *why = unresolved_failed(s->unresolved);
	const struct group *g;
	struct host name;
	char text[768];

	if (why) {
		(void)snprintf(text, sizeof(text),
			       "it has no network, and the names it asks for are not counted: %s",
			       why->what);
		run_open_tell(s, text);
	}
	if (!first || !unresolved_nth(s->unresolved, 0, &name) || is_member(s, name.name))
		return;
	g = group_covering(name.name);
	(void)snprintf(text, sizeof(text),
		       "it asks for '%s' and has no network: --allow %s%s opens one for %s",
		       name.name, g ? "@" : "HOST", g ? g->name : "",
		       g ? g->help : "a host that you know (brig run --help)");
	run_open_tell(s, text);
}

void run_names_count(struct sandbox *s)
{
	struct host name;

	s->o->questions = unresolved_questions(s->unresolved);
	if (s->o->questions) /* it may have ended before it was told */
		run_names_turn(s);
	for (size_t i = 0; unresolved_nth(s->unresolved, i, &name); i++)
		if (!is_member(s, name.name))
			outcome_asked(s->o, name.name);
	s->unresolved = unresolved_free(s->unresolved);
}

/* The socket is the sandbox's: what was asked for meanwhile was asked by this command, or by one
 * that ran beside it. */
static void names_since(const struct sandbox *s, uint64_t questions, struct outcome *o)
{
	uint64_t all = run_open_questions(s);
	struct host name;

	if (all <= questions)
		return;
	o->questions = all - questions;
	for (size_t i = 0; unresolved_nth(s->unresolved, i, &name); i++)
		if (unresolved_since(s->unresolved, i, questions) && !is_member(s, name.name))
			outcome_asked(o, name.name);
}

void run_names_count_own(struct command_run *r)
{
	if (r->of)
		names_since(r->of, r->questions, r->o);
}

uint64_t run_open_questions(const struct sandbox *s)
{
	return unresolved_questions(s->unresolved);
}

void run_open_explain(const struct sandbox *s, uint64_t questions, const char *said, size_t n,
		      struct outcome *o)
{
	names_since(s, questions, o);
	if (!o->isolation)
		outcome_contain(o, &s->isolation);
	if (!o->backend)
		o->backend = s->o->backend;
	explain(s->spec, said, n, o);
}

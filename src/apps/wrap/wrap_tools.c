/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/wrap/wrap_tools.h"

#include <string.h>

#include "apps/wrap/wrap_agents.h"
#include "apps/wrap/wrap_line.h"
#include "base/text/str.h"
#include "model/dialect/credentials.h"
#include "model/settings/spec_lists.h"

#define STANDS_IN ":placeholder"

static int add_once(struct spec *s, struct strlist *l, const char *word, struct err *e)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], word))
			return 0;
	return list_add_string(s->arena, l, word, e);
}

/* Who names some grants no others: those that the files declare stay granted. */
static int keep_declared(struct spec *s, struct err *e)
{
	for (size_t i = 0; !s->use_credentials.n && i < s->credentials.n; i++)
		if (list_add_string(s->arena, &s->use_credentials, s->credentials.v[i].name, e) < 0)
			return -e->code;
	return 0;
}

static int grant(struct spec *s, const char *tool, const char *name, struct err *e)
{
	const struct credential_spec *c = credential_find(&s->credentials, name);
	struct credential_spec known;
	struct strlist rules = { 0 };
	const char *note = arena_printf(s->arena,
					"builtin_tools: %s has a placeholder of %s; the door puts "
					"the value into requests",
					tool, name);

	if (!c && credential_known(s->arena, name, &known))
		c = &known;
	if (c && wrap_credential_rules(s->arena, c, &rules, e) < 0)
		return -e->code;
	for (size_t i = 0; i < rules.n; i++)
		if (add_once(s, &s->egress.allow, rules.v[i], e) < 0)
			return -e->code;
	if (!note)
		return err_nomem(e);
	return add_once(s, &s->use_credentials, name, e) < 0 ||
			       list_add_string(s->arena, &s->notes, note, e) < 0
		       ? -e->code
		       : 0;
}

static int grant_keys(struct spec *s, const struct wrap_agent *a, const char **first, struct err *e)
{
	*first = NULL;
	for (size_t i = 0; a->credentials[i] && (a->each || !*first); i++) {
		/* One that is of no use without arguments, which nobody gives the tool here. */
		if (wrap_is_special(a, a->credentials[i], true) ||
		    !wrap_has_credential(s, a->credentials[i]))
			continue;
		if (grant(s, a->name, a->credentials[i], e) < 0)
			return -e->code;
		if (!*first)
			*first = a->credentials[i];
	}
	return *first ? 0 : wrap_no_key(a, e);
}

static bool sets(const struct spec *s, const char *text)
{
	size_t n = strcspn(text, "=");

	for (size_t i = 0; i < s->env.n; i++)
		if (strlen(s->env.v[i].name) == n && strncmp(s->env.v[i].name, text, n) == 0)
			return true;
	return false;
}

static int stand_in(struct spec *s, const char *tool, struct err *e)
{
	const struct wrap_agent *a = wrap_agent_find(tool);
	const char *key;

	if (s->network != NETWORK_PROXY)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "network: proxy has the door that puts the value in",
				  "builtin_tools: a placeholder of '%s' needs network proxy", tool);
	if (!a)
		return err_refuse(
			e, ERR_CONFIG, ENOTSUP,
			"declare a credential for its host (credentials:), or leave it "
			"out",
			"builtin_tools: brig knows no key of '%s' that a placeholder could "
			"stand for",
			tool);
	if (wrap_check_elsewhere(a, s, e) < 0 || grant_keys(s, a, &key, e) < 0)
		return err_wrap(e, "builtin_tools '%s" STANDS_IN "'", tool);
	for (size_t i = 0; a->hosts && a->hosts[i]; i++)
		if (add_once(s, &s->egress.allow, a->hosts[i], e) < 0)
			return -e->code;
	for (const struct wrap_word *v = a->variables; v->text; v++)
		if (wrap_word_fits(v, key) && !sets(s, v->text) &&
		    spec_set(s, FIELD_ENV, v->text, ORIGIN_FLAG, e) < 0)
			return -e->code;
	return 0;
}

int wrap_tools_stand_in(struct spec *s, struct err *e)
{
	struct strlist *l = &s->builtin_tools;
	size_t left = 0;

	for (size_t i = 0; i < l->n; i++) {
		size_t n = strlen(l->v[i]), tail = strlen(STANDS_IN);
		const char *tool;

		if (n <= tail || !str_eq(l->v[i] + n - tail, STANDS_IN)) {
			l->v[left++] = l->v[i];
			continue;
		}
		tool = arena_strndup(s->arena, l->v[i], n - tail);
		if (!tool)
			return err_nomem(e);
		if (keep_declared(s, e) < 0 || stand_in(s, tool, e) < 0)
			return -e->code;
		s->origin[FIELD_CREDENTIAL] = s->origin[FIELD_EGRESS_ALLOW] = ORIGIN_FLAG;
	}
	l->n = left;
	if (!left)
		s->origin[FIELD_BUILTIN_TOOLS] = ORIGIN_DEFAULT;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/wrap/wrap_line.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/wrap/wrap_branch.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "git/git_settings.h"
#include "model/dialect/credentials.h"
#include "model/known/login_file.h"
#include "model/known/toolchains.h"
#include "model/settings/spec_lists.h"

#define LOGIN_LONGEST 4096

struct run_words {
	struct arena *arena;
	struct strlist *words;
	const char *key; /* the first credential; NULL: none yet */
};

static int wrap_line_put(struct run_words *l, const char *word, struct err *e)
{
	return list_add_string(l->arena, l->words, word, e);
}

static int put_pair(struct run_words *l, const char *option, const char *value, struct err *e)
{
	return wrap_line_put(l, option, e) < 0 || wrap_line_put(l, value, e) < 0 ? -e->code : 0;
}

static bool wrap_line_has(const struct strlist *l, const char *word)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], word))
			return true;
	return false;
}

bool wrap_has_credential(const struct spec *s, const char *name)
{
	const char *value = getenv(name);
	struct credential_spec known;
	char token[LOGIN_LONGEST];
	struct err e = { 0 };
	size_t n = 0;
	int r;

	if (credential_find(&s->credentials, name) || (value && *value))
		return true;
	if (!credential_known(s->arena, name, &known) || !known.login)
		return false;
	/* One that has expired or is not to be trusted is there: the run says so, and what to do.
	 */
	r = login_file_read(known.login, getenv("HOME"), token, sizeof(token), &n, &e);
	explicit_bzero(token, sizeof(token));
	return r == 0 || r == -ETIMEDOUT || r == -EPERM;
}

const char *wrap_first_key(const struct wrap_agent *a, const struct spec *s)
{
	for (size_t i = 0; a->credentials[i]; i++) {
		const char *second = wrap_beside(a, a->credentials[i]);

		if (wrap_has_credential(s, a->credentials[i]) &&
		    (!second || wrap_has_credential(s, second)))
			return a->credentials[i];
	}
	return NULL;
}

int wrap_credential_rules(struct arena *a, const struct credential_spec *c, struct strlist *ret,
			  struct err *e)
{
	for (size_t i = 0; i < c->hosts.n; i++) {
		const char *host = c->hosts.v[i];

		if (!c->paths.n && list_add_string(a, ret, host, e) < 0)
			return -e->code;
		for (size_t k = 0; k < c->paths.n; k++) {
			const char *rule = arena_printf(a, "%s%s", host, c->paths.v[k]);

			if (!rule || list_add_string(a, ret, rule, e) < 0)
				return err_nomem(e);
		}
	}
	return 0;
}

/* Its host is opened and its placeholder put where the agent looks for the key. */
static int put_credential(struct run_words *l, const struct spec *s, const char *name,
			  struct strlist *hosts, struct err *e)
{
	const struct credential_spec *c = credential_find(&s->credentials, name);
	struct credential_spec known;
	struct strlist rules = { 0 };

	if (!c && credential_known(l->arena, name, &known))
		c = &known;
	if (c && wrap_credential_rules(l->arena, c, &rules, e) < 0)
		return -e->code;
	for (size_t i = 0; i < rules.n; i++)
		if (!wrap_line_has(hosts, rules.v[i]) &&
		    (list_add_string(l->arena, hosts, rules.v[i], e) < 0 ||
		     put_pair(l, "--allow", rules.v[i], e) < 0))
			return -e->code;
	return put_pair(l, "--credential", name, e);
}

/* A login that its program alone can use and renew. */
static bool has_other_login(const struct wrap_agent *a)
{
	const char *home = getenv("HOME");
	char path[PATH_MAX];

	return a->logged_in && home && home[0] == '/' &&
	       snprintf(path, sizeof(path), "%s/%s", home, a->logged_in) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

int wrap_no_key(const struct wrap_agent *a, struct err *e)
{
	CLEANUP(buf) struct buf names = BUF_INIT(512);
	size_t n = 0;

	/* Those of a login, which nobody exports, come last. */
	while (a->credentials[n] && !wrap_is_special(a, a->credentials[n], true) &&
	       !wrap_is_special(a, a->credentials[n], false))
		n++;
	for (size_t i = 0; i < n; i++)
		buf_printf(&names, "%s%s", !i ? "" : i + 1 < n ? ", " : " or ", a->credentials[i]);
	if (has_other_login(a))
		(void)err_set(e, ERR_CONFIG, ENOENT,
			      "%s has no key: the login in '~/%s' is one that %s alone can renew, "
			      "and does not come along",
			      a->title, a->logged_in, a->name);
	else
		(void)err_set(e, ERR_CONFIG, ENOENT, "%s has no key%s", a->title,
			      a->login ? ", and nobody has logged in" : "");
	return err_hint(e, "export %s%s; no agent sees it", buf_str(&names),
			a->login ? a->login : "");
}

/* A list on the command line takes the place of those in files: what these open stays open. */
static int put_those_of_files(struct run_words *l, const struct spec *s, struct err *e)
{
	struct credentiallist granted = { 0 };

	for (size_t i = 0; s->origin[FIELD_EGRESS_ALLOW] < ORIGIN_FLAG && i < s->egress.allow.n;
	     i++)
		if (put_pair(l, "--allow", s->egress.allow.v[i], e) < 0)
			return -e->code;
	if (s->origin[FIELD_CREDENTIAL] == ORIGIN_FLAG)
		return 0;
	if (credentials_granted(l->arena, s, &granted, e) < 0)
		return -e->code;
	for (size_t i = 0; s->origin[FIELD_CREDENTIALS] != ORIGIN_DIALECT && i < granted.n; i++) {
		const struct credential_spec *c = &granted.v[i];
		const char *name = c->service ? c->service : c->name;

		if (credential_reachable(l->arena, s, c) &&
		    !(i && granted.v[i - 1].service && str_eq(granted.v[i - 1].service, name)) &&
		    put_pair(l, "--credential", name, e) < 0)
			return -e->code;
	}
	return 0;
}

static int put_one(struct run_words *l, const struct wrap_asked *w, const char *name,
		   struct strlist *hosts, struct err *e)
{
	const char *second = wrap_beside(w->agent, name);

	if (!l->key)
		l->key = name;
	return put_credential(l, w->spec, name, hosts, e) < 0 ||
			       (second && put_credential(l, w->spec, second, hosts, e) < 0)
		       ? -e->code
		       : 0;
}

static int put_credentials(struct run_words *l, const struct wrap_asked *w, struct err *e)
{
	const struct wrap_agent *a = w->agent;
	bool chosen = w->spec->origin[FIELD_CREDENTIAL] == ORIGIN_FLAG;
	const char *first = wrap_first_key(a, w->spec);
	struct strlist hosts = { 0 };

	if (!first && !chosen && !w->dry)
		return wrap_no_key(a, e);
	first = first ? first : a->credentials[0];
	for (size_t i = 0; a->credentials[i] && !chosen; i++)
		if ((str_eq(a->credentials[i], first) ||
		     (a->each && wrap_has_credential(w->spec, a->credentials[i]))) &&
		    put_one(l, w, a->credentials[i], &hosts, e) < 0)
			return -e->code;
	return put_those_of_files(l, w->spec, e);
}

static bool sets(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->env.n; i++)
		if (str_eq(s->env.v[i].name, name))
			return true;
	return false;
}

/* The key of another server is not the vendor's to see. */
int wrap_check_elsewhere(const struct wrap_agent *a, const struct spec *s, struct err *e)
{
	for (const char *const *name = a->elsewhere; *name; name++) {
		const char *value = getenv(*name);

		if (!value || !*value || sets(s, *name))
			continue;
		(void)err_set(e, ERR_CONFIG, EINVAL,
			      "%s is set, and brig knows the vendor's host alone", *name);
		return err_hint(
			e,
			"unset it; or -e %s, --allow HOST, and a credential that is declared "
			"for that host (man brig)",
			*name);
	}
	return 0;
}

static int put_identity(struct run_words *l, const struct wrap_asked *w, struct err *e)
{
	const char *who[GIT_WHO_COUNT], *at = w->workdir ? w->workdir : w->spec->workdir;
	struct git_files f = git_files_of_caller();
	struct err none = { 0 };
	char top[PATH_MAX];

	if (wrap_branch_top(at ? at : ".", top, &none) == 0) {
		f.workspace = top;
		f.git_dir = arena_printf(l->arena, "%s/.git", top);
		f.own = arena_printf(l->arena, "%s/.git/config", top);
	}
	git_identity(l->arena, &f, who);
	for (size_t i = 0; i < GIT_WHO_COUNT; i++) {
		const char *set =
			who[i] ? arena_printf(l->arena, "%s=%s", git_who_names[i], who[i]) : NULL;

		if (set && put_pair(l, "--env", set, e) < 0)
			return -e->code;
	}
	return 0;
}

static int put_agent(struct run_words *l, const struct wrap_asked *w, struct err *e)
{
	const struct wrap_agent *a = w->agent;

	if (wrap_check_elsewhere(a, w->spec, e) < 0 || put_pair(l, "--network", "proxy", e) < 0 ||
	    put_credentials(l, w, e) < 0 || put_pair(l, "--home-seed", a->seed, e) < 0)
		return -e->code;
	for (size_t i = 0; a->hosts && a->hosts[i]; i++)
		if (put_pair(l, "--allow", a->hosts[i], e) < 0)
			return -e->code;
	for (const struct wrap_word *v = a->variables; v->text; v++)
		if (wrap_word_fits(v, l->key) && put_pair(l, "--env", v->text, e) < 0)
			return -e->code;
	if (a->hides_git && put_identity(l, w, e) < 0)
		return -e->code;
	return spec_wrote(w->spec, FIELD_AUDIT_AGENT)
		       ? 0
		       : put_pair(l, "--set", arena_printf(l->arena, "audit.agent=%s", a->name), e);
}

/* An argument of the table, with the name of the key where it wants one. */
static int put_argument(struct run_words *l, const struct wrap_agent *a, const char *text,
			struct err *e)
{
	const char *at = strstr(text, WRAP_KEY);

	if (at)
		text = arena_printf(l->arena, "%.*s%s%s", (int)(at - text), text,
				    l->key ? l->key : a->credentials[0], at + strlen(WRAP_KEY));
	return text ? wrap_line_put(l, text, e) : err_nomem(e);
}

static int put_command(struct run_words *l, const struct wrap_asked *w, struct err *e)
{
	const struct wrap_agent *a = w->agent;

	if (wrap_line_put(l, "--", e) < 0)
		return -e->code;
	if ((a || w->program) && wrap_line_put(l, w->program ? w->program->path : a->name, e) < 0)
		return -e->code;
	for (const struct wrap_word *v = a ? a->arguments : NULL; v && v->text; v++)
		if (wrap_word_fits(v, l->key) && put_argument(l, a, v->text, e) < 0)
			return -e->code;
	/* Of a command of the caller's own the first word is the program. */
	for (char *const *word = w->words + (!a && w->program); *word; word++)
		if (wrap_line_put(l, *word, e) < 0)
			return -e->code;
	return 0;
}

int wrap_line_make(struct arena *a, const struct wrap_asked *w, struct strlist *ret, struct err *e)
{
	struct strlist words = { 0 };
	struct run_words l = { .arena = a, .words = &words };

	if (w->terminal && wrap_line_put(&l, "--tty", e) < 0)
		return -e->code;
	if (put_pair(&l, "--timeout", "none", e) < 0 || put_pair(&l, "--home", "keep", e) < 0)
		return -e->code;
	if (!spec_other_programs(w->spec) && toolchains_any() &&
	    wrap_line_put(&l, "--toolchains", e) < 0)
		return -e->code;
	if (w->workdir && put_pair(&l, "--workdir", w->workdir, e) < 0)
		return -e->code;
	if (w->agent && put_agent(&l, w, e) < 0)
		return -e->code;
	if (w->program && w->program->show[0] && put_pair(&l, "--read", w->program->show, e) < 0)
		return -e->code;
	for (size_t i = 0; i < w->options.n; i++)
		if (wrap_line_put(&l, w->options.v[i], e) < 0)
			return -e->code;
	if (put_command(&l, w, e) < 0)
		return -e->code;
	*ret = words;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/options.c - the command line, read by the field table. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "model/settings/envrules.h"

#define STAYS "an option of brig sandbox create, whose sandbox stays"

/* What other programs call it. A word that is nearly one of brig's needs no line here. */
static const struct {
	const char *typed, *meant;
} elsewhere[] = {
	{ "readonly", "--policy readonly" },
	{ "read-only", "--policy readonly" },
	{ "ro", "--read PATH" },
	{ "ro-bind", "--read PATH" },
	{ "rw", "--write PATH" },
	{ "bind", "--write PATH" },
	{ "cwd", "--workdir PATH" },
	{ "chdir", "--workdir PATH" },
	{ "dir", "--workdir PATH" },
	{ "share-net", "--network host" },
	{ "unshare-net", "--network none (which is the default)" },
	{ "host", "--allow HOST" },
	{ "domain", "--allow HOST" },
	{ "m", "--memory SIZE" },
	{ "pids-limit", "--pids N" },
	{ "verbose", "brig plan, which shows what would be done" },
	{ "dry-run", "brig plan, which shows what would be done" },
	{ "rm", "nothing: a run keeps nothing but the workspace" },
	{ "c", "brig exec \"COMMAND LINE\"" },
	{ "u", "--user UID[:GID]" },
	{ "q", "--quiet" },
	{ "init", "nothing: process 1 is brig's own, and reaps" },
	{ "cap-drop", "nothing: a command has no capabilities" },
	{ "shm-size", "--set limits.tmp=SIZE" },
	{ "ulimit", "--set limits.files=N" },
	{ "d", STAYS },
	{ "detach", STAYS },
	{ "name", STAYS },
	{ "label", STAYS },
	{ "restart", STAYS },
	{ "ttl", STAYS },
	{ "idle-ttl", STAYS },
	{ "cleanup-ttl", STAYS },
};

static const char *meant(const char *typed)
{
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (str_eq(typed, elsewhere[i].typed))
			return elsewhere[i].meant;
	return NULL;
}

enum { OWN_WORDS_MAX = 64 };

int command_refuses(const struct subcommand *c, const char *word, struct err *e)
{
	const char *own[OWN_WORDS_MAX + 1];
	const char *near;
	size_t n = 0;

	for (const char *w = c->word ? c->word(0) : NULL; w && n < OWN_WORDS_MAX; w = c->word(n))
		own[n++] = w;
	own[n] = NULL;
	near = str_nearest(word, own);
	(void)err_set(e, ERR_USAGE, EINVAL, "%s does not accept '%.100s'", c->name, word);
	return near ? err_hint(e, "did you mean 'brig %s %s'?", c->name, near)
		    : err_hint(e, "brig %s --help says what it takes", c->name);
}

static int options_unknown(const struct subcommand *c, const char *name, struct err *e)
{
	const char *flags[FIELD_COUNT + OWN_WORDS_MAX + 3];
	const char *near, *own = c->word ? c->word(0) : NULL;
	size_t n = 0;

	for (int i = 0; i < FIELD_COUNT; i++)
		if (fields[i].flag && fields[i].commands & c->fields)
			flags[n++] = fields[i].flag;
	for (size_t i = 0; own && i < OWN_WORDS_MAX; own = c->word(++i))
		if (str_starts(own, "--"))
			flags[n++] = own + 2;
	flags[n++] = "set";
	flags[n++] = "help";
	flags[n] = NULL;
	near = str_nearest(name, flags);
	(void)err_set(e, ERR_USAGE, EINVAL, "unknown option '--%.100s'", name);
	if (meant(name))
		return err_hint(e, "here it is %s", meant(name));
	return near ? err_hint(e, "did you mean '--%s'?", near)
		    : err_hint(e, "brig %s --help lists them", c->name);
}

int options_set(struct spec *s, const char *text, struct err *e)
{
	const char *equals = strchr(text, '=');
	char key[64];

	if (!equals || equals == text || (size_t)(equals - text) >= sizeof(key))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "such as --set limits.memory=1g; brig config show lists the keys",
				  "--set '%.100s' is not KEY=VALUE", text);
	memcpy(key, text, (size_t)(equals - text));
	key[equals - text] = '\0';
	return spec_set_key(s, key, equals + 1, ORIGIN_FLAG, e);
}

/* A switch that is on by default takes a word. */
static const char *yes_or_no(const char *word)
{
	return str_eq(word, "yes") ? "true" : str_eq(word, "no") ? "false" : word;
}

/* Code was somebody's words to brig, not to everybody who can list processes: it leaves the
 * arguments once it is read. */
static int set_flag(struct spec *s, enum field_id id, const char *value, struct err *e)
{
	bool alone = id == FIELD_ENV && env_name_valid(value);
	const char *own = alone ? getenv(value) : NULL;
	int r;

	/* A name alone is the caller's own variable, as in docker: also a secret one, on purpose.
	 */
	if (alone && !own)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "write --env NAME=VALUE, or --env-pass NAME, which passes it "
				  "where you have it",
				  "env '%.100s': you have no such variable", value);
	if (own)
		value = arena_printf(s->arena, "%s=%s", value, own);
	if (!value)
		return err_nomem(e);
	r = spec_set(s, id, value, ORIGIN_FLAG, e);
	if (id == FIELD_CODE && r == 0)
		explicit_bzero((char *)(uintptr_t)value, strlen(value));
	return r;
}

/* NAME=VARIABLE: as --env NAME, but found under another name, which does nothing to brig itself. */
static int set_from(struct spec *s, const char *text, struct err *e)
{
	const char *equals = strchr(text, '='), *value = equals ? getenv(equals + 1) : NULL;

	if (!value || equals == text)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "--env-from NAME=VARIABLE, where VARIABLE is set",
				  "--env-from '%.100s' names no variable", text);
	text = arena_printf(s->arena, "%.*s=%s", (int)(equals - text), text, value);
	return text ? spec_set(s, FIELD_ENV, text, ORIGIN_FLAG, e) : err_nomem(e);
}

/* Short options, one or several behind one dash: `-t`, `-it`, `-e NAME=VALUE`. `-i` says what is so
 * anyway: standard input is passed on. */
static int letters(const struct subcommand *c, struct spec *s, int argc, char **argv, int *at,
		   struct err *e)
{
	const char *typed = argv[*at];

	for (const char *p = typed + 1; *p; p++) {
		enum field_id id;
		const struct field *f = field_by_letter(*p, &id);

		if (*p == 'i' && c->fields & (CMD_RUN | CMD_EXEC))
			continue;
		if (!f || !(f->commands & c->fields)) {
			(void)err_set(e, ERR_USAGE, EINVAL, "unknown option '%.100s'", typed);
			if (!typed[2] && meant(typed + 1))
				return err_hint(e, "here it is %s", meant(typed + 1));
			return err_hint(e, "brig %s --help lists them", c->name);
		}
		if (f->type == FIELD_T_BOOL) {
			if (spec_set(s, id, "true", ORIGIN_FLAG, e) < 0)
				return -e->code;
			continue;
		}
		if (p[1])
			return set_flag(s, id, p + 1, e);
		if (!own_option_follows(argc, argv, *at)) {
			(void)err_set(e, ERR_USAGE, EINVAL, "option '-%c' needs a value", *p);
			return err_hint(e, "%s", f->help);
		}
		return set_flag(s, id, argv[++*at], e);
	}
	return 0;
}

/* `--no-NAME` for a switch; NULL: there is no such switch. */
static const struct field *switched_off(const char *name, enum field_id *id)
{
	const struct field *f = str_starts(name, "no-") ? field_by_flag(name + 3, id) : NULL;

	return f && f->type == FIELD_T_BOOL && !f->arg ? f : NULL;
}

int options_one(const struct subcommand *c, struct spec *s, int argc, char **argv, int *at,
		struct err *e)
{
	const char *word = argv[*at] + 2, *value = strchr(word, '=');
	char name[64];
	enum field_id id;
	const struct field *f;
	bool pair, from;

	if (str_eq(argv[*at], "-h"))
		return 1;
	if (argv[*at][1] != '-')
		return letters(c, s, argc, argv, at, e);
	if (str_eq(word, "help"))
		return 1;
	if (str_eq(word, "help=all"))
		return 2;
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	f = field_by_flag(name, &id);
	if (!f && !value && (f = switched_off(name, &id)) && f->commands & c->fields)
		return spec_set(s, id, "false", ORIGIN_FLAG, e);
	from = str_eq(name, "env-from") && fields[FIELD_ENV].commands & c->fields;
	pair = from || str_eq(name, "set");
	if (!pair && (!f || !(f->commands & c->fields)))
		return options_unknown(c, name, e);
	if (!pair && f->type == FIELD_T_BOOL && !f->arg)
		return spec_set(s, id, value ? value + 1 : "true", ORIGIN_FLAG, e);
	if (!pair && !value && f->alone)
		return spec_set(s, id, f->alone, ORIGIN_FLAG, e);
	if (!value) {
		if (!own_option_follows(argc, argv, *at)) {
			(void)err_set(e, ERR_USAGE, EINVAL, "option '--%s' needs a value", name);
			return err_hint(e, "%s", pair ? "KEY=VALUE" : f->help);
		}
		value = argv[++*at];
	} else {
		value++;
	}
	if (pair)
		return from ? set_from(s, value, e) : options_set(s, value, e);
	return set_flag(s, id, f->type == FIELD_T_BOOL ? yes_or_no(value) : value, e);
}

int options_parse(const struct subcommand *c, struct spec *s, int argc, char **argv, int *rest,
		  struct err *e)
{
	int kept = 1, at = 1;

	for (; at < argc; at++) {
		bool option = argv[at][0] == '-' && argv[at][1];
		int r;

		if (str_eq(argv[at], "--")) {
			at++;
			break;
		}
		if (!option && !c->permute)
			break;
		if (!option) {
			argv[kept++] = argv[at];
			continue;
		}
		r = options_one(c, s, argc, argv, &at, e);
		if (r)
			return r;
	}
	/* Positional words were moved down over the options; what follows "--" joins them. */
	if (c->permute) {
		for (; at < argc; at++)
			argv[kept++] = argv[at];
		argv[kept] = NULL;
		*rest = 1;
	} else {
		*rest = at;
	}
	return 0;
}

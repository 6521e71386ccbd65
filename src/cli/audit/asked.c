/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit/asked.h"

#include <string.h>

#include "audit/read/times.h"
#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "model/settings/paths.h"

static int unknown_command(const char *word, struct err *e)
{
	const char *names[AUDIT_COMMANDS + 1];
	const char *near;

	for (int i = 0; i < AUDIT_COMMANDS; i++)
		names[i] = audit_commands[i].name;
	names[AUDIT_COMMANDS] = NULL;
	near = str_nearest(word, names);
	(void)err_set(e, ERR_USAGE, EINVAL, "audit has no command '%.100s'", word);
	return near ? err_hint(e, "did you mean 'brig audit %s'?", near)
		    : err_hint(e, "brig audit --help lists them");
}

static int unknown_option(const struct asked *a, const char *word, struct err *e)
{
	const char *names[AUDIT_OPTIONS + 1];
	const char *near;
	size_t n = 0;

	for (int i = 0; i < AUDIT_OPTIONS; i++)
		if (audit_options[i].commands & 1U << a->command)
			names[n++] = audit_options[i].name;
	names[n] = NULL;
	near = str_nearest(word, names);
	(void)err_set(e, ERR_USAGE, EINVAL, "audit %s has no option '%.100s'",
		      audit_commands[a->command].name, word);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig audit %s --help lists them",
			       audit_commands[a->command].name);
}

static int set_when(int64_t *to, const char *text, struct err *e)
{
	if (time_when(text, (int64_t)clock_wall_us(), to) == 0)
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z",
			  "'%.64s' is not a point in time", text);
}

static int set_count(uint64_t *to, const char *text, struct err *e)
{
	return num_count(text, to) == 0
		       ? 0
		       : err_refuse(e, ERR_USAGE, EINVAL, "a whole number, such as 20",
				    "'%.64s' is not a number of records", text);
}

static int set_age(uint64_t *to, const char *text, struct err *e)
{
	return num_duration(text, to) == 0 ? 0
					   : err_refuse(e, ERR_USAGE, EINVAL, "90d, 12h",
							"'%.64s' is not a duration", text);
}

static int set_format(struct asked *a, const char *text, struct err *e)
{
	return format_by_name(text, &a->format)
		       ? 0
		       : err_refuse(e, ERR_USAGE, EINVAL,
				    "json, jsonl, csv, ocsf, ocsf-jsonl, raw or text",
				    "there is no format '%.64s'", text);
}

static int set_within(struct asked *a, const char *text, struct err *e)
{
	struct filter f = { 0 };

	if (filter_set_run(&f, text, e) < 0)
		return -e->code;
	a->within = f.run;
	return 0;
}

static int add_anchor(struct asked *a, const char *file, struct err *e)
{
	if (a->anchor_count == ANCHORS_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d anchors", ANCHORS_MAX);
	a->anchors[a->anchor_count++] = file;
	return 0;
}

static int asked_take(struct asked *a, enum audit_option_id id, const char *value, struct err *e)
{
	const char **const texts[AUDIT_OPTIONS] = {
		[OPTION_OUTCOME] = &a->filter.outcome,
		[OPTION_HOST] = &a->filter.host,
		[OPTION_PRINCIPAL] = &a->filter.principal,
		[OPTION_AGENT] = &a->filter.agent,
		[OPTION_OUTPUT] = &a->output,
		[OPTION_DIR] = &a->dir,
	};

	if (texts[id]) {
		*texts[id] = value;
		return 0;
	}
	switch (id) {
	case OPTION_TYPE:
		return filter_add_type(&a->filter, value, e);
	case OPTION_RUN:
		return filter_set_run(&a->filter, value, e);
	case OPTION_WITHIN:
		return set_within(a, value, e);
	case OPTION_SINCE:
		return set_when(&a->filter.since, value, e);
	case OPTION_UNTIL:
		return set_when(&a->filter.until, value, e);
	case OPTION_LIMIT:
		a->limited = true;
		return set_count(&a->filter.limit, value, e);
	case OPTION_FORMAT:
		return set_format(a, value, e);
	case OPTION_MAX_AGE:
		a->aged = true;
		return set_age(&a->max_age_ms, value, e);
	case OPTION_MAX_RECORDS:
		a->counted = true;
		return set_count(&a->max_records, value, e);
	case OPTION_ANCHOR:
		return add_anchor(a, value, e);
	default:
		return 0;
	}
}

static void flip(struct asked *a, enum audit_option_id id)
{
	switch (id) {
	case OPTION_JSON:
		a->json = true;
		a->format = a->command == AUDIT_TAIL ? FORMAT_JSONL : FORMAT_JSON;
		break;
	case OPTION_JSONL:
		a->format = FORMAT_JSONL;
		break;
	case OPTION_CSV:
		a->format = FORMAT_CSV;
		break;
	case OPTION_LIVE:
		a->live = true;
		break;
	case OPTION_DRY_RUN:
		a->dry_run = true;
		break;
	default:
		a->no_index = true;
	}
}

/* "--name VALUE", "--name=VALUE", "-n VALUE", "-nVALUE": whether the word names this option; what
 * follows in the word is *value, or NULL. */
static bool option_named(const struct audit_option *o, const char *word, const char **value)
{
	const char *const forms[] = { o->name, o->alias };

	*value = NULL;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		size_t n = forms[i] ? strlen(forms[i]) : 0;

		if (!n || strncmp(word, forms[i], n) != 0)
			continue;
		if (!word[n])
			return true;
		if (n == 2 || word[n] == '=') {
			*value = word + n + (word[n] == '=');
			return true;
		}
	}
	return false;
}

static int one_option(struct asked *a, int argc, char **argv, int *i, struct err *e)
{
	const char *value;

	for (int id = 0; id < AUDIT_OPTIONS; id++) {
		const struct audit_option *o = &audit_options[id];

		if (!(o->commands & 1U << a->command) || !option_named(o, argv[*i], &value))
			continue;
		if (!o->arg && value)
			return err_set(e, ERR_USAGE, EINVAL, "option '%s' takes no value", o->name);
		if (!o->arg) {
			flip(a, (enum audit_option_id)id);
			return 0;
		}
		if (!value && !own_option_follows(argc, argv, *i))
			return err_refuse(e, ERR_USAGE, EINVAL, "brig audit --help says which",
					  "option '%s' needs a value", o->name);
		return asked_take(a, (enum audit_option_id)id, value ? value : argv[++*i], e);
	}
	return unknown_option(a, argv[*i], e);
}

static int find_command(struct asked *a, const char *word, struct err *e)
{
	for (int i = 0; i < AUDIT_COMMANDS; i++)
		if (str_eq(word, audit_commands[i].name) ||
		    (audit_commands[i].alias && str_eq(word, audit_commands[i].alias))) {
			a->command = (enum audit_command)i;
			return 0;
		}
	return unknown_command(word, e);
}

static void defaults(struct asked *a)
{
	static const uint64_t limits[AUDIT_COMMANDS] = {
		[AUDIT_LIST] = 50, [AUDIT_RUNS] = 50, [AUDIT_SECURITY] = 50, [AUDIT_TAIL] = 10
	};

	a->filter.limit = limits[a->command];
	a->filter.security = a->command == AUDIT_SECURITY;
	a->format = a->command == AUDIT_EXPORT ? FORMAT_JSON : FORMAT_TEXT;
}

int asked_parse(int argc, char **argv, struct asked *a, struct err *e)
{
	bool options = true;

	*a = (struct asked){ 0 };
	a->command = AUDIT_LIST; /* alone: what has happened of late */
	if (argc > 1 && find_command(a, argv[1], e) < 0)
		return -e->code;
	defaults(a);
	for (int i = 2; i < argc; i++) {
		if (options && str_eq(argv[i], "--"))
			options = false;
		else if (options && argv[i][0] == '-' && argv[i][1]) {
			if (one_option(a, argc, argv, &i, e) < 0)
				return -e->code;
		} else if (a->command == AUDIT_SHOW && !a->word)
			a->word = argv[i];
		else
			return err_set(e, ERR_USAGE, EINVAL, "audit %s does not accept '%.100s'",
				       audit_commands[a->command].name, argv[i]);
	}
	if (a->command == AUDIT_SHOW && !a->word)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig audit show last, or an id that brig audit list shows",
				  "audit show: which run?");
	return 0;
}

/* Of the anchors only a file can be read back; all of them get the head that prune leaves. */
static int settle_anchors(struct asked *a, const struct spec *s, struct err *e)
{
	bool given = a->anchor_count > 0;

	if (s->audit.anchor.n > ANCHORS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "audit.anchor has more than %d entries",
			       ANCHORS_MAX);
	for (size_t i = 0; i < s->audit.anchor.n; i++) {
		a->destinations[i] = s->audit.anchor.v[i];
		if (!given && s->audit.anchor.v[i][0] == '/')
			a->anchors[a->anchor_count++] = s->audit.anchor.v[i];
	}
	return 0;
}

int asked_settle(struct asked *a, struct spec *s, struct err *e)
{
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = cli_home() };
	struct err project = { 0 };

	if (!a->dir) {
		if (cli_load_reader(s, &project, e) < 0)
			return -e->code;
		if (project.code)
			message_print("brig: note", project.what);
		if (s->audit.dir && (cli_here(cwd, e) < 0 ||
				     path_resolve(s->arena, &at, s->audit.dir, &a->dir, e) < 0))
			return err_wrap(e, "audit.dir");
		if (settle_anchors(a, s, e) < 0)
			return -e->code;
	}
	a->sync = s->audit.sync == AUDIT_SYNC_FULL;
	if (!a->aged)
		a->max_age_ms = s->audit.max_age;
	if (!a->counted)
		a->max_records = s->audit.max_records;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/cmd_config.c - "config": is a file right, what holds in the end and why, an old form
 * rewritten. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "cli/settings/config_allow.h"
#include "model/files/config.h"
#include "model/migrate/migrate.h"
#include "model/settings/paths.h"
#include "sandbox/manager.h"

#define TEXT_MAX ((size_t)32 << 20)
#define EXIT_NOT_HERE 2 /* of check: the file is right, and the machine lacks what it needs */

/* --- what the subcommands take --- */

struct config_asked {
	const char *file, *dialect;
	bool origin, json, help, dry_run, rest; /* rest: behind "--" */
};

static int cmd_config_unknown(const char *word, struct err *e)
{
	static const char *const options[] = { "--config",  "--dialect", "--origin", "--json",
					       "--dry-run", "--help",    NULL };
	const char *near = word[0] == '-' ? str_nearest(word, options) : NULL;

	(void)err_set(
		e, ERR_USAGE, EINVAL, "%s '%.100s'",
		word[0] == '-' ? "unknown option" : "config takes no more than one file:", word);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig config --help lists the options");
}

static int cmd_config_parse(int argc, char **argv, struct config_asked *a, struct err *e)
{
	for (int i = 2; i < argc; i++) {
		static const struct own_option config = { .command = "config", .name = "--config" },
					       dialect = { .command = "config",
							   .name = "--dialect" };
		int r = a->rest ? 0 : own_option_value(&config, argc, argv, &i, &a->file, e);

		if (r == 0 && !a->rest)
			r = own_option_value(&dialect, argc, argv, &i, &a->dialect, e);
		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (a->rest && a->file)
			return cmd_config_unknown(argv[i], e);
		if (a->rest)
			a->file = argv[i];
		else if (str_eq(argv[i], "--"))
			a->rest = true;
		else if (str_eq(argv[i], "--dry-run"))
			a->dry_run = true;
		else if (str_eq(argv[i], "--origin"))
			a->origin = true;
		else if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (argv[i][0] != '-' && !a->file)
			a->file = argv[i];
		else
			return cmd_config_unknown(argv[i], e);
	}
	return 0;
}

static int need_file(const struct config_asked *a, const char *what, struct err *e)
{
	if (a->file)
		return 0;
	(void)err_set(e, ERR_USAGE, EINVAL, "config %s: name the file", what);
	return err_hint(e, "usage: brig config %s FILE", what);
}

/* --- check --- */

static size_t settings(const struct spec *s)
{
	size_t n = 0;

	for (int id = 0; id < FIELD_COUNT; id++)
		n += fields[id].key && spec_wrote(s, (enum field_id)id);
	return n;
}

static bool is_settings(const char *folder)
{
	const char *name = strrchr(folder, '/');

	return name && str_eq(name, "/brig");
}

/* One file alone, as if it were run from its own folder; settings of brig's own that lie among the
 * user's are for runs elsewhere, such as here. */
static int check_file(struct spec *s, const struct config_asked *a, enum dialect *was,
		      struct err *e)
{
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = cli_home() };
	struct source src = {
		.name = a->file, .home = at.home, .origin = ORIGIN_FILE, .trusted = true
	};
	enum dialect named = DIALECT_COUNT;
	const char *full, *slash;

	if (cli_here(cwd, e) < 0 || (a->dialect && dialect_by_name(a->dialect, &named, e) < 0) ||
	    path_resolve(s->arena, &at, a->file, &full, e) < 0)
		return -e->code;
	slash = strrchr(full, '/');
	src.folder = arena_strndup(s->arena, full, slash > full ? (size_t)(slash - full) : 1);
	if (!src.folder)
		return err_nomem(e);
	if (!is_settings(src.folder))
		at.cwd = src.folder;
	src.cwd = at.cwd;
	if (config_read_file(s, a->file, named, &src, was, e) < 0)
		return -e->code;
	s->dialect_used = (int)*was;
	if (spec_check(s, &at, e) == 0)
		return 0;
	return str_starts(e->what, a->file) ? -e->code : err_wrap(e, "%.128s", a->file);
}

/* Does it ask for what only a long-lived sandbox has? */
static bool lasts(const struct spec *s)
{
	for (int i = 0; i < FIELD_COUNT; i++)
		if (fields[i].honoured == ON_LASTING && spec_asks(s, (enum field_id)i))
			return true;
	return s->companions.n > 0;
}

/* What a run would say. One that this version refuses, or that wants another word of the caller's,
 * is not the file's mistake, but worth a line; nor is an engine that is not there, but then it
 * cannot run here. The exit status, or negative. */
static int try_backend(struct spec *s, char *text, size_t n, struct err *e)
{
	enum spec_fault why;
	const char *name;

	s->stays = lasts(s);
	if (spec_backend(s, &name, &why, e) == 0) {
		(void)snprintf(text, n, "%s would run it%s", name,
			       s->stays ? ", by brig sandbox create" : "");
		return 0;
	}
	if (why == FAULT_FILE)
		return -e->code;
	(void)snprintf(text, n, "a run would be refused: %s%s%s%s", e->what, e->hint[0] ? " (" : "",
		       e->hint, e->hint[0] ? ")" : "");
	return why == FAULT_MACHINE ? EXIT_NOT_HERE : 0;
}

/* The answer of check as one object; `backend` is NULL for a file that is wrong. */
static int check_json(const struct config_asked *a, const struct spec *s, enum dialect was,
		      const char *backend, int status, const struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct json j;

	json_init(&j, &out, true);
	json_object(&j);
	json_kstr(&j, "file", a->file);
	json_kbool(&j, "ok", backend != NULL);
	if (backend) {
		json_kstr(&j, "dialect", dialect_name(was));
		json_ku64(&j, "settings", settings(s));
		json_karray(&j, "notes");
		for (size_t i = 0; i < s->notes.n; i++)
			json_str(&j, s->notes.v[i]);
		json_array_end(&j);
		json_kbool(&j, "here", status == 0);
		json_kstr(&j, "backend", backend);
	} else {
		json_kstr(&j, "error", e->what);
		json_kstr(&j, "hint", e->hint);
	}
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&out));
	return status;
}

static int cmd_config_check(const struct config_asked *a, struct err *e)
{
	char text[128], backend[sizeof(e->what) + sizeof(e->hint) + 64];
	CLEANUP(spec) struct spec *s = spec_new(e);
	enum dialect was = DIALECT_BRIG;
	int status = 0;

	if (!s || need_file(a, "check", e) < 0)
		return -e->code;
	if (check_file(s, a, &was, e) < 0 ||
	    (status = try_backend(s, backend, sizeof(backend), e)) < 0) {
		if (a->json)
			return check_json(a, s, was, NULL, 1, e);
		error_print(e);
		return 1;
	}
	if (a->json)
		return check_json(a, s, was, backend, status, e);
	(void)snprintf(text, sizeof(text), "ok (%s, %zu setting%s)", dialect_name(was), settings(s),
		       settings(s) == 1 ? "" : "s");
	message_answer(a->file, text);
	for (size_t i = 0; i < s->notes.n; i++)
		message_answer("note", s->notes.v[i]);
	message_answer("backend", backend);
	return status;
}

/* --- show --- */

static int cmd_config_resolve(struct spec *s, const struct config_asked *a, struct err *e)
{
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = cli_home() };

	if (cli_here(cwd, e) < 0 ||
	    (a->file && spec_set(s, FIELD_CONFIG, a->file, ORIGIN_FLAG, e) < 0) ||
	    (a->dialect && spec_set(s, FIELD_DIALECT, a->dialect, ORIGIN_FLAG, e) < 0) ||
	    cli_load(s, e) < 0)
		return -e->code;
	return spec_check(s, &at, e);
}

static int cmd_config_show(const struct config_asked *a, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct json j;

	if (!s || cmd_config_resolve(s, a, e) < 0)
		return -e->code;
	if (a->json) {
		json_init(&j, &out, true);
		config_show_json(s, a->origin, &j);
		buf_putc(&out, '\n');
	} else {
		config_show(s, a->origin, &out);
	}
	if (out.failed)
		return err_nomem(e);
	return fputs(buf_str(&out), stdout) == EOF || fflush(stdout) == EOF ? EXIT_BRIG : 0;
}

/* --- allow --- */

static int cmd_config_allow(const struct config_asked *a, struct err *e)
{
	if (!a->file)
		return err_refuse(e, ERR_USAGE, EINVAL, "such as api.example.org",
				  "config allow: which host?");
	return config_allow(
		&(struct config_allow){ .rule = a->file, .dry_run = a->dry_run, .json = a->json },
		e);
}

/* --- migrate --- */

static int migrate(const struct config_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf in = BUF_INIT(CONFIG_FILE_MAX);
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct stat st;

	if (need_file(a, "migrate", e) < 0 || config_slurp(a->file, &in, &st, e) < 0 ||
	    migrate_file(a->file, buf_str(&in), in.len, &out, e) < 0)
		return -e->code;
	if (out.failed)
		return err_nomem(e);
	return fputs(buf_str(&out), stdout) == EOF || fflush(stdout) == EOF ? EXIT_BRIG : 0;
}

static const struct {
	const char *name;
	int (*run)(const struct config_asked *a,
		   struct err *e); /* exit status, or negative and *e */
} verbs[] = { { "check", cmd_config_check },
	      { "show", cmd_config_show },
	      { "migrate", migrate },
	      { "allow", cmd_config_allow } };

static int unknown_verb(const char *word, struct err *e)
{
	static const char *const names[] = { "check", "show", "migrate", "allow", NULL };
	const char *near = word ? str_nearest(word, names) : NULL;

	(void)err_set(e, ERR_USAGE, EINVAL,
		      word ? "config: unknown command '%.60s'"
			   : "config: check, show, migrate or allow?%.0s",
		      word ? word : "");
	return near ? err_hint(e, "did you mean 'brig config %s'?", near)
		    : err_hint(e, "brig config --help says more");
}

static int config(const struct subcommand *c, int argc, char **argv)
{
	struct config_asked a = { 0 };
	struct err e = { 0 };
	int r = cmd_config_parse(argc, argv, &a, &e);

	if (a.help || (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h")))) {
		help_command(c);
		return 0;
	}
	for (size_t i = 0; r == 0 && argc > 1 && i < ARRAY_LEN(verbs); i++)
		if (str_eq(argv[1], verbs[i].name)) {
			r = verbs[i].run(&a, &e);
			if (r >= 0)
				return r;
		}
	if (r == 0)
		(void)unknown_verb(argc > 1 ? argv[1] : NULL, &e);
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_config_word(size_t i)
{
	static const char *const list[] = { "check", "show", "migrate", "allow" };

	return i < ARRAY_LEN(list) ? list[i] : NULL;
}

const struct subcommand cmd_config = {
	.name = "config",
	.usage = "check FILE [--json] | show [--config FILE] [--origin] [--json] | migrate FILE | "
		 "allow HOST [--dry-run] [--json]",
	.help = "validate a file, show settings, convert formats, allow a host",
	.about = "  check FILE        is the file right, and would its backend take it\n"
		 "  show              every setting as it holds here, from all layers\n"
		 "  migrate FILE      print an old form in the new one\n"
		 "  allow HOST        add HOST[:PORT] to egress.allow of your own file; show the\n"
		 "                    difference; comments and all else stay as they are\n"
		 "\n"
		 "  --config FILE     with show: the file that run would be given\n"
		 "  --dialect NAME    format of the file: brig, initrunner, rlm, agents\n"
		 "                    or ironclaw; recognised by its content if not given\n"
		 "  --origin          with show: who wrote each setting, and where\n"
		 "  --dry-run         with allow: show the difference, change nothing\n"
		 "  --json            all but migrate: one object; sizes in bytes, times in ms\n",
	.exits = "0 right; 1 check found a fault; 2 it is right, and no engine\n"
		 "here would run it; 125 anything else failed",
	.word = cmd_config_word,
	.run = config,
};

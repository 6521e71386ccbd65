/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_learn.c - "learn": a run with the door open, and the settings that it would have
 * needed. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/setup/setup_write.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "cli/apps/learn_cli.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "cli/run/run_parts.h"
#include "cli/run/terminal.h"
#include "model/files/config.h"

#define JSON_MAX ((size_t)16 << 20)

int learning_new(struct learning *l, struct err *e)
{
	l->manager = brig_manager_new();
	l->request = l->manager ? brig_request_new(l->manager) : NULL;
	l->seen = sightings_new();
	l->text.arena = arena_new(JSON_MAX);
	return l->request && l->seen && l->text.arena ? 0 : err_nomem(e);
}

void learning_done(struct learning *l)
{
	brig_result_free(l->result);
	(void)spec_free(l->checked);
	(void)sightings_free(l->seen);
	(void)arena_free(l->text.arena);
	brig_request_free(l->request);
	brig_manager_free(l->manager);
}

/* ---- the run ---- */

/* What a file of the user's says, and this line does not, is as if nobody had said it. */
static bool learning_forgets(struct spec *s, enum field_id id)
{
	if (s->origin[id] == ORIGIN_FLAG)
		return false;
	s->origin[id] = ORIGIN_DEFAULT;
	return true;
}

/* With every public name open, what the command can read it can send away. So nothing of the
 * user's goes along that was not named on this line: no credential (egress_plan.c), no variable, no
 * agent, no kept HOME with the logins in it. And no rule of earlier settings stands in the way. */
static void learning_bare(struct spec *s)
{
	if (learning_forgets(s, FIELD_ENV_PASS))
		s->env_pass = (struct strlist){ 0 };
	if (learning_forgets(s, FIELD_SSH_AGENT))
		s->ssh_agent = SSH_AGENT_NONE;
	if (learning_forgets(s, FIELD_HOME))
		s->home = HOME_PRIVATE;
	if (learning_forgets(s, FIELD_EGRESS_ASK))
		s->egress.ask = false;
	if (learning_forgets(s, FIELD_EGRESS_ALLOW))
		s->egress.allow = (struct strlist){ 0 };
	if (learning_forgets(s, FIELD_EGRESS_GROUPS))
		s->egress.groups = (struct strlist){ 0 };
	if (learning_forgets(s, FIELD_EGRESS_FIELDS))
		s->egress.fields = (struct strlist){ 0 };
}

static int learning_network(struct spec *s, struct err *e)
{
	bool said = s->origin[FIELD_NETWORK] == ORIGIN_FLAG;

	if (said && s->network != NETWORK_PROXY && s->network != NETWORK_NONE)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "leave --network out, or --network none to learn of files alone",
				  "what a command asks for is seen at the door alone");
	if (said && s->network == NETWORK_NONE)
		return 0;
	/* Not a request that somebody has made: a backend that cannot be learned from says so. */
	s->egress.learn = true;
	s->network = NETWORK_PROXY;
	return 0;
}

int learning_open(struct learning *l, struct err *e)
{
	struct spec *s = request_spec(l->request);

	learning_bare(s);
	return learning_network(s, e);
}

/* What every run has, wherever its tree is; and the workspace, which is the project's own. */
static void learning_places(struct learning *l)
{
	static const char *const usual[] = { "/usr",   "/bin",    "/sbin", "/lib",  "/lib32",
					     "/lib64", "/libx32", "/etc",  "/proc", "/dev",
					     "/sys",   "/tmp",    "/run",  "/var" };
	const struct spec *s = l->checked;
	char home[sizeof("/home/") + 64];

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		sightings_usual(l->seen, usual[i]);
	if (s->inside)
		sightings_usual(l->seen, s->inside);
	/* The caller's own HOME is not that of the command: what it wants from there is told. */
	(void)snprintf(home, sizeof(home), "/home/%.64s", s->user_name);
	sightings_usual(l->seen, home);
	for (size_t i = 0; i < s->read.n; i++)
		sightings_place(l->seen, s->read.v[i]);
	for (size_t i = 0; i < s->write.n; i++)
		sightings_place(l->seen, s->write.v[i]);
	for (size_t i = 0; i < s->mounts.n; i++)
		sightings_place(l->seen, s->mounts.v[i].target);
}

static void learning_execute(struct learning *l)
{
	struct spec *s = request_spec(l->request);
	struct terminal t = { 0 };
	struct brig_error be;

	/* Whoever is there ends it. */
	if (!spec_wrote(s, FIELD_TIMEOUT) && isatty(STDIN_FILENO))
		s->command.timeout = 0;
	brig_request_stdio(l->request, 0, l->keeps_output ? 1 : 2, 2);
	brig_request_on_note(l->request, cmd_run_note, s);
	request_signals(l->request, cmd_run_signals());
	request_learn(l->request, l->seen);
	if (s->command.tty)
		terminal_raw(&t);
	(void)brig_execute(l->request, &l->result, &be);
	terminal_restore(&t);
}

int learning_run(struct learning *l, int argc, char **argv, const struct spec *add, struct err *e)
{
	struct spec *s = request_spec(l->request);
	const struct outcome *o;

	if (spec_set_argv(s, argc, argv, e) < 0)
		return -e->code;
	l->checked = request_checked(l->request, e);
	if (!l->checked)
		return -e->code;
	learning_places(l);
	learning_execute(l);
	if (!l->result)
		return err_nomem(e);
	o = result_outcome(l->result);
	if (!o->started) {
		*e = o->error;
		return e->code ? -e->code
			       : err_set(e, ERR_INTERNAL, ECHILD, "the command did not start");
	}
	cmd_run_say(o, s);
	l->text.run = l->checked;
	l->text.add = add;
	l->text.seen = l->seen;
	l->text.outcome = o;
	l->text.at = time(NULL);
	if (l->seen->failed)
		return err_nomem(e);
	return learn_settle(&l->text, e);
}

/* ---- the command line ---- */

struct learn_asked {
	struct learning l; /* first */
	const char *save, *add;
	bool force, help, help_all;
	struct spec *earlier; /* of --add */
	struct buf text;
};

static const struct own_option save_option = { "learn", "--save", NULL },
			       add_option = { "learn", "--add", NULL };

static int learn_own(struct learn_asked *x, int argc, char **argv, int *at, struct err *e)
{
	int r = own_option_value(&save_option, argc, argv, at, &x->save, e);

	if (r == 0)
		r = own_option_value(&add_option, argc, argv, at, &x->add, e);
	if (r == 0 && str_eq(argv[*at], "--force"))
		r = x->force = true;
	return r;
}

/* Options; *rest is the first word of the command. */
static int learn_parse(const struct subcommand *c, struct learn_asked *x, int argc, char **argv,
		       int *rest, struct err *e)
{
	struct spec *s = request_spec(x->l.request);
	int at = 1, r;

	for (; at < argc && argv[at][0] == '-' && argv[at][1] && !str_eq(argv[at], "--"); at++) {
		r = learn_own(x, argc, argv, &at, e);
		if (r == 0 && (r = options_one(c, s, argc, argv, &at, e)) > 0) {
			x->help = true;
			x->help_all |= r > 1;
		}
		if (r < 0)
			return r;
	}
	at += at < argc && str_eq(argv[at], "--");
	*rest = at;
	if (x->help || at < argc)
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "brig learn [OPTION...] -- COMMAND [ARG...]",
			  "no command was given");
}

static struct source learn_source(const char *name)
{
	return (struct source){ .name = name,
				.home = cli_home(),
				.folder = "/",
				.origin = ORIGIN_PROJECT,
				.trusted = true };
}

/* Of the file only what learn writes is taken over; more in it would be lost without a word. */
static int learn_earlier(struct learn_asked *x, struct err *e)
{
	static const enum field_id own[] = { FIELD_NETWORK,       FIELD_EGRESS_ALLOW,
					     FIELD_EGRESS_FIELDS, FIELD_READ,
					     FIELD_WRITE,         FIELD_MOUNT,
					     FIELD_CREDENTIAL };
	struct source src = learn_source(x->add);
	enum dialect was;

	if (!x->add)
		return 0;
	x->earlier = spec_new(e);
	if (!x->earlier || config_read_file(x->earlier, x->add, DIALECT_BRIG, &src, &was, e) < 0)
		return -e->code;
	for (int i = 0; i < FIELD_COUNT; i++) {
		bool known = !spec_wrote(x->earlier, (enum field_id)i);

		for (size_t k = 0; k < ARRAY_LEN(own) && !known; k++)
			known = own[k] == (enum field_id)i;
		if (!known)
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "learn into a file of its own, and copy its lines",
					  "'%.200s' sets %s as well, which brig learn does not "
					  "write",
					  x->add, fields[i].key ? fields[i].key : fields[i].flag);
	}
	return 0;
}

/* What was written is read as a later run reads it. */
static int learn_check(const struct learn_asked *x, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	const struct source src = learn_source("what was learned");
	enum dialect was;

	if (!s)
		return -e->code;
	if (x->text.failed)
		return err_nomem(e);
	return config_read_text(s, buf_str(&x->text), x->text.len, DIALECT_BRIG, &src, &was, e);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The folder of the file, and whether it can be written: asked before anything runs. */
static int learn_folder(const struct learn_asked *x, int *folder, struct err *e)
{
	char *path;
	int r;

	if (!x->save)
		return 0;
	path = arena_strndup(x->l.text.arena, x->save, (size_t)(base_name(x->save) - x->save));
	if (!path)
		return err_nomem(e);
	*folder = open(path[0] ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*folder < 0)
		return err_sys(e, "cannot open the folder of '%.200s'", x->save);
	r = setup_can_write(*folder, base_name(x->save), x->force, e);
	/* It has no --dry-run, which is of init's. */
	return r == -EEXIST ? err_hint(e, "--force replaces it; without --save it is printed") : r;
}

static int learn_out(struct learn_asked *x, int folder, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(JSON_MAX);
	CLEANUP(buf) struct buf line = BUF_INIT(4096);
	struct json j;

	if (x->save && setup_write(folder, base_name(x->save), buf_str(&x->text), x->text.len,
				   x->force, e) < 0)
		return -e->code;
	if (x->save) {
		buf_puts(&line, "read ");
		buf_put_word(&line, x->save);
		buf_puts(&line, ": the command chose every name in it. As a project's .brig.yaml "
				"it counts once brig allow was said of it");
		message_print("brig: note", buf_str(&line));
	}
	if (x->l.checked->cli.json) {
		json_init(&j, &text, true);
		learn_json(&x->l.text, buf_str(&x->text), &j);
		(void)printf("%s\n", buf_str(&text));
	} else if (!x->save) {
		(void)fputs(buf_str(&x->text), stdout);
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : err_sys(e, "cannot write the output");
}

static int learn_go(struct learn_asked *x, int argc, char **argv, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	struct spec *s = request_spec(x->l.request);
	int status;

	x->l.keeps_output = x->save && !s->cli.json;
	if (cli_load(s, e) < 0 || learn_folder(x, &folder, e) < 0 || learn_earlier(x, e) < 0 ||
	    learning_open(&x->l, e) < 0 || learning_run(&x->l, argc, argv, x->earlier, e) < 0)
		return -e->code;
	status = brig_result_exit_code(x->l.result);
	learn_write(&x->l.text, &x->text);
	if (learn_check(x, e) < 0 || learn_out(x, folder, e) < 0)
		return -e->code;
	return status;
}

static int learn(const struct subcommand *c, int argc, char **argv)
{
	struct learn_asked x = { .text = BUF_INIT(LEARN_TEXT_MAX) };
	struct err e = { 0 };
	int rest = 0, r = learning_new(&x.l, &e);

	if (r == 0)
		r = learn_parse(c, &x, argc, argv, &rest, &e);
	if (r == 0 && x.help) {
		(x.help_all ? help_all : help_command)(c);
	} else if (r == 0) {
		r = learn_go(&x, argc - rest, argv + rest, &e);
	}
	if (r < 0) {
		error_print(&e);
		r = EXIT_BRIG;
	}
	(void)spec_free(x.earlier);
	buf_done(&x.text);
	learning_done(&x.l);
	return r;
}

static const char *cmd_learn_word(size_t i)
{
	static const char *const own[] = { "--save", "--add", "--force" };

	return i < ARRAY_LEN(own) ? own[i] : NULL;
}

const struct subcommand cmd_learn = {
	.name = "learn",
	.usage = "[OPTION...] -- COMMAND [ARG...]",
	.help = "run a command at an open door, and print the settings that it needed",
	.about = "  --save FILE       write them there; the command has standard output\n"
		 "  --force           replace FILE\n"
		 "  --add FILE        what an earlier run has learned, besides\n"
		 "  --json            one object\n"
		 "\n"
		 "While brig learns the command can send away what it can read: this folder, too.\n"
		 "No key goes along but by --credential, no variable but by --env, --env-pass.\n"
		 "The command chose every name in the file: read it before brig allow.\n",
	.fields = CMD_RUN,
	.word = cmd_learn_word,
	.run = learn,
};

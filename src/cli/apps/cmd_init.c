/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_init.c - "init": a .brig.yaml that fits this project, on this machine.
 *
 *     options -> what is here -> answers -> text -> [yes] -> image -> file -> trust -> doctor
 *
 * Up to [yes] nothing is changed; after it nothing is asked. docs/design/init.md says why. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/files/home.h"
#include "base/text/str.h"
#include "cli/own_options.h"
#include "cli/progress.h"
#include "cli/apps/init_cli.h"
#include "model/files/config.h"
#include "model/known/agent_files.h"
#include "sandbox/manager.h"
#include "apps/setup/examples.h"
#include "apps/setup/setup_write.h"
#include "apps/wrap/wrap_agents.h"

#define TEXT_MAX ((size_t)64 << 10)

/* ---- options ---- */

struct init_switch {
	const char *name;
	bool *to;
};

struct init_value {
	const char *name;
	const char **to;
};

static const char *const own[] = { "--yes",       "--dry-run",   "--force", "--json",
				   "--no-allow",  "--apparmor",  "--image", "--base",
				   "--backend",   "--network",   "--agent", "--allow",
				   "--workspace", "--keep-home", "--learn", "--help",
				   NULL };

static int take_switch(struct init_asked *a, const char *word)
{
	const struct init_switch all[] = {
		{ "--yes", &a->yes },
		{ "-y", &a->yes },
		{ "--dry-run", &a->dry },
		{ "--force", &a->force },
		{ "--json", &a->json },
		{ "--no-allow", &a->no_allow },
		{ "--apparmor", &a->apparmor },
		{ "--image", &a->image },
		{ "--keep-home", &a->keep_home },
		{ "--learn", &a->learn },
		{ "--help", &a->help },
		{ "-h", &a->help },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (str_eq(all[i].name, word)) {
			*all[i].to = true;
			return 1;
		}
	return 0;
}

/* 1: it was an option with a value. */
static int cmd_init_take_value(struct initiation *x, int argc, char **argv, int *i, struct err *e)
{
	struct init_asked *a = &x->asked;
	const char *allow = NULL;
	const struct init_value all[] = {
		{ "--base", &a->base },
		{ "--backend", &a->backend },
		{ "--network", &a->network },
		{ "--agent", &a->agent },
		{ "--allow", &allow },
		{ "--image", &a->image_ref },
		{ "--workspace", &a->workspace },
	};

	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		const struct own_option o = { .command = "init", .name = all[k].name };
		int r = own_option_value(&o, argc, argv, i, all[k].to, e);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		return allow && spec_set(x->spec, FIELD_EGRESS_ALLOW, allow, ORIGIN_FLAG, e) < 0
			       ? -e->code
			       : 1;
	}
	return 0;
}

static int cmd_init_unknown(const char *word, struct err *e)
{
	const char *near = word[0] == '-' ? str_nearest(word, own) : NULL;

	(void)err_set(
		e, ERR_USAGE, EINVAL, "%s '%.100s'",
		word[0] == '-' ? "unknown option" : "init takes no more than one folder:", word);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig init --help lists the options");
}

static int cmd_init_parse(struct initiation *x, int argc, char **argv, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = take_switch(&x->asked, argv[i]);

		if (r == 0)
			r = cmd_init_take_value(x, argc, argv, &i, e);
		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (x->asked.learn && str_eq(argv[i], "--")) {
			x->asked.command = argv + i + 1;
			break;
		}
		if (argv[i][0] == '-' || x->asked.folder)
			return cmd_init_unknown(argv[i], e);
		x->asked.folder = argv[i];
	}
	if (x->asked.learn && !x->asked.help && (!x->asked.command || !x->asked.command[0]))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig init --learn -- COMMAND [ARG...]",
				  "--learn needs a command to learn from");
	if (x->asked.learn && x->asked.network)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave --network out",
				  "--learn finds out which hosts are open");
	x->asked.image |= x->asked.image_ref != NULL;
	x->asked.yes &= !x->asked.dry;
	x->answers.keep_home = x->asked.keep_home;
	if (x->asked.base && (x->asked.image_ref || !x->asked.image))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig init --image --base REF",
				  "--base belongs to an image that is built");
	return 0;
}

/* ---- answers, from options or questions ---- */

int init_take_backend(struct initiation *x, const char *word, struct err *e)
{
	x->answers.backend = NULL;
	if (str_eq(word, "auto"))
		return 0;
	for (size_t i = 0; i < x->usable_count; i++)
		if (str_eq(x->usable[i].backend, word)) {
			x->answers.backend = x->usable[i].backend;
			return 0;
		}
	return err_refuse(e, ERR_USAGE, EINVAL,
			  "auto, native, bwrap or docker; for another host: brig examples show "
			  "ssh-backend",
			  "'%.60s' is no backend that init sets up", word);
}

int init_take_workspace(struct initiation *x, const char *word, struct err *e)
{
	x->answers.overlay = str_eq(word, "overlay");
	if (x->answers.overlay || str_eq(word, "direct"))
		return 0;
	return err_refuse(
		e, ERR_USAGE, EINVAL,
		"direct: the folder itself; overlay: a layer over it, which brig apply puts "
		"there",
		"'%.60s' is no mode of the workspace", word);
}

int init_take_network(struct initiation *x, const char *word, struct err *e)
{
	const struct group *found[GROUP_COUNT];

	if (str_eq(word, "none")) {
		if (x->answers.allow.n)
			return err_refuse(e, ERR_USAGE, EINVAL, "leave one of them out",
					  "--network none and --allow exclude each other");
		x->answers.network = SETUP_NETWORK_NONE;
	} else if (str_eq(word, "packages")) {
		if (!project_groups(&x->found, found) && !x->answers.allow.n)
			return err_refuse(e, ERR_CONFIG, ENOENT,
					  "name hosts or groups: --allow @npm, --allow HOST",
					  "nothing here says where its packages come from");
		x->answers.network = SETUP_NETWORK_PACKAGES;
	} else if (str_eq(word, "proxy")) {
		if (!x->answers.allow.n)
			return err_refuse(e, ERR_USAGE, EINVAL, "--allow HOST, or @GROUP",
					  "network proxy opens no host by itself");
		x->answers.network = SETUP_NETWORK_HOSTS;
	} else {
		return err_refuse(e, ERR_USAGE, EINVAL, "none, packages or proxy (with --allow)",
				  "'%.60s' is no network that init sets up", word);
	}
	return 0;
}

static int init_take_agent(struct initiation *x, const char *word, struct err *e)
{
	const struct wrap_agent *a = wrap_agent_find(word);

	if (!a && !str_eq(word, "none"))
		return err_refuse(e, ERR_USAGE, EINVAL, AGENTS_LISTED "or none",
				  "'%.60s' is no agent that brig knows", word);
	x->answers.agent = a ? a->name : NULL;
	return 0;
}

static const struct usable *with_images(const struct initiation *x)
{
	for (size_t i = 0; i < x->usable_count; i++)
		if (x->usable[i].images)
			return &x->usable[i];
	return NULL;
}

/* What holds unless a question changes it. */
static int decide(struct initiation *x, struct err *e)
{
	const struct init_asked *a = &x->asked;
	const struct group *found[GROUP_COUNT];
	const char *agent = project_agent(&x->found);

	x->answers.allow = x->spec->egress.allow;
	x->answers.network = project_groups(&x->found, found) ? SETUP_NETWORK_PACKAGES
			     : x->answers.allow.n             ? SETUP_NETWORK_HOSTS
							      : SETUP_NETWORK_NONE;
	if ((a->network && init_take_network(x, a->network, e) < 0) ||
	    (a->backend && init_take_backend(x, a->backend, e) < 0) ||
	    (a->workspace && init_take_workspace(x, a->workspace, e) < 0) ||
	    ((a->agent || agent) && init_take_agent(x, a->agent ? a->agent : agent, e) < 0))
		return -e->code;
	if (!a->image)
		return 0;
	if (a->backend &&
	    (!x->answers.backend || !str_eq(x->answers.backend, with_images(x)->backend)))
		return err_refuse(e, ERR_USAGE, EINVAL, "leave out --backend, or say docker",
				  "an image needs a backend that runs images");
	x->answers.backend = with_images(x)->backend;
	return 0;
}

/* ---- where ---- */

static int cmd_init_enter(struct initiation *x, int *folder, struct err *e)
{
	char cwd[PATH_MAX];

	if (x->asked.folder && chdir(x->asked.folder) < 0) {
		(void)err_sys(e, "cannot enter '%.200s'", x->asked.folder);
		return err_hint(e, "name the folder of a project that is there");
	}
	if (cli_here(cwd, e) < 0)
		return -e->code;
	if (home_kind(cwd, cli_home()) != HOME_APART)
		return err_refuse(e, ERR_POLICY, EPERM,
				  "cd to a project; settings for all of yours: "
				  "~/.config/brig/config.yaml",
				  "'%.200s' is or holds your home folder, which is no project",
				  cwd);
	if (str_has_control(cwd))
		return err_refuse(
			e, ERR_CONFIG, EINVAL, "rename it without line breaks and the like",
			"the path of this folder has a control character: no run takes it");
	*folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*folder < 0)
		return err_sys(e, "cannot open this folder");
	if (snprintf(x->path, sizeof(x->path), "%s/%s", str_eq(cwd, "/") ? "" : cwd, INIT_FILE) >=
	    (int)sizeof(x->path))
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "the path of this folder is too long");
	return 0;
}

/* A file of a folder above, which holds here until this one is written. */
static void tell_above(const struct initiation *x)
{
	CLEANUP(spec) struct spec *s = NULL;
	CLEANUP(buf) struct buf text = BUF_INIT(3 * PATH_MAX);
	char cwd[PATH_MAX];
	const struct config_place at = { .cwd = cwd, .home = cli_home(), .environ = environ };
	const char *above = NULL;
	struct err e = { 0 };

	s = spec_new(&e);
	if (!s || cli_here(cwd, &e) < 0 || config_find_project(s, &at, &above, &e) < 0 || !above ||
	    str_eq(above, x->path))
		return;
	buf_printf(&text, "until now '%s' holds here; the new file takes its place in this folder",
		   above);
	message_print("brig: note", buf_str(&text));
}

/* ---- doing ---- */

/* Never leaves a file that a run would refuse. */
static int check_text(const struct initiation *x, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	const struct source src = { .name = INIT_FILE,
				    .home = cli_home(),
				    .folder = "/",
				    .origin = ORIGIN_PROJECT,
				    .trusted = true };
	enum dialect was;

	if (!s)
		return -e->code;
	if (x->text.failed)
		return err_nomem(e);
	return config_read_text(s, buf_str(&x->text), x->text.len, DIALECT_BRIG, &src, &was, e);
}

static int get_image(struct initiation *x, struct err *e)
{
	bool told = false;
	int r;

	if (!x->asked.image)
		return 0;
	if (x->asked.image_ref && doctor_has_image(x->asked.image_ref)) {
		x->image_done = "there is";
		return 0;
	}
	if (x->asked.image_ref)
		r = sandbox_pull(NULL, x->answers.image, progress_note, &told, e);
	else
		r = sandbox_build(INIT_IMAGE, worker_dockerfile, x->asked.base, progress_note,
				  &told, e);
	progress_clear();
	if (r == 0)
		x->image_done = x->asked.image_ref ? "pulled" : "built";
	return r;
}

/* The bytes are those of our memory, whatever the disk says by now. */
static int allow_it(struct initiation *x, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	const struct config_place at = {
		.cwd = "/", .home = cli_home(), .environ = environ, .alone = true
	};
	struct err unread = { 0 };

	if (!setup_loosens(&x->answers) || x->asked.no_allow)
		return 0;
	if (!s)
		return -e->code;
	(void)config_load(s, &at, &unread); /* says where the record is */
	if (allow_bytes(s, x->path, buf_str(&x->text), x->text.len, e) < 0)
		return err_wrap(e, "'%s' is written and not trusted yet", INIT_FILE);
	x->allowed = true;
	return 0;
}

static void examine(struct initiation *x)
{
	CLEANUP(spec) struct spec *s = NULL;
	const struct check *checks;
	struct err e = { 0 }, waits = { 0 };
	bool later = setup_loosens(&x->answers) && !x->allowed;
	size_t n;

	s = spec_new(&e);
	x->examined = true;
	/* That a file which is trusted later is not yet in force is the next step, and no fault. */
	if (!s || cli_load_reader(s, later ? &waits : NULL, &e) < 0) {
		doctor_refusal(&e, &x->diagnosis);
		return;
	}
	checks = doctor_checks(s, &n);
	doctor_examine(checks, n, s, &x->diagnosis);
}

static int mend_apparmor(const struct initiation *x, struct err *e)
{
	char done[768] = "";
	int r;

	if (!x->asked.apparmor)
		return 0;
	r = doctor_fix(done, sizeof(done), e);
	if (r == 0 && done[0])
		message_log(PRIORITY_NOTICE, "brig: note", done);
	return r;
}

static int cmd_init_carry_out(struct initiation *x, int folder, struct err *e)
{
	if (mend_apparmor(x, e) < 0 || get_image(x, e) < 0 ||
	    setup_write(folder, INIT_FILE, buf_str(&x->text), x->text.len, x->asked.force, e) < 0)
		return -e->code;
	x->wrote = true;
	return allow_it(x, e);
}

/* ---- the whole ---- */

static void cmd_init_look(struct initiation *x, int folder)
{
	project_look(folder, &x->found);
	x->usable_count = doctor_usable(x->usable);
	x->restricted = !x->usable[0].ready && apparmor_state("/") == APPARMOR_RESTRICTS;
}

/* 1: go on; 0: it is only shown. */
static int consent(struct initiation *x, struct err *e)
{
	if (x->asked.dry || (!x->asked.yes && !x->asks))
		return 0;
	return x->asked.yes
		       ? 1
		       : init_confirm(
				 "write this, with remarks on what else can be set, as .brig.yaml?",
				 true, e);
}

/* A command is not run for a file that nobody could then say yes to. */
static int cmd_init_can_answer(const struct initiation *x, struct err *e)
{
	if (!x->asked.learn || x->asks || x->asked.yes || x->asked.dry)
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL,
			  "--yes writes what was learned, --dry-run prints it",
			  "there is no terminal to ask at%s, so nothing was run",
			  x->asked.json ? " with --json" : "");
}

static int go(struct initiation *x, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	int r;

	if (cmd_init_enter(x, &folder, e) < 0 ||
	    (!x->asked.dry && setup_can_write(folder, INIT_FILE, x->asked.force, e) < 0))
		return -e->code;
	x->asks = !x->asked.yes && !x->asked.dry && !x->asked.json && isatty(0) && isatty(1);
	if (cmd_init_can_answer(x, e) < 0)
		return -e->code;
	cmd_init_look(x, folder);
	tell_above(x);
	if (decide(x, e) < 0 || (x->asked.learn && init_learn(x, e) < 0))
		return -e->code;
	if (!x->asked.json)
		init_tell_found(x);
	if (x->asks && init_ask(x, e) < 0)
		return -e->code;
	if (x->asked.image && !x->answers.image)
		x->answers.image = x->asked.image_ref ? x->asked.image_ref : INIT_IMAGE;
	setup_text(&x->answers, &x->found, &x->text);
	if (check_text(x, e) < 0)
		return -e->code;
	if (!x->asked.json && !x->asked.yes)
		init_tell_text(x);
	r = consent(x, e);
	if (r > 0)
		r = cmd_init_carry_out(x, folder, e);
	if (r == 0 && x->wrote)
		examine(x);
	return r;
}

static int status_of(const struct initiation *x)
{
	if (!x->wrote)
		return x->asked.dry ? 0 : 1;
	return doctor_failed(&x->diagnosis) ? 1 : 0;
}

static int init(const struct subcommand *c, int argc, char **argv)
{
	CLEANUP(spec) struct spec *spec = NULL;
	struct initiation x = { .text = BUF_INIT(TEXT_MAX) };
	struct err e = { 0 };
	int status = EXIT_BRIG, r;

	spec = x.spec = spec_new(&e);
	r = spec ? cmd_init_parse(&x, argc, argv, &e) : -e.code;
	if (r == 0 && x.asked.help) {
		help_command(c);
		return 0;
	}
	if (r == 0)
		r = go(&x, &e);
	(void)fflush(stdout);
	if (r < 0)
		error_print(&e);
	else if (x.asked.json)
		status = init_tell_json(&x) < 0 ? EXIT_BRIG : status_of(&x);
	else
		init_tell_end(&x);
	if (r == 0 && !x.asked.json)
		status = status_of(&x);
	if (r == -ECANCELED)
		status = 1;
	buf_done(&x.text);
	return status;
}

static const char *cmd_init_word(size_t i)
{
	return i + 2 < ARRAY_LEN(own) ? own[i] : NULL; /* --help is everybody's */
}

const struct subcommand cmd_init = {
	.name = "init",
	.usage = "[OPTION...] [FOLDER] [--learn -- COMMAND [ARG...]]",
	.help = "write a .brig.yaml that fits this project and this machine",
	.about = "  -y, --yes         ask nothing; take the defaults and these options\n"
		 "  --dry-run         print what would be written, and write nothing\n"
		 "  --force           replace a .brig.yaml that is there\n"
		 "  --network WORD    none; packages: registries of what is found, to read; proxy\n"
		 "  --allow HOST      open this host or @GROUP besides; repeatable\n"
		 "  --backend NAME    auto, native, bwrap or docker\n"
		 "  --workspace MODE  direct, or overlay: brig apply puts changes there\n"
		 "  --keep-home       keep a HOME for this project, with its caches\n"
		 "  --agent NAME      " AGENTS_LISTED "or none\n"
		 "  --image[=REF]     in a container of REF, or of one built with compilers\n"
		 "  --base REF        build that image on this one (debian:12-slim)\n"
		 "  --apparmor        as root: install the profile that lets brig make namespaces\n"
		 "  --no-allow        do not trust the file; brig allow does so later\n"
		 "  --learn           run the command behind -- once, and open what it asks for\n"
		 "  --json            one object; without --yes nothing is written\n"
		 "\nAt a terminal it asks. Elsewhere it needs --yes, or prints what it would do.\n"
		 "\nexit status: 0; 1 nothing was written, or the doctor found a fault; 125 an "
		 "error\n",
	.word = cmd_init_word,
	.run = init,
};

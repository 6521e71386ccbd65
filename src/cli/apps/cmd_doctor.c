/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_doctor.c - "doctor": is this machine ready, layer by layer. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "doctor/attack.h"
#include "doctor/doctor.h"

#define TEXT_MAX ((size_t)64 << 10)
#define SET_MAX 64

struct doctor_asked {
	bool json, all, fix, help, attack;
	const char *file, *dialect, *backend;
	const char *set[SET_MAX]; /* KEY=VALUE */
	size_t set_count;
};

static int cmd_doctor_unknown(const char *word, struct err *e)
{
	static const char *const options[] = { "--all",    "--json",   "--fix",     "--help",
					       "--role",   "--config", "--dialect", "--backend",
					       "--attack", "--set",    NULL };
	const char *near = word[0] == '-' ? str_nearest(word, options) : NULL;

	(void)err_set(e, ERR_USAGE, EINVAL, "%s '%.100s'",
		      word[0] == '-' ? "unknown option" : "doctor takes no", word);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig doctor --help lists the options");
}

/* 1: it was an option with a value. */
static int cmd_doctor_take_value(int argc, char **argv, int *i, struct doctor_asked *a,
				 struct err *e)
{
	const struct {
		const char *name;
		const char **to;
	} all[] = { { "--role", &a->file },
		    { "--config", &a->file },
		    { "--dialect", &a->dialect },
		    { "--backend", &a->backend },
		    { "--set", &a->set[a->set_count < SET_MAX ? a->set_count : SET_MAX - 1] } };

	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		const struct own_option o = { .command = "doctor", .name = all[k].name };
		int r = own_option_value(&o, argc, argv, i, all[k].to, e);

		if (r > 0 && str_eq(o.name, "--set") && a->set_count++ >= SET_MAX)
			return err_refuse(e, ERR_USAGE, E2BIG,
					  "write them in a file: --config FILE",
					  "more than %d times --set", SET_MAX);
		if (r)
			return r;
	}
	return 0;
}

static int cmd_doctor_parse(int argc, char **argv, struct doctor_asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = cmd_doctor_take_value(argc, argv, &i, a, e);

		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--all"))
			a->all = true;
		else if (str_eq(argv[i], "--fix"))
			a->fix = true;
		else if (str_eq(argv[i], "--attack"))
			a->attack = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else
			return cmd_doctor_unknown(argv[i], e);
	}
	return 0;
}

static void cmd_doctor_more(bool all)
{
	const struct check *checks;
	size_t n;

	if (!all)
		return;
	(void)printf("\nwhat each check protects:\n");
	checks = doctor_checks(NULL, &n);
	for (size_t i = 0; i < n; i++)
		(void)printf("  %-20s%s\n", checks[i].name, checks[i].protects);
}

static void on_pull(void *arg UNUSED, const char *text)
{
	message_print("brig: note", text);
}

/* Stdout belongs to the object when one was asked for. */
static int cmd_doctor_told(int r, bool json, const char *done, const struct err *e)
{
	if (r < 0)
		error_print(e);
	else if (done[0])
		(void)fprintf(json ? stderr : stdout, "fix: %s\n", done);
	return r < 0;
}

static int fix(bool json, const struct spec *s)
{
	char done[768] = "";
	struct err e = { 0 };
	int r = cmd_doctor_told(doctor_fix(done, sizeof(done), &e), json, done, &e);

	return cmd_doctor_told(doctor_fix_image(s, on_pull, done, sizeof(done), &e), json, done,
			       &e) |
	       r;
}

/* A person is told what to do; who reads it by a program, or names a file, gets every line. */
static int cmd_doctor_show(const struct diagnosis *d, const struct doctor_asked *a)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct json j;

	if (a->json) {
		json_init(&j, &out, true);
		doctor_json(d, &j);
		buf_putc(&out, '\n');
	} else {
		doctor_text(d, !a->all && !a->file && isatty(STDOUT_FILENO), &out);
	}
	if (out.failed || fputs(buf_str(&out), stdout) == EOF || fflush(stdout) == EOF)
		return EXIT_BRIG;
	return doctor_failed(d) ? 1 : 0;
}

/* The configuration a run here would have: what was named, or all the usual layers. */
static int cmd_doctor_load(const struct doctor_asked *a, struct spec *s, struct err *e)
{
	if ((a->file && spec_set(s, FIELD_CONFIG, a->file, ORIGIN_FLAG, e) < 0) ||
	    (a->dialect && spec_set(s, FIELD_DIALECT, a->dialect, ORIGIN_FLAG, e) < 0) ||
	    (a->backend && spec_set(s, FIELD_BACKEND, a->backend, ORIGIN_FLAG, e) < 0))
		return -e->code;
	for (size_t i = 0; i < a->set_count; i++)
		if (options_set(s, a->set[i], e) < 0)
			return -e->code;
	return cli_load(s, e);
}

static int attack(const struct doctor_asked *a, const struct spec *s)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct report r;
	struct err e = { 0 };
	struct json j;

	if (attack_all(a->backend, s, &r, &e) < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (a->json) {
		json_init(&j, &out, true);
		attack_json(&r, &j);
		buf_putc(&out, '\n');
	} else {
		attack_text(&r, &out);
	}
	if (out.failed || fputs(buf_str(&out), stdout) == EOF || fflush(stdout) == EOF)
		return EXIT_BRIG;
	return attack_broke(&r) ? 1 : 0;
}

static int examine(const struct doctor_asked *a, const struct spec *s)
{
	const struct check *checks;
	struct diagnosis d;
	int fixed = a->fix ? fix(a->json, s) : 0, status;
	size_t n;

	checks = doctor_checks(s, &n);
	doctor_examine(checks, n, s, &d);
	status = cmd_doctor_show(&d, a);
	return status ? status : fixed;
}

static int doctor(const struct subcommand *c, int argc, char **argv)
{
	CLEANUP(spec) struct spec *s = NULL;
	struct doctor_asked a = { 0 };
	struct err e = { 0 };
	struct diagnosis d;

	if (cmd_doctor_parse(argc, argv, &a, &e) < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (a.help) {
		help_command(c);
		return 0;
	}
	s = spec_new(&e);
	if (!s || cmd_doctor_load(&a, s, &e) < 0) {
		if (a.attack)
			return error_print(&e), EXIT_BRIG;
		doctor_refusal(&e, &d);
		return cmd_doctor_show(&d, &a);
	}
	return a.attack ? attack(&a, s) : examine(&a, s);
}

const struct subcommand cmd_doctor = {
	.name = "doctor",
	.usage = "[--role FILE | --config FILE] [--backend NAME] [--set KEY=VALUE] [--attack] "
		 "[--all] [--json] [--fix]",
	.help = "check whether sandboxes work here, and how to fix what does not",
	.about = "  --role FILE       what this role needs, in the words of its dialect\n"
		 "  --config FILE     the same for any configuration file\n"
		 "  --dialect NAME    what the file is written in, if its content does not say\n"
		 "  --backend NAME    as if the configuration named this one\n"
		 "  --set KEY=VALUE   the same for any setting, as in brig run\n"
		 "  --attack          attack a sandbox of each backend, and the same outside as a\n"
		 "                    control; print what held\n"
		 "  --all             every check; at a terminal only what needs a look is shown\n"
		 "  --json            one object: schema, ready, checks\n"
		 "  --fix             install what can be installed: as root, an AppArmor profile\n"
		 "                    that lets brig alone make user namespaces; under backend\n"
		 "                    docker, the image if it is missing or over 90 days old\n"
		 "  --help=all        also what each check protects\n",
	.exits = "0 ready; 1 something that is needed is missing",
	.more = cmd_doctor_more,
	.run = doctor,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_doctor.c - "doctor": is this machine ready, layer by layer. */
#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "doctor/doctor.h"

#define TEXT_MAX ((size_t)64 << 10)

struct asked {
	bool json, fix, help;
};

static int unknown(const char *word, struct err *e)
{
	static const char *const options[] = { "--json", "--fix", "--help", NULL };
	const char *near = word[0] == '-' ? str_nearest(word, options) : NULL;

	(void)err_set(e, ERR_USAGE, EINVAL, "%s '%.100s'",
		      word[0] == '-' ? "unknown option" : "doctor takes no", word);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig doctor --help lists the options");
}

static int parse(int argc, char **argv, struct asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--fix"))
			a->fix = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else
			return unknown(argv[i], e);
	}
	return 0;
}

static int help(const struct command *c)
{
	help_command(c);
	(void)printf("\nwhat each check protects:\n");
	for (size_t i = 0; i < doctor_check_count; i++)
		(void)printf("  %-18s%s\n", doctor_checks[i].name, doctor_checks[i].protects);
	return 0;
}

/* Stdout belongs to the object when one was asked for. */
static int fix(bool json)
{
	char done[512] = "";
	struct err e = { 0 };

	if (doctor_fix(done, sizeof(done), &e) < 0) {
		error_print(&e);
		return 1;
	}
	(void)fprintf(json ? stderr : stdout, "fix: %s\n", done);
	return 0;
}

static int show(const struct diagnosis *d, bool json)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	struct json j;

	if (json) {
		json_init(&j, &out, true);
		doctor_json(d, &j);
		buf_putc(&out, '\n');
	} else {
		doctor_text(d, &out);
	}
	if (out.failed || fputs(buf_str(&out), stdout) == EOF || fflush(stdout) == EOF)
		return EXIT_BRIG;
	return doctor_failed(d) ? 1 : 0;
}

static int doctor(const struct command *c, int argc, char **argv)
{
	struct asked a = { 0 };
	struct err e = { 0 };
	struct diagnosis d;
	int fixed = 0, status;

	if (parse(argc, argv, &a, &e) < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (a.help)
		return help(c);
	if (a.fix)
		fixed = fix(a.json);
	doctor_examine(doctor_checks, doctor_check_count, &d);
	status = show(&d, a.json);
	return status ? status : fixed;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.usage = "[--json] [--fix]",
	.help = "say whether sandboxes can be made here, layer by layer, and what mends it",
	.about = "  --json            one object: schema, ready, checks\n"
		 "  --fix             install what can be installed: as root, an AppArmor profile\n"
		 "                    that lets brig alone make user namespaces\n"
		 "\nexit status: 0 ready; 1 something that is needed is missing\n",
	.run = doctor,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_examples.c - "examples": what people begin with, out of the program itself. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "apps/setup/examples.h"
#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/files/config.h"

#define LIST_MAX ((size_t)256 << 10)

static int cmd_examples_list(bool as_json)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);
	struct json j;

	json_init(&j, &b, true);
	json_object(&j);
	json_ku64(&j, "schema", 1);
	json_karray(&j, "examples");
	for (size_t i = 0; i < example_count; i++) {
		if (!as_json)
			(void)printf("%-20s%s\n", examples[i].name, examples[i].summary);
		json_object(&j);
		json_kstr(&j, "name", examples[i].name);
		json_kstr(&j, "summary", examples[i].summary);
		json_karray(&j, "files");
		for (size_t k = 0; k < examples[i].count; k++)
			json_str(&j, examples[i].files[k].name);
		json_array_end(&j);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	if (as_json)
		(void)printf("%s\n", buf_str(&b));
	return 0;
}

/* All of it, or one file as it is. */
static int cmd_examples_show(const struct example *x, const char *name, struct err *e)
{
	bool any = false;

	for (size_t i = 0; i < x->count; i++) {
		const struct example_file *f = &x->files[i];

		if (name && !str_eq(f->name, name))
			continue;
		if (!name && i)
			(void)printf("\n==> %s <==\n", f->name);
		(void)fwrite(f->data, 1, f->size, stdout);
		any = true;
	}
	return any ? 0
		   : err_refuse(e, ERR_USAGE, ENOENT, "brig examples show NAME has all of them",
				"example '%s' has no file '%.60s'", x->name, name);
}

/* An example that is one file: into this folder, under its own name, and trusted as it is, since
 * every byte of it is brig's own. */
static int copy_alone(const struct example *x, const struct example_file *f, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	char cwd[PATH_MAX], path[PATH_MAX + 64];
	const struct config_place at = {
		.cwd = "/", .home = cli_home(), .environ = environ, .alone = true
	};
	struct err unread = { 0 };

	if (!s || cli_here(cwd, e) < 0 || example_copy_file(f, e) < 0)
		return -e->code;
	(void)snprintf(path, sizeof(path), "%s/%s", str_eq(cwd, "/") ? "" : cwd, f->name);
	(void)config_load(s, &at, &unread); /* says where the record is */
	if (allow_bytes(s, path, f->data, f->size, e) < 0)
		return err_wrap(e, "'%s' is written and not trusted yet", f->name);
	message_answer("copied", f->name);
	(void)printf("next:\n  brig agent %s -p \"Use python to compute 2**100\"\n"
		     "  brig examples show %s\n",
		     f->name, x->name);
	return 0;
}

/* The only one beside its README; NULL: there are more. */
static const struct example_file *only_file(const struct example *x)
{
	const struct example_file *only = NULL;

	for (size_t i = 0; i < x->count; i++)
		if (!str_eq(x->files[i].name, "README.md")) {
			if (only)
				return NULL;
			only = &x->files[i];
		}
	return only && str_starts(only->name, x->name) ? only : NULL;
}

static int cmd_examples_copy(const struct example *x, const char *folder, struct err *e)
{
	CLEANUP(buf)
	struct buf line = BUF_INIT((size_t)16 << 10), shown = BUF_INIT((size_t)32 << 10);

	if (example_copy(x, folder, e) < 0)
		return -e->code;
	buf_put_word(&line, folder);
	clean_put(&shown, buf_str(&line), line.len);
	message_answer("copied", x->name);
	for (size_t i = 0; i < x->count; i++)
		(void)printf("  %s\n", x->files[i].name);
	(void)printf("next:\n  cd %s\n  cat README.md\n", buf_str(&shown));
	return 0;
}

static int cmd_examples_usage(const struct subcommand *c, struct err *e)
{
	(void)err_set(e, ERR_USAGE, EINVAL, "examples takes: list, show NAME, copy NAME");
	return err_hint(e, "usage: brig %s %s", c->name, c->usage);
}

static int act(const struct subcommand *c, int argc, char **argv, struct err *e)
{
	const char *verb = argc > 1 ? argv[1] : "list";
	bool as_json = argc == 3 && str_eq(argv[2], "--json");
	const struct example *x;

	if (str_eq(verb, "--json") && argc == 2)
		return cmd_examples_list(true);
	if (str_eq(verb, "list") && (argc <= 2 || as_json))
		return cmd_examples_list(as_json);
	if ((!str_eq(verb, "show") && !str_eq(verb, "copy")) || argc < 3 || argc > 4 ||
	    argv[2][0] == '-' || (argc > 3 && argv[3][0] == '-'))
		return cmd_examples_usage(c, e);
	x = example_find(argv[2], e);
	if (!x)
		return -e->code;
	if (str_eq(verb, "show"))
		return cmd_examples_show(x, argc > 3 ? argv[3] : NULL, e);
	return argc == 3 && only_file(x) ? copy_alone(x, only_file(x), e)
					 : cmd_examples_copy(x, argc > 3 ? argv[3] : x->name, e);
}

static int cmd_examples_run(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		help_command(c);
		return 0;
	}
	if (act(c, argc, argv, &e) == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_examples_word(size_t i)
{
	static const char *const verbs[] = { "list", "show", "copy" };

	if (i < ARRAY_LEN(verbs))
		return verbs[i];
	i -= ARRAY_LEN(verbs);
	return i < example_count ? examples[i].name : NULL;
}

const struct subcommand cmd_examples = {
	.name = "examples",
	.usage = "[list [--json] | show NAME [FILE] | copy NAME [FOLDER]]",
	.help = "show or copy an example to begin with",
	.about =
		"  list              what there is\n"
		"  show NAME         print its README and its files, or one FILE as it is\n"
		"  copy NAME         into a new folder NAME, or into FOLDER; one that is a single\n"
		"                    file into this folder; overwrites nothing\n",
	.word = cmd_examples_word,
	.run = cmd_examples_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/cmd_volume.c - "volume": the folders that `--volume NAME:PATH` names; lists and
 * removes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/settings/volume_rows.h"

#define TEXT_MAX ((size_t)16 << 20)

enum volume_verb { VOLUME_LIST, VOLUME_RM, VOLUME_PRUNE };
static const char *const volume_verbs[] = { "list", "rm", "prune" };

struct volume_asked {
	enum volume_verb verb;
	char **names;
	int count;
	uint64_t age; /* milliseconds; 0: not said */
	bool json, help;
};

static int older(const char *text, uint64_t *ret, struct err *e)
{
	if (num_duration(text, ret) == 0 && *ret)
		return 0;
	return err_refuse(e, ERR_USAGE, EINVAL, "for example 30d, 12h or 2w",
			  "--older does not take '%.60s'", text);
}

static int cmd_volume_parse(int argc, char **argv, struct volume_asked *a, struct err *e)
{
	int first = 1;

	for (size_t v = 0; argc > 1 && v < ARRAY_LEN(volume_verbs); v++)
		if (str_eq(argv[1], volume_verbs[v])) {
			a->verb = (enum volume_verb)v;
			first = 2;
		}
	a->names = calloc((size_t)argc, sizeof(*a->names));
	if (!a->names)
		return err_nomem(e);
	for (int i = first; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (str_eq(argv[i], "--older") && a->verb == VOLUME_PRUNE && i + 1 < argc) {
			if (older(argv[++i], &a->age, e) < 0)
				return -e->code;
		} else if (a->verb != VOLUME_RM || argv[i][0] == '-')
			return command_refuses(&cmd_volume, argv[i], e);
		else
			a->names[a->count++] = argv[i];
	}
	if (a->help || a->verb == VOLUME_LIST)
		return 0;
	if (a->verb == VOLUME_RM && !a->count)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig volume lists them",
				  "volume rm takes the name or id of a volume");
	if (a->verb == VOLUME_PRUNE && !a->age)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig volume prune --older 30d",
				  "volume prune takes --older: how long no run has used them");
	return 0;
}

static int volume_list(const struct volume_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);
	struct json j;
	int r;

	json_init(&j, &b, true);
	if (a->json) {
		json_object(&j);
		json_ku64(&j, "schema", 1);
		r = volume_rows_json(VOLUME_VOLUMES, "volumes", &j, e);
		json_object_end(&j);
		buf_putc(&b, '\n');
	} else {
		r = volume_rows_text(VOLUME_VOLUMES, &b, e);
	}
	if (r == 0)
		(void)fputs(b.len ? buf_str(&b)
				  : "no volume: brig run --volume NAME:PATH makes one\n",
			    stdout);
	return r;
}

static void say_removed(const struct volume_asked *a, const struct volume_removed *r)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct json j;

	json_init(&j, &b, true);
	if (a->json) {
		json_object(&j);
		json_ku64(&j, "schema", 1);
		json_ku64(&j, "removed", r->cleared);
		json_ku64(&j, "left", r->left);
		json_object_end(&j);
	} else {
		buf_printf(&b, "%zu removed", r->cleared);
		if (r->left)
			buf_printf(&b, ", %zu left", r->left);
	}
	(void)printf("%s\n", buf_str(&b));
}

/* A name that nobody has is an error of the user's; the others go all the same. */
static int volume_rm(const struct volume_asked *a, struct err *e)
{
	struct volume_removed all = { 0 };
	int result = 0;

	for (int i = 0; i < a->count; i++) {
		const struct volume_pick pick = { .name = a->names[i] };
		struct volume_removed one = { 0 };
		struct err why = { 0 };

		if (volume_remove(VOLUME_VOLUMES, &pick, &one, &why) == 0 && !one.cleared)
			(void)err_refuse(&why, ERR_USAGE, ENOENT, "brig volume lists them",
					 "there is no volume '%.80s'", a->names[i]);
		if (why.code && result == 0)
			*e = why;
		result = result ? result : -why.code;
		all.cleared += one.cleared;
		all.left += one.left;
	}
	say_removed(a, &all);
	return result;
}

static int volume_prune(const struct volume_asked *a, struct err *e)
{
	const struct volume_pick pick = { .before = time(NULL) - (time_t)(a->age / 1000) };
	struct volume_removed all = { 0 };
	int r = volume_remove(VOLUME_VOLUMES, &pick, &all, e);

	say_removed(a, &all);
	return r;
}

static int volume(const struct subcommand *c, int argc, char **argv)
{
	static int (*const run[])(const struct volume_asked *a, struct err *e) = {
		[VOLUME_LIST] = volume_list, [VOLUME_RM] = volume_rm, [VOLUME_PRUNE] = volume_prune
	};
	struct volume_asked a = { 0 };
	struct err e = { 0 };
	int r = cmd_volume_parse(argc, argv, &a, &e);

	if (r == 0 && a.help)
		help_command(c);
	else if (r == 0)
		r = run[a.verb](&a, &e);
	free(a.names);
	if (r == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_volume_word(size_t i)
{
	return i < ARRAY_LEN(volume_verbs) ? volume_verbs[i] : NULL;
}

static const char *cmd_volume_behind(const char *before, size_t i)
{
	return str_eq(before, "prune") && i == 0 ? "--older" : NULL;
}

const struct subcommand cmd_volume = {
	.name = "volume",
	.minor = true,
	.usage = "[list | rm NAME... | prune --older AGE] [--json]",
	.help = "show the volumes that runs have named, or remove them",
	.about =
		"  rm NAME           remove those of that name (or one, by its id); refused while\n"
		"                    a run uses it\n"
		"  prune --older 30d remove those that no run has begun with for so long\n"
		"  --json            as JSON\n",
	.word = cmd_volume_word,
	.word_behind = cmd_volume_behind,
	.run = volume,
};

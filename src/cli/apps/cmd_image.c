/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_image.c - "image": fetches or builds an image ahead of the first run that needs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/setup/examples.h"
#include "base/bytes/json.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/sys/program.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "model/files/trust.h"
#include "sandbox/manager.h"

#define DOCKERFILE_MAX ((size_t)64 << 10)
#define WORKER "ironclaw-worker:latest" /* as IronClaw's page calls it */

/* Of an engine's images; then of brig's own, which brig-bundle does. */
static const char *const verbs[] = { "pull",    "build", "import", "list",
				     "inspect", "rm",    "prune",  "verify" };

static const char *verb(size_t i)
{
	return i < sizeof(verbs) / sizeof(*verbs) ? verbs[i] : NULL;
}

static int cmd_image_usage(const struct subcommand *c)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_USAGE, EINVAL,
		      "image takes: pull REF, build [REF], import FILE, list, inspect REF, rm REF, "
		      "prune, verify");
	(void)err_hint(&e, "usage: brig %s %s", c->name, c->usage);
	error_print(&e);
	return EXIT_BRIG;
}

struct image_asked {
	const char *ref, *backend, *file, *base;
	bool as_json;
};

/* The engine runs its lines, with the engine's network, and no policy holds there: what a guest may
 * have written is built once somebody has read it. */
static int check_recipe(const char *path, const char *text, size_t n, struct err *e)
{
	CLEANUP(mem) char *real = realpath(path, NULL);
	struct err why = { 0 };

	if (!exposed_path(path, NULL, EXPOSED_SHARED, &why) || (real && trust_has(real, text, n)))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM,
		      "'%.200s' is not built: a command in a sandbox could "
		      "have written it%s",
		      path,
		      real && trust_had(real) ? ", and it has changed since it was allowed" : "");
	return err_hint(
		e, "read it, then trust it as it is now: brig allow --dialect dockerfile %.120s",
		real ? real : path);
}

/* A regular file: a pipe that a command has put there would keep us waiting. */
static ssize_t read_recipe(const char *path, char *text)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = 0, got = 1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	while (n < (ssize_t)DOCKERFILE_MAX - 1 && got > 0) {
		got = read(fd, text + n, DOCKERFILE_MAX - 1 - (size_t)n);
		if (got < 0)
			return -errno;
		n += got;
	}
	text[n] = '\0';
	return n;
}

/* From a Dockerfile that needs no other file, or from the one that is in the program. */
static int build(const struct image_asked *a, struct err *e)
{
	CLEANUP(mem) char *text = a->file ? malloc(DOCKERFILE_MAX) : NULL;
	bool told = false;
	ssize_t n = text ? read_recipe(a->file, text) : 0;

	if (a->file && n < 0)
		return err_errno(e, (int)n, "cannot read '%.200s'", a->file);
	if (a->file && (n == 0 || n >= (ssize_t)DOCKERFILE_MAX - 1))
		return err_refuse(e, ERR_USAGE, EFBIG, "docker build -t REF FOLDER builds it",
				  "'%.200s' is empty, or too long for a Dockerfile", a->file);
	if (a->file && check_recipe(a->file, text, (size_t)n, e) < 0)
		return -e->code;
	return sandbox_build(a->ref, text ? text : rust_dockerfile, a->base, progress_note, &told,
			     e);
}

static int cmd_image_get(const struct image_asked *a, bool builds)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	const char *ref = a->ref;
	struct err e = { 0 };
	bool told = false, as_json = a->as_json;
	int r = builds ? build(a, &e) : sandbox_pull(a->backend, ref, progress_note, &told, &e);

	progress_clear();
	if (r < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (as_json)
		json_quote(&text, ref, strlen(ref));
	(void)printf(as_json ? "{\"image\": %s}\n" : "%s\n", as_json ? buf_str(&text) : ref);
	return 0;
}

/* 1: it was an option, with its value; 0: it was not. */
static int cmd_image_take_value(int argc, char **argv, int *i, const char *name, const char **to)
{
	size_t n = strlen(name);

	if (str_eq(argv[*i], name) && *i + 1 < argc)
		*to = argv[++*i];
	else if (str_starts(argv[*i], name) && argv[*i][n] == '=')
		*to = argv[*i] + n + 1;
	else
		return 0;
	return 1;
}

static bool is_own_verb(const char *word)
{
	for (size_t i = 2; verb(i); i++)
		if (str_eq(word, verb(i)))
			return true;
	return false;
}

/* zlib and libzstd would make every start later. */
static int become(char **argv)
{
	struct err e = { 0 };

	argv[0] = (char[]){ "brig-image" };
	(void)program_become("brig-bundle", argv, &e);
	error_print(&e);
	return EXIT_BRIG;
}

static int cmd_image_run(const struct subcommand *c, int argc, char **argv)
{
	struct image_asked a = { 0 };
	bool builds = argc > 1 && str_eq(argv[1], verbs[1]);

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		help_command(c);
		return 0;
	}
	if (argc > 1 && is_own_verb(argv[1]))
		return become(argv);
	if (argc < 2 || (!builds && !str_eq(argv[1], verbs[0])))
		return cmd_image_usage(c);
	for (int i = 2; i < argc; i++) {
		if (builds ? cmd_image_take_value(argc, argv, &i, "-f", &a.file) ||
				     cmd_image_take_value(argc, argv, &i, "--file", &a.file) ||
				     cmd_image_take_value(argc, argv, &i, "--base", &a.base) ||
				     cmd_image_take_value(argc, argv, &i, "-t", &a.ref)
			   : cmd_image_take_value(argc, argv, &i, "--backend", &a.backend))
			continue;
		if (str_eq(argv[i], "--json"))
			a.as_json = true;
		else if (str_starts(argv[i], "-") || a.ref)
			return cmd_image_usage(c);
		else
			a.ref = argv[i];
	}
	if (builds && !a.ref)
		a.ref = WORKER;
	return a.ref ? cmd_image_get(&a, builds) : cmd_image_usage(c);
}

const struct subcommand cmd_image = {
	.name = "image",
	.minor = true,
	.usage = "import FILE | list | inspect REF | rm REF | prune | verify | pull REF | build "
		 "[REF]",
	.help = "images: brig's own, which need no engine, and an engine's",
	.about = "  import FILE       an OCI layout, folder or archive, or of docker save\n"
		 "  --name NAME       under this name, and not the one that it says\n"
		 "  list              brig's own\n"
		 "  inspect REF       what one says of itself\n"
		 "  rm REF            takes a name away, with the last one the image\n"
		 "  prune [--all]     takes away what has no name; all: what no run has\n"
		 "  verify            compares every file with its sum\n"
		 "  pull REF          by an engine, from a registry (--backend docker)\n"
		 "  build [REF]       by an engine: ironclaw-worker:latest, IronClaw's worker\n"
		 "  -f FILE           from this Dockerfile, which copies nothing in\n"
		 "  --base REF        upon this image\n"
		 "  --json            answer in JSON\n",
	.word = verb,
	.run = cmd_image_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_allow.c - "allow": trust a project's file as it stands, or no longer. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "model/config.h"
#include "model/paths.h"
#include "base/sha256.h"
#include "model/trust.h"
#include "sandbox/recorder.h"

struct asked {
	const char *file;
	bool revoke, help;
};

static int parse(int argc, char **argv, struct asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--revoke"))
			a->revoke = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (argv[i][0] != '-' && !a->file)
			a->file = argv[i];
		else
			return err_set(e, ERR_USAGE, EINVAL, "allow takes no '%.100s'", argv[i]),
			       err_hint(e, "brig allow --help says what it takes");
	}
	return 0;
}

/* The file named, or the one a run from here would read; absolute, as the list keeps it. */
static int find(struct spec *s, const struct asked *a, const char **ret, struct err *e)
{
	const char *home = getenv("HOME");
	char cwd[PATH_MAX];
	struct config_place at = { .cwd = cwd,
				   .home = home && home[0] == '/' ? home : NULL,
				   .environ = environ };

	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		return err_sys(e, "the current folder is gone");
	if (a->file)
		return path_resolve(s->arena, &(struct place){ .cwd = cwd, .home = at.home },
				    a->file, ret, e);
	if (config_find_project(s, &at, ret, e) < 0)
		return -e->code;
	return *ret ? 0
		    : (err_set(e, ERR_USAGE, ENOENT, "no .brig.yaml is found from here"),
		       err_hint(e, "name the file: brig allow FILE"));
}

/* On the record before it counts. The settings of the record are the user's own; a project's file
 * that cannot be read yet is no reason against trusting it. */
static int put_on_record(const char *action, const char *path, const struct buf *data,
			 struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	unsigned char sum[SHA256_SIZE];
	char hex[SHA256_HEX];
	struct err unread = { 0 };
	struct sha256 h;

	if (!s)
		return -e->code;
	(void)cli_load(s, &unread);
	sha256_init(&h);
	sha256_add(&h, buf_str(data), data->len);
	sha256_end(&h, sum);
	sha256_hex(sum, hex);
	return recorder_policy(s, action, path, data->len ? hex : NULL, e);
}

/* What does not parse is not trusted: whoever mends it later would change it anyway. */
static int trust(struct spec *s, const char *path, struct err *e)
{
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	const char *slash = strrchr(path, '/');
	struct source src = { .name = path,
			      .folder = arena_strndup(s->arena, path,
						      slash > path ? (size_t)(slash - path) : 1),
			      .home = getenv("HOME"),
			      .origin = ORIGIN_PROJECT,
			      .trusted = true };
	enum dialect was;
	struct stat st;

	if (!src.folder)
		return err_nomem(e);
	if (config_slurp(path, &data, &st, e) < 0 ||
	    config_read_text(s, buf_str(&data), data.len, DIALECT_BRIG, &src, &was, e) < 0)
		return -e->code;
	if (put_on_record("allow", path, &data, e) < 0)
		return -e->code;
	return trust_add(path, buf_str(&data), data.len, e);
}

static int change(const struct asked *a, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	const char *path = NULL;
	int r;

	if (!s || find(s, a, &path, e) < 0 || !path)
		return -e->code;
	if (!a->revoke) {
		if (trust(s, path, e) < 0)
			return -e->code;
		(void)printf("%s: trusted as it stands; a change ends that\n", path);
		return 0;
	}
	r = put_on_record("revoke", path, &(struct buf){ 0 }, e);
	if (r == 0)
		r = trust_remove(path, e);
	if (r >= 0)
		(void)printf("%s: %s\n", path, r ? "no longer trusted" : "was not trusted");
	return r < 0 ? r : 0;
}

static int allow(const struct command *c, int argc, char **argv)
{
	struct asked a = { 0 };
	struct err e = { 0 };

	if (parse(argc, argv, &a, &e) == 0) {
		if (a.help) {
			help_command(c);
			return 0;
		}
		if (change(&a, &e) == 0)
			return 0;
	}
	error_print(&e);
	return EXIT_BRIG;
}

const struct command cmd_allow = {
	.name = "allow",
	.usage = "[--revoke] [FILE]",
	.help = "trust a project's .brig.yaml as it stands, so that it may loosen settings",
	.about = "  --revoke          trust it no longer\n\n"
		 "Without FILE: the .brig.yaml that a run from here would read.\n",
	.run = allow,
};

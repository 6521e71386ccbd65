/* SPDX-License-Identifier: Apache-2.0 */
/* cli/settings/cmd_allow.c - "allow": trust a project's file as it stands, or no longer. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/files/bundles.h"
#include "model/files/config.h"
#include "model/files/settings_used.h"
#include "model/files/show.h"
#include "model/files/trust.h"
#include "model/settings/paths.h"
#include "sandbox/recorder.h"

#define RECIPE "dockerfile" /* what brig image build takes */

struct allow_asked {
	const char *file, *dialect;
	bool revoke, json, help;
};

static int cmd_allow_parse(int argc, char **argv, struct allow_asked *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--revoke"))
			a->revoke = true;
		else if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			a->help = true;
		else if (str_eq(argv[i], "--dialect") && i + 1 < argc)
			a->dialect = argv[++i];
		else if (argv[i][0] != '-' && !a->file)
			a->file = argv[i];
		else
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "brig allow --help says what it takes",
					  "allow does not accept '%.100s'", argv[i]);
	}
	return 0;
}

/* The settings that hold here without the project's file: what it loosens is measured by them, and
 * the record is the user's own. A file of the user's that cannot be read is no reason against
 * trusting this one. */
static struct spec *without_project(const struct config_place *at, struct err *e)
{
	struct spec *s = spec_new(e);
	struct err unread = { 0 };

	if (s)
		(void)config_load(s, at, &unread);
	return s;
}

/* The file named, or the one a run from here would read; absolute, as the list keeps it. */
static int cmd_allow_find(struct spec *s, const struct allow_asked *a,
			  const struct config_place *at, const char **ret, struct err *e)
{
	char role[PATH_MAX];
	int r = a->file ? cli_bundle(a->file, role, e) : 1;

	if (r < 0)
		return r;
	if (r == 0) {
		*ret = arena_strdup(s->arena, role);
		return *ret ? 0 : err_nomem(e);
	}
	if (a->file)
		return path_resolve(s->arena, &(struct place){ .cwd = at->cwd, .home = at->home },
				    a->file, ret, e);
	if (config_find_project(s, at, ret, e) < 0)
		return -e->code;
	return *ret ? 0
		    : err_refuse(e, ERR_USAGE, ENOENT, "name the file: brig allow FILE",
				 "no .brig.yaml is found from here");
}

/* Once: what is shown, recorded and trusted are the same bytes. No link is followed, and what would
 * keep us waiting is refused. */
static int read_once(const char *path, struct buf *data, struct err *e)
{
	CLEANUP(fd)
	int fd = fd_open_nolinks(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	CLEANUP(mem) char *real = NULL;
	struct stat st;

	if (fd == -ELOOP) {
		real = realpath(path, NULL);
		(void)err_set(e, ERR_POLICY, ELOOP,
			      "'%.200s' is, or passes through, a symbolic link", path);
		return real ? err_hint(e, "use '%.90s'", real) : -e->code;
	}
	if (fd < 0) {
		(void)err_errno(e, fd, "cannot open '%.200s'", path);
		return err_hint(e, "name a file that is there and that you can read");
	}
	return config_slurp_fd(fd, path, data, &st, e);
}

/* What is said of a file, as lines or as members of an object. */
struct telling {
	const struct spec *spec;
	struct json *json; /* NULL: lines */
	bool any;
};

/* A stranger's words. */
static void tell_text(const struct telling *t, const char *key, const char *what, const char *text)
{
	CLEANUP(buf) struct buf line = BUF_INIT(4096);

	if (t->json)
		json_kstr(t->json, key, text);
	if (!text || t->json)
		return;
	clean_put(&line, text, strlen(text));
	(void)printf("  %s: %s\n", what, buf_str(&line));
}

/* A number of bytes or milliseconds, as people write it. */
static void cmd_allow_put_words(struct buf *b, enum field_id id)
{
	bool size = fields[id].type == FIELD_T_SIZE;
	uint64_t v = strtoull(buf_str(b), NULL, 10);
	char text[64];

	if ((!size && fields[id].type != FIELD_T_DURATION) || !b->len ||
	    strspn(b->data, "0123456789") != b->len)
		return;
	(size ? num_size_text : num_duration_text)(v, text, sizeof(text));
	b->len = 0;
	buf_puts(b, text);
}

/* A map as a file has it, a line for each of its members. */
static void tell_map(const struct jread *map, int indent)
{
	for (void *it = jread_first(map); it; it = jread_next(map, it)) {
		CLEANUP(buf) struct buf line = BUF_INIT((size_t)8 << 20);
		CLEANUP(buf) struct buf value = BUF_INIT((size_t)4 << 20);
		bool below = jread_kind(jread_value(it)) == JREAD_OBJECT;

		clean_put(&line, jread_key(it), strlen(jread_key(it)));
		buf_putc(&line, ':');
		if (!below) {
			jread_write(jread_value(it), &value);
			buf_putc(&line, ' ');
			clean_put(&line, buf_str(&value), value.len);
		}
		(void)printf("%*s%s\n", indent, "", buf_str(&line));
		if (below)
			tell_map(jread_value(it), indent + 2);
	}
}

static void tell_value(const char *name, const struct buf *value)
{
	CLEANUP(jread) struct jread *map = NULL;
	struct err none = { 0 };

	if (buf_str(value)[0] != '{' || jread_parse(buf_str(value), value->len, &map, &none) < 0) {
		(void)printf("  %s: %s\n", name, buf_str(value));
		return;
	}
	(void)printf("  %s:\n", name);
	tell_map(map, 4);
}

static int cmd_allow_tell(void *arg, enum field_id id, const struct envvar *entry)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)4 << 20), name = BUF_INIT(4096);
	struct telling *t = arg;
	struct json j;

	json_init(&j, &b, false);
	if (entry)
		json_str(&j, entry->value);
	else
		show_value(&j, t->spec, id, true);
	buf_printf(&name, "%s%s%s", fields[id].key, entry ? "." : "", entry ? entry->name : "");
	if (t->json) {
		json_key(t->json, buf_str(&name));
		json_raw(t->json, b.data, b.len);
	} else {
		if (!entry)
			cmd_allow_put_words(&b, id);
		(void)fputs(t->any ? "" : "it loosens:\n", stdout);
		tell_value(buf_str(&name), &b);
	}
	t->any = true;
	return 0;
}

/* What a role has besides settings: who is asked, with whose key, and what may be called. */
static void tell_role(const struct telling *t)
{
	const struct chat_spec *c = &t->spec->chat;
	const struct code_spec *code = &t->spec->command.code;

	if (t->json) {
		json_kobject(t->json, "role");
	} else {
		(void)printf("it is a role, and brig agent sends its key to its server:\n");
	}
	tell_text(t, "model", "model", c->name);
	tell_text(t, "server", "server", c->base_url ? c->base_url : c->provider);
	tell_text(t, "key", "key from the variable",
		  c->key || t->json ? c->key : "(the provider's own)");
	if (t->json) {
		json_kbool(t->json, "shell", c->shell);
		json_kbool(t->json, "python", c->python);
		json_karray(t->json, "scripts");
		for (size_t i = 0; i < code->script_count; i++)
			json_str(t->json, code->scripts[i].name);
		json_array_end(t->json);
		json_object_end(t->json);
		return;
	}
	tell_text(t, NULL, "tool", c->shell ? "shell" : NULL);
	tell_text(t, NULL, "tool", c->python ? "python" : NULL);
	for (size_t i = 0; i < code->script_count; i++)
		tell_text(t, NULL, "script", code->scripts[i].name);
}

/* What does not parse is not trusted: whoever mends it later would change it anyway. That of a
 * project is brig's own; another may be a role. */
static int read_settings(struct spec *s, const char *path, const char *dialect,
			 const struct buf *data, enum dialect *was, struct err *e)
{
	enum dialect named = DIALECT_COUNT;
	const char *slash = strrchr(path, '/');
	bool own = str_ends_nocase(path, "/.brig.yaml") && !bundle_has(path);
	struct source src = {
		.name = path, .home = cli_home(), .origin = ORIGIN_PROJECT, .trusted = true
	};

	src.folder = arena_strndup(s->arena, path, slash > path ? (size_t)(slash - path) : 1);
	if (!src.folder)
		return err_nomem(e);
	if (dialect && dialect_by_name(dialect, &named, e) < 0)
		return -e->code;
	return config_read_text(s, buf_str(data), data->len, own && !dialect ? DIALECT_BRIG : named,
				&src, was, e);
}

/* Of what is no settings every line is shown. */
static void tell_lines(const struct telling *t, const struct buf *data)
{
	const char *at = buf_str(data), *end = at + data->len;

	if (t->json)
		json_kstr(t->json, "text", at);
	while (!t->json && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		CLEANUP(buf) struct buf line = BUF_INIT(CONFIG_FILE_MAX);

		clean_put(&line, at, (size_t)((stop ? stop : end) - at));
		(void)printf("  %s\n", buf_str(&line));
		at = stop ? stop + 1 : end;
	}
}

static int cmd_allow_show(const struct spec *before, const char *path, const char *dialect,
			  const struct buf *data, struct json *json, struct err *e)
{
	CLEANUP(spec) struct spec *after = spec_clone(before, e);
	struct telling t = { .spec = after, .json = json };
	enum dialect was;

	if (dialect && str_eq(dialect, RECIPE)) {
		tell_lines(&t, data);
		return 0;
	}
	if (!after || read_settings(after, path, dialect, data, &was, e) < 0)
		return -e->code;
	if (json) {
		json_kobject(json, "loosens");
	}
	(void)tighten_each(before, after, ORIGIN_PROJECT, cmd_allow_tell, &t);
	if (json)
		json_object_end(json);
	if (was == DIALECT_INITRUNNER)
		tell_role(&t);
	else if (!t.any && !json && was == DIALECT_BRIG)
		(void)printf("it loosens nothing: a run takes it as it is, trusted or not\n");
	return 0;
}

int allow_bytes(const struct spec *s, const char *path, const char *data, size_t n, struct err *e)
{
	char hex[SHA256_HEX];

	sha256_of(data, n, hex);
	if (recorder_policy(s, "allow", path, hex, e) < 0)
		return -e->code;
	return trust_add(path, data, n, e);
}

static int trust(const struct spec *s, const char *path, const char *dialect, struct json *json,
		 struct err *e)
{
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	char hex[SHA256_HEX];

	if (read_once(path, &data, e) < 0)
		return -e->code;
	sha256_of(buf_str(&data), data.len, hex);
	if (json) {
		json_kstr(json, "sha256", hex);
		json_ku64(json, "bytes", data.len);
	} else {
		(void)printf("sha256 %s, %zu bytes\n", hex, data.len);
	}
	/* It may be of another dialect from now on. */
	if (cmd_allow_show(s, path, dialect, &data, json, e) < 0 ||
	    allow_bytes(s, path, buf_str(&data), data.len, e) < 0 || settings_forget(path, e) < 0)
		return -e->code;
	if (!json)
		(void)printf("%s: trusted as it is now; any change ends that\n", path);
	return 0;
}

static int untrust(const struct spec *s, const char *path, struct json *json, struct err *e)
{
	int r = recorder_policy(s, "revoke", path, NULL, e);

	if (r == 0)
		r = trust_remove(path, e);
	if (r < 0)
		return r;
	if (json)
		json_kbool(json, "was_trusted", r);
	else
		(void)printf("%s: %s\n", path, r ? "no longer trusted" : "was not trusted");
	return 0;
}

static int cmd_allow_change(const struct allow_asked *a, struct json *json, struct err *e)
{
	char cwd[PATH_MAX];
	const struct config_place at = {
		.cwd = cwd, .home = cli_home(), .environ = environ, .alone = true
	};
	CLEANUP(spec) struct spec *s = NULL;
	const char *path = NULL;

	if (cli_here(cwd, e) < 0)
		return -e->code;
	s = without_project(&at, e);
	if (!s || cmd_allow_find(s, a, &at, &path, e) < 0 || !path)
		return -e->code;
	if (json)
		json_kstr(json, "file", path);
	if (json)
		json_kbool(json, "trusted", !a->revoke);
	return a->revoke ? untrust(s, path, json, e) : trust(s, path, a->dialect, json, e);
}

static int cmd_allow_run(const struct subcommand *c, int argc, char **argv)
{
	CLEANUP(buf) struct buf text = BUF_INIT((size_t)16 << 20);
	struct allow_asked a = { 0 };
	struct err e = { 0 };
	struct json j;

	json_init(&j, &text, true);
	json_object(&j);
	if (cmd_allow_parse(argc, argv, &a, &e) < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (a.help) {
		help_command(c);
		return 0;
	}
	if (cmd_allow_change(&a, a.json ? &j : NULL, &e) < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	json_object_end(&j);
	if (a.json)
		(void)printf("%s\n", buf_str(&text));
	return 0;
}

const struct subcommand cmd_allow = {
	.name = "allow",
	.usage = "[--revoke] [--dialect NAME] [--json] [FILE | BUNDLE]",
	.help = "trust a file of settings, a role or a bundle as it is now",
	.about =
		"  --revoke          trust it no longer\n"
		"  --dialect NAME    what FILE is written in, where it does not say so itself;\n"
		"                    dockerfile: for brig image build\n"
		"  --json            one object: file, digest, what it loosens, the role\n"
		"\n"
		"Without FILE: the .brig.yaml that a run from here would read. Prints its digest\n"
		"and every setting that it loosens. A role may then have the variable that it\n"
		"names sent to the server that it names (brig agent). BUNDLE is NAME[@VERSION] of\n"
		"an installed bundle: its role runs once it was allowed.\n",
	.run = cmd_allow_run,
};

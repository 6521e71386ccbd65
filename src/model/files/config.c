/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/config.c - the layers, read so that what is stronger has the last word.
 *
 * Flags are in the spec before the first layer is read, and every value carries its origin: a
 * weaker layer can neither overwrite them nor one another's betters, whatever the order. The
 * project's file comes last all the same: by then the spec says what would hold without it, which
 * is what an untrusted file is measured by. */
#include "model/files/config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/exposed.h"
#include "base/text/str.h"
#include "model/dialect/foreign.h"
#include "model/files/bundles.h"
#include "model/files/config_word.h"
#include "model/files/project_file.h"
#include "model/files/trust.h"
#include "model/settings/paths.h"

#define SYSTEM_FILE "/etc/brig/config.yaml"
#define VARIABLES_MAX 256 /* SANDBOX_* in the environment */

/* Another user's word about what may be run here would be that user's way in. */
static int check_owner(const char *path, const struct stat *st, struct err *e)
{
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(e, ERR_POLICY, EPERM, "'%.200s' belongs to another user", path);
	if (st->st_mode & S_IWOTH) {
		(void)err_set(e, ERR_POLICY, EPERM, "'%.200s' can be written by everybody", path);
		return err_hint(e, "chmod o-w '%.200s'", path);
	}
	return 0;
}

static int folder_of(struct arena *a, const char *path, const char **ret, struct err *e)
{
	const char *slash = strrchr(path, '/');

	*ret = arena_strndup(a, path, slash > path ? (size_t)(slash - path) : 1);
	return *ret ? 0 : err_nomem(e);
}

static const char *config_variable(const struct config_place *at, const char *name)
{
	size_t n = strlen(name);

	for (char *const *v = at->environ; v && *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

/* A file that need not be there, in brig's own dialect. */
static int load_own(struct spec *s, const struct config_place *at, const char *path,
		    enum origin origin, struct err *e)
{
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct source src = {
		.name = path,
		.home = at->home,
		.cwd = at->cwd,
		.origin = origin,
		.ceiling = at->ceiling,
	};
	const struct config_word word = { .path = path, .data = &data };
	enum dialect was;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return err_sys(e, "cannot open '%.200s'", path);
	if (config_slurp_fd(fd, path, &data, &st, e) < 0 || check_owner(path, &st, e) < 0 ||
	    folder_of(s->arena, path, &src.folder, e) < 0)
		return -e->code;
	return config_take_word(s, at, &word, DIALECT_BRIG, &src, &was, e);
}

const char *config_user_file(struct spec *s, const struct config_place *at)
{
	const char *base = config_variable(at, "XDG_CONFIG_HOME");

	if (at->user_file)
		return at->user_file;
	if (base && base[0] == '/')
		return arena_printf(s->arena, "%s/brig/config.yaml", base);
	return at->home ? arena_printf(s->arena, "%s/.config/brig/config.yaml", at->home) : NULL;
}

static int load_user(struct spec *s, const struct config_place *at, struct err *e)
{
	const char *path = config_user_file(s, at), *base = config_variable(at, "XDG_CONFIG_HOME");

	if (path)
		return load_own(s, at, path, ORIGIN_USER, e);
	return at->home || (base && base[0] == '/') ? err_nomem(e) : 0;
}

/* A bundle's files are a stranger's until their exact content was allowed, whatever stands in their
 * place by now. */
static int check_bundle(const char *path, const char *full, const struct buf *data, struct err *e)
{
	CLEANUP(mem) char *real = realpath(path, NULL); /* NULL: of a pipe */

	if (!bundle_has(full) && !(real && bundle_has(real)))
		return 0;
	if (real && trust_has(real, buf_str(data), data->len))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "'%.200s' is of a bundle, and %s", full,
		      real && trust_had(real) ? "has changed since it was allowed"
					      : "nobody has allowed it");
	return err_hint(e, "read it, then: brig allow %.200s", real ? real : full);
}

/* A role names a server and the variable that is its key: did the user agree to that? By its name,
 * or the one behind links, as `brig allow` wants it. */
static bool is_trusted(const struct spec *s, const char *path, const struct buf *data)
{
	char real[PATH_MAX];

	if (!s->chat.base_url && !s->chat.key)
		return false;
	return trust_has(path, buf_str(data), data->len) ||
	       (realpath(path, real) && trust_has(real, buf_str(data), data->len));
}

/* --config. The path is opened as it was written; "~" is for shells that did not expand it. */
static int load_file(struct spec *s, const struct config_place *at, enum dialect named,
		     struct err *e)
{
	struct place here = { .cwd = at->cwd, .home = at->home };
	struct source src = {
		.name = at->file, .home = at->home, .cwd = at->cwd, .origin = ORIGIN_FILE
	};
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	struct config_word word = { .data = &data, .named = true };
	const char *full, *path = at->file;
	enum dialect was;
	struct stat st;

	if (path_resolve(s->arena, &here, at->file, &full, e) < 0)
		return err_wrap(e, "--config");
	if (folder_of(s->arena, full, &src.folder, e) < 0)
		return -e->code;
	if (path[0] != '/')
		path = path[0] == '~' ? full : arena_printf(s->arena, "%s/%s", at->cwd, path);
	if (!path)
		return err_nomem(e);
	if (config_slurp(path, &data, &st, e) < 0 || check_bundle(path, full, &data, e) < 0)
		return -e->code;
	word.path = path;
	word.pipe = S_ISFIFO(st.st_mode);
	if (config_take_word(s, at, &word, named, &src, &was, e) < 0)
		return -e->code;
	s->dialect_used = (int)was;
	s->config_file = full;
	s->config_trusted = is_trusted(s, full, &data);
	return 0;
}

/* --- IronClaw's variables --- */

/* Its own file below the home folder; one that does not speak of a sandbox is another program's
 * business. Without one, and with IronClaw asked for, the documented defaults alone. */
static int load_ironclaw_file(struct spec *s, const struct config_place *at, bool *in_play,
			      struct err *e)
{
	CLEANUP(buf) struct buf data = BUF_INIT(CONFIG_FILE_MAX);
	CLEANUP(fd) int fd = -1;
	struct source src = { .home = at->home, .cwd = at->cwd, .origin = ORIGIN_USER };
	struct config_word word = { .data = &data };
	enum dialect was;
	struct stat st;

	src.name = arena_printf(s->arena, "%s/.ironclaw/.env", at->home ? at->home : "");
	src.folder = src.name ? arena_strndup(s->arena, src.name, strlen(src.name) - 5) : NULL;
	if (!src.folder)
		return err_nomem(e);
	if (at->home)
		fd = open(src.name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && (!at->home || errno == ENOENT || errno == ENOTDIR))
		return *in_play ? ironclaw_read(s, &src, NULL, 0, e) : 0; /* defaults alone */
	if (fd < 0)
		return err_sys(e, "cannot open '%.200s'", src.name);
	if (config_slurp_fd(fd, src.name, &data, &st, e) < 0)
		return -e->code;
	if (!*in_play && !memmem(buf_str(&data), data.len, "SANDBOX_", strlen("SANDBOX_")))
		return 0;
	*in_play = true;
	if (check_owner(src.name, &st, e) < 0)
		return -e->code;
	word.path = src.name;
	return config_take_word(s, at, &word, DIALECT_IRONCLAW, &src, &was, e);
}

static int ambient_lines(struct spec *s, const struct config_place *at, struct env_line *lines,
			 size_t *count, struct err *e)
{
	size_t n = 0;

	for (char *const *v = at->environ; v && *v; v++) {
		const char *equals = str_starts(*v, "SANDBOX_") ? strchr(*v, '=') : NULL;

		if (!equals)
			continue;
		if (n == VARIABLES_MAX)
			return err_set(e, ERR_CONFIG, E2BIG, "more than %d variables SANDBOX_*",
				       VARIABLES_MAX);
		lines[n].name = arena_strndup(s->arena, *v, (size_t)(equals - *v));
		lines[n].value = equals + 1;
		lines[n].line = 0;
		if (!lines[n++].name)
			return err_nomem(e);
	}
	*count = n;
	return 0;
}

/* Whoever can set a variable of ours could run on the host: the word of a file or a flag is needed,
 * too. */
static void distrust_ambient(struct spec *s)
{
	if (s->origin[FIELD_FULL_ACCESS_OK] == ORIGIN_ENVIRONMENT)
		s->full_access_ok = false;
}

static int load_ambient(struct spec *s, const struct config_place *at, bool named, struct err *e)
{
	struct source src = { .name = "environment",
			      .folder = at->cwd,
			      .home = at->home,
			      .cwd = at->cwd,
			      .origin = ORIGIN_ENVIRONMENT };
	struct env_line lines[VARIABLES_MAX];
	bool in_play;
	size_t n = 0;

	if (at->file && s->dialect_used != DIALECT_IRONCLAW)
		return 0;
	if (ambient_lines(s, at, lines, &n, e) < 0)
		return -e->code;
	in_play = named || ironclaw_knows(lines, n);
	if (!at->file && load_ironclaw_file(s, at, &in_play, e) < 0)
		return -e->code;
	if (!in_play)
		return 0;
	s->dialect_used = DIALECT_IRONCLAW;
	if (ironclaw_read(s, &src, lines, n, e) < 0)
		return -e->code;
	distrust_ambient(s);
	return 0;
}

/* --- the project's own file --- */

/* A file of the project's, once, and who it is. */
struct project_text {
	struct buf data;
	struct source src;
	struct config_word word;
};

static int open_project(struct spec *s, const struct config_place *at, const char *path,
			struct project_text *ret, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	ret->src = (struct source){
		.name = path, .home = at->home, .cwd = at->cwd, .origin = ORIGIN_PROJECT
	};
	ret->word = (struct config_word){ .path = path, .data = &ret->data, .project = true };
	if (fd < 0)
		return errno == ELOOP
			       ? err_set(e, ERR_POLICY, ELOOP, "'%.200s' is a symbolic link", path)
			       : err_sys(e, "cannot open '%.200s'", path);
	return config_slurp_fd(fd, path, &ret->data, &st, e) < 0 ||
			       folder_of(s->arena, path, &ret->src.folder, e) < 0
		       ? -e->code
		       : 0;
}

/* 1: it is trusted as it is. */
static int read_project(struct spec *s, const struct config_place *at, const char *path,
			struct err *e)
{
	struct project_text t = { .data = BUF_INIT(CONFIG_FILE_MAX) };
	const struct audit_spec audit = s->audit;
	enum dialect was;
	int r = open_project(s, at, path, &t, e);

	if (r == 0) {
		r = config_take_word(s, at, &t.word, DIALECT_BRIG, &t.src, &was, e);
		if (r < 0)
			s->audit =
				audit; /* a refused file has no say in whether that is recorded */
	}
	buf_done(&t.data);
	return r < 0 ? r : t.src.trusted;
}

/* One that somebody inside may have put out of our way: what it asks for still holds, and what it
 * grants, nobody has asked it for. */
static int read_above(struct spec *s, const struct config_place *at, const char *path,
		      struct err *e)
{
	struct project_text t = { .data = BUF_INIT(CONFIG_FILE_MAX) };
	CLEANUP(spec) struct spec *with = spec_clone(s, e);
	enum dialect was;
	int r = with ? open_project(s, at, path, &t, e) : -e->code;

	if (r == 0)
		r = config_read_text(with, buf_str(&t.data), t.data.len, DIALECT_BRIG, &t.src, &was,
				     e);
	buf_done(&t.data);
	if (r == 0)
		r = tighten_take(s, with, ORIGIN_PROJECT, e);
	return r <= 0 ? r
		      : foreign_note(
				s, e,
				"'%.250s' holds here as far as it tightens: what stands nearer "
				"may have been made by a command in a sandbox",
				path);
}

static int project_start(struct spec *s, const struct config_place *at, const char **ret,
			 struct err *e)
{
	struct place here = { .cwd = at->cwd, .home = at->home };

	*ret = NULL;
	if (s->no_workspace && !s->workdir)
		return 0;
	if (path_resolve(s->arena, &here, s->workdir ? s->workdir : at->cwd, ret, e) < 0)
		return err_wrap(e, "workdir");
	return 0;
}

int config_find_project(struct spec *s, const struct config_place *at, const char **ret,
			struct err *e)
{
	const char *start;

	*ret = NULL;
	if (project_start(s, at, &start, e) < 0)
		return -e->code;
	if (start)
		*ret = project_file_find(s->arena, at->home, start);
	return 0;
}

static int load_all(struct spec *s, const struct config_place *at, struct err *e)
{
	struct strlist above = { 0 };
	const char *start, *path;
	int r = 0;

	if (project_start(s, at, &start, e) < 0)
		return -e->code;
	if (!start)
		return 0;
	path = project_file_find(s->arena, at->home, start);
	if (path)
		r = read_project(s, at, path, e);
	if (r == 0)
		r = project_file_above(s->arena, at->home, start, path, &above, e);
	for (size_t i = 0; r == 0 && i < above.n; i++)
		r = read_above(s, at, above.v[i], e);
	return r < 0 ? r : 0;
}

static int load_project(struct spec *s, const struct config_place *at, struct err *e)
{
	return load_all(s, at, at->project ? at->project : e);
}

static const char *system_file(const struct config_place *at)
{
	return at->system_file ? at->system_file : SYSTEM_FILE;
}

int config_load_ceiling(const struct config_place *at, struct err *e)
{
	CLEANUP(spec) struct spec *rest = spec_new(e);

	if (!rest || load_own(rest, at, system_file(at), ORIGIN_SYSTEM, e) < 0)
		return -e->code;
	return load_user(rest, at, e);
}

int config_load(struct spec *s, const struct config_place *at, struct err *e)
{
	enum dialect named = DIALECT_COUNT;

	if (at->dialect && dialect_by_name(at->dialect, &named, e) < 0)
		return -e->code;
	if (at->dialect && !at->file && named != DIALECT_IRONCLAW)
		return err_refuse(e, ERR_USAGE, EINVAL, "name it with --config FILE",
				  "--dialect %s needs a file", at->dialect);
	if (exposed_check_own(e) < 0)
		return -e->code;
	/* The environment first, though it is stronger: it may say where the run works. */
	if (spec_set_environment(s, at->environ, e) < 0 ||
	    load_own(s, at, system_file(at), ORIGIN_SYSTEM, e) < 0 || load_user(s, at, e) < 0 ||
	    (at->file && load_file(s, at, named, e) < 0) ||
	    load_ambient(s, at, named == DIALECT_IRONCLAW, e) < 0)
		return -e->code;
	if (at->alone)
		return 0;
	return load_project(s, at, e) < 0 && !(at->project && at->project->code) ? -e->code : 0;
}

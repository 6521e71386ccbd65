/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request/code.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/request/code_hook.h"
#include "model/settings/envrules.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

#define RUN_NAME "_run.py"
#define FIRST_LINE_MAX 255

int code_set(struct spec *s, enum code_kind kind, const void *text, size_t n, const char *file,
	     struct err *e)
{
	char *copy;

	if (n > CODE_MAX)
		return err_refuse(e, ERR_USAGE, E2BIG,
				  "put it in the workspace: brig run -- python3 FILE",
				  "the code is longer than %zu MiB", CODE_MAX >> 20);
	copy = arena_alloc(s->arena, n + 1);
	s->command.code.file = file ? arena_strdup(s->arena, file) : NULL;
	if (!copy || (file && !s->command.code.file))
		return err_nomem(e);
	if (n)
		memcpy(copy, text, n);
	s->command.code.kind = kind;
	s->command.code.text = copy;
	s->command.code.size = n;
	return 0;
}

int code_add_arg(struct spec *s, const char *arg, struct err *e)
{
	return list_add_string(s->arena, &s->command.code.args, arg, e);
}

bool code_is_file(const struct spec *s)
{
	return s->command.code.kind == CODE_PYTHON && !s->command.code.in_place;
}

/* RLM Code runs a file of the working folder where it stands. */
static bool in_place(const struct spec *s)
{
	return s->dialect_used == DIALECT_RLM && s->command.code.file && s->workdir &&
	       !spec_over_ssh(s) && !s->private_workspace && !s->no_workspace &&
	       !(spec_in_cluster(s) && s->kube.workspace != KUBE_COPY) &&
	       !spec_wrote(s, FIELD_CODE_PATH) && path_under(s->command.code.file, s->workdir) &&
	       !str_eq(s->command.code.file, s->workdir);
}

static const char *default_path(const struct spec *s)
{
	if (s->command.code.in_place)
		return arena_printf(s->arena, "%s%s", s->inside,
				    s->command.code.file + strlen(s->workdir));
	if (s->dialect_used == DIALECT_INITRUNNER && !spec_has_layer(s))
		return arena_printf(s->arena, "%s/" RUN_NAME, s->inside);
	return CODE_FOLDER "/" RUN_NAME;
}

/* Directly in brig's own folder or at the top of the workspace: nowhere else could a mount of the
 * user's come between. */
static int check_path(const struct spec *s, const char *path, struct err *e)
{
	const char *name = strrchr(path, '/');
	size_t n = name ? (size_t)(name - path) : 0;
	bool own = n == strlen(CODE_FOLDER) && strncmp(path, CODE_FOLDER, n) == 0;
	bool work = n == strlen(s->inside) && strncmp(path, s->inside, n) == 0;

	if (!s->command.code.in_place &&
	    (!name || (!own && !work) || !name[1] || str_has_control(path) || name[1] == '.')) {
		(void)err_set(e, ERR_USAGE, EINVAL, "code.path '%.100s' cannot hold the code",
			      path);
		return err_hint(e, "a name below %s or %s", CODE_FOLDER, s->inside);
	}
	for (size_t i = 0; i < s->mounts.n; i++)
		if (path_under(s->mounts.v[i].target, CODE_FOLDER) ||
		    str_eq(s->mounts.v[i].target, path))
			return err_refuse(e, ERR_POLICY, EPERM,
					  "choose a place of its own, such as /data",
					  "mount target '%s' is where the code appears",
					  s->mounts.v[i].target);
	return 0;
}

/* A parameter that became PATH or IFS would change what the script's own words mean. */
int code_variable(const char *name, char *out, size_t n, struct err *e)
{
	static const char *const taken[] = { "PATH", "HOME", "SHELL", "USER", "LOGNAME" };
	bool refused;

	if (strlen(name) >= n)
		return err_set(e, ERR_USAGE, EINVAL, "the name of parameter '%.60s...' is too long",
			       name);
	if (!env_name_valid(name))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "letters, digits and '_', and no digit in front",
				  "'%.60s' is not a variable name", name);
	(void)snprintf(out, n, "%s", name);
	for (char *c = out; *c; c++)
		if (*c >= 'a' && *c <= 'z')
			*c = (char)(*c - 'a' + 'A');
	refused = env_steers_programs(out);
	for (size_t k = 0; k < ARRAY_LEN(taken); k++)
		refused |= str_eq(out, taken[k]);
	return refused ? err_refuse(e, ERR_POLICY, EPERM, "give the parameter another name",
				    "parameter '%.60s' would become the variable %.60s, which "
				    "steers programs",
				    name, out)
		       : 0;
}

static int parameters(struct spec *s, struct err *e)
{
	for (size_t i = 0; i < s->command.code.params.n; i++) {
		const struct envvar *p = &s->command.code.params.v[i];
		size_t room = strlen(p->name) + 1;
		char *name = arena_alloc(s->arena, room), *pair;

		if (!name)
			return err_nomem(e);
		if (code_variable(p->name, name, room, e) < 0)
			return -e->code;
		pair = arena_printf(s->arena, "%s=%s", name, p->value);
		if (!pair)
			return err_nomem(e);
		if (list_merge_env(s->arena, &s->env, pair, ORIGIN_FLAG, e) < 0)
			return err_wrap(e, "param");
	}
	return 0;
}

/* The words between the interpreter and the code's path. */
static int put_hook(struct spec *s, const char **argv, size_t *n, struct err *e)
{
	const struct code_hooks *h = &s->command.code.hooks;

	if (!h->where)
		return 0;
	if (spec_over_ssh(s))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "choose another backend, or audit_hooks_enabled: false",
				  "%.160s: backend ssh cannot honour audit_hooks_enabled",
				  h->where);
	argv[(*n)++] = "-c";
	return code_hook_program(s->arena, h, &argv[(*n)++], e);
}

static int python(struct spec *s, struct err *e)
{
	const char **argv = arena_alloc(s->arena, (s->command.code.args.n + 5) * sizeof(*argv));
	size_t n = 0;

	s->command.code.in_place = in_place(s);
	if (!spec_wrote(s, FIELD_CODE_PATH))
		s->command.code.path = default_path(s);
	if (spec_links_workspace(s) && s->command.code.path &&
	    path_under(s->command.code.path, WORKSPACE_PLACE))
		s->command.code.path = arena_printf(s->arena, "%s%s", s->inside,
						    s->command.code.path + strlen(WORKSPACE_PLACE));
	if (!argv || !s->command.code.path)
		return err_nomem(e);
	if (check_path(s, s->command.code.path, e) < 0)
		return -e->code;
	argv[n++] = s->command.code.interpreter ? s->command.code.interpreter : "python3";
	if (put_hook(s, argv, &n, e) < 0)
		return -e->code;
	argv[n++] = s->command.code.path;
	for (size_t i = 0; i < s->command.code.args.n; i++)
		argv[n++] = s->command.code.args.v[i];
	s->command.argv = argv;
	return 0;
}

/* The script's first line, "#!INTERPRETER [ARGUMENT]", as the kernel reads it: what follows the
 * interpreter is one word. */
static int first_line(const struct spec *s, const char **argv, struct err *e)
{
	const char *text = s->command.code.text, *end = memchr(text, '\n', s->command.code.size);
	size_t n = end ? (size_t)(end - text) : s->command.code.size;
	char *line, *word;

	if (n < 3 || n > FIRST_LINE_MAX || text[0] != '#' || text[1] != '!')
		return 0;
	line = arena_strndup(s->arena, text + 2, n - 2);
	if (!line)
		return err_nomem(e);
	line += strspn(line, " \t");
	for (n = strlen(line); n && strchr(" \t\r", line[n - 1]);)
		line[--n] = '\0';
	word = line + strcspn(line, " \t");
	if (line[0] != '/' || str_has_control(line))
		return 0;
	argv[0] = line;
	if (*word) {
		*word++ = '\0';
		argv[1] = word + strspn(word, " \t");
	}
	return 0;
}

static int script(struct spec *s, struct err *e)
{
	const char **argv = arena_alloc(s->arena, 3 * sizeof(*argv));

	if (!argv)
		return err_nomem(e);
	argv[0] = s->command.code.interpreter ? s->command.code.interpreter : "/bin/sh";
	if (!s->command.code.interpreter && first_line(s, argv, e) < 0)
		return -e->code;
	s->command.argv = argv;
	return 0;
}

/* What a role says of its tool is weaker than a flag, and stronger than the dialect's defaults. */
static void as_the_tool_says(struct spec *s)
{
	enum code_kind kind = s->command.code.kind;

	if (s->command.code.tool[kind].timeout && s->origin[FIELD_TIMEOUT] <= ORIGIN_FILE)
		s->command.timeout = s->command.code.tool[kind].timeout;
	if (s->command.code.tool[kind].output && s->origin[FIELD_OUTPUT] <= ORIGIN_FILE)
		s->command.output = s->command.code.tool[kind].output;
	if (!s->command.code.interpreter)
		s->command.code.interpreter = s->command.code.tool[kind].interpreter;
}

int code_resolve(struct spec *s, struct err *e)
{
	if (s->command.code.kind == CODE_NONE)
		return 0;
	as_the_tool_says(s);
	if (s->command.code.interpreter && !*s->command.code.interpreter)
		return err_refuse(e, ERR_USAGE, EINVAL, "name a program, or leave the option out",
				  "the interpreter is an empty word");
	if (parameters(s, e) < 0)
		return -e->code;
	return s->command.code.kind == CODE_PYTHON ? python(s, e) : script(s, e);
}

bool code_obeys_path(const struct spec *s, const struct envvar *path)
{
	return s->command.code.kind == CODE_NONE || path->by >= ORIGIN_API;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_run.c - run_command, run_python, run_script: one command, alone or in a box. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "sandbox/manager.h"

#define ARGV_MAX 1024
#define WORD_MAX ((size_t)128 << 10)
#define TIMEOUT_MS 120000     /* where neither the user nor the model says anything */
#define TIMEOUT_TOP_MS 600000 /* what a model may ask for where the user has said nothing */
#define TIMEOUT_ANY_MS ((uint64_t)86400000)

/* Code comes on the input where it cannot be shown as a file: the sandbox is open already. */
static const char loader[] =
	"import sys\n"
	"code = sys.stdin.buffer.read()\n"
	"sys.stdin = open('/dev/null')\n"
	"sys.argv[0] = '" CODE_FOLDER "/_run.py'\n"
	"exec(compile(code, sys.argv[0], 'exec'), {'__name__': '__main__', '__file__': "
	"sys.argv[0], '__builtins__': __builtins__})\n";

/* The first word after the switches changes folder; nothing of it is ever a shell's text. */
static const char enter[] = "cd -- \"$1\" && shift && exec \"$@\"";

/* ---- progress and end ---- */

static void keep_line(struct tool_call *c, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n') {
			c->line[c->line_len] = '\0';
			if (c->line_len && c->by.progress)
				c->by.progress(c->by.arg, c->seen, c->line);
			c->line_len = 0;
		} else if (c->line_len < sizeof(c->line) - 1) {
			c->line[c->line_len++] = p[i];
		}
	}
}

void call_output(struct tool_call *c, int stream UNUSED, const char *data, size_t n)
{
	c->seen += n;
	keep_line(c, data, n);
}

static void tool_run_on_output(void *arg, int stream, const char *data, size_t n)
{
	call_output(arg, stream, data, n);
}

static void on_run(struct loop_watch *w, uint32_t events UNUSED)
{
	struct tool_call *c = (struct tool_call *)w;
	brig_result *r = NULL;
	struct brig_error be;
	struct err e = { 0 };

	if (brig_run_dispatch(c->run))
		return;
	(void)loop_want(c->of->loop, &c->w, 0);
	(void)brig_run_finish(c->run, &r, &be);
	c->run = NULL;
	if (r) {
		if (c->box)
			box_end_call(c, result_outcome(r));
		c->ended(c, result_outcome(r));
	} else {
		(void)err_nomem(&e);
		call_fail(c, &e);
	}
	brig_result_free(r);
}

static void run_ended(struct tool_call *c, const struct outcome *o)
{
	result_run(c, o);
	call_end(c);
}

int call_start(struct tool_call *c, struct err *e)
{
	struct brig_error be;
	int r;

	if (!c->ended)
		c->ended = run_ended;
	if (is_far(c))
		return far_start(c, e);
	brig_request_on_output(c->request, tool_run_on_output, c);
	if (c->box) {
		request_apart(c->request);
		box_begin_call(c);
		r = brig_sandbox_exec(c->box->sandbox, c->request, &c->run, &be);
	} else {
		c->asker.run = &c->run;
		asker_begin(&c->asker, c->of, c->request);
		r = brig_start(c->request, &c->run, &be);
	}
	if (r < 0) {
		error_import(&be, e);
		return -e->code;
	}
	c->w = (struct loop_watch){ .fd = brig_run_fd(c->run), .ready = on_run };
	if (c->w.fd >= 0 && loop_want(c->of->loop, &c->w, EPOLLIN) == 0)
		return 0;
	/* call_free ends it. */
	return err_set(e, ERR_INTERNAL, EIO, "the command cannot be followed");
}

/* ---- what is common to all three ---- */

int call_timeout(struct tool_call *c, const struct jread *args, enum code_kind kind, struct err *e)
{
	const struct spec *s = c->of->spec;
	uint64_t tool = s->command.code.tool[kind].timeout, top = TIMEOUT_TOP_MS, asked = 0, ms;

	if (args_number(args, "timeout", 1, TIMEOUT_ANY_MS / 1000, &asked, e) < 0)
		return -e->code;
	ms = TIMEOUT_MS;
	if (spec_wrote(s, FIELD_TIMEOUT))
		ms = top = s->command.timeout ? s->command.timeout : TIMEOUT_ANY_MS;
	else if (tool)
		ms = top = tool;
	if (asked && asked * 1000 <= top)
		ms = asked * 1000;
	else if (asked)
		ms = top;
	c->timeout_ms = ms;
	return 0;
}

static int set_timeout(struct tool_call *c, const struct jread *args, enum code_kind kind,
		       struct err *e)
{
	struct brig_limits limits = { 0 };
	struct brig_error be;

	if (call_timeout(c, args, kind, e) < 0)
		return -e->code;
	if (is_far(c)) {
		far_timeout(c);
		return 0;
	}
	if (c->box) {
		limits.timeout_ms = c->timeout_ms;
		if (brig_request_limits(c->request, &limits, &be) < 0) {
			error_import(&be, e);
			return -e->code;
		}
		return 0;
	}
	request_spec(c->request)->command.timeout = c->timeout_ms;
	request_spec(c->request)->origin[FIELD_TIMEOUT] = ORIGIN_FLAG;
	return 0;
}

int call_request(struct tool_call *c, const struct jread *args, enum code_kind kind, struct err *e)
{
	if (is_far(c)) {
		if (far_request(c, args, e) < 0)
			return -e->code;
		return set_timeout(c, args, kind, e);
	}
	if (box_of(c->of, args, &c->box, e) < 0)
		return -e->code;
	c->request = c->box ? brig_sandbox_command(c->box->sandbox) : request_from(c->of->spec);
	if (!c->request)
		return err_nomem(e);
	return set_timeout(c, args, kind, e);
}

int call_argv(struct tool_call *c, const char *const *argv, struct err *e)
{
	struct brig_error be;

	if (is_far(c)) {
		far_argv(c, argv);
		return 0;
	}
	if (brig_request_argv(c->request, argv, &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	return 0;
}

static int give_input(struct tool_call *c, const char *text, struct err *e)
{
	struct brig_error be;

	if (is_far(c)) {
		far_input(c, text);
		return 0;
	}
	if (brig_request_input(c->request, text, strlen(text), &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	return 0;
}

static int set_input(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *text = NULL;

	if (args_text(args, "stdin", TOOL_FILE_MAX, &text, e) < 0)
		return -e->code;
	return text ? give_input(c, text, e) : 0;
}

/* The sandbox is open already, or somebody else's to open: code comes on the input. */
static bool is_apart(const struct tool_call *c)
{
	return c->box || is_far(c);
}

/* ---- run_command ---- */

/* Models that know other tools say `command` for either. */
static const struct jread *line_or_list(const struct jread *args, const char *key,
					enum jread_kind kind)
{
	const struct jread *v = jread_get(args, args_there(args, key) ? key : "command");

	return jread_kind(v) == kind || args_there(args, key) ? v : NULL;
}

static int read_argv(const struct jread *list, const char **argv, size_t *n, struct err *e)
{
	size_t count = jread_count(list);

	if (jread_kind(list) != JREAD_ARRAY || !count || count > ARGV_MAX)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "such as [\"ls\", \"-l\"]; for pipes and operators give 'shell'",
				  "'argv' must be a list of 1 to %d strings", ARGV_MAX);
	for (size_t i = 0; i < count; i++) {
		const char *word = jread_text(jread_at(list, i));

		if (!word || strlen(word) > WORD_MAX)
			return err_set(e, ERR_USAGE, EINVAL,
				       "'argv' must be strings of at most %zu bytes", WORD_MAX);
		argv[(*n)++] = word;
	}
	return 0;
}

static bool tool_run_names(const struct strlist *l, const char *program)
{
	const char *slash = strrchr(program, '/');

	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], slash ? slash + 1 : program))
			return true;
	return false;
}

/* A role's lists tell the model what its user would rather not see. They hold nothing: what a
 * program may do is the sandbox's to decide. */
static int check_program(const struct tool_call *c, const char *program, struct err *e)
{
	const struct strlist *allowed = &c->of->spec->command.code.tool[CODE_NONE].allowed,
			     *blocked = &c->of->spec->command.code.tool[CODE_NONE].blocked;

	if (!program)
		return allowed->n ? err_refuse(e, ERR_POLICY, EPERM, "give argv",
					       "the role allows single commands, not lines of sh")
				  : 0;
	if (tool_run_names(blocked, program) || (allowed->n && !tool_run_names(allowed, program)))
		return err_refuse(e, ERR_POLICY, EPERM,
				  "allowed_commands and blocked_commands of the role's shell tool",
				  "the role does not want '%.60s' to be run", program);
	return 0;
}

static int put_argv(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *argv[ARGV_MAX + 16] = { NULL }, *line = NULL, *folder = NULL;
	const struct jread *list = line_or_list(args, "argv", JREAD_ARRAY);
	bool one = line_or_list(args, "shell", JREAD_STRING) != NULL;
	size_t n = 0;

	if (args_text(args, args_there(args, "shell") || !one ? "shell" : "command", WORD_MAX,
		      &line, e) < 0 ||
	    args_text(args, "cwd", TOOL_PATH_MAX - 1, &folder, e) < 0)
		return -e->code;
	if (!line == !list || (args_there(args, "command") &&
			       (args_there(args, "shell") || args_there(args, "argv"))))
		return err_set(e, ERR_USAGE, EINVAL, "give either 'argv' or 'shell'");
	if (check_program(c, jread_text(jread_at(list, 0)), e) < 0)
		return -e->code;
	if (folder) {
		static const char *const words[] = { "/bin/sh", "-c", enter, "sh" };

		memcpy(argv, words, sizeof(words));
		n = ARRAY_LEN(words);
		argv[n++] = folder;
	}
	if (line) {
		argv[n++] = "/bin/sh";
		argv[n++] = "-c";
		argv[n++] = "--";
		argv[n++] = line;
	} else if (read_argv(list, argv, &n, e) < 0) {
		return -e->code;
	}
	return call_argv(c, argv, e);
}

int run_command(struct tool_call *c, const struct jread *args, struct err *e)
{

	if (call_request(c, args, CODE_NONE, e) < 0 || put_argv(c, args, e) < 0 ||
	    set_input(c, args, e) < 0)
		return -e->code;
	return call_start(c, e);
}

/* ---- run_python ---- */

int call_check_offline(const struct tool_call *c, const char *without, struct err *e)
{
	const struct spec *s = c->of->spec;
	char hint[64];

	(void)snprintf(hint, sizeof(hint), "leave '%s' out", without);
	if (s->command.code.hooks.where)
		return err_refuse(e, ERR_POLICY, EPERM,
				  is_far(c) ? "the user starts brig mcp on stdio without --daemon"
					    : hint,
				  "audit_hooks_enabled: Python code runs in a sandbox of its own "
				  "alone");
	if (!s->command.code.tool[CODE_PYTHON].offline || !c->of->reach_out)
		return 0;
	if (is_far(c))
		return err_refuse(e, ERR_POLICY, EPERM,
				  "the user starts brig mcp without --allow, or on stdio without "
				  "--daemon; or writes network_disabled: false in the role",
				  "network_disabled: the role's Python code gets no network, and "
				  "the "
				  "sandboxes of this server have one");
	return err_refuse(e, ERR_POLICY, EPERM, hint,
			  "network_disabled: Python code runs in a sandbox of its own alone");
}

/* The box has the network that this tool is not to have; and a hook is put before a file alone. */
static int check_offline(const struct tool_call *c, struct err *e)
{
	return is_apart(c) ? call_check_offline(c, "sandbox", e) : 0;
}

/* What the user has said of the network is for the tools that have one: to this call of its own it
 * is no mistake that it says nothing. */
static void pass_over_network(struct tool_call *c)
{
	struct spec *s = is_apart(c) ? NULL : request_spec(c->request);

	if (!s || !s->command.code.tool[CODE_PYTHON].offline)
		return;
	for (int id = FIELD_EGRESS_ALLOW; id <= FIELD_CREDENTIAL; id++)
		if (s->origin[id] == ORIGIN_FLAG)
			s->origin[id] = ORIGIN_USER;
	if (s->origin[FIELD_NETWORK] == ORIGIN_FLAG)
		s->origin[FIELD_NETWORK] = ORIGIN_USER;
}

static int tool_run_put_words(struct tool_call *c, const struct jread *args, const char **argv,
			      size_t *n, struct err *e)
{
	const struct jread *list = jread_get(args, "args");
	struct brig_error be;

	if (!list || jread_kind(list) == JREAD_NULL)
		return 0;
	if (jread_kind(list) != JREAD_ARRAY || jread_count(list) > ARGV_MAX)
		return err_set(e, ERR_USAGE, EINVAL, "'args' must be a list of strings");
	for (size_t i = 0; i < jread_count(list); i++) {
		const char *word = jread_text(jread_at(list, i));

		if (!word || strlen(word) > WORD_MAX)
			return err_set(e, ERR_USAGE, EINVAL, "'args' must be a list of strings");
		if (is_apart(c))
			argv[(*n)++] = word;
		else if (brig_request_arg(c->request, word, &be) < 0)
			return error_import(&be, e), -e->code;
	}
	return 0;
}

int run_python(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *argv[ARGV_MAX + 4] = { "python3", "-c", loader }, *code = NULL;
	struct brig_error be;
	size_t n = 3;
	int r;

	if (args_text(args, "code", CODE_MAX, &code, e) < 0)
		return -e->code;
	if (contexts_asked(args))
		return contexts_run(c, args, code, e);
	if (args_there(args, "restart"))
		return err_refuse(e, ERR_USAGE, EINVAL, "give the name of one as 'context'",
				  "there is no context to restart");
	if (call_request(c, args, CODE_PYTHON, e) < 0 || check_offline(c, e) < 0 ||
	    tool_run_put_words(c, args, argv, &n, e) < 0)
		return -e->code;
	pass_over_network(c);
	if (is_apart(c)) {
		r = call_argv(c, argv, e);
		if (r == 0)
			r = give_input(c, code, e);
	} else {
		r = brig_request_python(c->request, code, strlen(code), &be);
		if (r < 0)
			error_import(&be, e);
	}
	return r < 0 ? -e->code : call_start(c, e);
}

/* ---- run_script ---- */

static int put_parameter(struct tool_call *c, const char *name, const char *value, struct err *e)
{
	char upper[256];
	struct brig_error be;
	int r;

	if (!value || strlen(value) > WORD_MAX)
		return err_set(e, ERR_USAGE, EINVAL, "parameter '%.60s' must be a string", name);
	if (code_variable(name, upper, sizeof(upper), e) < 0)
		return -e->code;
	if (is_far(c)) {
		far_env(c, upper, value);
		return 0;
	}
	r = c->box ? brig_request_env(c->request, upper, value, &be)
		   : brig_request_param(c->request, name, value, &be);
	if (r < 0)
		error_import(&be, e);
	return r < 0 ? -e->code : 0;
}

static int put_parameters(struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct jread *map = jread_get(args, "params");

	if (!map || jread_kind(map) == JREAD_NULL)
		return 0;
	if (jread_kind(map) != JREAD_OBJECT)
		return err_set(e, ERR_USAGE, EINVAL, "'params' must be an object of strings");
	for (void *it = jread_first(map); it; it = jread_next(map, it))
		if (put_parameter(c, jread_key(it), jread_text(jread_value(it)), e) < 0)
			return -e->code;
	far_env_end(c);
	return 0;
}

/* By what a script is run where it comes on the input of a command; its first line may say. */
static int put_interpreter(struct tool_call *c, const char *with, const char *body, struct err *e)
{
	CLEANUP(spec) struct spec *s = NULL;

	if (with || c->box)
		return call_argv(c, (const char *const[]){ with ? with : "/bin/sh", NULL }, e);
	s = spec_clone(c->of->spec, e);
	if (!s || code_set(s, CODE_SCRIPT, body, strlen(body), NULL, e) < 0 ||
	    code_resolve(s, e) < 0)
		return -e->code;
	return call_argv(c, s->command.argv, e);
}

int run_script(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *body = NULL, *with = NULL;
	struct brig_error be;
	int r;

	if (args_text(args, "body", CODE_MAX, &body, e) < 0 ||
	    args_text(args, "interpreter", TOOL_PATH_MAX - 1, &with, e) < 0 ||
	    call_request(c, args, CODE_SCRIPT, e) < 0 || put_parameters(c, args, e) < 0)
		return -e->code;
	if (with && with[0] != '/')
		return err_set(e, ERR_USAGE, EINVAL,
			       "'interpreter' is the path of a program inside, such as /bin/bash");
	if (is_apart(c)) {
		r = put_interpreter(c, with, body, e);
		if (r == 0)
			r = give_input(c, body, e);
	} else {
		r = brig_request_script(c->request, with, body, strlen(body), &be);
		if (r < 0)
			error_import(&be, e);
	}
	return r < 0 ? -e->code : call_start(c, e);
}

/* ---- a script of the role ---- */

/* A parameter that was not given has what the role says, or nothing. */
static int put_values(struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct code_script *s = c->tool->script;

	for (size_t i = 0; i < s->parameter_count; i++) {
		const struct code_parameter *p = &s->parameters[i];
		const char *value = NULL;

		if (args_text(args, p->name, WORD_MAX, &value, e) < 0 ||
		    put_parameter(c, p->name, value ? value : p->fallback, e) < 0)
			return -e->code;
	}
	return 0;
}

/* The arguments are the script's own: none of them names a sandbox. */
static int run_far_script(struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct code_script *s = c->tool->script;
	uint64_t top = spec_wrote(c->of->spec, FIELD_TIMEOUT) ? c->of->spec->command.timeout : 0;

	if (far_request(c, NULL, e) < 0)
		return -e->code;
	c->timeout_ms = top ? top : s->timeout;
	far_timeout(c);
	if (put_values(c, args, e) < 0)
		return -e->code;
	far_env_end(c);
	if (put_interpreter(c, s->interpreter, s->body, e) < 0 || give_input(c, s->body, e) < 0)
		return -e->code;
	return call_start(c, e);
}

int run_role_script(struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct code_script *s = c->tool->script;
	struct brig_error be;

	if (is_far(c))
		return run_far_script(c, args, e);
	c->request = request_from(c->of->spec);
	if (!c->request)
		return err_nomem(e);
	if (put_values(c, args, e) < 0)
		return -e->code;
	c->timeout_ms = s->timeout;
	if (!spec_wrote(c->of->spec, FIELD_TIMEOUT)) {
		request_spec(c->request)->command.timeout = s->timeout;
		request_spec(c->request)->origin[FIELD_TIMEOUT] = ORIGIN_FLAG;
	}
	if (brig_request_script(c->request, s->interpreter, s->body, strlen(s->body), &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	return call_start(c, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox_spec.c - what `brig sandbox create` asks the daemon for.
 *
 * The daemon stands elsewhere: in "/", with another environment. Whatever depends on where this
 * process stands is settled here: files, the project's own, variables, paths. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/sandbox_cli.h"
#include "model/config.h"
#include "model/dialect/dialect.h"
#include "model/envrules.h"

static bool passes(const struct spec *s, const char *name)
{
	if (env_passes_by_default(name))
		return true;
	for (size_t i = 0; i < s->env_pass.n; i++)
		if (str_eq(s->env_pass.v[i], name))
			return true;
	return false;
}

static bool is_set(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->env.n; i++)
		if (str_eq(s->env.v[i].name, name))
			return true;
	return false;
}

/* The caller's variables that would be passed on become values. */
static int resolve_variables(struct spec *s, struct err *e)
{
	for (char **v = environ; *v; v++) {
		const char *equals = strchr(*v, '=');
		const char *name =
			equals ? arena_strndup(s->arena, *v, (size_t)(equals - *v)) : NULL;

		if (!name || str_eq(name, "TERM") || !passes(s, name) || is_set(s, name))
			continue;
		if (spec_set(s, FIELD_ENV, *v, ORIGIN_FLAG, e) < 0)
			return -e->code;
	}
	s->env_pass = (struct strlist){ 0 };
	s->origin[FIELD_ENV_PASS] = ORIGIN_DEFAULT;
	return 0;
}

/* A value that the daemon cannot look up: it does not have this process's variables. */
static int check_credentials(const struct spec *s, struct err *e)
{
	for (size_t i = 0; i < s->credentials.n; i++)
		if (s->credentials.v[i].from == FROM_ENVIRONMENT && s->network == NETWORK_PROXY)
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "take it from a file: from: {file: PATH}",
					  "credential '%s' comes from a variable, which a sandbox "
					  "of the daemon cannot have",
					  s->credentials.v[i].name);
	return 0;
}

static int resolve(struct spec *s, struct err *e)
{
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = cli_home() };

	if (cli_load(s, e) < 0 || cli_here(cwd, e) < 0 || resolve_variables(s, e) < 0 ||
	    check_credentials(s, e) < 0)
		return -e->code;
	return spec_check(s, &at, e);
}

int sandbox_spec(const struct subcommand *c, int argc, char **argv, bool local, struct buf *out,
		 int *rest, bool *agents, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	struct json j;
	int r;

	if (!s)
		return -e->code;
	r = options_parse(c, s, argc, argv, rest, e);
	if (r)
		return r;
	if (local && resolve(s, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->notes.n; i++)
		message_print("brig: note", s->notes.v[i]);
	*agents = s->dialect_used == DIALECT_AGENTS;
	json_init(&j, out, false);
	config_write_json(s, &j);
	return out->failed ? err_set(e, ERR_CONFIG, E2BIG, "the settings are too large") : 0;
}

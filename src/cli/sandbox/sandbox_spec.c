/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_spec.c - what `brig sandbox create` asks the daemon for.
 *
 * The daemon stands elsewhere: in "/", with another environment. Whatever depends on where this
 * process stands is settled here: files, the project's own, variables, paths. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/wrap/wrap_tools.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "cli/sandbox/sandbox_cli.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"
#include "model/files/config.h"
#include "model/request/volume.h"
#include "model/settings/envrules.h"

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

/* ---- values of credentials ---- */

void sandbox_secrets_done(struct sandbox_secrets *s)
{
	while (s->n)
		(void)fd_close(s->fds[--s->n]);
}

static int add_secret(struct sandbox_secrets *to, const char *name, const char *value,
		      struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (to->n == ARRAY_LEN(to->fds))
		return err_refuse(e, ERR_CONFIG, E2BIG, "take some from a file: from: {file: PATH}",
				  "more than %zu credentials come from variables",
				  ARRAY_LEN(to->fds));
	if (fd < 0 || fd_write_all(fd, name, strlen(name)) < 0 || fd_write_all(fd, "=", 1) < 0 ||
	    fd_write_all(fd, value, strlen(value)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_sys(e, "no memory file for the value of '%s'", name);
	to->fds[to->n++] = TAKE_FD(fd);
	return 0;
}

static bool comes_earlier(const struct credentiallist *l, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (l->v[i].from == FROM_ENVIRONMENT &&
		    str_eq(l->v[i].source.v[0], l->v[at].source.v[0]))
			return true;
	return false;
}

/* The daemon does not have this process's variables. Their values are not part of the spec, which
 * it writes down: they go along beside it, and no resume has them. */
static int collect_secrets(const struct spec *s, struct sandbox_secrets *to, struct err *e)
{
	struct credentiallist granted = { 0 };
	const struct credential_spec *login = NULL;

	if (s->network == NETWORK_PROXY &&
	    (credentials_granted(s->arena, s, &granted, e) < 0 ||
	     credential_login(s, &login, e) < 0 ||
	     (login && credentials_add(s->arena, &granted, login, e) < 0)))
		return -e->code;
	for (size_t i = 0; i < granted.n; i++) {
		const struct credential_spec *c = &granted.v[i];
		const char *value;

		if (c->from != FROM_ENVIRONMENT || comes_earlier(&granted, i))
			continue;
		value = getenv(c->source.v[0]);
		if (value && add_secret(to, c->source.v[0], value, e) < 0)
			return -e->code;
	}
	return 0;
}

/* A spec that is sent does not say who wrote it: the daemon would show what trusted runs have. */
static int check_strangers(const struct spec *s, struct err *e)
{
	if (!s->strangers || (!volumes_of(s) && s->home != HOME_KEEP))
		return 0;
	return err_refuse(
		e, ERR_POLICY, EPERM,
		"read the project's file, then trust it as it is now: brig allow; or leave "
		"them out",
		"%s: not in a sandbox for a project whose file nobody has trusted",
		s->volumes.n  ? "--volume"
		: s->caches.n ? "--cache"
			      : "--home keep");
}

int sandbox_resolve(struct spec *s, struct buf *out, struct sandbox_secrets *secrets, struct err *e)
{
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = cli_home() };
	struct json j;

	if (cli_here(cwd, e) < 0 || wrap_tools_stand_in(s, e) < 0 || resolve_variables(s, e) < 0 ||
	    collect_secrets(s, secrets, e) < 0 || spec_check(s, &at, e) < 0 ||
	    check_strangers(s, e) < 0)
		return -e->code;
	json_init(&j, out, false);
	config_write_json(s, &j);
	return out->failed ? err_set(e, ERR_CONFIG, E2BIG, "the settings are too large") : 0;
}

int sandbox_spec(const struct subcommand *c, int argc, char **argv, bool local, struct buf *out,
		 struct sandbox_secrets *secrets, int *rest, struct sandbox_besides *besides,
		 struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	struct json j;
	int r;

	if (!s)
		return -e->code;
	r = options_parse(c, s, argc, argv, rest, e);
	if (r)
		return r;
	if (local && cli_load(s, e) < 0)
		return -e->code;
	if (local && sandbox_resolve(s, out, secrets, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->notes.n; i++)
		message_print("brig: note", s->notes.v[i]);
	besides->agents = s->dialect_used == DIALECT_AGENTS;
	if (local)
		return 0;
	json_init(&j, out, false);
	config_write_json(s, &j);
	return out->failed ? err_set(e, ERR_CONFIG, E2BIG, "the settings are too large") : 0;
}

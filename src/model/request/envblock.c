/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request/envblock.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/envrules.h"
#include "model/request/volume.h"

int envblock_put(struct envblock *b, const char *name, const char *value, struct err *e)
{
	const char *text = arena_printf(b->arena, "%s=%s", name, value);
	size_t len = strlen(name), at = 0;

	if (!text)
		return err_nomem(e);
	while (at < b->n && (strncmp(b->v[at], name, len) != 0 || b->v[at][len] != '='))
		at++;
	b->v[at] = text;
	b->n += at == b->n;
	return 0;
}

int envblock_put_callers(struct envblock *b, struct err *e)
{
	for (char **v = environ; v && *v; v++) {
		const char *equals = strchr(*v, '=');
		const char *name =
			equals ? arena_strndup(b->arena, *v, (size_t)(equals - *v)) : NULL;

		if (name && env_passes_by_default(name) && envblock_put(b, name, equals + 1, e) < 0)
			return -e->code;
	}
	return 0;
}

int envblock_put_quiet(struct envblock *b, const struct spec *s, struct err *e)
{
	static const struct {
		const char *name, *value;
		bool always;
	} all[] = {
		{ "npm_config_fetch_retries", "0", false },
		{ "npm_config_update_notifier", "false", true },
		{ "PIP_RETRIES", "0", false },
		{ "CARGO_NET_RETRY", "0", false },
		{ "YARN_HTTP_RETRY", "0", false },
		{ "UV_HTTP_RETRIES", "0", false },
		{ "BUNDLE_RETRY", "0", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if ((all[i].always || s->network == NETWORK_NONE) &&
		    envblock_put(b, all[i].name, all[i].value, e) < 0)
			return -e->code;
	return 0;
}

int envblock_put_caches(struct envblock *b, const struct spec *s, struct err *e)
{
	struct volume v;

	for (size_t i = 0; i < s->caches.n; i++) {
		if (volume_of(s, i, &v, e) < 0)
			return -e->code;
		for (size_t k = 0; v.tool->variables[k].name; k++) {
			const char *text = v.tool->variables[k].value, *at = strstr(text, "%s");
			const char *value = arena_printf(b->arena, "%.*s%s%s", (int)(at - text),
							 text, v.target, at + 2);

			if (!value)
				return err_nomem(e);
			if (envblock_put(b, v.tool->variables[k].name, value, e) < 0)
				return -e->code;
		}
	}
	return 0;
}

int envblock_put_asked(struct envblock *b, const struct spec *s, const char **path, struct err *e)
{
	for (size_t i = 0; i < s->env_pass.n; i++) {
		const char *value = getenv(s->env_pass.v[i]);

		if (value && envblock_put(b, s->env_pass.v[i], value, e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->env.n; i++) {
		if (envblock_put(b, s->env.v[i].name, s->env.v[i].value, e) < 0)
			return -e->code;
		if (str_eq(s->env.v[i].name, "PATH") && code_obeys_path(s, &s->env.v[i]))
			*path = s->env.v[i].value;
	}
	return 0;
}

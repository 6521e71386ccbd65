/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/chat/chat_endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/text/arena.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "model/dialect/credentials.h"

#define REQUEST "/chat/completions"
#define KNOWN_MAX ((size_t)64 << 10)

/* With an endpoint that speaks as OpenAI's does. */
static const struct provider {
	const char *name, *url, *key;
} providers[] = {
	{ "openai", "https://api.openai.com/v1", "OPENAI_API_KEY" },
	{ "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY" },
	{ "google", "https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY" },
	{ "groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY" },
	{ "mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY" },
	{ "xai", "https://api.x.ai/v1", "XAI_API_KEY" },
	{ "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY" },
	{ "openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY" },
	{ "ollama", "http://localhost:11434/v1", NULL },
};

static const struct provider *provider_of(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_LEN(providers); i++)
		if (str_eq(providers[i].name, name))
			return &providers[i];
	return NULL;
}

static int endpoint_check(const struct chat_spec *c, const struct provider *p, struct err *e)
{
	if (c->slip)
		return err_set(e, ERR_CONFIG, EINVAL, "%.300s", c->slip);
	if (!c->name || !*c->name)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "spec.model in the role, or --model NAME and --base-url URL",
				  "the role names no model");
	if (!p && !c->base_url)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "base_url in spec.model, or --base-url: any OpenAI-compatible "
				  "endpoint",
				  "the address of provider '%.60s' is not known",
				  c->provider ? c->provider : "");
	return 0;
}

/* An address is nobody's name to the door: it gets one, and the door is told where that is. */
static int pin(struct chat_endpoint *to, const struct url *u, struct err *e)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	bool here = str_eq(u->host, "localhost");

	(void)snprintf(to->host, sizeof(to->host), "%s", u->host);
	(void)snprintf(to->authority, sizeof(to->authority), "%s", u->authority);
	if (!here && inet_pton(AF_INET, u->host, bytes) != 1 &&
	    inet_pton(AF_INET6, u->host, bytes) != 1)
		return 0;
	if (u->tls)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "use the name in its certificate, or http:// on this machine",
				  "base_url: https needs a name, not an address");
	(void)snprintf(to->pin, sizeof(to->pin), "%.60s", here ? "127.0.0.1" : u->host);
	(void)snprintf(to->host, sizeof(to->host), "%s", CHAT_NAME);
	(void)snprintf(to->authority, sizeof(to->authority), u->port == 80 ? "%s" : "%s:%u",
		       CHAT_NAME, u->port);
	return 0;
}

static int locate(const char *base, struct chat_endpoint *to, struct err *e)
{
	struct url u;
	size_t n;

	if (url_parse(base, &u, e) < 0)
		return err_wrap(e, "base_url");
	n = strlen(u.target);
	while (n && u.target[n - 1] == '/')
		n--;
	if (strchr(u.target, '?') || n + sizeof(REQUEST) > sizeof(to->path))
		return err_set(e, ERR_CONFIG, EINVAL, "base_url: no query, and no long path");
	to->tls = u.tls;
	to->port = u.port;
	(void)snprintf(to->path, sizeof(to->path), "%.*s" REQUEST, (int)n, u.target);
	if (pin(to, &u, e) < 0)
		return -e->code;
	(void)snprintf(to->url, sizeof(to->url), "%s://%s%s", to->tls ? "https" : "http",
		       to->authority, to->path);
	return 0;
}

int chat_endpoint(const struct chat_spec *c, struct chat_endpoint *ret, struct err *e)
{
	const struct provider *p = provider_of(c->provider);
	struct chat_endpoint to = { 0 };

	if (endpoint_check(c, p, e) < 0 || locate(c->base_url ? c->base_url : p->url, &to, e) < 0)
		return -e->code;
	to.key = c->key;
	if (!to.key && !c->base_url)
		to.key = p->key;
	/* Another server than the provider's gets the provider's key only if the role says so. */
	if (c->key && !to.tls)
		return err_refuse(e, ERR_CONFIG, EPERM,
				  "use https, or leave api_key_env out of the role",
				  "a key is not sent over plain HTTP");
	*ret = to;
	return 0;
}

bool chat_endpoint_known(const struct chat_endpoint *to)
{
	CLEANUP(arena) struct arena *a = arena_new(KNOWN_MAX);
	struct credential_spec c;
	struct err e;
	struct url u;

	if (!to->key || !to->tls || to->port != 443 || !a)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(providers); i++)
		if (providers[i].key && str_eq(providers[i].key, to->key) &&
		    url_parse(providers[i].url, &u, &e) == 0 && str_eq(u.host, to->host))
			return true;
	if (!credential_known(a, to->key, &c))
		return false;
	for (size_t i = 0; i < c.hosts.n; i++)
		if (str_eq(c.hosts.v[i], to->host))
			return true;
	return false;
}

bool chat_reasons(const struct chat_spec *c)
{
	const char *n = c->name;

	if (!c->provider || !str_eq(c->provider, "openai") || c->base_url)
		return false;
	return n[0] == 'o' || (str_starts(n, "gpt-5") && !str_starts(n, "gpt-5-chat"));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/leaks.h"

#include <assert.h>
#include <string.h>

#include "base/text/str.h"
#include "model/settings/spec_lists.h"

/* clang-format off */
const struct leak_row leak_rows[] = {
	[LEAK_OPENAI] = { "openai-key", "OpenAI API key", LEAK_BLOCK },
	[LEAK_ANTHROPIC] = { "anthropic-key", "Anthropic API key", LEAK_BLOCK },
	[LEAK_ANTHROPIC_OAUTH] = { "anthropic-oauth", "Anthropic OAuth token", LEAK_BLOCK },
	[LEAK_OPENROUTER] = { "openrouter-key", "OpenRouter key", LEAK_BLOCK },
	[LEAK_GROQ] = { "groq-key", "Groq key", LEAK_BLOCK },
	[LEAK_AWS] = { "aws-access-key", "AWS access key", LEAK_BLOCK },
	[LEAK_GITHUB] = { "github-token", "GitHub token", LEAK_BLOCK },
	[LEAK_GITHUB_PAT] = { "github-pat", "GitHub fine-grained token", LEAK_BLOCK },
	[LEAK_STRIPE] = { "stripe-live-key", "Stripe live key", LEAK_BLOCK },
	[LEAK_STRIPE_TEST] = { "stripe-test-key", "Stripe test key", LEAK_BLOCK },
	[LEAK_NEARAI] = { "nearai-session", "NEAR AI session", LEAK_BLOCK },
	[LEAK_GOOGLE] = { "google-key", "Google API key", LEAK_BLOCK },
	[LEAK_SLACK] = { "slack-token", "Slack token", LEAK_BLOCK },
	[LEAK_TWILIO] = { "twilio-key", "Twilio key", LEAK_BLOCK },
	[LEAK_SENDGRID] = { "sendgrid-key", "SendGrid key", LEAK_BLOCK },
	[LEAK_TELEGRAM] = { "telegram-token", "Telegram bot token", LEAK_BLOCK },
	[LEAK_PEM] = { "private-key", "PEM private key", LEAK_BLOCK },
	[LEAK_SSH_KEY] = { "ssh-private-key", "OpenSSH, EC or DSA private key", LEAK_BLOCK },
	[LEAK_PGP] = { "pgp-private-key", "PGP private key block", LEAK_BLOCK },
	[LEAK_PLACEHOLDER] = { "placeholder", "placeholder of a sandbox", LEAK_BLOCK },
	[LEAK_JWT] = { "jwt", "JSON web token", LEAK_REDACT },
	[LEAK_BEARER] = { "bearer-token", "Bearer and a token", LEAK_REDACT },
	[LEAK_AUTHORIZATION] = { "authorization", "Authorization field in a text", LEAK_REDACT },
	[LEAK_HEX64] = { "hex64", "64 hexadecimal digits", LEAK_WARN },
	[LEAK_GITLAB] = { "gitlab-token", "GitLab token", LEAK_BLOCK },
	[LEAK_NPM] = { "npm-token", "npm token", LEAK_BLOCK },
	[LEAK_PYPI] = { "pypi-token", "PyPI token", LEAK_BLOCK },
	[LEAK_HUGGINGFACE] = { "huggingface-token", "Hugging Face token", LEAK_BLOCK },
	[LEAK_SLACK_HOOK] = { "slack-webhook", "Slack webhook", LEAK_BLOCK },
	[LEAK_DISCORD_HOOK] = { "discord-webhook", "Discord webhook", LEAK_BLOCK },
	[LEAK_DIGITALOCEAN] = { "digitalocean-token", "DigitalOcean token", LEAK_BLOCK },
	[LEAK_SHOPIFY] = { "shopify-token", "Shopify token", LEAK_BLOCK },
	[LEAK_AGE] = { "age-key", "age secret key", LEAK_BLOCK },
	[LEAK_GOOGLE_OAUTH] = { "google-oauth", "Google OAuth token", LEAK_BLOCK },
	[LEAK_AZURE] = { "azure-storage-key", "Azure storage key", LEAK_BLOCK },
	[LEAK_VAULT] = { "vault-token", "Vault token", LEAK_BLOCK },
};
/* clang-format on */
static_assert(sizeof(leak_rows) / sizeof(*leak_rows) == LEAK_KINDS, "a row for every kind");

static const char *const actions[] = { [LEAK_OFF] = "off",
				       [LEAK_WARN] = "warn",
				       [LEAK_REDACT] = "redact",
				       [LEAK_BLOCK] = "block",
				       NULL };

int leak_kind_by_name(const char *name, enum leak_kind *ret, struct err *e)
{
	const char *words[LEAK_KINDS + 1] = { NULL }, *near;

	for (int i = 0; i < LEAK_KINDS; i++) {
		words[i] = leak_rows[i].name;
		if (str_eq(name, words[i])) {
			*ret = (enum leak_kind)i;
			return 0;
		}
	}
	near = str_nearest(name, words);
	(void)err_set(e, ERR_CONFIG, EINVAL, "unknown kind of secret '%.60s'", name);
	return near ? err_hint(e, "did you mean '%s'?", near) : -e->code;
}

int leak_action_by_name(const char *name, enum leak_action *ret, struct err *e)
{
	for (int i = 0; actions[i]; i++)
		if (str_eq(name, actions[i])) {
			*ret = (enum leak_action)i;
			return 0;
		}
	return err_refuse(e, ERR_CONFIG, EINVAL, "block, redact, warn or off",
			  "unknown action '%.60s'", name);
}

int list_merge_leak(struct arena *a, struct envlist *l, const char *text, enum origin by,
		    struct err *e)
{
	size_t n = strcspn(text, "=");
	const char *kind = arena_strndup(a, text, n);
	enum leak_action action;
	enum leak_kind k;

	if (!kind)
		return err_nomem(e);
	if (!text[n])
		return err_set(e, ERR_USAGE, EINVAL, "leak rule '%.100s' is not KIND=ACTION", text);
	if (leak_kind_by_name(kind, &k, e) < 0 || leak_action_by_name(text + n + 1, &action, e) < 0)
		return -e->code;
	return list_merge_label(a, l, text, by, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/leaks.h - the kinds of secret the leak scan knows by their shape, and what it
 * does.
 *
 * The shapes themselves are in egress/scan/shapes.c, one for each row here. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

enum leak_kind {
	LEAK_OPENAI,
	LEAK_ANTHROPIC,
	LEAK_ANTHROPIC_OAUTH,
	LEAK_OPENROUTER,
	LEAK_GROQ,
	LEAK_AWS,
	LEAK_GITHUB,
	LEAK_GITHUB_PAT,
	LEAK_STRIPE,
	LEAK_STRIPE_TEST,
	LEAK_NEARAI,
	LEAK_GOOGLE,
	LEAK_SLACK,
	LEAK_TWILIO,
	LEAK_SENDGRID,
	LEAK_TELEGRAM,
	LEAK_PEM,
	LEAK_SSH_KEY,
	LEAK_PGP,
	LEAK_PLACEHOLDER,
	LEAK_JWT,
	LEAK_BEARER,
	LEAK_AUTHORIZATION,
	LEAK_HEX64,
	/* beyond the documented ones */
	LEAK_GITLAB,
	LEAK_NPM,
	LEAK_PYPI,
	LEAK_HUGGINGFACE,
	LEAK_SLACK_HOOK,
	LEAK_DISCORD_HOOK,
	LEAK_DIGITALOCEAN,
	LEAK_SHOPIFY,
	LEAK_AGE,
	LEAK_GOOGLE_OAUTH,
	LEAK_AZURE,
	LEAK_VAULT,
	LEAK_KINDS
};

enum leak_action { LEAK_OFF, LEAK_WARN, LEAK_REDACT, LEAK_BLOCK };

struct leak_row {
	const char *name, *help;
	enum leak_action action; /* unless leaks.rules says otherwise */
};

extern const struct leak_row leak_rows[LEAK_KINDS];

int leak_kind_by_name(const char *name, enum leak_kind *ret, struct err *e);
int leak_action_by_name(const char *name, enum leak_action *ret, struct err *e);

/* KIND=ACTION, checked and merged by name. */
int list_merge_leak(struct arena *a, struct envlist *l, const char *text, enum origin by,
		    struct err *e);

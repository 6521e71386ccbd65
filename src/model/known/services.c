/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/services.h"

#include "base/text/cleanup.h"
#include "base/text/str.h"

/* Where its variable is not set. The token lives for hours; whoever made it renews it. */
static const struct login_file claude_login = {
	.file = ".claude/.credentials.json",
	.object = "claudeAiOauth",
	.token = "accessToken",
	.expires = "expiresAt",
	.renew = "start claude outside of brig once, which renews it; or claude setup-token makes "
		 "one that lasts",
};

/* After `codex login --with-api-key`; a login by ChatGPT leaves it empty. */
static const struct login_file codex_login = {
	.file = ".codex/auth.json",
	.token = "OPENAI_API_KEY",
};

/* After `codex login`. Its token lasts for days, and its host wants the account beside it. */
static const struct login_file chatgpt_login = {
	.file = ".codex/auth.json",
	.object = "tokens",
	.token = "access_token",
	.jwt = true,
	.renew = "start codex outside of brig once, which renews it",
};
static const struct login_file chatgpt_account = {
	.file = ".codex/auth.json",
	.object = "tokens",
	.token = "account_id",
};

/* After "Login with Google". It lasts for an hour. */
static const struct login_file google_login = {
	.file = ".gemini/oauth_creds.json",
	.token = "access_token",
	.expires = "expiry_date",
	.renew = "start gemini outside of brig once, which renews it for an hour; GEMINI_API_KEY "
		 "lasts",
};

#define BEARER                                                                                     \
	{                                                                                          \
		"Authorization: Bearer "                                                           \
	}

#define AWS_HOSTS                                                                                  \
	{                                                                                          \
		"*.amazonaws.com", "*.amazonaws.com.cn", "*.api.aws"                               \
	}

/* clang-format off */
const struct service services[] = {
	/* Models. */
	{ "openai", { "OPENAI_API_KEY" }, { "api.openai.com" }, BEARER, .ironclaw = true },
	{ "codex", { "CODEX_API_KEY" }, { "api.openai.com" }, BEARER, .login = &codex_login,
	  .ironclaw = true },
	/* The rest of that host is all that ChatGPT knows of its user. */
	{ "chatgpt", { "CODEX_CHATGPT_TOKEN" }, { "chatgpt.com" }, BEARER,
	  .path = "/backend-api/codex/", .login = &chatgpt_login, .ironclaw = true },
	{ "chatgpt", { "CODEX_CHATGPT_ACCOUNT" }, { "chatgpt.com" }, { "ChatGPT-Account-ID: " },
	  .path = "/backend-api/codex/", .login = &chatgpt_account, .ironclaw = true },
	{ "anthropic", { "ANTHROPIC_API_KEY" }, { "api.anthropic.com" }, { "x-api-key: " },
	  .ironclaw = true },
	{ "claude", { "CLAUDE_CODE_OAUTH_TOKEN" }, { "api.anthropic.com" }, BEARER,
	  .login = &claude_login, .ironclaw = true },
	{ "gemini", { "GEMINI_API_KEY" }, { "generativelanguage.googleapis.com" },
	  { "x-goog-api-key: " }, .ironclaw = true },
	{ "gemini", { "GOOGLE_API_KEY" }, { "generativelanguage.googleapis.com" },
	  { "x-goog-api-key: " } },
	/* The name is Gemini CLI's; the token is good for much more than this host. */
	{ "gemini-login", { "GOOGLE_CLOUD_ACCESS_TOKEN" }, { "cloudcode-pa.googleapis.com" },
	  BEARER, .login = &google_login, .ironclaw = true },
	{ "azure-openai", { "AZURE_OPENAI_API_KEY" }, { NULL },
	  { "api-key: ", "Authorization: Bearer " } },
	{ "nearai", { "NEARAI_API_KEY" }, { "api.near.ai" }, BEARER, .ironclaw = true },
	{ "openrouter", { "OPENROUTER_API_KEY" }, { "openrouter.ai" }, BEARER, .ironclaw = true },
	{ "groq", { "GROQ_API_KEY" }, { "api.groq.com" }, BEARER, .ironclaw = true },
	{ "mistral", { "MISTRAL_API_KEY" }, { "api.mistral.ai" }, BEARER, .ironclaw = true },
	{ "codestral", { "CODESTRAL_API_KEY" }, { "codestral.mistral.ai" }, BEARER },
	{ "deepseek", { "DEEPSEEK_API_KEY" }, { "api.deepseek.com" }, BEARER },
	{ "xai", { "XAI_API_KEY" }, { "api.x.ai" }, BEARER },
	{ "cohere", { "CO_API_KEY", "COHERE_API_KEY" }, { "api.cohere.com", "api.cohere.ai" },
	  BEARER },
	{ "together", { "TOGETHER_API_KEY" }, { "api.together.xyz", "api.together.ai" }, BEARER },
	{ "fireworks", { "FIREWORKS_API_KEY" }, { "api.fireworks.ai" }, BEARER },
	{ "perplexity", { "PERPLEXITY_API_KEY", "PPLX_API_KEY" }, { "api.perplexity.ai" }, BEARER },
	{ "cerebras", { "CEREBRAS_API_KEY" }, { "api.cerebras.ai" }, BEARER },
	{ "sambanova", { "SAMBANOVA_API_KEY" }, { "api.sambanova.ai" }, BEARER },
	{ "nvidia", { "NVIDIA_API_KEY" }, { "integrate.api.nvidia.com", "ai.api.nvidia.com" },
	  BEARER },
	{ "moonshot", { "MOONSHOT_API_KEY" }, { "api.moonshot.ai", "api.moonshot.cn" }, BEARER },
	{ "dashscope", { "DASHSCOPE_API_KEY" },
	  { "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com" }, BEARER },
	{ "zai", { "ZAI_API_KEY" }, { "api.z.ai" }, BEARER },
	{ "minimax", { "MINIMAX_API_KEY" }, { "api.minimax.io" }, BEARER },
	{ "huggingface", { "HF_TOKEN" }, { "huggingface.co", "router.huggingface.co" }, BEARER,
	  .git = "hf_user@huggingface.co", .ironclaw = true },
	{ "huggingface", { "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN" },
	  { "huggingface.co", "router.huggingface.co" }, BEARER },
	{ "replicate", { "REPLICATE_API_TOKEN" }, { "api.replicate.com" }, BEARER },
	{ "stability", { "STABILITY_API_KEY" }, { "api.stability.ai" }, BEARER },
	{ "fal", { "FAL_KEY" }, { "fal.run", "queue.fal.run" }, { "Authorization: Key " } },
	{ "elevenlabs", { "ELEVENLABS_API_KEY", "ELEVEN_API_KEY" }, { "api.elevenlabs.io" },
	  { "xi-api-key: " } },
	{ "deepgram", { "DEEPGRAM_API_KEY" }, { "api.deepgram.com" }, { "Authorization: Token " } },
	{ "assemblyai", { "ASSEMBLYAI_API_KEY" }, { "api.assemblyai.com" }, { "Authorization: " } },
	{ "voyage", { "VOYAGE_API_KEY" }, { "api.voyageai.com" }, BEARER },
	{ "jina", { "JINA_API_KEY" }, { "api.jina.ai", "r.jina.ai", "s.jina.ai" }, BEARER },
	{ "langsmith", { "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY" },
	  { "api.smith.langchain.com", "eu.api.smith.langchain.com" }, { "x-api-key: " } },
	{ "wandb", { "WANDB_API_KEY" }, { "api.wandb.ai" }, { "basic api" } },
	{ "e2b", { "E2B_API_KEY" }, { "api.e2b.dev", "api.e2b.app" }, { "X-API-Key: " } },

	/* Search. */
	{ "tavily", { "TAVILY_API_KEY" }, { "api.tavily.com" }, BEARER },
	{ "brave", { "BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY" }, { "api.search.brave.com" },
	  { "X-Subscription-Token: " } },
	{ "exa", { "EXA_API_KEY" }, { "api.exa.ai" }, { "x-api-key: ", "Authorization: Bearer " } },
	{ "serper", { "SERPER_API_KEY" }, { "google.serper.dev" }, { "X-API-KEY: " } },
	{ "serpapi", { "SERPAPI_API_KEY", "SERPAPI_KEY" }, { "serpapi.com" }, { "?api_key" } },
	{ "firecrawl", { "FIRECRAWL_API_KEY" }, { "api.firecrawl.dev" }, BEARER },

	/* Code. The token of the API is git's password as well. */
	{ "github", { "GITHUB_TOKEN", "GH_TOKEN" },
	  { "api.github.com", "github.com", "uploads.github.com", "raw.githubusercontent.com" },
	  BEARER, .git = "x-access-token@github.com", .ironclaw = true },
	{ "gitlab", { "GITLAB_TOKEN" }, { "gitlab.com" },
	  { "PRIVATE-TOKEN: ", "Authorization: Bearer " }, .git = "oauth2@gitlab.com", .ironclaw = true },
	{ "gitlab", { "GITLAB_ACCESS_TOKEN", "GL_TOKEN" }, { "gitlab.com" },
	  { "PRIVATE-TOKEN: ", "Authorization: Bearer " }, .git = "oauth2@gitlab.com" },
	{ "bitbucket", { "BITBUCKET_TOKEN" }, { "api.bitbucket.org", "bitbucket.org" }, BEARER,
	  .git = "x-token-auth@bitbucket.org" },
	{ "codeberg", { "CODEBERG_TOKEN" }, { "codeberg.org" }, { "Authorization: token " },
	  .git = "token@codeberg.org" },
	{ "gitea", { "GITEA_TOKEN" }, { NULL }, { "Authorization: token " }, .git = "token" },
	{ "forgejo", { "FORGEJO_TOKEN" }, { NULL }, { "Authorization: token " }, .git = "token" },
	{ "azure-devops", { "AZURE_DEVOPS_EXT_PAT" }, { "dev.azure.com" }, { "basic " },
	  .git = "token@dev.azure.com" },
	{ "circleci", { "CIRCLECI_TOKEN", "CIRCLE_TOKEN" }, { "circleci.com" },
	  { "Circle-Token: " } },
	{ "buildkite", { "BUILDKITE_API_TOKEN" }, { "api.buildkite.com" }, BEARER },
	{ "snyk", { "SNYK_TOKEN" }, { "api.snyk.io" }, { "Authorization: token " } },
	{ "sonarcloud", { "SONAR_TOKEN" }, { "sonarcloud.io", "api.sonarcloud.io" }, BEARER },

	/* Clouds. Requests to AWS are signed anew, so its hosts may have any name there. */
	{ "aws", { "AWS_ACCESS_KEY_ID" }, AWS_HOSTS, { "sigv4 id" } },
	{ "aws", { "AWS_SECRET_ACCESS_KEY" }, AWS_HOSTS, { "sigv4 secret" } },
	{ "aws", { "AWS_SESSION_TOKEN" }, AWS_HOSTS, { "sigv4 token" } },
	{ "cloudflare", { "CLOUDFLARE_API_TOKEN", "CF_API_TOKEN" }, { "api.cloudflare.com" },
	  BEARER },
	{ "digitalocean", { "DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_TOKEN" },
	  { "api.digitalocean.com" }, BEARER },
	{ "hetzner", { "HCLOUD_TOKEN" }, { "api.hetzner.cloud" }, BEARER },
	{ "linode", { "LINODE_TOKEN", "LINODE_CLI_TOKEN" }, { "api.linode.com" }, BEARER },
	{ "vultr", { "VULTR_API_KEY" }, { "api.vultr.com" }, BEARER },
	{ "scaleway", { "SCW_SECRET_KEY" }, { "api.scaleway.com" }, { "X-Auth-Token: " } },
	{ "heroku", { "HEROKU_API_KEY" }, { "api.heroku.com", "git.heroku.com" }, BEARER,
	  .git = "token@git.heroku.com" },
	{ "vercel", { "VERCEL_TOKEN" }, { "api.vercel.com" }, BEARER },
	{ "netlify", { "NETLIFY_AUTH_TOKEN" }, { "api.netlify.com" }, BEARER },
	{ "render", { "RENDER_API_KEY" }, { "api.render.com" }, BEARER },
	{ "railway", { "RAILWAY_API_TOKEN" }, { "backboard.railway.com", "backboard.railway.app" },
	  BEARER },
	{ "supabase", { "SUPABASE_ACCESS_TOKEN" }, { "api.supabase.com" }, BEARER },
	{ "neon", { "NEON_API_KEY" }, { "console.neon.tech" }, BEARER },
	{ "pinecone", { "PINECONE_API_KEY" }, { "api.pinecone.io" }, { "Api-Key: " } },
	{ "tailscale", { "TAILSCALE_API_KEY" }, { "api.tailscale.com" }, BEARER },
	{ "terraform", { "TFE_TOKEN", "TF_TOKEN_app_terraform_io" }, { "app.terraform.io" },
	  BEARER },
	{ "pulumi", { "PULUMI_ACCESS_TOKEN" }, { "api.pulumi.com" }, { "Authorization: token " } },
	{ "vault", { "VAULT_TOKEN" }, { NULL }, { "X-Vault-Token: ", "Authorization: Bearer " } },

	/* What is watched. */
	{ "sentry", { "SENTRY_AUTH_TOKEN" }, { "sentry.io", "us.sentry.io", "de.sentry.io" },
	  BEARER },
	{ "datadog", { "DD_API_KEY", "DATADOG_API_KEY" },
	  { "api.datadoghq.com", "api.datadoghq.eu", "api.us3.datadoghq.com",
	    "api.us5.datadoghq.com" }, { "DD-API-KEY: " } },
	{ "datadog", { "DD_APP_KEY", "DATADOG_APP_KEY" },
	  { "api.datadoghq.com", "api.datadoghq.eu", "api.us3.datadoghq.com",
	    "api.us5.datadoghq.com" }, { "DD-APPLICATION-KEY: " } },
	{ "newrelic", { "NEW_RELIC_API_KEY" }, { "api.newrelic.com", "api.eu.newrelic.com" },
	  { "Api-Key: " } },
	{ "honeycomb", { "HONEYCOMB_API_KEY" }, { "api.honeycomb.io", "api.eu1.honeycomb.io" },
	  { "X-Honeycomb-Team: " } },
	{ "grafana", { "GRAFANA_SERVICE_ACCOUNT_TOKEN", "GRAFANA_TOKEN" }, { NULL }, BEARER },
	{ "pagerduty", { "PAGERDUTY_TOKEN", "PAGERDUTY_API_KEY" }, { "api.pagerduty.com" },
	  { "Authorization: Token token=" } },

	/* Work, messages, payments. */
	{ "slack", { "SLACK_BOT_TOKEN", "SLACK_TOKEN" }, { "slack.com" }, BEARER },
	{ "discord", { "DISCORD_BOT_TOKEN", "DISCORD_TOKEN" }, { "discord.com" },
	  { "Authorization: Bot " } },
	{ "notion", { "NOTION_TOKEN", "NOTION_API_KEY" }, { "api.notion.com" }, BEARER },
	{ "linear", { "LINEAR_API_KEY" }, { "api.linear.app" }, { "Authorization: " } },
	{ "atlassian", { "ATLASSIAN_API_TOKEN", "JIRA_API_TOKEN" }, { NULL }, BEARER },
	{ "asana", { "ASANA_ACCESS_TOKEN" }, { "app.asana.com" }, BEARER },
	{ "airtable", { "AIRTABLE_API_KEY" }, { "api.airtable.com" }, BEARER },
	{ "figma", { "FIGMA_TOKEN", "FIGMA_API_KEY", "FIGMA_ACCESS_TOKEN" }, { "api.figma.com" },
	  { "X-Figma-Token: " } },
	{ "shortcut", { "SHORTCUT_API_TOKEN" }, { "api.app.shortcut.com" },
	  { "Shortcut-Token: " } },
	{ "todoist", { "TODOIST_API_TOKEN" }, { "api.todoist.com" }, BEARER },
	{ "hubspot", { "HUBSPOT_ACCESS_TOKEN" }, { "api.hubapi.com" }, BEARER },
	{ "stripe", { "STRIPE_API_KEY", "STRIPE_SECRET_KEY" }, { "api.stripe.com" }, BEARER },
	{ "twilio", { "TWILIO_AUTH_TOKEN" }, { "api.twilio.com" }, BEARER },
	{ "sendgrid", { "SENDGRID_API_KEY" }, { "api.sendgrid.com" }, BEARER },
	{ "mailgun", { "MAILGUN_API_KEY" }, { "api.mailgun.net", "api.eu.mailgun.net" },
	  { "basic api" } },
	{ "postmark", { "POSTMARK_SERVER_TOKEN" }, { "api.postmarkapp.com" },
	  { "X-Postmark-Server-Token: " } },
	{ "resend", { "RESEND_API_KEY" }, { "api.resend.com" }, BEARER },
	{ NULL, { NULL }, { NULL }, { NULL } },
};
/* clang-format on */

const struct service *service_of_variable(const char *variable)
{
	for (const struct service *s = services; s->name; s++)
		for (const char *const *v = s->variables; *v; v++)
			if (str_eq(*v, variable))
				return s;
	return NULL;
}

const struct service *service_find(const char *name)
{
	for (const struct service *s = services; s->name; s++)
		if (str_eq(s->name, name))
			return s;
	return NULL;
}

const char *service_nearest(const char *name)
{
	const char *names[ARRAY_LEN(services)] = { NULL };

	for (size_t i = 0; services[i].name; i++)
		names[i] = services[i].name;
	return str_nearest(name, names);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/envrules.h"

#include <stddef.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"

/* Kept even though a rule below would take them: they carry no secret. */
static const char *const harmless[] = { "SSH_AGENT_PID", "GPG_AGENT_INFO" };

static const char *const secret_prefixes[] = {
	/* model vendors */
	"OPENAI_",
	"ANTHROPIC_",
	"CLAUDE_",
	"GOOGLE_API",
	"GEMINI_",
	"MISTRAL_",
	"COHERE_",
	"GROQ_",
	"XAI_",
	"DEEPSEEK_",
	"TOGETHER_",
	"FIREWORKS_",
	"REPLICATE_",
	"HUGGINGFACE_",
	"HUGGING_FACE_",
	"HF_TOKEN",
	"OPENROUTER_",
	"PERPLEXITY_",
	"CEREBRAS_",
	"VOYAGE_",
	"PINECONE_",
	"LANGCHAIN_",
	"LANGSMITH_",
	"TAVILY_",
	"SERPAPI_",
	"E2B_",
	"DAYTONA_",
	"MODAL_TOKEN",
	"WANDB_",
	/* clouds and hosting */
	"AWS_",
	"AZURE_",
	"ARM_CLIENT",
	"GCP_",
	"GOOGLE_APPLICATION",
	"GCLOUD_",
	"CLOUDSDK_",
	"DIGITALOCEAN_",
	"HCLOUD_",
	"LINODE_",
	"VULTR_",
	"CLOUDFLARE_",
	"CF_API",
	"FASTLY_",
	"HEROKU_",
	"VERCEL_",
	"NETLIFY_",
	"FLY_",
	"RAILWAY_",
	"RENDER_",
	"SUPABASE_",
	"FIREBASE_",
	"ALICLOUD_",
	"ALIBABA_",
	"OCI_",
	"IBMCLOUD_",
	"TF_VAR_",
	"VAULT_",
	"CONSUL_HTTP",
	"NOMAD_",
	"KUBECONFIG",
	"DOCKER_AUTH",
	"DOCKER_PASS",
	"REGISTRY_",
	/* code hosting and continuous integration */
	"GITHUB_",
	"GH_",
	"GITLAB_",
	"CI_JOB",
	"CI_REGISTRY",
	"BITBUCKET_",
	"CIRCLE_",
	"TRAVIS_",
	"BUILDKITE_",
	"JENKINS_",
	"DRONE_",
	"ACTIONS_",
	"RUNNER_",
	"NPM_TOKEN",
	"NPM_CONFIG__AUTH",
	"NODE_AUTH",
	"PYPI_",
	"TWINE_",
	"CARGO_REGISTRY",
	"GEM_HOST",
	"NUGET_",
	"CODECOV_",
	"SONAR_",
	"SNYK_",
	/* messages, mail, payment, work */
	"SLACK_",
	"DISCORD_",
	"TELEGRAM_",
	"TWILIO_",
	"SENDGRID_",
	"MAILGUN_",
	"MAILCHIMP_",
	"POSTMARK_",
	"SMTP_",
	"STRIPE_",
	"PAYPAL_",
	"BRAINTREE_",
	"SQUARE_",
	"PLAID_",
	"SHOPIFY_",
	"JIRA_",
	"ATLASSIAN_",
	"LINEAR_",
	"NOTION_",
	"ASANA_",
	"ZENDESK_",
	"HUBSPOT_",
	"SALESFORCE_",
	"SF_",
	/* data stores */
	"DATABASE_URL",
	"DB_URL",
	"DB_PASS",
	"PGPASS",
	"PGSERVICEFILE",
	"POSTGRES_PASS",
	"POSTGRES_URL",
	"MYSQL_",
	"MARIADB_",
	"MONGO",
	"REDIS_",
	"ELASTIC_",
	"CLICKHOUSE_",
	"SNOWFLAKE_",
	"DATABRICKS_",
	"RABBITMQ_",
	"AMQP_",
	"KAFKA_",
	/* watching, agents, keys */
	"SENTRY_",
	"DATADOG_",
	"DD_API",
	"DD_APP",
	"NEW_RELIC_",
	"HONEYCOMB_",
	"PAGERDUTY_",
	"OTEL_EXPORTER",
	"SSH_AUTH_SOCK",
	"SSH_ASKPASS",
	"GPG_",
	"SECRET_KEY",
	"JWT_SECRET",
	"ENCRYPTION_KEY",
	"MASTER_KEY",
	"PRIVATE_KEY",
	"ACCESS_TOKEN",
	"AUTH_TOKEN",
	"API_KEY",
	"API_TOKEN",
	"API_SECRET",
	"PASSWORD",
	"PASSWD",
	"SECRET",
	"TOKEN",
	"CREDENTIAL",
	"COOKIE",
	"SESSION_KEY",
	"OP_SERVICE",
	"BW_SESSION",
	"INITRUNNER_",
	"BRIG_",
};

static const char *const secret_suffixes[] = {
	"_KEY",         "_SECRET",  "_SECRETS",    "_TOKEN",         "_TOKENS",
	"_PASSWORD",    "_PASSWD",  "_PASS",       "_PASSPHRASE",    "_CREDENTIAL",
	"_CREDENTIALS", "_API_KEY", "_ACCESS_KEY", "_ACCESS_KEY_ID", "_PRIVATE_KEY",
	"_PAT",         "_DSN",     "_APIKEY",     "_APITOKEN",      "_CONNECTION_STRING",
	"_KEY_BASE",    "_AUTH",    "_COOKIE",     "_SOCK",          "_WEBHOOK",
	"_WEBHOOK_URL",
};

/* Language, time and terminal. The categories are named one by one: sshd passes everything that
 * begins with LC_ on, so people put all sorts there. */
static const char *const passing[] = {
	"LANG",
	"LANGUAGE",
	"LC_ALL",
	"LC_ADDRESS",
	"LC_COLLATE",
	"LC_CTYPE",
	"LC_IDENTIFICATION",
	"LC_MEASUREMENT",
	"LC_MESSAGES",
	"LC_MONETARY",
	"LC_NAME",
	"LC_NUMERIC",
	"LC_PAPER",
	"LC_TELEPHONE",
	"LC_TIME",
	"TERM",
	"COLORTERM",
	"TZ",
	"NO_COLOR",
	"CLICOLOR",
	"CLICOLOR_FORCE",
	"FORCE_COLOR",
	"COLUMNS",
	"LINES",
};

/* Further ones that change what a program says, how much it does at once, or which of its own modes
 * it is in; none leads a program to a file. */
static const char *const modes[] = {
	"APP_ENV",
	"BABEL_ENV",
	"CARGO_INCREMENTAL",
	"CARGO_TERM_COLOR",
	"CI",
	"DEBUG",
	"ENVIRONMENT",
	"FLASK_ENV",
	"GOMAXPROCS",
	"GO_ENV",
	"LOGLEVEL",
	"LOG_LEVEL",
	"MIX_ENV",
	"MKL_NUM_THREADS",
	"NODE_ENV",
	"OMP_NUM_THREADS",
	"OPENBLAS_NUM_THREADS",
	"PORT",
	"PYTHONDONTWRITEBYTECODE",
	"PYTHONHASHSEED",
	"PYTHONUNBUFFERED",
	"PYTHONUTF8",
	"RACK_ENV",
	"RAILS_ENV",
	"RAYON_NUM_THREADS",
	"RUST_BACKTRACE",
	"RUST_LOG",
	"SOURCE_DATE_EPOCH",
	"VERBOSE",
};

bool env_name_valid(const char *name)
{
	const char *p = name;

	if (!*p || (*p >= '0' && *p <= '9'))
		return false;
	for (; *p; p++) {
		bool letter = (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') || *p == '_';

		if (!letter && !(*p >= '0' && *p <= '9'))
			return false;
	}
	return true;
}

bool env_looks_secret(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (str_eq(name, harmless[i]))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(secret_prefixes); i++)
		if (str_starts_nocase(name, secret_prefixes[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(secret_suffixes); i++)
		if (str_ends_nocase(name, secret_suffixes[i]))
			return true;
	return false;
}

static bool envrules_listed(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(name, list[i]))
			return true;
	return false;
}

bool env_passes_by_default(const char *name)
{
	return envrules_listed(name, passing, ARRAY_LEN(passing));
}

bool env_anybody_may_set(const char *name, const char *value)
{
	/* To libc LANGUAGE is a list of folders. */
	if (str_eq(name, "LANGUAGE") || strchr(value, '/') || str_has_control(value))
		return false;
	return envrules_listed(name, passing, ARRAY_LEN(passing)) ||
	       envrules_listed(name, modes, ARRAY_LEN(modes));
}

bool env_steers_programs(const char *name)
{
	/* "_*" at the end: every name that begins like that */
	static const char *const steering[] = {
		"LD_*",
		"GLIBC_TUNABLES",
		"GCONV_PATH",
		"LOCPATH",
		"NLSPATH",
		"HOSTALIASES",
		"RES_OPTIONS",
		"LOCALDOMAIN",
		"MALLOC_*",
		"BASH_ENV",
		"BASH_FUNC_*",
		"BASHOPTS",
		"ENV",
		"IFS",
		"CDPATH",
		"SHELLOPTS",
		"PS4",
		"PROMPT_COMMAND",
		"ZDOTDIR",
		"FPATH",
		"PYTHONSTARTUP",
		"PYTHONHOME",
		"PYTHONINSPECT",
		"PYTHONBREAKPOINT",
		"PERL5OPT",
		"PERL5LIB",
		"PERL5DB",
		"PERLLIB",
		"RUBYOPT",
		"RUBYLIB",
		"NODE_OPTIONS",
		"JAVA_TOOL_OPTIONS",
		"_JAVA_OPTIONS",
		"JDK_JAVA_OPTIONS",
		"GIT_SSH*",
		"GIT_EXEC_PATH",
		"GIT_CONFIG*",
		"GIT_EXTERNAL_DIFF",
		"GIT_PAGER",
		"OPENSSL_CONF",
		"OPENSSL_MODULES",
		"OPENSSL_ENGINES",
		"BRIG_*",
	};

	for (size_t i = 0; i < ARRAY_LEN(steering); i++) {
		size_t n = strlen(steering[i]);

		if (steering[i][n - 1] == '*' ? strncmp(name, steering[i], n - 1) == 0
					      : str_eq(name, steering[i]))
			return true;
	}
	return false;
}

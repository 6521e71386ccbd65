/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/wrap/wrap_agents.h"

#include <assert.h>
#include <stddef.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "model/known/agent_files.h"

/* Where a reason is the same for several. */
#define ITS_SANDBOX "it is in a sandbox already, and cannot make one inside"
#define NO_UPDATES "its program is read-only inside: an update would be in vain"
#define NO_SMALL_TALK "hosts for telemetry and news are closed: it need not try"

static const char *const claude_keys[] = { "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", NULL };
/* At its first start it looks whether its vendor can be reached, there too, and ends if not. */
static const char *const claude_hosts[] = { "platform.claude.com", NULL };
static const char *const claude_chatter[] = { "downloads.claude.ai", "github.com", NULL };
static const struct wrap_word claude_variables[] = {
	{ "IS_SANDBOX=1", ITS_SANDBOX },
	{ "DISABLE_AUTOUPDATER=1", NO_UPDATES },
	{ "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", NO_SMALL_TALK },
	{ NULL, NULL },
};

#define CODEX_LOGIN "CODEX_CHATGPT_TOKEN"
static const char *const codex_keys[] = { "CODEX_API_KEY", "OPENAI_API_KEY", CODEX_LOGIN, NULL };
static const char *const codex_beside[] = { CODEX_LOGIN, "CODEX_CHATGPT_ACCOUNT", NULL };
static const char *const codex_chatter[] = { "chatgpt.com", "github.com", "api.github.com",
					     "raw.githubusercontent.com", NULL };
/* Its own settings for the vendor want a login at a terminal, and try a WebSocket first. */
#define CODEX_KEY "it takes the key from the variable at a terminal, too, and tries no WebSocket"
#define CODEX_CHATGPT "it logs in with ChatGPT, by the token in that variable, at this address"
#define CODEX_PROVIDER(url, more)                                                                  \
	"model_providers.vendor={name=\"OpenAI\", base_url=\"" url "\", env_key=\"" WRAP_KEY       \
	"\", " more "wire_api=\"responses\", supports_websockets=false}"
static const struct wrap_word codex_arguments[] = {
	{ "-c", CODEX_KEY },
	{ "model_provider=\"vendor\"", CODEX_KEY },
	{ "-c", CODEX_KEY, .without = CODEX_LOGIN },
	{ CODEX_PROVIDER("https://api.openai.com/v1", ""), CODEX_KEY, .without = CODEX_LOGIN },
	{ "-c", CODEX_CHATGPT, .with = CODEX_LOGIN },
	{ CODEX_PROVIDER("https://chatgpt.com/backend-api/codex",
			 "env_http_headers={\"ChatGPT-Account-ID\"=\"CODEX_CHATGPT_ACCOUNT\"}, "),
	  CODEX_CHATGPT, .with = CODEX_LOGIN },
	{ "-c", ITS_SANDBOX },
	{ "sandbox_mode=\"danger-full-access\"", ITS_SANDBOX },
	{ "-c", NO_UPDATES },
	{ "check_for_update_on_startup=false", NO_UPDATES },
	{ "-c", NO_SMALL_TALK },
	{ "analytics.enabled=false", NO_SMALL_TALK },
	{ NULL, NULL },
};

#define GEMINI_LOGIN "GOOGLE_CLOUD_ACCESS_TOKEN"
static const char *const gemini_keys[] = { "GEMINI_API_KEY", GEMINI_LOGIN, NULL };
static const char *const gemini_chatter[] = { "play.googleapis.com", "*.npmjs.org", NULL };
#define GEMINI_GOOGLE "it logs in with Google, by the token in that variable"
static const struct wrap_word gemini_variables[] = {
	{ "SANDBOX=brig", ITS_SANDBOX },
	{ "GEMINI_CLI_TRUST_WORKSPACE=true",
	  "what the settings of the project start is in the sandbox, too" },
	{ "GEMINI_DEFAULT_AUTH_TYPE=gemini-api-key", "it logs in with the key, without asking how",
	  .without = GEMINI_LOGIN },
	{ "GEMINI_DEFAULT_AUTH_TYPE=oauth-personal", GEMINI_GOOGLE, .with = GEMINI_LOGIN },
	{ "GOOGLE_GENAI_USE_GCA=true", GEMINI_GOOGLE, .with = GEMINI_LOGIN },
	{ NULL, NULL },
};

/* Those that speak to any vendor get what there is. */
static const char *const any_keys[] = { "ANTHROPIC_API_KEY",
					"OPENAI_API_KEY",
					"GEMINI_API_KEY",
					"OPENROUTER_API_KEY",
					"GROQ_API_KEY",
					"MISTRAL_API_KEY",
					NULL };
static const char *const opencode_chatter[] = { "*.npmjs.org", NULL };
static const struct wrap_word opencode_variables[] = {
	{ "OPENCODE_DISABLE_AUTOUPDATE=1", NO_UPDATES },
	{ "OPENCODE_DISABLE_MODELS_FETCH=1", NO_SMALL_TALK },
	{ "OPENCODE_DISABLE_LSP_DOWNLOAD=1", NO_SMALL_TALK },
	{ NULL, NULL },
};
static const struct wrap_word aider_variables[] = {
	{ "AIDER_CHECK_UPDATE=false", NO_UPDATES },
	{ "AIDER_ANALYTICS=false", NO_SMALL_TALK },
	{ "LITELLM_LOCAL_MODEL_COST_MAP=True", NO_SMALL_TALK },
	{ NULL, NULL },
};

static const char *const claude_elsewhere[] = { "ANTHROPIC_BASE_URL", NULL };
static const char *const codex_elsewhere[] = { "OPENAI_BASE_URL", NULL };
static const char *const gemini_elsewhere[] = { "GOOGLE_GEMINI_BASE_URL", "CODE_ASSIST_ENDPOINT",
						NULL };
static const char *const any_elsewhere[] = { "ANTHROPIC_BASE_URL",
					     "ANTHROPIC_API_BASE",
					     "OPENAI_BASE_URL",
					     "OPENAI_API_BASE",
					     "GEMINI_API_BASE",
					     "OPENROUTER_API_BASE",
					     NULL };

static const struct wrap_word nothing[] = { { NULL, NULL } };

/* One that does not say in model/known/agent_files.h what it obeys in a project has no number. */
#define NUMBER(agent) AGENT_##agent,
enum { AGENTS(NUMBER) AGENT_COUNT };

const struct wrap_agent wrap_agents[] = {
	[AGENT_claude] = { .name = "claude",
			   .title = "Claude Code",
			   .install = "npm install -g @anthropic-ai/claude-code",
			   .credentials = claude_keys,
			   .hosts = claude_hosts,
			   .chatter = claude_chatter,
			   .seed = "claude",
			   .arguments = nothing,
			   .variables = claude_variables,
			   .elsewhere = claude_elsewhere,
			   .login = ", or log in: start claude outside of brig once",
			   .remark = "asks before each command, as ever: "
				     "--dangerously-skip-permissions" },
	[AGENT_codex] = { .name = "codex",
			  .title = "Codex",
			  .install = "npm install -g @openai/codex",
			  .credentials = codex_keys,
			  .beside = codex_beside,
			  .chatter = codex_chatter,
			  .seed = "codex",
			  .arguments = codex_arguments,
			  .variables = nothing,
			  .elsewhere = codex_elsewhere,
			  .login = ", or log in: codex login, outside of brig",
			  .logged_in = ".codex/auth.json" },
	[AGENT_gemini] = { .name = "gemini",
			   .title = "Gemini CLI",
			   .install = "npm install -g @google/gemini-cli",
			   .credentials = gemini_keys,
			   .chatter = gemini_chatter,
			   .seed = "gemini",
			   .arguments = nothing,
			   .variables = gemini_variables,
			   .hides_git = true,
			   .elsewhere = gemini_elsewhere,
			   .login = ", or log in: start gemini outside of brig once",
			   .logged_in = ".gemini/oauth_creds.json",
			   .remark = "asks before each command, as ever: --yolo" },
	[AGENT_opencode] = { .name = "opencode",
			     .title = "opencode",
			     .install = "npm install -g opencode-ai",
			     .credentials = any_keys,
			     .each = true,
			     .chatter = opencode_chatter,
			     .seed = "opencode",
			     .arguments = nothing,
			     .variables = opencode_variables,
			     .elsewhere = any_elsewhere,
			     .logged_in = ".local/share/opencode/auth.json" },
	[AGENT_aider] = { .name = "aider",
			  .title = "aider",
			  .install = "pipx install aider-chat",
			  .credentials = any_keys,
			  .each = true,
			  .seed = "aider",
			  .arguments = nothing,
			  .variables = aider_variables,
			  .elsewhere = any_elsewhere,
			  .logged_in = ".aider/oauth-keys.env" },
	[AGENT_COUNT] = { .name = NULL },
};
static_assert(ARRAY_LEN(wrap_agents) == AGENT_COUNT + 1, "one row for each agent with files");

bool wrap_word_fits(const struct wrap_word *w, const char *key)
{
	return (!w->with || (key && str_eq(w->with, key))) &&
	       (!w->without || !key || !str_eq(w->without, key));
}

bool wrap_is_special(const struct wrap_agent *a, const char *name, bool arguments)
{
	for (const struct wrap_word *v = arguments ? a->arguments : a->variables; v->text; v++)
		if (v->with && str_eq(v->with, name))
			return true;
	return false;
}

const char *wrap_beside(const struct wrap_agent *a, const char *key)
{
	for (size_t i = 0; a->beside && a->beside[i]; i += 2)
		if (str_eq(a->beside[i], key))
			return a->beside[i + 1];
	return NULL;
}

const struct wrap_agent *wrap_agent_find(const char *name)
{
	for (const struct wrap_agent *a = wrap_agents; a->name; a++)
		if (str_eq(a->name, name))
			return a;
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_envrules.c - which variables may be seen inside. */
#include "unit.h"

#include "model/settings/envrules.h"

/* The endings the seeds document, and those brig adds. */
static const char *const suffixes[] = {
	"_KEY",         "_SECRET",  "_SECRETS",    "_TOKEN",         "_TOKENS",
	"_PASSWORD",    "_PASSWD",  "_PASS",       "_PASSPHRASE",    "_CREDENTIAL",
	"_CREDENTIALS", "_API_KEY", "_ACCESS_KEY", "_ACCESS_KEY_ID", "_PRIVATE_KEY",
	"_PAT",         "_DSN",     "_APIKEY",     "_APITOKEN",      "_CONNECTION_STRING",
	"_KEY_BASE",    "_AUTH",    "_COOKIE",     "_SOCK",          "_WEBHOOK",
	"_WEBHOOK_URL",
};

static void lower(const char *from, char *to)
{
	for (; *from; from++)
		*to++ = (char)(*from >= 'A' && *from <= 'Z' ? *from + 32 : *from);
	*to = '\0';
}

static void every_secret_ending_is_known_in_any_case(void **state UNUSED)
{
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		char name[64], small[64];

		(void)snprintf(name, sizeof(name), "ZZMINE%s", suffixes[i]);
		lower(name, small);
		print_message("%s\n", name);
		assert_true(env_looks_secret(name));
		assert_true(env_looks_secret(small));
	}
}

static void well_known_secrets_are_known_by_name(void **state UNUSED)
{
	static const char *const names[] = {
		"AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN",
		"AWS_PROFILE",
		"GITHUB_PAT",
		"GITHUB_TOKEN",
		"GH_TOKEN",
		"gh_token",
		"SECRET_KEY_BASE",
		"SENTRY_DSN",
		"POSTGRES_DSN",
		"my_dsn",
		"SSH_AUTH_SOCK",
		"OPENAI_API_KEY",
		"ANTHROPIC_API_KEY",
		"DATABASE_URL",
		"PGPASSWORD",
		"PGPASSFILE",
		"NPM_TOKEN",
		"DOCKER_AUTH_CONFIG",
		"KUBECONFIG",
		"VAULT_TOKEN",
		"GOOGLE_APPLICATION_CREDENTIALS",
		"HF_TOKEN",
		"JWT_SECRET",
		"SLACK_WEBHOOK_URL",
		"Password",
		"token",
		"SECRET",
		"API_KEY",
		"NPM_CONFIG__AUTH",
		"npm_config__auth",
		"BW_SESSION",
		"GPG_PASSPHRASE",
		"BRIG_POLICY",
		"TF_VAR_anything",
		"REDIS_URL",
		"MONGODB_URI",
		"SMTP_PASSWORD",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		print_message("%s\n", names[i]);
		assert_true(env_looks_secret(names[i]));
		assert_false(env_passes_by_default(names[i]));
	}
}

static void ordinary_names_are_not_taken_for_secrets(void **state UNUSED)
{
	static const char *const names[] = {
		"PATH",
		"LANG",
		"HOME",
		"USER",
		"SHELL",
		"EDITOR",
		"TERM",
		"PWD",
		"KEYBOARD",
		"MONKEY",
		"DISPLAY",
		"CFLAGS",
		"CC",
		"MAKEFLAGS",
		"PYTHONPATH",
		"NODE_ENV",
		"RUST_LOG",
		"CARGO_HOME",
		"GOPATH",
		"JAVA_HOME",
		"VIRTUAL_ENV",
		"TZ",
		"PATCH",
		"SSH_AGENT_PID",
		"GPG_AGENT_INFO",
		"PASSENGERS_COUNT",
		"DSN_COUNT",
		"",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		print_message("'%s'\n", names[i]);
		assert_false(env_looks_secret(names[i]));
	}
}

static void language_terminal_and_time_zone_pass_and_nothing_else(void **state UNUSED)
{
	static const char *const passing[] = {
		"LANG",        "LANGUAGE", "LC_ALL",   "LC_CTYPE", "TERM",
		"COLORTERM",   "TZ",       "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
		"FORCE_COLOR", "COLUMNS",  "LINES"
	};
	static const char *const others[] = {
		"PATH",      "HOME",     "LD_PRELOAD", "BASH_ENV",        "lang",
		"lc_all",    "TERMINFO", "TZDIR",      "LANGX",           "",
		"L",         "LC",       "PYTHONPATH", "XDG_RUNTIME_DIR", "DISPLAY",
		"http_proxy"
	};

	for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++)
		assert_true(env_passes_by_default(passing[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(env_passes_by_default(others[i]));
}

/* sshd forwards LC_* by default, so people carry values of their own in such names. */
static void a_secret_dressed_as_a_locale_does_not_pass(void **state UNUSED)
{
	assert_true(env_looks_secret("LC_API_KEY"));
	assert_false(env_passes_by_default("LC_API_KEY"));
	assert_false(env_passes_by_default("LC_GITHUB_TOKEN"));
	assert_false(env_passes_by_default("LC_WHATEVER"));
	assert_false(env_passes_by_default("LC_"));
	assert_true(env_passes_by_default("LC_MEASUREMENT"));
}

static void a_stranger_sets_nothing_that_leads_anywhere(void **state UNUSED)
{
	static const char *const names[] = { "PATH",
					     "HOME",
					     "PYTHONPATH",
					     "NODE_PATH",
					     "LUA_INIT",
					     "GIT_DIR",
					     "PAGER",
					     "EDITOR",
					     "HTTPS_PROXY",
					     "SSL_CERT_FILE",
					     "XDG_CONFIG_HOME",
					     "LD_PRELOAD",
					     "BASH_ENV",
					     "LANGUAGE",
					     "TERMINFO",
					     "TZDIR",
					     "LOCPATH",
					     "MAKEFLAGS",
					     "GOFLAGS",
					     "RUSTC_WRAPPER",
					     "CC",
					     "SHELL",
					     "PYTHONSTARTUP",
					     "NODE_OPTIONS",
					     "A",
					     "ci",
					     "LC_X",
					     "BRIG_POLICY",
					     "PS4",
					     "" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_false(env_anybody_may_set(names[i], "x"));
	assert_true(env_anybody_may_set("CI", "true"));
	assert_true(env_anybody_may_set("LC_ALL", "C.UTF-8"));
	assert_true(env_anybody_may_set("NODE_ENV", "test"));
	assert_false(env_anybody_may_set("TZ", ":/workspace/zone"));
	assert_false(env_anybody_may_set("LANG", "../../workspace/x"));
	assert_false(env_anybody_may_set("TERM", "a\033b"));
}

static void nothing_passes_that_looks_secret(void **state UNUSED)
{
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		static const char *const heads[] = { "LC", "LANG", "TERM", "X" };

		for (size_t h = 0; h < sizeof(heads) / sizeof(*heads); h++) {
			char name[64];

			(void)snprintf(name, sizeof(name), "%s%s", heads[h], suffixes[i]);
			assert_false(env_passes_by_default(name));
		}
	}
}

static void only_shell_names_are_variable_names(void **state UNUSED)
{
	static const char *const good[] = { "A", "_", "a1", "_1", "LONG_name_2" };
	static const char *const bad[] = {
		"",         "1A",  "A B", "A=B", "A-B",   "A.B",
		"\xc3\xa4", "A\n", "=",   " ",   "A\x01", "BASH_FUNC_x%%"
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(env_name_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(env_name_valid(bad[i]));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_secret_ending_is_known_in_any_case),
	cmocka_unit_test(well_known_secrets_are_known_by_name),
	cmocka_unit_test(ordinary_names_are_not_taken_for_secrets),
	cmocka_unit_test(language_terminal_and_time_zone_pass_and_nothing_else),
	cmocka_unit_test(a_secret_dressed_as_a_locale_does_not_pass),
	cmocka_unit_test(a_stranger_sets_nothing_that_leads_anywhere),
	cmocka_unit_test(nothing_passes_that_looks_secret),
	cmocka_unit_test(only_shell_names_are_variable_names),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

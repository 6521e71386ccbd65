/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/tool_caches.h"

#include <stddef.h>

#include "base/text/str.h"

/* clang-format off */
const struct tool_cache tool_caches[] = {
	{ "bun", { { "BUN_INSTALL_CACHE_DIR", "%s" } } },
	{ "bundler", { { "BUNDLE_USER_CACHE", "%s" } } },
	{ "cargo", { { "CARGO_HOME", "%s" } } },
	{ "ccache", { { "CCACHE_DIR", "%s" } } },
	{ "composer", { { "COMPOSER_CACHE_DIR", "%s" } } },
	{ "deno", { { "DENO_DIR", "%s" } } },
	{ "go", { { "GOMODCACHE", "%s/mod" }, { "GOCACHE", "%s/build" } } },
	{ "gradle", { { "GRADLE_USER_HOME", "%s" } } },
	{ "huggingface", { { "HF_HUB_CACHE", "%s/hub" }, { "HF_DATASETS_CACHE", "%s/datasets" } } },
	{ "maven", { { "MAVEN_OPTS", "-Dmaven.repo.local=%s" } } },
	{ "npm", { { "npm_config_cache", "%s" } } },
	{ "nuget", { { "NUGET_PACKAGES", "%s" } } },
	{ "pip", { { "PIP_CACHE_DIR", "%s" } } },
	{ "pnpm", { { "npm_config_store_dir", "%s" } } },
	{ "uv", { { "UV_CACHE_DIR", "%s" } } },
	{ "yarn", { { "YARN_CACHE_FOLDER", "%s/v1" }, { "YARN_GLOBAL_FOLDER", "%s" } } },
	{ NULL, { { NULL, NULL } } },
};
/* clang-format on */

const struct tool_cache *tool_cache_find(const char *name)
{
	for (const struct tool_cache *t = tool_caches; t->name; t++)
		if (str_eq(t->name, name))
			return t;
	return NULL;
}

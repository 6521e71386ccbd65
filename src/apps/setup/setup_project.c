/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/setup/setup_project.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"

/* Debian's pip installs nothing outside of a virtual environment, and what is installed into HOME
 * is gone after the run. */
#define VENV(then) "sh -c 'python3 -m venv .venv && " then "'"

/* A lock file says more about what is run first than the file beside it, and stands in front. */
static const struct marker table[] = {
	{ "pnpm-lock.yaml", "Node", "npm", "pnpm install --frozen-lockfile" },
	{ "yarn.lock", "Node", "npm", "yarn install" },
	{ "package-lock.json", "Node", "npm", "npm ci" },
	{ "package.json", "Node", "npm", "npm install" },
	{ ".yarnrc.yml", "yarn's settings", "npm", NULL, .registry = true },
	{ ".npmrc", "npm's settings", "npm", NULL, .registry = true },
	{ "uv.lock", "Python", "pypi", "uv sync" },
	{ "requirements.txt", "Python", "pypi", VENV(".venv/bin/pip install -r requirements.txt") },
	{ "pyproject.toml", "Python", "pypi", VENV(".venv/bin/pip install .") },
	{ "setup.py", "Python", "pypi", VENV(".venv/bin/pip install .") },
	{ "Pipfile", "Python", "pypi", "env PIPENV_VENV_IN_PROJECT=1 pipenv install" },
	{ "Cargo.toml", "Rust", "crates", "cargo build" },
	{ "go.mod", "Go", "go", "go build ./..." },
	{ "pom.xml", "Java", NULL, "mvn -o test" },
	{ "build.gradle", "Java", NULL, "gradle --offline test" },
	{ "build.gradle.kts", "Java", NULL, "gradle --offline test" },
	{ "Gemfile", "Ruby", NULL, "bundle exec rake" },
	{ "composer.json", "PHP", NULL, "composer install" },
	{ "mix.exs", "Elixir", NULL, "mix test" },
	{ "CMakeLists.txt", "C or C++", NULL, "cmake -S . -B build" },
	{ "meson.build", "C or C++", NULL, "meson setup build" },
	{ "configure.ac", "C or C++", NULL, NULL },
	{ "Makefile", "make", NULL, "make" },
	{ ".claude/", "Claude Code", NULL, NULL, "claude" },
	{ "CLAUDE.md", "Claude Code", NULL, NULL, "claude" },
	{ ".codex/", "Codex", NULL, NULL, "codex" },
	{ ".gemini/", "Gemini CLI", NULL, NULL, "gemini" },
	{ "GEMINI.md", "Gemini CLI", NULL, NULL, "gemini" },
	{ "opencode.json", "opencode", NULL, NULL, "opencode" },
	{ ".opencode/", "opencode", NULL, NULL, "opencode" },
	{ ".aider.conf.yml", "aider", NULL, NULL, "aider" },
	/* Several agents read it; what is more exact stands above. */
	{ "AGENTS.md", "Codex", NULL, NULL, "codex" },
};
static_assert(ARRAY_LEN(table) <= MARKERS_MAX, "all of them may be found");

/* A link counts as what its name says: whether it leads anywhere is not looked at. */
static bool setup_project_is_there(int folder, const struct marker *m)
{
	char name[64];
	size_t n = strlen(m->name);
	bool wants_folder = m->name[n - 1] == '/';
	struct stat st;

	assert(n < sizeof(name));
	memcpy(name, m->name, n + 1);
	if (wants_folder)
		name[n - 1] = '\0';
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return false;
	return S_ISLNK(st.st_mode) || (wants_folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode));
}

void project_look(int folder, struct project_found *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (setup_project_is_there(folder, &table[i]))
			ret->markers[ret->n++] = &table[i];
}

size_t project_groups(const struct project_found *f, const struct group *ret[GROUP_COUNT])
{
	size_t n = 0, k;

	for (size_t i = 0; i < f->n; i++) {
		const struct group *g =
			f->markers[i]->group ? group_find(f->markers[i]->group) : NULL;

		for (k = 0; k < n && ret[k] != g; k++)
			;
		if (g && k == n)
			ret[n++] = g;
	}
	return n;
}

const char *project_agent(const struct project_found *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->markers[i]->agent)
			return f->markers[i]->agent;
	return NULL;
}

const char *project_first(const struct project_found *f, bool reaches)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->markers[i]->first && (reaches || !f->markers[i]->group))
			return f->markers[i]->first;
	return NULL;
}

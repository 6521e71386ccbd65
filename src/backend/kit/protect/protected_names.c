/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/protected_names.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* clang-format off */
const struct guarded_name guarded_names[] = {
	/* A program on the host may act on them the moment they are there. Each costs every run, so
	 * only names that need no further step are here. */
	{ ".vscode", NAME_HELD, "tasks and settings of an editor that has the folder open" },
	{ ".mcp.json", NAME_HELD, "servers that an agent starts" },
	{ ".claude", NAME_HELD, "hooks, commands and settings of an agent" },
	{ ".codex", NAME_HELD, "settings of an agent" },
	{ ".cursor", NAME_HELD, "servers and rules of an editor" },
	{ ".gemini", NAME_HELD, "settings of an agent" },

	/* The host asks, or is asked, before it acts on these. */
	{ ".brig.yaml", NAME_TAKEN, "settings of the next run here" },
	{ ".envrc", NAME_TAKEN, "run by direnv" },
	{ ".gitattributes", NAME_TAKEN, "which filters git runs" },
	{ ".husky", NAME_TAKEN, "hooks of git" },
	{ ".githooks", NAME_TAKEN, "hooks of git, by custom" },
	{ ".idea", NAME_TAKEN, "run configurations of an editor" },
	{ ".zed", NAME_TAKEN, "tasks of an editor" },
	{ ".devcontainer", NAME_TAKEN, "commands an editor runs on the host" },
	{ ".windsurf", NAME_TAKEN, "settings of an editor" },
	{ ".continue", NAME_TAKEN, "servers of an agent" },
	{ ".opencode", NAME_TAKEN, "plugins and tools that an agent loads" },
	{ ".qwen", NAME_TAKEN, "hooks and servers of an agent" },
	{ ".amazonq", NAME_TAKEN, "hooks and servers of an agent" },
	{ ".factory", NAME_TAKEN, "hooks and servers of an agent" },
	{ ".qoder", NAME_TAKEN, "hooks and servers of an agent" },
	{ ".crush.json", NAME_TAKEN, "servers that an agent starts" },
	{ "crush.json", NAME_TAKEN, "servers that an agent starts" },
	{ ".roo/mcp.json", NAME_TAKEN, "servers that an agent starts" },
	{ ".junie/mcp", NAME_TAKEN, "servers that an agent starts" },
	{ ".kiro/hooks", NAME_TAKEN, "commands that an editor runs when files change" },
	{ ".kiro/settings", NAME_TAKEN, "servers that an editor starts" },
	{ ".clinerules/hooks", NAME_TAKEN, "programs that an agent runs" },
	{ ".github/hooks", NAME_TAKEN, "commands that an agent runs" },
	{ ".helix", NAME_TAKEN, "language servers that an editor starts" },
	{ ".fleet", NAME_TAKEN, "run configurations of an editor" },
	{ ".theia", NAME_TAKEN, "tasks and settings of an editor" },
	{ ".direnv", NAME_TAKEN, "what an allowed .envrc loads again without a question" },
	{ ".hg/hgrc", NAME_TAKEN, "hooks and extensions that hg loads at every look" },
	{ ".hg/hgrc-not-shared", NAME_TAKEN, "hooks and extensions that hg loads at every look" },
	{ ".hg/sharedpath", NAME_TAKEN, "whose settings hg reads as well" },
	{ ".jj/repo", NAME_POINTER, "as a file: whose settings jj reads instead" },
	{ ".jj/repo/config.toml", NAME_TAKEN, "programs that jj runs" },
	{ ".bashrc", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".bash_profile", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".bash_login", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".bash_logout", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".profile", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".zshrc", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".zshenv", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".zprofile", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".zlogin", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".zlogout", NAME_TAKEN, "run by a shell whose HOME this is" },
	{ ".inputrc", NAME_TAKEN, "key bindings of a shell whose HOME this is" },
	{ ".gitconfig", NAME_TAKEN, "configuration of git whose HOME this is" },

	/* Tools on the host obey them, and agents change them for good reasons. */
	{ ".gitmodules", NAME_REPORTED, "what git submodule clones, and from where" },
	{ ".cargo/config.toml", NAME_REPORTED, "programs that cargo and rust-analyzer run" },
	{ ".cargo/config", NAME_REPORTED, "programs that cargo and rust-analyzer run" },
	{ "rust-toolchain.toml", NAME_REPORTED, "which toolchain cargo runs" },
	{ "rust-toolchain", NAME_REPORTED, "which toolchain cargo runs" },
	{ "package.json", NAME_REPORTED, "scripts that npm runs" },
	{ ".npmrc", NAME_REPORTED, "where packages come from, and which shell runs scripts" },
	{ ".yarnrc.yml", NAME_REPORTED, "the program that yarn is" },
	{ ".yarnrc", NAME_REPORTED, "the program that yarn is" },
	{ ".pnpmfile.cjs", NAME_REPORTED, "run by pnpm" },
	{ ".pre-commit-config.yaml", NAME_REPORTED, "hooks that pre-commit runs" },
	{ "lefthook.yml", NAME_REPORTED, "hooks that lefthook runs" },
	{ "lefthook.yaml", NAME_REPORTED, "hooks that lefthook runs" },
	{ ".lefthook.yml", NAME_REPORTED, "hooks that lefthook runs" },
	{ ".mise.toml", NAME_REPORTED, "tools and variables of a shell" },
	{ "mise.toml", NAME_REPORTED, "tools and variables of a shell" },
	{ ".tool-versions", NAME_REPORTED, "tools of a shell" },
	{ "*.code-workspace", NAME_REPORTED, "tasks and settings of an editor" },
	{ "*.sublime-project", NAME_REPORTED, "build commands and settings of an editor" },
	{ ".nvim.lua", NAME_REPORTED, "run by an editor that was told to" },
	{ ".nvimrc", NAME_REPORTED, "run by an editor that was told to" },
	{ ".exrc", NAME_REPORTED, "run by an editor that was told to" },
	{ ".vimrc", NAME_REPORTED, "run by an editor that was told to" },
	{ ".lvimrc", NAME_REPORTED, "run by an editor that was told to" },
	{ ".dir-locals.el", NAME_REPORTED, "variables of an editor, which asks about some" },
	{ ".dir-locals-2.el", NAME_REPORTED, "variables of an editor, which asks about some" },
	{ ".luarc.json", NAME_REPORTED, "a plugin that a language server loads" },
	{ "rust-analyzer.toml", NAME_REPORTED, "commands that a language server runs" },
	{ ".gdbinit", NAME_REPORTED, "run by a debugger that was told to" },
	{ ".lldbinit", NAME_REPORTED, "run by a debugger that was told to" },
	{ ".env", NAME_REPORTED, "variables that tools and shells take over" },
	{ "flake.nix", NAME_REPORTED, "what nix builds and a shell loads" },
	{ "shell.nix", NAME_REPORTED, "what nix builds and a shell loads" },
	{ "devenv.nix", NAME_REPORTED, "what nix builds and a shell loads" },
	{ ".mise.local.toml", NAME_REPORTED, "tools and variables of a shell" },
	{ "mise.local.toml", NAME_REPORTED, "tools and variables of a shell" },
	{ ".mise/config.toml", NAME_REPORTED, "tools and variables of a shell" },
	{ ".config/mise.toml", NAME_REPORTED, "tools and variables of a shell" },
	{ "CLAUDE.md", NAME_REPORTED, "what an agent is told to do" },
	{ "AGENTS.md", NAME_REPORTED, "what an agent is told to do" },
	{ "GEMINI.md", NAME_REPORTED, "what an agent is told to do" },
	{ ".cursorrules", NAME_REPORTED, "what an agent is told to do" },
	{ ".windsurfrules", NAME_REPORTED, "what an agent is told to do" },
	{ ".clinerules", NAME_REPORTED, "what an agent is told to do" },
	{ ".github/copilot-instructions.md", NAME_REPORTED, "what an agent is told to do" },
	{ "opencode.json", NAME_REPORTED, "servers and rules of an agent" },
	{ ".opencode.json", NAME_REPORTED, "servers and rules of an agent" },
	{ ".kiro", NAME_REPORTED, "what an agent is told to do" },
	{ ".roo", NAME_REPORTED, "what an agent is told to do" },
	{ ".junie", NAME_REPORTED, "what an agent is told to do" },
	{ ".agent", NAME_REPORTED, "what an agent is told to do" },
	{ ".agents", NAME_REPORTED, "what an agent is told to do" },
	{ "QWEN.md", NAME_REPORTED, "what an agent is told to do" },
	{ ".goosehints", NAME_REPORTED, "what an agent is told to do" },
	{ ".aider.conf.yml", NAME_REPORTED, "commands that an agent runs" },
	{ "rebase-merge/git-rebase-todo", NAME_STEP, "lines that git rebase --continue runs" },
	{ "rebase-apply/patch", NAME_STEP, "what git am --continue applies" },
	{ "sequencer/todo", NAME_STEP, "what git cherry-pick --continue applies" },
};
/* clang-format on */
const size_t guarded_name_count = ARRAY_LEN(guarded_names);

/* `n` is the path's length. */
static bool ends_with(const char *path, size_t n, const char *name)
{
	size_t m = strlen(name);

	if (!n || path[n - 1] != name[m - 1])
		return false;
	if (name[0] == '*')
		return n > m - 1 && str_eq(path + n - (m - 1), name + 1);
	return n >= m && str_eq(path + n - m, name) && (n == m || path[n - m - 1] == '/');
}

bool name_points(const char *path)
{
	for (size_t i = 0; i < guarded_name_count; i++)
		if (guarded_names[i].class == NAME_POINTER && str_eq(guarded_names[i].name, path))
			return true;
	return false;
}

/* What npm has put there is code already, and its scripts run when it is put there. */
static bool is_of_package(const char *path, size_t n)
{
	return ends_with(path, n, "package.json") &&
	       (str_starts(path, "node_modules/") || strstr(path, "/node_modules/"));
}

const struct guarded_name *name_reported(const char *path)
{
	size_t n = strlen(path);

	if (is_of_package(path, n))
		return NULL;
	for (size_t i = 0; i < guarded_name_count; i++)
		if (guarded_names[i].class >= NAME_REPORTED &&
		    ends_with(path, n, guarded_names[i].name))
			return &guarded_names[i];
	return NULL;
}

bool name_ends_step(const char *name)
{
	for (size_t i = guarded_name_count; i-- > 0;) {
		const char *slash;

		if (guarded_names[i].class != NAME_STEP)
			continue;
		slash = strrchr(guarded_names[i].name, '/');
		if (str_eq(slash ? slash + 1 : guarded_names[i].name, name))
			return true;
	}
	return false;
}

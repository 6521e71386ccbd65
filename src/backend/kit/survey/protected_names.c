/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/protected_names.h"

#include <string.h>
#include <strings.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "model/known/agent_files.h"

/* clang-format off */
#define N(name) name, sizeof(name) - 1
#define ROW(name, class, reason) { N(name), class, reason },
#define ROWS_OF(agent) AGENT_FILES_##agent(ROW)
/* Many names of one kind. */
#define AGENT(name) ROW(name, NAME_TAKEN, "hooks and servers of an agent")
#define SERVERS(name) ROW(name, NAME_TAKEN, "servers that an agent starts")
#define SHELL(name) ROW(name, NAME_TAKEN, "run by a shell whose HOME this is")
#define TOOLS(name) ROW(name, NAME_REPORTED, "tools and variables of a shell")
#define EDITOR(name) ROW(name, NAME_REPORTED, "run by an editor that was told to")
#define TOLD(name) ROW(name, NAME_REPORTED, "what an agent is told to do")
const struct guarded_name guarded_names[] = {
	/* Whatever `brig wrap` knows, whether it is held, taken away or reported. */
	AGENTS(ROWS_OF)

	/* A program on the host may act on them the moment they are there, as on the agents' above.
	 * Each costs every run, so only names that need no further step are held. */
	{ N(".vscode"), NAME_HELD, "tasks and settings of an editor that has the folder open" },
	{ N(".cursor"), NAME_HELD, "servers and rules of an editor" },

	/* The host asks, or is asked, before it acts on these. */
	{ N(".brig.yaml"), NAME_TAKEN, "settings of the next run here" },
	{ N(".envrc"), NAME_TAKEN, "run by direnv" },
	{ N(".pdbrc"), NAME_TAKEN, "run by python's debugger without a question" },
	{ N(".gitattributes"), NAME_TAKEN, "which filters git runs" },
	{ N(".husky"), NAME_TAKEN, "hooks of git" },
	{ N(".githooks"), NAME_TAKEN, "hooks of git, by custom" },
	{ N(".idea"), NAME_TAKEN, "run configurations of an editor" },
	{ N(".zed"), NAME_TAKEN, "tasks of an editor" },
	{ N(".devcontainer"), NAME_TAKEN, "commands an editor runs on the host" },
	{ N(".windsurf"), NAME_TAKEN, "settings of an editor" },
	{ N(".continue"), NAME_TAKEN, "servers of an agent" },
	AGENT(".qwen") AGENT(".amazonq") AGENT(".factory") AGENT(".qoder") AGENT(".openhands")
	AGENT(".kilocode") AGENT(".trae") AGENT(".augment") AGENT(".iflow") AGENT(".codebuddy")
	{ N(".pi"), NAME_TAKEN, "extensions and settings that an agent loads" },
	SERVERS(".crush.json") SERVERS("crush.json") SERVERS(".crush/crush.json")
	SERVERS(".roo/mcp.json") SERVERS(".junie/mcp")
	{ N(".kiro/hooks"), NAME_TAKEN, "commands that an editor runs when files change" },
	{ N(".kiro/settings"), NAME_TAKEN, "servers that an editor starts" },
	{ N(".clinerules/hooks"), NAME_TAKEN, "programs that an agent runs" },
	{ N(".github/hooks"), NAME_TAKEN, "commands that an agent runs" },
	{ N(".helix"), NAME_TAKEN, "language servers that an editor starts" },
	{ N(".fleet"), NAME_TAKEN, "run configurations of an editor" },
	{ N(".theia"), NAME_TAKEN, "tasks and settings of an editor" },
	{ N(".vs/mcp.json"), NAME_TAKEN, "servers that an editor starts" },
	{ N(".vim/coc-settings.json"), NAME_TAKEN, "language servers that an editor starts" },
	{ N(".direnv"), NAME_TAKEN, "what an allowed .envrc loads again without a question" },
	{ N(".hg/hgrc"), NAME_TAKEN, "hooks and extensions that hg loads at every look" },
	{ N(".hg/hgrc-not-shared"), NAME_TAKEN, "hooks and extensions that hg loads at every look" },
	{ N(".hg/sharedpath"), NAME_TAKEN, "whose settings hg reads as well" },
	{ N(".sl/config"), NAME_TAKEN, "hooks and extensions that sl loads at every look" },
	{ N("_darcs/prefs/defaults"), NAME_TAKEN, "commands that darcs runs" },
	{ N(".jj/repo"), NAME_POINTER, "as a file: whose settings jj reads instead" },
	{ N(".jj/repo/config.toml"), NAME_TAKEN, "programs that jj runs" },
	SHELL(".bashrc") SHELL(".bash_profile") SHELL(".bash_login") SHELL(".bash_logout")
	SHELL(".profile") SHELL(".zshrc") SHELL(".zshenv") SHELL(".zprofile") SHELL(".zlogin")
	SHELL(".zlogout") SHELL(".cshrc") SHELL(".tcshrc") SHELL(".kshrc")
	{ N(".inputrc"), NAME_TAKEN, "key bindings of a shell whose HOME this is" },
	{ N(".gitconfig"), NAME_TAKEN, "configuration of git whose HOME this is" },

	/* Tools on the host obey them, and agents change them for good reasons. */
	{ N(".gitmodules"), NAME_REPORTED, "what git submodule clones, and from where" },
	{ N(".lfsconfig"), NAME_REPORTED, "where git-lfs fetches from, and what it is sent" },
	{ N(".cargo/config.toml"), NAME_REPORTED, "programs that cargo and rust-analyzer run" },
	{ N(".cargo/config"), NAME_REPORTED, "programs that cargo and rust-analyzer run" },
	{ N("rust-toolchain.toml"), NAME_REPORTED, "which toolchain cargo runs" },
	{ N("rust-toolchain"), NAME_REPORTED, "which toolchain cargo runs" },
	{ N("package.json"), NAME_REPORTED, "scripts that npm runs" },
	{ N(".npmrc"), NAME_REPORTED, "where packages come from, and which shell runs scripts" },
	{ N(".yarnrc.yml"), NAME_REPORTED, "the program that yarn is" },
	{ N(".yarnrc"), NAME_REPORTED, "the program that yarn is" },
	{ N(".pnpmfile.cjs"), NAME_REPORTED, "run by pnpm" },
	{ N(".pnp.cjs"), NAME_REPORTED, "loaded before each script of yarn" },
	{ N("bunfig.toml"), NAME_REPORTED, "what bun loads before each script" },
	{ N(".bazelrc"), NAME_REPORTED, "options of bazel, which name programs" },
	{ N(".repo/repo"), NAME_REPORTED, "the program that repo is" },
	{ N(".pre-commit-config.yaml"), NAME_REPORTED, "hooks that pre-commit runs" },
	{ N("lefthook.yml"), NAME_REPORTED, "hooks that lefthook runs" },
	{ N("lefthook.yaml"), NAME_REPORTED, "hooks that lefthook runs" },
	{ N(".lefthook.yml"), NAME_REPORTED, "hooks that lefthook runs" },
	TOOLS(".mise.toml") TOOLS("mise.toml")
	{ N(".tool-versions"), NAME_REPORTED, "tools of a shell" },
	{ N("*.code-workspace"), NAME_REPORTED, "tasks and settings of an editor" },
	{ N("*.sublime-project"), NAME_REPORTED, "build commands and settings of an editor" },
	EDITOR(".nvim.lua") EDITOR(".nvimrc") EDITOR(".exrc") EDITOR(".vimrc") EDITOR(".lvimrc")
	EDITOR(".lazy.lua")
	{ N(".dir-locals.el"), NAME_REPORTED, "variables of an editor, which asks about some" },
	{ N(".dir-locals-2.el"), NAME_REPORTED, "variables of an editor, which asks about some" },
	{ N(".luarc.json"), NAME_REPORTED, "a plugin that a language server loads" },
	{ N("rust-analyzer.toml"), NAME_REPORTED, "commands that a language server runs" },
	{ N(".gdbinit"), NAME_REPORTED, "run by a debugger that was told to" },
	{ N(".lldbinit"), NAME_REPORTED, "run by a debugger that was told to" },
	{ N(".rspec"), NAME_REPORTED, "files that rspec loads" },
	{ N(".irbrc"), NAME_REPORTED, "run by a shell of ruby" },
	{ N(".pryrc"), NAME_REPORTED, "run by a shell of ruby" },
	{ N(".Rprofile"), NAME_REPORTED, "run by R" },
	{ N(".iex.exs"), NAME_REPORTED, "run by a shell of elixir" },
	{ N(".ghci"), NAME_REPORTED, "run by a shell of haskell, if it is nobody else's" },
	{ N(".ocamlinit"), NAME_REPORTED, "run by a shell of ocaml" },
	{ N(".octaverc"), NAME_REPORTED, "run by octave" },
	{ N(".venv/bin/python"), NAME_REPORTED, "run by an editor that looks at the environment" },
	{ N("venv/bin/python"), NAME_REPORTED, "run by an editor that looks at the environment" },
	{ N(".env"), NAME_REPORTED, "variables that tools and shells take over" },
	{ N("flake.nix"), NAME_REPORTED, "what nix builds and a shell loads" },
	{ N("shell.nix"), NAME_REPORTED, "what nix builds and a shell loads" },
	{ N("devenv.nix"), NAME_REPORTED, "what nix builds and a shell loads" },
	TOOLS(".mise.local.toml") TOOLS("mise.local.toml") TOOLS(".mise/config.toml")
	TOOLS(".config/mise.toml")
	TOLD(".cursorrules") TOLD(".windsurfrules") TOLD(".clinerules")
	TOLD(".github/copilot-instructions.md") TOLD(".kiro") TOLD(".roo") TOLD(".junie")
	TOLD(".agent") TOLD(".agents") TOLD("QWEN.md") TOLD(".goosehints")
	{ N("rebase-merge/git-rebase-todo"), NAME_STEP, "lines that git rebase --continue runs" },
	{ N("rebase-apply/patch"), NAME_STEP, "what git am --continue applies" },
	{ N("sequencer/todo"), NAME_STEP, "what git cherry-pick --continue applies" },
};
/* clang-format on */
const size_t guarded_name_count = ARRAY_LEN(guarded_names);

/* Letters are all one, as they are to some file systems. `n` is the path's length. */
static bool ends_with(const char *path, size_t n, const struct guarded_name *g)
{
	const char *tail;

	if (n < g->len || ((path[n - 1] ^ g->name[g->len - 1]) & ~0x20))
		return false;
	tail = path + n - g->len;
	if (g->name[0] == '*')
		return strcasecmp(tail + 1, g->name + 1) == 0;
	return (n == g->len || tail[-1] == '/') && strcasecmp(tail, g->name) == 0;
}

bool name_points(const char *path)
{
	for (size_t i = 0; i < guarded_name_count; i++)
		if (guarded_names[i].class == NAME_POINTER && str_eq(guarded_names[i].name, path))
			return true;
	return false;
}

/* What the plan has made sure of: the very name, at the top. */
static bool is_planned(const char *path, const char *at, const struct guarded_name *g)
{
	return at == path && g->class < NAME_REPORTED && strncmp(at, g->name, g->len) == 0;
}

/* The strictest name that path is or lies below. Only names with a dot in front are folders' whose
 * files count one by one, so that most parts of a path are not compared; a pointer is none as a
 * folder. */
static const struct guarded_name *protected_names_find(const char *path, bool planned)
{
	const struct guarded_name *best = NULL;
	size_t n = strlen(path);

	for (size_t i = 0; n && i < guarded_name_count; i++) {
		const struct guarded_name *g = &guarded_names[i];

		if (ends_with(path, n, g) && (!best || g->class < best->class) &&
		    (planned || !is_planned(path, path + n - g->len, g)))
			best = g;
	}
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		for (size_t i = 0; *at == '.' && i < guarded_name_count; i++) {
			const struct guarded_name *g = &guarded_names[i];

			if (g->name[0] == '.' && g->class != NAME_POINTER &&
			    (!best || g->class < best->class) &&
			    strncasecmp(at, g->name, g->len) == 0 && at[g->len] == '/' &&
			    (planned || !is_planned(path, at, g)))
				best = g;
		}
	}
	return best;
}

const struct guarded_name *name_forbidden(const char *path)
{
	const struct guarded_name *g = protected_names_find(path, true);

	return g && g->class < NAME_REPORTED ? g : NULL;
}

/* What a package manager has put there is code already, and its scripts run when it is put there.
 */
static bool is_of_package(const char *path)
{
	return str_starts(path, "node_modules/") || strstr(path, "/node_modules/");
}

const struct guarded_name *name_reported(const char *path)
{
	return is_of_package(path) ? NULL : protected_names_find(path, false);
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

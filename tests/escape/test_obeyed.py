#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names that programs on the host obey, wherever and as whatever a run leaves them: in folders below, unknown ones, as commits.

The oracle is what lies in the workspace afterwards, and what the report says of it."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from harness import brig, main, test, workspace  # noqa: E402


def report(script, *options, **more):
    return brig("run", "--json", *options, "--", "sh", "-c", script, **more).json


def trusted(done):
    return {c["path"] for c in done["changed_trust"]}


def taken(done):
    return {d["target"] for d in done["denials"]}


# ---- names at every depth ----

STRONG = (".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".envrc", ".husky/pre-commit", "opencode.jsonc", ".kilocode/mcp.json", ".sl/config")


def put(names, below=""):
    return "; ".join(f"mkdir -p \"$(dirname '{below}{n}')\" && echo x > '{below}{n}'" for n in names)


@test(as_user="both")
def the_strongest_names_are_told_one_folder_down_and_further():
    for below in ("packages/a/", "a/b/c/d/"):
        done = report(put(STRONG, below))
        assert {below + n for n in STRONG} <= trusted(done), (below, done["changed_trust"])
    # What was there, and is changed in place; in letters that are the same name elsewhere; as a link.
    done = report("echo y >> packages/a/.vscode/tasks.json; mkdir -p packages/b/.VSCode; echo x > packages/b/.VSCode/Tasks.json; ln -s /nowhere packages/b/.envrc; mkdir .Claude; echo x > .Claude/settings.json")
    assert {"packages/a/.vscode/tasks.json", "packages/b/.VSCode/Tasks.json", "packages/b/.envrc", ".Claude/settings.json"} <= trusted(done), done["changed_trust"]
    # At the top they are none of the command's to make.
    names = [n for n in STRONG if n.split("/")[0] not in (".vscode", ".claude", ".mcp.json")]
    done = report(put(names))
    assert {n if n in (".sl/config",) else n.split("/")[0] for n in names} <= taken(done), done["denials"]
    assert not [n for n in names if (workspace() / n).exists()]


@test
def what_agents_obey_is_taken_away_or_told():
    """Of each agent that `brig wrap` knows, by its own name (model/agent_files.h), and of those that it does not."""
    gone = ("opencode.json", "opencode.jsonc", ".opencode/plugin/x.js", ".openhands/setup.sh", ".kilocode/mcp.json", ".trae/mcp.json", ".vs/mcp.json", ".pi/x", ".augment/x", ".iflow/x",
            ".codebuddy/x", ".crush/crush.json", ".vim/coc-settings.json", ".cshrc", ".tcshrc", ".kshrc", "_darcs/prefs/defaults")
    said = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.override.md", ".aider.conf.yml", "bunfig.toml", ".pnp.cjs", ".irbrc", ".pdbrc", ".pryrc", ".Rprofile", ".iex.exs", ".ghci", ".ocamlinit",
            ".octaverc", ".bazelrc", ".lazy.lua", ".lfsconfig", ".repo/repo/main.py")
    done = report(put(gone + said))
    assert not [n for n in gone if (workspace() / n).exists()], taken(done)
    assert set(said) <= trusted(done) | {n + "/main.py" for n in trusted(done)}, set(said) - trusted(done)


@test
def a_new_name_with_a_dot_is_told_whatever_it_is_and_everyday_work_is_quiet():
    (workspace() / ".mine").write_text("x")
    done = report(put((".nextagent/mcp.json", ".unknownrc", ".Mine")) + "; echo y >> .mine")
    assert trusted(done) == {".nextagent", ".unknownrc", ".Mine"}, done["changed_trust"]
    # Once, when it is made; and what builds, tests and editors leave is not told at all.
    everyday = (".pytest_cache/v", ".mypy_cache/x", ".ruff_cache/x", ".cache/x", ".tox/x", ".coverage", ".eslintcache", ".gitignore", ".a.c.swp", ".next/x",
                "node_modules/z/.vscode/settings.json", "node_modules/z/package.json", "target/debug/x", "src/.gitignore")
    done = report(put((".nextagent/other", *everyday)))
    assert trusted(done) == set() and not done["denials"], (done["changed_trust"], done["denials"])


if __name__ == "__main__":
    sys.exit(main())

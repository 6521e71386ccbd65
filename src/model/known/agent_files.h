/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/agent_files.h - what each agent that `brig wrap` knows obeys in a project.
 *
 * AGENTS is the list of those agents, and AGENT_FILES_NAME(X) has X(file, class, reason) for each
 * file of one. The rows of wrap_agents.c are numbered by that list and the table of protected names
 * is made from it: an agent that is not in it, or has no files here, does not build. */
#pragma once

/* clang-format off */
#define AGENTS(X) X(claude) X(codex) X(gemini) X(opencode) X(aider)

/* For texts: "claude, codex, ..., " and "claude | codex | ... | ". */
#define AGENTS_COMMA(agent) #agent ", "
#define AGENTS_BAR(agent) #agent " | "
#define AGENTS_LISTED AGENTS(AGENTS_COMMA)
#define AGENTS_CHOICE AGENTS(AGENTS_BAR)

#define AGENT_TOLD "what an agent is told to do"
#define AGENT_SERVERS "servers that an agent starts"

#define AGENT_FILES_claude(X)                                                                      \
	X(".claude", NAME_HELD, "hooks, commands and settings of an agent")                        \
	X(".mcp.json", NAME_HELD, AGENT_SERVERS)                                                   \
	X("CLAUDE.md", NAME_REPORTED, AGENT_TOLD)                                                  \
	X("CLAUDE.local.md", NAME_REPORTED, AGENT_TOLD)

#define AGENT_FILES_codex(X)                                                                       \
	X(".codex", NAME_HELD, "settings of an agent")                                             \
	X("AGENTS.md", NAME_REPORTED, AGENT_TOLD)                                                  \
	X("AGENTS.override.md", NAME_REPORTED, AGENT_TOLD)

#define AGENT_FILES_gemini(X)                                                                      \
	X(".gemini", NAME_HELD, "settings of an agent")                                            \
	X("GEMINI.md", NAME_REPORTED, AGENT_TOLD)

#define AGENT_FILES_opencode(X)                                                                    \
	X(".opencode", NAME_TAKEN, "plugins and tools that an agent loads")                        \
	X("opencode.json", NAME_TAKEN, AGENT_SERVERS)                                              \
	X("opencode.jsonc", NAME_TAKEN, AGENT_SERVERS)                                             \
	X(".opencode.json", NAME_TAKEN, AGENT_SERVERS)                                             \
	X(".opencode.jsonc", NAME_TAKEN, AGENT_SERVERS)

#define AGENT_FILES_aider(X)                                                                       \
	X(".aider.conf.yml", NAME_REPORTED, "commands that an agent runs")                         \
	X(".aider.model.settings.yml", NAME_REPORTED, "which servers an agent asks, and how")      \
	X(".aider.model.metadata.json", NAME_REPORTED, "which servers an agent asks, and how")
/* clang-format on */

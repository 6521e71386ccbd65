/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit/words.h"

/* clang-format off */
const struct audit_word audit_commands[AUDIT_COMMANDS] = {
	[AUDIT_LIST] = { "list", NULL, "[OPTION...]", "records, the newest 50" },
	[AUDIT_RUNS] = { "runs", NULL, "[OPTION...]", "runs, the newest 50: agent, folder, outcome, what was denied" },
	[AUDIT_SHOW] = { "show", NULL, "RUN|last [OPTION...]", "one run as a story: asked, contained, denied, ended" },
	[AUDIT_SECURITY] = { "security-events", NULL, "[OPTION...]", "runs, refusals, limits and leaks, the newest 50" },
	[AUDIT_EXPORT] = { "export", NULL, "[OPTION...]", "all records, for other programs" },
	[AUDIT_TAIL] = { "tail", NULL, "[OPTION...]", "the newest 10 records, then each new one" },
	[AUDIT_VERIFY] = { "verify", "verify-chain", "[OPTION...]", "has anybody touched the record? exit status 1 if so" },
	[AUDIT_PRUNE] = { "prune", NULL, "[OPTION...]", "remove old records; the rest still verifies" },
};

#define IN(c) (1U << AUDIT_##c)
#define FILTERED (IN(LIST) | IN(SECURITY) | IN(EXPORT) | IN(TAIL))

const struct audit_option audit_options[AUDIT_OPTIONS] = {
	[OPTION_TYPE] = { "--type", "--event-type", "TYPE", "only this type, or 'egress.*'; repeatable", FILTERED },
	[OPTION_RUN] = { "--run", "--run-id", "ID", "only this run, by its id's first digits", FILTERED | IN(RUNS) },
	[OPTION_SINCE] = { "--since", NULL, "WHEN", "from then on: 2h, 7d (ago), 2026-01-31", FILTERED },
	[OPTION_UNTIL] = { "--until", NULL, "WHEN", "up to then", FILTERED & ~IN(TAIL) },
	[OPTION_OUTCOME] = { "--outcome", NULL, "OUTCOME", "runs that ended so: exited, timeout, oom...", FILTERED },
	[OPTION_HOST] = { "--host", NULL, "HOST", "only about this host, or '*.example.org'", FILTERED },
	[OPTION_PRINCIPAL] = { "--principal", NULL, "WHO", "only what this one asked for: uid:1000", FILTERED },
	[OPTION_AGENT] = { "--agent", NULL, "NAME", "only what this agent did", FILTERED },
	[OPTION_LIMIT] = { "--limit", "-n", "N", "the newest N; 0 for all (runs: 500 at most)", FILTERED | IN(RUNS) },
	[OPTION_FORMAT] = { "--format", "-f", "FORMAT", "json, jsonl, csv, ocsf, ocsf-jsonl, raw or text", IN(EXPORT) },
	[OPTION_JSON] = { "--json", NULL, NULL, "one array of objects (tail: an object a line)", FILTERED | IN(RUNS) | IN(SHOW) | IN(VERIFY) | IN(PRUNE) },
	[OPTION_JSONL] = { "--jsonl", NULL, NULL, "an object a line", FILTERED | IN(SHOW) },
	[OPTION_CSV] = { "--csv", NULL, NULL, "comma-separated values with a head line", FILTERED & ~IN(TAIL) },
	[OPTION_OUTPUT] = { "--output", "-o", "FILE", "write there; made for you alone", IN(EXPORT) },
	[OPTION_MAX_AGE] = { "--max-age", NULL, "DURATION", "remove what is older (audit.max_age, 90d); 0 for any age", IN(PRUNE) },
	[OPTION_MAX_RECORDS] = { "--max-records", NULL, "N", "keep the newest N (audit.max_records); 0 for all", IN(PRUNE) },
	[OPTION_DRY_RUN] = { "--dry-run", NULL, NULL, "say what would be removed", IN(PRUNE) },
	[OPTION_ANCHOR] = { "--anchor", NULL, "FILE", "compare with heads kept elsewhere; repeatable", IN(VERIFY) },
	[OPTION_LIVE] = { "--live", NULL, NULL, "only those in progress", IN(RUNS) },
	[OPTION_WITHIN] = { "--within", NULL, "ID", "the commands that ran in this sandbox, by the run's whole id", IN(RUNS) },
	[OPTION_DIR] = { "--dir", NULL, "DIR", "the record in this folder instead of audit.dir", ~0U },
	[OPTION_NO_INDEX] = { "--no-index", NULL, NULL, "read everything, do without audit.db", FILTERED | IN(SHOW) | IN(RUNS) },
};
/* clang-format on */

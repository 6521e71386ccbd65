/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/words.h - what `brig audit` takes: one table for the parser, the help and the
 * completion.
 *
 * brig itself knows only these words; the work is done by the program brig-audit. */
#pragma once

#include <stddef.h>

enum audit_command {
	AUDIT_LIST,
	AUDIT_RUNS,
	AUDIT_SHOW,
	AUDIT_SECURITY,
	AUDIT_EXPORT,
	AUDIT_TAIL,
	AUDIT_VERIFY,
	AUDIT_PRUNE,
	AUDIT_COMMANDS
};

struct audit_word {
	const char *name, *alias; /* alias: another name of the same, or NULL */
	const char *usage, *help;
};

extern const struct audit_word audit_commands[AUDIT_COMMANDS];

enum audit_option_id {
	OPTION_TYPE,
	OPTION_RUN,
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_OUTCOME,
	OPTION_HOST,
	OPTION_PRINCIPAL,
	OPTION_AGENT,
	OPTION_LIMIT,
	OPTION_FORMAT,
	OPTION_JSON,
	OPTION_JSONL,
	OPTION_CSV,
	OPTION_OUTPUT,
	OPTION_MAX_AGE,
	OPTION_MAX_RECORDS,
	OPTION_DRY_RUN,
	OPTION_ANCHOR,
	OPTION_LIVE,
	OPTION_WITHIN,
	OPTION_DIR,
	OPTION_NO_INDEX,
	AUDIT_OPTIONS
};

struct audit_option {
	const char *name, *alias; /* with their dashes; alias may be NULL */
	const char *arg;          /* what --help calls the value; NULL for a switch */
	const char *help;
	unsigned commands; /* bits 1 << enum audit_command */
};

extern const struct audit_option audit_options[AUDIT_OPTIONS];

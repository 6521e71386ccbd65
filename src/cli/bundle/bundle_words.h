/* SPDX-License-Identifier: Apache-2.0 */
/* cli/bundle/bundle_words.h - what `brig bundle` takes: one table for the parser, the help and the
 * completion.
 *
 * brig itself knows only these words; the work is done by the program brig-bundle. */
#pragma once

#include <stddef.h>

enum bundle_command {
	BUNDLE_PACK,
	BUNDLE_INSPECT,
	BUNDLE_INSTALL,
	BUNDLE_PUSH,
	BUNDLE_PULL,
	BUNDLE_LIST,
	BUNDLE_REMOVE,
	BUNDLE_SCHEMA,
	BUNDLE_COMMANDS
};

struct bundle_word {
	const char *name, *usage, *help;
	int args; /* how many positional ones it takes */
};

extern const struct bundle_word bundle_commands[BUNDLE_COMMANDS];

enum bundle_option_id {
	BUNDLE_OPTION_OUTPUT,
	BUNDLE_OPTION_NAME,
	BUNDLE_OPTION_VERSION,
	BUNDLE_OPTION_SIGN,
	BUNDLE_OPTION_DIGEST,
	BUNDLE_OPTION_VERIFY_KEY,
	BUNDLE_OPTION_FORGET,
	BUNDLE_OPTION_PLAIN,
	BUNDLE_OPTION_TIMEOUT,
	BUNDLE_OPTION_JSON,
	BUNDLE_OPTIONS
};

struct bundle_option {
	const char *name, *alias; /* alias: a short one, or NULL */
	const char *arg, *help;   /* arg NULL: it takes none */
	unsigned commands;        /* bits of enum bundle_command */
};

extern const struct bundle_option bundle_options[BUNDLE_OPTIONS];

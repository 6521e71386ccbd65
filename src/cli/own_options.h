/* SPDX-License-Identifier: Apache-2.0 */
/* cli/own_options.h - options that a command has besides those of the field table. */
#pragma once

#include "base/text/err.h"
#include "base/text/str.h"

/* An option with a value: "--name VALUE", "--name=VALUE" or "-n VALUE". */
struct own_option {
	const char *command; /* of brig: its --help says what is missing */
	const char *name;
	const char *letter; /* "-n"; NULL: it has none */
};

/* Is the word behind argv[at] its value? "--" is none: who forgets a value would lose the "--" that
 * stands before the command, and name a file so. "--name=--" says that it is meant. */
static inline bool own_option_follows(int argc, char **argv, int at)
{
	return at + 1 < argc && !str_eq(argv[at + 1], "--");
}

/* Its value, where it is the one at argv[*at]; *at moves over it. 1; 0: it is another word. */
int own_option_value(const struct own_option *o, int argc, char **argv, int *at, const char **ret,
		     struct err *e);

/* Takes out of argv, behind the command's name, every word that `take` returns 1 for, and those
 * that it moves *at over. */
typedef int own_option_fn(void *arg, int argc, char **argv, int *at, struct err *e);
int own_options_take(int *argc, char **argv, own_option_fn *take, void *arg, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_options.h"

#include <errno.h>
#include <string.h>

int own_option_value(const struct own_option *o, int argc, char **argv, int *at, const char **ret,
		     struct err *e)
{
	const char *word = argv[*at];
	size_t n = strlen(o->name);
	bool alone = str_eq(word, o->name) || (o->letter && str_eq(word, o->letter));

	if (!alone && !(str_starts(word, o->name) && word[n] == '='))
		return 0;
	if (alone && !own_option_follows(argc, argv, *at)) {
		(void)err_set(e, ERR_USAGE, EINVAL, "option '%s' needs a value", word);
		return err_hint(e, "brig %s --help says which", o->command);
	}
	*ret = alone ? argv[++*at] : word + n + 1;
	return 1;
}

int own_options_take(int *argc, char **argv, own_option_fn *take, void *arg, struct err *e)
{
	int kept = 1;

	for (int at = 1; at < *argc; at++) {
		int r = take(arg, *argc, argv, &at, e);

		if (r < 0)
			return r;
		if (r == 0)
			argv[kept++] = argv[at];
	}
	argv[kept] = NULL;
	*argc = kept;
	return 0;
}

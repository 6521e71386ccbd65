/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_options.c - a command line, one word a line, for a command of either kind.
 *
 * No word that is not an option is lost or invented, and what follows "--" stays as it is. */
#include "fuzz.h"

#include "cli/cli.h"

#define WORDS_MAX 64

static void parse(const struct subcommand *c, char *const *words, int n)
{
	char *argv[WORDS_MAX + 2];
	struct err e = { 0 };
	struct spec *s = spec_new(&e);
	int rest = -1, r;

	require(s != NULL);
	memcpy(argv, words, sizeof(*argv) * ((size_t)n + 1));
	r = options_parse(c, s, n, argv, &rest, &e);
	require((r >= 0 && r <= 2) || (r < 0 && e.code == -r && e.what[0]));
	if (r == 0 && !c->permute) {
		require(rest >= 1 && rest <= n);
		for (int i = 0; i <= n; i++)
			require(argv[i] == words[i]);
		require(rest == n || argv[rest][0] != '-' || !argv[rest][1] ||
			strcmp(argv[rest - 1], "--") == 0);
	}
	if (r == 0 && c->permute) {
		int at = 0;

		require(rest == 1);
		for (int i = 1; argv[i]; i++) {
			require(i <= n);
			while (at <= n && words[at] != argv[i])
				at++;
			require(at < n);
		}
	}
	(void)spec_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct subcommand plain = { .name = "run", .fields = CMD_RUN };
	static const struct subcommand mixed = { .name = "exec",
						 .fields = CMD_EXEC,
						 .permute = true };
	char *text = text_of(data, size), *rest = text, *argv[WORDS_MAX + 2] = { (char[]){ "x" } };
	int n = 1;

	while (n < WORDS_MAX && (argv[n] = strsep(&rest, "\n")))
		n++;
	argv[n] = NULL;
	parse(&plain, argv, n);
	parse(&mixed, argv, n);
	free(text);
	return 0;
}

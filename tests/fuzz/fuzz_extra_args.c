/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_extra_args.c - lines as the flags of a file; the first byte chooses the style.
 *
 * Whatever is refused says so as a policy error without control characters. Whatever is taken holds
 * no flag outside the list below, none of the words that open a sandbox, and means the same when it
 * is written once more as --flag=value. */
#include <stdio.h>

#include "fuzz.h"

#include "base/text/str.h"
#include "model/dialect/extra_args.h"

#define LINES_MAX 64

static void require_harmless(const struct extra_arg *a)
{
	static const char *const flags[] = {
		"--ulimit",
		"--memory-swap",
		"--memory-reservation",
		"--memory-swappiness",
		"--cpu-shares",
		"--cpu-period",
		"--cpu-quota",
		"--cpus",
		"--cpuset-cpus",
		"--cpuset-mems",
		"--pids-limit",
		"--shm-size",
		"--oom-score-adj",
		"--stop-signal",
		"--stop-timeout",
		"--label",
		"--hostname",
		"--read-only",
		"--tmpfs",
		"--gpus",
	};
	bool known = false;

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		known |= str_eq(flags[i], a->flag);
	require(known && a->value && a->value[0] && a->api[0] && !str_has_control(a->value));
	if (str_eq(a->flag, "--label"))
		return;
	require(a->value[0] != '-');
	require(!str_eq(a->flag, "--gpus") || str_eq(a->value, "all"));
	require(!str_eq(a->flag, "--read-only") || str_eq(a->value, "true"));
	require(!str_eq(a->flag, "--ulimit") || !strstr(a->value, "unlimited"));
	if (str_eq(a->flag, "--tmpfs"))
		for (const char *p = a->value + strcspn(a->value, ":"); (p = strstr(p, "exec"));
		     p++)
			require(memcmp(p - 2, "no", 2) == 0);
}

/* Written in one form, the flags come out as they were. */
static void require_stable(const struct extra_arg *v, size_t n, enum extra_args_style style)
{
	const char *words[LINES_MAX];
	struct strlist args = { .v = words, .n = n };
	struct extra_arg out[LINES_MAX];
	char *text[LINES_MAX];
	struct err e;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(v[i].flag) + strlen(v[i].value) + 2;

		words[i] = text[i] = malloc(len);
		require(text[i] != NULL);
		(void)snprintf(text[i], len, "%s=%s", v[i].flag, v[i].value);
	}
	require(extra_args_check(&args, style, out, &m, &e) == 0 && m == n);
	for (size_t i = 0; i < n; i++) {
		require(str_eq(out[i].flag, v[i].flag) && str_eq(out[i].value, v[i].value));
		free(text[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum extra_args_style style = size ? (enum extra_args_style)(data[0] % 3) : EXTRA_ARGS_BRIG;
	char *text = text_of(data + (size > 0), size - (size > 0)), *rest = text, *line;
	const char *words[LINES_MAX];
	struct strlist args = { .v = words };
	struct extra_arg out[LINES_MAX];
	struct err e = { 0 };
	size_t n = 0;

	while (args.n < LINES_MAX && (line = strsep(&rest, "\n")))
		words[args.n++] = line;
	if (extra_args_check(&args, style, out, &n, &e) == 0) {
		require(n <= args.n && extra_args_check(&args, style, NULL, NULL, &e) == 0);
		for (size_t i = 0; i < n; i++)
			require_harmless(&out[i]);
		require_stable(out, n, style);
	} else {
		require(e.kind == ERR_POLICY && !str_has_control(e.what));
		require(style != EXTRA_ARGS_RLM || str_starts(e.what, "Docker extra arg '"));
	}
	free(text);
	return 0;
}

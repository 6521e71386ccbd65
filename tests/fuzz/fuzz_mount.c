/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_mount.c - a mount that was taken says what was written, and no target that passes lies
 * in a place brig keeps for itself. */
#include <stdio.h>

#include "fuzz.h"

#include "base/text/arena.h"
#include "model/settings/paths.h"
#include "model/settings/spec.h"

static void check_target(const char *t)
{
	static const char *const kept[] = { "/proc", "/sys", "/dev" };
	struct err e;

	if (target_check(t, "/workspace", &e) < 0)
		return;
	require(t[0] == '/' && t[1] && !strstr(t, "//") && !strstr(t, "/./") && !strstr(t, "/../"));
	require(t[strlen(t) - 1] != '/' && strcmp(t, "/workspace") != 0 && strcmp(t, "/usr") != 0);
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		size_t n = strlen(kept[i]);

		require(strncmp(t, kept[i], n) != 0 || (t[n] && t[n] != '/'));
	}
	for (; *t; t++)
		require((unsigned char)*t >= 0x20 && *t != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new((size_t)4 << 20);
	char *text = text_of(data, size);
	char *again = malloc(size + 8);
	struct mount_spec m;
	struct err e;

	require(a && again);
	if (size < 65536 && mount_parse(a, text, &m, &e) == 0) {
		(void)snprintf(again, size + 8, "%s:%s", m.source, m.target);
		require(strncmp(again, text, strlen(again)) == 0);
		require(m.source[0] && !strchr(m.source, ':') && !strchr(m.target, ':'));
		if (m.writable)
			require(strcmp(text + strlen(again), ":rw") == 0);
		check_target(m.target);
	}
	check_target(text);
	free(again);
	free(text);
	(void)arena_free(a);
	return 0;
}

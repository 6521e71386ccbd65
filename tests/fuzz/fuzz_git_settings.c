/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_git_settings.c - a git configuration: every word that comes out is within its
 * bounds.
 */
#include "fuzz.h"

#include <stdio.h>

#include "git/git_syntax.h"

static int on_setting(void *arg, const struct git_setting *s)
{
	size_t *count = arg;

	require(*s->section && strlen(s->section) < GIT_WORD_MAX && strlen(s->sub) < GIT_WORD_MAX);
	require(*s->key && strlen(s->key) < GIT_WORD_MAX);
	require(!s->value || strlen(s->value) < GIT_VALUE_MAX);
	return ++*count > 10000 ? 1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t count = 0;

	(void)git_syntax_read((const char *)data, size, on_setting, &count);
	return 0;
}

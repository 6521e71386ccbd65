/* SPDX-License-Identifier: Apache-2.0 */
/* unit/leaks.c - under the sanitizers, in every program of ours: who looks for leaks, and when.
 *
 * On arm64 a look takes three seconds of a processor, however little there is to see. So only unit
 * programs look, in their first process, and only if something that was allocated was not freed. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int __lsan_is_turned_off(void);
void __sanitizer_malloc_hook(const volatile void *p, size_t n);
void __sanitizer_free_hook(const volatile void *p);

static char lines[BUFSIZ]; /* of stdout: the C library does not free its own buffer */
static pid_t program;
/* The first is 0 if as much was freed as allocated, the second if it was the same. */
static uintptr_t count, which;

static bool is_unit_test(void)
{
	return strncmp(program_invocation_short_name, "test_", 5) == 0;
}

void __sanitizer_malloc_hook(const volatile void *p, size_t n)
{
	(void)n;
	if (!p)
		return;
	(void)__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	(void)__atomic_xor_fetch(&which, (uintptr_t)p, __ATOMIC_RELAXED);
}

void __sanitizer_free_hook(const volatile void *p)
{
	if (!p)
		return;
	(void)__atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED);
	(void)__atomic_xor_fetch(&which, (uintptr_t)p, __ATOMIC_RELAXED);
}

/* What the loader and the sanitizers keep for themselves is not counted. */
__attribute__((constructor)) static void begin(void)
{
	program = getpid();
	if (is_unit_test())
		(void)setvbuf(stdout, lines, _IOLBF, sizeof(lines));
	count = which = 0;
}

int __lsan_is_turned_off(void)
{
	return getpid() != program || !is_unit_test() || (count == 0 && which == 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/leaks.c - under the sanitizers, leaks are looked for in the test program and not once more
 * in every process that it makes of itself: a look takes three seconds on arm64, however little
 * there is to see. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

int __lsan_is_turned_off(void);

static pid_t program;

__attribute__((constructor)) static void remember(void)
{
	program = getpid();
}

int __lsan_is_turned_off(void)
{
	return getpid() != program || strncmp(program_invocation_short_name, "test_", 5) != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bench/calls.c - "calls N" makes N cheap system calls, half of them getppid, half fstat. With N =
 * 0 it is "true". */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	struct stat st;

	for (long i = 0; i < n / 2; i++) {
		if (syscall(SYS_getppid) < 0 || fstat(0, &st) < 0)
			return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bench/calls.c - "calls N" makes N cheap system calls, half of them getppid, half fstat. With N =
 * 0 it is "true". "calls clock" prints the monotonic clock as it finds it, in nanoseconds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	struct timespec t;
	struct stat st;

	if (argc > 1 && strcmp(argv[1], "clock") == 0 && clock_gettime(CLOCK_MONOTONIC, &t) == 0)
		return printf("%lld\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec) < 0;
	for (long i = 0; i < n / 2; i++) {
		if (syscall(SYS_getppid) < 0 || fstat(0, &st) < 0)
			return 1;
	}
	return 0;
}

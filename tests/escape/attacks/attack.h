/* SPDX-License-Identifier: Apache-2.0 */
/* attack.h - what the attack programs share: one line per attempt, and an exit status.
 *
 *     + NAME DETAIL     it worked
 *     - NAME ERRNO      it was denied
 *     ? NAME DETAIL     it could not be tried here
 *     = NAME TEXT       a fact, for the host to judge
 *
 * Exit status: 0 at least one worked, 1 all were denied, 2 none could be tried. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int worked, denied, untried;

__attribute__((unused, format(printf, 2, 3))) static void yes(const char *name, const char *detail,
							      ...)
{
	va_list args;

	va_start(args, detail);
	printf("+ %s ", name);
	vprintf(detail, args);
	putchar('\n');
	va_end(args);
	fflush(stdout);
	worked++;
}

__attribute__((unused)) static void no(const char *name, int code)
{
	printf("- %s %s\n", name, code ? strerrorname_np(code) : "no-effect");
	fflush(stdout);
	denied++;
}

__attribute__((unused)) static void cannot(const char *name, const char *why)
{
	printf("? %s %s\n", name, why);
	fflush(stdout);
	untried++;
}

/* The usual case: a system call that returns -1 when it is denied. */
__attribute__((unused)) static long tried(const char *name, long result)
{
	if (result < 0)
		no(name, errno);
	else
		yes(name, "%ld", result);
	return result;
}

/* As tried, but any answer except a refusal counts: the call got past the checker. Arguments are
 * chosen so that nothing happens even where nobody guards. */
__attribute__((unused)) static void reached(const char *name, long result)
{
	if (result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS))
		no(name, errno);
	else
		yes(name, "%s", result < 0 ? strerrorname_np(errno) : "0");
}

__attribute__((unused)) static int verdict(void)
{
	return worked ? 0 : denied ? 1 : 2;
}

/* Tells the host that it is time to look, and waits until it has: `ready` is made, `go` awaited. */
__attribute__((unused)) static void let_host_look(const char *folder)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/ready", folder);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd >= 0)
		close(fd);
	snprintf(path, sizeof(path), "%s/go", folder);
	for (int i = 0; i < 2000 && access(path, F_OK) < 0; i++)
		usleep(5000);
}

struct subcommand {
	const char *name;
	void (*run)(int argc, char **argv);
};

__attribute__((unused)) static int dispatch(const struct subcommand *all, int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; argc > 1 && all->name; all++)
		if (strcmp(all->name, argv[1]) == 0) {
			all->run(argc - 2, argv + 2);
			return verdict();
		}
	fprintf(stderr, "unknown attack\n");
	return 2;
}

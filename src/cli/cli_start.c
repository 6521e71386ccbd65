/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cli_start.c - what both programs with a command table begin with: brig, and brig-more. */
#include "cli/cli_start.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/files/fd.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "doctor/attack.h"
#include "sandbox/manager.h"

enum {
	HEAP_ROOM = 256 * 1024,
	HEAP_FIRST = 128 * 1024, /* what a run has written to when its command starts */
	HEAP_APART = 128 * 1024, /* glibc's own limit: anything larger is a mapping of its own */
};

const struct subcommand *command_by_name(const char *name)
{
	for (const struct subcommand *const *c = commands; *c; c++)
		if (str_eq((*c)->name, name))
			return *c;
	return NULL;
}

/* What was printed must be somewhere: on a full disk nothing succeeds. */
static int printed(int status)
{
	struct err e = { 0 };

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno)
		(void)err_sys(&e, "cannot write to standard output");
	else /* an earlier attempt failed, and what it said is gone */
		(void)err_refuse(&e, ERR_INTERNAL, EIO,
				 "see whether there is space where it goes, and a reader",
				 "cannot write to standard output");
	error_print(&e);
	return EXIT_BRIG;
}

/* Room for a whole run at once, never given back in the middle of it. */
static void cli_start_make_room(void)
{
	(void)mallopt(M_TOP_PAD, HEAP_ROOM);
	(void)mallopt(M_TRIM_THRESHOLD, 4 * HEAP_ROOM);
}

/* The first part of it is had in one system call: page by page it would be thirty faults, which are
 * a twentieth of a start. A kernel before 5.14 refuses, and the pages come one by one. */
static void fill_room(void)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	char *first;

	(void)mallopt(M_MMAP_THRESHOLD, 2 * HEAP_FIRST);
	first = malloc(HEAP_FIRST);
	if (first)
		(void)madvise((void *)((uintptr_t)first & ~(page - 1)), HEAP_FIRST,
			      MADV_POPULATE_WRITE);
	free(first);
	(void)mallopt(M_MMAP_THRESHOLD, HEAP_APART);
}

/* Other names of brig: `brigd` means `brig daemon`, `brig-sh` means `brig sh`, for whoever wants
 * one word, and so does `brig-bash`, for those who take no $SHELL without "bash" in its name. A
 * login shell has a hyphen in front. NULL: it was called by another. */
static const char *by_its_name(const char *called)
{
	const char *slash = called ? strrchr(called, '/') : NULL;
	const char *name = slash ? slash + 1 : called;

	if (!name)
		return NULL;
	if (str_eq(name, "brigd"))
		return "daemon";
	name += *name == '-';
	return str_eq(name, "brig-sh") || str_eq(name, "brig-bash") ? "sh" : NULL;
}

static int cli_start_run(const struct subcommand *c, int argc, char **argv)
{
	if (c->fields && !c->verbs)
		fill_room();
	return printed(c->run(c, argc, argv));
}

int cli_start(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	const struct subcommand *c;
	const char *name;
	uint64_t letter;

	if (argc == 3 && str_eq(argv[1], "_inside") && num_count(argv[2], &letter) == 0)
		sandbox_inside((int)letter);
	if (argc > 2 && str_eq(argv[1], "_attack"))
		return attack_inside(argc - 2, argv + 2);
	if (fd_ensure_stdio() < 0)
		return EXIT_BRIG;
	cli_start_make_room();
	/* A caller's limit on file sizes is an error with words, not the end of us; the command
	 * has the signal back. */
	(void)sigaction(SIGXFSZ, &ignore, NULL);
	name = by_its_name(argv[0]);
	if (name) {
		c = command_by_name(name);
		return c ? cli_start_run(c, argc, argv) : command_elsewhere(argc, argv);
	}
	c = argc > 1 ? command_by_name(argv[1]) : NULL;
	if (!c)
		return printed(command_elsewhere(argc, argv));
	if (argc == 3 && str_eq(argv[2], "--help=all") && c != &cmd_sh) {
		help_all(c);
		return printed(0);
	}
	return cli_start_run(c, argc - 1, argv + 1);
}

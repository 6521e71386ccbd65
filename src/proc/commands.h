/* SPDX-License-Identifier: Apache-2.0 */
/* proc/commands.h - the commands of a sandbox that is open, seen from their supervisor: init of
 * native and bwrap, the gate of docker, the guard of none.
 *
 *     supervisor ─┬─ brig-reaper ─── command ─── whatever it starts
 *                 └─ brig-reaper ─── command
 *
 * Each command stands below a reaper of its own, a fork of the supervisor that is a subreaper:
 * whatever the command detaches stays below it, and it lives as long as any of that does. To end a
 * command altogether the supervisor kills its reaper; what was below it then becomes a child of the
 * supervisor, and such a child that is not a reaper is killed as soon as it is seen, until there
 * is none. The same happens when the command itself has killed its reaper, which it can because
 * both have the same user, and it gains nothing else by it.
 *
 * Reapers write into places of a table that they share with the supervisor, which alone speaks to
 * the monitor. Neither can be looked into by the command, and neither allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"
#include "proc/supervisor.h"

/* What a supervisor's commands have in common. */
struct command_terms {
	int control; /* the supervisor's end */
	/* In place of it: a word, with a descriptor that stays the caller's, or -1. NULL: over
	 * `control`. */
	void (*tell)(void *teller, const struct supervisor_msg *m, int fd);
	void *teller;
	bool apart;     /* that one ran is always said by itself, whatever has become of it */
	bool inside;    /* of a sandbox, which the words of an error say; else they die with it */
	uint64_t nproc; /* its own RLIMIT_NPROC, with room for COMMANDS_MAX reapers; 0: none */
	/* In the command, before it is executed: its limit of open files. 0 or -errno. NULL: it is
	 * the supervisor's own. */
	int (*limit)(const void *arg);
	const void *arg;
	/* Variables that only the supervisor knows: an order has those that are not among them, or
	 * say otherwise, and PATH is looked for in both. NULL: an order has all. */
	const char *const *envp;
};

enum place_state {
	PLACE_STARTING,
	PLACE_FAILED, /* nothing was executed; err says why */
	PLACE_RUNS,
	PLACE_EXITED, /* the command itself; status says how */
};

struct command_place {
	/* The supervisor's. */
	pid_t reaper; /* 0: this place is free, or the reaper is gone */
	bool taken;
	uint32_t number;
	bool told_start, told_end;
	bool killed;      /* its reaper did not leave by itself: all below it is being ended */
	uint64_t waiting; /* signals that came before it ran, a bit each */

	/* The reaper's, read by the supervisor. */
	enum place_state state; /* by atomic accesses: the rest was written before */
	pid_t command;
	int status;
	uint64_t started; /* when it was executed, in microseconds: it is told later */
	uint64_t written; /* bytes to disk, by what the reaper has reaped */
	struct err err;
};

struct commands {
	int children;   /* the kernel's list of the supervisor's own */
	bool orphans;   /* may be among them */
	unsigned quiet; /* so many looks found none */
	uint64_t give_up_at;
	size_t top; /* places from here on were never taken, and are not in memory */
	struct command_place places[COMMANDS_MAX];
};

/* Once: room for the commands. Fails where the kernel does not tell a process its
 * children. */
int commands_new(struct commands **ret, struct err *e);

/* What ASK_EXEC came with. */
struct command_ask {
	struct supervisor_request r;
	const char *order; /* NULL: it is in fds[0] */
	size_t size;
	int fds[4]; /* order (-1: in `order`), output, errors and input, or order alone */
	size_t n;
};

/* The next request. Its order, if it came behind it, is in *p. -EPROTO: whoever asks is gone. */
int commands_hear(int control, struct supervisor_packet *p, struct command_ask *ret);

/* Starts one, as ASK_EXEC says; tells if it cannot. The descriptors are closed in any case. */
void commands_exec(struct commands *t, const struct command_terms *c, struct command_ask *a);

/* To the command's process group; SIGKILL ends all there is of it. COMMAND_FIRST: to every process
 * inside, unless it is SIGKILL. */
void commands_signal(struct commands *t, const struct command_terms *c, uint32_t number, int sig);

/* Lets the reapers go on, which a SIGSTOP for every process has stopped. */
void commands_continue(const struct commands *t);

/* Reaps, ends what is nobody's, tells what there is to tell. Returns how long to wait before the
 * next turn, in milliseconds; -1: until something happens; -ETIME: something does not die, and all
 * there is must end. */
int commands_turn(struct commands *t, const struct command_terms *c);

/* Bytes to disk by what lives below reapers and was reaped by them. */
uint64_t commands_written(const struct commands *t);

/* errno in words, of a process that could not be made. Always negative. */
int commands_full(struct err *e);

/* reaper.c: fds are order, output, errors and input, or order and terminal; nproc is RLIMIT_NPROC
 * from here on, 0: as it is. */
_Noreturn void reaper_main(struct command_place *p, const struct command_terms *c,
			   const struct command_ask *a, uint64_t nproc);
/* The same process as brig-files: fds are order and ends. */
_Noreturn void reaper_files(struct command_place *p, const struct command_terms *c,
			    const struct command_ask *a, uint64_t nproc);

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/command_table.h - the commands of an open sandbox, seen from its monitor;
 * proc/commands.h is the other end. */
#pragma once

#include "backend/backend.h"

struct command_table; /* COMMANDS_MAX places */

struct command_table *command_table_new(void); /* NULL without memory */
struct command_table *command_table_free(struct command_table *t);

/* Whose commands they are. */
struct command_host {
	struct command_table *table;
	int control, pidfd;      /* of the supervisor; pidfd may be -1 */
	const char *const *envp; /* what a command has if it does not say otherwise */
	const char *path, *cwd;
	/* Makes room for so many processes of brig's own; NULL: there is no such limit. */
	int (*room)(void *job, size_t commands, struct err *e);
	bool (*hear)(void *job); /* all that the supervisor has to say now; false: it is gone */
	bool terminals;          /* it hands them out (command_terminal) */
	bool takes_short;        /* short orders, behind the request */
	void *job;
};

/* As backend.exec. */
int command_start(const struct command_host *h, const struct job_want *w, struct job_io *io,
		  uint32_t *ret, struct err *e);

/* A word about one of them, whose number is not COMMAND_FIRST. t may be NULL. */
void command_said(struct command_table *t, const struct supervisor_msg *m);

/* The master of one's terminal, which is taken over. t may be NULL. */
void command_terminal(struct command_table *t, uint32_t number, int master);

/* How one ended. */
struct command_end {
	int status;                    /* as of wait */
	uint64_t started;              /* on the monotonic clock, in microseconds */
	bool refused;                  /* it was never executed: `why` */
	const struct command *command; /* what it was */
	struct err why;
};

/* true once: it has ended, or could not begin. */
bool command_ended(struct command_table *t, uint32_t number, struct command_end *ret);
bool command_began(const struct command_table *t, uint32_t number);
void command_refused(const struct command_end *x, struct outcome *o); /* into the outcome */

size_t commands_there(const struct command_table *t);   /* for the supervisor; 0 for NULL */
size_t commands_running(const struct command_table *t); /* whose end was not heard of yet */

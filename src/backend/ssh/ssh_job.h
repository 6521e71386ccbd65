/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_job.h - one run on another host, shared by ssh_start.c and ssh_job.c. */
#pragma once

#include "backend/ssh/ssh.h"

struct backend_job {
	struct backend_plan *plan; /* borrowed */
	char id[ID_ROOM];
	struct nonces nonces;
	struct outcome *outcome;     /* of a start that fails; borrowed; NULL: nobody asks */
	struct isolation *isolation; /* for what a brig over there reports; likewise */
	struct ssh_client client, killer, keeper;
	int leash; /* brig's end; a word on it lets the keeper go */
	int events, timer;
	struct relay relay;
	long pid; /* of the wrapper, and of its process group */
	bool marked_out, marked_err, relay_waits;
	bool killing, left;
	bool abandoned; /* it may begin over there, after brig stopped waiting for it */
	bool told;      /* the wrapper said how it ended */
	int status;
	struct buf report; /* of another brig */
	/* It is an open sandbox, of a plain host or of another brig, and has only events besides;
	 * else NULL. */
	struct ssh_open *open;
	struct ssh_hold *hold;
};

/* start.c */
struct backend_job *ssh_job_new(struct backend_plan *p, const char *id);
int ssh_job_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		  struct backend_job **ret, struct err *e);
/* A second session, for a signal. A leash >= 0: it waits for brig's death first. `hurry`: the
 * connection may be gone, and a new one must not take long. */
int ssh_job_signal(struct backend_job *j, int sig, int leash, bool hurry, struct ssh_client *c,
		   struct err *e);
/* A signal for the caller came while it waits for the other side; why that is given up. */
bool ssh_interrupted(void);
int ssh_overdue(const struct backend_plan *p, struct err *e);

int ssh_job_listen(const struct backend_job *j, int fd, uint32_t events); /* with its epoll */

/* job.c */
enum job_event ssh_job_event(struct backend_job *j);
void ssh_job_strike(struct backend_job *j, int sig);
/* It is to end by itself within so many milliseconds; else its session is ended, and that is
 * reported. */
enum { SSH_PATIENCE_MS = 5000 };
void ssh_job_expect_end(struct backend_job *j, long ms);
void ssh_job_finish(struct backend_job *j, struct outcome *o);
struct backend_job *ssh_job_free(struct backend_job *j); /* ends what lives; takes NULL */
DEFINE_CLEANUP(ssh_job, struct backend_job *, ssh_job_free)

/* ssh_hold.c: a sandbox that another brig keeps open, and its commands: one session, and frames
 * (far/far_job.h) in it. As the slots of backend.h, for a job that is open. */
int ssh_hold_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		   struct backend_job **ret, struct err *e);
int ssh_hold_exec(struct backend_job *j, const struct job_want *w, struct job_io *io, uint32_t *ret,
		  struct err *e);
bool ssh_hold_ended(struct backend_job *j, uint32_t command, struct outcome *o);
enum job_event ssh_hold_event(struct backend_job *j);
void ssh_hold_signal(struct backend_job *j, uint32_t command, int sig);
void ssh_hold_resize(struct backend_job *j, uint32_t command, unsigned short rows,
		     unsigned short cols);
void ssh_hold_finish(struct backend_job *j, struct outcome *o);
struct ssh_hold *ssh_hold_free(struct ssh_hold *h);

/* ssh_open.c: one on a plain host, whose commands are sessions of their own. Likewise. */
int ssh_open_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		   struct backend_job **ret, struct err *e);
int ssh_open_exec(struct backend_job *j, const struct job_want *w, struct job_io *io, uint32_t *ret,
		  struct err *e);
bool ssh_open_ended(struct backend_job *j, uint32_t command, struct outcome *o);
enum job_event ssh_open_event(struct backend_job *j);
void ssh_open_signal(struct backend_job *j, uint32_t command, int sig);
void ssh_open_finish(struct backend_job *j, struct outcome *o);
struct ssh_open *ssh_open_free(struct ssh_open *s);

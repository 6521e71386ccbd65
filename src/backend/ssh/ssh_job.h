/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_job.h - one run on another host, shared by start.c and job.c. */
#pragma once

#include "backend/ssh/ssh.h"

struct backend_job {
	struct backend_plan *plan; /* borrowed */
	char id[ID_ROOM];
	struct nonces nonces;
	struct outcome *outcome; /* of a start that fails; borrowed; NULL: nobody asks */
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
};

/* start.c */
int ssh_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
	      struct backend_job **ret, struct err *e);
/* A second session, for a signal. A leash >= 0: it waits for brig's death first. `hurry`: the
 * connection may be gone, and a new one must not take long. */
int ssh_job_signal(struct backend_job *j, int sig, int leash, bool hurry, struct ssh_client *c,
		   struct err *e);

int ssh_job_listen(const struct backend_job *j, int fd, uint32_t events); /* with its epoll */

/* job.c */
struct backend_job *ssh_job_free(struct backend_job *j); /* ends what lives; takes NULL */
DEFINE_CLEANUP(ssh_job, struct backend_job *, ssh_job_free)

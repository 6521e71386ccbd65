/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/job_bridge.h - network bridge of a sandbox that brig builds itself, as its
 * monitor sees it.
 *
 *     the inside has made router and veth -> cable started -> all that is near closed -> the inside
 *       goes on; what comes later is closed as it comes, or the cable is cut */
#pragma once

#include "backend/kit/process/job.h"

enum { BRIDGE_NAMES, BRIDGE_RTNL, BRIDGE_USER, BRIDGE_NET, BRIDGE_FDS }; /* in SUPERVISOR_DOOR */

/* In the new process, alone in a network namespace, which becomes the router's: moves on into the
 * sandbox's. The descriptors are the caller's. */
int job_bridge_inside(int fds[BRIDGE_FDS], struct err *e);

/* With those in j->door; the socket for names is left in there. */
int job_bridge_open(struct backend_job *j, struct err *e);
/* true: the descriptor was the bridge's, and has been heard. */
bool job_bridge_turn(struct backend_job *j, int fd, struct outcome *o);
void job_bridge_done(struct backend_job *j);

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/learn/opens.h - which files a run that brig learns from opens, changes and executes.
 *
 * A second filter holds each such call until it is answered here (seccomp_watch), and the answer is
 * always that it goes on: the name that was read may be another by the time the kernel reads it. So
 * it is good for learning and for nothing else. The listener is in the monitor alone; when the
 * monitor is gone such calls fail with ENOSYS, and nobody waits. */
#pragma once

#include "base/text/cleanup.h"
#include "model/learn/sightings.h"

struct opens;

/* `listener` and `to` are borrowed. NULL: no memory. */
struct opens *opens_new(int listener, struct sightings *to);
struct opens *opens_free(struct opens *o);
DEFINE_CLEANUP(opens, struct opens *, opens_free)

/* Answers those that wait, a bounded number of them; never waits itself. */
void opens_serve(struct opens *o);

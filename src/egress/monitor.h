/* SPDX-License-Identifier: Apache-2.0 */
/* egress/monitor.h - the door's processes as their monitor sees them.
 *
 *     started (worker and keeper exist, the authority is known)
 *       -> attached (the sockets were handed over)
 *       -> ready, or failed, or gone
 *
 * With an authority that was made ahead (egress_start_ahead):
 *
 *     waiting (no process; the values are here) -> attached (the sockets are here)
 *       -> the first connection or question: started, as above | over, without a process
 *
 * A worker that is gone means no network: nothing takes its place. The monitor holds no key and
 * reads nothing the guest wrote but the texts of events, which are cut to size. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/event.h"
#include "egress/rules/questions.h"
#include "model/settings/door_spec.h"
#include "model/settings/spec.h"

struct egress;

/* Starts brig-egress for this spec; refuses when there is none or it cannot take the settings.
 * Fetches the credentials (variables from envp), so it may block while a command of theirs runs. */
int egress_start(const struct spec *s, char *const *envp, struct egress **ret, struct err *e);
/* The same, where an authority can be had that was made ahead: nothing is started before something
 * of the sandbox's reaches a socket. Else as above, and one is made for a later run. */
int egress_start_ahead(const struct spec *s, char *const *envp, struct egress **ret, struct err *e);
/* The same for processes that somebody else starts elsewhere: nothing is started here, and there is
 * neither an authority to ask for nor a socket to hand over. */
int egress_start_there(const struct spec *s, char *const *envp, struct egress **ret, struct err *e);
const struct door_there *egress_there(const struct egress *g); /* borrowed; NULL: they run here */
void egress_there_taken(struct egress *g); /* somebody has these descriptors now, or nobody will */
struct egress *egress_free(struct egress *g); /* ends and reaps both processes; takes NULL */
DEFINE_CLEANUP(egress, struct egress *, egress_free)

bool egress_is_waiting(const struct egress *g); /* egress_authority answers at once */

/* The run's authority as PEM, borrowed; waits for it. NULL and *e when it does not come. */
const char *egress_authority(struct egress *g, struct err *e);

/* What the environment inside gets: NAME=placeholder, NULL-terminated, borrowed. */
const char *const *egress_variables(const struct egress *g);

/* Hands the sockets over, which stay the caller's to close. */
int egress_attach(struct egress *g, const struct door_socket *what, const int *fds, size_t n,
		  struct err *e);

/* Waits until the worker serves; for who hears nothing of it otherwise. */
int egress_await(struct egress *g, unsigned ms, struct err *e);

int egress_fd(const struct egress *g); /* readable: egress_next has something; -1: gone */

/* The answer to a question of the worker's (EGRESS_EVENT_ASK); false: it does not take it. */
bool egress_answer(struct egress *g, uint32_t id, enum question_answer a);

bool egress_names_host(const struct egress_event *ev); /* in the one spelling that names have */

/* What the result shows of an event: it is counted, and a denial is listed. */
struct outcome;
void egress_count(const struct egress_event *ev, struct outcome *o);
void egress_denial(const struct egress_event *ev, struct outcome *o);

/* No more is wanted: the worker tells what is still open and ends. To be heard until it is gone;
 * one that does not serve yet is gone at once. */
void egress_end(struct egress *g);

enum { EGRESS_REASON_SIZE = 640 };
void egress_reason_text(const struct egress_event *ev, char *out, size_t n);

bool egress_waiting(
	const struct egress *g); /* egress_next has something its descriptor does not show */
enum egress_news { EGRESS_QUIET, EGRESS_NEWS, EGRESS_GONE };
enum egress_news egress_next(struct egress *g, struct egress_event *ret);

/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/recorder.h - what the conductor puts on the record about one run.
 *
 * A spec without audit gives a NULL recorder, which every function here takes. */
#pragma once

#include "base/text/cleanup.h"
#include "model/outcome/outcome.h"
#include "model/settings/spec.h"

struct recorder;

/* Opens nothing yet, so that a run pays for it while its sandbox is set up; but makes the folder of
 * the record if there is none, because a plan must know what to hide. */
int recorder_new(const struct spec *s, struct recorder **ret, struct err *e);
/* The same for a command of an open sandbox, whose recorder may be NULL: it shares what that one
 * has open, as long as the record is where it was. */
int recorder_join(const struct spec *s, const struct recorder *of, struct recorder **ret,
		  struct err *e);
struct recorder *recorder_free(struct recorder *r);
DEFINE_CLEANUP(recorder, struct recorder *, recorder_free)

/* sandbox.create: to be on the record before the command can do anything. Also finds runs whose
 * brig died. */
int recorder_begin(struct recorder *r, const char *id, const char *backend, struct err *e);

/* Could the record still take the end of this run? Cheap; for `audit.on_error: end`. */
int recorder_ready(struct recorder *r, struct err *e);

/* A decision of the door. Repeated ones are counted. */
struct egress_event;
int recorder_egress(struct recorder *r, const struct egress_event *ev, struct err *e);

/* What somebody said of a name that no rule allows, before it counts. */
struct name_question;
int recorder_answer(struct recorder *r, const struct name_question *q, const char *answer,
		    const char *by, struct err *e);

/* A signature of the user's ssh-agent, before it is given; `key` is a fingerprint. The host that a
 * login is to, or NULL. */
int recorder_signature(struct recorder *r, const char *key, const char *purpose, const char *host,
		       struct err *e);

/* Denials, limits and sandbox.exec, whatever the outcome; also removes old records now and then. */
int recorder_end(struct recorder *r, const struct outcome *o, struct err *e);

/* A request that never became a run. `command` is brig's own word for it. */
int recorder_refused(const struct spec *s, const char *command, const struct err *why,
		     struct err *e);

/* What is trusted changes: `action` is allow or revoke, digest that of the file's text or NULL. */
int recorder_policy(const struct spec *s, const char *action, const char *file, const char *digest,
		    struct err *e);

/* The user's own file is about to get this rule; digest is that of its text then. */
int recorder_rule(const struct spec *s, const char *action, const char *rule, const char *file,
		  const char *digest, struct err *e);

/* A model has called a tool: `run` is what it came to on the record, or NULL; `outcome` a word. */
int recorder_tool(const struct spec *s, const char *session, const char *tool, const char *run,
		  const char *outcome, struct err *e);

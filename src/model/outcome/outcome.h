/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/outcome.h - how a command ended, and what was seen of it. Plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/outcome/isolation.h"

enum outcome_kind {
	OUTCOME_FAILED, /* brig or the machine failed; also the state before anything is known */
	OUTCOME_EXITED,
	OUTCOME_SIGNALLED,
	OUTCOME_TIMEOUT,
	OUTCOME_OOM,
	OUTCOME_LIMIT,
	OUTCOME_REFUSED,
	OUTCOME_CANCELLED,
	OUTCOME_KINDS
};

/* Each has a limit of its own, so that a command that is denied one thing a thousand times cannot
 * hide that it was denied another. */
enum denial_class {
	DENIAL_NETWORK,
	DENIAL_LEAK, /* kind "network", too: a secret on its way out, a credential misused */
	DENIAL_PATH,
	DENIAL_FOLDER, /* many names of kind "protected-path", by their folder */
	DENIAL_OTHER,
	DENIAL_CLASSES
};

struct denial {
	const char *kind, *target, *reason;
	enum denial_class class;
	uint64_t count; /* times that it happened, or names of the folder that it stands for */
};

/* A file that tools on the host obey and that was the command's to change. */
struct trust_change {
	const char *path, *reason;
};

/* What went through the door. */
struct egress_count {
	uint64_t allowed, denied; /* requests and tunnels */
	uint64_t uninspected;     /* of allowed: tunnels into which nobody looks */
	uint64_t bytes_out, bytes_in;
};

/* A backend that `auto` did not take. */
struct passed {
	const char *backend, *reason;
};

/* A port of the sandbox that was reached from the host. */
struct published {
	uint16_t host, port; /* on the host's loopback; inside */
	bool six;            /* on ::1, too */
};

struct stream {
	struct buf data; /* kept bytes, whole characters */
	uint64_t bytes;  /* all that was written */
	bool truncated;
	bool mid_line, moved; /* on a terminal: where it left the cursor */
	int lost; /* errno of a goal that failed, as a full disk does; a reader that left is no
		     failure */
};

/* When a run went from one state to the next (base/sys/clock.h); 0: it never did. */
struct phases {
	uint64_t planned, started, ended;
};

/* Where it ran, as the cluster calls it; all NULL: in none. */
struct pod_place {
	const char *cluster, *name_space, *pod, *uid, *node;
};

struct outcome {
	struct arena *arena; /* owns the texts of denials */
	struct pod_place pod;
	char id[33];
	enum outcome_kind kind;
	bool started;    /* the command itself began to run */
	bool left;       /* something of it may still run, and hold its streams open */
	bool unsettled;  /* what it left in the workspace is judged when other commands have ended,
			  * and told to the last of them */
	bool unrecorded; /* the record of it could not be written, or not all of it */
	bool by_itself;  /* of a cancelled one: it handled the signal, exit_code is its own */
	int exit_code, signal;
	struct stream out, err, both;
	uint64_t duration_us, setup_us;
	struct phases phases;
	int dialect;         /* enum dialect of the configuration: whose words the text uses */
	uint64_t timeout_ms; /* that the run had; 0: none */
	const char *backend;
	const char *workspace_target; /* where the workspace was inside; NULL: no inside */
	const char *workspace;  /* "overlay", with what it has changed; NULL: the folder itself */
	const char *layer;      /* ... its id, once there is one; or NULL */
	uint64_t layer_changed; /* names */
	bool layer_more;        /* and more than were counted */
	bool layer_tried;       /* workspace.apply auto: what came of it follows */
	uint64_t layer_applied, layer_left; /* changes */
	struct err layer_kept;              /* why nothing was applied; code 0: it was */
	const char *repository; /* host folder around the workspace that was shown; NULL: none */
	const char *job,
		*node;     /* of a cluster: its own name of the run, and where it was; or NULL */
	const char *image; /* what the image's name meant, by digest; NULL: no image */
	struct isolation *isolation; /* of the sandbox that it ran in; NULL: it ran in none */
	enum enforcer timeout_by, output_by; /* of the limits that are a command's own */
	unsigned limits_hit;                 /* bits 1 << enum limit */
	struct denial *denials;
	size_t denial_count, class_count[DENIAL_CLASSES];
	uint64_t denials_dropped[DENIAL_CLASSES]; /* that happened and are not listed */
	struct trust_change *trust; /* what the user should look at before tools obey it */
	size_t trust_count;
	uint64_t trust_more;     /* that found no room in the list */
	uint64_t unseen_folders; /* of the workspace, not looked at for repositories and such files
				  */
	const char *hints[2];    /* why it may have failed, as far as that is brig's doing */
	size_t hint_count;
	struct egress_count egress;
	struct model_use *models; /* what was used of models, by host and model */
	size_t model_count;
	struct passed *passed; /* by `auto` */
	size_t passed_count;
	uint64_t questions; /* for names, under network none */
	const char **asked; /* the first of them */
	size_t asked_count;
	uint64_t signatures; /* of the user's ssh-agent */
	struct published *published;
	size_t published_count;
	struct err error; /* of refused and failed */
};

struct outcome *outcome_new(void); /* NULL without memory */
struct outcome *outcome_free(struct outcome *o);
DEFINE_CLEANUP(outcome, struct outcome *, outcome_free)

/* In the reason of what went to quarantine, before its place. */
#define OUTCOME_MOVED "; moved to "

/* The same again is counted. Of each class a number is listed (protected-path: 1,000, then by
 * folder; others: 256), the rest is counted in denials_dropped. The class goes by the kind. */
void outcome_deny(struct outcome *o, const char *kind, const char *target, const char *reason);
void outcome_deny_as(struct outcome *o, enum denial_class class, const char *kind,
		     const char *target, const char *reason);
/* How often each was denied so far, to be freed; NULL: no memory. Of what another outcome was
 * denied since then (NULL: ever), each once, but for names: whoever asked for these was told. */
struct outcome_mark *outcome_mark(const struct outcome *o);
void outcome_deny_since(struct outcome *o, const struct outcome *from,
			const struct outcome_mark *m);
/* Its sandbox has ended with it: what was found then belongs to it as well. */
void outcome_ends_with(struct outcome *o, const struct outcome *box, const struct outcome_mark *m);
/* The command said that it could not change a protected name, which no event of the kernel tells.
 * It could as well have tried: the list is no more its own to write than it was. */
void outcome_covered(struct outcome *o, const char *name);
/* Those that texts tell in other words: of a name that was asked for where there is no network, in
 * one line; of a protected name, by a hint. */
bool outcome_is_asked(const struct denial *d);
bool outcome_is_covered(const struct denial *d);
void outcome_drop(struct outcome *o, const char *kind, uint64_t n); /* another brig's count */
uint64_t outcome_denied(const struct outcome *o);                   /* how often, listed or not */
/* At most 100 are kept, the rest is counted. */
void outcome_trust(struct outcome *o, const char *path, const char *reason);
/* Its name for a person, and the commit where the reason names one. */
void trust_put(struct buf *b, const char *path, const char *reason);
void outcome_pass(struct outcome *o, const char *backend, const char *reason);
void outcome_publish(struct outcome *o, const struct published *p);
void outcome_asked(struct outcome *o, const char *name);
void outcome_hit(struct outcome *o, enum limit l);
void outcome_hint(struct outcome *o, const char *text); /* a copy; the first ones are kept */
/* With this wait status. What was judged before stands; who handled a cancel's signal and exited
 * keeps its own status. */
void outcome_ended(struct outcome *o, int status);
/* The same, told as a shell does: 128 and a number may as well be an exit, but seldom is. */
void outcome_ended_as(struct outcome *o, int shell_status);
/* Keeps a copy of what contained it. */
void outcome_contain(struct outcome *o, const struct isolation *i);
/* Their names, for a report. */
const char *outcome_enforcers(const struct outcome *o, enum limit l);

int outcome_status(const struct outcome *o); /* exit status of the contract */
void outcome_json(const struct outcome *o, struct json *j);

/* The same read again, as another brig wrote it (outcome_read.c): all but times, streams and what
 * contained it; how it ended; what was hit and denied. */
int outcome_read(const struct jread *v, struct outcome *o, struct err *e);
int outcome_read_end(const struct jread *v, struct outcome *o, struct err *e);
void outcome_read_lists(const struct jread *v, struct outcome *o);

/* As a tool gives it back to a model: status, then both streams; at most max characters and
 * "[truncated]" (0: all). The caller frees it; NULL without memory. */
char *outcome_text(const struct outcome *o, size_t max);

/* "Execution timeout after 30 seconds" under RLM Code; false: that dialect has no words of its own.
 */
bool outcome_timeout_text(const struct outcome *o, char *out, size_t n);

const char *outcome_name(enum outcome_kind k);
enum denial_class denial_class_of(const char *kind);
const char *denial_class_kind(enum denial_class c); /* as `denials_dropped` names it */

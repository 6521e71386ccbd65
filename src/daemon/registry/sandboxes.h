/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandboxes.h - the sandboxes of one daemon: what the routes may ask of them.
 *
 * Every sandbox has a folder below the daemon's state and, while it lives, a monitor: a process of
 * its own that owns the sandbox and dies with it. The daemon is a client of its monitors, so that
 * it can be killed and started again. Nothing here blocks: what takes time is answered later,
 * through the loop. A tenant is a name; "" is the owner of the daemon, who sees everything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes/json.h"
#include "base/sys/loop.h"
#include "base/text/err.h"
#include "daemon/shared/event_log.h"
#include "daemon/shared/sandbox_id.h"
#include "http/problem.h"
#include "model/settings/answer.h"
#include "proc/order.h"
#include "proc/use.h"

struct sandboxes;

/* Takes over what an earlier daemon has left in this folder: each sandbox is found alive, or
 * becomes `stopped` with the reason "lost". The folder is locked by the caller. */
int sandboxes_new(int state_dir, struct loop *l, struct events *ev, struct sandboxes **ret,
		  struct err *e);
struct sandboxes *sandboxes_free(struct sandboxes *s); /* leaves monitors and sandboxes alone */
DEFINE_CLEANUP(sandboxes, struct sandboxes *, sandboxes_free)

struct label {
	const char *key, *value;
};

struct sandbox_create {
	const char *tenant, *name; /* NULL: none */
	const struct label *labels;
	size_t label_count;
	const char *spec; /* a brig.yaml as JSON, resolved and checked against every ceiling */
	size_t spec_size;
	const char *asked; /* a tenant's own words, from which it was resolved; NULL: the owner's */
	size_t asked_size;
	uint64_t idle_ttl, ttl, cleanup_ttl; /* milliseconds; 0: never */
	bool restart;                        /* when it ends by itself */
	const int *secrets;                  /* sealed memfds, taken over; see monitor_protocol.h */
	size_t secret_count;
};

/* Accepted: id is filled, the rest comes as events. */
enum problem sandboxes_create(struct sandboxes *s, const struct sandbox_create *c,
			      char id[SANDBOX_ID_SIZE], struct err *e);

/* `ref` is an id or a name, here and below. Writes the object of the API; the spec comes without
 * variables when `redacted`. */
enum problem sandboxes_show(struct sandboxes *s, const char *tenant, const char *ref, bool redacted,
			    struct json *j, struct err *e);

/* The text it was made with. */
enum problem sandboxes_spec(struct sandboxes *s, const char *tenant, const char *ref,
			    struct buf *out, struct err *e);

/* For a sandbox that is stopped: what its tenant has asked for, and narrowed since, each as JSON or
 * nothing; `whose` is TENANT_SIZE long. Then what it is made with the next time. */
enum problem sandboxes_asked(struct sandboxes *s, const char *tenant, const char *ref, char *whose,
			     struct buf *asked, struct buf *narrowed, struct err *e);
enum problem sandboxes_respec(struct sandboxes *s, const char *tenant, const char *ref,
			      const char *spec, size_t n, struct err *e);
enum problem sandboxes_narrow(struct sandboxes *s, const char *tenant, const char *ref,
			      const char *narrowed, size_t n, struct err *e);

/* Why it is not ready, if it is not. */
enum problem sandboxes_failure(struct sandboxes *s, const char *ref, struct err *e);

/* What it is called elsewhere. */
enum { RUN_ID_SIZE = 33 };
struct sandbox_known {
	char run[RUN_ID_SIZE];                     /* of the record; "" while it was never open */
	char processes[USE_TOPS * USE_FIRST_SIZE]; /* where they begin (use.h); 0: there are none */
};
enum problem sandboxes_known_as(struct sandboxes *s, const char *tenant, const char *ref,
				struct sandbox_known *ret, struct err *e);

/* Notes that brig has made about it, and why it failed. */
enum problem sandboxes_log(struct sandboxes *s, const char *tenant, const char *ref,
			   struct buf *out, struct err *e);

bool sandboxes_state_is(const char *word); /* of those that a list can be asked for */

struct sandbox_list {
	const char *tenant,
		*after; /* after: the id the last page ended with; NULL: from the start */
	const struct label *labels;
	size_t label_count;
	const char *state; /* NULL: any */
	size_t limit;
	bool redacted;
};

/* Writes an array; `next` gets the id to go on after, or "". */
void sandboxes_list(struct sandboxes *s, const struct sandbox_list *l, struct json *j,
		    char next[SANDBOX_ID_SIZE]);

/* Calls `each` with the id of every one that tenant, labels and state of the list choose. It may
 * end them. */
void sandboxes_each(const struct sandboxes *s, const struct sandbox_list *l,
		    void (*each)(void *arg, const char *id), void *arg);

enum sandbox_verb { SANDBOX_PAUSE, SANDBOX_RESUME, SANDBOX_STOP, SANDBOX_DELETE };

/* Idempotent. `done` (may be NULL) is called once, later or at once. */
typedef void sandbox_done_fn(void *arg, enum problem p, const struct err *e);
enum problem sandboxes_do(struct sandboxes *s, const char *tenant, const char *ref,
			  enum sandbox_verb verb, uint64_t grace_ms, sandbox_done_fn *done,
			  void *arg, struct err *e);

struct sandbox_change {
	const char *name;           /* NULL: as it is */
	const struct label *labels; /* all of them; NULL: as they are */
	size_t label_count;
	bool has_idle_ttl, has_ttl;
	uint64_t idle_ttl, ttl;
};

enum problem sandboxes_update(struct sandboxes *s, const char *tenant, const char *ref,
			      const struct sandbox_change *c, struct err *e);

struct exec_start {
	struct order order;   /* envp: its own, NULL: none; cwd NULL: the workspace; no path */
	bool tty, stdin_open; /* stdin_open: exec_write will bring it; else end of file */
	bool last;            /* the sandbox ends with it, before its end is told */
	bool code;  /* a call of a context: argv is its name, the code, the code's arguments */
	bool again; /* ... in a new one */
	unsigned short rows, cols;
	uint64_t timeout, output; /* milliseconds, bytes; 0: the sandbox's own */
};

enum problem sandboxes_exec(struct sandboxes *s, const char *tenant, const char *ref,
			    const struct exec_start *x, char id[EXEC_ID_SIZE], struct err *e);

/* Who listens to a command. Output comes from what the monitor has kept, from the byte `from` on,
 * as fast as it is taken: `output` returns how much it took; less than n means "call exec_more when
 * there is room". The end comes after the last byte, once. */
struct exec_listener {
	size_t (*output)(void *arg, int stream, uint64_t seq, const void *data, size_t n);
	bool (*shown)(void *arg, const char *json, size_t n); /* false: no room now */
	void (*end)(void *arg, const char *result, size_t n); /* the object of --json */
	void *arg;
};

struct exec_watch; /* one listener of one command */

/* The listener is copied; *ret is the caller's until exec_unwatch. Listening keeps a sandbox from
 * being idle. */
enum problem exec_listen(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 uint64_t from, const struct exec_listener *by, struct exec_watch **ret,
			 struct err *e);
void exec_more(struct exec_watch *w);
struct exec_watch *exec_unwatch(struct exec_watch *w);

/* Names that no rule allows, held until somebody answers: a list of them; the answer to one. */
enum problem questions_list(struct sandboxes *s, const char *tenant, const char *ref,
			    struct json *j, struct err *e);
enum problem questions_answer_one(struct sandboxes *s, const char *tenant, const char *ref,
				  uint64_t number, enum run_answer a, const char *by,
				  struct err *e);

enum problem exec_signal(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 int sig, struct err *e);
enum problem exec_cancel(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 struct err *e); /* with every descendant */
/* Takes what fits; n 0 closes. *took < n: ask again on the next turn. */
/* Nobody knows yet whether it runs: its monitor, which an earlier daemon had, is being asked. */
bool exec_unsure(struct sandboxes *s, const char *tenant, const char *ref, const char *exec);
enum problem exec_write(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			const void *data, size_t n, size_t *took, struct err *e);
enum problem exec_resize(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
			 unsigned short rows, unsigned short cols, struct err *e);
enum problem exec_show(struct sandboxes *s, const char *tenant, const char *ref, const char *exec,
		       struct json *j, struct err *e);
enum problem exec_list(struct sandboxes *s, const char *tenant, const char *ref, struct json *j,
		       struct err *e);

/* For /metrics and quotas: how many there are, of one tenant or (NULL) of all. */
struct sandbox_count {
	size_t pending, ready, paused, stopped, failed, execs_running;
};
void sandboxes_count(const struct sandboxes *s, const char *tenant, struct sandbox_count *ret);

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh.h - the parts of the ssh backend; no other folder includes this.
 *
 * Local processes: brig, the OpenSSH client, a keeper (a fork of brig that sleeps until brig dies).
 * On the remote host: a wrapper in plain sh, the command, a watcher. The client's command line is
 * the same for every run but for the host; what to run, its variables and its folder go over the
 * client's input, as one piece of sh that the wrapper reads and evaluates, then Python code, then
 * the command's own input. The wrapper says on stderr, behind a mark, that the command runs and how
 * it ended. A mark is good for one time: it holds a number that the command does not know. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "backend/kit/remote/remote_report.h"
#include "base/text/arena.h"
#include "base/text/buf.h"

#define MARK '\036' /* then a number, a blank, and a word */
enum { ID_ROOM = 33, REPORT_MAX = 32 << 20 /* bytes; more than all denials of a run */ };

struct backend_plan {
	struct arena *arena; /* keeps the texts of the spec as well */
	struct ssh_spec ssh; /* where, and how to get there */
	const char *folder;  /* of the control socket; NULL: connections are not shared */
	const char *socket;
	const char *program;     /* the OpenSSH client */
	const char **argv;       /* it, up to the host */
	const char *const *envp; /* of the client: nothing in there may reach the remote host */
	const char **command;    /* what the wrapper runs */
	const char **vars;       /* NAME=VALUE for it */
	const char *cwd;         /* there; NULL: where a login begins */
	uint64_t timeout;        /* of it, in milliseconds; 0: none */
	uint64_t kill_after;     /* the milliseconds that its end may take then */
	uint64_t output;         /* bytes kept of each stream */
	const char *code;        /* that goes over in front of its input; NULL: none */
	size_t code_size;
	const char **options; /* KEY=VALUE, for the brig there that keeps a sandbox open */
	bool brig;            /* it is a brig that makes the sandbox there */
	bool keeps;           /* ... and stays there for commands: brig-far */
	const char *notes[16];
	size_t note_count;
};

/* plan.c */
int ssh_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	     struct err *e); /* notes may be NULL */
void ssh_plan_json(const struct backend_plan *p, struct json *j);
struct backend_plan *ssh_plan_free(struct backend_plan *p);
DEFINE_CLEANUP(ssh_plan, struct backend_plan *, ssh_plan_free)
/* The same for one command of a sandbox that is open; borrows from the plan and from w. */
int ssh_plan_command(const struct backend_plan *p, const struct job_want *w,
		     struct backend_plan **ret, struct err *e);
int ssh_put(struct backend_plan *p, const char ***v, size_t *n, const char *text, struct err *e);

/* settings.c: the spec as arguments of another brig, or as its options */
int settings_for_brig(struct backend_plan *p, const struct spec *s, size_t *n, struct err *e);

/* What makes the wrapper's words its own. Two, because whoever holds the other end of its streams
 * may have seen the first one by the time that the second counts. */
struct nonces {
	char begin[ID_ROOM], end[ID_ROOM];
};

/* remote.c: texts for the other side. Each ends with a newline. */
void remote_run(const struct backend_plan *p, const char *id, const struct nonces *n,
		struct buf *b);
#define REMOTE_VAR "_bv" /* and a number: what a remote brig finds a variable's value under */
/* Whom a signal is for. */
struct remote_goal {
	const char *id;
	long pid;   /* of the wrapper; 0 while it is not known */
	bool keeps; /* it is brig-far, which ends by itself when it is told to */
};
/* Signals the wrapper's process group; SIGKILL: everything of the run, wherever it went. `twice`
 * comes back after a second for what was only beginning. */
void remote_signal(const struct remote_goal *g, int sig, bool twice, struct buf *b);
/* The remote command line that reads n bytes of sh from its input and evaluates them. */
void remote_reader(size_t n, bool one_line, char *out, size_t room);

/* client.c: the OpenSSH client as a child */
struct ssh_client {
	pid_t pid;
	int pidfd;
	int log; /* what the client itself had to say: a file without a name */
};

struct client_want {
	const char *reader;      /* the remote command line */
	int in, out, err;        /* borrowed; -1: the null device */
	const char *const *more; /* further options, or NULL */
	int leash; /* >= 0: sleep until it is closed without a word, and only then run */
};

#define CLIENT_NONE                                                                                \
	{                                                                                          \
		.pid = -1, .pidfd = -1, .log = -1                                                  \
	}

int client_folder(const struct backend_plan *p, struct err *e);
int client_start(const struct backend_plan *p, const struct client_want *w, struct ssh_client *c,
		 struct err *e);
bool client_ended(const struct ssh_client *c);
int client_reap(struct ssh_client *c,
		bool kill);             /* waits; the wait status, or -1 when there is none */
void client_done(struct ssh_client *c); /* kills, waits and closes; may be called twice */
/* Why the client gave up, from its own words. `before`: the command had not begun. */
int client_explain(const struct backend_plan *p, const struct ssh_client *c, bool before,
		   struct err *e);

/* relay.c: the remote stderr without our own lines */
enum said { SAID_NOTHING, SAID_LINE };

struct relay {
	int from, to; /* owned; -1 when at its end; `to` is a socket */
	char mark[ID_ROOM + 2];
	struct buf held;   /* read, not yet known to be output */
	struct buf unsent; /* output that `to` did not take yet */
	struct buf line;   /* what follows the mark, without the newline */
	bool in_line;      /* the mark was seen, its line is not complete */
	bool drop;         /* before the start mark: login noise, not output */
	bool last;         /* the next line is the last */
	bool report;       /* ... and runs to the end of the stream */
	bool over;         /* it was said */
	bool after;        /* and yet something came behind it, which is dropped */
};

void relay_init(struct relay *r, int from, int to, const char *nonce);
/* From now on everything is output up to the one line behind this nonce. */
void relay_expect_end(struct relay *r, const char *nonce, bool report);
void relay_done(struct relay *r);
/* Reads what there is. SAID_LINE: a line of the wrapper's is in `line`; call again. */
enum said relay_move(struct relay *r);
bool relay_flushed(const struct relay *r); /* nothing waits for `to` */

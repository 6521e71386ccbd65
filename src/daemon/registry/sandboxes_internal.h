/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandboxes_internal.h - what the files behind sandboxes.h share. */
#pragma once

#include "daemon/registry/sandboxes.h"
#include "daemon/shared/kept.h"
#include "daemon/shared/monitor_protocol.h"
#include "daemon/shared/restart.h"

enum sandbox_state {
	STATE_PENDING,
	STATE_READY,
	STATE_FAILED,
	STATE_PAUSED,
	STATE_STOPPED,
	STATE_DELETING,
	SANDBOX_STATES
};

enum {
	TENANT_SIZE = 64,
	NAME_SIZE = 64,
	SANDBOX_EXECS = 256, /* at a time */
	SANDBOX_LABELS = 64,
	SANDBOXES_GONE =
		1024 /* ids of those that were deleted last, so that it can be asked again */
};

/* Somebody who is told when a verb is done. */
struct verb_waiter {
	struct verb_waiter *next;
	enum sandbox_verb verb;
	sandbox_done_fn *done;
	void *arg;
};

/* A command that runs, or whose end nobody was told of yet. */
struct exec_entry {
	struct exec_entry *next;
	char id[EXEC_ID_SIZE];
	bool ours;  /* it was this daemon that asked for it */
	bool runs;  /* this was told */
	bool takes; /* it has input */
	bool asked; /* for the end to write it to, after a restart */
	bool doubt; /* the monitor let go of us: has it heard of this one? */
	int input;  /* that end; -1 */
};

struct sandbox_entry {
	struct loop_watch link;  /* first: the monitor; fd -1: there is none */
	struct loop_watch proc;  /* its pidfd */
	struct loop_timer due;   /* to delete it, or to look for its monitor again */
	struct loop_timer again; /* it ended by itself, and is begun again then */
	struct loop_timer reach; /* its monitor has let go of us, and is connected to again then */
	uint64_t reach_wait;     /* microseconds until the try after that; 0: it was heard */
	uint64_t grace_ms;       /* of the stop that it was told of */
	struct sandboxes *s;
	char id[SANDBOX_ID_SIZE], name[NAME_SIZE], tenant[TENANT_SIZE];
	char **labels; /* key, value, key... NULL */
	enum sandbox_state state;
	char reason[MONITOR_REASON];
	struct err error;                    /* of failed */
	uint64_t created, started;           /* microseconds since 1970 */
	uint64_t since;                      /* ... of the state */
	uint64_t idle_ttl, ttl, cleanup_ttl; /* milliseconds */
	bool opening;                        /* its monitor has not said that it is open */
	bool strange;                        /* its monitor is of another version */
	bool found;                          /* its monitor was there before this daemon */
	bool unsure;                         /* ... or let go of us; no hello yet */
	bool stopping;                       /* it was told to */
	bool closed;                         /* the monitor has said its last word */
	bool dead;   /* it was killed, and a tidier looks at what its sandbox has left */
	bool wanted; /* ... after which it is to be begun again */
	struct restart restart;
	bool restarting; /* nobody asked for this start */
	struct verb_waiter *waiters;
	struct exec_entry *execs;
	size_t exec_count;
	struct exec_watch *watches;
	struct file_op *files;
	struct box_question *questions; /* open ones, the oldest first */
	uint64_t held;                  /* as the monitor was told */
};

struct sandboxes {
	int folder;  /* "sandboxes" below the state */
	int sockets; /* "sockets" beside it: of the monitors, by id */
	struct monitors monitors;
	struct loop *loop;
	struct events *events;
	struct sandbox_entry **all; /* by id, which is by age */
	size_t count, room;
	char gone[SANDBOXES_GONE][SANDBOX_ID_SIZE];
	char gone_tenant[SANDBOXES_GONE][TENANT_SIZE];
	size_t gone_at;
	unsigned file_ids;
	uint64_t asked;           /* the number of the last question */
	struct loop_watch tidier; /* a pidfd; -1: none is at work */
	unsigned chores;          /* for the next one */
};

const char *state_word(enum sandbox_state s);

static inline enum problem problem_nomem(struct err *e)
{
	(void)err_nomem(e);
	return PROBLEM_INTERNAL;
}

/* sandbox_questions.c */
void questions_forget(struct sandbox_entry *b);
void questions_opened(struct sandbox_entry *b, const struct monitor_say *m);
void questions_closed(struct sandbox_entry *b, const struct monitor_say *m);

/* sandbox_entry.c: what is on disk */
struct sandbox_entry *entry_new(struct sandboxes *s); /* NULL: no memory */
struct sandbox_entry *entry_free(struct sandbox_entry *b);
int entry_folder(const struct sandbox_entry *b); /* a descriptor, or -1 with errno */
int entry_execs(const struct sandbox_entry *b);  /* that of its commands */
/* The file of one, from sandboxes.folder on: all of it is the owner's alone. */
enum { EXEC_PATH_SIZE = SANDBOX_ID_SIZE + EXEC_ID_SIZE + sizeof(MONITOR_EXECS) };
void entry_path(const struct sandbox_entry *b, const char *exec, char path[EXEC_PATH_SIZE]);
int entry_save(const struct sandbox_entry *b, struct err *e);
/* A file of its folder, which holds a spec or a log: at most SPEC_MAX bytes, nothing where there is
 * none. */
enum { SPEC_MAX = 1 << 20 };
void entry_read_text(int folder, const char *name, struct buf *out);
int entry_write_text(int folder, const char *name, const char *text, size_t n); /* 0 or -errno */
int entry_load(struct sandbox_entry *b, int folder); /* 0, or -EBADMSG: it was never told */
/* Its folder, locked: 0; -EWOULDBLOCK: there is a monitor. */
int entry_lock(const struct sandbox_entry *b, int *ret);
int labels_copy(const struct label *from, size_t n, char ***ret);
void labels_free(char **labels);
/* The run that it is on the record, "": none yet. */
void entry_run(const struct sandbox_entry *b, char run[RUN_ID_SIZE]);
void entry_show(const struct sandbox_entry *b, bool redacted, struct json *j);

/* sandboxes.c */
struct sandbox_entry *entry_find(struct sandboxes *s, const char *tenant, const char *ref);
bool entry_is_for(const struct sandbox_entry *b, const char *tenant); /* "": the owner, of all */
size_t entries_place(const struct sandboxes *s, const char *id);      /* where it is, or would be */
enum problem entry_missing(const char *ref, struct err *e);
/* Writes the state down, then tells; the reason may be NULL. */
void entry_becomes(struct sandbox_entry *b, enum sandbox_state state, const char *event,
		   const char *reason);
void entry_done(struct sandbox_entry *b, enum sandbox_verb verb, enum problem p,
		const struct err *e); /* those who wait for it */
/* Its store and the data of its companions, for a process of its own to remove: nobody knows how
 * much it is. */
void entry_put_aside(const struct sandbox_entry *b);
void entry_remove(struct sandbox_entry *b);   /* with its folder; frees it */
void entry_schedule(struct sandbox_entry *b); /* its deletion, if it has a time */
enum problem entry_resume(struct sandbox_entry *b, struct err *e);

/* sandbox_restart.c */
/* It ended, having run since `started` (0: it did not come to that): tries again, or gives up. */
void entry_crashed(struct sandbox_entry *b, uint64_t started);
void entry_again(struct sandbox_entry *b, uint64_t wait_us);
void entry_rest(struct sandbox_entry *b); /* somebody decides about it: no more tries */

/* sandbox_link.c: its monitor */
/* folder: the descriptor that holds its lock */
int link_start(struct sandbox_entry *b, int folder, const int *secrets, size_t n, struct err *e);
int link_find(struct sandbox_entry *b); /* one that is there; 0 or -errno */
int link_ask(struct sandbox_entry *b, const struct monitor_ask *q, const int *fds, size_t n);
/* The same with so many bytes of an order behind it. */
int link_ask_long(struct sandbox_entry *b, struct monitor_packet *p, size_t order, const int *fds,
		  size_t n);
void link_times(struct sandbox_entry *b);
void link_kill(struct sandbox_entry *b);          /* for one that does not listen */
bool link_is_away(const struct sandbox_entry *b); /* it lives, and will be asked again */
void link_close(struct sandbox_entry *b);         /* leaves it alone */
bool entry_is_dead(const struct sandbox_entry *b);
/* In a process of its own, when one that is at work has ended. */
enum chore {
	CHORE_ASIDE = 1 << 0, /* remove what was put aside, */
	CHORE_LOST = 1 << 1,  /* and what a killed monitor had in the system: nobody else does */
};
void link_tidy(struct sandboxes *s, unsigned chores);
void link_tidied(struct sandboxes *s); /* leaves that to itself */
/* What became of a sandbox whose monitor is gone. */
void link_lost(struct sandbox_entry *b);

/* sandbox_files.c */
void files_forget(struct sandbox_entry *b); /* it is about to be gone */

/* exec_watch.c: listeners of commands */
void watches_news(struct sandbox_entry *b, const char *id); /* NULL: of all */
void watches_open(struct sandbox_entry *b, const char *id); /* its file is there now */
/* Its end was told, with this status: it ought to be kept. */
void watches_heard(const struct sandbox_entry *b, const char *id, int status);
void watches_hold(struct sandbox_entry *b); /* tells the monitor how many keep it from being idle */
void watches_leave(struct sandbox_entry *b); /* they go on without it */

/* sandbox_execs.c */
struct exec_entry *execs_find(struct sandbox_entry *b, const char *id); /* NULL: it has ended */
enum problem execs_none(const char *id, struct err *e);
/* The file is there once the monitor has heard of the command. 0 or -errno */
int execs_open(const struct sandbox_entry *b, const char *id, int *ret);
void execs_heard(struct sandbox_entry *b, const struct monitor_say *m, int *fd);
void execs_recover(struct sandbox_entry *b); /* what ended, or was lost, while nobody listened */
void execs_doubt(struct sandbox_entry *b);   /* what was asked for last may not have been heard */
void execs_free(struct sandbox_entry *b);
void execs_lost(struct sandbox_entry *b); /* its monitor is gone */

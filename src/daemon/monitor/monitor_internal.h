/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_internal.h - what the files of the monitor share. */
#pragma once

#include "base/sys/loop.h"
#include "brig.h"
#include "daemon/shared/kept.h"
#include "daemon/shared/monitor_protocol.h"
#include "model/settings/spec.h"
#include "model/outcome/outcome.h"
#include "sandbox/manager.h"

/* Descriptors that a monitor begins with. */
enum {
	MONITOR_FD_FOLDER = 3,
	MONITOR_FD_CLIENT,
	MONITOR_FD_SOCKETS,
	MONITOR_FD_LISTENER, /* not bound yet */
	MONITOR_FD_LINE,     /* two: between it and process 1 of its sandbox */
	MONITOR_FD_END = MONITOR_FD_LINE + 2
};

#define MONITOR_TIDIES "tidy"  /* in place of an id: all, */
#define MONITOR_CLEARS "clear" /* or what was put aside alone */

struct monitor;
struct order;

struct monitor_client {
	struct loop_watch w; /* first; fd -1: nobody */
	struct monitor *m;
	uint64_t blocked_since; /* microseconds; 0: it takes what it is told */
	uint64_t held;          /* listeners of its */
};

/* What a client is to be told of a command. */
enum task_news { NEWS_RUNS = 1, NEWS_GREW = 2, NEWS_DONE = 4 };

/* One command. */
struct monitor_task {
	struct loop_watch w; /* first */
	uint32_t number;     /* once it has ended: in its sandbox */
	struct monitor *m;
	struct monitor_task *next;
	char id[EXEC_ID_SIZE];
	brig_request *request;
	brig_run *run;             /* NULL: it is over, or a call */
	struct context_call *call; /* of a context; NULL: it is over, or a run */
	struct kept_writer kept;
	int read_end;                /* of its input; -1: none */
	int input;                   /* the end to write to; -1: none, or closed */
	bool lost;                   /* something could not be kept */
	bool last;                   /* the sandbox ends with it */
	bool ran;                    /* that it ran is said with its end */
	struct outcome_mark *denied; /* of its sandbox, as it began */
	char outcome[MONITOR_REASON];
	int status;
	uint64_t hush; /* until then, in microseconds, that it runs is no news by itself */
	unsigned char news[MONITOR_CLIENTS];
};

/* A command that ended, whose file is still there. */
struct monitor_past {
	char id[EXEC_ID_SIZE];
	uint64_t size;
	uint32_t number; /* in its sandbox; 0: of an earlier monitor, or never started */
};

enum { MONITOR_PAST = 1024 };

/* An operation on files: what a client calls it, and what the sandbox does. */
struct monitor_file {
	const struct monitor_client *by;
	uint64_t id;
	uint32_t number;
};

enum { MONITOR_FILE_OPS = 256 };

struct spec;

struct monitor {
	int folder, execs;
	const char *id;
	struct loop *loop;
	struct loop_watch accepts, turns, ends;     /* of the listener, sandbox, signals */
	struct loop_timer idle, life, grace, looks; /* looks: at the store */
	struct loop_timer speaks;                   /* when a hush is over */
	struct monitor_client clients[MONITOR_CLIENTS];
	struct monitor_task *tasks;
	struct monitor_context *contexts;
	size_t running;
	struct monitor_past past[MONITOR_PAST]; /* a ring, the oldest first */
	size_t past_first, past_count;
	uint64_t kept_bytes;                         /* of all files */
	struct monitor_file files[MONITOR_FILE_OPS]; /* the last ones; a ring */
	size_t file_next;
	int store;                                   /* what outlives a stop; -1: nothing does */
	uint64_t store_most, store_room, store_next; /* next: when it is looked at anyway */
	brig_sandbox *sandbox;
	struct name_asker asker;       /* the sandbox's, with `ask` */
	struct companions *companions; /* NULL: it has none */
	struct main_command *command;  /* likewise */
	enum monitor_stage stage;
	uint64_t idle_ms, life_ms;
	char reason[MONITOR_REASON];
	struct err why; /* of its end: code 0, there is no more to say */
	bool over;      /* the sandbox is closed */
	bool closed;    /* ... and everybody has been told */
};

/* monitor_name.c */
int monitor_name(const struct monitor *m, struct spec *s, struct err *e);

/* monitor_clients.c */
void clients_say(struct monitor *m, const struct monitor_say *s);               /* to all */
void client_say(struct monitor_client *c, const struct monitor_say *s, int fd); /* fd may be -1 */
/* The same for words that a guest can make many of: false, it has no room now, and is asked again.
 */
bool client_offer(struct monitor_client *c, const struct monitor_say *s);
int clients_listen(struct monitor *m, struct err *e);
void clients_hide(const struct monitor *m);  /* nobody finds it any more */
int clients_take(struct monitor *m, int fd); /* over; 0 or -errno */
/* After each turn: tells what is to be told of commands, as far as it is taken. */
void clients_settle(struct monitor *m);
void clients_flush(struct monitor *m); /* at the end: waits for them, not for ever */
uint64_t clients_hold(const struct monitor *m);

/* monitor_tasks.c */
/* Without bytes of an order, the first descriptor is one. */
void task_exec(struct monitor *m, const struct monitor_ask *q, const char *order, size_t size,
	       const int *fds, size_t n);
struct monitor_task *task_find(struct monitor *m, const char *id);
bool task_runs(const struct monitor_task *t);
void task_keep(struct monitor_task *t, enum kept_kind kind, const void *p, size_t n);
void task_over(struct monitor_task *t, brig_result *r); /* ... of what has run; takes r, or NULL */
void task_news(struct monitor_task *t, enum task_news what);
void task_finish(struct monitor_task *t);              /* its run is over: keeps how it ended */
void task_end_rest(struct monitor *m, const char *id); /* of one that has ended, what it left */
void tasks_forget(struct monitor *m);                  /* those that everybody was told of */
void tasks_trim(struct monitor *m);                    /* the oldest that is kept, if need be */
int tasks_open(struct monitor *m, struct err *e);

/* monitor_store.c: names the store in the spec, or leaves it without one */
int store_open(struct monitor *m, struct spec *s, struct err *e);
/* Names the layer over its workspace, where the spec has one: the same at every start. */
int store_layer(const struct monitor *m, struct spec *s, struct err *e);
/* The sandbox was deleted; `name` was its MONITOR_LAYER. */
void store_release_layer(int folder, const char *name);
/* Something may be written to it: it is looked at until nothing runs. */
void store_wake(struct monitor *m);

/* monitor_copies.c: takes what is copied in out of a spec, as no backend need know of it; makes it
 * in the sandbox that was opened. What is taken is the spec's own memory. */
struct ingress {
	struct copylist copies;
	struct strlist tools;
	const char *home; /* inside */
	const struct spec *spec;
};
int copies_take(struct spec *s, struct ingress *ret, struct err *e);
int copies_make(struct monitor *m, const struct ingress *in, struct err *e);
int copies_text(struct monitor *m, const char *target, const char *text, size_t n, struct err *e);

/* monitor_tools.c */
int tools_make(struct monitor *m, const struct strlist *l, const char *inside, struct err *e);
/* When nothing runs inside any more: what was renewed there, to the host. */
void tools_return(struct monitor *m);

/* monitor_command.c: takes the words of the spec's `command`; begins it, after which the monitor is
 * open, as it is at once where there is none. */
int command_take(struct monitor *m, const struct spec *s, struct err *e);
void command_begin(struct monitor *m);
size_t command_living(const struct monitor *m); /* 1: it runs */
void command_close(struct monitor *m);          /* after the sandbox */

/* monitor_files.c */
void files_ask(struct monitor *m, const struct monitor_client *c, const struct monitor_ask *q,
	       const int *fds, size_t n);
void files_end(struct monitor *m, const struct monitor_client *c, uint64_t id);

/* monitor_contexts.c: a call of a context, as a command. Its order's words are the name, the code
 * and the code's arguments; `again`: in a new one. */
int contexts_call(struct monitor_task *t, const struct order *o, bool again,
		  const struct command_limits *limits, struct err *e);
void contexts_began(struct monitor_task *t); /* its file is there */
void contexts_interrupt(struct monitor_task *t, bool cancel);
size_t contexts_living(const struct monitor *m);
void contexts_rest(struct monitor *m, bool on);
void contexts_end(struct monitor *m); /* before the sandbox */

/* monitor_questions.c */
void questions_begin(struct monitor *m, brig_request *q);
void questions_take(struct monitor *m, const struct monitor_ask *q, const char *by, size_t n);

/* monitor_marks.c: fills what tells whose it is, for a backend that has such marks. */
int monitor_marks(const struct monitor *m, struct spec *s, struct err *e);

/* monitor_main.c */
void monitor_answer(struct monitor *m, struct monitor_client *c, const struct monitor_packet *p,
		    size_t order, const int *fds, size_t n);
/* From opening to open: everybody is told. */
void monitor_opened(struct monitor *m);
void monitor_note(const struct monitor *m, const char *text); /* on the log */

/* monitor_end.c */
void monitor_stop(struct monitor *m, const char *reason, uint64_t grace_ms);
timer_fn monitor_on_grace;
/* Closes the sandbox, companions and all; NULL: it was. To be followed by monitor_close. */
brig_result *monitor_end(struct monitor *m, const char *reason);
void monitor_close(struct monitor *m); /* ... if it is not yet; says so to everybody. Once */
/* It will not be: ends all there is, and tells; `s` is the last word. */
void monitor_give_up(struct monitor *m, const struct monitor_say *s);
/* Tells on the log what commands that end with the sandbox have left in the workspace: nobody may
 * be waiting for their results. */
void monitor_left(const struct monitor *m, const struct outcome *o);
int monitor_write(const struct monitor *m, const char *name, const char *p, size_t n); /* -errno */
int monitor_write_first(const struct monitor *m); /* which containers are its; -errno */
void monitor_rest(struct monitor *m);             /* sets the idle timer as things stand */

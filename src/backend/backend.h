/* SPDX-License-Identifier: Apache-2.0 */
/* backend/backend.h - what every way of isolating a command has in common.
 *
 * A backend decides first and does later: `plan` turns a spec into a value that can be printed and
 * compared, `start` carries it out. The conductor (src/sandbox) owns the loop: it moves stdio,
 * keeps the deadline and calls `event` whenever the descriptor for it is readable.
 *
 * A sandbox has commands. `start` makes one with its first command, which it ends with: that is a
 * run, in one step and with nothing in between. Without a command in job_want it makes one that
 * stays until it is finished, and `exec` gives it commands. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/json.h"
#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/learn/sightings.h"
#include "model/outcome/isolation.h"
#include "model/outcome/outcome.h"
#include "model/settings/command.h"
#include "model/settings/door_spec.h"
#include "model/settings/spec.h"
#include "proc/lend.h"
#include "proc/supervisor.h"

struct backend_plan; /* opaque, one type per backend */
struct backend_job;  /* a sandbox with its commands; opaque, one type per backend */

/* The conductor's ends of the command's streams; -1 when there is none. The backend opens them, the
 * conductor owns them once start has returned. With a terminal only `in` and `out` are set, to the
 * same master (two descriptors). */
struct job_io {
	int in, out, err;
	int in_peer; /* the command's own end of `in`, to count what it never read */
	int events;  /* borrowed from the job: readable when `event` has something to say */
	int alarm;   /* borrowed: POLLPRI is news for `event` too; -1: none. It cannot stand behind
		      * `events`, because looking at such a descriptor uses its news up */
	int names;   /* under network none: questions for names arrive there; -1: nobody hears */
	/* What the image of a companion runs by itself, and where; borrowed from the job. NULL: it
	 * says nothing, or there is none. */
	const char *const *image_command;
	const char *image_folder;
	int agent; /* with ssh_agent: listens inside, for whoever wants something signed; or -1 */
	int door[DOOR_SOCKETS_MAX]; /* under network proxy: as the plan's door_want lists them;
				     * under bridge: one, for questions for names */
	size_t door_count;
};

/* What a start may ask of the conductor. Each may be NULL. */
struct backend_host {
	/* With BACKEND_AWAITS, in place of job_want.authority: called once, as late as it can be,
	 * because it may have to wait. NULL and *e: there is none. */
	const char *(*authority)(void *arg, struct err *e);
	/* With BACKEND_PERMITS: called once, while the sandbox sets itself up. The command begins
	 * only after it has returned 0; its error is start's own. */
	int (*permit)(void *arg, struct err *e);
	/* When a wake descriptor is readable: is it to be given up? */
	bool (*asked_to_stop)(void *arg);
	void (*note)(void *arg, const char *text); /* something to tell, until `finish` */
	void *arg;
};

/* The place of an open sandbox on the network of a sandbox and its companions. */
struct seat {
	int router;     /* of backend_members_open; borrowed */
	unsigned place; /* from 0 on */
};

struct job_want {
	/* What is run; NULL: nothing, and the sandbox stays open: for a backend with `exec`. A
	 * start takes from it what the plan has not got: whether it has a terminal. */
	const struct command *command;
	bool no_input; /* the command reads end of file at once */
	/* Of exec: in place of a command an operation on files (proc/files/files.h), whose words
	 * are the command's. Its ends, borrowed; -1: none. It returns at once, and fills only the
	 * number.
	 */
	const int *files;
	const char *id;
	/* Filled by a start that fails: what was denied, and whether the command may have begun
	 * nevertheless. NULL: not wanted. */
	struct outcome *outcome;
	/* Filled by a start: what contains the command, if it runs or may have begun. Must outlive
	 * the job: another host may know better when it ends. NULL: not wanted. */
	struct isolation *isolation;
	const char *const *variables; /* further ones for the inside, NAME=VALUE; NULL: none */
	const char *authority;     /* under network proxy: the certificate to trust inside, PEM */
	unsigned short rows, cols; /* of the terminal; 0: unknown */
	int wake[2];               /* for a start that takes long: see asked_to_stop; -1: none */
	const struct seat *seat;   /* of a start whose spec has members; else NULL */
	int *line; /* two sockets to speak to a process inside by, taken over; NULL: ends_open makes
		    * some */
	const struct door_there *there; /* with BACKEND_DOOR_THERE, under network proxy; borrowed */
	struct sightings *learn; /* what is seen of it goes there: with BACKEND_LEARNS; or NULL */
	struct backend_host host;
};

static inline bool job_has_tty(const struct job_want *w)
{
	return w->command && w->command->tty;
}

/* What a running job reported. */
enum job_event {
	JOB_NOTHING,
	JOB_ENDED, /* nothing of it runs any more; `finish` may be called */
};

enum backend_can {
	BACKEND_SHOWS_CODE = 1 << 0,  /* of the spec, in Python, at its path; else it is refused */
	BACKEND_AWAITS = 1 << 1,      /* start asks host.authority */
	BACKEND_PERMITS = 1 << 2,     /* start asks host.permit; else it is asked before start */
	BACKEND_PROXY = 1 << 3,       /* it has that network */
	BACKEND_BRIDGE = 1 << 4,      /* likewise */
	BACKEND_BARE = 1 << 5,        /* no sandbox: what is switched off is no request */
	BACKEND_REMOTE = 1 << 6,      /* another host, where another brig may be */
	BACKEND_ENGINE = 1 << 7,      /* somebody on this machine must answer: a probe is worth it;
				       * inside is an image, with programs of its own */
	BACKEND_FILES = 1 << 8,       /* exec takes operations on files */
	BACKEND_DELEGATES = 1 << 9,   /* another brig makes all of it, the door included */
	BACKEND_DOOR_THERE = 1 << 10, /* the door's processes run beside the sandbox, elsewhere */
	BACKEND_LEARNS = 1 << 11,     /* it tells which files a run opens */
	BACKEND_IMAGES = 1 << 12,     /* it makes a root of an image of brig's own */
};

/* What an image is built from: a Dockerfile alone, no other file. */
struct image_recipe {
	const char *ref;  /* its name, once it is built */
	const char *text; /* of the Dockerfile */
	const char *base; /* the value of its argument BASE; NULL: its own */
};

struct backend_array; /* opaque */

/* Many runs by one submission, which goes on without this process: they are put down one by one,
 * submitted together, and each is then a run whose spec says which of them it is
 * (slurm_spec.spool). One wave at a time: what was submitted before is over when the next comes. */
struct array_ops {
	/* The array of this name, as an earlier process may have left it: asks who of it still
	 * runs, and refuses where nobody can say. */
	int (*open)(const struct spec *s, const char *name, struct backend_array **ret,
		    struct err *e);
	/* A new wave, for lines from `first` on; *most is how many it may have. */
	int (*begin)(struct backend_array *a, uint64_t first, uint64_t *most, struct err *e);
	int (*put)(struct backend_array *a, const struct spec *s, uint64_t line, int input,
		   struct err *e);
	int (*submit)(struct backend_array *a, uint64_t lines, unsigned jobs, struct err *e);
	/* Up to which line the wave goes; where a line of it is: false: it is none of them. */
	uint64_t (*end)(const struct backend_array *a);
	bool (*find)(const struct backend_array *a, uint64_t line, struct slurm_spec *ret);
	void (*cancel)(struct backend_array *a);           /* ends all that was submitted */
	void (*close)(struct backend_array *a, bool keep); /* removes what is left, or not */
};

/* Of a backend whose sandboxes somebody else's program makes: an engine, bubblewrap. Each may be
 * NULL. */
struct maker_ops {
	/* Where that program is; *path is in the arena. NULL: it is asked over a socket. */
	int (*program)(struct arena *a, const char **path, struct err *e);

	/* Is it ready, within so many milliseconds? 0 or -errno, and why in detail. NULL: a probe
	 * in a process of its own can tell (sandbox/health.h). */
	int (*health)(unsigned ms, char *detail, size_t n);

	/* Fetches an image; note reports progress. NULL: it has no images. */
	int (*pull)(const char *ref, void (*note)(void *arg, const char *text), void *arg,
		    struct err *e);

	/* Builds one, likewise. */
	int (*build)(const struct image_recipe *r, void (*note)(void *arg, const char *text),
		     void *arg, struct err *e);
};

/* What can be asked of a sandbox while it runs. Each may be NULL. */
struct open_ops {
	/* A new size for the terminal of a command in an open sandbox. NULL: whoever has its master
	 * sets that. */
	void (*resize)(struct backend_job *j, uint32_t command, unsigned short rows,
		       unsigned short cols);

	/* Sockets of the sandbox's network, the caller's from here on. -EAGAIN: they were asked
	 * for, and `event` will have heard of them. NULL: its ports cannot be published. */
	int (*lend)(struct backend_job *j, struct lent *ret);

	/* Everything in an open sandbox stands still, or goes on. NULL: it cannot be paused. */
	int (*pause)(struct backend_job *j, bool on, struct err *e);

	/* Commands of an open sandbox that run, or have left something running. NULL: nobody
	 * knows of the latter. */
	size_t (*living)(const struct backend_job *j);
};

struct backend {
	const char *name;
	enum backend_kind kind;
	unsigned bit; /* in field.honoured */
	unsigned can; /* enum backend_can */

	const struct maker_ops
		*maker;              /* NULL: brig makes its sandboxes itself, or there are none */
	const struct open_ops *open; /* NULL: none of them */
	const struct array_ops *array; /* NULL: each run is started by itself */

	/* Can it work here, tried with the layout of a real run? Fills what it would give. The spec
	 * says where (a host, an engine); NULL: all defaults. Without `ret` a backend of auto's is
	 * asked whether it may be taken, and tries nothing where nothing speaks against it or an
	 * earlier trial is noted: a trial takes as long as a run. */
	int (*probe)(const struct spec *s, struct isolation *ret, struct err *e);

	/* Is there something about this spec that it cannot honour, which the fields' bits do not
	 * tell? NULL: no. */
	int (*check)(const struct spec *s, struct err *e);

	/* Computes, reads the file system, changes nothing. *notes is what the user should know
	 * before the start: NULL-terminated, borrowed from the plan. A caller that asks for them is
	 * about to call start, which completes the plan later and may still refuse; without them
	 * (NULL) the plan is complete. */
	int (*plan)(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		    struct err *e);
	void (*plan_json)(const struct backend_plan *p, struct json *j);
	struct backend_plan *(*plan_free)(struct backend_plan *p);

	/* Starts the command. The plan must outlive the job. */
	int (*start)(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		     struct backend_job **ret, struct err *e);
	enum job_event (*event)(struct backend_job *j, bool alarm, struct outcome *o);

	/* A signal for a command's process group. SIGKILL for COMMAND_FIRST ends everything there
	 * is; for another one it ends that one, with all it started, and leaves the rest alone. */
	void (*signal)(struct backend_job *j, uint32_t command, int sig);

	/* After JOB_ENDED, or to give up: ends what still lives, removes every trace, completes the
	 * outcome and frees the job. */
	void (*finish)(struct backend_job *j, struct outcome *o);

	/* One more command in an open sandbox, whose start is not waited for: what runs inside
	 * could keep it. Of job_want the command (borrowed until it has ended), the streams, the
	 * waking and the note count. io->events is readable when `ended` has something to say of
	 * it; what goes on in the sandbox is still `event`'s. NULL: it cannot be kept open, and the
	 * conductor refuses to. */
	int (*exec)(struct backend_job *j, const struct job_want *w, struct job_io *io,
		    uint32_t *ret, struct err *e);

	/* Has it ended, or could it not be started? Then its outcome is filled in, with the time of
	 * its start where that is known, and its number is no longer valid. What it started may
	 * live on, until the sandbox ends. */
	bool (*ended)(struct backend_job *j, uint32_t command, struct outcome *o);

	/* Has it been executed, as far as `event` has heard? NULL: nobody is told of that. */
	bool (*began)(const struct backend_job *j, uint32_t command);
};

extern const struct backend backend_native, backend_bwrap, backend_docker, backend_ssh,
	backend_kubernetes, backend_none, backend_slurm;

/* brig, executed inside by a backend's program: process 1 of the sandbox that the letter in this
 * descriptor is about. */
_Noreturn void backend_inside(int letter);

/* The network of a sandbox and its companions (kit/net/members.h): its router, which is there as
 * long as the descriptor is, and two sockets for whoever answers for names there. */
int backend_members_open(int *router, int *packets, int *streams, struct err *e);

/* Removes what runs that died with their monitor have left behind: in this workspace, and some of
 * all others in turn; NULL: all of them. Before planning: a plan must not take a dead run's
 * placeholder for something of the user's. Cheap when there is nothing, however many live. */
void backends_tidy(const char *workspace);
/* What was found of them in this workspace is added to *o; the next run there tells it, too. */
void backends_told(const char *workspace, struct outcome *o);
/* Has all been judged that runs have left in this folder, in one that it lies in, or in those that
 * it holds, and lives none? Else a refusal. After backends_tidy. */
int backends_judged(const char *path, struct err *e);

/* Pods of this state folder whose run is gone, wherever in a cluster runs have been: removed, or
 * with `dry` only named. Blocks. */
typedef void kube_pruned(void *arg, const char *pod);
int kube_prune(bool dry, kube_pruned *said, void *arg, struct err *e);

/* Spools of job arrays that nobody has touched for a week and whose jobs are gone: removed, or with
 * `dry` only named. Asks Slurm only where there is such a one. Blocks. */
typedef void slurm_pruned(void *arg, const char *spool);
int slurm_prune(bool dry, slurm_pruned *said, void *arg, struct err *e);

/* What a run on a Slurm cluster needs, aspect by aspect; after one that fails the rest is skipped.
 * Blocks. */
enum slurm_row_id {
	SLURM_ROW_PROGRAMS,
	SLURM_ROW_CONTROLLER,
	SLURM_ROW_PARTITION,
	SLURM_ROW_NODES,
	SLURM_ROW_BRIG,
	SLURM_ROW_LIMITS,
	SLURM_ROW_GPUS,
	SLURM_ROW_ACCOUNTING,
	SLURM_ROWS
};
enum slurm_row_state { SLURM_ROW_PASS, SLURM_ROW_WARN, SLURM_ROW_FAIL, SLURM_ROW_SKIP };
struct slurm_row {
	enum slurm_row_state state;
	char detail[400], hint[160];
};
void slurm_examine(const struct spec *s, struct slurm_row rows[SLURM_ROWS]);

/* A backend that `auto` did not take, and why. */
struct passed_over {
	const struct backend *backend;
	struct err why;
};

enum { PASSED_OVER_MAX = 4 };

struct backend_choice {
	const struct backend *backend;
	struct passed_over passed[PASSED_OVER_MAX];
	size_t passed_count;
};

/* The backend for a spec: the one named, or the first of auto's that can honour all that was
 * explicitly set and, where there is reason to doubt it, was seen to work. Refuses settings the
 * backend cannot honour, naming one that can. *ret is filled as far as possible even on an error.
 */
int backend_choose(const struct spec *s, struct backend_choice *ret, struct err *e);

/* The same for the doctor: each that may be taken is tried, and no note of it is left. */
int backend_examine(const struct spec *s, struct backend_choice *ret, struct err *e);

/* "backend 'x' cannot honour KEY[ VALUE]", with the place in a file that wrote it. Always negative.
 */
int backend_cannot(const struct spec *s, const char *backend, enum field_id id, const char *value,
		   struct err *e);

/* Would this backend take the spec as far as can be told without starting anything? What a plan
 * finds out: mounts that are not there, a workspace that cannot be shown. */
int backend_would_take(const struct spec *given, const struct backend *b, struct err *e);

/* All there are, NULL-terminated; those that auto considers, in its order. */
extern const struct backend *const backends_all[], *const backends_auto[];
const struct backend *backend_by_kind(enum backend_kind kind); /* NULL: not in this version */
const struct backend *backend_by_name(const char *name);       /* NULL: there is none */
const struct backend *backend_with(unsigned can); /* the first that can all of this, or NULL */

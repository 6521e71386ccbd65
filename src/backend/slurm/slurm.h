/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm.h - the parts of the slurm backend; no other folder includes this.
 *
 * Slurm says where a run takes place and for how long; the brig of that node makes a native sandbox
 * there, from the same settings. srun connects both brigs, which speak in frames (far/frames.h):
 * docs/design/slurm.md. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/kit/process/ends.h"
#include "backend/kit/remote/remote_report.h"
#include "backend/slurm/slurm_text.h"
#include "base/sys/loop.h"
#include "base/text/arena.h"
#include "base/text/buf.h"
#include "far/far_job.h"

#define SLURM_ENTRY "_node"   /* brig's own word for what runs on a node */
#define SLURM_COMMENT "brig:" /* and the run's id: whose job it is */
#define SLURM_FOLDER "slurm"  /* of brig's state */
#define SLURM_TEXT_MAX ((size_t)1 << 20)

struct backend_plan {
	struct arena *arena; /* keeps the texts of the spec as well */
	struct slurm_spec slurm;
	const char *srun;
	const char **options;      /* of srun, from the spec */
	const char *const *envp;   /* of Slurm's programs */
	const char *const *places; /* of the run; NULL: none */
	struct buf settings;       /* JSON for the node, but for what only a start knows */
	const char *const *words;
	const char **variables;
	const char *code;
	size_t code_size;
	struct far_path *paths;
	size_t path_count;
	uint64_t timeout, kill_after, output; /* milliseconds; bytes kept of each stream */
	struct {
		uint64_t cpus, mib, minutes, gpus; /* 0: Slurm's own */
	} want;
	/* That the cluster gives: milliseconds, bytes, GPUs; or 0. */
	uint64_t most_timeout, most_memory, most_gpus;
	const char *notes[8];
	size_t note_count;
};

/* slurm_plan.c */
int slurm_check(const struct spec *s, struct err *e);
int slurm_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	       struct err *e);
void slurm_plan_json(const struct backend_plan *p, struct json *j);
struct backend_plan *slurm_plan_free(struct backend_plan *p);
DEFINE_CLEANUP(slurm_plan, struct backend_plan *, slurm_plan_free)
/* Arguments of srun for a run of this id, without `unfit` nodes (NULL: none); in the plan's arena.
 * There is room for four more. */
const char **slurm_srun(const struct backend_plan *p, const char *id, const char *unfit);

/* Asks for no more than the cluster gives: the stricter holds. */
void slurm_narrow(struct backend_plan *p, const struct slurm_facts *f);
/* Options for CPUs, memory, time and GPUs, of srun and sbatch; at most four. NULL: no memory. */
size_t slurm_wants(const struct backend_plan *p, const char **v);

/* slurm_start.c: what a node is asked for; but for the id, the terminal and the input, which the
 * plan does not know. */
struct far_request slurm_request(const struct backend_plan *p, const char *id);
int slurm_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		struct backend_job **ret, struct err *e);

/* slurm_ask.c: one of Slurm's programs, asked something: its output, in at most so many seconds.
 * `in` is its input, or NULL. The error has its last words. */
int slurm_ask(const struct backend_plan *p, const char *const *argv, const char *in,
	      unsigned seconds, struct buf *out, struct err *e);
/* What it wrote to its log, without control characters: its last line, or where the beginning of
 * the log counts, its first complaint. */
void slurm_words(int log, bool end, char *out, size_t room);
/* A program of Slurm's along PATH. */
int slurm_program(const struct backend_plan *p, const char *name, const char **ret, struct err *e);
int slurm_start_program(const struct backend_plan *p, const char *const *argv, const int *streams,
			pid_t *pid, int *pidfd, struct err *e);
/* Of a plan that has its arena and its places. */
int slurm_environment(struct backend_plan *p, struct err *e);

/* slurm_prune.c: what the cluster is called; and the one that a spool was submitted to. False: it
 * does not say. */
int slurm_cluster(const struct backend_plan *p, char out[SLURM_NAME_ROOM], struct err *e);
bool slurm_spool_cluster(int folder, char out[SLURM_NAME_ROOM]);

/* slurm_array.c: many runs by one submission. */
extern const struct array_ops slurm_array;
/* Is the report of this task in the open folder of its wave? */
bool slurm_has_report(int wave, uint64_t task);

/* slurm_nodes.c: which nodes have a brig that fits. Remembered for some minutes. */
struct slurm_nodes {
	struct buf unfit; /* names, with commas */
	struct buf why;   /* of the first of them */
	struct slurm_facts facts;
	size_t fit, asked, count;
};
int slurm_nodes_look(const struct backend_plan *p, bool anew, struct slurm_nodes *ret,
		     struct err *e);
void slurm_nodes_done(struct slurm_nodes *n);
/* Refuses where none is fit. */
int slurm_nodes_fit(const struct backend_plan *p, struct slurm_nodes *ret, struct err *e);

/* slurm_job.c */
struct backend_job {
	struct backend_plan *plan;
	struct loop *loop;
	struct loop_timer ping, patience;
	struct loop_watch client; /* srun's process */
	struct far_job *far;      /* its input and output; of the number FAR_RUN */
	int to, from, theirs[2];  /* ... our ends of both, and until it has them its own */
	int client_pid, log;
	char ask[64];   /* the file that has what is asked for, too; "": none */
	const char *id; /* of Slurm's job; "": none that a node has told */
	const char *node;
	uint64_t quiet_from; /* when it was last found to be suspended */
	/* reported: the node has said all. lost: it is not waited for any more. */
	bool reported, gone, killing, struck, left, bad, lost;
	struct isolation *isolation;
};

/* Takes the command's ends. */
int slurm_job_new(struct backend_plan *p, struct ends *ends, struct backend_job **ret,
		  struct err *e);
struct backend_job *slurm_job_free(struct backend_job *j);
DEFINE_CLEANUP(slurm_job, struct backend_job *, slurm_job_free)
/* Starts srun with these arguments; NULL: in its place a process that follows a task of an array,
 * which the plan names (slurm_follow.c). */
int slurm_job_client(struct backend_job *j, const char *const *argv, struct err *e);
void slurm_job_turn(struct backend_job *j);
bool slurm_job_began(const struct backend_job *j);
void slurm_job_finish(struct backend_job *j, struct outcome *o);
/* ... in a process of its own, with frames of the node on `out`; what our brig says on `in` can
 * only end the task. */
_Noreturn void slurm_follow(const struct backend_plan *p, int in, int out, int log);
/* Why srun ended without a report. */
int slurm_job_explain(struct backend_job *j, struct err *e);

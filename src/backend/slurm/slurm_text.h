/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_text.h - what Slurm's programs and nodes say, and what an array has written
 * down, read. Pure, and strict: what is not understood is passed over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the cluster gives a run at most, and what it enforces; 0: no limit. */
struct slurm_facts {
	uint64_t max_seconds, default_seconds, max_mib, max_cpu_mib, max_cpus;
	uint64_t most_gpus; /* of one node; 0: none has any */
	bool holds_memory, holds_cpus;
};

enum slurm_state { SLURM_THERE, SLURM_GONE, SLURM_CANCELLED };

/* [DAYS-]HOURS:MINUTES:SECONDS, as Slurm prints it. 0: no limit, or no such time. */
uint64_t slurm_text_seconds(const char *text);
/* Of two limits, where 0 is none. */
uint64_t slurm_stricter(uint64_t a, uint64_t b);
/* "scontrol show config": who enforces what; how many tasks an array may have, 0: it does not say.
 */
void slurm_text_config(const char *text, struct slurm_facts *f);
uint64_t slurm_text_arrays(const char *text);
/* ... and the cluster's name; "" if it does not say. */
enum { SLURM_NAME_ROOM = 64 };
void slurm_text_cluster(const char *text, char out[SLURM_NAME_ROOM]);
/* "scontrol show partition -o": the strictest of those named (with commas; NULL: the default). */
void slurm_text_partition(const char *text, const char *names, struct slurm_facts *f);
/* How many of them there are, in this state; NULL: in any. */
size_t slurm_text_partitions(const char *text, const char *names, const char *state);
/* GPUs of a node, by the n bytes of its column %G of sinfo, which is as "gpu:a100:2(S:0),mps:100".
 */
uint64_t slurm_text_gpus(const char *gres, size_t n);
/* The next living task of "squeue -o '%F %K %k'" with this comment; of "sacct -P -o JobID,State".
 * *at moves on. False: no more. */
bool slurm_text_queue(const char **at, const char *comment, uint64_t *job, uint64_t *task);
bool slurm_text_account(const char **at, uint64_t *job, uint64_t *task);
/* "squeue -t all -o %T" of one task. */
enum slurm_state slurm_text_state(const char *text);
/* Four numbers: wave, first line, how many, job. */
bool slurm_text_wave(const char *text, uint64_t v[4]);
/* "brig-place DEV INO TYPE BOOT"; boot is borrowed up to the end of its line. */
bool slurm_text_place(const char *text, uint64_t v[3], const char **boot, size_t *n);

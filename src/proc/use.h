/* SPDX-License-Identifier: Apache-2.0 */
/* proc/use.h - what the processes of a sandbox use now, by one look at /proc. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes/json.h"
#include "base/text/cleanup.h"

enum { USE_FIRST_SIZE = 40, USE_TOPS = 17 /* of one sandbox: it and its companions */ };

struct used {
	uint64_t processes, threads, memory, cpu_ms; /* memory in bytes, no files */
};

struct use; /* all processes there were at one moment */

struct use *use_look(void); /* NULL: nothing can be seen */
struct use *use_free(struct use *u);
DEFINE_CLEANUP(use, struct use *, use_free)

/* Those below `tops`, "PID[,PID@START...]": the process that owns the sandbox, or with its START
 * the first one of a container, which is below no process of ours. false: there are none to be
 * seen. */
bool use_of(struct use *all, const char *tops, struct used *ret);

/* The same as an object, or null; `all` may be NULL. */
void used_json(struct use *all, const char *tops, struct json *j);

/* "PID@START": that process and no other that gets its number later. false: there is none. */
bool use_first(pid_t pid, char ret[USE_FIRST_SIZE]);

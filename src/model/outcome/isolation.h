/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/isolation.h - what really contains a sandbox, and so all of its commands. Plain
 * data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/known/gpus.h"

enum limit {
	LIMIT_MEMORY,
	LIMIT_CPUS,
	LIMIT_CPU_SHARES,
	LIMIT_PIDS,
	LIMIT_TMP,
	LIMIT_DISK,
	LIMIT_FILES,
	LIMIT_OUTPUT,
	LIMIT_TIMEOUT,
	LIMIT_GPUS,
	LIMIT_COUNT
};

/* Who makes sure that a limit holds. */
enum enforcer {
	ENFORCER_NONE, /* no such limit in this run */
	ENFORCER_CGROUP,
	ENFORCER_WATCH,    /* the supervisor looks and ends the run */
	ENFORCER_PARTIAL,  /* ... and there is something that it does not see */
	ENFORCER_RLIMIT,   /* a resource limit of the kernel */
	ENFORCER_TMPFS,    /* the size of the file system itself */
	ENFORCER_AFFINITY, /* bound to that many CPUs */
	ENFORCER_NICE,
	ENFORCER_MONITOR, /* brig's own clock or counter */
	ENFORCER_KUBELET, /* looks every ten seconds or so, and ends the pod */
	ENFORCER_DEVICES, /* no other device is shown */
	ENFORCER_COUNT
};

/* What each layer really gave. Filled by the backend, true only for what was seen to work. Time and
 * output are limits of a command: see the outcome. */
struct isolation {
	bool user_ns, pid_ns, mount_ns, net_ns, ipc_ns, uts_ns, cgroup_ns;
	bool no_new_privs, capabilities_dropped, read_only_root;
	const char *seccomp; /* name of the profile; NULL: no filter */
	int landlock_abi;    /* 0: none */
	const char *cgroup;  /* "v1", "v2", "hybrid" or "none" */
	const char
		*pause; /* "cgroup", "signal", "engine"; NULL: of no open sandbox, or it cannot */
	const char *network;
	const char *network_by; /* what closes it, where that is not this host or the pod itself */
	const char *runtime;    /* of containers, where one was named */
	uint32_t uid_inside, gid_inside;
	struct gpu_set gpus; /* that are shown */
	unsigned keeps;      /* what outlives a stop: bits 1 << enum store_place */
	int32_t first;       /* of a container that stays open: its first process; 0: unknown. Not
			      * reported */
	enum enforcer limits[LIMIT_COUNT];
	unsigned slurm; /* bits 1 << enum limit: those that Slurm holds as well */
};

const char *limit_name(enum limit l);
const char *enforcer_name(enum enforcer f);
/* ... and where Slurm holds the limit as well, it beside that one: "cgroup, slurm". */
const char *enforcer_names(enum enforcer f, bool slurm);

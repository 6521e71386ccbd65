/* SPDX-License-Identifier: Apache-2.0 */
#include "model/outcome/isolation.h"

#include <assert.h>

#include "base/text/cleanup.h"

static const char *const limit_names[] = {
	[LIMIT_MEMORY] = "memory", [LIMIT_CPUS] = "cpus",     [LIMIT_CPU_SHARES] = "cpu_shares",
	[LIMIT_PIDS] = "pids",     [LIMIT_TMP] = "tmp",       [LIMIT_DISK] = "disk",
	[LIMIT_FILES] = "files",   [LIMIT_OUTPUT] = "output", [LIMIT_TIMEOUT] = "timeout",
	[LIMIT_GPUS] = "gpus",
};
static_assert(ARRAY_LEN(limit_names) == LIMIT_COUNT, "a name for every limit");

static const char *const own_names[] = {
	[ENFORCER_NONE] = "none",         [ENFORCER_CGROUP] = "cgroup",
	[ENFORCER_WATCH] = "watch",       [ENFORCER_PARTIAL] = "watch (partial)",
	[ENFORCER_RLIMIT] = "rlimit",     [ENFORCER_TMPFS] = "tmpfs",
	[ENFORCER_AFFINITY] = "affinity", [ENFORCER_NICE] = "nice",
	[ENFORCER_MONITOR] = "monitor",   [ENFORCER_KUBELET] = "kubelet",
	[ENFORCER_DEVICES] = "devices",
};
static_assert(ARRAY_LEN(own_names) == ENFORCER_COUNT, "a name for every enforcer");

static const char *const names_with_slurm[] = {
	[ENFORCER_NONE] = "slurm",
	[ENFORCER_CGROUP] = "cgroup, slurm",
	[ENFORCER_WATCH] = "watch, slurm",
	[ENFORCER_PARTIAL] = "watch (partial), slurm",
	[ENFORCER_RLIMIT] = "rlimit, slurm",
	[ENFORCER_TMPFS] = "tmpfs, slurm",
	[ENFORCER_AFFINITY] = "affinity, slurm",
	[ENFORCER_NICE] = "nice, slurm",
	[ENFORCER_MONITOR] = "monitor, slurm",
	[ENFORCER_KUBELET] = "kubelet, slurm",
	[ENFORCER_DEVICES] = "devices, slurm",
};
static_assert(ARRAY_LEN(names_with_slurm) == ENFORCER_COUNT, "a name for every enforcer");

const char *limit_name(enum limit l)
{
	return limit_names[l];
}

const char *enforcer_name(enum enforcer f)
{
	return own_names[f];
}

const char *enforcer_names(enum enforcer f, bool slurm)
{
	return slurm ? names_with_slurm[f] : own_names[f];
}

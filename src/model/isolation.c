/* SPDX-License-Identifier: Apache-2.0 */
#include "model/isolation.h"

#include <assert.h>

#include "base/cleanup.h"

static const char *const limit_names[] = {
	[LIMIT_MEMORY] = "memory", [LIMIT_CPUS] = "cpus",     [LIMIT_CPU_SHARES] = "cpu_shares",
	[LIMIT_PIDS] = "pids",     [LIMIT_TMP] = "tmp",       [LIMIT_DISK] = "disk",
	[LIMIT_FILES] = "files",   [LIMIT_OUTPUT] = "output", [LIMIT_TIMEOUT] = "timeout",
};
static_assert(ARRAY_LEN(limit_names) == LIMIT_COUNT, "a name for every limit");

static const char *const enforcer_names[] = {
	[ENFORCER_NONE] = "none",         [ENFORCER_CGROUP] = "cgroup",
	[ENFORCER_WATCH] = "watch",       [ENFORCER_PARTIAL] = "watch (partial)",
	[ENFORCER_RLIMIT] = "rlimit",     [ENFORCER_TMPFS] = "tmpfs",
	[ENFORCER_AFFINITY] = "affinity", [ENFORCER_NICE] = "nice",
	[ENFORCER_MONITOR] = "monitor",   [ENFORCER_KUBELET] = "kubelet",
};
static_assert(ARRAY_LEN(enforcer_names) == ENFORCER_COUNT, "a name for every enforcer");

const char *limit_name(enum limit l)
{
	return limit_names[l];
}

const char *enforcer_name(enum enforcer f)
{
	return enforcer_names[f];
}

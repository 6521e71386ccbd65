/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/cpus.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"

/* "0.00 0.01 0.05 2/345 6789": three averages, then those that could run now. -1: not known. */
static long cpus_running(void)
{
	char text[96], *at = text;
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/loadavg", text, sizeof(text));

	for (int i = 0; n > 0 && i < 3; i++) {
		at = strchr(at, ' ');
		if (!at)
			return -1;
		at++;
	}
	return n > 0 ? strtol(at, NULL, 10) : -1;
}

static int spare_of(cpu_set_t *all)
{
	long now;

	CPU_ZERO(all);
	if (sched_getaffinity(0, sizeof(*all), all) < 0)
		return 0;
	now = cpus_running();
	return now > 0 && now < CPU_COUNT(all) ? CPU_COUNT(all) - (int)now : 0;
}

int cpus_spare(void)
{
	cpu_set_t all;

	return spare_of(&all);
}

bool cpus_idle(cpu_set_t *all)
{
	return spare_of(all) > 0;
}

bool cpus_move(pid_t pid, const cpu_set_t *all)
{
	cpu_set_t others = *all;
	int own = sched_getcpu();

	if (own < 0 || own >= CPU_SETSIZE)
		return false;
	CPU_CLR((size_t)own, &others);
	return sched_setaffinity(pid, sizeof(others), &others) == 0;
}

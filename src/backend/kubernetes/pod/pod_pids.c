/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_pids.c - how many processes there are, counted by the first of them.
 *
 * A kubelet has one limit for all pods, and RLIMIT_NPROC counts those of the same user in every pod
 * of the node. So brig-pod looks at its own procfs, every few milliseconds while a command runs;
 * too many, and every process inside is ended by one call, which a bomb does not outrun. */
#include <fcntl.h>
#include <signal.h>

#include "backend/kit/limits/watch.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define EVERY_MS 10

int pod_pids_begin(struct pod_pids *p, uint64_t most, struct err *e)
{
	p->most = most;
	p->proc = most ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return most && p->proc < 0 ? err_sys(e, "cannot count processes") : 0;
}

static uint64_t reapers(const struct commands *t)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->top; i++)
		n += t->places[i].reaper != 0;
	return n;
}

int pod_pids_look(struct pod_pids *p, const struct commands *t)
{
	uint64_t own = reapers(t), now = clock_us();
	struct watch w = { .procfd = p->proc, .tasks_max = p->most + own };
	struct watch_usage seen;

	if (!p->most || !own)
		return -1;
	if (now < p->next)
		return (int)((p->next - now) / 1000) + 1;
	p->next = now + (uint64_t)EVERY_MS * 1000;
	if (watch_look(&w, &seen) == WATCH_TASKS) {
		p->hit = true;
		(void)kill(-1, SIGKILL);
	}
	return EVERY_MS;
}

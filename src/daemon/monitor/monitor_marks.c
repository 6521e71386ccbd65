/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_marks.c - whose a container is, for whoever lists those of an engine: the
 * sandbox, and the state folder that it belongs to, which several users of one engine have each. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/files/state.h"
#include "daemon/monitor/monitor_internal.h"
#include "model/settings/spec.h"

int monitor_marks(const struct monitor *m, struct spec *s, struct err *e)
{
	CLEANUP(fd) int state = openat(m->folder, "../..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char by[64], path[PATH_MAX], instance[STATE_INSTANCE];
	ssize_t n;

	if (state < 0)
		return err_sys(e, "cannot open this state folder");
	if (state_instance(state, instance, e) < 0)
		return -e->code;
	(void)snprintf(by, sizeof(by), "/proc/self/fd/%d", m->folder);
	n = readlink(by, path, sizeof(path) - 1);
	if (n <= 0)
		return err_sys(e, "cannot find the sandbox's folder");
	path[n] = '\0';
	s->instance = arena_strdup(s->arena, instance);
	s->sandbox = arena_strdup(s->arena, strrchr(path, '/') + 1);
	return s->instance && s->sandbox ? 0 : err_nomem(e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_marks.c - whose a container is, for whoever lists those of an engine: the
 * sandbox, and the state folder that it belongs to, which several users of one engine have each. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "daemon/monitor/monitor_internal.h"
#include "model/settings/spec.h"

#define INSTANCE "../../instance"
#define HEX 32

/* Made once; of two that come first the kernel takes one. */
static int make_instance(int folder, struct err *e)
{
	char text[HEX + 1], draft[64];
	CLEANUP(fd) int fd = -1;
	int r;

	if (random_hex(text, sizeof(text), e) < 0)
		return -e->code;
	(void)snprintf(draft, sizeof(draft), INSTANCE ".%d", getpid());
	fd = openat(folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, HEX);
	if (r == 0 && linkat(folder, draft, folder, INSTANCE, 0) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlinkat(folder, draft, 0);
	return r < 0 ? err_errno(e, r, "cannot name this state folder") : 0;
}

int monitor_marks(const struct monitor *m, struct spec *s, struct err *e)
{
	char by[64], path[PATH_MAX], text[HEX + 2] = "";
	ssize_t n;

	if (fd_read_file(m->folder, INSTANCE, text, sizeof(text)) != HEX) {
		if (make_instance(m->folder, e) < 0)
			return -e->code;
		if (fd_read_file(m->folder, INSTANCE, text, sizeof(text)) != HEX)
			return err_set(e, ERR_INTERNAL, EIO,
				       "cannot read this state folder's name");
	}
	(void)snprintf(by, sizeof(by), "/proc/self/fd/%d", m->folder);
	n = readlink(by, path, sizeof(path) - 1);
	if (n <= 0)
		return err_sys(e, "cannot find the sandbox's folder");
	path[n] = '\0';
	s->instance = arena_strdup(s->arena, text);
	s->sandbox = arena_strdup(s->arena, strrchr(path, '/') + 1);
	return s->instance && s->sandbox ? 0 : err_nomem(e);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/unpack_child.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "proc/forked.h"
#include "proc/unpack_confined.h"

#define ENTRIES_MAX 1000000

struct unpack_child_work {
	int folder;
	uint64_t most;
};

static int unpack_child_run(void *arg, int line)
{
	const struct unpack_child_work *w = arg;
	struct tar_limits l = { .bytes = w->most, .entries = ENTRIES_MAX };
	struct err e = { 0 };

	l.mask = umask(0);
	(void)umask(l.mask);
	e.code = -unpack_confined(w->folder, line, &l);
	return forked_tell(line, &e) < 0 || e.code;
}

int unpack_child_start(int folder, uint64_t most, struct unpack_child *ret, struct err *e)
{
	struct unpack_child_work work = { .folder = folder, .most = most };
	const struct forked_want w = { .what = "the process that unpacks",
				       .line = FORKED_BYTES,
				       .run = unpack_child_run,
				       .arg = &work };

	*ret = (struct unpack_child){ .line = -1 };
	ret->pid = forked_start(&w, &ret->line, e);
	return ret->pid < 0 ? (int)ret->pid : 0;
}

int unpack_child_end(struct unpack_child *u, struct err *e)
{
	struct err said = { 0 };
	bool told;
	int r;

	(void)shutdown(u->line, SHUT_WR);
	told = forked_hear(u->line, &said) == 0;
	r = -said.code;
	u->line = fd_close(u->line);
	(void)forked_wait(u->pid);
	if (!told)
		return err_set(e, ERR_POLICY, EPROTO,
			       "what came out of the sandbox ended the process that unpacked it");
	if (r == -EBADMSG)
		return err_set(e, ERR_POLICY, EBADMSG,
			       "what came out of the sandbox is no archive of folders and files "
			       "that stay below the folder");
	if (r == -EFBIG)
		return err_refuse(e, ERR_USAGE, EFBIG, "--limit SIZE raises it",
				  "what comes out is larger than the limit");
	if (r == -ENODATA)
		return err_set(e, ERR_UNAVAILABLE, ENODATA,
			       "what came out of the sandbox ends in the middle");
	return r < 0 ? err_errno(e, r, "cannot unpack what came out of the sandbox") : 0;
}

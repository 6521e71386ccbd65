/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/locked.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"

/* One id to itself is enough: nobody in there can become somebody else. */
static int keep_id(int proc, const char *map, unsigned id, struct err *e)
{
	char line[64];
	int r;

	(void)snprintf(line, sizeof(line), "%u %u 1\n", id, id);
	r = fd_write_file(proc, map, line);
	return r < 0 ? err_errno(e, r, "cannot write '%s' of the second user namespace", map) : 0;
}

static int keep_ids(int proc, unsigned uid, unsigned gid, struct err *e)
{
	int r = fd_write_file(proc, "self/setgroups", "deny");

	if (r < 0)
		return err_errno(e, r,
				 "cannot write 'self/setgroups' of the second user namespace");
	return keep_id(proc, "self/uid_map", uid, e) < 0 ? -e->code
							 : keep_id(proc, "self/gid_map", gid, e);
}

static int cannot_lock(struct err *e)
{
	(void)err_sys(e, "cannot make a second user and mount namespace");
	if (e->code != ENOSPC && e->code != EUSERS)
		return -e->code;
	e->kind = ERR_UNAVAILABLE;
	return err_hint(e, "each sandbox takes two of user.max_user_namespaces and of "
			   "user.max_mnt_namespaces, and they can be nested 32 deep");
}

int locked_enter(int proc, bool *entered, struct err *e)
{
	unsigned uid = getuid(), gid = getgid();

	*entered = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
	if (!*entered)
		return cannot_lock(e);
	/* Whoever has changed its ids finds its own files there to be root's. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return err_sys(e, "cannot make init dumpable");
	return keep_ids(proc, uid, gid, e);
}

int locked_drop(struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* past the last one this kernel knows */
			return err_sys(e, "cannot drop capability %d", cap);
		}
	if (prctl(PR_SET_SECUREBITS,
		  SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_CAP_AMBIENT_RAISE |
			  SECURE_ALL_LOCKS,
		  0, 0, 0) < 0)
		return err_sys(e, "cannot lock the secure bits");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "cannot clear ambient capabilities");
	if (syscall(SYS_capset, &head, none) < 0)
		return err_sys(e, "cannot give up the capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "cannot set no-new-privs");
	return 0;
}

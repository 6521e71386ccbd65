/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/layer_look.c - starts the process that looks, and takes its answer.
 *
 * It answers with pieces, each with its length in front, then one of length 0, then how it went. */
#include "workspace/layer_look.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/confine.h"
#include "proc/forked.h"
#include "workspace/layer_look_internal.h"

enum {
	NOBODY = 65534,
	PIECE_MAX = 1 << 16,
	CPU_S = 600,
};

struct look_child {
	const struct look_want *w;
	bool text;
};

/* ---- the child ---- */

/* What the run closed to its owner is read all the same: in a user namespace of its own a process
 * may read what is its user's. Where there is none such files are told as closed. */
static void become_reader_of_own(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER) < 0)
		return;
	(void)fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	(void)fd_write_file(AT_FDCWD, "/proc/self/gid_map", map);
	(void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	(void)fd_write_file(AT_FDCWD, "/proc/self/uid_map", map);
}

/* Of all capabilities it keeps the one to read. */
static int keep_reading(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { 0 };
	const unsigned reading = 1U << CAP_DAC_READ_SEARCH;

	if (syscall(SYS_capget, &head, caps) < 0)
		return -errno;
	caps[0].effective = caps[0].permitted & reading;
	caps[0].permitted = caps[0].effective;
	caps[1].effective = caps[1].permitted = 0;
	caps[0].inheritable = caps[1].inheritable = 0;
	return syscall(SYS_capset, &head, caps) < 0 ? -errno : 0;
}

/* Root becomes nobody who may read. */
static int become_reader_of_all(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { 0 };

	if (syscall(SYS_capget, &head, caps) < 0)
		return -errno;
	if (!(caps[0].permitted & 1U << CAP_DAC_READ_SEARCH))
		return 0;
	return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
			       setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0
		       ? -errno
		       : 0;
}

static int become_reader(void)
{
	int r = 0;

	if (geteuid() == 0)
		r = become_reader_of_all();
	else
		become_reader_of_own();
	return r < 0 ? r : keep_reading();
}

static int put_piece(int line, const char *data, size_t n)
{
	int r = 0;

	while (n && r == 0) {
		uint32_t piece = n < PIECE_MAX ? (uint32_t)n : PIECE_MAX;

		r = fd_write_all(line, &piece, sizeof(piece));
		r = r < 0 ? r : fd_write_all(line, data, piece);
		data += piece;
		n -= piece;
	}
	return r;
}

static int child_texts(const struct look_child *l, struct change_list *list, int line,
		       struct err *e)
{
	for (size_t i = 0; i < list->n; i++) {
		struct buf out = BUF_INIT((size_t)24 << 20);
		int r = look_show(l->w, &list->v[i], l->text ? &out : NULL);

		if (r == 0 && out.failed)
			r = -ENOMEM;
		if (r == 0)
			r = put_piece(line, buf_str(&out), out.len);
		buf_done(&out);
		if (r < 0)
			return err_errno(e, r, "cannot compare '%.200s'", list->v[i].path);
	}
	return 0;
}

static int child_look(const struct look_child *l, int line, struct err *e)
{
	CLEANUP(change_list)
	struct change_list list = { .arena = arena_new((size_t)512 << 20) };
	struct buf out = BUF_INIT(CHANGES_BYTES);
	int r;

	if (!list.arena)
		return err_nomem(e);
	r = look_walk(l->w, &list, e);
	if (r == 0 && (l->text || l->w->count))
		r = child_texts(l, &list, line, e);
	if (r < 0 || l->text)
		return r;
	change_list_write(&list, &out);
	if (out.failed)
		r = err_nomem(e);
	else if (put_piece(line, out.data, out.len) < 0)
		r = err_sys(e, "nobody listens");
	buf_done(&out);
	return r;
}

static int child_main(void *arg, int line)
{
	const struct look_child *l = arg;
	const int keep[] = { l->w->workspace, l->w->upper, line };
	const int folders[] = { l->w->upper, l->w->workspace };
	const struct confine_want want = {
		.procs = -1, .folder = -1, .looks = folders, .look_count = 2, .bytes = 0
	};
	const struct rlimit cpu = { CPU_S, CPU_S };
	const uint32_t end = 0;
	struct err e = { 0 };

	if (fd_close_except(3, keep, ARRAY_LEN(keep)) < 0 || setrlimit(RLIMIT_CPU, &cpu) < 0 ||
	    become_reader() < 0)
		(void)err_sys(&e, "cannot start to look through a layer");
	else if (confine(CONFINE_WALKER, &want, &e) == 0)
		(void)child_look(l, line, &e);
	(void)fd_write_all(line, &end, sizeof(end));
	return forked_tell(line, &e) < 0;
}

/* ---- who asks ---- */

static int hear_pieces(int line, look_put *put, void *arg)
{
	char data[PIECE_MAX];
	uint32_t n;
	int r;

	while ((r = fd_read_all(line, &n, sizeof(n))) == 0 && n) {
		if (n > PIECE_MAX)
			return -EPROTO;
		r = fd_read_all(line, data, n);
		if (r == 0)
			r = put(arg, data, n);
		if (r < 0)
			return r;
	}
	return r;
}

static int look_ask(const struct look_child *l, look_put *put, void *arg, struct err *e)
{
	const struct forked_want want = { .name = "brig-look",
					  .what = "the process that looks through a layer",
					  .line = FORKED_BYTES,
					  .run = child_main,
					  .arg = (void *)(uintptr_t)l };
	struct err said = { 0 };
	int line, r;
	pid_t pid = forked_start(&want, &line, e);

	if (pid < 0)
		return pid;
	r = hear_pieces(line, put, arg);
	if (r == 0)
		r = forked_hear(line, &said);
	(void)fd_close(line);
	(void)forked_wait(pid);
	if (r == -EPIPE) /* whoever is shown it has seen enough */
		return r;
	if (r < 0)
		return err_errno(e, r, "the process that looks through a layer has failed");
	if (said.code) {
		*e = said;
		return -said.code;
	}
	return 0;
}

static int look_gather(void *arg, const char *data, size_t n)
{
	struct buf *b = arg;

	buf_add(b, data, n);
	return b->failed ? -ENOMEM : 0;
}

int look_list(const struct look_want *w, struct change_list *ret, struct err *e)
{
	const struct look_child l = { .w = w };
	struct buf b = BUF_INIT(CHANGES_BYTES);
	int r = look_ask(&l, look_gather, &b, e);

	if (r == 0) {
		r = change_list_read(buf_str(&b), b.len, ret);
		if (r < 0)
			(void)err_errno(e, r, "what was found in the layer makes no sense");
	}
	buf_done(&b);
	return r;
}

int look_text(const struct look_want *w, look_put *put, void *arg, struct err *e)
{
	const struct look_child l = { .w = w, .text = true };

	return look_ask(&l, put, arg, e);
}

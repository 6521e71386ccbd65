/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kubernetes/copies.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/kubernetes/copy_back.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/sys/wait.h"
#include "base/tar/tar.h"
#include "base/files/tree.h"
#include "proc/files/files.h"
#include "proc/spawn.h"
#include "proc/unpack_confined.h"

#define FOLDER "kubernetes"
#define CHANGES "changes"

/* Our ends and the other ones of an operation. */
struct ways {
	int here[FILE_ENDS], there[FILE_ENDS];
	const struct copies_stop *stop; /* once something was asked */
	bool stopped;
};

static void ways_done(struct ways *w)
{
	for (size_t i = 0; i < FILE_ENDS; i++) {
		w->here[i] = fd_close(w->here[i]);
		w->there[i] = fd_close(w->there[i]);
	}
}

static void cleanup_ways(struct ways *w)
{
	ways_done(w);
}

static int ways_open(struct ways *w, enum file_verb verb, struct err *e)
{
	size_t n = file_takes(verb) ? FILE_ENDS : FILE_END_WORD;

	for (size_t i = 0; i < n; i++) {
		bool inwards = i == FILE_END_WORD || (i == FILE_END_DATA && file_takes(verb));
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_sys(e, "cannot make a pipe");
		w->here[i] = ends[inwards ? 1 : 0];
		w->there[i] = ends[inwards ? 0 : 1];
	}
	return 0;
}

/* The pod's side begins; its ends are not ours any more. */
static int copies_ask(const struct copies *c, enum file_verb verb, const char *path, struct ways *w,
		      struct err *e)
{
	const struct file_order o = {
		.verb = verb, .mode = 0444, .limit = c->most, .path = path, .to = ""
	};
	struct file_words words;
	struct command command = { 0 };
	const struct job_want want = { .command = &command, .files = w->there, .wake = { -1, -1 } };
	struct job_io unused;
	uint32_t number;
	int r;

	w->stop = &c->stop;
	file_order_words(&o, &words);
	command.argv = words.argv;
	r = command_start(c->host, &want, &unused, &number, e);
	for (size_t i = 0; i < FILE_ENDS; i++)
		w->there[i] = fd_close(w->there[i]);
	return r;
}

/* Until there is something on a descriptor; false: it is to stop. A pod may say nothing for ever.
 */
static bool copies_wait_for(struct ways *w, int fd)
{
	const struct copies_stop *s = w->stop;
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = s->asked ? s->wake[0] : -1, .events = POLLIN },
			      { .fd = s->asked ? s->wake[1] : -1, .events = POLLIN } };

	while (!w->stopped && !p[0].revents) {
		if (wait_any(p, ARRAY_LEN(p), 0) < 0)
			return false;
		w->stopped = s->asked && (p[1].revents || p[2].revents) && s->asked(s->arg);
	}
	return !w->stopped;
}

/* Its last word; *more: something was left out. */
static int hear_done(struct ways *w, bool *more, struct err *e)
{
	struct file_answer a = { 0 };

	for (;;) {
		size_t have = 0;

		while (have < sizeof(a)) {
			ssize_t n;

			if (!copies_wait_for(w, w->here[FILE_END_ANSWERS]))
				return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
			n = read(w->here[FILE_END_ANSWERS], (char *)&a + have, sizeof(a) - have);
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return err_set(e, ERR_UNAVAILABLE, EPIPE,
					       "the pod was lost while files were copied");
			have += (size_t)n;
		}
		if (a.says == FILE_DONE)
			break;
	}
	*more = a.more;
	if (!a.error)
		return 0;
	if (a.error == EFBIG)
		return err_set(e, ERR_POLICY, EFBIG, "the workspace is too large to be copied");
	return err_errno(e, a.error > 0 ? a.error : EIO, "cannot copy the workspace");
}

/* ---- there ---- */

static int copies_put_bytes(void *arg, const void *p, size_t n)
{
	return fd_write_all(*(const int *)arg, p, n);
}

static _Noreturn void pack(int folder, int to, uint64_t most)
{
	struct tar_limits l = { .bytes = most, .entries = FILE_TREE_MAX, .links = true };
	const int keep[] = { folder, to };
	int r = fd_close_except(3, keep, ARRAY_LEN(keep));

	if (r == 0)
		r = tar_pack(folder, &l, copies_put_bytes, NULL, &to);
	if (r == 0)
		r = tar_pack_end(copies_put_bytes, &to);
	_exit(r < 0 ? -r & 0xff : 0);
}

static int end_of(struct ways *w, pid_t pid)
{
	CLEANUP(fd) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int status;

	if (pidfd < 0 || !copies_wait_for(w, pidfd))
		(void)kill(pid, SIGKILL);
	status = proc_wait(pid);
	if (w->stopped)
		return -ECANCELED;
	if (status < 0)
		return status;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EPIPE;
}

/* The child that gives the data is done, and so is the other side: 0, or why not. Where that side
 * said it, *e has its word. */
static int all_given(struct ways *w, pid_t pid, struct err *e)
{
	int r = pid < 0 ? -errno : 0;
	bool more;

	w->here[FILE_END_DATA] = fd_close(w->here[FILE_END_DATA]);
	if (r == 0)
		r = end_of(w, pid);
	if (r == 0)
		(void)!write(w->here[FILE_END_WORD], "!", 1);
	w->here[FILE_END_WORD] = fd_close(w->here[FILE_END_WORD]);
	if (hear_done(w, &more, e) < 0 && (r == 0 || r == -EPIPE || w->stopped))
		return -e->code;
	e->code = 0;
	return r;
}

int copies_in(struct copies *c, struct err *e)
{
	CLEANUP(fd)
	int folder = fd_open_nolinks(AT_FDCWD, c->workdir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	CLEANUP(ways) struct ways w = { .here = { -1, -1, -1 }, .there = { -1, -1, -1 } };
	pid_t pid;
	int r;

	if (folder < 0)
		return err_errno(e, folder, "cannot open '%s'", c->workdir);
	c->since = time(NULL);
	if (ways_open(&w, FILE_UNPACK, e) < 0 || copies_ask(c, FILE_UNPACK, ".", &w, e) < 0)
		return -e->code;
	pid = proc_fork(NULL);
	if (pid == 0)
		pack(folder, w.here[FILE_END_DATA], c->most);
	r = all_given(&w, pid, e);
	if (r < 0 && e->code)
		return err_wrap(e, "'%.200s'", c->workdir);
	return r < 0 ? err_errno(e, r, "cannot pack '%s'", c->workdir) : 0;
}

static _Noreturn void pour(int to, const char *text, size_t n)
{
	int r = fd_close_except(3, &to, 1);

	if (r == 0)
		r = fd_write_all(to, text, n);
	_exit(r < 0 ? -r & 0xff : 0);
}

int copies_put(const struct copies *c, const char *path, const char *text, size_t n, struct err *e)
{
	CLEANUP(ways) struct ways w = { .here = { -1, -1, -1 }, .there = { -1, -1, -1 } };
	pid_t pid;
	int r;

	if (ways_open(&w, FILE_WRITE, e) < 0 || copies_ask(c, FILE_WRITE, path, &w, e) < 0)
		return -e->code;
	pid = proc_fork(NULL);
	if (pid == 0)
		pour(w.here[FILE_END_DATA], text, n);
	r = all_given(&w, pid, e);
	if (r < 0 && !e->code)
		(void)err_errno(e, r, "cannot hand the code over");
	return r < 0 ? err_wrap(e, "'%.200s'", path) : 0;
}

/* ---- and home ---- */

static _Noreturn void unpack(int folder, int from, uint64_t most)
{
	struct tar_limits l = { .bytes = most, .entries = FILE_TREE_MAX, .mask = 077 };
	int r = unpack_confined(folder, from, &l);

	_exit(r < 0 ? -r & 0xff : 0);
}

static int copies_fetch(const struct copies *c, int stage, bool *more, struct err *e)
{
	CLEANUP(ways) struct ways w = { .here = { -1, -1, -1 }, .there = { -1, -1, -1 } };
	pid_t pid;
	int r;

	if (ways_open(&w, FILE_PACK, e) < 0 || copies_ask(c, FILE_PACK, ".", &w, e) < 0)
		return -e->code;
	pid = proc_fork(NULL);
	if (pid == 0)
		unpack(stage, w.here[FILE_END_DATA], c->most);
	w.here[FILE_END_DATA] = fd_close(w.here[FILE_END_DATA]);
	if (pid < 0)
		return err_sys(e, "cannot start a process");
	if (hear_done(&w, more, e) < 0) {
		(void)kill(pid, SIGKILL);
		(void)end_of(&w, pid);
		return -e->code;
	}
	r = end_of(&w, pid);
	return r < 0 ? err_errno(e, r, "what came out of the pod cannot be unpacked") : 0;
}

int copies_out(const struct copies *c, struct outcome *o, struct copies_count *ret, struct err *e)
{
	CLEANUP(fd) int state = state_open(FOLDER, NULL, 0, e), stage = -1, list = -1, work = -1;
	CLEANUP(fd) int lists = state < 0 ? -1 : state_open(CHANGES, NULL, 0, e);
	char name[64], changes[64];
	int r;

	*ret = (struct copies_count){ 0 };
	if (state < 0 || lists < 0)
		return -e->code;
	(void)snprintf(name, sizeof(name), ".%.32s" KUBE_STAGE, c->id);
	(void)snprintf(changes, sizeof(changes), "%.32s.jsonl", c->id);
	if (mkdirat(state, name, 0700) == 0)
		stage = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	list = openat(lists, changes, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	work = fd_open_nolinks(AT_FDCWD, c->workdir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (stage < 0 || list < 0 || work < 0 || flock(stage, LOCK_EX | LOCK_NB) < 0)
		return err_sys(e, "cannot take the workspace back");
	r = copies_fetch(c, stage, &ret->left_out, e);
	if (r == 0) {
		struct copy_back h = { .work = work,
				       .stage = stage,
				       .list = list,
				       .not_home = c->not_home,
				       .obeyed = c->obeyed,
				       .since = c->since,
				       .outcome = o,
				       .count = ret };

		r = copy_back(&h, e);
	}
	(void)tree_remove(state, name);
	return r;
}

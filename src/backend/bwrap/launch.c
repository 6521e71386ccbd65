/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/launch.c - everything bubblewrap needs is prepared as a descriptor, then it starts.
 *
 * An ordinary user's bubblewrap is started as it is. Root's runs in a user namespace of its own,
 * mapped as native maps it, so that no process of the sandbox, bubblewrap included, is ever the
 * host's root; the trees that native shows through idmapped mounts are attached there. */
#include "backend/bwrap/launch.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/bwrap/letter.h"
#include "backend/kit/survey/placeholder.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/paths.h"
#include "proc/host_program.h"

#define TEXT_MAX ((size_t)16 << 20)
#define START_MS 20000
#define SAID_MAX 1024 /* of what bubblewrap complains of */

/* What only bubblewrap and the process inside need, once they have it. */
static void launch_let_go(struct launch *l)
{
	for (size_t i = 0; l->ops && i < l->op_count; i++)
		l->ops[i] = fd_close(l->ops[i]);
	for (size_t i = 0; i < ARRAY_LEN(l->text); i++)
		l->text[i] = fd_close(l->text[i]);
	l->letter = fd_close(l->letter);
	l->brig = fd_close(l->brig);
	l->proc = fd_close(l->proc);
}

void launch_done(struct launch *l)
{
	launch_let_go(l);
	l->info = fd_close(l->info);
	l->said = fd_close(l->said);
	l->hold = fd_close(l->hold);
}

static int memory_file(const char *name, int *ret, struct err *e)
{
	*ret = memfd_create(name, MFD_CLOEXEC);
	return *ret < 0 ? err_sys(e, "cannot make an anonymous file") : 0;
}

/* Whoever has inherited it reads from the beginning. */
static int launch_fill(int fd, const void *data, size_t n, struct err *e)
{
	ssize_t put;

	for (size_t done = 0; done < n; done += (size_t)put) {
		put = pwrite(fd, (const char *)data + done, n - done, (off_t)done);
		if (put < 0)
			return err_sys(e, "cannot fill an anonymous file");
	}
	return 0;
}

/* What is bound must be what was planned; inside, brig looks once more. */
static int open_source(struct launch *l, const struct op *o, struct ident *ret, struct err *e)
{
	const char *host = bwrap_host_path(l->plan, o);
	int how = o->copy ? O_RDONLY : O_PATH;
	CLEANUP(fd) int fd = host ? fd_open_nolinks(AT_FDCWD, host, how, 0) : -ENOMEM;
	struct stat st;

	if (fd < 0)
		return err_errno(e, fd, "cannot open '%s'", host ? host : o->dst);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "cannot look at '%s'", host);
	*ret = ident_of(&st);
	if (o->kind != OP_COVER && !ident_same(ret, &o->ident))
		return err_replaced(e, host);
	return TAKE_FD(fd);
}

/* What must be found inside. */
static int expect(struct launch *l, const struct op *o, const struct ident *ident, struct err *e)
{
	struct letter_check *check = ARENA_PUSH(l->plan->arena, l->checks, l->check_count);

	if (!check)
		return err_nomem(e);
	*check = (struct letter_check){ .path = str_eq(o->dst, PLAN_UPPER) ? BWRAP_LAYER : o->dst,
					.ident = *ident };
	return 0;
}

/* What is shown over other files is a file of the plan. */
static const struct op *shown(const struct box_plan *p, const struct op *o)
{
	for (size_t i = 0; o->kind == OP_SHOW && i < p->op_count; i++)
		if (p->ops[i].kind == OP_FILE && str_eq(p->ops[i].dst, o->src))
			return &p->ops[i];
	return o;
}

static bool has_text(const struct op *o)
{
	return o->kind == OP_FILE || o->kind == OP_SHOW || o->kind == OP_CODE;
}

static int open_operations(struct launch *l, struct err *e)
{
	const struct box_plan *p = l->plan;

	l->ops = arena_alloc(p->arena, p->op_count * sizeof(*l->ops));
	if (!l->ops)
		return err_nomem(e);
	l->op_count = p->op_count;
	memset(l->ops, -1, l->op_count * sizeof(*l->ops));
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];
		struct ident found;

		if (has_text(o) || bwrap_may_hold(p, i))
			(void)memory_file("brig-file", &l->ops[i], e);
		else if (o->copy || bwrap_by_fd(o))
			l->ops[i] = open_source(l, o, &found, e);
		else
			continue;
		if (l->ops[i] < 0)
			return -e->code;
	}
	return 0;
}

static int fill_operations(struct launch *l, struct err *e)
{
	const struct box_plan *p = l->plan;

	for (size_t i = 0; i < l->op_count; i++) {
		const struct op *o = &p->ops[i];
		const struct op *from = shown(p, o);
		const char *held = o->kind == OP_COVER ? placeholder_text(o->dst) : "";

		if (has_text(o) && launch_fill(l->ops[i], from->data, op_size(from), e) < 0)
			return -e->code;
		if (l->ops[i] >= 0 && *held && launch_fill(l->ops[i], held, strlen(held), e) < 0)
			return -e->code;
	}
	return 0;
}

/* Placeholders are there by now. What is copied is another file inside. */
static int expect_trees(struct launch *l, struct err *e)
{
	for (size_t i = 0; i < l->op_count; i++) {
		const struct op *o = &l->plan->ops[i];
		bool cover = o->kind == OP_COVER && !str_eq(o->dst, CODE_FOLDER);
		bool tree = (o->kind == OP_BIND || o->kind == OP_BIND_FD) && !o->copy;
		CLEANUP(fd) int fd = -1;
		struct ident now = o->ident;

		if (o->skip || (!cover && !tree))
			continue;
		if (cover) {
			fd = open_source(l, o, &now, e);
			if (fd < 0)
				return -e->code;
			if (placeholder_reads(fd) && bwrap_may_hold(l->plan, i))
				now = (struct ident){ .type = S_IFREG };
		}
		if (expect(l, o, &now, e) < 0)
			return -e->code;
	}
	return 0;
}

/* The arguments as bubblewrap reads them: each ends with a NUL. */
static int send_arguments(struct launch *l, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);
	int r;

	for (size_t i = 0; i < l->args.n; i++) {
		const struct bwrap_arg *a = &l->args.v[i];

		if (a->fd == BWRAP_NO_FD)
			buf_puts(&b, a->text);
		else
			buf_printf(&b, "%d", a->fd == BWRAP_OP ? l->ops[a->op] : l->info);
		buf_putc(&b, '\0');
	}
	if (b.failed)
		return err_nomem(e);
	r = fd_send(l->text[0], b.data, b.len, NULL, 0);
	launch_let_go(l); /* now, while there is nothing to do but wait */
	/* One that is gone already has left its reason. */
	if (r < 0 && r != -EPIPE)
		return err_errno(e, r, "cannot tell bubblewrap what to do");
	return 0;
}

static int write_letter(struct launch *l, const struct inside *c, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);

	letter_write(c, l->checks, l->check_count, &b);
	if (b.failed)
		return err_set(e, ERR_USAGE, E2BIG, "the command and its variables are too long");
	return launch_fill(l->letter, b.data, b.len, e);
}

/* A socket, because a write to it raises no signal in a program that embeds us. */
static int open_arguments(struct launch *l, struct err *e)
{
	const struct timeval limit = { .tv_sec = START_MS / 1000 };

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->text) < 0 ||
	    setsockopt(l->text[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return err_sys(e, "cannot make a socket pair");
	return 0;
}

static char *launch_number(char out[24], const char *before, int fd)
{
	(void)snprintf(out, 24, "%s%d", before, fd);
	return out;
}

static void fill_argv(struct launch *l)
{
	static char name[] = "bwrap", args[] = "--args", dashes[] = "--", word[] = "_inside";
	char *argv[] = { name,
			 args,
			 launch_number(l->numbers[0], "", l->text[1]),
			 dashes,
			 launch_number(l->numbers[1], "/proc/self/fd/", l->brig),
			 word,
			 launch_number(l->numbers[2], "", l->letter),
			 NULL };

	memcpy(l->argv, argv, sizeof(argv));
}

static void launch_list(struct launch *l, int fd)
{
	if (fd >= 0)
		l->all[l->all_count++] = fd;
}

/* A standard descriptor that the embedding program has closed must not be one of ours. */
static int list_all(struct launch *l, const struct box_start *start, struct err *e)
{
	const struct inside *c = &start->inside;
	const int more[] = { l->text[1], l->letter, l->brig, l->info, l->said, l->hold,
			     c->control, c->in,     c->out,  c->err,  l->proc };

	l->all = arena_alloc(l->plan->arena,
			     (l->op_count + ARRAY_LEN(more) + PREPARED_MAX) * sizeof(*l->all));
	if (!l->all)
		return err_nomem(e);
	for (size_t i = 0; i < l->op_count; i++)
		launch_list(l, l->ops[i]);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		launch_list(l, more[i]);
	for (size_t i = 0; i < l->plan->prepared_count; i++)
		launch_list(l, start->prepared[i]);
	for (size_t i = 0; i < l->all_count; i++)
		if (l->all[i] <= STDERR_FILENO)
			return err_set(e, ERR_INTERNAL, EBADF,
				       "standard input, output or error is closed");
	return 0;
}

/* All that bubblewrap inherits; what is in the files comes later. */
static int launch_prepare(struct launch *l, struct box_start *start, struct err *e)
{
	int r = protect_holder(l->plan, &l->hold);

	if (r < 0)
		return err_errno(e, r, "cannot open the journal of the workspace");
	l->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->proc < 0)
		return err_sys(e, "cannot open '/proc'");
	l->brig = brig_program(e);
	if (l->brig < 0 || open_operations(l, e) < 0 || open_arguments(l, e) < 0 ||
	    memory_file("brig-letter", &l->letter, e) < 0 ||
	    memory_file("brig-info", &l->info, e) < 0 || memory_file("brig-said", &l->said, e) < 0)
		return -e->code;
	fill_argv(l);
	return list_all(l, start, e);
}

/* ---- in the new process ---- */

static int make_point(const char *path, bool folder)
{
	return folder ? mkdir(path, 0755) : mknod(path, S_IFREG | 0644, 0);
}

static int launch_attach(int tree, const char *path, struct err *e)
{
	if (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "cannot attach a mount");
	return 0;
}

static bool shows_sys(const struct box_plan *p)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].src && path_under(p->ops[i].src, "/sys"))
			return true;
	return false;
}

/* Root's trees, where the arguments say they are. */
static int attach_trees(const struct box_start *c, struct err *e)
{
	char path[64];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "cannot make the mounts private");
	/* Nothing in there is needed, and bubblewrap reads the list of all mounts some 30 times. */
	if (!shows_sys(c->plan))
		(void)umount2("/sys", MNT_DETACH);
	if (!c->plan->prepared_count)
		return 0;
	if (bwrap_one_folder(c->plan))
		return launch_attach(c->prepared[0], BWRAP_TREES, e);
	if (mount("tmpfs", BWRAP_TREES, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755") < 0)
		return err_sys(e, "cannot make a place for the trees");
	for (size_t i = 0; i < c->plan->prepared_count; i++) {
		(void)snprintf(path, sizeof(path), BWRAP_TREES "/%zu", i);
		if (make_point(path, S_ISDIR(c->plan->prepared[i].ident.type)) < 0)
			return err_sys(e, "cannot make '%s'", path);
		if (launch_attach(c->prepared[i], path, e) < 0)
			return -e->code;
	}
	return 0;
}

static int inherit(const struct launch *l, struct err *e)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(l->said, 2) < 0)
		return err_sys(e, "cannot place the streams of bubblewrap");
	for (size_t i = 0; i < l->all_count; i++)
		if (fcntl(l->all[i], F_SETFD, 0) < 0)
			return err_sys(e, "cannot hand a descriptor on");
	return 0;
}

/* The mounts come first: in a user namespace of their own they could only be added to. */
static int leave_root(const struct box_start *c, struct err *e)
{
	struct supervisor_msg ready = { .said = SUPERVISOR_READY };

	if (attach_trees(c, e) < 0)
		return -e->code;
	if (unshare(CLONE_NEWUSER) < 0)
		return err_sys(e, "cannot make a user namespace");
	if (fd_send(c->inside.control, &ready, sizeof(ready), NULL, 0) < 0 || box_wait(c, e) < 0 ||
	    box_become(c, e) < 0)
		return -e->code;
	return 0;
}

static int set_up(const struct box_start *c, const struct launch *l, struct err *e)
{
	int r = cgroup_join(c->cgroup);

	/* Before the ids change: afterwards the file is root's. */
	(void)fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
	if (r < 0)
		return err_errno(e, r, "cannot join the control group");
	if (inside_close(&c->inside, l->all, l->all_count, e) < 0)
		return -e->code;
	if (c->plan->by_root ? leave_root(c, e) < 0 : box_wait(c, e) < 0)
		return -e->code;
	return inherit(l, e);
}

static void launch_enter(const struct box_start *c)
{
	const struct launch *l = c->own;
	const struct rlimit core = { .rlim_cur = 1,
				     .rlim_max = 1 }; /* as native; see kit/plan/plan.c */
	struct err e = { 0 };
	int failed;

	/* No death signal here, nor --die-with-parent: bubblewrap killed in the middle of its start
	 * leaves a child that waits for ever. Init ends when the monitor or bubblewrap is gone. */
	if (set_up(c, l, &e) < 0)
		init_fail(c->inside.control, &e);
	/* Later the filter pretends. */
	(void)setrlimit(RLIMIT_CORE, &core);
	failed = host_exec(l->program.path, (const char *const *)l->argv, NULL);
	(void)err_errno(&e, failed, "cannot start '%s'", l->program.path);
	init_fail(c->inside.control, &e);
}

/* ---- in the monitor ---- */

/* Root's child has made its user namespace, and waits for the ids in it. */
static int await_namespace(const struct backend_job *j, struct err *e)
{
	struct pollfd p[] = { { .fd = j->control, .events = POLLIN },
			      { .fd = j->pidfd, .events = POLLIN } };
	struct supervisor_msg m;
	size_t none = 0;

	(void)wait_any(p, ARRAY_LEN(p), clock_after(START_MS));
	if (fd_recv(j->control, &m, sizeof(m), NULL, &none) != (ssize_t)sizeof(m))
		return err_set(e, ERR_INTERNAL, ECHILD, "the sandbox died at once");
	if (m.said == SUPERVISOR_READY)
		return 0;
	*e = m.err;
	return -e->code;
}

static int launch_spawn(struct backend_job *j, struct box_start *c, struct err *e)
{
	if (launch_prepare(c->own, c, e) < 0)
		return -e->code;
	if (!c->plan->by_root)
		return box_vfork(j, c, launch_enter, e);
	if (box_clone(j, c, CLONE_NEWNS, launch_enter, e) < 0 ||
	    (c->join_late && box_complete_cgroup(j, e) < 0))
		return -e->code;
	return await_namespace(j, e);
}

/* bubblewrap waits for its arguments by now, or will. They go last: it needs all the rest. */
static int launch_tell(struct backend_job *j, struct box_start *c, struct err *e)
{
	struct launch *l = c->own;
	int r = protect_hold(j->protect, l->hold);

	j->hold = TAKE_FD(l->hold); /* bubblewrap may outlive what it has made by a moment */
	if (r < 0)
		return err_errno(e, r, "cannot hold the placeholders");
	if (bwrap_args(l->plan, &l->program.has, &l->args, e) < 0 || expect_trees(l, e) < 0)
		return -e->code;
	c->inside.proc = l->proc;
	c->inside.tmpfs_count = l->args.tmpfs_count;
	for (size_t i = 0; i < c->inside.tmpfs_count; i++)
		c->inside.tmpfs[i] = l->args.tmpfs[i];
	if (fill_operations(l, e) < 0 || write_letter(l, &c->inside, e) < 0)
		return -e->code;
	return send_arguments(l, e);
}

/* The pid of the process inside, as we see it. */
static pid_t child_pid(int info)
{
	char text[SAID_MAX], *at;
	ssize_t n = pread(info, text, sizeof(text) - 1, 0);
	uint64_t pid;

	text[n < 0 ? 0 : n] = '\0';
	at = strstr(text, "\"child-pid\": ");
	if (!at)
		return -1;
	at += strlen("\"child-pid\": ");
	at[strspn(at, "0123456789")] = '\0';
	return num_count(at, &pid) < 0 || pid > INT32_MAX ? -1 : (pid_t)pid;
}

/* Killed before it let its child go, bubblewrap leaves it behind. */
static void end_child(int info)
{
	pid_t pid = child_pid(info);
	CLEANUP(fd) int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

/* What root's run shows and the user inside cannot reach; NULL: nothing. */
static const char *out_of_reach(const struct box_plan *p)
{
	for (size_t i = 0; p->by_root && i < p->op_count; i++)
		if (bwrap_by_fd(&p->ops[i]) && bwrap_closed("/", p->ops[i].src, false))
			return p->ops[i].src;
	return NULL;
}

/* bubblewrap gave up: in its own words, one line. */
static int gave_up(struct launch *l, struct err *e)
{
	char text[SAID_MAX];
	ssize_t n = pread(l->said, text, sizeof(text) - 1, 0);
	const char *said = text;
	bool forbidden;

	text[n < 0 ? 0 : n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	for (char *s = text; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
	if (str_starts(said, "bwrap: "))
		said += strlen("bwrap: ");
	if (strstr(said, "Permission denied") && out_of_reach(l->plan))
		return err_refuse(e, ERR_PERMISSION, EACCES,
				  "give others x on the folders above it, or mount another path",
				  "Permission denied: the user inside cannot reach '%s'",
				  out_of_reach(l->plan));
	forbidden = strstr(said, "namespace") || strstr(said, "uid map") ||
		    strstr(said, "ermission") || strstr(said, "not permitted");
	(void)err_set(e, ERR_UNAVAILABLE, forbidden ? EPERM : EIO,
		      "bubblewrap could not make the sandbox: %s",
		      said[0] ? said : "it said nothing");
	return box_explain(e); /* of what is forbidden it knows the causes */
}

/* From now on the sandbox's own init is watched: bubblewrap ends right after it. */
static int heard(struct backend_job *j, struct box_start *c, const struct supervisor_msg *m,
		 struct err *e)
{
	struct launch *l = c->own;
	pid_t pid;
	int fd;

	if (!m) {
		end_child(l->info);
		return gave_up(l, e);
	}
	if (m->said == SUPERVISOR_FAILED)
		return 0;
	pid = child_pid(l->info);
	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	/* Over already, and bubblewrap's own end is the news. EINVAL is an older kernel's word for
	 * a process that is gone while others are still in the group or session of its number. */
	if (pid > 0 && fd < 0 && (errno == ESRCH || errno == EINVAL))
		return 0;
	if (fd < 0)
		return err_set(e, ERR_INTERNAL, ESRCH, "bubblewrap did not name its child");
	(void)fd_close(j->pidfd);
	j->pidfd = fd;
	return 0;
}

/* It has spoken, so it lives, and bubblewrap has written its pid before. */
static pid_t inside(const struct box_start *c)
{
	const struct launch *l = c->own;

	return child_pid(l->info);
}

const struct box_kind bwrap_kind = { .helpers = 1,
				     .start_ms = START_MS,
				     .spawn = launch_spawn,
				     .tell = launch_tell,
				     .heard = heard,
				     .inside = inside };

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/start.c - carries a plan out: everything from the first pipe to the running
 * command. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "backend/kit/learn/opens.h"
#include "backend/kit/net/door_net.h"
#include "backend/kit/net/members.h"
#include "backend/kit/process/ends.h"
#include "backend/kit/process/job_bridge.h"
#include "backend/kit/process/late.h"
#include "backend/kit/process/start_internal.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/cpus.h"

#define SET_UP_MS 60000
#define LET_END_MS 3000
#define UNLOCKED                                                                                   \
	"this machine does not let brig lock bubblewrap's mounts: of two runs in one workspace "   \
	"at "                                                                                      \
	"a time, one can be handed folders of the other without the covers on them"

/* Root only: the range of ids. */
static int take_ids(struct backend_job *j, struct err *e)
{
	return j->plan->needs_range ? ids_take(&j->ids, e) : 0;
}

/* A child that is no more says why itself; one that is there would wait for ever. */
static int start_let_go(const struct backend_job *j, struct err *e)
{
	struct supervisor_request go = { .asks = ASK_GO };
	int r = fd_send(j->control, &go, sizeof(go), NULL, 0);

	return r < 0 && r != -EPIPE && r != -ECONNRESET
		       ? err_errno(e, r, "cannot tell the sandbox to go on")
		       : 0;
}

static void keep_fds(struct backend_job *j, const struct supervisor_msg *m, const int *fds,
		     size_t n)
{
	size_t at = 0;

	for (int i = 0; i < INIT_FD_COUNT; i++)
		if (m->fds & (1U << i) && at < n)
			j->given[i] = fds[at++];
	for (; at < n; at++)
		(void)fd_close(fds[at]);
}

/* What the inside says when it could not go on. */
static int failed_inside(const struct backend_job *j, const struct supervisor_msg *m, struct err *e)
{
	*e = m->err;
	e->what[sizeof(e->what) - 1] = e->hint[sizeof(e->hint) - 1] = '\0';
	if (!e->code)
		e->code = EIO;
	if (e->kind == ERR_NOT_FOUND && !j->plan->image)
		start_hint(j->plan->argv, j->plan->set_path, e);
	return e->kind == ERR_INTERNAL ? box_explain(e) : -e->code;
}

/* For a word, or for the end of who should say it. A workspace on a file system that does not
 * answer may take all day, hence the ear for a cancel. */
static int wait_for_word(const struct backend_job *j, const struct job_want *w, struct err *e)
{
	uint64_t ms = j->kind->start_ms ? j->kind->start_ms : SET_UP_MS;
	bool heed = w->host.asked_to_stop != NULL;
	struct pollfd p[] = { { .fd = j->control, .events = POLLIN },
			      { .fd = j->pidfd, .events = POLLIN },
			      { .fd = heed ? w->wake[0] : -1, .events = POLLIN },
			      { .fd = heed ? w->wake[1] : -1, .events = POLLIN },
			      { .fd = j->given[INIT_FD_WATCH], .events = POLLIN } };

	for (;;) {
		int n = wait_any(p, ARRAY_LEN(p), clock_after(ms));

		if (n < 0)
			return err_sys(e, "cannot wait for the sandbox");
		if (n > 0 && (p[0].revents || p[1].revents))
			return 0;
		if (n > 0 && p[4].revents & POLLIN) { /* the program's own begin is held, too */
			opens_serve(j->opens);
			continue;
		}
		if (n == 0 && j->kind->heard) /* says why */
			return 0;
		if (n == 0)
			return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT,
					  "does a mounted file system not answer?",
					  "the sandbox was not set up within %d s",
					  SET_UP_MS / 1000);
		if (n > 0 && heed && w->host.asked_to_stop(w->host.arg))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	}
}

static bool has_bridge(const struct backend_job *j)
{
	return j->plan->network == NETWORK_BRIDGE;
}

/* The inside waits for its network, and goes on once it is there. */
static int make_door(struct backend_job *j, const struct box_start *c, struct err *e)
{
	if (has_bridge(j))
		return job_bridge_open(j, e) < 0 ? -e->code : start_let_go(j, e);
	if (!j->plan->door) {
		j->given[INIT_FD_NAMES] = door_names_for(j->kind->inside(c));
		return start_let_go(j, e);
	}
	if (door_open_for(j->kind->inside(c), j->plan->door, j->door, e) < 0)
		return -e->code;
	j->door_count = j->plan->door->n;
	return start_let_go(j, e);
}

/* From here on names of files wait for us. */
static int start_watch(struct backend_job *j, const struct job_want *w, struct err *e)
{
	if (!w->learn)
		return 0;
	if (j->given[INIT_FD_WATCH] < 0) {
		w->learn->blind =
			"the kernel gives this run no listener of its own: it is too old, or "
			"brig itself runs in a sandbox";
		return 0;
	}
	j->opens = opens_new(j->given[INIT_FD_WATCH], w->learn);
	return j->opens ? 0 : err_nomem(e);
}

/* The command is let go. That it runs, or why it cannot, is the next word; whoever dies before it
 * is said leaves a run behind, which is judged as one. */
static int start_running(struct backend_job *j, const struct job_want *w, struct err *e)
{
	struct supervisor_msg m;
	size_t none = 0;

	if (w->outcome)
		w->outcome->started = true;
	if (wait_for_word(j, w, e) < 0)
		return -e->code;
	if (fd_recv(j->control, &m, sizeof(m), NULL, &none) != (ssize_t)sizeof(m) ||
	    m.said != SUPERVISOR_FAILED)
		return 0;
	if (w->outcome)
		w->outcome->started = false; /* init has seen that it was not */
	return failed_inside(j, &m, e);
}

/* The words of the sandbox up to the command's begin; with a door there is one before. */
static int started(struct backend_job *j, struct box_start *c, const struct job_want *w,
		   struct err *e)
{
	int fds[DOOR_SOCKETS_MAX];
	struct supervisor_msg m;
	bool spoke, more;
	size_t n;

	do {
		n = ARRAY_LEN(fds);
		if (wait_for_word(j, w, e) < 0)
			return -e->code;
		spoke = fd_recv(j->control, &m, sizeof(m), fds, &n) == (ssize_t)sizeof(m);
		more = spoke && m.said == SUPERVISOR_READY && c->inside.wait_door;
		if (more && make_door(j, c, e) < 0)
			return -e->code;
		if (spoke && m.said == SUPERVISOR_DOOR) {
			memcpy(j->door, fds, n * sizeof(*fds));
			j->door_count = n;
			more = true;
		}
	} while (more);
	if (spoke && m.said != SUPERVISOR_FAILED)
		keep_fds(j, &m, fds, n);
	if (j->kind->heard && j->kind->heard(j, c, spoke ? &m : NULL, e) < 0)
		return -e->code;
	if (!spoke)
		return err_set(e, ERR_INTERNAL, ECHILD, "the sandbox died while it was set up");
	if (m.said == SUPERVISOR_FAILED)
		return failed_inside(j, &m, e);
	j->isolation.landlock_abi = m.landlock;
	if (start_watch(j, w, e) < 0)
		return -e->code;
	if (m.unlocked)
		protect_unlocked(j->protect);
	if (m.unlocked && w->host.note)
		w->host.note(w->host.arg, UNLOCKED);
	return start_running(j, w, e);
}

static int add_event(const struct backend_job *j, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return fd < 0 ? 0 : epoll_ctl(j->events, EPOLL_CTL_ADD, fd, &ev);
}

static int listen_events(struct backend_job *j, struct err *e)
{
	j->events = epoll_create1(EPOLL_CLOEXEC);
	if (j->watch_memory || j->watch_pids || j->watch_disk || j->protect) {
		j->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		if (j->timer < 0)
			return err_sys(e, "cannot make a timer");
	}
	if (j->events < 0 || add_event(j, j->control, EPOLLIN) < 0 ||
	    add_event(j, j->timer, EPOLLIN) < 0 ||
	    add_event(j, cgroup_oom_fd(j->cgroup), EPOLLIN) < 0)
		return err_sys(e, "cannot listen to the sandbox");
	return 0;
}

static void start_describe(struct backend_job *j)
{
	const struct box_plan *p = j->plan;
	struct isolation *i = &j->isolation;

	i->user_ns = i->pid_ns = i->mount_ns = i->ipc_ns = i->uts_ns = i->cgroup_ns = true;
	i->net_ns = p->network != NETWORK_HOST;
	i->no_new_privs = i->capabilities_dropped = true;
	i->read_only_root = p->read_only_root;
	i->seccomp = fields[FIELD_PROFILE].words[p->profile];
	i->cgroup = cgroup_version(j->cgroup);
	if (j->commands)
		i->pause = cgroup_can_freeze(j->cgroup) ? "cgroup" : "signal";
	i->network = fields[FIELD_NETWORK].words[p->network];
	i->uid_inside = p->uid;
	i->gid_inside = p->gid;
	i->keeps = p->keeps;
	i->gpus = p->gpus;
}

static struct backend_job *start_job_new(const struct box_kind *kind, struct box_plan *p,
					 const char *id)
{
	struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->kind = kind;
	j->plan = p;
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->pid = j->pidfd = j->control = j->events = j->timer = j->disk.fd = j->cgroup_claim = -1;
	j->hold = -1;
	memset(j->given, -1, sizeof(j->given));
	return j;
}

static void close_prepared(struct box_start *c)
{
	for (size_t i = 0; i < ARRAY_LEN(c->prepared); i++)
		c->prepared[i] = fd_close(c->prepared[i]);
}

static const char *layered_at(const struct box_plan *p)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_LAYER)
			return p->ops[i].dst;
	return "";
}

static void fill_inside(const struct backend_job *j, struct inside *c, const struct job_want *w)
{
	static const char *const nothing[] = { NULL };
	const struct box_plan *p = j->plan;

	c->open = !w->command;
	c->argv = w->command ? p->argv : nothing;
	c->envp = p->envp;
	c->path = p->path_value;
	c->cwd = p->cwd;
	c->layered = layered_at(p);
	c->uid = p->uid;
	c->writable = p->writable;
	c->writable_count = p->writable_count;
	c->writable_host = p->writable_host;
	/* HOME and the rest are the same file system, as far as they are in memory. */
	c->tmpfs[0] = p->store ? "/dev/shm" : "/tmp";
	c->tmpfs_count = 1;
	memcpy(c->rlimits, p->rlimits, sizeof(c->rlimits));
	c->rlimit_count = p->rlimit_count;
	enforce_files(p, c->rlimits, c->rlimit_count);
	c->profile = (unsigned)p->profile;
	c->gpus = !gpu_set_empty(&p->gpus);
	c->watch = w->learn;
	c->tty = job_has_tty(w);
	c->wait_door =
		((p->door || p->network == NETWORK_NONE) && j->kind->inside) || has_bridge(j);
	c->wait_permit = w->host.permit != NULL;
	c->rows = w->rows;
	c->cols = w->cols;
	c->give_proc = j->watch_memory || j->watch_pids || j->watch_disk || !w->command;
	c->give_mounts = p->protected_count || !p->named;
	c->give_diag = j->watch_memory && p->network != NETWORK_HOST;
	c->give_names = p->network == NETWORK_NONE && !j->kind->inside;
	c->give_agent = p->signing;
	c->give_routes = p->members;
	c->count_written = p->limits.disk;
}

static int trust_authority(struct backend_job *j, const struct box_start *c,
			   const struct job_want *w, struct err *e)
{
	const char *pem = w->authority;

	if (!j->plan->door || c->trusts_late)
		return 0;
	if (!pem && w->host.authority && !(pem = w->host.authority(w->host.arg, e)))
		return -e->code;
	return pem ? box_plan_trust(j->plan, pem, e) : 0;
}

/* May the child begin before all is known? Not where the two would take turns on one CPU: the words
 * between them, and the pages that each has to copy once there are two, would only cost time. */
static bool can_be_late(struct backend_job *j, struct box_start *c)
{
	if (!j->kind->waits || !j->kind->waits())
		return false;
	j->busy = !cpus_idle(&c->cpus);
	return !j->busy;
}

/* What a child has from its first moment. */
static int start_prepare(struct backend_job *j, struct box_start *c, const struct job_want *w,
			 struct ends *pipes, struct err *e)
{
	c->late = can_be_late(j, c);
	if (enforce_cgroup(j, c, w, e) < 0 ||
	    (!c->late && (take_ids(j, e) < 0 || late_map_trees(j, c, e) < 0)) ||
	    ends_open(pipes, w, e) < 0)
		return -e->code;
	j->control = TAKE_FD(pipes->control[0]);
	c->inside.control = pipes->control[1];
	c->inside.in = pipes->in[0];
	c->inside.out = pipes->out[1];
	c->inside.err = pipes->err[1];
	return 0;
}

/* Everything else that is to be known before it can do its work. */
static int start_settle(struct backend_job *j, struct box_start *c, const struct job_want *w,
			struct err *e)
{
	c->trusts_late = c->late && j->plan->door && !w->authority && w->host.authority;
	if (enforce_limits(j, c, e) < 0 || late_begin(j, c, w, e) < 0 ||
	    box_plan_variables(j->plan, w->variables, e) < 0 || trust_authority(j, c, w, e) < 0)
		return -e->code;
	fill_inside(j, &c->inside, w);
	return 0;
}

/* The two are to work at the same time. */
static void move_over(pid_t child, cpu_set_t *all)
{
	if (!cpus_move(child, all))
		CPU_ZERO(all); /* it stays where it is */
}

static int start_spawn(struct backend_job *j, struct box_start *c, struct err *e)
{
	if (j->kind->spawn(j, c, e) < 0)
		return -e->code;
	if (c->late)
		move_over(j->pid, &c->cpus);
	if (c->late && take_ids(j, e) < 0)
		return -e->code;
	/* A child that is gone already has left its reason. */
	return box_complete_child(j, c, e) < 0 && e->code != EPIPE ? -e->code : 0;
}

static int make_child(struct backend_job *j, struct box_start *c, struct ends *pipes,
		      const struct job_want *w, struct err *e)
{
	bool early = j->kind->tell;

	if (start_prepare(j, c, w, pipes, e) < 0 || (early && start_spawn(j, c, e) < 0) ||
	    start_settle(j, c, w, e) < 0 || (!early && start_spawn(j, c, e) < 0))
		return -e->code;
	if (!early) /* so that nobody speaks to a child that is gone */
		pipes->control[1] = fd_close(pipes->control[1]);
	/* The child is at work meanwhile; one that is yet to be told can still be done without. */
	if (late_complete(j, c, w, e) < 0 ||
	    (w->host.permit && w->host.permit(w->host.arg, e) < 0) ||
	    box_plan_expose(j->plan, e) < 0 || (early && j->kind->tell(j, c, e) < 0))
		return -e->code;
	return 0;
}

static int take_io(struct backend_job *j, struct ends *pipes, bool tty, struct job_io *io,
		   struct err *e)
{
	*io = (struct job_io){ .in = -1,
			       .out = -1,
			       .err = -1,
			       .in_peer = -1,
			       .events = j->events,
			       .alarm = j->given[INIT_FD_MOUNTS],
			       .names = TAKE_FD(j->given[INIT_FD_NAMES]),
			       .agent = TAKE_FD(j->given[INIT_FD_AGENT]),
			       .door_count = j->door_count };
	memcpy(io->door, j->door, sizeof(j->door));
	j->door_count = 0;
	if (!tty) { /* or without a command, none of them */
		io->in = TAKE_FD(pipes->in[1]);
		io->in_peer = TAKE_FD(pipes->in[0]);
		io->out = TAKE_FD(pipes->out[0]);
		io->err = TAKE_FD(pipes->err[0]);
		return 0;
	}
	io->in = fcntl(j->given[INIT_FD_PTY], F_DUPFD_CLOEXEC, 3);
	if (io->in < 0)
		return err_sys(e, "no terminal came out of the sandbox");
	io->out = TAKE_FD(j->given[INIT_FD_PTY]);
	return 0;
}

/* A program that was told what to do must not be killed in the middle: it would leave a child of
 * its own, waiting for its word. Without us it makes its sandbox, whose init finds nobody and
 * leaves. */
static void let_end(struct backend_job *j, struct box_start *c)
{
	struct err known;

	j->control = fd_close(j->control);
	if (wait_fd(j->pidfd, POLLIN, clock_after(LET_END_MS)) == 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, j->pidfd, SIGKILL, NULL, 0);
	(void)j->kind->heard(j, c, NULL, &known);
}

static int run_child(struct backend_job *j, struct box_start *c, struct ends *pipes,
		     const struct job_want *w, struct err *e)
{
	int r = make_child(j, c, pipes, w, e);

	pipes->control[1] = fd_close(pipes->control[1]);
	pipes->out[1] = fd_close(pipes->out[1]);
	pipes->err[1] = fd_close(pipes->err[1]);
	close_prepared(c);
	if (r < 0)
		return -e->code;
	if (w->host.permit) { /* without one it may run already */
		protect_lets_begin(j->protect);
		r = start_let_go(j, e);
	}
	if (r == 0) {
		ids_settle(j->ids);
		/* There is time for these before the child has something to say. */
		r = listen_events(j, e);
	}
	if (r == 0) {
		j->cgroup_claim = fd_close(j->cgroup_claim);
		enforce_sweep(j);
		r = started(j, c, w, e);
	}
	if (r < 0 && j->kind->tell)
		let_end(j, c);
	return r;
}

/* Ends what there is. What was done meanwhile is told, and whether it ran. */
static void start_give_up(struct backend_job *j, struct outcome *o)
{
	job_end(j);
	if (j->protect)
		protect_end(j->protect, false, o);
	j->protect = protect_free(j->protect);
}

int box_start(const struct box_kind *kind, struct box_plan *p, void *own, const struct job_want *w,
	      struct job_io *io, struct backend_job **ret, struct err *e)
{
	CLEANUP(job) struct backend_job *j = start_job_new(kind, p, w->id);
	struct ends pipes = ENDS_NONE;
	struct box_start c = { .plan = p, .own = own };
	int r;

	if (!j)
		return err_nomem(e);
	j->note = w->host.note;
	j->note_arg = w->host.arg;
	if (!w->command && !(j->commands = command_table_new()))
		return err_nomem(e);
	c.inside.control = c.inside.in = c.inside.out = c.inside.err = -1;
	memset(c.prepared, -1, sizeof(c.prepared));
	r = run_child(j, &c, &pipes, w, e);
	/* Whose end counts is known only now. */
	if (r == 0 && add_event(j, j->pidfd, EPOLLIN) < 0)
		r = err_sys(e, "cannot listen to the sandbox");
	if (r == 0 && j->opens && add_event(j, j->given[INIT_FD_WATCH], EPOLLIN) < 0)
		r = err_sys(e, "cannot listen to the sandbox");
	/* Only once the command runs: among many starts at once the set-up takes longer than a
	 * tick, and every run would begin with a look at nothing. */
	if (r == 0 && job_tick(j, false) < 0)
		r = err_sys(e, "cannot set a timer");
	if (r == 0 && w->seat)
		r = members_join(w->seat->router, j->given[INIT_FD_ROUTES], w->seat->place, e);
	if (r == 0)
		r = take_io(j, &pipes, job_has_tty(w), io, e);
	ends_done(&pipes);
	start_describe(j);
	if (w->isolation && (r == 0 || (w->outcome && w->outcome->started)))
		*w->isolation = j->isolation;
	if (r < 0) {
		start_give_up(j, w->outcome);
		return e->kind == ERR_INTERNAL ? box_explain(e) : r;
	}
	*ret = TAKE_PTR(j);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kube_job.c - the kubernetes backend seen from brig: starts the guard, judges
 * the end. A run is a sandbox with one command, which brig-pod ends with all it started. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend/kit/remote/supervised.h"
#include "backend/kubernetes/copies.h"
#include "backend/kubernetes/pod_guard.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define COPY_MAX ((uint64_t)4 << 30) /* bytes of a workspace, where no limit says less */
#define LEAVE_MS 40000               /* for a guard that was told to end it all */
#define GONE_MS 5000                 /* ... and to have the pod removed, once that has ended */

struct backend_job {
	struct supervised guard;
	struct backend_plan *plan; /* borrowed */
	char id[33];
	int events;
	int wake; /* an eventfd among the events: the end was heard while something else was waited
		     for */
	uint32_t first; /* the command of a run; 0: it stays open */
	bool over;      /* ... has ended, with all it started */
	bool oom, pids;
	struct copies_stop stop; /* of copies */
	int64_t copied;          /* when the workspace was packed; 0: it was not */
	void (*note)(void *arg, const char *text); /* of the conductor; NULL: nobody hears */
	void *note_arg;
};

static struct backend_job *kube_job_free(struct backend_job *j);
DEFINE_CLEANUP(job, struct backend_job *, kube_job_free)

static void kube_job_heard(struct supervised *s, const struct supervisor_msg *m, int *fds UNUSED,
			   size_t n UNUSED)
{
	struct backend_job *j = CONTAINER_OF(s, struct backend_job, guard);

	if (m->command == COMMAND_FIRST)
		return;
	j->oom |= m->container.oom;
	j->pids |= m->container.pids;
	j->over |= m->command == j->first &&
		   (m->said == SUPERVISOR_EXITED || m->said == SUPERVISOR_FAILED);
}

/* Whoever polls for the end has not seen the word that was taken here. */
static void kube_job_wake(const struct backend_job *j)
{
	const uint64_t one = 1;

	if (j->over || j->guard.ended)
		(void)!write(j->wake, &one, sizeof(one));
}

static bool hear_all(void *job)
{
	struct backend_job *j = job;
	bool there = supervised_hear_all(&j->guard);

	kube_job_wake(j);
	return there;
}

/* ---- what goes there ---- */

static struct command_host host_of(struct backend_job *j)
{
	const struct backend_plan *p = j->plan;

	return (struct command_host){ .table = j->guard.commands,
				      .control = j->guard.control,
				      .pidfd = -1,
				      .envp = (const char *const *)p->envp,
				      .path = p->path ? p->path : "",
				      .cwd = p->cwd,
				      .hear = hear_all,
				      .terminals = true,
				      .job = j };
}

static struct copies copies_of(const struct backend_job *j, const struct command_host *h)
{
	const struct backend_plan *p = j->plan;

	return (struct copies){ .host = h,
				.stop = j->stop,
				.id = j->id,
				.workdir = p->workdir,
				.not_home = pod_code_in_workspace(p),
				.obeyed = p->obeyed,
				.most = p->limits.disk ? p->limits.disk : COPY_MAX,
				.since = j->copied };
}

static int copy_in(struct backend_job *j, struct err *e)
{
	const struct command_host h = host_of(j);
	struct copies c = copies_of(j, &h);

	if (!j->plan->workdir)
		return 0;
	if (copies_in(&c, e) < 0)
		return -e->code;
	j->copied = c.since;
	return 0;
}

/* A container before the command's own takes what that may not write to; then its turn is over. */
static int kube_job_fill(struct backend_job *j, struct err *e)
{
	const struct backend_plan *p = j->plan;
	const struct supervisor_request go = { .asks = ASK_GO };
	struct command_host h = host_of(j);
	const struct copies c = copies_of(j, &h);
	char place[PATH_MAX];

	if (copy_in(j, e) < 0)
		return -e->code;
	h.cwd = "/";
	if (p->code_path)
		pod_code_place(p, place, sizeof(place));
	if (p->code_path && copies_put(&c, place, p->code, p->code_size, e) < 0)
		return -e->code;
	return fd_send(j->guard.control, &go, sizeof(go), NULL, 0) < 0
		       ? supervised_gone(&j->guard, e)
		       : 0;
}

static int kube_job_starting(struct supervised *s, const struct supervisor_msg *m, struct err *e)
{
	return m->said == SUPERVISOR_READY
		       ? kube_job_fill(CONTAINER_OF(s, struct backend_job, guard), e)
		       : 0;
}

/* ---- starting ---- */

static const struct supervised_kind driven = { .what = "the pod",
					       .keeper = "the pod's guard",
					       .leave_ms = LEAVE_MS,
					       .gone_ms = GONE_MS,
					       .heard = kube_job_heard,
					       .starting = kube_job_starting,
					       .tidy = kube_tidy_run };

static struct backend_job *kube_job_new(struct backend_plan *p, const char *id)
{
	struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->plan = p;
	j->guard = (struct supervised){ .kind = &driven, .id = j->id, .control = -1 };
	j->events = j->wake = -1;
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->guard.commands = command_table_new();
	return j->guard.commands ? j : kube_job_free(j);
}

static int kube_job_begin(struct backend_job *j, const struct job_want *w, struct err *e)
{
	struct pod_guard_start s = {
		.plan = j->plan, .id = j->id, .open = !w->command, .there = w->there
	};
	struct epoll_event ev = { .events = EPOLLIN };
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, "cannot make a socket");
	j->guard.control = pair[0];
	s.control = pair[1];
	r = supervised_fork(e);
	if (r == 0)
		pod_guard_main(&s);
	(void)fd_close(pair[1]);
	if (r < 0 || supervised_start(&j->guard, w, e) < 0)
		return -e->code;
	j->events = epoll_create1(EPOLL_CLOEXEC);
	j->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (j->events < 0 || j->wake < 0 ||
	    epoll_ctl(j->events, EPOLL_CTL_ADD, j->guard.control, &ev) < 0 ||
	    epoll_ctl(j->events, EPOLL_CTL_ADD, j->wake, &ev) < 0)
		return err_sys(e, "cannot watch the pod");
	return 0;
}

static int kube_job_add_variables(struct backend_plan *p, const char *const *more, struct err *e)
{
	const char **all;
	size_t n = 0, m = 0;

	while (p->envp[n])
		n++;
	while (more && more[m])
		m++;
	all = arena_alloc(p->arena, (n + m + 1) * sizeof(*all));
	if (!all)
		return err_nomem(e);
	memcpy(all, p->envp, n * sizeof(*all));
	if (m)
		memcpy(all + n, more, m * sizeof(*all));
	p->envp = all;
	return 0;
}

/* NULL: the pod's own devices are down. */
static const char *closed_by(const struct supervisor_container *c)
{
	if (!c->by_policy)
		return NULL;
	return c->node ? "policy, node reachable" : "policy";
}

static void kube_job_describe(const struct backend_job *j, struct isolation *i)
{
	const struct backend_plan *p = j->plan;

	*i = (struct isolation){
		.user_ns = j->guard.started.container.user_ns,
		.pid_ns = true,
		.mount_ns = true,
		.net_ns = true,
		.ipc_ns = true,
		.uts_ns = true,
		.cgroup_ns = true,
		.no_new_privs = true,
		.capabilities_dropped = true,
		.read_only_root = p->read_only_root,
		.seccomp = fields[FIELD_PROFILE].words[p->profile],
		.cgroup = "none",
		.network = fields[FIELD_NETWORK].words[p->network],
		.network_by = closed_by(&j->guard.started.container),
		.runtime = p->kube.runtime_class,
		.uid_inside = p->uid,
		.gid_inside = p->gid,
		.limits = { [LIMIT_MEMORY] = ENFORCER_CGROUP,
			    [LIMIT_CPUS] = p->limits.cpus ? ENFORCER_CGROUP : ENFORCER_NONE,
			    [LIMIT_CPU_SHARES] =
				    p->limits.cpu_shares ? ENFORCER_CGROUP : ENFORCER_NONE,
			    [LIMIT_PIDS] = ENFORCER_WATCH,
			    [LIMIT_TMP] = j->guard.started.container.unenforced & (1U << LIMIT_TMP)
						  ? ENFORCER_KUBELET
						  : ENFORCER_TMPFS,
			    [LIMIT_DISK] = p->limits.disk ? ENFORCER_KUBELET : ENFORCER_NONE,
			    [LIMIT_FILES] = ENFORCER_RLIMIT,
			    [LIMIT_GPUS] = p->gpus ? ENFORCER_KUBELET : ENFORCER_NONE },
	};
}

/* What a command has left that ended by itself. */
static void copy_out(struct backend_job *j, struct outcome *o)
{
	const struct command_host h = host_of(j);
	const struct copies c = copies_of(j, &h);
	struct copies_count n;
	struct err e = { 0 };
	char text[256];

	if (!j->copied || !j->first || j->plan->read_only_workspace)
		return;
	if (!j->over || j->guard.ended)
		(void)snprintf(text, sizeof(text),
			       "the pod was ended before its workspace could be copied back");
	else if (copies_out(&c, o, &n, &e) < 0)
		(void)snprintf(text, sizeof(text), "the workspace was not copied back: %.180s",
			       e.what);
	else if (n.made + n.changed + n.removed + n.refused)
		(void)snprintf(
			text, sizeof(text),
			"workspace: %u files made, %u changed, %u removed%s; %u not taken over",
			n.made, n.changed, n.removed,
			n.left_out ? " (links and the like stay there)" : "", n.refused);
	else
		return;
	if (j->note)
		j->note(j->note_arg, text);
}

/* The command of a run. Whether it could be executed is known when this returns. */
static int start_command(struct backend_job *j, const struct job_want *w, struct job_io *io,
			 struct err *e)
{
	const struct command_host h = host_of(j);
	struct command_end x;

	if (command_start(&h, w, io, &j->first, e) < 0)
		return -e->code;
	io->events = j->events;
	while (!command_began(j->guard.commands, j->first) && !j->over) {
		if (supervised_wait(&j->guard, w, e) < 0)
			return -e->code;
		if (!hear_all(j) && !j->over) {
			*e = j->guard.end.err;
			return j->guard.end.err.code ? -e->code : supervised_gone(&j->guard, e);
		}
	}
	if (command_began(j->guard.commands, j->first))
		return 0;
	if (!command_ended(j->guard.commands, j->first, &x) || !x.refused)
		return supervised_gone(&j->guard, e);
	*e = x.why;
	return -e->code;
}

static void close_io(struct job_io *io)
{
	io->in = fd_close(io->in);
	io->out = fd_close(io->out);
	io->err = fd_close(io->err);
	io->in_peer = fd_close(io->in_peer);
}

static int kube_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		      struct backend_job **ret, struct err *e)
{
	CLEANUP(job) struct backend_job *j = kube_job_new(p, w->id);
	struct job_io mine = {
		.in = -1, .out = -1, .err = -1, .in_peer = -1, .alarm = -1, .names = -1, .agent = -1
	};

	if (!j)
		return err_nomem(e);
	j->stop = (struct copies_stop){ .asked = w->host.asked_to_stop,
					.arg = w->host.arg,
					.wake = { w->wake[0], w->wake[1] } };
	if (kube_job_add_variables(p, w->variables, e) < 0 || kube_job_begin(j, w, e) < 0)
		return -e->code;
	mine.events = j->events;
	j->note = w->host.note;
	j->note_arg = w->host.arg;
	if (!pod_is_filled(p) && copy_in(j, e) < 0)
		return -e->code;
	j->stop.wake[1] = -1; /* a run that was cancelled is over by then; a signal is a new wish */
	if (w->isolation)
		kube_job_describe(j, w->isolation);
	if (w->command && start_command(j, w, &mine, e) < 0) {
		close_io(&mine);
		return -e->code;
	}
	*io = mine;
	*ret = TAKE_PTR(j);
	return 0;
}

/* ---- running ---- */

static enum job_event kube_event(struct backend_job *j, bool alarm UNUSED, struct outcome *o UNUSED)
{
	return !hear_all(j) || (j->first && j->over) ? JOB_ENDED : JOB_NOTHING;
}

static void kube_signal(struct backend_job *j, uint32_t command, int sig)
{
	bool all = command == COMMAND_FIRST && sig == SIGKILL;

	supervised_ask(&j->guard, all || command != COMMAND_FIRST ? command : j->first, sig);
}

static int kube_exec(struct backend_job *j, const struct job_want *w, struct job_io *io,
		     uint32_t *ret, struct err *e)
{
	const struct command_host h = host_of(j);

	return command_start(&h, w, io, ret, e);
}

/* The lines of the guard's first word. */
static void say_where(const struct backend_job *j, struct outcome *o)
{
	const char **const parts[] = { &o->image,   &o->pod.cluster, &o->pod.name_space,
				       &o->pod.pod, &o->pod.uid,     &o->pod.node };
	const char *at = j->guard.started.text;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		size_t n = strcspn(at, "\n");

		*parts[i] = n ? arena_strndup(o->arena, at, n) : NULL;
		at += n + (at[n] == '\n');
	}
}

static void judge_status(const struct backend_job *j, const struct command_end *x,
			 struct outcome *o)
{
	bool killed = !x->refused && WIFSIGNALED(x->status) && WTERMSIG(x->status) == SIGKILL;

	if (x->refused)
		command_refused(x, o);
	else if (o->kind == OUTCOME_FAILED && j->oom && killed)
		o->kind = OUTCOME_OOM;
	else if (o->kind == OUTCOME_FAILED && j->pids && killed)
		o->kind = OUTCOME_LIMIT;
	else
		outcome_ended(o, x->status);
	if (j->oom)
		outcome_hit(o, LIMIT_MEMORY);
	if (j->pids)
		outcome_hit(o, LIMIT_PIDS);
}

static bool kube_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct command_end x;

	if (!command_ended(j->guard.commands, command, &x))
		return false;
	judge_status(j, &x, o);
	say_where(j, o);
	return true;
}

static bool kube_began(const struct backend_job *j, uint32_t command)
{
	return command_began(j->guard.commands, command);
}

/* ---- the end ---- */

static struct backend_job *kube_job_free(struct backend_job *j)
{
	if (!j)
		return NULL;
	supervised_leave(&j->guard);
	supervised_done(&j->guard);
	(void)fd_close(j->events);
	(void)fd_close(j->wake);
	free(j);
	return NULL;
}

static void kube_job_judge(struct backend_job *j, struct outcome *o)
{
	struct command_end x;

	if (j->first && command_ended(j->guard.commands, j->first, &x)) {
		judge_status(j, &x, o);
		return;
	}
	if (o->kind != OUTCOME_FAILED)
		return;
	if (j->guard.end.container.oom) {
		o->kind = OUTCOME_OOM;
		outcome_hit(o, LIMIT_MEMORY);
	} else if (j->guard.end.container.disk) {
		o->kind = OUTCOME_LIMIT;
		outcome_hit(o, LIMIT_DISK);
	} else if (j->guard.end.err.code) {
		o->error = j->guard.end.err;
	} else if (j->first || !j->guard.ended) {
		(void)supervised_gone(&j->guard, &o->error);
	}
}

static void kube_finish(struct backend_job *j, struct outcome *o)
{
	copy_out(j, o);
	supervised_leave(&j->guard);
	kube_job_judge(j, o);
	say_where(j, o);
	(void)kube_job_free(j);
}

static int kube_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	const struct kube_request q = { .method = "GET", .path = "/version" };
	CLEANUP(kube) struct kube *k = NULL;
	CLEANUP(kube_answer) struct kube_answer a = { 0 };
	struct kube_want w = { 0 };

	if (s) {
		w.kubeconfig = s->kube.config;
		w.context = s->kube.context;
		w.namespace = s->kube.name_space;
	}
	*ret = (struct isolation){ .cgroup = "none", .network = "none" };
	if (kube_open(&w, &k, e) < 0 || kube_ask(k, &q, &a, e) < 0)
		return -e->code;
	return a.status == 200
		       ? 0
		       : err_set(e, ERR_UNAVAILABLE, EIO, "the API server answers %d", a.status);
}

const struct backend backend_kubernetes = {
	.name = "kubernetes",
	.kind = BACKEND_KUBERNETES,
	.bit = ON_KUBERNETES,
	.can = BACKEND_FILES | BACKEND_SHOWS_CODE | BACKEND_PROXY | BACKEND_DOOR_THERE,
	.probe = kube_probe,
	.plan = kube_plan,
	.plan_json = kube_plan_json,
	.plan_free = kube_plan_free,
	.start = kube_start,
	.event = kube_event,
	.signal = kube_signal,
	.finish = kube_finish,
	.exec = kube_exec,
	.ended = kube_ended,
	.began = kube_began,
};

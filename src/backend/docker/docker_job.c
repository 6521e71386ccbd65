/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/docker_job.c - the docker backend seen from brig: starts the guard, judges the
 * end. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <termios.h>

#include "backend/docker/docker.h"
#include "backend/docker/ledger.h"
#include "backend/kit/process/command_table.h"
#include "backend/kit/process/ends.h"
#include "backend/kit/remote/supervised.h"
#include "backend/kit/process/told.h"
#include "backend/kit/protect/protect.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "model/dialect/companions.h"

#define LOOK_MS 20     /* at protected names */
#define LAST_MS 2      /* from a command's end to that of what it started */
#define LEAVE_MS 20000 /* for a guard that was told to end it all */
#define PAUSE_MS 60000
#define IMAGE_WORDS (1 << 20)
#define GONE_MS 5000 /* for an engine that removes a container whose processes are gone */

struct backend_job {
	struct supervised guard;
	struct backend_plan *plan; /* borrowed */
	char id[33];
	int timer, events;
	struct protect *protect;
	bool tampered, cover_lost;
	struct told_list changes; /* that results of commands have told */
	bool awake, left; /* of an open one: something runs; or did when its command had ended */
	bool oom;         /* of an open sandbox: a command ran out of memory */
	struct lend_pool lent;
	bool answered;              /* whether it stands still */
	struct err unpaused;        /* ... or why it does not */
	struct outcome *outcome;    /* of a start that fails; borrowed; NULL: nobody asks */
	int door[DOOR_SOCKETS_MAX]; /* until the conductor has them */
	size_t door_count;
	void (*note)(void *arg, const char *text); /* of the conductor; NULL: nobody hears */
	void *note_arg;
	int agent;   /* likewise; -1: none */
	char *image; /* what its image runs by itself: a folder and words, each with its end */
	const char **words; /* ... NULL: nothing */
};

static struct backend_job *docker_job_free(struct backend_job *j);
DEFINE_CLEANUP(job, struct backend_job *, docker_job_free)

/* The container has a terminal of its own. This one changes nothing: it is there so that its size
 * can be set on the master, and reaches the guard as a signal. */
static int streams_open(struct ends *p, const struct job_want *w, struct err *e)
{
	struct termios t;

	if (ends_open(p, w, e) < 0 || (job_has_tty(w) && ends_terminal(p, w, e) < 0))
		return -e->code;
	if (job_has_tty(w) && tcgetattr(p->in[0], &t) < 0)
		return err_sys(e, "cannot open the terminal");
	if (!job_has_tty(w))
		return 0;
	cfmakeraw(&t);
	return tcsetattr(p->in[0], TCSANOW, &t) < 0 ? err_sys(e, "cannot set the terminal up") : 0;
}

/* Nothing where it makes no sense: whoever wants it will say so. */
static void take_image(struct backend_job *j, int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	size_t n = 0, at;

	if (j->image || size <= 0 || size > IMAGE_WORDS ||
	    !(j->image = calloc(1, (size_t)size + 1)) ||
	    pread(fd, j->image, (size_t)size, 0) != (ssize_t)size)
		return;
	for (off_t i = 0; i < size; i++)
		n += !j->image[i];
	j->words = n > 1 ? calloc(n, sizeof(*j->words)) : NULL;
	at = strlen(j->image) + 1;
	for (size_t i = 0; j->words && i + 1 < n; i++) {
		j->words[i] = j->image + at;
		at += strlen(j->image + at) + 1;
	}
}

/* Until the container runs sockets may come along. */
static void heard_early(struct backend_job *j, const struct supervisor_msg *m, int *fds, size_t n)
{
	if (m->said == SUPERVISOR_DOOR && !j->door_count)
		for (; j->door_count < n; j->door_count++)
			j->door[j->door_count] = TAKE_FD(fds[j->door_count]);
	if (m->said == SUPERVISOR_IMAGE && n)
		take_image(j, fds[0]);
	if (m->said == SUPERVISOR_AGENT && j->agent < 0 && n)
		j->agent = TAKE_FD(fds[n - 1]);
}

static void docker_job_heard(struct supervised *s, const struct supervisor_msg *m, int *fds,
			     size_t n)
{
	struct backend_job *j = CONTAINER_OF(s, struct backend_job, guard);

	if (!s->begun) {
		heard_early(j, m, fds, n);
		return;
	}
	lend_heard(&j->lent, m, fds, n);
	for (size_t i = 0; i < n; i++) /* which were taken, or closed */
		fds[i] = -1;
	if (m->command != COMMAND_FIRST) {
		j->oom |= m->container.oom;
	} else if (m->said == SUPERVISOR_PAUSED) {
		j->answered = true;
		j->unpaused = m->err;
	}
}

static int docker_job_starting(struct supervised *s, const struct supervisor_msg *m,
			       struct err *e UNUSED)
{
	struct backend_job *j = CONTAINER_OF(s, struct backend_job, guard);

	if (m->said == SUPERVISOR_STARTED && m->unlocked)
		protect_unlocked(j->protect);
	if (m->said == SUPERVISOR_STARTED && m->container.moved)
		(void)docker_plan_move(j->plan);
	return 0;
}

/* Told to end it all the guard may still be waiting for the engine. One that was killed has left a
 * container that nobody holds to its limits. */
static const struct supervised_kind guarded = { .what = "the container",
						.keeper = "the container's guard",
						.leave_ms = LEAVE_MS,
						.gone_ms = GONE_MS,
						.heard = docker_job_heard,
						.starting = docker_job_starting,
						.tidy = ledger_tidy };

/* Where nothing runs there is nothing to watch. */
static int set_pace(const struct backend_job *j)
{
	bool rests = j->guard.commands && !commands_there(j->guard.commands);
	const struct timespec look = { .tv_nsec = rests ? 0 : LOOK_MS * 1000000 };
	const struct itimerspec every = { .it_interval = look, .it_value = look };

	return j->timer < 0 ? 0 : timerfd_settime(j->timer, 0, &every, NULL);
}

static int open_events(struct backend_job *j, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN };

	j->events = epoll_create1(EPOLL_CLOEXEC);
	if (j->events < 0 || epoll_ctl(j->events, EPOLL_CTL_ADD, j->guard.control, &ev) < 0)
		return err_sys(e, "cannot watch the container");
	if (!j->protect)
		return 0;
	j->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (j->timer < 0 || set_pace(j) < 0 ||
	    epoll_ctl(j->events, EPOLL_CTL_ADD, j->timer, &ev) < 0)
		return err_sys(e, "cannot set a timer");
	return 0;
}

static struct backend_job *docker_job_new(struct backend_plan *p)
{
	struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->plan = p;
	j->guard = (struct supervised){ .kind = &guarded, .id = j->id, .control = -1 };
	j->timer = j->events = j->agent = -1;
	return j;
}

/* What only the gate can make, and hand out while the command runs or before. */
static bool wants_line(const struct backend_plan *p)
{
	return p->publishes || p->box->signing;
}

static int docker_job_begin(struct backend_job *j, struct ends *ends, const struct job_want *w,
			    struct err *e)
{
	CLEANUP(fd) int hold = -1;
	struct guard_start s = { .plan = j->plan,
				 .id = w->id,
				 .open = !w->command,
				 .line = !w->command || wants_line(j->plan),
				 .control = ends->control[1],
				 .in = ends->in[0],
				 .out = ends->out[1],
				 .err = ends->err[1],
				 .tty = job_has_tty(w),
				 .rows = w->rows,
				 .seat = w->seat,
				 .cols = w->cols,
				 .progress = w->host.note && isatty(2) };
	int r = protect_holder(j->plan->box, &hold);

	if (r == 0)
		r = protect_hold(j->protect, hold);
	if (r < 0)
		return err_errno(e, r, "cannot hold the placeholders");
	s.hold = hold;
	r = supervised_fork(e);
	if (r == 0)
		guard_main(&s);
	hold = fd_close(hold); /* the guard's alone */
	/* Only now can the end of the guard be seen on the socket. */
	ends->control[1] = fd_close(ends->control[1]);
	if (r > 0)
		r = supervised_start(&j->guard, w, e);
	return r == 0 ? open_events(j, e) : r;
}

static void give_door(struct backend_job *j, struct job_io *io)
{
	memcpy(io->door, j->door, j->door_count * sizeof(*j->door));
	io->door_count = j->door_count;
	j->door_count = 0;
}

/* What a container with a line cannot have is refused before anything is made. */
static int has_line(struct backend_job *j, const struct job_want *w, struct err *e)
{
	if (!docker_shares_kernel(j->plan))
		return line_other_kernel(j->plan, e);
	if (j->plan->box->limits.disk && geteuid() != 0)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "leave the limit out, run brig as root, or use --backend native",
				  "limits.disk cannot be kept in a container that %s: what its "
				  "first processes have counted is root's to see",
				  !w->command          ? "stays open"
				  : j->plan->publishes ? "has ports"
						       : "has an ssh-agent");
	if (!w->command)
		j->guard.commands = command_table_new();
	return w->command || j->guard.commands ? 0 : err_nomem(e);
}

static void docker_job_describe(const struct backend_plan *p, const struct supervisor_msg *m,
				struct isolation *i)
{
	const struct box_plan *b = p->box;
	const struct tuning *t = &p->tune;
	bool own_net = b->network != NETWORK_HOST;
	/* In a rootless Docker the caller is root inside: see body.c. */
	bool root = m->container.user_ns && !m->container.podman && p->user_auto;

	*i = (struct isolation){
		.user_ns = m->container.user_ns,
		.pid_ns = true,
		.mount_ns = true,
		.net_ns = own_net,
		.ipc_ns = true,
		.uts_ns = own_net,
		.cgroup_ns = true,
		.no_new_privs = true,
		.capabilities_dropped = true,
		.read_only_root = t->read_only,
		.seccomp = m->container.no_seccomp ? NULL : fields[FIELD_PROFILE].words[b->profile],
		.cgroup = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? "v2" : "v1",
		.network = fields[FIELD_NETWORK].words[b->network],
		.runtime = p->runtime,
		.uid_inside = root ? 0 : p->uid,
		.gid_inside = root ? 0 : p->gid,
		.keeps = b->keeps,
		.first = m->container.first,
		.limits = { [LIMIT_MEMORY] = ENFORCER_CGROUP,
			    [LIMIT_CPUS] =
				    t->nano_cpus || t->cpu_quota ? ENFORCER_CGROUP : ENFORCER_NONE,
			    [LIMIT_CPU_SHARES] = ENFORCER_CGROUP,
			    [LIMIT_PIDS] = ENFORCER_CGROUP,
			    [LIMIT_TMP] = b->store ? ENFORCER_WATCH : ENFORCER_TMPFS,
			    [LIMIT_DISK] = b->limits.disk ? ENFORCER_WATCH : ENFORCER_NONE,
			    [LIMIT_FILES] = ENFORCER_RLIMIT,
			    [LIMIT_GPUS] = t->gpus ? ENFORCER_DEVICES : ENFORCER_NONE },
	};
	for (int l = 0; l < LIMIT_COUNT; l++)
		if (m->container.unenforced & 1U << l)
			i->limits[l] = l == LIMIT_PIDS && m->container.podman ? ENFORCER_RLIMIT
									      : ENFORCER_NONE;
}

static int docker_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
			struct backend_job **ret, struct err *e)
{
	CLEANUP(job) struct backend_job *j = docker_job_new(p);
	struct ends ends = ENDS_NONE;
	int r;

	if (!j)
		return err_nomem(e);
	(void)snprintf(j->id, sizeof(j->id), "%s", w->id);
	j->outcome = w->outcome;
	j->note = w->host.note;
	j->note_arg = w->host.arg;
	if ((!w->command || wants_line(p)) && has_line(j, w, e) < 0)
		return -e->code;
	if (box_plan_variables(p->box, w->variables, e) < 0 ||
	    (p->box->door && w->authority && box_plan_trust(p->box, w->authority, e) < 0) ||
	    box_plan_expose(p->box, e) < 0 || protect_begin(p->box, w->id, &j->protect, e) < 0 ||
	    protect_write_down(j->protect, e) < 0)
		return -e->code;
	protect_survive(j->protect, -1);
	r = streams_open(&ends, w, e);
	j->guard.control = TAKE_FD(ends.control[0]);
	if (r == 0)
		r = docker_job_begin(j, &ends, w, e);
	if (r == 0)
		*io = (struct job_io){ .in = TAKE_FD(ends.in[1]),
				       .out = TAKE_FD(ends.out[0]),
				       .err = TAKE_FD(ends.err[0]),
				       .events = j->events,
				       .in_peer = -1,
				       .alarm = -1,
				       .names = -1,
				       .agent = TAKE_FD(j->agent),
				       .image_command = j->words,
				       .image_folder = j->image };
	if (r == 0)
		give_door(j, io);
	ends_done(&ends);
	if (r < 0)
		return r;
	if (w->isolation)
		docker_job_describe(p, &j->guard.started, w->isolation);
	if (w->isolation && j->guard.commands)
		w->isolation->pause = "engine";
	*ret = TAKE_PTR(j);
	return 0;
}

/* false: the sandbox is ended. */
static bool names_hold(struct backend_job *j, struct outcome *o)
{
	enum protect_news news;

	if (!j->protect || j->tampered || j->cover_lost)
		return !j->protect;
	news = protect_news(j->protect, o);
	j->tampered = news == PROTECT_TAMPERED;
	j->cover_lost = news == PROTECT_LOST;
	if (news != PROTECT_QUIET)
		supervised_ask(&j->guard, COMMAND_FIRST, SIGKILL);
	return news == PROTECT_QUIET;
}

static void on_timer(struct backend_job *j, struct outcome *o)
{
	uint64_t ticks;

	if (j->timer >= 0 && read(j->timer, &ticks, sizeof(ticks)) == (ssize_t)sizeof(ticks))
		(void)names_hold(j, o);
}

/* As on native: what was left running when its command ended is judged when that ends. */
static void on_rest(struct backend_job *j, struct outcome *o)
{
	if (!j->guard.commands || !j->awake || commands_there(j->guard.commands))
		return;
	j->awake = false;
	(void)set_pace(j);
	if (j->left && !j->guard.ended)
		protect_settle(j->protect, o);
	j->left = false;
}

static enum job_event docker_event(struct backend_job *j, bool alarm UNUSED, struct outcome *o)
{
	struct supervisor_msg m;
	int r;

	on_timer(j, o);
	while ((r = supervised_hear(&j->guard, &m)) > 0)
		if (m.command == COMMAND_FIRST && m.said == SUPERVISOR_NOTE) {
			outcome_deny(o, "network", "network.closed", m.text);
			if (j->note)
				j->note(j->note_arg, m.text);
		}
	if (r >= 0)
		on_rest(j, o);
	return r < 0 || j->guard.ended ? JOB_ENDED : JOB_NOTHING;
}

static void docker_signal(struct backend_job *j, uint32_t command, int sig)
{
	supervised_ask(&j->guard, command, sig);
}

static struct backend_job *docker_job_free(struct backend_job *j)
{
	if (!j)
		return NULL;
	(void)fd_close(j->agent);
	for (size_t i = 0; i < j->door_count; i++)
		(void)fd_close(j->door[i]);
	supervised_leave(&j->guard);
	if (j->protect)
		protect_end(j->protect, false, j->outcome);
	j->protect = protect_free(j->protect);
	supervised_done(&j->guard);
	(void)fd_close(j->timer);
	(void)fd_close(j->events);
	lend_pool_done(&j->lent);
	told_done(&j->changes);
	free(j->words);
	free(j->image);
	free(j);
	return NULL;
}

static void judge_names(const struct backend_job *j, struct outcome *o)
{
	if (j->tampered) {
		(void)err_set(&o->error, ERR_POLICY, EPERM,
			      "the command tried to turn git on the host to another folder: it was "
			      "ended");
		return;
	}
	(void)protect_lost(j->protect, "run", &o->error);
}

/* Only what the conductor has not judged already: its own timeout and cancel stand. */
static void docker_job_judge(const struct backend_job *j, struct outcome *o)
{
	if (o->kind == OUTCOME_CANCELLED && j->guard.end.container.ended)
		outcome_ended_as(o, j->guard.end.container.exit_code);
	if (o->kind != OUTCOME_FAILED)
		return;
	if (j->tampered || j->cover_lost) {
		judge_names(j, o);
	} else if (!j->guard.ended) {
		(void)supervised_gone(&j->guard, &o->error);
	} else if (j->guard.end.err.code) {
		o->error = j->guard.end.err;
		if (j->guard.end.container.never_ran)
			o->kind = OUTCOME_REFUSED;
	} else if (j->guard.end.container.oom) {
		o->kind = OUTCOME_OOM;
	} else if (j->guard.end.container.disk) {
		o->kind = OUTCOME_LIMIT;
	} else if (j->guard.commands) {
		(void)err_refuse(&o->error, ERR_INTERNAL, ECHILD,
				 "open another; something inside may have ended it",
				 "the container ended by itself");
	} else if (!j->guard.end.container.ended) {
		(void)err_set(&o->error, ERR_INTERNAL, EIO,
			      "the engine did not tell how the command ended");
	} else {
		outcome_ended_as(o, j->guard.end.container.exit_code);
	}
}

static void docker_finish(struct backend_job *j, struct outcome *o)
{
	supervised_leave(&j->guard);
	o->image = arena_strdup(o->arena, j->guard.started.text);
	o->workspace_target = arena_strdup(o->arena, j->plan->box->cwd);
	if (j->plan->box->repository)
		o->repository = arena_strdup(o->arena, j->plan->box->repository);
	docker_job_judge(j, o);
	if (j->guard.end.container.oom)
		outcome_hit(o, LIMIT_MEMORY);
	if (j->guard.end.container.pids)
		outcome_hit(o, LIMIT_PIDS);
	if (j->guard.end.container.disk)
		outcome_hit(o, LIMIT_DISK);
	if (j->protect) {
		protect_end(j->protect, j->cover_lost, o);
		j->protect = protect_free(j->protect);
	}
	(void)docker_job_free(j);
}

static bool hear_all(void *job)
{
	struct backend_job *j = job;

	return supervised_hear_all(&j->guard);
}

/* The image has variables of its own, which only the gate knows. */
static int docker_exec(struct backend_job *j, const struct job_want *w, struct job_io *io,
		       uint32_t *ret, struct err *e)
{
	static const char *const none[] = { NULL };
	const struct command_host host = { .table = j->guard.commands,
					   .control = j->guard.control,
					   .pidfd = -1,
					   .terminals = true,
					   .envp = none,
					   .path = "",
					   .cwd = j->plan->box->cwd,
					   .hear = hear_all,
					   .job = j };

	int r;

	if (!j->awake && j->protect && !names_hold(j, NULL))
		return protect_lost(j->protect, "sandbox", e);
	r = command_start(&host, w, io, ret, e);
	j->left &= r < 0;
	if (r == 0 && !j->awake) {
		j->awake = true;
		(void)set_pace(j);
	}
	return r;
}

/* As box_exec.c does it. */
static void docker_job_settle(struct backend_job *j, struct outcome *o)
{
	size_t before = o->trust_count;

	if (!j->protect || j->tampered || j->cover_lost || j->guard.ended)
		return;
	o->unsettled = commands_running(j->guard.commands) > 0;
	if (o->unsettled)
		return;
	if (commands_there(j->guard.commands) &&
	    wait_fd(j->guard.control, POLLIN, clock_after(LAST_MS)) == 0)
		(void)hear_all(j);
	j->left = commands_there(j->guard.commands) > 0;
	if (!names_hold(j, o))
		return;
	protect_settle(j->protect, o);
	told_filter(&j->changes, j->plan->box->workspace, o, before);
}

static bool docker_began(const struct backend_job *j, uint32_t command)
{
	return command_began(j->guard.commands, command);
}

static bool docker_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct command_end x;

	if (!command_ended(j->guard.commands, command, &x))
		return false;
	o->image = arena_strdup(o->arena, j->guard.started.text);
	if (x.refused && x.why.kind == ERR_NOT_FOUND)
		(void)err_hint(&x.why, "image '%.100s' does not have it", j->plan->image);
	if (x.refused)
		command_refused(&x, o);
	docker_job_settle(j, o);
	if (x.refused)
		return true;
	if (o->kind == OUTCOME_FAILED && j->oom) {
		o->kind = OUTCOME_OOM;
		outcome_hit(o, LIMIT_MEMORY);
	} else {
		outcome_ended(o, x.status);
	}
	return true;
}

/* The kernel stops what is in the container's control group, all of it at once. */
static int docker_pause(struct backend_job *j, bool on, struct err *e)
{
	const struct supervisor_request r = { .asks = ASK_PAUSE, .signal = on };
	struct supervisor_msg m;

	j->answered = false;
	if (fd_send(j->guard.control, &r, sizeof(r), NULL, 0) < 0)
		return supervised_gone(&j->guard, e);
	while (!j->answered && !j->guard.ended) {
		if (wait_fd(j->guard.control, POLLIN, clock_after(PAUSE_MS)) < 0)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "the engine does not answer");
		if (supervised_hear(&j->guard, &m) < 0)
			return supervised_gone(&j->guard, e);
	}
	if (!j->answered)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	*e = j->unpaused;
	return -e->code;
}

static int docker_lend(struct backend_job *j, struct lent *ret)
{
	return lend_ask(&j->lent, j->guard.control, ret);
}

static int docker_probe(const struct spec *s, struct isolation *ret, struct err *e)
{
	CLEANUP(engine) struct engine g = { 0 };
	const char *runtime = s ? s->runtime : NULL;
	bool unused;

	if (s && !runtime)
		runtime = s->docker.runtime;
	if (engine_open(&g, e) < 0 || engine_suits(&g, runtime, &unused, e) < 0)
		return -e->code;
	if (!ret)
		return 0;
	*ret = (struct isolation){ .user_ns = g.rootless,
				   .pid_ns = true,
				   .mount_ns = true,
				   .net_ns = true,
				   .ipc_ns = true,
				   .uts_ns = true,
				   .cgroup_ns = true,
				   .no_new_privs = true,
				   .capabilities_dropped = true,
				   .read_only_root = true,
				   .seccomp = fields[FIELD_PROFILE].words[PROFILE_DEFAULT],
				   .network = fields[FIELD_NETWORK].words[NETWORK_NONE],
				   .uid_inside = geteuid() ? geteuid() : 1000,
				   .gid_inside = geteuid() ? getegid() : 1000 };
	return 0;
}

static int docker_check(const struct spec *s, struct err *e)
{
	return companions_check(s, true, e);
}

static const struct maker_ops docker_maker_ops = { .health = docker_health,
						   .pull = docker_pull,
						   .build = docker_build };
static const struct open_ops docker_open_ops = { .lend = docker_lend, .pause = docker_pause };

const struct backend backend_docker = {
	.name = "docker",
	.can = BACKEND_SHOWS_CODE | BACKEND_PROXY | BACKEND_BRIDGE | BACKEND_ENGINE | BACKEND_FILES,
	.kind = BACKEND_DOCKER,
	.bit = ON_DOCKER,
	.maker = &docker_maker_ops,
	.open = &docker_open_ops,
	.probe = docker_probe,
	.check = docker_check,
	.plan = docker_plan,
	.plan_json = docker_plan_json,
	.plan_free = docker_plan_free,
	.start = docker_start,
	.event = docker_event,
	.signal = docker_signal,
	.finish = docker_finish,
	.exec = docker_exec,
	.ended = docker_ended,
	.began = docker_began,
};

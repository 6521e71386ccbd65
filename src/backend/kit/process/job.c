/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/job.c - what a running sandbox reports, and how its end is judged.
 *
 * The outcome is decided by what was seen (a counter of the cgroup, the watch's verdict, the status
 * that init passed on), never guessed from an exit code. */
#include "backend/kit/process/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "backend/kit/limits/disk.h"
#include "backend/kit/limits/watch.h"
#include "backend/kit/process/job_bridge.h"
#include "backend/kit/process/start_internal.h"
#include "base/sys/wait.h"
#include "proc/closer.h"

#define EVENTS_AT_ONCE 8
#define ASK_EVERY 5 /* ticks */
#define TICK_NS (10 * 1000 * 1000)
#define HURRY_NS (1000 * 1000)

static void kill_all(struct backend_job *j)
{
	(void)syscall(SYS_pidfd_send_signal, j->pidfd, SIGKILL, NULL, 0);
	(void)cgroup_kill(j->cgroup);
	if (j->frozen)
		(void)cgroup_freeze(j->cgroup, false);
	j->frozen = false;
}

int box_lend(struct backend_job *j, struct lent *ret)
{
	return lend_ask(&j->lent, j->control, ret);
}

bool job_hear(struct backend_job *j)
{
	bool told = false;
	struct supervisor_msg m;
	int fds[LEND_FDS];
	size_t n = LEND_FDS;

	for (; fd_recv(j->control, &m, sizeof(m), fds, &n) == (ssize_t)sizeof(m); n = LEND_FDS) {
		if (m.said == SUPERVISOR_TERMINAL && n == 1) {
			command_terminal(j->commands, m.command, fds[0]);
			continue;
		}
		lend_heard(&j->lent, &m, fds, n);
		if (m.command != COMMAND_FIRST) {
			job_command_said(j, &m);
			continue;
		}
		if (m.said == SUPERVISOR_EXITED) {
			j->exited = true;
			j->status = m.status;
			j->full |= j->pids_held && m.usage.tasks >= j->plan->limits.pids;
		}
		if (m.said == SUPERVISOR_EXITED || m.said == SUPERVISOR_USAGE)
			j->disk.reaped = m.usage.written;
		if (m.said == SUPERVISOR_USAGE)
			j->system_v = m.usage.held;
		told |= m.said == SUPERVISOR_USAGE;
	}
	return told;
}

int job_tick(const struct backend_job *j, bool hurry)
{
	bool rests = !hurry && j->commands && !commands_there(j->commands);
	const struct timespec every = { .tv_nsec = rests ? 0 : hurry ? HURRY_NS : TICK_NS };
	const struct itimerspec tick = { .it_interval = every, .it_value = every };

	return j->timer < 0 ? 0 : timerfd_settime(j->timer, 0, &tick, NULL);
}

static void look_at_disk(struct backend_job *j)
{
	bool was = j->disk.hurry;

	j->disk.asked = false;
	if (disk_look(&j->disk, j->given[INIT_FD_PROC], j->plan->limits.disk) >= DISK_CLOSED) {
		j->killed_disk = true;
		kill_all(j);
	} else if (j->disk.hurry != was) {
		(void)job_tick(j, j->disk.hurry);
	}
}

/* Socket buffers. To list them takes the kernel a walk through tables of the whole machine, most of
 * what a quiet run costs: left out where all sockets there are could not fill half of what the last
 * look has left. Until the next turn the other half is theirs, as it is with a list. */
static uint64_t in_sockets(struct backend_job *j)
{
	uint64_t max = j->plan->limits.memory, used = j->used - j->counted;
	struct sock_counts there = sockmem_counts(j->given[INIT_FD_NET]);

	if (used < max && sockmem_most(&there) <= (max - used) / 2)
		return 0;
	return sockmem_step(&j->sockmem, j->given[INIT_FD_DIAG], &there);
}

/* What is not asked at every tick. */
static void job_ask(struct backend_job *j)
{
	struct supervisor_request usage = { .asks = ASK_USAGE };
	bool turn = j->tick % ASK_EVERY == 0;

	if (!(j->watch_disk && j->disk.hurry) && !turn)
		return;
	if (turn && j->watch_memory) {
		j->unmapped = memfds_step(&j->memfds, j->given[INIT_FD_PROC]);
		j->buffers = in_sockets(j);
	}
	/* It is to be looked when init has just told: what it knows is missing elsewhere. */
	if (j->watch_disk && j->disk.asked)
		look_at_disk(j);
	if (j->watch_disk || j->watch_memory)
		j->disk.asked = fd_send(j->control, &usage, sizeof(usage), NULL, 0) == 0;
}

/* Of the first process, which each reaper of an open sandbox is a copy of. */
static uint64_t resident(const struct backend_job *j)
{
	char text[128];
	const char *second;

	if (fd_read_file(j->given[INIT_FD_PROC], "1/statm", text, sizeof(text)) <= 0)
		return 0;
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void job_look(struct backend_job *j)
{
	const struct limits *l = &j->plan->limits;
	size_t own = commands_there(j->commands); /* processes of brig's besides init */
	struct watch w = { .procfd = j->given[INIT_FD_PROC],
			   .tmpfs = &j->given[INIT_FD_TMP],
			   .held = j->unmapped + j->system_v,
			   .kernel = j->buffers,
			   .memory_max = j->watch_memory ? l->memory : 0,
			   .tasks_max = j->watch_pids && !j->pids_held ? l->pids + own : 0 };
	struct watch_usage used;
	enum watch_verdict verdict;

	if (own && w.memory_max)
		w.memory_max += own * resident(j);
	while (w.tmpfs_count < INSIDE_TMPFS_MAX && w.tmpfs[w.tmpfs_count] >= 0)
		w.tmpfs_count++;
	verdict = watch_look(&w, &used);
	j->used = used.memory;
	j->counted = j->buffers;
	j->full |= j->pids_held && used.tasks >= l->pids + own;
	switch (verdict) {
	case WATCH_MEMORY:
		j->killed_memory = true;
		break;
	case WATCH_TASKS:
		j->killed_pids = true;
		break;
	case WATCH_OK:
		return;
	}
	kill_all(j);
}

static bool covered_again(struct backend_job *j)
{
	if (!protect_cover_again(j->protect, j->given[INIT_FD_SPACE], j->given[INIT_FD_MOUNTS]))
		return false;
	if (j->commands && !commands_there(j->commands))
		protect_rest(j->protect);
	return true;
}

bool job_wake(struct backend_job *j)
{
	return !j->protect ||
	       protect_wake(j->protect, j->given[INIT_FD_SPACE], j->given[INIT_FD_MOUNTS]);
}

bool job_news(struct backend_job *j, struct outcome *o)
{
	enum protect_news news = j->protect ? protect_news(j->protect, o) : PROTECT_QUIET;

	if (news == PROTECT_LOST && covered_again(j))
		news = PROTECT_QUIET;
	j->tampered |= news == PROTECT_TAMPERED;
	j->cover_lost |= news == PROTECT_LOST;
	if (news != PROTECT_QUIET)
		kill_all(j);
	return news == PROTECT_QUIET;
}

static void on_timer(struct backend_job *j, struct outcome *o)
{
	uint64_t ticks;

	if (read(j->timer, &ticks, sizeof(ticks)) != sizeof(ticks))
		return;
	if (j->protect)
		protect_survive(j->protect, j->pidfd);
	if (j->protect && !j->cover_lost && !j->tampered)
		(void)job_news(j, o);
	if (j->frozen) /* nothing changes, and init does not answer */
		return;
	j->tick++;
	if ((j->watch_memory || j->watch_pids) &&
	    (!j->disk.hurry || j->tick % (TICK_NS / HURRY_NS) == 0))
		job_look(j);
	job_ask(j);
}

static enum job_event job_on_ready(struct backend_job *j, const struct epoll_event *ev,
				   struct outcome *o)
{
	int fd = ev->data.fd;

	if (fd == j->pidfd)
		return JOB_ENDED;
	if (job_bridge_turn(j, fd, o))
		return JOB_NOTHING;
	if (fd == j->control) {
		if (job_hear(j) && j->watch_disk)
			look_at_disk(j);
	} else if (fd == j->timer)
		on_timer(j, o);
	else if (j->opens && fd == j->given[INIT_FD_WATCH])
		opens_serve(j->opens);
	else if (fd == cgroup_oom_fd(j->cgroup)) {
		struct cgroup_events seen;

		/* The file also wakes for lesser news: only a kill ends the run. */
		cgroup_events(j->cgroup, &seen);
		if (seen.oom) {
			j->killed_memory = true;
			kill_all(j);
		}
	}
	if (ev->events & EPOLLHUP || (fd == j->control && ev->events & EPOLLRDHUP))
		(void)epoll_ctl(j->events, EPOLL_CTL_DEL, fd, NULL);
	return JOB_NOTHING;
}

/* Since this descriptor was last asked; poll tells for less than reading the list takes. */
static bool mounts_changed(int mountinfo)
{
	return wait_look(mountinfo, POLLPRI) != 0;
}

static void check_covers(struct backend_job *j)
{
	int news = j->given[INIT_FD_NEWS];

	if (!j->protect || j->cover_lost || j->given[INIT_FD_MOUNTS] < 0 ||
	    (news >= 0 && !mounts_changed(news)) ||
	    protect_covers_hold(j->protect, j->given[INIT_FD_MOUNTS]) || covered_again(j))
		return;
	j->cover_lost = true;
	kill_all(j);
}

enum job_event box_event(struct backend_job *j, bool alarm, struct outcome *o)
{
	struct epoll_event ev[EVENTS_AT_ONCE];
	enum job_event said = JOB_NOTHING;
	int n = epoll_wait(j->events, ev, EVENTS_AT_ONCE, 0); /* allow epoll_wait: its own set */

	if (alarm)
		check_covers(j);
	for (int i = 0; i < n; i++)
		if (job_on_ready(j, &ev[i], o) == JOB_ENDED)
			said = JOB_ENDED;
	if (j->left && said != JOB_ENDED && !commands_there(j->commands)) {
		j->left = false;
		protect_settle(j->protect, o);
	}
	return said;
}

void box_signal(struct backend_job *j, uint32_t command, int sig)
{
	struct supervisor_request r = { .asks = ASK_SIGNAL, .command = command, .signal = sig };

	if (sig == SIGKILL && command == COMMAND_FIRST)
		kill_all(j);
	else
		(void)fd_send(j->control, &r, sizeof(r), NULL, 0);
}

/* Only what the conductor has not judged already: its own timeout and cancel stand. */
static void job_judge(const struct backend_job *j, const struct cgroup_events *seen,
		      struct outcome *o)
{
	if (j->exited && o->kind == OUTCOME_CANCELLED)
		outcome_ended(o, j->status);
	if (o->kind != OUTCOME_FAILED)
		return;
	if (j->tampered) {
		(void)err_set(&o->error, ERR_POLICY, EPERM,
			      "the command tried to turn git on the host to another folder: it was "
			      "ended");
	} else if (j->cover_lost) {
		(void)protect_lost(j->protect, "run", &o->error);
	} else if (j->killed_memory || seen->oom) {
		o->kind = OUTCOME_OOM;
	} else if (j->killed_pids || j->killed_disk) {
		o->kind = OUTCOME_LIMIT;
	} else if (!j->exited) {
		(void)err_set(&o->error, ERR_INTERNAL, ECHILD,
			      "the sandbox was ended from outside");
	} else {
		outcome_ended(o, j->status);
	}
}

void box_finish(struct backend_job *j, struct outcome *o)
{
	struct cgroup_events seen;
	struct closer *closer;

	if (j->protect && !j->cover_lost) {
		if (j->given[INIT_FD_NEWS] >= 0 || mounts_changed(j->given[INIT_FD_MOUNTS]))
			check_covers(j);
		(void)job_news(j, o);
	}
	job_end(j);
	(void)job_hear(j);
	cgroup_events(j->cgroup, &seen);
	/* The last look: a short run may have been over before the first. */
	j->killed_disk |= j->watch_disk && j->disk.reaped > j->plan->limits.disk;
	if (j->plan->repository)
		o->repository = arena_strdup(o->arena, j->plan->repository);
	job_judge(j, &seen, o);
	if (j->killed_memory || seen.oom)
		outcome_hit(o, LIMIT_MEMORY);
	if (j->killed_pids || j->full || seen.pids_max)
		outcome_hit(o, LIMIT_PIDS);
	if (j->killed_disk)
		outcome_hit(o, LIMIT_DISK);
	/* The last hold on the sandbox's mounts, let go of first: a name that is still mounted over
	 * somewhere is removed only after a wait for every CPU. */
	closer = closer_start(&j->given[INIT_FD_MOUNTS], INIT_FD_COUNT - INIT_FD_MOUNTS, j->busy);
	if (j->protect) {
		protect_end(j->protect, j->cover_lost, o);
		j->protect = protect_free(j->protect);
	}
	(void)job_free(j);
	(void)closer_end(closer);
}

/* ---- the end ---- */

static void job_reap(struct backend_job *j)
{
	siginfo_t info;

	if (j->pid <= 0)
		return;
	while (waitid(P_PID, (id_t)j->pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
		;
	j->pid = -1;
}

/* Kills the whole pid namespace by its init. Where our child is somebody else, it is reaped last:
 * there is enough to do while it ends. */
void job_end(struct backend_job *j)
{
	if (j->pid <= 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, j->pidfd, SIGKILL, NULL, 0);
	(void)cgroup_kill(j->cgroup);
	if (j->frozen)
		(void)cgroup_freeze(j->cgroup, false);
	if (j->kind->helpers)
		(void)wait_fd(j->pidfd, POLLIN, 0);
	else
		job_reap(j);
	j->hold = protect_let_go(j->hold);
}

struct backend_job *job_free(struct backend_job *j)
{
	if (!j)
		return NULL;
	job_end(j);
	if (j->protect)
		protect_end(j->protect, false, NULL);
	(void)protect_free(j->protect);
	for (int i = 0; i < INIT_FD_COUNT; i++)
		(void)fd_close(j->given[i]);
	for (size_t i = 0; i < j->door_count; i++)
		(void)fd_close(j->door[i]);
	j->opens = opens_free(j->opens);
	job_bridge_done(j);
	(void)fd_close(j->events);
	(void)fd_close(j->timer);
	(void)fd_close(j->control);
	(void)fd_close(j->pidfd);
	disk_done(&j->disk);
	(void)fd_close(j->cgroup_claim);
	job_reap(j);
	if (j->unswept)
		enforce_sweep(j);
	free(j->unswept);
	(void)cgroup_free(j->cgroup);
	(void)ids_free(j->ids);
	(void)command_table_free(j->commands);
	lend_pool_done(&j->lent);
	told_done(&j->told);
	free(j);
	return NULL;
}

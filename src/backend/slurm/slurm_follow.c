/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_follow.c - in place of srun: what a task of an array has written so far, and
 * goes on to write, as if it came from there.
 *
 * A process of its own, which dies with its brig and leaves the task alone. A signal frame, or
 * SIGTERM, ends the task by scancel. A task that says nothing for long is asked for; one that Slurm
 * no longer has, without a report, was lost. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/slurm/slurm.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "far/spool.h"
#include "proc/spawn.h"

#define FIRST_MS 5
#define LAST_MS 200
#define FIRST_SILENCE_US ((uint64_t)5 * 1000 * 1000)
#define SILENCE_US ((uint64_t)20 * 1000 * 1000)
#define GRACE_US ((uint64_t)2 * 1000 * 1000) /* for what was written at last to arrive */
#define ASK_S 10
#define OVER_S 10 /* what a step may take to end when its run has */

struct follower {
	const struct backend_plan *p;
	int in, out, folder, file;
	char name[FAR_SPOOL_NAME], task[64];
	struct frames_glance said, told; /* an end, by the node; a signal, by our brig */
	uint64_t heard, silence;
	off_t at;
	bool over, missed;
};

static _Noreturn void slurm_follow_leave(const char *why)
{
	if (why)
		(void)dprintf(STDERR_FILENO, "error: %s\n", why);
	_exit(why ? 1 : 0);
}

static void end_task(const struct follower *f)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char *argv[] = { NULL, f->task, NULL };
	struct err unused = { 0 };

	if (f->p->slurm.array && slurm_program(f->p, "scancel", &argv[0], &unused) == 0)
		(void)slurm_ask(f->p, argv, NULL, ASK_S, &out, &unused);
}

/* Does Slurm have it? When it cannot be asked, yes. */
static enum slurm_state ask_state(const struct follower *f)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char *argv[] = { NULL, "-h", "-t", "all", "-o", "%T", "-j", f->task, NULL };
	struct err e = { 0 };

	if (!f->p->slurm.array)
		return SLURM_GONE;
	if (slurm_program(f->p, "squeue", &argv[0], &e) < 0)
		return SLURM_THERE;
	if (slurm_ask(f->p, argv, NULL, ASK_S, &out, &e) < 0)
		return strstr(e.what, "Invalid job id") ? SLURM_GONE : SLURM_THERE;
	return slurm_text_state(buf_str(&out));
}

/* Tasks that were cancelled before they began are no longer told apart: "ARRAY CANCELLED". */
static bool rest_cancelled(const struct follower *f)
{
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	const char *argv[] = { NULL, "-h", "-r", "-t", "all", "-o", "%i %T", "-j", NULL, NULL };
	struct err unused = { 0 };
	char line[64];

	(void)snprintf(line, sizeof(line), "%llu", (unsigned long long)f->p->slurm.array);
	argv[8] = arena_strdup(f->p->arena, line);
	if (!argv[8] || slurm_program(f->p, "squeue", &argv[0], &unused) < 0 ||
	    slurm_ask(f->p, argv, NULL, ASK_S, &out, &unused) < 0)
		return false;
	(void)snprintf(line, sizeof(line), "%llu CANCELLED", (unsigned long long)f->p->slurm.array);
	for (const char *at = buf_str(&out); *at; at += strcspn(at, "\n") + 1) {
		if (str_starts(at, line))
			return true;
		if (!at[strcspn(at, "\n")])
			break;
	}
	return false;
}

/* It wrote its report some time ago: what of it could still be there has ended since. */
static bool is_over(const struct follower *f, uint64_t task)
{
	char name[FAR_SPOOL_NAME];
	struct stat st;

	far_spool_name(name, task, "out");
	return fstatat(f->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       time(NULL) - st.st_mtime >= OVER_S && slurm_has_report(f->folder, task);
}

/* A task whose slurmstepd died has its place until Slurm asks the node, minutes later, and this one
 * waits for that place. */
static void free_places(const struct follower *f)
{
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX), said = BUF_INIT(4096);
	const char *argv[] = { NULL, "-h", "-r", "-t", "running", "-o", "%K", "-j", NULL, NULL };
	const char *end[] = { NULL, NULL, NULL };
	struct err unused = { 0 };
	uint64_t task;

	argv[8] = arena_printf(f->p->arena, "%llu", (unsigned long long)f->p->slurm.array);
	if (!argv[8] || slurm_program(f->p, "squeue", &argv[0], &unused) < 0 ||
	    slurm_program(f->p, "scancel", &end[0], &unused) < 0 ||
	    slurm_ask(f->p, argv, NULL, ASK_S, &out, &unused) < 0)
		return;
	for (const char *at = buf_str(&out); *at; at += strspn(at, "\n")) {
		size_t n = strcspn(at, "\n");
		char number[24];

		(void)snprintf(number, sizeof(number), "%.*s", (int)n, at);
		at += n;
		if (num_count(number, &task) < 0 || !is_over(f, task))
			continue;
		end[1] = arena_printf(f->p->arena, "%s_%s", argv[8], number);
		if (end[1])
			(void)slurm_ask(f->p, end, NULL, ASK_S, &said, &unused);
	}
}

/* The task is gone and cannot say it. */
static _Noreturn void say_cancelled(const struct follower *f)
{
	CLEANUP(buf) struct buf text = BUF_INIT(65536);
	CLEANUP(outcome) struct outcome *o = outcome_new();
	const struct frames_line line = { .from = -1, .to = f->out, .newlines = true };
	struct frames *c = frames_on(&line, NULL, NULL);
	struct json j;

	if (o && c) {
		o->kind = OUTCOME_CANCELLED;
		json_init(&j, &text, false);
		outcome_json(o, &j);
		(void)frames_say_all(c, FRAMES_REPORT, FAR_RUN, text.data, text.len);
		(void)frames_say(c, FRAMES_ENDED, FAR_RUN, NULL, 0);
		(void)frames_turn(c, NULL, 0);
	}
	slurm_follow_leave(o && c ? NULL : "out of memory");
}

/* The file is a node's word: it ends with its report, whatever follows. */
static size_t take_news(struct follower *f)
{
	char part[65536];
	ssize_t n;

	if (f->file < 0)
		f->file = far_spool_read(f->folder, f->name);
	if (f->file < 0)
		return 0;
	n = pread(f->file, part, sizeof(part), f->at);
	if (n <= 0)
		return 0;
	f->at += n;
	f->heard = clock_us();
	f->missed = false;
	f->silence = SILENCE_US;
	frames_glance(&f->said, part, (size_t)n);
	if (fd_write_all(f->out, part, (size_t)n) < 0)
		slurm_follow_leave(NULL);
	f->over |= f->said.seen || f->said.broken; /* our brig sees it, too */
	return (size_t)n;
}

/* True: it is to end. */
static bool take_orders(struct follower *f)
{
	char part[4096];
	ssize_t n = read(f->in, part, sizeof(part));
	bool ends;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0)
		slurm_follow_leave(NULL); /* our brig is gone */
	frames_glance(&f->told, part, (size_t)n);
	ends = f->told.seen;
	f->told.seen = false;
	return ends;
}

static void look_for_life(struct follower *f)
{
	enum slurm_state s;

	if (clock_us() - f->heard < f->silence)
		return;
	f->heard = clock_us();
	f->silence = f->silence * 2 < SILENCE_US ? f->silence * 2 : SILENCE_US;
	s = ask_state(f);
	if (s == SLURM_THERE && f->file < 0)
		free_places(f);
	if (s == SLURM_THERE)
		return;
	if (f->missed && !f->at && (s == SLURM_CANCELLED || rest_cancelled(f)))
		say_cancelled(f);
	if (f->missed)
		slurm_follow_leave("its task ended without a report");
	f->missed = true;
	f->silence = GRACE_US;
}

static _Noreturn void slurm_follow_jobs(struct follower *f, int signals)
{
	int wait = FIRST_MS;

	for (;;) {
		struct pollfd p[] = { { .fd = f->in, .events = POLLIN },
				      { .fd = signals, .events = POLLIN } };

		while (!f->over && take_news(f) > 0)
			wait = FIRST_MS;
		if (f->over)
			slurm_follow_leave(NULL);
		if (wait_any(p, ARRAY_LEN(p), clock_after((uint64_t)wait)) > 0) {
			if (p[1].revents) {
				end_task(f);
				slurm_follow_leave(NULL);
			}
			if (take_orders(f)) {
				end_task(f);
				f->silence = GRACE_US; /* it may never have begun */
			}
		}
		wait = wait * 2 < LAST_MS ? wait * 2 : LAST_MS;
		look_for_life(f);
	}
}

void slurm_follow(const struct backend_plan *p, int in, int out, int log)
{
	struct follower f = {
		.p = p, .file = -1, .heard = clock_us(), .silence = FIRST_SILENCE_US
	};
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "brig-follow", 0, 0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (proc_place_streams(in, out, log) < 0)
		_exit(125);
	(void)fd_close_range(3, INT32_MAX);
	f.in = STDIN_FILENO;
	f.out = STDOUT_FILENO;
	f.folder = far_spool_open(p->slurm.spool);
	if (f.folder < 0)
		slurm_follow_leave("the folder of its array is gone");
	far_spool_name(f.name, p->slurm.task, "out");
	(void)snprintf(f.task, sizeof(f.task), "%llu_%llu", (unsigned long long)p->slurm.array,
		       (unsigned long long)p->slurm.task);
	f.said.kind = FRAMES_ENDED;
	f.told.kind = FRAMES_SIGNAL;
	slurm_follow_jobs(&f, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

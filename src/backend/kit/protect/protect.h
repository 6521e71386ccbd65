/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect.h - placeholders for protected names that do not exist yet, and the
 * look afterwards.
 *
 * States of one name: absent -> held (placeholder.h) -> absent again, when the last run
 * that holds it ends. What a run may make is written to a journal before it is made (journal.h);
 * what no living run claims any more, the next brig that starts removes. */
#pragma once

#include "backend/kit/plan/plan.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "model/outcome/outcome.h"

struct protect;

/* Makes the placeholders and marks covers that are needless (a name nobody could make anyway). *ret
 * is NULL when the plan protects nothing. */
int protect_begin(struct box_plan *p, const char *id, struct protect **ret, struct err *e);
/* What is there now, for the check after the run; before the command may act. NULL: nothing. */
int protect_write_down(struct protect *t, struct err *e);
/* Just before the command is let go. What was saved until now is not its work: files have times of
 * a clock that stands still for some milliseconds, and a start takes about as long. */
void protect_lets_begin(struct protect *t);

/* A descriptor that will keep the placeholders for as long as any process has it open: for one that
 * still makes mounts when its monitor is dead, and may be started before they are there. *ret is -1
 * when the plan protects nothing. 0 or -errno. */
int protect_holder(const struct box_plan *p, int *ret);

/* From now on it keeps them. Nothing to do for NULL. 0 or -errno. */
int protect_hold(const struct protect *t, int holder);

/* Ends that for everybody who has it open, and closes it; takes -1. Returns -1. */
int protect_let_go(int hold);

/* Are all covers still in the sandbox's list of mounts, and read-only? fd is its mountinfo. */
bool protect_covers_hold(const struct protect *t, int mountinfo);

enum protect_news {
	PROTECT_QUIET,
	PROTECT_LOST,     /* a covered name is not where it was: its cover went along */
	PROTECT_TAMPERED, /* a file appeared that turns git on the host to another folder at once;
			   * it is in quarantine already */
};

/* Looks once, at every tick of the watch: inotify would tell sooner, but giving it up makes the
 * kernel wait for tens of milliseconds at the end of every run. Anything but quiet must end the
 * run. */
enum protect_news protect_news(struct protect *t, struct outcome *o);

/* After PROTECT_LOST, or covers that do not hold: covers anew what the user's own git has replaced,
 * in the sandbox's mount namespace (-1: there is no way in). true: all covers hold again. It may
 * take as long as git takes to answer. */
bool protect_cover_again(struct protect *t, int space, int mountinfo);

/* No command runs, and nobody looks: what was covered anew is the host's to write to. */
void protect_rest(struct protect *t);
/* ... one is about to begin. false: the covers do not hold. */
bool protect_wake(struct protect *t, int space, int mountinfo);

/* Says what was lost, and what to do. `what` was ended. Returns -e->code. */
int protect_lost(const struct protect *t, const char *what, struct err *e);

/* Starts, once, a process that finishes the check should this one be killed. `pidfd` is the
 * sandbox's first process: then a run of a few milliseconds has none, which would cost more than
 * the run. -1 where that process is somebody else's. */
void protect_survive(struct protect *t, int pidfd);

/* Judges all of it now, as protect_end does, and goes on protecting: for an open sandbox in which
 * no command runs at the moment. What is moved and told is added to *o. Where nothing has changed
 * it takes as long as a look through the workspace's folders. Nothing to do for NULL. */
void protect_settle(struct protect *t, struct outcome *o);

/* The run's mounts are not locked: what lies in covered folders is not believed. NULL: nothing. */
void protect_unlocked(struct protect *t);

/* After the last process is gone: removes placeholders no other run needs, moves what appeared or
 * changed under a protected name to quarantine and reports it. */
void protect_end(struct protect *t, bool cover_lost, struct outcome *o);
struct protect *protect_free(struct protect *t); /* takes NULL */
DEFINE_CLEANUP(protect, struct protect *, protect_free)

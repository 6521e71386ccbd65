/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_apply.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/program.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/run/terminal.h"
#include "proc/spawn.h"
#include "workspace/apply.h"

#define LOOK_MS 200 /* for a signal, which is blocked */

static bool is_interrupted(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) ||
					 sigismember(&set, SIGHUP));
}

enum apply_answer { ASKED_NO, ASKED_YES, ASKED_DIFF, ASKED_EACH };

static enum apply_answer meant(const char *line)
{
	static const struct {
		const char *word;
		enum apply_answer is;
	} words[] = { { "y", ASKED_YES },           { "Y", ASKED_YES },     { "yes", ASKED_YES },
		      { "d", ASKED_DIFF },          { "diff", ASKED_DIFF }, { "i", ASKED_EACH },
		      { "interactive", ASKED_EACH } };

	for (size_t k = 0; k < ARRAY_LEN(words); k++)
		if (str_eq(line, words[k].word))
			return words[k].is;
	return ASKED_NO;
}

/* One line of somebody who types; what was typed before, or what the terminal was made to say by
 * what the command wrote, is not it. */
static enum apply_answer ask(int tty, const char *question)
{
	char line[64];
	ssize_t n = 0;
	int r = -ETIMEDOUT;

	(void)tcflush(tty, TCIFLUSH);
	if (fd_write_all(tty, question, strlen(question)) < 0)
		return ASKED_NO;
	while (r == -ETIMEDOUT && !is_interrupted())
		r = wait_fd(tty, POLLIN, clock_after(LOOK_MS));
	if (r == 0)
		n = read(tty, line, sizeof(line) - 1);
	if (n <= 0) {
		(void)fd_write_all(tty, "\n", 1);
		return ASKED_NO;
	}
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return meant(line);
}

/* `brig diff RUN`, `brig apply -i RUN`, on that terminal, opened anew: ours does not wait. */
static void speak(const char *verb, const char *option, const char *run)
{
	char words[4][CLAIM_ID + 8] = { "brig" };
	char *argv[] = { words[0], words[1], words[2], option ? words[3] : NULL, NULL };
	struct err unused;
	pid_t pid;
	int tty;

	(void)snprintf(words[1], sizeof(words[1]), "%s", verb);
	(void)snprintf(words[2], sizeof(words[2]), "%s", option ? option : run);
	(void)snprintf(words[3], sizeof(words[3]), "%s", run);
	pid = proc_fork(NULL);
	if (pid == 0) {
		proc_default_signals();
		proc_unblock_signals();
		tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
		for (int fd = 0; fd < 3; fd++)
			if (tty < 0 || dup2(tty, fd) < 0)
				_exit(EXIT_BRIG);
		(void)program_become("brig-more", argv, &unused);
		_exit(EXIT_BRIG);
	}
	if (pid > 0)
		(void)proc_wait(pid);
}

static void look_at(void *outcome, const char *path, const char *reason)
{
	outcome_trust(outcome, path, reason);
}

static void apply_now(struct outcome *o)
{
	struct layer l = LAYER_NONE;
	struct apply_told t = { 0 };

	o->layer_tried = true;
	if (layer_open(o->layer, NULL, LAYER_ALONE, &l, &o->layer_kept) == 0 &&
	    apply_auto(&l, &t, look_at, o, &o->layer_kept) == 0)
		err_clear(&o->layer_kept);
	layer_done(&l);
	o->layer_applied = t.done;
	o->layer_left = t.left;
}

void run_apply_ask(const struct spec *s, struct outcome *o)
{
	CLEANUP(fd) int tty = -1;
	enum apply_answer says = ASKED_DIFF;
	char question[160];

	if (s->workspace_apply != APPLY_ASK || !o->layer || o->error.code || !o->layer_changed ||
	    s->cli.json || s->cli.quiet || !terminal_is_ours() || (tty = terminal_open()) < 0)
		return;
	(void)snprintf(question, sizeof(question),
		       "brig: apply %llu changed names to the workspace? "
		       "[y/N, d: show the diff, i: ask for each] ",
		       (unsigned long long)o->layer_changed);
	while (says == ASKED_DIFF) {
		says = ask(tty, question);
		if (says == ASKED_DIFF)
			speak("diff", NULL, o->layer);
	}
	if (says == ASKED_YES)
		apply_now(o);
	if (says != ASKED_EACH)
		return;
	speak("apply", "-i", o->layer);
	o->layer = NULL; /* it has said what came of it */
}

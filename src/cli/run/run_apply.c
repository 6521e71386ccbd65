/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_apply.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/run/terminal.h"
#include "workspace/apply.h"

#define LOOK_MS 200 /* for a signal, which is blocked */

static bool is_interrupted(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) ||
					 sigismember(&set, SIGHUP));
}

/* One line of somebody who types; what was typed before, or what the terminal was made to say by
 * what the command wrote, is not it. */
static bool is_agreed(int tty, const char *question)
{
	char line[64];
	ssize_t n = 0;
	int r = 0;

	(void)tcflush(tty, TCIFLUSH);
	if (fd_write_all(tty, question, strlen(question)) < 0)
		return false;
	while (r == 0 && !is_interrupted())
		r = wait_fd(tty, POLLIN, clock_after(LOOK_MS));
	if (r > 0)
		n = read(tty, line, sizeof(line) - 1);
	if (n <= 0) {
		(void)fd_write_all(tty, "\n", 1);
		return false;
	}
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return str_eq(line, "y") || str_eq(line, "Y") || str_eq(line, "yes");
}

static void apply_now(struct outcome *o)
{
	struct layer l = LAYER_NONE;
	size_t done = 0, left = 0;

	o->layer_tried = true;
	if (layer_open(o->layer, NULL, LAYER_ALONE, &l, &o->layer_kept) == 0 &&
	    apply_auto(&l, &done, &left, &o->layer_kept) == 0)
		err_clear(&o->layer_kept);
	layer_done(&l);
	o->layer_applied = done;
	o->layer_left = left;
}

void run_apply_ask(const struct spec *s, struct outcome *o)
{
	CLEANUP(fd) int tty = -1;
	char question[128];

	if (s->workspace_apply != APPLY_ASK || !o->layer || o->error.code || !o->layer_changed ||
	    s->cli.json || s->cli.quiet || !terminal_is_ours() || (tty = terminal_open()) < 0)
		return;
	(void)snprintf(question, sizeof(question),
		       "brig: apply %llu changed names to the workspace? [y/N] ",
		       (unsigned long long)o->layer_changed);
	if (is_agreed(tty, question))
		apply_now(o);
}

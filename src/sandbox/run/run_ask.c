/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_ask.c - names that no rule allows, and whoever may say that they can be reached.
 *
 *     the door holds a name -> open here -> told to the asker, or shown at the terminal
 *       -> answered (on the record first, then to the door), or late, or the run is over
 *
 * At the terminal one question is shown at a time. Until it is answered the command's output waits,
 * and what is typed goes to the question alone: the command can neither paint over it nor see the
 * answer, and what it has painted before is answered by nobody but itself. */
#include "sandbox/run/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "egress/monitor.h"
#include "sandbox/recorder.h"

#define TEXT_MAX ((size_t)64 << 10)

/* Whatever the command has done to its terminal, the question can be read: an unfinished string or
 * update, a scrolling region, character sets, colours and palette, a hidden cursor. What its
 * program would not set again by itself (the other screen, the mouse) stays. Keys come as plain
 * letters. */
#define LEGIBLE                                                                                    \
	"\030\033\\\033[?2026l\033[r\033[?69l\033[?6l\033[?7h\033[?5l\033[4l\033[20l\033(B\033)"   \
	"B\017"                                                                                    \
	"\033]104\033\\\033]110\033\\\033]111\033\\\033[0m\033[?25h\033[>0u"
#define KEYS_BACK "\033[<1u"
#define FRESH_SCREEN "\033[H\033[2J"
#define FRESH_LINE "\r\n\033[0m\033[?25h\033[J"

int run_ask_check(struct run *r, struct err *e)
{
	if (!r->spec->egress.ask || r->spec->network != NETWORK_PROXY || r->io.asker ||
	    r->io.terminal > 0)
		return 0;
	if (r->spec->origin[FIELD_EGRESS_ASK] == ORIGIN_FLAG)
		return err_refuse(e, ERR_USAGE, ENOTTY,
				  "leave it out, and allow hosts beforehand: --allow HOST",
				  "--ask: nobody is there to be asked: brig is not in the "
				  "foreground of a terminal");
	run_tell(r, "egress.ask: nobody is there to be asked, so names that no rule allows are "
		    "refused");
	return 0;
}

/* ---- at the terminal ---- */

static void run_ask_put(const struct run *r, const char *text, size_t n)
{
	(void)!write(r->io.terminal, text, n);
}

static void run_ask_say(const struct run *r, const char *text)
{
	run_ask_put(r, text, strlen(text));
}

static const char *who(char *out, size_t n)
{
	char name[64] = "/dev/tty";

	for (int fd = 0; fd <= 2; fd++)
		if (ttyname_r(fd, name, sizeof(name)) == 0)
			break;
	(void)snprintf(out, n, "terminal %s", name);
	return out;
}

static bool take_terminal(struct run *r)
{
	struct termios t;

	if (tcgetpgrp(r->io.terminal) != getpgrp() || tcgetattr(r->io.terminal, &t) < 0)
		return false;
	r->asks.before = t;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	r->asks.changed = tcsetattr(r->io.terminal, TCSANOW, &t) == 0;
	return r->asks.changed && tcflush(r->io.terminal, TCIFLUSH) == 0;
}

static void give_back(struct run *r)
{
	if (r->asks.changed)
		(void)tcsetattr(r->io.terminal, TCSANOW, &r->asks.before);
	r->asks.changed = false;
}

/* The first of them; false: nobody can have seen it. */
static bool run_ask_show(struct run *r)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	const struct run_question *q = &r->asks.v[0];

	if (!take_terminal(r)) {
		give_back(r);
		return false;
	}
	r->asks.painted = run_is_painted(r);
	if (r->master >= 0)
		buf_puts(&text, LEGIBLE);
	buf_puts(&text, r->asks.painted ? FRESH_SCREEN : FRESH_LINE);
	prompt_text(q->host, q->port, (unsigned)r->asks.n - 1, &text);
	if (text.failed || write(r->io.terminal, text.data, text.len) != (ssize_t)text.len) {
		give_back(r);
		return false;
	}
	r->asks.shown = true;
	prompt_begin(&r->asks.prompt, false, clock_us());
	return true;
}

/* A program that paints is made to do so anew, as after a change of the window's size. */
static void repaint(struct run *r)
{
	struct winsize w;

	if (ioctl(r->io.terminal, TIOCGWINSZ, &w) < 0 || w.ws_row < 2)
		return;
	run_resize(r, (unsigned short)(w.ws_row - 1), w.ws_col);
	run_resize(r, w.ws_row, w.ws_col);
}

static void hide(struct run *r, const struct run_question *q, const char *word)
{
	char line[400];

	if (!r->asks.shown)
		return;
	r->asks.shown = false;
	if (r->master >= 0)
		run_ask_say(r, KEYS_BACK);
	(void)snprintf(line, sizeof(line), "%sbrig: %s:%u: %s\r\n",
		       str_eq(word, "late") ? "\r\n" : "", q->host, q->port, word);
	run_ask_say(r, r->asks.painted ? FRESH_SCREEN : line);
	give_back(r);
	if (r->asks.painted)
		repaint(r);
}

/* ---- answers ---- */

static void set_timer(struct run *r)
{
	uint64_t at = 0;

	for (size_t i = 0; i < r->asks.n; i++)
		if (!at || r->asks.v[i].until < at)
			at = r->asks.v[i].until;
	loop_at(r->loop, &r->late.t, at);
}

static struct name_question run_ask_told(const struct run_question *q)
{
	return (struct name_question){
		.id = q->id, .host = q->host, .port = q->port, .until = q->until
	};
}

/* On the record before it counts. */
static void run_ask_settle(struct run *r, size_t i, enum question_answer a, const char *word,
			   const char *by)
{
	struct run_question was = r->asks.v[i];
	struct name_question q = run_ask_told(&was);
	struct err e = { 0 };

	if (i == 0)
		hide(r, &was, word);
	r->asks.n--;
	memmove(&r->asks.v[i], &r->asks.v[i + 1], (r->asks.n - i) * sizeof(was));
	set_timer(r);
	if (recorder_answer(r->recorder, &q, word, by, &e) < 0) {
		run_unrecorded(r, &e);
		a = ANSWER_NO;
	}
	if (r->door && !egress_answer(r->door, was.id, a))
		run_door_lost(r, NULL);
	if (r->io.asker)
		r->io.asker->closed(r->io.asker->arg, &q, word, by);
}

/* One question after another; what cannot be shown has nobody to answer it. */
static void present(struct run *r)
{
	while (r->asks.n && r->io.terminal > 0 && !r->asks.shown && !run_ask_show(r))
		run_ask_settle(r, 0, ANSWER_LATE, "late", "nobody: the terminal could not be had");
}

void run_ask_open(struct run *r, const struct egress_event *ev)
{
	struct run_question *q = &r->asks.v[r->asks.n];
	struct name_question t;

	/* The worker reads hostile bytes: what it says is looked at again. */
	if (!egress_names_host(ev) || r->asks.n == ARRAY_LEN(r->asks.v) || r->ended ||
	    r->cancelled || (!r->io.asker && r->io.terminal <= 0)) {
		(void)egress_answer(r->door, ev->count, ANSWER_LATE);
		return;
	}
	*q = (struct run_question){ .id = ev->count,
				    .port = ev->port,
				    .until = clock_us() + QUESTION_US };
	(void)snprintf(q->host, sizeof(q->host), "%s", ev->host);
	r->asks.n++;
	set_timer(r);
	t = run_ask_told(q);
	if (r->io.asker)
		r->io.asker->opened(r->io.asker->arg, &t);
	present(r);
}

void run_ask_late(struct run *r)
{
	uint64_t now = clock_us();

	for (size_t i = r->asks.n; i-- > 0;)
		if (now >= r->asks.v[i].until)
			run_ask_settle(r, i, ANSWER_LATE, "late", "nobody");
	present(r);
	set_timer(r);
}

void run_ask_end(struct run *r)
{
	while (r->asks.n)
		run_ask_settle(r, r->asks.n - 1, ANSWER_LATE, "late", "nobody: the run is over");
}

static const struct {
	const char *word;
	enum question_answer answer;
} answers[] = {
	[RUN_ANSWER_NO] = { "no", ANSWER_NO },
	[RUN_ANSWER_ONCE] = { "once", ANSWER_ONCE },
	[RUN_ANSWER_RUN] = { "run", ANSWER_RUN },
	[RUN_ANSWER_ALWAYS] = { "always", ANSWER_RUN },
	[RUN_ANSWER_NOBODY] = { "late", ANSWER_LATE },
};

int run_answer(struct run *r, uint32_t id, enum run_answer a, const char *by, struct err *e)
{
	for (size_t i = 0; i < r->asks.n; i++)
		if (r->asks.v[i].id == id) {
			run_ask_settle(r, i, answers[a].answer, answers[a].word, by);
			present(r);
			return 0;
		}
	return err_refuse(e, ERR_USAGE, ENOENT, "ask for the open questions again",
			  "no question %u is open", id);
}

/* ---- typed ---- */

static void rule_of(const struct run_question *q, char *out, size_t n)
{
	char port[8] = "";

	if (q->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", q->port);
	(void)snprintf(out, n, "%s%s", q->host, port);
}

static void say_lines(const struct run *r, const char *text)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);

	for (const char *end; *text; text = end + (*end == '\n')) {
		end = strchrnul(text, '\n');
		buf_puts(&out, "    ");
		clean_put(&out, text, (size_t)(end - text));
		buf_puts(&out, "\r\n");
	}
	run_ask_put(r, buf_str(&out), out.len);
}

/* The change is shown before it is made; `writes`: it is made. false: it cannot be. */
static bool always(struct run *r, bool writes)
{
	CLEANUP(buf) struct buf diff = BUF_INIT(TEXT_MAX);
	struct err e = { 0 };
	char rule[300];

	rule_of(&r->asks.v[0], rule, sizeof(rule));
	if (r->io.always && r->io.always(r->io.always_arg, rule, writes, &diff, &e) == 0) {
		if (!writes)
			say_lines(r, buf_str(&diff));
		return true;
	}
	say_lines(r, r->io.always ? e.what : "your settings cannot be changed from here");
	if (e.hint[0])
		say_lines(r, e.hint);
	return false;
}

static void ask_again(struct run *r, bool confirms)
{
	run_ask_say(r, confirms
			       ? "Type yes and press Enter to write this; anything else goes back: "
			       : "Type once, run, always or no and press Enter: ");
	prompt_begin(&r->asks.prompt, confirms, clock_us());
}

static void obey(struct run *r, enum prompt_word w)
{
	static const enum run_answer plain[] = { [PROMPT_NO] = RUN_ANSWER_NO,
						 [PROMPT_ONCE] = RUN_ANSWER_ONCE,
						 [PROMPT_RUN] = RUN_ANSWER_RUN,
						 [PROMPT_YES] = RUN_ANSWER_ALWAYS };
	struct err e;
	char by[96];

	if (w == PROMPT_NONE)
		return;
	if (w == PROMPT_ALWAYS)
		ask_again(r, always(r, false));
	else if (w == PROMPT_NO && r->asks.prompt.confirms)
		ask_again(r, false);
	else if (w == PROMPT_YES && !always(r, true))
		ask_again(r, false);
	else
		(void)run_answer(r, r->asks.v[0].id, plain[w], who(by, sizeof(by)), &e);
}

void run_ask_type(struct run *r)
{
	CLEANUP(buf) struct buf echo = BUF_INIT(TEXT_MAX);
	enum prompt_word w;
	char data[256];
	ssize_t n = read(r->io.terminal, data, sizeof(data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* the window is gone */
		run_hang_up(r);
		return;
	}
	if (r->master >= 0 && keys_leave(&r->in.keys, data, (size_t)n, clock_us())) {
		run_leave(r);
		return;
	}
	w = prompt_type(&r->asks.prompt, data, (size_t)n, clock_us(), &echo);
	run_ask_put(r, buf_str(&echo), echo.len);
	obey(r, w);
}

int run_ask_fd(const struct run *r)
{
	return r->asks.shown && !r->ended ? r->io.terminal : -1;
}

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

/* Only the command of a run can have a person at a terminal. 0: there is none. */
static int person_at(const struct sandbox *s)
{
	return s->only ? s->only->io.terminal : 0;
}

static bool has_screen(const struct sandbox *s)
{
	return s->only && s->only->master >= 0;
}

int run_ask_check(struct sandbox *s, struct err *e)
{
	if (!s->spec->egress.ask || s->spec->network != NETWORK_PROXY || s->asker ||
	    person_at(s) > 0)
		return 0;
	if (s->spec->origin[FIELD_EGRESS_ASK] == ORIGIN_FLAG)
		return err_refuse(e, ERR_USAGE, ENOTTY,
				  "leave it out, and allow hosts beforehand: --allow HOST",
				  "--ask: nobody is there to be asked: brig is not in the "
				  "foreground of a terminal");
	run_open_tell(s,
		      "egress.ask: nobody is there to be asked, so names that no rule allows are "
		      "refused");
	return 0;
}

/* ---- at the terminal ---- */

static void run_ask_put(const struct sandbox *s, const char *text, size_t n)
{
	(void)!write(person_at(s), text, n);
}

static void run_ask_say(const struct sandbox *s, const char *text)
{
	run_ask_put(s, text, strlen(text));
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

/* *waits: something was typed already, which is gone. */
static bool take_terminal(struct sandbox *s, bool *waits)
{
	struct termios t;
	int n = 0;

	if (tcgetpgrp(person_at(s)) != getpgrp() || tcgetattr(person_at(s), &t) < 0)
		return false;
	s->asks.before = t;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	s->asks.changed = tcsetattr(person_at(s), TCSANOW, &t) == 0;
	*waits = false;
	if (s->asks.changed && ioctl(person_at(s), FIONREAD, &n) == 0)
		*waits = n > 0;
	return s->asks.changed && tcflush(person_at(s), TCIFLUSH) == 0;
}

static void give_back(struct sandbox *s)
{
	if (s->asks.changed)
		(void)tcsetattr(person_at(s), TCSANOW, &s->asks.before);
	s->asks.changed = false;
}

/* The first of them; false: nobody can have seen it. */
static bool run_ask_show(struct sandbox *s)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	const struct run_question *q = &s->asks.v[0];
	bool waits = false;

	if (!take_terminal(s, &waits)) {
		give_back(s);
		return false;
	}
	s->asks.painted = run_is_painted(s->only);
	if (has_screen(s))
		buf_puts(&text, LEGIBLE);
	buf_puts(&text, s->asks.painted ? FRESH_SCREEN : FRESH_LINE);
	prompt_text(q->host, q->port, (unsigned)s->asks.n - 1, &text);
	prompt_begin(&s->asks.prompt, false, clock_us());
	if (waits)
		prompt_dropped(&s->asks.prompt, &text);
	if (text.failed || write(person_at(s), text.data, text.len) != (ssize_t)text.len) {
		give_back(s);
		return false;
	}
	s->asks.shown = true;
	return true;
}

/* A program that paints is made to do so anew, as after a change of the window's size. */
static void repaint(struct sandbox *s)
{
	struct winsize w;

	if (ioctl(person_at(s), TIOCGWINSZ, &w) < 0 || w.ws_row < 2)
		return;
	run_resize(s->only, (unsigned short)(w.ws_row - 1), w.ws_col);
	run_resize(s->only, w.ws_row, w.ws_col);
}

static void hide(struct sandbox *s, const struct run_question *q, const char *word)
{
	char line[400];

	if (!s->asks.shown)
		return;
	s->asks.shown = false;
	if (has_screen(s))
		run_ask_say(s, KEYS_BACK);
	(void)snprintf(line, sizeof(line), "%sbrig: %s:%u: %s\r\n",
		       str_eq(word, "late") ? "\r\n" : "", q->host, q->port, word);
	run_ask_say(s, s->asks.painted ? FRESH_SCREEN : line);
	give_back(s);
	if (s->asks.painted)
		repaint(s);
}

/* ---- answers ---- */

static void set_timer(struct sandbox *s)
{
	uint64_t at = 0;

	for (size_t i = 0; i < s->asks.n; i++)
		if (!at || s->asks.v[i].until < at)
			at = s->asks.v[i].until;
	loop_at(s->loop, &s->late.t, at);
}

static struct name_question run_ask_told(const struct run_question *q)
{
	return (struct name_question){
		.id = q->id, .host = q->host, .port = q->port, .until = q->until
	};
}

/* On the record before it counts. */
static void run_ask_settle(struct sandbox *s, size_t i, enum question_answer a, const char *word,
			   const char *by)
{
	struct run_question was = s->asks.v[i];
	struct name_question q = run_ask_told(&was);
	struct err e = { 0 };

	if (i == 0)
		hide(s, &was, word);
	s->asks.n--;
	memmove(&s->asks.v[i], &s->asks.v[i + 1], (s->asks.n - i) * sizeof(was));
	set_timer(s);
	if (recorder_answer(s->recorder, &q, word, by, &e) < 0) {
		run_unrecorded(s, &e);
		a = ANSWER_NO;
	}
	if (s->door && !egress_answer(s->door, was.id, a))
		run_door_lost(s, NULL);
	if (s->asker)
		s->asker->closed(s->asker->arg, &q, word, by);
}

/* One question after another; what cannot be shown has nobody to answer it. */
static void present(struct sandbox *s)
{
	while (s->asks.n && person_at(s) > 0 && !s->asks.shown && !run_ask_show(s))
		run_ask_settle(s, 0, ANSWER_LATE, "late", "nobody: the terminal could not be had");
}

void run_ask_open(struct sandbox *s, const struct egress_event *ev)
{
	struct run_question *q = &s->asks.v[s->asks.n];
	struct name_question t;

	/* The worker reads hostile bytes: what it says is looked at again. */
	if (!egress_names_host(ev) || s->asks.n == ARRAY_LEN(s->asks.v) || s->ended ||
	    s->cancelled || (!s->asker && person_at(s) <= 0)) {
		(void)egress_answer(s->door, ev->count, ANSWER_LATE);
		return;
	}
	*q = (struct run_question){ .id = ev->count,
				    .port = ev->port,
				    .until = clock_us() + QUESTION_US };
	(void)snprintf(q->host, sizeof(q->host), "%s", ev->host);
	s->asks.n++;
	set_timer(s);
	t = run_ask_told(q);
	if (s->asker)
		s->asker->opened(s->asker->arg, &t);
	present(s);
}

void run_ask_late(struct sandbox *s)
{
	uint64_t now = clock_us();

	for (size_t i = s->asks.n; i-- > 0;)
		if (now >= s->asks.v[i].until)
			run_ask_settle(s, i, ANSWER_LATE, "late", "nobody");
	present(s);
	set_timer(s);
}

void run_ask_end(struct sandbox *s)
{
	while (s->asks.n)
		run_ask_settle(s, s->asks.n - 1, ANSWER_LATE, "late", "nobody: the run is over");
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

static int no_question(uint32_t id, struct err *e)
{
	return err_refuse(e, ERR_USAGE, ENOENT, "ask for the open questions again",
			  "no question %u is open", id);
}

int run_open_answer(struct sandbox *s, uint32_t id, enum run_answer a, const char *by,
		    struct err *e)
{
	for (size_t i = 0; i < s->asks.n; i++)
		if (s->asks.v[i].id == id) {
			run_ask_settle(s, i, answers[a].answer, answers[a].word, by);
			present(s);
			return 0;
		}
	return no_question(id, e);
}

/* ---- typed ---- */

static void rule_of(const struct run_question *q, char *out, size_t n)
{
	char port[8] = "";

	if (q->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", q->port);
	(void)snprintf(out, n, "%s%s", q->host, port);
}

static void say_lines(const struct sandbox *s, const char *text)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);

	for (const char *end; *text; text = end + (*end == '\n')) {
		end = strchrnul(text, '\n');
		buf_puts(&out, "    ");
		clean_put(&out, text, (size_t)(end - text));
		buf_puts(&out, "\r\n");
	}
	run_ask_put(s, buf_str(&out), out.len);
}

/* The change is shown before it is made; `writes`: it is made. false: it cannot be. */
static bool always(struct sandbox *s, bool writes)
{
	CLEANUP(buf) struct buf diff = BUF_INIT(TEXT_MAX);
	struct err e = { 0 };
	char rule[300];

	rule_of(&s->asks.v[0], rule, sizeof(rule));
	if (s->only->io.always &&
	    s->only->io.always(s->only->io.always_arg, rule, writes, &diff, &e) == 0) {
		if (!writes)
			say_lines(s, buf_str(&diff));
		return true;
	}
	say_lines(s, s->only->io.always ? e.what : "your settings cannot be changed from here");
	if (e.hint[0])
		say_lines(s, e.hint);
	return false;
}

static void ask_again(struct sandbox *s, bool confirms)
{
	run_ask_say(s, confirms
			       ? "Type yes and press Enter to write this; anything else goes back: "
			       : "Type once, run, always or no and press Enter: ");
	prompt_begin(&s->asks.prompt, confirms, clock_us());
}

static void obey(struct sandbox *s, enum prompt_word w)
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
		ask_again(s, always(s, false));
	else if (w == PROMPT_NO && s->asks.prompt.confirms)
		ask_again(s, false);
	else if (w == PROMPT_YES && !always(s, true))
		ask_again(s, false);
	else
		(void)run_open_answer(s, s->asks.v[0].id, plain[w], who(by, sizeof(by)), &e);
}

void run_ask_type(struct sandbox *s)
{
	CLEANUP(buf) struct buf echo = BUF_INIT(TEXT_MAX);
	enum prompt_word w;
	char data[256];
	ssize_t n = read(person_at(s), data, sizeof(data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* the window is gone */
		run_hang_up(s->only);
		return;
	}
	if (has_screen(s) && keys_leave(&s->only->in.keys, data, (size_t)n, clock_us())) {
		run_leave(s->only);
		return;
	}
	w = prompt_type(&s->asks.prompt, data, (size_t)n, clock_us(), &echo);
	run_ask_put(s, buf_str(&echo), echo.len);
	obey(s, w);
}

int run_answer(struct command_run *r, uint32_t id, enum run_answer a, const char *by, struct err *e)
{
	/* Where a command has joined a sandbox, the sandbox is asked. */
	return r->joins ? no_question(id, e) : run_open_answer(r->of, id, a, by, e);
}

int run_ask_fd(const struct sandbox *s)
{
	return s->asks.shown && !s->ended ? person_at(s) : -1;
}

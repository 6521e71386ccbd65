/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/apps/agent_confirm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/clean.h"
#include "base/text/str.h"

#define CONFIRM_MAX ((size_t)16 << 10) /* what somebody can be asked to read */
#define RUN_LONGEST 8                  /* of one character, before it is folded */
#define EARLY_NS 300000000L            /* nobody reads a question faster */
#define MARGIN "  | "
#define NARROWEST 20
#define LOWEST 10 /* lines of a terminal */

/* ---- what it is ---- */

/* All of it, as the tool will read it: \u0072 is an r. false: it cannot be shown whole. */
static bool call_whole(const struct chat_call *c, struct buf *b)
{
	CLEANUP(jread) struct jread *args = NULL;
	CLEANUP(mem) char *text = NULL;
	struct err unused;

	if (jread_parse(buf_str(&c->args), c->args.len, &args, &unused) == 0)
		text = jread_dump(args);
	clean_put(b, c->name, strlen(c->name));
	buf_putc(b, ' ');
	if (text)
		clean_put_json(b, text, strlen(text));
	return text && !b->failed;
}

struct confirm_text {
	struct buf text;
	size_t count, width, at; /* columns; where the next character comes */
};

static void agent_confirm_next_line(struct confirm_text *l)
{
	buf_puts(&l->text, l->count ? "\n" MARGIN : MARGIN);
	l->count++;
	l->at = 0;
}

/* Characters beyond ASCII may be two columns wide. */
static size_t columns(const char *p, size_t n)
{
	size_t c = 0;

	for (size_t i = 0; i < n; i++)
		c += (p[i] & 0x80) ? ((p[i] & 0xc0) != 0x80) * 2U : 1U;
	return c;
}

static void agent_confirm_put(struct confirm_text *l, const char *p, size_t n)
{
	size_t wide = columns(p, n);

	if (l->at + wide > l->width)
		agent_confirm_next_line(l);
	buf_add(&l->text, p, n);
	l->at += wide;
}

/* One character, or an escape of JSON. */
static size_t unit(const char *p)
{
	size_t left = strlen(p), n = utf8_len(p, left);

	if (p[0] == '\\' && left > 1)
		n = p[1] == 'u' ? 6 : 2;
	return !n ? 1 : n < left ? n : left;
}

/* Where a shell begins another command. */
static bool ends_command(const char *p, size_t n, size_t times)
{
	return *p == ';' || (n == 2 && p[0] == '\\' && p[1] == 'n') ||
	       ((*p == '&' || *p == '|') && times == 2);
}

static void put_run(struct confirm_text *l, const char *p, size_t n, size_t times)
{
	char note[64];

	if (times <= RUN_LONGEST) {
		for (size_t i = 0; i < times; i++)
			agent_confirm_put(l, p, n);
		return;
	}
	if (*p == ' ')
		(void)snprintf(note, sizeof(note), "<%zu blanks>", times);
	else
		(void)snprintf(note, sizeof(note), "<%.*s %zu times>", (int)n, p, times);
	agent_confirm_put(l, note, strlen(note));
}

static void lay_out(struct confirm_text *l, const char *p)
{
	agent_confirm_next_line(l);
	for (size_t n, times; *p; p += n * times) {
		n = unit(p);
		for (times = 1; strncmp(p, p + n * times, n) == 0; times++)
			;
		put_run(l, p, n, times);
		if (ends_command(p, n, times) && p[n * times])
			agent_confirm_next_line(l);
	}
	buf_putc(&l->text, '\n');
}

/* ---- the question ---- */

static void agent_confirm_say(int tty, const char *text, size_t n)
{
	(void)fd_write_all(tty, text, n);
}

/* Is the answer one of these words? Nobody's answer is another one. */
static bool agent_confirm_ask(int tty, const char *question, const char *const *words)
{
	static const char again[] = "\nbrig: what was typed before the question does not count\n";
	const struct timespec early = { .tv_nsec = EARLY_NS };
	char line[32];
	ssize_t n;

	for (;;) {
		agent_confirm_say(tty, question, strlen(question));
		(void)nanosleep(&early, NULL);
		if (!wait_look(tty, POLLIN))
			break;
		if (tcflush(tty, TCIFLUSH) < 0)
			return false;
		agent_confirm_say(tty, again, sizeof(again) - 1);
	}
	/* Half a line does not count either. */
	if (tcflush(tty, TCIFLUSH) < 0)
		return false;
	n = read(tty, line, sizeof(line) - 1);
	if (n <= 0 || line[n - 1] != '\n')
		return false;
	line[n - 1] = '\0';
	for (; *words; words++)
		if (str_eq(line, *words))
			return true;
	return false;
}

/* As many lines as are seen at a time; what they are followed by. */
static const char *show_page(int tty, const char *p, size_t lines)
{
	const char *end = p;

	while (lines-- && *end)
		end = strchr(end, '\n') + 1;
	agent_confirm_say(tty, p, (size_t)(end - p));
	return end;
}

static bool ask_long(int tty, const struct confirm_text *l, size_t page)
{
	static const char *const more[] = { "", NULL }, *const run[] = { "run", NULL };
	const char *p = buf_str(&l->text);
	size_t shown = 0;
	char question[160];

	for (;;) {
		p = show_page(tty, p, page);
		shown += page;
		if (!*p)
			break;
		(void)snprintf(question, sizeof(question),
			       "%zu of %zu lines. Enter: the next ones; anything else: do not run "
			       "it ",
			       shown, l->count);
		if (!agent_confirm_ask(tty, question, more))
			return false;
	}
	(void)snprintf(question, sizeof(question),
		       "All %zu lines were shown. Type run to run it; anything else: no ",
		       l->count);
	return agent_confirm_ask(tty, question, run);
}

bool agent_confirm(const struct chat_call *c)
{
	static const char *const yes[] = { "y", "Y", "yes", NULL };
	static const char cannot[] = "brig: a command that cannot be shown whole is not run\n";
	CLEANUP(buf) struct buf b = BUF_INIT(CONFIRM_MAX);
	CLEANUP(fd) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct confirm_text l = { .text = BUF_INIT(CONFIRM_MAX * 8) };
	struct winsize w = { 0 };
	bool agreed = false;

	if (tty < 0)
		return false;
	if (ioctl(tty, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	l.width = (w.ws_col < NARROWEST ? NARROWEST : w.ws_col) - sizeof(MARGIN);
	if (call_whole(c, &b))
		lay_out(&l, buf_str(&b));
	if (!l.count || l.text.failed) {
		agent_confirm_say(tty, cannot, sizeof(cannot) - 1);
	} else if (l.count <= (w.ws_row < LOWEST ? LOWEST : w.ws_row) / 2U) {
		agent_confirm_say(tty, l.text.data, l.text.len);
		agreed = agent_confirm_ask(tty, "Run it? [y/N] ", yes);
	} else {
		agreed = ask_long(tty, &l, (w.ws_row < LOWEST ? LOWEST : w.ws_row) / 2U);
	}
	buf_done(&l.text);
	return agreed;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/cli.h"

#define LATER_US 500000
#define EVERY_US 100000
#define COLUMNS 79 /* of the narrowest terminal, but one */

/* Megabytes with one digit behind the point: enough to see it move. */
static void megabytes(uint64_t bytes, char out[32])
{
	(void)snprintf(out, 32, "%llu.%llu MB", (unsigned long long)(bytes / 1000000),
		       (unsigned long long)(bytes / 100000 % 10));
}

void progress_line(const char *text)
{
	CLEANUP(buf) struct buf line = BUF_INIT(4096);

	if (!isatty(STDERR_FILENO))
		return;
	clean_put(&line, text, strlen(text));
	(void)fprintf(stderr, "\r\033[K%.*s", COLUMNS, buf_str(&line));
}

void progress_note(void *told, const char *text)
{
	bool *before = told;

	if (isatty(STDERR_FILENO))
		progress_line(text);
	else if (!*before || !str_starts(text, "pulling "))
		message_print("brig: note", text);
	*before = true;
}

void progress_clear(void)
{
	if (isatty(STDERR_FILENO))
		(void)fputs("\r\033[K", stderr);
}

void progress_begin(struct progress *p, const char *what, uint64_t all, bool quiet)
{
	*p = (struct progress){ .what = what, .all = all, .began_us = clock_us() };
	p->off = quiet || !isatty(STDERR_FILENO);
}

void progress_add(struct progress *p, uint64_t bytes)
{
	char now[32], all[32], line[128];
	uint64_t us;

	p->now += bytes;
	if (p->off)
		return;
	us = clock_us();
	if (us - p->began_us < LATER_US || us - p->told_us < EVERY_US)
		return;
	p->told_us = us;
	p->shown = true;
	megabytes(p->now, now);
	megabytes(p->all, all);
	if (p->all)
		(void)snprintf(line, sizeof(line), "%s: %s of %s (%llu %%)", p->what, now, all,
			       (unsigned long long)(p->now < p->all ? p->now * 100 / p->all : 100));
	else
		(void)snprintf(line, sizeof(line), "%s: %s", p->what, now);
	progress_line(line);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		progress_clear();
	p->off = true;
}

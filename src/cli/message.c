/* SPDX-License-Identifier: Apache-2.0 */
/* cli/message.c - the one place where brig speaks on stderr.
 *
 * Connected to the journal, every line carries its priority in front, as sd-daemon(3) documents; a
 * service manager says so with JOURNAL_STREAM, which names the stream that descriptor 2 must be. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/cli.h"

static bool to_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char mine[64];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	(void)snprintf(mine, sizeof(mine), "%llu:%llu", (unsigned long long)st.st_dev,
		       (unsigned long long)st.st_ino);
	return str_eq(stream, mine);
}

/* Names in a message may have been chosen inside the sandbox, or quoted from a file. */
void message_log(enum priority level, const char *head, const char *text)
{
	CLEANUP(buf) struct buf line = BUF_INIT((size_t)64 << 10);

	if (to_journal())
		buf_printf(&line, "<%d>", (int)level);
	buf_printf(&line, "%s: ", head);
	clean_put(&line, text, strlen(text));
	buf_putc(&line, '\n');
	(void)fputs(buf_str(&line), stderr);
}

void message_answer(const char *head, const char *text)
{
	CLEANUP(buf) struct buf line = BUF_INIT((size_t)64 << 10);

	clean_put(&line, head, strlen(head));
	buf_puts(&line, ": ");
	clean_put(&line, text, strlen(text));
	buf_putc(&line, '\n');
	(void)fputs(buf_str(&line), stdout);
}

void message_print(const char *head, const char *text)
{
	static const struct {
		const char *head;
		enum priority level;
	} levels[] = { { "hint", PRIORITY_INFO }, { "brig: note", PRIORITY_NOTICE } };
	enum priority level = PRIORITY_ERROR;

	for (size_t i = 0; i < ARRAY_LEN(levels); i++)
		if (str_eq(head, levels[i].head))
			level = levels[i].level;
	message_log(level, head, text);
}

/* For what the machine refused, wherever that was. */
static const char *machine_hint(const struct err *e)
{
	static const struct {
		int code;
		const char *hint;
	} rows[] = {
		{ ETOOMANYREFS,
		  "a program of yours has too many descriptors on their way: end it, or "
		  "raise the limit on open files" },
		{ EMFILE, "raise the caller's limit on open files: ulimit -n 1024" },
		{ ENFILE, "raise the machine's limit on open files: sysctl fs.file-max" },
		{ EAGAIN, "the caller's limit on processes is reached: ulimit -u" },
		{ EFBIG, "raise the caller's limit on the size of files: ulimit -f unlimited" },
		{ ENOSPC, "make room on that file system" },
		{ EADDRINUSE, "another program listens there: end it, or choose another port" },
		{ EDQUOT, "make room within the quota on that file system" },
		{ EROFS, "that file system is mounted read-only" },
		{ ENOMEM, "the machine, or the cgroup around brig, has no memory left" },
	};

	for (size_t i = 0; e->kind == ERR_INTERNAL && i < ARRAY_LEN(rows); i++)
		if (rows[i].code == e->code)
			return rows[i].hint;
	return NULL;
}

void error_print(const struct err *e)
{
	const char *hint = e->hint[0] ? e->hint : machine_hint(e);

	message_print("brig", e->what);
	if (hint)
		message_print("hint", hint);
}

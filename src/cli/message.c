/* SPDX-License-Identifier: Apache-2.0 */
/* cli/message.c - the one place where brig speaks on stderr.
 *
 * Connected to the journal, every line carries its priority in front, as sd-daemon(3) documents; a
 * service manager says so with JOURNAL_STREAM, which names the stream that descriptor 2 must be. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clean.h"
#include "base/str.h"
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

void error_print(const struct err *e)
{
	message_print("brig", e->what);
	if (e->hint[0])
		message_print("hint", e->hint);
}

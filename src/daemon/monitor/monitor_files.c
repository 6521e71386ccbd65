/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_files.c - operations on files, passed on: a monitor sees neither their
 * bytes nor their end. */
#include <errno.h>
#include <sys/mman.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "daemon/monitor/monitor_internal.h"
#include "proc/files/files.h"
#include "proc/order.h"
#include "sandbox/manager.h"

enum { WORDS_MAX = 16 };

static int monitor_files_pass_on(struct monitor *m, const int *fds, size_t n, uint32_t *number,
				 struct err *e)
{
	int ends[FILE_ENDS] = { -1, -1, -1 }, r = -EPROTO;
	const char *words[WORDS_MAX], *data = NULL;
	struct order o;
	size_t size = 0, count;

	for (size_t i = 1; i < n && i <= FILE_ENDS; i++)
		ends[i - 1] = fds[i];
	if (!order_map(fds[0], &data, &size))
		return r;
	count = order_words(data, size);
	if (m->stage != MONITOR_IS_OPEN)
		r = -EBUSY;
	else if (count && count <= WORDS_MAX && order_read(data, size, words, &o))
		r = sandbox_files(m->sandbox, o.argv, ends, number, e);
	(void)munmap((void *)(uintptr_t)data, size);
	return r;
}

void files_ask(struct monitor *m, const struct monitor_client *c, const struct monitor_ask *q,
	       const int *fds, size_t n)
{
	struct monitor_file *f = &m->files[m->file_next++ % MONITOR_FILE_OPS];
	uint32_t number = 0;
	struct err e = { 0 };
	int r;

	if (n < 1 + FILE_END_WORD)
		return;
	r = monitor_files_pass_on(m, fds, n, &number, &e);
	if (r < 0)
		file_refuse(fds[1 + FILE_END_ANSWERS], -r);
	*f = (struct monitor_file){ .by = c, .id = q->value, .number = number };
	/* Whoever copies files is not idle. */
	loop_at(m->loop, &m->idle, 0);
	monitor_rest(m);
}

void files_end(struct monitor *m, const struct monitor_client *c, uint64_t id)
{
	for (size_t i = 0; m->sandbox && i < MONITOR_FILE_OPS; i++)
		if (m->files[i].by == c && m->files[i].id == id && m->files[i].number)
			sandbox_end_command(m->sandbox, m->files[i].number);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_name.c - what the record calls a sandbox: its name, else its id. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "daemon/monitor/monitor_internal.h"
#include "model/settings/spec.h"

#define STATE_MAX ((size_t)1 << 20)

/* The last line that is whole, as the daemon itself reads them. */
static struct jread *read_state(const struct monitor *m)
{
	CLEANUP(mem) char *text = malloc(STATE_MAX);
	ssize_t n = text ? fd_read_file(m->folder, MONITOR_STATE, text, STATE_MAX) : -1;
	char *end = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;
	struct jread *v = NULL;

	while (end) {
		char *before = memrchr(text, '\n', (size_t)(end - text)),
		     *line = before ? before + 1 : text;
		struct err e;

		if (jread_parse(line, (size_t)(end - line), &v, &e) == 0)
			return v;
		end = before;
	}
	return NULL;
}

int monitor_name(const struct monitor *m, struct spec *s, struct err *e)
{
	CLEANUP(jread) struct jread *v = read_state(m);
	const char *name = v ? jread_str(v, "name") : NULL;

	s->audit.name = arena_strdup(s->arena, name && *name ? name : m->id);
	return s->audit.name ? 0 : err_nomem(e);
}

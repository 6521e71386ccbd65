/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_show.c - what the registry tells of its sandboxes: one, a list, how many.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"

enum problem sandboxes_show(struct sandboxes *s, const char *tenant, const char *ref, bool redacted,
			    struct json *j, struct err *e)
{
	const struct sandbox_entry *b = entry_find(s, tenant, ref);

	if (!b)
		return entry_missing(ref, e);
	entry_show(b, redacted, j);
	return PROBLEM_NONE;
}

enum problem sandboxes_failure(struct sandboxes *s, const char *ref, struct err *e)
{
	const struct sandbox_entry *b = entry_find(s, "", ref);

	if (!b)
		return entry_missing(ref, e);
	if (b->state == STATE_READY)
		return PROBLEM_NONE;
	if (b->state != STATE_FAILED)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' is %s", b->id,
				   state_word(b->state));
	*e = b->error;
	return problem_of(e);
}

/* By its pidfd: the kernel names it, or says -1 when it is gone. */
static pid_t pid_of(int pidfd)
{
	char path[64], text[512];
	const char *at;
	int64_t pid = 0;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	if (pidfd < 0 || fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "\nPid:");
	pid = at ? strtol(at + 5, NULL, 10) : 0;
	return pid > 0 ? (pid_t)pid : 0;
}

enum problem sandboxes_known_as(struct sandboxes *s, const char *tenant, const char *ref,
				struct sandbox_known *ret, struct err *e)
{
	const struct sandbox_entry *b = entry_find(s, tenant, ref);
	CLEANUP(fd) int folder = b ? entry_folder(b) : -1;
	char first[sizeof(ret->processes) - 16];

	if (!b)
		return entry_missing(ref, e);
	entry_run(b, ret->run);
	if (b->link.fd < 0 || folder < 0 ||
	    fd_read_file(folder, MONITOR_FIRST, first, sizeof(first)) <= 0)
		(void)snprintf(first, sizeof(first), "-");
	if (first[0] == '-')
		(void)snprintf(ret->processes, sizeof(ret->processes), "%d%s",
			       b->link.fd >= 0 ? (int)pid_of(b->proc.fd) : 0, first + 1);
	else
		(void)snprintf(ret->processes, sizeof(ret->processes), "%s", first);
	return PROBLEM_NONE;
}

enum problem sandboxes_log(struct sandboxes *s, const char *tenant, const char *ref,
			   struct buf *out, struct err *e)
{
	const struct sandbox_entry *b = entry_find(s, tenant, ref);
	CLEANUP(fd) int folder = b ? entry_folder(b) : -1;

	if (!b)
		return entry_missing(ref, e);
	if (folder >= 0)
		entry_read_text(folder, MONITOR_LOG, out);
	return PROBLEM_NONE;
}

static bool has_labels(const struct sandbox_entry *b, const struct label *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (b->labels[k] &&
		       !(str_eq(b->labels[k], l[i].key) && str_eq(b->labels[k + 1], l[i].value)))
			k += 2;
		if (!b->labels[k])
			return false;
	}
	return true;
}

bool sandboxes_state_is(const char *word)
{
	for (int i = 0; i < SANDBOX_STATES; i++)
		if (str_eq(word, state_word((enum sandbox_state)i)))
			return true;
	return false;
}

static bool chosen(const struct sandbox_entry *b, const struct sandbox_list *l)
{
	return entry_is_for(b, l->tenant) && has_labels(b, l->labels, l->label_count) &&
	       (!l->state || str_eq(l->state, state_word(b->state)));
}

/* The place of the first one after that id; NULL: of the first. */
static size_t place_after(const struct sandboxes *s, const char *id)
{
	size_t at = id ? entries_place(s, id) : 0;

	return at + (id && at < s->count && str_eq(s->all[at]->id, id));
}

void sandboxes_each(const struct sandboxes *s, const struct sandbox_list *l,
		    void (*each)(void *arg, const char *id), void *arg)
{
	char id[SANDBOX_ID_SIZE];

	for (size_t at = 0; at < s->count; at = place_after(s, id)) {
		(void)snprintf(id, sizeof(id), "%s", s->all[at]->id);
		if (chosen(s->all[at], l))
			each(arg, id);
	}
}

void sandboxes_list(struct sandboxes *s, const struct sandbox_list *l, struct json *j,
		    char next[SANDBOX_ID_SIZE])
{
	size_t at = place_after(s, l->after), shown = 0;

	next[0] = '\0';
	json_array(j);
	for (const char *last = NULL; at < s->count; at++) {
		const struct sandbox_entry *b = s->all[at];

		if (!chosen(b, l))
			continue;
		if (shown == l->limit) {
			(void)snprintf(next, SANDBOX_ID_SIZE, "%s", last ? last : "");
			break;
		}
		entry_show(b, l->redacted, j);
		last = b->id;
		shown++;
	}
	json_array_end(j);
}

void sandboxes_count(const struct sandboxes *s, const char *tenant, struct sandbox_count *ret)
{
	*ret = (struct sandbox_count){ 0 };
	for (size_t i = 0; i < s->count; i++) {
		const struct sandbox_entry *b = s->all[i];
		size_t *const counts[] = {
			[STATE_PENDING] = &ret->pending, [STATE_READY] = &ret->ready,
			[STATE_FAILED] = &ret->failed,   [STATE_PAUSED] = &ret->paused,
			[STATE_STOPPED] = &ret->stopped, [STATE_DELETING] = &ret->stopped
		};

		if (tenant && !str_eq(b->tenant, tenant))
			continue;
		*counts[b->state] += 1;
		ret->execs_running += b->exec_count;
	}
}

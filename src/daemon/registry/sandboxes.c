/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandboxes.c - the registry: which sandboxes there are, and what may be asked of
 * them.
 *
 * pending -> ready <-> paused, from each of them -> stopped -> ready; failed; deleting. A state is
 * on disk before any client is told of it. What an earlier daemon left is brought into one of these
 * states when its folder is read. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"
#include "daemon/shared/sandbox_id.h"

#define FOLDER "sandboxes"
#define SOCKETS "sockets"
#define LOOK_AGAIN_US ((uint64_t)50 * 1000)

/* ---- finding ---- */

size_t entries_place(const struct sandboxes *s, const char *id)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(s->all[mid]->id, id) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool entry_is_for(const struct sandbox_entry *b, const char *tenant)
{
	return !*tenant || str_eq(b->tenant, tenant);
}

struct sandbox_entry *entry_find(struct sandboxes *s, const char *tenant, const char *ref)
{
	size_t at;

	if (id_is(SANDBOX_ID, ref)) {
		at = entries_place(s, ref);
		return at < s->count && str_eq(s->all[at]->id, ref) &&
				       entry_is_for(s->all[at], tenant)
			       ? s->all[at]
			       : NULL;
	}
	/* A name belongs to one tenant; the daemon's owner, tenant "", has names of his own. */
	for (at = 0; *ref && at < s->count; at++)
		if (str_eq(s->all[at]->name, ref) && str_eq(s->all[at]->tenant, tenant))
			return s->all[at];
	return NULL;
}

enum problem entry_missing(const char *ref, struct err *e)
{
	(void)problem_say(PROBLEM_NOT_FOUND, e, "there is no sandbox '%.80s'", ref);
	(void)err_hint(e, "brig sandbox list shows those that there are");
	return PROBLEM_NOT_FOUND;
}

static int entries_add(struct sandboxes *s, struct sandbox_entry *b)
{
	size_t at = entries_place(s, b->id);

	if (s->count == s->room) {
		size_t n = s->room ? s->room * 2 : 64;
		struct sandbox_entry **more = realloc(s->all, n * sizeof(struct sandbox_entry *));

		if (!more)
			return -ENOMEM;
		s->all = more;
		s->room = n;
	}
	memmove(&s->all[at + 1], &s->all[at], (s->count - at) * sizeof(struct sandbox_entry *));
	s->all[at] = b;
	s->count++;
	return 0;
}

static void take_out(struct sandboxes *s, const struct sandbox_entry *b)
{
	size_t at = entries_place(s, b->id);

	if (at == s->count || s->all[at] != b)
		return;
	s->count--;
	memmove(&s->all[at], &s->all[at + 1], (s->count - at) * sizeof(struct sandbox_entry *));
}

/* ---- telling ---- */

static void entry_tell(const struct sandbox_entry *b, const char *event, const char *reason,
		       const char *data)
{
	const struct event_note n = { .type = event,
				      .tenant = b->tenant,
				      .sandbox = b->id,
				      .reason = reason && *reason ? reason : NULL,
				      .data = data };

	(void)events_add(b->s->events, &n);
}

void entry_becomes(struct sandbox_entry *b, enum sandbox_state state, const char *event,
		   const char *reason)
{
	struct err e = { 0 };

	b->state = state;
	b->since = clock_wall_us();
	if (reason != b->reason)
		(void)snprintf(b->reason, sizeof(b->reason), "%s", reason ? reason : "");
	if (state != STATE_FAILED && state != STATE_STOPPED)
		b->error = (struct err){ 0 };
	/* A disk that takes no more leaves an older state behind, which the next daemon corrects:
	 * it
	 * sees by the lock whether there is a monitor. */
	(void)entry_save(b, &e);
	entry_schedule(b);
	if (event)
		entry_tell(b, event, b->reason, NULL);
}

void entry_done(struct sandbox_entry *b, enum sandbox_verb verb, enum problem p,
		const struct err *e)
{
	struct verb_waiter **at = &b->waiters, *all = NULL;

	while (*at) {
		struct verb_waiter *w = *at;

		if (w->verb != verb) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = all;
		all = w;
	}
	while (all) {
		struct verb_waiter *w = all;

		all = w->next;
		w->done(w->arg, p, e);
		free(w);
	}
}

static int sandboxes_await(struct sandbox_entry *b, enum sandbox_verb verb, sandbox_done_fn *done,
			   void *arg)
{
	struct verb_waiter *w = done ? calloc(1, sizeof(*w)) : NULL;

	if (!done)
		return 0;
	if (!w)
		return -ENOMEM;
	*w = (struct verb_waiter){ .next = b->waiters, .verb = verb, .done = done, .arg = arg };
	b->waiters = w;
	return 0;
}

/* Its monitor holds the lock, so it lives, and does not listen yet. Until it does the daemon cannot
 * answer for it, and notes what it is to be told. */
static bool is_sought(const struct sandbox_entry *b)
{
	return b->unsure && b->link.fd < 0;
}

/* ---- the end of one ---- */

void entry_put_aside(const struct sandbox_entry *b)
{
	static const char *const names[] = { MONITOR_DATA, MONITOR_STORE, MONITOR_LAYER };
	bool any = false;

	(void)mkdirat(b->s->folder, MONITOR_ASIDE, 0700);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char from[SANDBOX_ID_SIZE + 16], to[SANDBOX_ID_SIZE + 32];

		(void)snprintf(from, sizeof(from), "%s/%s", b->id, names[i]);
		(void)snprintf(to, sizeof(to), MONITOR_ASIDE "/%s-%s", b->id, names[i]);
		any |= renameat(b->s->folder, from, b->s->folder, to) == 0;
	}
	if (any)
		link_tidy(b->s, CHORE_ASIDE);
	else
		(void)unlinkat(b->s->folder, MONITOR_ASIDE, AT_REMOVEDIR);
}

static void remove_files(const struct sandboxes *s, const char *id)
{
	(void)unlinkat(s->sockets, id, 0);
	(void)tree_remove(s->folder, id);
}

void entry_remove(struct sandbox_entry *b)
{
	struct sandboxes *s = b->s;

	entry_put_aside(b);
	remove_files(s, b->id);
	entry_tell(b, "sandbox.deleted", NULL, NULL);
	(void)snprintf(s->gone[s->gone_at], sizeof(s->gone[0]), "%s", b->id);
	(void)snprintf(s->gone_tenant[s->gone_at], sizeof(s->gone_tenant[0]), "%s", b->tenant);
	s->gone_at = (s->gone_at + 1) % SANDBOXES_GONE;
	take_out(s, b);
	entry_done(b, SANDBOX_DELETE, PROBLEM_NONE, NULL);
	entry_done(b, SANDBOX_STOP, PROBLEM_NONE, NULL);
	(void)entry_free(b);
}

static bool was_deleted(const struct sandboxes *s, const char *tenant, const char *ref)
{
	for (size_t i = 0; i < SANDBOXES_GONE; i++)
		if (*s->gone[i] && str_eq(s->gone[i], ref) &&
		    (!*tenant || str_eq(s->gone_tenant[i], tenant)))
			return true;
	return false;
}

static void on_due(struct loop_timer *t, uint64_t now UNUSED)
{
	struct sandbox_entry *b = CONTAINER_OF(t, struct sandbox_entry, due);
	struct err e;

	(void)sandboxes_do(b->s, "", b->id, SANDBOX_DELETE, 0, NULL, NULL, &e);
}

void entry_schedule(struct sandbox_entry *b)
{
	uint64_t now = clock_wall_us(), at = 0;
	bool over = b->state == STATE_STOPPED || b->state == STATE_FAILED;

	if (is_sought(b))
		return; /* the timer belongs to the search for its monitor */
	if (b->ttl)
		at = b->created + b->ttl * 1000;
	if (over && b->cleanup_ttl && (!at || b->since + b->cleanup_ttl * 1000 < at))
		at = b->since + b->cleanup_ttl * 1000;
	b->due.due = on_due;
	if (b->state == STATE_DELETING || (!over && b->link.fd >= 0))
		at = 0; /* a monitor knows its own time */
	loop_at(b->s->loop, &b->due, at ? clock_us() + (at > now ? at - now : 1) : 0);
}

/* ---- creating ---- */

static int sandboxes_make_folder(struct sandbox_entry *b, const struct sandbox_create *c,
				 int *folder, struct err *e)
{
	int r = mkdirat(b->s->folder, b->id, 0700) < 0 ? -errno : entry_lock(b, folder);

	if (r == 0)
		r = entry_write_text(*folder, MONITOR_SPEC, c->spec, c->spec_size);
	if (r == 0 && c->asked)
		r = entry_write_text(*folder, MONITOR_ASKED, c->asked, c->asked_size);
	if (r < 0)
		return err_errno(e, r, "cannot make a folder for the sandbox");
	return entry_save(b, e);
}

static void sandboxes_close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)fd_close(fds[i]);
}

static enum problem name_taken(const char *name, struct err *e)
{
	(void)problem_say(PROBLEM_NAME_TAKEN, e, "there is a sandbox '%s' already", name);
	(void)err_hint(e, "choose another name, or brig sandbox delete %s", name);
	return PROBLEM_NAME_TAKEN;
}

static enum problem check_create(struct sandboxes *s, const struct sandbox_create *c, struct err *e)
{
	if (c->name && !name_is(c->name))
		return problem_say(PROBLEM_INVALID, e,
				   "a name is 1 to 63 of a-z, 0-9, '.', '_' and '-', begins with a "
				   "letter or a digit, and not with '" SANDBOX_ID "'");
	if (c->name && entry_find(s, c->tenant, c->name))
		return name_taken(c->name, e);
	if (strlen(c->tenant) >= TENANT_SIZE || c->label_count > SANDBOX_LABELS)
		return problem_say(PROBLEM_TOO_LARGE, e, "a sandbox has at most %d labels",
				   SANDBOX_LABELS);
	if (c->spec_size > SPEC_MAX || c->secret_count > MONITOR_SECRETS)
		return problem_say(PROBLEM_TOO_LARGE, e, "the spec is too large");
	return PROBLEM_NONE;
}

static enum problem create(struct sandboxes *s, const struct sandbox_create *c,
			   struct sandbox_entry *b, struct err *e)
{
	CLEANUP(fd) int folder = -1;

	labels_free(b->labels);
	b->labels = NULL;
	if (labels_copy(c->labels, c->label_count, &b->labels) < 0)
		return problem_nomem(e);
	if (id_make(SANDBOX_ID, b->id, e) < 0)
		return PROBLEM_INTERNAL;
	(void)snprintf(b->name, sizeof(b->name), "%s", c->name ? c->name : "");
	(void)snprintf(b->tenant, sizeof(b->tenant), "%s", c->tenant);
	b->created = b->since = clock_wall_us();
	b->idle_ttl = c->idle_ttl;
	b->ttl = c->ttl;
	b->cleanup_ttl = c->cleanup_ttl;
	b->restart.on = c->restart;
	if (sandboxes_make_folder(b, c, &folder, e) < 0 || entries_add(s, b) < 0) {
		remove_files(s, b->id);
		return problem_of(e);
	}
	entry_tell(b, "sandbox.accepted", NULL, NULL);
	if (link_start(b, folder, c->secrets, c->secret_count, &b->error) < 0)
		link_lost(b);
	else
		entry_tell(b, "sandbox.preparing", NULL, NULL);
	return PROBLEM_NONE;
}

enum problem sandboxes_create(struct sandboxes *s, const struct sandbox_create *c,
			      char id[SANDBOX_ID_SIZE], struct err *e)
{
	enum problem p = check_create(s, c, e);
	struct sandbox_entry *b = p == PROBLEM_NONE ? entry_new(s) : NULL;

	if (p == PROBLEM_NONE && !b)
		p = problem_nomem(e);
	if (p == PROBLEM_NONE)
		p = create(s, c, b, e);
	if (p == PROBLEM_NONE)
		(void)snprintf(id, SANDBOX_ID_SIZE, "%s", b->id);
	else
		(void)entry_free(b);
	sandboxes_close_all(c->secrets, c->secret_count);
	return p;
}

/* ---- verbs ---- */

/* Whoever wanted it back hears that somebody else did not. */
static void unwant(struct sandbox_entry *b)
{
	struct err e = { 0 };

	if (!b->wanted)
		return;
	b->wanted = false;
	(void)err_set(&e, ERR_UNAVAILABLE, ECANCELED, "the sandbox was stopped meanwhile");
	entry_done(b, SANDBOX_RESUME, PROBLEM_SANDBOX_NOT_READY, &e);
}

static enum problem sandboxes_stop(struct sandbox_entry *b, uint64_t grace_ms, struct err *e)
{
	const struct monitor_ask q = { .asks = MONITOR_STOP, .value = grace_ms };

	if (is_sought(b)) { /* it is told when it is found */
		b->grace_ms = grace_ms;
		b->stopping = true;
		return PROBLEM_NONE;
	}
	if (b->link.fd < 0) { /* nothing runs */
		unwant(b);
		return PROBLEM_NONE;
	}
	if (b->opening && b->state == STATE_PENDING)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e,
				   "sandbox '%s' is not ready yet; delete ends it", b->id);
	if (b->opening && b->state == STATE_DELETING) {
		link_kill(b);
		return PROBLEM_NONE;
	}
	b->grace_ms = grace_ms;
	if (link_ask(b, &q, NULL, 0) < 0 && !link_is_away(b)) /* else it is told when it is back */
		link_kill(b);
	if (!b->stopping && b->state != STATE_DELETING)
		entry_tell(b, "sandbox.stopping", NULL, NULL);
	b->stopping = true;
	return PROBLEM_NONE;
}

static enum problem ask_pause(struct sandbox_entry *b, bool on, struct err *e)
{
	const struct monitor_ask q = { .asks = on ? MONITOR_PAUSE : MONITOR_CONTINUE };

	if (on && b->state == STATE_PAUSED)
		return PROBLEM_NONE;
	if (b->link.fd < 0 || b->opening || b->stopping)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' is %s", b->id,
				   b->stopping ? "stopping" : state_word(b->state));
	if (b->strange || link_ask(b, &q, NULL, 0) < 0)
		return problem_say(PROBLEM_UNSUPPORTED, e,
				   "the monitor of sandbox '%s' does not understand", b->id);
	if (on)
		entry_tell(b, "sandbox.pausing", NULL, NULL);
	return PROBLEM_NONE;
}

enum problem entry_resume(struct sandbox_entry *b, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	int r;

	if (b->opening || b->state == STATE_READY)
		return PROBLEM_NONE;
	if (b->state == STATE_PAUSED)
		return ask_pause(b, false, e);
	if (b->state != STATE_STOPPED)
		return problem_say(PROBLEM_CONFLICT, e, "sandbox '%s' is %s and cannot be resumed",
				   b->id, state_word(b->state));
	if (entry_is_dead(b)) { /* the tidier has its lock, or will */
		b->wanted = true;
		return PROBLEM_NONE;
	}
	r = entry_lock(b, &folder);
	if (r == -EWOULDBLOCK) {
		(void)problem_say(PROBLEM_CONFLICT, e, "sandbox '%s' is still ending", b->id);
		(void)err_hint(e, "what it left is being ended and judged: try again in a moment");
		return PROBLEM_CONFLICT;
	}
	if (r < 0)
		return err_errno(e, r, "cannot lock sandbox '%s'", b->id), PROBLEM_INTERNAL;
	if (link_start(b, folder, NULL, 0, e) < 0)
		return problem_of(e);
	entry_schedule(b);
	entry_tell(b, "sandbox.preparing", NULL, NULL);
	return PROBLEM_NONE;
}

static enum problem begin_delete(struct sandbox_entry *b, uint64_t grace_ms, struct err *e)
{
	if (b->state != STATE_DELETING) {
		entry_becomes(b, STATE_DELETING, "sandbox.deleting", NULL);
	}
	return sandboxes_stop(b, grace_ms, e);
}

static bool has_come_true(const struct sandbox_entry *b, enum sandbox_verb verb)
{
	switch (verb) {
	case SANDBOX_PAUSE:
		return b->state == STATE_PAUSED;
	case SANDBOX_RESUME:
		return b->state == STATE_READY && !b->opening;
	case SANDBOX_STOP:
		return b->link.fd < 0 && !is_sought(b) && !entry_is_dead(b);
	case SANDBOX_DELETE:
		return false;
	}
	return true;
}

static enum problem sandboxes_carry_out(struct sandbox_entry *b, enum sandbox_verb verb,
					uint64_t grace_ms, struct err *e)
{
	if (b->state == STATE_DELETING && verb != SANDBOX_DELETE)
		return problem_say(PROBLEM_CONFLICT, e, "sandbox '%s' is being deleted", b->id);
	if (verb != SANDBOX_PAUSE)
		entry_rest(b);
	switch (verb) {
	case SANDBOX_PAUSE:
		return ask_pause(b, true, e);
	case SANDBOX_RESUME:
		return entry_resume(b, e);
	case SANDBOX_STOP:
		return sandboxes_stop(b, grace_ms, e);
	case SANDBOX_DELETE:
		return begin_delete(b, grace_ms, e);
	}
	return PROBLEM_INVALID;
}

enum problem sandboxes_do(struct sandboxes *s, const char *tenant, const char *ref,
			  enum sandbox_verb verb, uint64_t grace_ms, sandbox_done_fn *done,
			  void *arg, struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	enum problem p;

	if (!b && verb == SANDBOX_DELETE && was_deleted(s, tenant, ref)) {
		if (done)
			done(arg, PROBLEM_NONE, NULL);
		return PROBLEM_NONE;
	}
	if (!b)
		return entry_missing(ref, e);
	p = sandboxes_carry_out(b, verb, grace_ms, e);
	if (p != PROBLEM_NONE)
		return p;
	if (has_come_true(b, verb)) {
		if (done)
			done(arg, PROBLEM_NONE, NULL);
		return PROBLEM_NONE;
	}
	if (sandboxes_await(b, verb, done, arg) < 0)
		return problem_nomem(e);
	if (verb == SANDBOX_DELETE && b->link.fd < 0 && !is_sought(b) && !entry_is_dead(b))
		entry_remove(b);
	return PROBLEM_NONE;
}

enum problem sandboxes_update(struct sandboxes *s, const char *tenant, const char *ref,
			      const struct sandbox_change *c, struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	char **labels = NULL;

	if (!b)
		return entry_missing(ref, e);
	if (c->name && *c->name && !name_is(c->name))
		return problem_say(PROBLEM_INVALID, e, "'%.80s' is not a name", c->name);
	if (c->name && *c->name && !str_eq(c->name, b->name) && entry_find(s, b->tenant, c->name))
		return name_taken(c->name, e);
	if (c->labels && c->label_count > SANDBOX_LABELS)
		return problem_say(PROBLEM_TOO_LARGE, e, "a sandbox has at most %d labels",
				   SANDBOX_LABELS);
	if (c->labels && labels_copy(c->labels, c->label_count, &labels) < 0)
		return problem_nomem(e);
	if (labels) {
		labels_free(b->labels);
		b->labels = labels;
	}
	if (c->name)
		(void)snprintf(b->name, sizeof(b->name), "%s", c->name);
	if (c->has_idle_ttl)
		b->idle_ttl = c->idle_ttl;
	if (c->has_ttl)
		b->ttl = c->ttl;
	if (entry_save(b, e) < 0)
		return PROBLEM_INTERNAL;
	if (c->has_idle_ttl || c->has_ttl)
		link_times(b);
	entry_schedule(b);
	entry_tell(b, "sandbox.updated", NULL, NULL);
	return PROBLEM_NONE;
}

/* ---- what an earlier daemon has left ---- */

static void look_for_monitor(struct sandbox_entry *b);

static void sandboxes_on_look(struct loop_timer *t, uint64_t now UNUSED)
{
	look_for_monitor(CONTAINER_OF(t, struct sandbox_entry, due));
}

/* The lock says whether there is one. It may have been started a moment ago, and not listen yet. */
static void look_for_monitor(struct sandbox_entry *b)
{
	CLEANUP(fd) int lock = -1;
	bool unwanted = b->state == STATE_DELETING || b->stopping;
	struct err e;

	b->unsure = true;
	if (entry_lock(b, &lock) == -EWOULDBLOCK) {
		if (link_find(b) < 0) {
			b->due.due = sandboxes_on_look;
			loop_at(b->s->loop, &b->due, clock_us() + LOOK_AGAIN_US);
			return;
		}
		if (unwanted)
			(void)sandboxes_stop(b, b->grace_ms, &e);
		return;
	}
	b->found = true;
	b->unsure = false;
	b->closed = b->state == STATE_STOPPED || b->state == STATE_FAILED;
	execs_recover(b);
	if (b->state == STATE_STOPPED && b->restart.on && restart_is_failure(b->reason))
		entry_again(b, RESTART_FIRST_US);
	link_lost(b);
}

static int find_one(struct sandboxes *s, const char *id)
{
	struct sandbox_entry *b = entry_new(s);
	CLEANUP(fd) int folder = -1;
	int r;

	if (!b)
		return -ENOMEM;
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	folder = entry_folder(b);
	r = folder < 0 ? -errno : entry_load(b, folder);
	if (r == 0)
		r = entries_add(s, b);
	if (r == 0)
		return 0;
	(void)entry_free(b);
	if (r != -EBADMSG)
		return r;
	remove_files(s, id); /* nobody was told of it */
	return 0;
}

static int find_all(struct sandboxes *s, struct err *e)
{
	struct folder f;
	const struct fd_entry *d;
	int r;

	folder_begin(&f, s->folder);
	while ((d = folder_next(&f)))
		if (id_is(SANDBOX_ID, d->name) && (r = find_one(s, d->name)) < 0)
			return err_errno(e, r, "cannot read the state of '%s'", d->name);
	if (f.error)
		return err_errno(e, f.error, "cannot read the folder of sandboxes");
	/* From the last on: one that was being deleted leaves the list. */
	for (size_t i = s->count; i > 0; i--) {
		struct sandbox_entry *b = s->all[i - 1];

		entry_schedule(b);
		look_for_monitor(b);
	}
	/* What a daemon that was killed had begun. */
	if (s->count || faccessat(s->folder, MONITOR_ASIDE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		link_tidy(s, CHORE_LOST);
	return 0;
}

static int sandboxes_open_folder(int state_dir, const char *name, int *ret, struct err *e)
{
	if (mkdirat(state_dir, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make the folder '%s' of the daemon", name);
	*ret = openat(state_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret < 0 ? err_sys(e, "cannot open the folder '%s' of the daemon", name) : 0;
}

/* Sandboxes have nothing to do with one another, as the homes of users have not: ext4 then gives
 * each folder a place of its own on the disk. Beside the others each new file of a command waits
 * until all that were deleted there within seconds have been looked at, 0.1 ms and more. Where
 * there is no such thing, nothing is lost. */
static void spread(int folder)
{
	int flags = 0;

	if (ioctl(folder, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
		flags |= FS_TOPDIR_FL;
		(void)ioctl(folder, FS_IOC_SETFLAGS, &flags);
	}
}

int sandboxes_new(int state_dir, struct loop *l, struct events *ev, struct sandboxes **ret,
		  struct err *e)
{
	CLEANUP(sandboxes) struct sandboxes *s = calloc(1, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->loop = l;
	s->events = ev;
	s->folder = s->sockets = s->tidier.fd = -1;
	if (sandboxes_open_folder(state_dir, FOLDER, &s->folder, e) < 0 ||
	    sandboxes_open_folder(state_dir, SOCKETS, &s->sockets, e) < 0)
		return -e->code;
	monitors_init(&s->monitors, s->sockets);
	spread(s->folder);
	if (find_all(s, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(s);
	return 0;
}

struct sandboxes *sandboxes_free(struct sandboxes *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->count; i++)
		(void)entry_free(s->all[i]);
	link_tidied(s);
	(void)fd_close(s->folder);
	(void)fd_close(s->sockets);
	monitors_done(&s->monitors);
	free(s->all);
	free(s);
	return NULL;
}

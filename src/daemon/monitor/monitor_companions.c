/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/monitor/monitor_companions.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "model/dialect/companions.h"
#include "sandbox/manager.h"

#define UNHEALTHY "companion-unhealthy"
#define NOTED 3800 /* bytes of what somebody wrote, on the log */
#define SHOWN 120  /* ... in an answer */
#define BOUND_US ((uint64_t)5 * 60 * 1000 * 1000)
#define STATES_MAX ((size_t)64 << 10)
#define STATES_NEW MONITOR_COMPANIONS ".new"

/* ---- what is known of them ---- */

static const char *const state_words[] = { "starting", "ready", "failed", "stopped" };
static_assert(ARRAY_LEN(state_words) == COMPANION_STATES, "a word for every state");

static void write_states(struct monitor *m)
{
	const struct companions *all = m->companions;
	CLEANUP(buf) struct buf b = BUF_INIT(STATES_MAX);
	struct json j;

	json_init(&j, &b, false);
	json_array(&j);
	for (size_t i = 0; i < all->n; i++) {
		const struct companion *c = &all->v[i];

		json_object(&j);
		json_kstr(&j, "name", c->spec->name);
		json_kstr(&j, "state", state_words[c->state]);
		json_kstr(&j, "address", c->address);
		json_kstr(&j, "reason", *c->reason ? c->reason : NULL);
		json_object_end(&j);
	}
	json_array_end(&j);
	/* Whoever reads it finds the old one or the new. */
	if (!b.failed && monitor_write(m, STATES_NEW, b.data, b.len) == 0)
		(void)renameat(m->folder, STATES_NEW, m->folder, MONITOR_COMPANIONS);
}

static void tell_companions(const struct companion *c)
{
	struct monitor_say s = { .says = MONITOR_COMPANION, .value = c->state };

	(void)snprintf(s.companion, sizeof(s.companion), "%s", c->spec->name);
	memcpy(s.reason, c->reason, sizeof(s.reason));
	clients_say(c->m, &s);
}

static bool all_ready(const struct companions *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].state == COMPANION_STARTING)
			return false;
	return true;
}

/* Whoever stops the sandbox ends what is under way: that is nobody's failure. */
bool companion_is_awaited(const struct companion *c)
{
	return c->m->stage != MONITOR_IS_STOPPING && c->state == COMPANION_STARTING;
}

void companion_becomes(struct companion *c, enum companion_state state, const char *reason)
{
	struct monitor *m = c->m;

	c->state = state;
	(void)snprintf(c->reason, sizeof(c->reason), "%s", reason ? reason : "");
	write_states(m);
	if (state != COMPANION_STOPPED)
		tell_companions(c);
	if (m->stage == MONITOR_IS_OPENING && state == COMPANION_READY &&
	    all_ready(m->companions)) {
		loop_at(m->loop, &m->companions->bound, 0);
		command_begin(m);
	}
}

void companion_hear(struct companion_words *w, const char *data, size_t n)
{
	size_t drop;

	if (n > sizeof(w->text)) {
		data += n - sizeof(w->text);
		n = sizeof(w->text);
	}
	drop = w->n + n > sizeof(w->text) ? w->n + n - sizeof(w->text) : 0;
	memmove(w->text, w->text + drop, w->n - drop);
	memcpy(w->text + w->n - drop, data, n);
	w->n += n - drop;
}

/* Its last n bytes at most, in one line: a companion writes no line of the log by itself, and
 * nothing for a terminal. */
static void put_plain(struct buf *to, const struct companion_words *w, size_t n)
{
	for (size_t i = w->n > n ? w->n - n : 0; i < w->n; i++) {
		unsigned char b = (unsigned char)w->text[i];

		buf_putc(to, b < 0x20 || b >= 0x7f ? ' ' : (char)b);
	}
}

/* For who asks why: on the log, which is its owner's alone. */
void companion_note_words(const struct monitor *m, const char *whose,
			  const struct companion_words *w)
{
	CLEANUP(buf) struct buf line = BUF_INIT(2 * COMPANION_WORDS);

	if (!w->n)
		return;
	buf_printf(&line, "%s: ", whose);
	put_plain(&line, w, NOTED);
	if (!line.failed)
		monitor_note(m, buf_str(&line));
}

static void note_words(const struct companion *c, const char *whose,
		       const struct companion_words *w)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "companion '%s': the last words of %s", c->spec->name,
		       whose);
	companion_note_words(c->m, text, w);
}

void companion_spoils(struct companion *c, const char *reason, const char *what)
{
	const struct companion_words *last = c->answer.n ? &c->answer : &c->said;
	struct monitor_say s = { .says = MONITOR_REFUSED };
	CLEANUP(buf) struct buf words = BUF_INIT(SHOWN + 1);

	put_plain(&words, last, SHOWN);
	note_words(c, "its command", &c->said);
	note_words(c, c->healthy ? "the hook" : "its health check", &c->answer);
	companion_becomes(c, COMPANION_FAILED, reason);
	if (c->m->stage != MONITOR_IS_OPENING)
		return;
	(void)err_refuse(&s.err, ERR_UNAVAILABLE, ECHILD,
			 "brig sandbox logs ID has more of what it wrote",
			 "companion '%s' is not ready: %s%s%s", c->spec->name, what,
			 words.len ? "; it wrote last: " : "", buf_str(&words));
	(void)snprintf(s.reason, sizeof(s.reason), "%s", reason);
	monitor_give_up(c->m, &s);
}

static void on_bound(struct loop_timer *t, uint64_t now UNUSED)
{
	struct companions *all = CONTAINER_OF(t, struct companions, bound);

	for (size_t i = 0; i < all->n; i++)
		if (companion_is_awaited(&all->v[i])) {
			companion_spoils(&all->v[i], UNHEALTHY, "five minutes have passed");
			return;
		}
}

/* ---- making one ---- */

/* A folder of its own below the sandbox's, which stays until that is removed. */
static int make_data(const struct companion *c, struct spec *s, struct err *e)
{
	char by[64], path[PATH_MAX], name[sizeof(MONITOR_DATA) + 80];
	ssize_t n;

	if (!c->spec->data)
		return 0;
	(void)snprintf(name, sizeof(name), MONITOR_DATA "/%s", c->spec->name);
	if ((mkdirat(c->m->folder, MONITOR_DATA, 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(c->m->folder, name, 0700) < 0 && errno != EEXIST))
		return err_sys(e, "cannot make its folder");
	(void)snprintf(by, sizeof(by), "/proc/self/fd/%d", c->m->folder);
	n = readlink(by, path, sizeof(path) - 1);
	if (n <= 0)
		return err_sys(e, "cannot find its folder");
	path[n] = '\0';
	s->data_folder = arena_printf(s->arena, "%s/%s", path, name);
	s->data_target = c->spec->data;
	return s->data_folder ? 0 : err_nomem(e);
}

static void take_limit(struct spec *s, enum field_id id, uint64_t value, uint64_t *at)
{
	if (!value)
		return;
	*at = value;
	s->origin[id] = ORIGIN_API;
}

/* In a container it has the sandbox's engine, and its own image or the sandbox's. The root is its
 * own, to be written to: images expect it, and it is gone with the container. */
static int contain(const struct companion_spec *d, const struct spec *own, struct spec *s,
		   struct err *e)
{
	const char *image = d->image ? d->image : own->image ? own->image : own->docker.image;

	s->runtime = own->runtime;
	s->docker.runtime = own->docker.runtime;
	s->docker.auto_pull = own->docker.auto_pull;
	if (image && spec_set(s, FIELD_IMAGE, image, ORIGIN_API, e) < 0)
		return -e->code;
	return spec_set(s, FIELD_READ_ONLY_ROOT, "false", ORIGIN_API, e);
}

/* A door of its own, with the sandbox's rules. Values that the sandbox's door puts in are not for
 * it, nor is a service of the host's. */
static void give_door(const struct spec *own, struct spec *s)
{
	static const enum field_id written[] = { FIELD_RATE_DOMAIN, FIELD_RATE_TOTAL };

	s->egress = own->egress;
	s->egress.host_service = 0;
	s->egress.ask = false; /* a question says whose it is by its sandbox alone */
	s->leaks = own->leaks;
	for (size_t i = 0; i < ARRAY_LEN(written); i++)
		s->origin[written[i]] = own->origin[written[i]];
}

static int fill_spec(const struct companion *c, struct spec *s, struct err *e)
{
	const struct companion_spec *d = c->spec;
	const struct companions *all = c->m->companions;
	const struct spec *own = all->spec;

	if (spec_set(s, FIELD_BACKEND, all->engine ? all->engine : "native", ORIGIN_API, e) < 0 ||
	    spec_set(s, FIELD_TIMEOUT, "none", ORIGIN_API, e) < 0 ||
	    spec_set(s, FIELD_OUTPUT, "1g", ORIGIN_API, e) < 0 ||
	    spec_set(s, FIELD_NETWORK, fields[FIELD_NETWORK].words[d->network], ORIGIN_API, e) <
		    0 ||
	    (d->user && spec_set(s, FIELD_USER, d->user, ORIGIN_API, e) < 0) ||
	    (all->engine && contain(d, own, s, e) < 0))
		return -e->code;
	for (size_t i = 0; i < d->env.n; i++) {
		const char *text =
			arena_printf(s->arena, "%s=%s", d->env.v[i].name, d->env.v[i].value);

		if (!text || spec_set(s, FIELD_ENV, text, ORIGIN_API, e) < 0)
			return text ? -e->code : err_nomem(e);
	}
	if (d->network == NETWORK_PROXY)
		give_door(own, s);
	s->no_workspace = true;
	s->companion = true;
	s->audit = own->audit;
	s->audit.name = arena_printf(s->arena, "%s/%s", own->audit.name, d->name);
	if (!s->audit.name)
		return err_nomem(e);
	s->members = own->members;
	s->sandbox = own->sandbox;
	s->instance = own->instance;
	take_limit(s, FIELD_MEMORY, d->memory, &s->limits.memory);
	take_limit(s, FIELD_CPUS, d->cpus, &s->limits.cpus);
	take_limit(s, FIELD_PIDS, d->pids, &s->limits.pids);
	take_limit(s, FIELD_DISK, c->disk, &s->limits.disk);
	return make_data(c, s, e);
}

static void companions_on_note(void *arg, const char *text)
{
	const struct companion *c = arg;
	char line[1024];

	(void)snprintf(line, sizeof(line), "companion '%s': %s", c->spec->name, text);
	monitor_note(c->m, line);
}

static int open_one(struct companion *c, struct err *e)
{
	brig_manager *manager = brig_manager_new();
	brig_request *q = manager ? brig_request_new(manager) : NULL;
	struct brig_error be;
	int r = q ? fill_spec(c, request_spec(q), e) : err_nomem(e);

	if (r == 0) {
		brig_request_on_note(q, companions_on_note, c);
		request_seat(q, c->m->companions->router.fd,
			     (unsigned)(c - c->m->companions->v) + 1);
		r = brig_sandbox_open(q, &c->sandbox, &be);
		if (r < 0)
			error_import(&be, e);
	}
	brig_request_free(q);
	brig_manager_free(manager);
	return r < 0 ? err_wrap(e, "companion '%s'", c->spec->name) : 0;
}

static void *open_aside(void *arg)
{
	struct companion *c = arg;

	(void)open_one(c, &c->unopened);
	return NULL;
}

/* A container does not end with the thread that has made it; a door does, and a native sandbox,
 * which takes no time. */
int companion_open(struct companion *c, struct err *e)
{
	if (!c->m->companions->engine || c->spec->network == NETWORK_PROXY)
		return open_one(c, e);
	if (pthread_create(&c->opens, NULL, open_aside, c) != 0)
		return err_set(e, ERR_INTERNAL, EAGAIN, "cannot make a thread");
	c->opening = true;
	return 0;
}

int companions_opened(struct monitor *m, struct err *e)
{
	struct companions *all = m->companions;
	int r = 0;

	for (size_t i = 0; all && i < all->n; i++) {
		struct companion *c = &all->v[i];

		if (!c->opening)
			continue;
		(void)pthread_join(c->opens, NULL);
		c->opening = false;
		if (r == 0 && c->unopened.code) {
			*e = c->unopened;
			r = -e->code;
		}
	}
	return r;
}

int companions_open(struct monitor *m, const struct spec *s, struct err *e)
{
	size_t n = s->companions.n;
	struct companions *all;

	if (!n)
		return 0;
	all = calloc(1, sizeof(*all) + n * sizeof(all->v[0]));
	if (!all || !(all->spec = spec_clone(s, e))) {
		free(all);
		return err_nomem(e);
	}
	m->companions = all;
	all->router.fd = -1;
	all->bound.due = on_bound;
	for (; all->n < n; all->n++) {
		struct companion *c = &all->v[all->n];

		c->m = m;
		c->spec = &all->spec->companions.v[all->n];
		c->address = all->spec->members.v[all->n + 1].address;
		c->disk = c->spec->disk;
		c->turns.fd = c->serves.fd = c->asks.fd = -1;
	}
	if (companion_backend(all->spec, &all->engine, e) < 0 ||
	    companions_check(all->spec, all->engine, e) < 0 ||
	    sandbox_router(all->spec, &all->router, e) < 0)
		return -e->code;
	for (size_t i = 0; i < n; i++)
		if (companion_open(&all->v[i], e) < 0)
			return -e->code;
	return 0;
}

/* ---- its command ---- */

static void companions_on_output(void *arg, int stream UNUSED, const char *data, size_t n)
{
	struct companion *c = arg;

	companion_hear(&c->said, data, n);
}

/* What it was that ended; *e is filled where it never ran. */
static void finish_service(struct companion *c, char reason[MONITOR_REASON], struct err *e)
{
	struct brig_error unused;
	brig_result *r = NULL;

	if (c->serves.fd >= 0)
		(void)loop_want(c->m->loop, &c->serves, 0);
	c->serves.fd = -1;
	if (c->run)
		(void)brig_run_finish(c->run, &r, &unused);
	(void)snprintf(reason, MONITOR_REASON, "%s", r ? brig_result_outcome(r) : "failed");
	*e = r ? result_outcome(r)->error : (struct err){ 0 };
	brig_result_free(r);
	brig_request_free(c->request);
	c->run = NULL;
	c->request = NULL;
}

static void never_began(struct companion *c, const struct err *why)
{
	struct monitor_say s = { .says = MONITOR_REFUSED, .err = *why };

	companion_becomes(c, COMPANION_FAILED, err_kind_name(why->kind));
	(void)err_wrap(&s.err, "companion '%s'", c->spec->name);
	monitor_give_up(c->m, &s);
}

static void service_ended(struct companion *c)
{
	char reason[MONITOR_REASON], what[64];
	struct err why;

	loop_at(c->m->loop, &c->next, 0);
	finish_service(c, reason, &why);
	if (c->m->stage == MONITOR_IS_STOPPING)
		return;
	if (c->m->stage == MONITOR_IS_OPENING && companion_is_awaited(c)) {
		if (why.code) {
			never_began(c, &why);
			return;
		}
		(void)snprintf(what, sizeof(what), "its command has ended (%s)", reason);
		companion_spoils(c, UNHEALTHY, what);
		return;
	}
	note_words(c, "its command", &c->said);
	companion_becomes(c, COMPANION_FAILED, reason);
	companion_again(c);
}

static void on_service(struct loop_watch *w, uint32_t events UNUSED)
{
	struct companion *c = CONTAINER_OF(w, struct companion, serves);

	if (!brig_run_dispatch(c->run))
		service_ended(c);
}

/* What its door refused, once each: the list of them has a bound. */
static void tell_denied(struct companion *c, size_t client)
{
	const struct outcome *o = sandbox_facts(c->sandbox);
	size_t *at = &c->denied[client];

	while (*at < o->denial_count) {
		const struct denial *d = &o->denials[*at];
		struct monitor_say s = { .says = MONITOR_DENIED };

		(void)snprintf(s.companion, sizeof(s.companion), "%s", c->spec->name);
		(void)snprintf(s.reason, sizeof(s.reason), "%s", d->kind);
		(void)snprintf(s.err.what, sizeof(s.err.what), "%s", d->target);
		(void)snprintf(s.err.hint, sizeof(s.err.hint), "%s", d->reason);
		if (!client_offer(&c->m->clients[client], &s))
			return;
		(*at)++;
		c->denied_most = *at > c->denied_most ? *at : c->denied_most;
	}
}

void companions_tell(struct monitor *m, size_t client)
{
	for (size_t i = 0; m->companions && i < m->companions->n; i++) {
		struct companion *c = &m->companions->v[i];

		if (!c->opening && c->sandbox && m->clients[client].w.fd >= 0)
			tell_denied(c, client);
	}
}

void companions_meet(struct monitor *m, size_t client)
{
	for (size_t i = 0; m->companions && i < m->companions->n; i++)
		m->companions->v[i].denied[client] = m->companions->v[i].denied_most;
}

/* Its sandbox has ended, for instance by a limit, and the command with it. */
static void on_sandbox(struct loop_watch *w, uint32_t events UNUSED)
{
	struct companion *c = CONTAINER_OF(w, struct companion, turns);

	if (brig_sandbox_dispatch(c->sandbox)) /* what it denied is told after the turn */
		return;
	for (size_t i = 0; i < MONITOR_CLIENTS; i++)
		companions_tell(c->m, i);
	(void)loop_want(c->m->loop, w, 0);
	w->fd = -1;
	if (c->run)
		service_ended(c);
}

/* Its own command, or what its image runs by itself, where that would. */
static int set_command(const struct companion *c, brig_request *q, struct err *e)
{
	const struct strlist *own = &c->spec->command;
	const char **argv = calloc(own->n + 1, sizeof(*argv));
	const char *const *words = argv;
	struct brig_error be;
	const char *folder = NULL;
	int r = 0;

	if (!argv)
		return err_nomem(e);
	for (size_t i = 0; i < own->n; i++)
		argv[i] = own->v[i];
	if (!own->n)
		words = sandbox_image_command(c->sandbox, &folder);
	if (!words)
		(void)err_refuse(e, ERR_CONFIG, EINVAL, "command: [PROGRAM, ARG...]",
				 "its image runs nothing by itself");
	else if ((folder && *folder && (r = brig_request_folder(q, folder, &be)) < 0) ||
		 (r = brig_request_argv(q, words, &be)) < 0)
		error_import(&be, e);
	free(argv);
	return words ? r : -e->code;
}

static int unfollowed(const struct companion *c, struct err *e)
{
	return err_set(e, ERR_INTERNAL, EIO, "companion '%s' cannot be followed", c->spec->name);
}

int companion_serve(struct companion *c, struct err *e)
{
	struct loop *loop = c->m->loop;
	char reason[MONITOR_REASON];
	struct brig_error be;

	c->request = brig_sandbox_command(c->sandbox);
	if (!c->request)
		return err_nomem(e);
	if (set_command(c, c->request, e) < 0)
		return err_wrap(e, "companion '%s'", c->spec->name);
	brig_request_on_output(c->request, companions_on_output, c);
	request_tell(c->request);
	if (brig_sandbox_exec(c->sandbox, c->request, &c->run, &be) < 0) {
		error_import(&be, e);
		return err_wrap(e, "companion '%s'", c->spec->name);
	}
	c->since = clock_us();
	if (c->turns.fd < 0) {
		c->turns = (struct loop_watch){ .fd = brig_sandbox_fd(c->sandbox),
						.ready = on_sandbox };
		if (c->turns.fd < 0 || loop_want(loop, &c->turns, EPOLLIN) < 0)
			return unfollowed(c, e);
	}
	c->serves = (struct loop_watch){ .fd = brig_run_fd(c->run), .ready = on_service };
	if (c->serves.fd < 0 || loop_want(loop, &c->serves, EPOLLIN) < 0)
		return unfollowed(c, e);
	if (brig_run_dispatch(c->run))
		return 0;
	finish_service(c, reason, e);
	if (!e->code) {
		(void)err_set(e, ERR_UNAVAILABLE, ECHILD, "its command has ended (%s)", reason);
		(void)snprintf(reason, sizeof(reason), UNHEALTHY);
	}
	if (c->m->stage == MONITOR_IS_OPENING)
		(void)snprintf(c->m->reason, sizeof(c->m->reason), "%s",
			       e->code == ECHILD ? reason : "");
	companion_becomes(c, COMPANION_FAILED, reason);
	return err_wrap(e, "companion '%s'", c->spec->name);
}

int companions_start(struct monitor *m, struct err *e)
{
	struct companions *all = m->companions;

	if (!all)
		return 0;
	write_states(m);
	for (size_t i = 0; i < all->n; i++) {
		tell_companions(&all->v[i]);
		if (companion_serve(&all->v[i], e) < 0)
			return -e->code;
	}
	loop_at(m->loop, &all->bound, clock_us() + BOUND_US);
	return 0;
}

void companions_check_all(struct monitor *m)
{
	for (size_t i = 0; i < m->companions->n; i++)
		companion_check(&m->companions->v[i]);
}

/* ---- with the sandbox ---- */

/* Its sandbox is there, and in it what its command may have left running. */
static bool companions_is_there(const struct companion *c)
{
	return c->turns.fd >= 0;
}

int companions_pause(struct monitor *m, bool on, struct err *e)
{
	struct companions *all = m->companions;
	struct err unused;

	for (size_t i = 0; all && i < all->n; i++) {
		struct companion *c = &all->v[i];

		if (!companions_is_there(c) || sandbox_pause(c->sandbox, on, e) == 0)
			continue;
		(void)err_wrap(e, "companion '%s'", c->spec->name);
		while (on && i-- > 0)
			if (companions_is_there(&all->v[i]))
				(void)sandbox_pause(all->v[i].sandbox, false, &unused);
		return -e->code;
	}
	return 0;
}

void companions_signal(struct monitor *m, int sig)
{
	for (size_t i = 0; m->companions && i < m->companions->n; i++)
		if (companions_is_there(&m->companions->v[i]))
			sandbox_signal(m->companions->v[i].sandbox, sig);
}

size_t companions_living(const struct monitor *m)
{
	size_t n = 0;

	for (size_t i = 0; m->companions && i < m->companions->n; i++)
		if (companions_is_there(&m->companions->v[i]))
			n += sandbox_living(m->companions->v[i].sandbox);
	return n;
}

void companions_close(struct monitor *m)
{
	struct companions *all = m->companions;
	struct brig_error unused;
	char reason[MONITOR_REASON];
	struct err none;

	if (!all)
		return;
	loop_at(m->loop, &all->bound, 0);
	for (size_t i = 0; i < all->n; i++) {
		struct companion *c = &all->v[i];

		loop_at(m->loop, &c->again, 0);
		if (c->opening)
			(void)pthread_join(c->opens, NULL);
		c->opening = false;
		if (c->turns.fd >= 0)
			(void)loop_want(m->loop, &c->turns, 0);
		c->turns.fd = -1;
		(void)brig_sandbox_close(c->sandbox, NULL, &unused);
		c->sandbox = NULL;
		finish_service(c, reason, &none);
		companion_check_end(c);
		if (c->state != COMPANION_FAILED)
			c->state = COMPANION_STOPPED;
	}
	write_states(m);
	sandbox_router_close(&all->router);
}

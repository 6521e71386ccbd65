/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/recorder_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "audit/log.h"
#include "audit/prune.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/outcome/digest.h"
#include "sandbox/tally.h"

/* Old records are looked for once in so many. */
#define TRUST_TOLD 64 /* names that a run changed, one by one */
#define PRUNE_EVERY 1000
#define NAMES_RECORDED 4
/* What the end of a run may need; less is no room. */
#define ROOM_BYTES ((uint64_t)64 << 10)

/* Who asks. Root by sudo says who it was before; otherwise the login does, where the kernel keeps
 * it. */
static void find_principal(char *out, size_t n)
{
	uid_t me = geteuid();
	const char *sudo = me == 0 ? getenv("SUDO_UID") : NULL;
	char login[16] = "";

	if (me == 0 && !sudo &&
	    fd_read_file(AT_FDCWD, "/proc/self/loginuid", login, sizeof(login)) > 0)
		login[strcspn(login, "\n")] = '\0';
	if (sudo && sudo[0] && strlen(sudo) <= 10 && strspn(sudo, "0123456789") == strlen(sudo))
		(void)snprintf(out, n, "uid:0 sudo:%s", sudo);
	else if (login[0] && strcmp(login, "4294967295") != 0 && strcmp(login, "0") != 0)
		(void)snprintf(out, n, "uid:0 login:%s", login);
	else
		(void)snprintf(out, n, "uid:%u", me);
}

/* The same text on every record, also on the one that somebody else writes after a crash. */
static void copy_agent(struct recorder *r)
{
	const char *name = r->spec->audit.agent;
	size_t n = name ? strlen(name) : 0;

	if (n > RUNNING_AGENT_MAX)
		n = RUNNING_AGENT_MAX;
	for (size_t i = 0; i < n; i++)
		r->agent[i] = name[i] == '\t' || name[i] == '\n' ? ' ' : name[i];
	r->agent[utf8_cut(r->agent, n)] = '\0';
}

static int open_log(struct recorder *r, struct err *e)
{
	const struct audit_spec *a = &r->spec->audit;
	struct log_options o = { .dir = a->dir,
				 .sync = a->sync == AUDIT_SYNC_FULL,
				 .anchors = r->anchors };

	if (r->log)
		return 0;
	find_principal(r->principal, sizeof(r->principal));
	copy_agent(r);
	return log_open(&o, &r->log, e) < 0 ? err_kind(e, ERR_UNAVAILABLE) : 0;
}

static bool folder_exists(const struct audit_spec *a)
{
	CLEANUP(fd) int own = -1;
	struct err unused;

	if (a->dir)
		return access(a->dir, F_OK) == 0;
	/* Where it will be, which is made for it: the plan keeps the command from it. */
	own = state_open(".", NULL, 0, &unused);
	return own >= 0 && faccessat(own, "audit", F_OK, 0) == 0;
}

static int copy_anchors(struct recorder *r, const struct strlist *l, struct err *e)
{
	if (!l->n)
		return 0;
	r->anchors = calloc(l->n + 1, sizeof(*r->anchors));
	if (!r->anchors)
		return err_nomem(e);
	memcpy(r->anchors, l->v, l->n * sizeof(*r->anchors));
	return 0;
}

int recorder_new(const struct spec *s, struct recorder **ret, struct err *e)
{
	CLEANUP(recorder) struct recorder *r = NULL;

	*ret = NULL;
	if (!s->audit.enabled || s->audit.off)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_nomem(e);
	r->spec = s;
	r->running = RUNNING_NONE;
	if (copy_anchors(r, &s->audit.anchor, e) < 0 ||
	    (!folder_exists(&s->audit) && open_log(r, e) < 0))
		return -e->code;
	*ret = TAKE_PTR(r);
	return 0;
}

/* An anchor's address is the sandbox's own, which may be gone first. */
static bool can_share(const struct recorder *of)
{
	struct stat st;

	return of && of->log && !of->anchors &&
	       fstatat(log_dirfd(of->log), "head", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void name_sandbox(struct recorder *r, const struct recorder *of)
{
	if (r && of && of->id)
		(void)snprintf(r->within, sizeof(r->within), "%s", of->id);
}

int recorder_join(const struct spec *s, const struct recorder *of, struct recorder **ret,
		  struct err *e)
{
	struct recorder *r;

	if (!can_share(of) || !s->audit.enabled || s->audit.off) {
		if (recorder_new(s, ret, e) < 0)
			return -e->code;
		name_sandbox(*ret, of);
		return 0;
	}
	*ret = r = calloc(1, sizeof(*r));
	if (!r)
		return err_nomem(e);
	r->spec = s;
	r->running = RUNNING_NONE;
	r->log = log_share(of->log);
	memcpy(r->principal, of->principal, sizeof(r->principal));
	memcpy(r->agent, of->agent, sizeof(r->agent));
	name_sandbox(r, of);
	return 0;
}

struct recorder *recorder_free(struct recorder *r)
{
	if (!r)
		return NULL;
	running_abandon(&r->running);
	(void)tally_free(r->egress);
	(void)log_free(r->log);
	free(r->anchors);
	free(r);
	return NULL;
}

void recorder_fill(const struct recorder *r, struct record *x, enum event type)
{
	record_init(x, type);
	x->run = r->id;
	x->policy = r->policy[0] ? r->policy : NULL;
	x->principal = r->principal;
	x->agent = r->agent[0] ? r->agent : NULL;
}

/* A request that was refused before a backend was chosen has the one that it asked for. */
static void fill_command(const struct recorder *r, struct record *x)
{
	const char *asked = fields[FIELD_BACKEND].words[r->spec->backend];

	record_text(x, "backend", r->backend ? r->backend : asked);
	record_text(x, "argv0", r->spec->command.argv ? r->spec->command.argv[0] : NULL);
	record_list(x, "argv", r->spec->audit.argv ? r->spec->command.argv : NULL);
}

static void fill_create(const struct recorder *r, struct record *x)
{
	const struct spec *s = r->spec;

	recorder_fill(r, x, EVENT_SANDBOX_CREATE);
	fill_command(r, x);
	record_text(x, "name", s->audit.name);
	record_text(x, "access", fields[FIELD_POLICY].words[s->policy]);
	record_text(x, "network", fields[FIELD_NETWORK].words[s->network]);
	record_text(x, "profile", fields[FIELD_PROFILE].words[s->profile]);
	record_text(x, "workspace", s->private_workspace ? NULL : s->workdir);
	if (s->limits.memory)
		record_number(x, "memory", (int64_t)s->limits.memory);
	if (s->command.timeout)
		record_number(x, "timeout_ms", (int64_t)s->command.timeout);
	record_number(x, "pid", getpid());
	record_text(x, "version", BRIG_VERSION);
	record_text(x, "within", r->within[0] ? r->within : NULL);
	if (spec_has_layer(s))
		record_text(x, "mode", fields[FIELD_WORKSPACE_MODE].words[s->workspace_mode]);
}

static int begin_locked(struct recorder *r, struct err *e)
{
	struct run_info info = { .run = r->id,
				 .policy = r->policy,
				 .backend = r->backend,
				 .argv0 = r->spec->command.argv ? r->spec->command.argv[0] : "",
				 .agent = r->agent };
	struct record x;

	if (running_begin(r->log, &info, r->principal, &r->running, e) < 0)
		return -e->code;
	fill_create(r, &x);
	if (log_append_locked(r->log, &x, 1, e) < 0)
		return -e->code;
	r->first = log_head_locked(r->log).seq;
	return 0;
}

int recorder_begin(struct recorder *r, const char *id, const char *backend, struct err *e)
{
	int got;

	if (!r)
		return 0;
	r->id = id;
	r->backend = backend;
	if (open_log(r, e) < 0 || spec_digest(r->spec, r->policy, e) < 0 || log_lock(r->log, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	got = begin_locked(r, e);
	log_unlock(r->log);
	if (got == 0)
		got = log_anchor(r->log, e);
	if (got < 0) {
		e->kind = ERR_UNAVAILABLE;
		running_end(&r->running);
	}
	return got;
}

int recorder_ready(struct recorder *r, struct err *e)
{
	struct statvfs fs;
	struct stat st;

	if (!r || !r->log)
		return 0;
	if (fstatat(log_dirfd(r->log), "head", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatvfs(log_dirfd(r->log), &fs) < 0)
		return err_sys(e, "the record in '%.200s' is gone", log_dir(r->log)),
		       e->kind = ERR_UNAVAILABLE, -e->code;
	if ((uint64_t)fs.f_bavail * fs.f_frsize >= ROOM_BYTES && !(fs.f_flag & ST_RDONLY))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOSPC,
			  "free some space there, or name another folder as audit.dir",
			  "there is no room left for the record in '%.200s'", log_dir(r->log));
}

/* --- the end of a run --- */

static void put_layer(struct buf *b, const char *name, const char *value)
{
	if (b->len)
		buf_putc(b, ' ');
	buf_puts(b, name);
	if (value) {
		buf_putc(b, '=');
		buf_puts(b, value);
	}
}

static const char *layers(const struct isolation *i, struct buf *b)
{
	const struct {
		const char *name;
		bool on;
	} list[] = {
		{ "user_ns", i->user_ns },
		{ "pid_ns", i->pid_ns },
		{ "mount_ns", i->mount_ns },
		{ "net_ns", i->net_ns },
		{ "ipc_ns", i->ipc_ns },
		{ "uts_ns", i->uts_ns },
		{ "cgroup_ns", i->cgroup_ns },
		{ "no_new_privs", i->no_new_privs },
		{ "no_caps", i->capabilities_dropped },
		{ "read_only_root", i->read_only_root },
	};
	char number[16], gpus[320];

	for (size_t at = 0; at < ARRAY_LEN(list); at++)
		if (list[at].on)
			put_layer(b, list[at].name, NULL);
	if (i->seccomp)
		put_layer(b, "seccomp", i->seccomp);
	(void)snprintf(number, sizeof(number), "%d", i->landlock_abi);
	if (i->landlock_abi)
		put_layer(b, "landlock", number);
	if (i->cgroup)
		put_layer(b, "cgroup", i->cgroup);
	if (i->network)
		put_layer(b, "network", i->network);
	if (i->network_by)
		put_layer(b, "network_by", i->network_by);
	if (!gpu_set_empty(&i->gpus)) {
		gpu_set_text(&i->gpus, ',', gpus, sizeof(gpus));
		put_layer(b, "gpus", gpus);
	}
	return b->len ? buf_str(b) : NULL;
}

/* The first names that it asked for and had no network. */
static const char *asked_names(const struct outcome *o, struct buf *b)
{
	for (size_t i = 0; i < o->asked_count && i < NAMES_RECORDED; i++)
		buf_printf(b, "%s%.255s", i ? " " : "", o->asked[i]);
	return b->len ? buf_str(b) : NULL;
}

static void fill_exec(const struct recorder *r, const struct outcome *o, struct buf *text,
		      struct buf *names, struct record *x)
{
	recorder_fill(r, x, EVENT_SANDBOX_EXEC);
	fill_command(r, x);
	record_number(x, "rc", outcome_status(o));
	record_micros(x, "duration_ms", o->duration_us);
	record_text(x, "outcome", outcome_name(o->kind));
	if (o->signal)
		record_number(x, "signal", o->signal);
	record_bool(x, "started", o->started);
	if (o->started) {
		record_micros(x, "setup_ms", o->setup_us);
		record_text(x, "layers", o->isolation ? layers(o->isolation, text) : NULL);
		record_number(x, "stdout_bytes", (int64_t)o->out.bytes);
		record_number(x, "stderr_bytes", (int64_t)o->err.bytes);
	}
	if (o->layer)
		record_number(x, "changed", (int64_t)o->layer_changed);
	if (o->questions) {
		record_number(x, "questions", (int64_t)o->questions);
		record_text(x, "names", asked_names(o, names));
	}
	if (spec_over_ssh(r->spec))
		record_text(x, "host", r->spec->ssh.host);
	record_text(x, "job", o->job);
	if (o->pod.uid) {
		record_text(x, "image", o->image);
		record_text(x, "cluster", o->pod.cluster);
		record_text(x, "namespace", o->pod.name_space);
		record_text(x, "pod", o->pod.uid);
	}
	record_text(x, "node", o->pod.uid ? o->pod.node : o->node);
	if (o->error.code) {
		record_text(x, "error", err_kind_name(o->error.kind));
		record_text(x, "reason", o->error.what);
	}
}

static int64_t limit_value(const struct limits *l, const struct command *c, enum limit which)
{
	const uint64_t values[LIMIT_COUNT] = {
		[LIMIT_MEMORY] = l->memory,
		[LIMIT_CPUS] = l->cpus,
		[LIMIT_CPU_SHARES] = l->cpu_shares,
		[LIMIT_PIDS] = l->pids,
		[LIMIT_TMP] = l->tmp,
		[LIMIT_DISK] = l->disk,
		[LIMIT_FILES] = l->files,
		[LIMIT_OUTPUT] = c->output,
		[LIMIT_TIMEOUT] = c->timeout,
		[LIMIT_GPUS] = 0, /* nobody runs into it: there is no other device */
	};

	return (int64_t)values[which];
}

static size_t trust_told(const struct outcome *o)
{
	return o->trust_count < TRUST_TOLD ? o->trust_count : TRUST_TOLD;
}

/* So many more than are written one by one. */
static void fill_summary(const struct recorder *r, enum event of, const char *kind,
			 const char *target, uint64_t count, struct record *x)
{
	recorder_fill(r, x, EVENT_LOG_SUMMARY);
	record_text(x, "of", event_types[of].name);
	record_number(x, "count", count > INT64_MAX ? INT64_MAX : (int64_t)count);
	record_text(x, "kind", kind);
	record_text(x, "target", target);
}

/* Those of the network are on the record since they happened, with counts of their own. */
static size_t fill_denials(const struct recorder *r, const struct outcome *o, struct record *x)
{
	size_t n = 0;

	for (size_t i = 0; i < o->denial_count; i++) {
		const struct denial *d = &o->denials[i];

		if (d->class == DENIAL_NETWORK || d->class == DENIAL_LEAK)
			continue;
		recorder_fill(r, &x[n], EVENT_ACCESS_DENY);
		x[n].rule = d->kind;
		record_text(&x[n], "kind", d->kind);
		record_text(&x[n], "target", d->target);
		record_text(&x[n++], "reason", d->reason);
		if (d->count > 1)
			fill_summary(r, EVENT_ACCESS_DENY, d->kind, d->target, d->count - 1,
				     &x[n++]);
	}
	for (int c = 0; c < DENIAL_CLASSES; c++)
		if (o->denials_dropped[c] && c != DENIAL_NETWORK && c != DENIAL_LEAK)
			fill_summary(r, EVENT_ACCESS_DENY, denial_class_kind((enum denial_class)c),
				     NULL, o->denials_dropped[c], &x[n++]);
	return n;
}

/* The first of them one by one; the result of the run has more. */
static size_t fill_trust(const struct recorder *r, const struct outcome *o, struct record *x)
{
	size_t n = trust_told(o);
	uint64_t more = o->trust_count - n + o->trust_more;

	for (size_t i = 0; i < n; i++) {
		recorder_fill(r, &x[i], EVENT_TRUST_CHANGE);
		record_text(&x[i], "target", o->trust[i].path);
		record_text(&x[i], "reason", o->trust[i].reason);
	}
	if (more)
		fill_summary(r, EVENT_TRUST_CHANGE, NULL, NULL, more, &x[n++]);
	return n;
}

static size_t fill_limits(const struct recorder *r, const struct outcome *o, struct record *x)
{
	size_t n = 0;

	for (int l = 0; l < LIMIT_COUNT; l++) {
		if (!(o->limits_hit & (1U << l)))
			continue;
		recorder_fill(r, &x[n], EVENT_LIMIT_HIT);
		x[n].rule = limit_name((enum limit)l);
		record_text(&x[n], "limit", limit_name((enum limit)l));
		record_number(&x[n], "value",
			      limit_value(&r->spec->limits, &r->spec->command, (enum limit)l));
		record_text(&x[n], "enforcer", outcome_enforcers(o, (enum limit)l));
		n++;
	}
	return n;
}

/* Each denial and its count, and a count for each class that has more. */
static size_t denial_room(const struct outcome *o)
{
	size_t n = 2 * o->denial_count;

	for (int c = 0; c < DENIAL_CLASSES; c++)
		n += o->denials_dropped[c] > 0;
	return n;
}

static int put_end(struct recorder *r, const struct outcome *o, struct err *e)
{
	size_t more = denial_room(o), trust = trust_told(o) + 1;
	size_t room = more + (trust > 1 || o->trust_more ? trust : 0) +
		      (size_t)__builtin_popcount(o->limits_hit) + 1;
	CLEANUP(mem) struct record *list = room > 1 ? calloc(room, sizeof(*list)) : NULL;
	CLEANUP(buf) struct buf text = BUF_INIT(1024), names = BUF_INIT(2048);
	/* cppcheck-suppress uninitvar ; it is taken when there is one to write, by fill_exec */
	struct record one, *x = list ? list : &one;
	size_t n = 0;

	if (room > 1 && !list)
		return err_nomem(e);
	if (more)
		n = fill_denials(r, o, x);
	if (o->trust_count || o->trust_more)
		n += fill_trust(r, o, x + n);
	n += fill_limits(r, o, x + n);
	fill_exec(r, o, &text, &names, &x[n++]);
	return log_append(r->log, x, n, e);
}

/* Retention, by whoever happens to write the thousandth record. What it cannot do now the next one
 * will. */
static void prune_sometimes(struct recorder *r)
{
	const struct audit_spec *a = &r->spec->audit;
	struct prune_options o = { .max_age_ms = a->max_age,
				   .max_records = a->max_records,
				   .lazy = true };
	struct prune_report report;
	struct err e;

	if ((a->max_age || a->max_records) && r->first &&
	    log_head(r->log).seq / PRUNE_EVERY != (r->first - 1) / PRUNE_EVERY)
		(void)prune(r->log, &o, &report, &e);
}

int recorder_end(struct recorder *r, const struct outcome *o, struct err *e)
{
	if (!r)
		return 0;
	r->id = o->id;
	r->backend = o->backend;
	if (open_log(r, e) < 0 || (!r->policy[0] && spec_digest(r->spec, r->policy, e) < 0) ||
	    recorder_put_sums(r, true, e) < 0 || put_end(r, o, e) < 0 || log_anchor(r->log, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	running_end(&r->running);
	prune_sometimes(r);
	return 0;
}

/* --- what is no run --- */

/* What somebody typed wrong may hold anything, a password as well: the words in quotes go. */
static void without_quoted(const char *text, char *out, size_t n)
{
	size_t at = 0;
	bool inside = false;

	for (; *text && at + 4 < n; text++) {
		if (*text == '\'') {
			inside = !inside;
			at += (size_t)snprintf(out + at, n - at, inside ? "'..." : "'");
		} else if (!inside) {
			out[at++] = *text;
		}
	}
	out[at] = '\0';
}

/* 1: it takes an event; 0: nothing is recorded. */
static int open_for_one(const struct spec *s, struct recorder **r, struct err *e)
{
	if (recorder_new(s, r, e) < 0 || (*r && open_log(*r, e) < 0))
		return -e->code;
	return *r != NULL;
}

static int put_one(struct recorder *r, const struct record *x, struct err *e)
{
	if (log_append(r->log, x, 1, e) < 0 || log_anchor(r->log, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	return 0;
}

int recorder_refused(const struct spec *s, const char *command, const struct err *why,
		     struct err *e)
{
	CLEANUP(recorder) struct recorder *r = NULL;
	char text[sizeof(why->what)];
	/* That may be why. */
	int opened = exposed_check_own(e) < 0 ? -e->code : open_for_one(s, &r, e);
	struct record x;

	if (opened <= 0)
		return opened;
	(void)snprintf(text, sizeof(text), "%s", why->what);
	if (why->kind == ERR_USAGE)
		without_quoted(why->what, text, sizeof(text));
	recorder_fill(r, &x, EVENT_CONFIG_REFUSED);
	record_text(&x, "command", command);
	record_text(&x, "error", err_kind_name(why->kind));
	record_text(&x, "reason", text);
	return put_one(r, &x, e);
}

int recorder_rule(const struct spec *s, const char *action, const char *rule, const char *file,
		  const char *digest, struct err *e)
{
	CLEANUP(recorder) struct recorder *r = NULL;
	int opened = open_for_one(s, &r, e);
	struct record x;

	if (opened <= 0)
		return opened;
	recorder_fill(r, &x, EVENT_POLICY_CHANGE);
	x.rule = rule;
	record_text(&x, "action", action);
	record_text(&x, "file", file);
	record_text(&x, "digest", digest);
	return put_one(r, &x, e);
}

int recorder_policy(const struct spec *s, const char *action, const char *file, const char *digest,
		    struct err *e)
{
	return recorder_rule(s, action, NULL, file, digest, e);
}

int recorder_tool(const struct spec *s, const char *session, const char *tool, const char *run,
		  const char *outcome, struct err *e)
{
	CLEANUP(recorder) struct recorder *r = NULL;
	int opened = open_for_one(s, &r, e);
	struct record x;

	if (opened <= 0)
		return opened;
	recorder_fill(r, &x, EVENT_TOOL_CALL);
	record_text(&x, "session", session);
	record_text(&x, "tool", tool);
	x.run = run;
	record_text(&x, "outcome", outcome);
	return put_one(r, &x, e);
}

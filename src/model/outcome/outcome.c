/* SPDX-License-Identifier: Apache-2.0 */
#include "model/outcome/outcome.h"

#include "model/outcome/model_use.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text/str.h"
#include "model/outcome/store.h"

#define TARGET_MAX 4352 /* bytes: a path, and a little */
#define REASON_MAX 4608
#define TRUST_MAX 512
#define TRUST_KIND_MAX 16 /* of one reason, so that none pushes out another */
#define NO_NETWORK "this sandbox has no network"
#define COVERED "it could not be changed, because programs on the host obey it"
#define ALIKE_MAX 4                  /* of a target, with different reasons */
#define ARENA_MAX ((size_t)24 << 20) /* more than all limits below come to */

static const struct {
	const char *kind;
	size_t max;
} classes[] = {
	[DENIAL_NETWORK] = { "network", 256 },      [DENIAL_LEAK] = { "leak", 256 },
	[DENIAL_PATH] = { "protected-path", 1000 }, [DENIAL_FOLDER] = { "protected-path", 256 },
	[DENIAL_OTHER] = { "other", 256 },
};
static_assert(ARRAY_LEN(classes) == DENIAL_CLASSES, "a limit for every class");

static const char *const outcome_names[] = {
	[OUTCOME_FAILED] = "failed",
	[OUTCOME_EXITED] = "exited",
	[OUTCOME_SIGNALLED] = "signalled",
	[OUTCOME_TIMEOUT] = "timeout",
	[OUTCOME_OOM] = "oom",
	[OUTCOME_LIMIT] = "limit",
	[OUTCOME_REFUSED] = "refused",
	[OUTCOME_CANCELLED] = "cancelled",
};
static_assert(ARRAY_LEN(outcome_names) == OUTCOME_KINDS, "a name for every outcome");

const char *outcome_name(enum outcome_kind k)
{
	return outcome_names[k];
}

struct outcome *outcome_new(void)
{
	struct outcome *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->arena = arena_new(ARENA_MAX);
	return o->arena ? o : outcome_free(o);
}

struct outcome *outcome_free(struct outcome *o)
{
	if (!o)
		return NULL;
	buf_done(&o->out.data);
	buf_done(&o->err.data);
	buf_done(&o->both.data);
	(void)arena_free(o->arena);
	free(o->isolation);
	free(o);
	return NULL;
}

const char *denial_class_kind(enum denial_class c)
{
	return classes[c].kind;
}

enum denial_class denial_class_of(const char *kind)
{
	for (int c = 0; c < DENIAL_OTHER; c++)
		if (str_eq(kind, classes[c].kind))
			return (enum denial_class)c;
	return DENIAL_OTHER;
}

static bool same_text(const char *kept, const char *text, size_t max)
{
	return strncmp(kept, text, max) == 0;
}

/* Counts one that is listed already; *alike: how many there are of its target. */
static bool count_again(struct outcome *o, enum denial_class class, const char *target,
			const char *reason, size_t *alike)
{
	*alike = 0;
	for (size_t i = 0; i < o->denial_count; i++) {
		struct denial *d = &o->denials[i];

		if (d->class != class || !same_text(d->target, target, TARGET_MAX))
			continue;
		if (!reason || same_text(d->reason, reason, REASON_MAX)) {
			d->count++;
			return true;
		}
		++*alike;
	}
	return false;
}

static bool outcome_list(struct outcome *o, enum denial_class class, const struct denial *from)
{
	struct denial d = {
		.kind = arena_strdup(o->arena, from->kind),
		.target = arena_strndup(o->arena, from->target, strnlen(from->target, TARGET_MAX)),
		.reason = arena_strndup(o->arena, from->reason, strnlen(from->reason, REASON_MAX)),
		.class = class,
		.count = 1,
	};
	struct denial *slot;

	if (!d.kind || !d.target || !d.reason)
		return false;
	slot = ARENA_PUSH(o->arena, o->denials, o->denial_count);
	if (!slot)
		return false;
	*slot = d;
	o->class_count[class]++;
	return true;
}

bool outcome_is_asked(const struct denial *d)
{
	return d->class == DENIAL_NETWORK && str_eq(d->reason, NO_NETWORK);
}

bool outcome_is_covered(const struct denial *d)
{
	return d->class == DENIAL_PATH && str_eq(d->reason, COVERED);
}

/* One more name of a folder of which there are too many. */
static void deny_folder(struct outcome *o, const char *kind, const char *target)
{
	static const char reason[] = "further names in this folder";
	const char *slash = strrchr(target, '/');
	char folder[TARGET_MAX];
	struct denial d = { .kind = kind, .target = folder, .reason = reason };
	size_t alike;

	(void)snprintf(folder, sizeof(folder), "%.*s/", slash ? (int)(slash - target) : 1,
		       slash ? target : ".");
	if (!count_again(o, DENIAL_FOLDER, folder, NULL, &alike) &&
	    (o->class_count[DENIAL_FOLDER] >= classes[DENIAL_FOLDER].max ||
	     !outcome_list(o, DENIAL_FOLDER, &d)))
		o->denials_dropped[DENIAL_FOLDER]++;
}

void outcome_deny_as(struct outcome *o, enum denial_class class, const char *kind,
		     const char *target, const char *reason)
{
	struct denial d = { .kind = kind, .target = target, .reason = reason };
	size_t alike;

	if (count_again(o, class, target, reason, &alike))
		return;
	/* Nothing is copied before it is known to fit. */
	if (o->class_count[class] < classes[class].max && alike < ALIKE_MAX &&
	    outcome_list(o, class, &d))
		return;
	if (class == DENIAL_PATH)
		deny_folder(o, kind, target);
	else
		o->denials_dropped[class]++;
}

void outcome_deny(struct outcome *o, const char *kind, const char *target, const char *reason)
{
	outcome_deny_as(o, denial_class_of(kind), kind, target, reason);
}

void outcome_covered(struct outcome *o, const char *name)
{
	outcome_deny(o, "protected-path", name, COVERED);
}

void outcome_drop(struct outcome *o, const char *kind, uint64_t n)
{
	uint64_t *at = &o->denials_dropped[denial_class_of(kind)];

	*at = *at + n < n ? UINT64_MAX : *at + n;
}

struct outcome_mark {
	uint64_t dropped[DENIAL_CLASSES];
	size_t n;
	uint64_t counts[];
};

struct outcome_mark *outcome_mark(const struct outcome *o)
{
	struct outcome_mark *m = calloc(1, sizeof(*m) + o->denial_count * sizeof(m->counts[0]));

	if (!m)
		return NULL;
	memcpy(m->dropped, o->denials_dropped, sizeof(m->dropped));
	m->n = o->denial_count;
	for (size_t i = 0; i < m->n; i++)
		m->counts[i] = o->denials[i].count;
	return m;
}

void outcome_deny_since(struct outcome *o, const struct outcome *from, const struct outcome_mark *m)
{
	for (size_t i = 0; i < from->denial_count; i++) {
		const struct denial *d = &from->denials[i];

		if (!outcome_is_asked(d) && (!m || i >= m->n || d->count > m->counts[i]))
			outcome_deny_as(o, d->class, d->kind, d->target, d->reason);
	}
	for (int c = 0; c < DENIAL_CLASSES; c++)
		o->denials_dropped[c] += from->denials_dropped[c] - (m ? m->dropped[c] : 0);
}

void outcome_ends_with(struct outcome *o, const struct outcome *box, const struct outcome_mark *m)
{
	outcome_deny_since(o, box, m);
	for (size_t i = 0; i < box->trust_count; i++)
		outcome_trust(o, box->trust[i].path, box->trust[i].reason);
	o->trust_more += box->trust_more;
	o->unseen_folders += box->unseen_folders;
}

uint64_t outcome_denied(const struct outcome *o)
{
	uint64_t n = 0;

	for (size_t i = 0; i < o->denial_count; i++)
		n += o->denials[i].count;
	for (int c = 0; c < DENIAL_CLASSES; c++)
		n += o->denials_dropped[c];
	return n;
}

void outcome_trust(struct outcome *o, const char *path, const char *reason)
{
	struct trust_change c = { .path = arena_strdup(o->arena, path),
				  .reason = arena_strdup(o->arena, reason) };
	struct trust_change *slot = NULL;
	size_t same = 0;

	for (size_t i = 0; i < o->trust_count; i++) {
		if (!str_eq(o->trust[i].reason, reason))
			continue;
		if (str_eq(o->trust[i].path, path))
			return;
		same++;
	}
	if (o->trust_count < TRUST_MAX && same < TRUST_KIND_MAX && c.path && c.reason)
		slot = ARENA_PUSH(o->arena, o->trust, o->trust_count);
	if (slot)
		*slot = c;
	else
		o->trust_more++;
}

void trust_put(struct buf *b, const char *path, const char *reason)
{
	buf_printf(b, "'%.200s'", path);
	if (str_starts(reason, "in commit "))
		buf_printf(b, " (%.*s)", (int)strcspn(reason, ":"), reason);
}

void outcome_pass(struct outcome *o, const char *backend, const char *reason)
{
	struct passed p = { .backend = arena_strdup(o->arena, backend),
			    .reason = arena_strdup(o->arena, reason) };
	struct passed *slot;

	if (!p.backend || !p.reason)
		return;
	slot = ARENA_PUSH(o->arena, o->passed, o->passed_count);
	if (slot)
		*slot = p;
}

void outcome_publish(struct outcome *o, const struct published *p)
{
	struct published *slot = ARENA_PUSH(o->arena, o->published, o->published_count);

	if (slot)
		*slot = *p;
}

/* A report that is read has it among its denials already. */
void outcome_asked(struct outcome *o, const char *name)
{
	const char *copy = arena_strdup(o->arena, name),
		   **slot = copy ? ARENA_PUSH(o->arena, o->asked, o->asked_count) : NULL;

	if (slot)
		*slot = copy;
	for (size_t i = 0; i < o->denial_count; i++)
		if (str_eq(o->denials[i].target, name) && outcome_is_asked(&o->denials[i]))
			return;
	outcome_deny(o, "network", name, NO_NETWORK);
}

void outcome_hint(struct outcome *o, const char *text)
{
	const char *copy = text && o->hint_count < ARRAY_LEN(o->hints)
				   ? arena_strndup(o->arena, text, strnlen(text, REASON_MAX))
				   : NULL;

	if (copy)
		o->hints[o->hint_count++] = copy;
}

void outcome_hit(struct outcome *o, enum limit l)
{
	o->limits_hit |= 1U << l;
}

void outcome_ended(struct outcome *o, int status)
{
	if (o->kind == OUTCOME_CANCELLED && WIFEXITED(status)) {
		o->by_itself = true;
		o->exit_code = WEXITSTATUS(status);
	}
	if (o->kind != OUTCOME_FAILED)
		return;
	o->kind = WIFSIGNALED(status) ? OUTCOME_SIGNALLED : OUTCOME_EXITED;
	if (WIFSIGNALED(status))
		o->signal = WTERMSIG(status);
	else
		o->exit_code = WEXITSTATUS(status);
}

void outcome_ended_as(struct outcome *o, int shell_status)
{
	bool killed = shell_status > 128 && shell_status < 128 + NSIG;

	outcome_ended(o, killed ? W_EXITCODE(0, shell_status - 128) : W_EXITCODE(shell_status, 0));
}

int outcome_status(const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_EXITED:
		return o->exit_code;
	case OUTCOME_SIGNALLED:
		return 128 + o->signal;
	case OUTCOME_TIMEOUT:
		return 124;
	case OUTCOME_OOM:
	case OUTCOME_LIMIT:
		return 137;
	case OUTCOME_CANCELLED:
		if (o->by_itself)
			return o->exit_code;
		return o->signal ? 128 + o->signal : 130;
	default:
		break;
	}
	if (o->error.kind == ERR_NOT_FOUND)
		return 127;
	return o->error.kind == ERR_NOT_EXECUTABLE ? 126 : 125;
}

static void own_words(struct arena *a, struct isolation *i)
{
	const char **words[] = { &i->seccomp, &i->cgroup, &i->pause, &i->network, &i->runtime };

	for (size_t k = 0; k < ARRAY_LEN(words); k++)
		*words[k] = *words[k] ? arena_strdup(a, *words[k]) : NULL;
}

/* With its words: a command's result may outlive that of its sandbox, and another brig's words are
 * kept there. */
void outcome_contain(struct outcome *o, const struct isolation *i)
{
	if (!o->isolation)
		o->isolation = malloc(sizeof(*o->isolation));
	if (!o->isolation)
		return;
	*o->isolation = *i;
	own_words(o->arena, o->isolation);
}

/* Who made sure that a limit held, the sandbox's or the command's own. */
static enum enforcer outcome_enforcer(const struct outcome *o, enum limit l)
{
	if (l == LIMIT_TIMEOUT)
		return o->timeout_by;
	if (l == LIMIT_OUTPUT)
		return o->output_by;
	return o->isolation ? o->isolation->limits[l] : ENFORCER_NONE;
}

const char *outcome_enforcers(const struct outcome *o, enum limit l)
{
	return enforcer_names(outcome_enforcer(o, l),
			      o->isolation && o->isolation->slurm & 1U << l);
}

static void keeps_json(unsigned keeps, struct json *j)
{
	json_karray(j, "keeps");
	for (int i = 0; i < STORE_PLACES; i++)
		if (keeps & 1U << i)
			json_str(j, store_folders[i].name);
	json_array_end(j);
}

static void isolation_json(const struct outcome *o, struct json *j)
{
	static const struct isolation none;
	const struct isolation *i = o->isolation ? o->isolation : &none;

	json_object(j);
	json_kbool(j, "user_ns", i->user_ns);
	json_kbool(j, "pid_ns", i->pid_ns);
	json_kbool(j, "mount_ns", i->mount_ns);
	json_kbool(j, "net_ns", i->net_ns);
	json_kbool(j, "ipc_ns", i->ipc_ns);
	json_kbool(j, "uts_ns", i->uts_ns);
	json_kbool(j, "cgroup_ns", i->cgroup_ns);
	json_kbool(j, "no_new_privs", i->no_new_privs);
	json_kbool(j, "capabilities_dropped", i->capabilities_dropped);
	json_kbool(j, "read_only_root", i->read_only_root);
	json_kstr(j, "seccomp", i->seccomp ? i->seccomp : "none");
	json_ku64(j, "landlock_abi", (uint64_t)i->landlock_abi);
	json_kstr(j, "cgroup", i->cgroup ? i->cgroup : "none");
	if (i->pause)
		json_kstr(j, "pause", i->pause);
	json_kstr(j, "network", i->network);
	if (i->network_by)
		json_kstr(j, "network_by", i->network_by);
	if (i->runtime)
		json_kstr(j, "runtime", i->runtime);
	json_ku64(j, "uid_inside", i->uid_inside);
	json_ku64(j, "gid_inside", i->gid_inside);
	if (!gpu_set_empty(&i->gpus)) {
		json_key(j, "gpus");
		gpu_set_json(&i->gpus, j);
	}
	if (i->keeps)
		keeps_json(i->keeps, j);
	json_kobject(j, "limits");
	for (int l = 0; l < LIMIT_COUNT; l++)
		json_kstr(j, limit_name((enum limit)l), outcome_enforcers(o, (enum limit)l));
	json_object_end(j);
	json_object_end(j);
}

static void stream_json(const char *name, const struct stream *s, struct json *j)
{
	char key[32];

	json_key(j, name);
	json_strn(j, buf_str(&s->data), s->data.len);
	(void)snprintf(key, sizeof(key), "%s_bytes", name);
	json_ku64(j, key, s->bytes);
	(void)snprintf(key, sizeof(key), "%s_truncated", name);
	json_kbool(j, key, s->truncated);
}

static void denials_json(const struct outcome *o, struct json *j)
{
	json_karray(j, "denials");
	for (size_t i = 0; i < o->denial_count; i++) {
		json_object(j);
		json_kstr(j, "kind", o->denials[i].kind);
		json_kstr(j, "target", o->denials[i].target);
		json_kstr(j, "reason", o->denials[i].reason);
		if (o->denials[i].count > 1)
			json_ku64(j, "count", o->denials[i].count);
		json_object_end(j);
	}
	json_array_end(j);
	json_kobject(j, "denials_dropped");
	for (int c = 0; c < DENIAL_CLASSES; c++) {
		uint64_t n = o->denials_dropped[c];

		if (c == DENIAL_FOLDER)
			continue;
		n += c == DENIAL_PATH ? o->denials_dropped[DENIAL_FOLDER] : 0;
		if (n)
			json_ku64(j, classes[c].kind, n);
	}
	json_object_end(j);
}

static void published_json(const struct outcome *o, struct json *j)
{
	json_karray(j, "ports");
	for (size_t i = 0; i < o->published_count; i++) {
		const struct published *p = &o->published[i];
		char address[32];

		(void)snprintf(address, sizeof(address), "127.0.0.1:%u", p->host);
		json_object(j);
		json_kstr(j, "address", address);
		json_ku64(j, "host_port", p->host);
		json_ku64(j, "port", p->port);
		json_kstr(j, "protocol", "tcp");
		json_kbool(j, "ipv6", p->six);
		json_object_end(j);
	}
	json_array_end(j);
}

static void asked_json(const struct outcome *o, struct json *j)
{
	json_kobject(j, "unresolved");
	json_ku64(j, "questions", o->questions);
	json_karray(j, "names");
	for (size_t i = 0; i < o->asked_count; i++)
		json_str(j, o->asked[i]);
	json_array_end(j);
	json_object_end(j);
}

static void lists_json(const struct outcome *o, struct json *j)
{
	json_karray(j, "limits_hit");
	for (int l = 0; l < LIMIT_COUNT; l++)
		if (o->limits_hit & (1U << l))
			json_str(j, limit_name((enum limit)l));
	json_array_end(j);
	denials_json(o, j);
	json_karray(j, "changed_trust");
	for (size_t i = 0; i < o->trust_count; i++) {
		json_object(j);
		json_kstr(j, "path", o->trust[i].path);
		json_kstr(j, "reason", o->trust[i].reason);
		json_object_end(j);
	}
	json_array_end(j);
	json_ku64(j, "changed_trust_more", o->trust_more);
	json_ku64(j, "unseen_folders", o->unseen_folders);
	json_kbool(j, "unsettled", o->unsettled);
	json_karray(j, "passed_over");
	for (size_t i = 0; i < o->passed_count; i++) {
		json_object(j);
		json_kstr(j, "backend", o->passed[i].backend);
		json_kstr(j, "reason", o->passed[i].reason);
		json_object_end(j);
	}
	json_array_end(j);
	published_json(o, j);
	asked_json(o, j);
	json_karray(j, "hints");
	for (size_t i = 0; i < o->hint_count; i++)
		json_str(j, o->hints[i]);
	json_array_end(j);
	json_ku64(j, "signatures", o->signatures);
	json_kobject(j, "egress");
	json_ku64(j, "requests", o->egress.allowed + o->egress.denied);
	json_ku64(j, "allowed", o->egress.allowed);
	json_ku64(j, "denied", o->egress.denied);
	json_ku64(j, "uninspected", o->egress.uninspected);
	json_ku64(j, "bytes_out", o->egress.bytes_out);
	json_ku64(j, "bytes_in", o->egress.bytes_in);
	model_use_json(o, j);
	json_object_end(j);
}

static void pod_json(const struct pod_place *p, struct json *j)
{
	json_kobject(j, "pod");
	json_kstr(j, "cluster", p->cluster);
	json_kstr(j, "namespace", p->name_space);
	json_kstr(j, "name", p->pod);
	json_kstr(j, "uid", p->uid);
	json_kstr(j, "node", p->node);
	json_object_end(j);
}

void outcome_json(const struct outcome *o, struct json *j)
{
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kstr(j, "id", o->id);
	json_kstr(j, "outcome", outcome_name(o->kind));
	json_ku64(j, "exit_code", (uint64_t)outcome_status(o));
	json_key(j, "signal");
	if (o->signal)
		json_i64(j, o->signal);
	else
		json_null(j);
	stream_json("stdout", &o->out, j);
	stream_json("stderr", &o->err, j);
	stream_json("output", &o->both, j);
	json_key(j, "duration_ms");
	json_milli(j, o->duration_us);
	json_key(j, "setup_ms");
	json_milli(j, o->setup_us);
	json_kstr(j, "backend", o->backend);
	if (o->workspace_target)
		json_kstr(j, "workspace_target", o->workspace_target);
	if (o->workspace)
		json_kstr(j, "workspace", o->workspace);
	if (o->layer) {
		json_kobject(j, "layer");
		json_kstr(j, "id", o->layer);
		json_ku64(j, "changed", o->layer_changed);
		json_kbool(j, "more", o->layer_more);
		if (o->layer_tried) {
			json_ku64(j, "applied", o->layer_applied);
			json_ku64(j, "left", o->layer_left);
			json_kstr(j, "kept", o->layer_kept.code ? o->layer_kept.what : NULL);
		}
		json_object_end(j);
	}
	if (o->job)
		json_kstr(j, "job", o->job);
	if (o->node)
		json_kstr(j, "node", o->node);
	if (o->repository)
		json_kstr(j, "repository", o->repository);
	if (o->image)
		json_kstr(j, "image", o->image);
	if (o->pod.uid)
		pod_json(&o->pod, j);
	json_key(j, "isolation");
	isolation_json(o, j);
	lists_json(o, j);
	json_key(j, "error");
	if (o->error.code) {
		json_object(j);
		json_kstr(j, "code", err_kind_name(o->error.kind));
		json_kstr(j, "what", o->error.what);
		json_kstr(j, "hint", o->error.hint[0] ? o->error.hint : NULL);
		json_object_end(j);
	} else {
		json_null(j);
	}
	json_object_end(j);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_entry.c - one sandbox on disk: its state, and the object that the API
 * shows.
 *
 * The file "state" has a JSON object a line; the last whole one counts. A line is appended before
 * anything is told, which is safe against a killed daemon and costs microseconds where a rename
 * over a file that is there costs the disk's time; the monitor makes the folder durable beside its
 * work. A file that has grown long is written anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/record.h"
#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"

#define STATE_NEW "state.new"
#define STATE_MAX ((size_t)1 << 20)
#define STATE_LONG ((off_t)64 << 10)
#define LINE_MAX_BYTES ((size_t)128 << 10)
#define FACTS_MAX ((size_t)2 << 20)

static const char *const words[] = {
	[STATE_PENDING] = "pending", [STATE_READY] = "ready",     [STATE_FAILED] = "failed",
	[STATE_PAUSED] = "paused",   [STATE_STOPPED] = "stopped", [STATE_DELETING] = "deleting",
};
_Static_assert(ARRAY_LEN(words) == SANDBOX_STATES, "a word for every state");

const char *state_word(enum sandbox_state s)
{
	return words[s];
}

/* ---- labels ---- */

void labels_free(char **labels)
{
	for (size_t i = 0; labels && labels[i]; i++)
		free(labels[i]);
	free(labels);
}

int labels_copy(const struct label *from, size_t n, char ***ret)
{
	char **all = calloc(2 * n + 1, sizeof(*all));

	for (size_t i = 0; all && i < n; i++) {
		all[2 * i] = strdup(from[i].key);
		all[2 * i + 1] = all[2 * i] ? strdup(from[i].value) : NULL;
		if (!all[2 * i + 1]) {
			labels_free(all);
			return -ENOMEM;
		}
	}
	*ret = all;
	return all ? 0 : -ENOMEM;
}

/* ---- in memory ---- */

struct sandbox_entry *entry_new(struct sandboxes *s)
{
	struct sandbox_entry *b = calloc(1, sizeof(*b));

	if (!b || labels_copy(NULL, 0, &b->labels) < 0) {
		free(b);
		return NULL;
	}
	b->s = s;
	b->link.fd = b->proc.fd = -1;
	return b;
}

struct sandbox_entry *entry_free(struct sandbox_entry *b)
{
	struct verb_waiter *next;

	if (!b)
		return NULL;
	for (struct verb_waiter *w = b->waiters; w; w = next) {
		next = w->next;
		free(w);
	}
	loop_at(b->s->loop, &b->due, 0);
	loop_at(b->s->loop, &b->again, 0);
	link_close(b);
	execs_free(b);
	files_forget(b);
	questions_forget(b);
	labels_free(b->labels);
	free(b);
	return NULL;
}

/* ---- on disk ---- */

int entry_folder(const struct sandbox_entry *b)
{
	return openat(b->s->folder, b->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int entry_execs(const struct sandbox_entry *b)
{
	char path[EXEC_PATH_SIZE];

	entry_path(b, ".", path);
	return openat(b->s->folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void entry_path(const struct sandbox_entry *b, const char *exec, char path[EXEC_PATH_SIZE])
{
	(void)snprintf(path, EXEC_PATH_SIZE, "%s/" MONITOR_EXECS "/%s", b->id, exec);
}

int entry_lock(const struct sandbox_entry *b, int *ret)
{
	CLEANUP(fd) int fd = entry_folder(b);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static void put_labels(char *const *labels, struct json *j)
{
	json_kobject(j, "labels");
	for (size_t i = 0; labels[i]; i += 2)
		json_kstr(j, labels[i], labels[i + 1]);
	json_object_end(j);
}

static void box_entry_put_error(const struct err *e, struct json *j)
{
	json_kobject(j, "error");
	json_ku64(j, "errno", (uint64_t)e->code);
	json_kstr(j, "code", err_kind_name(e->kind));
	json_kstr(j, "what", e->what);
	json_kstr(j, "hint", e->hint);
	json_object_end(j);
}

static void box_entry_put_line(const struct sandbox_entry *b, struct buf *out)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	json_kstr(&j, "state", state_word(b->state));
	json_kstr(&j, "reason", b->reason);
	json_kstr(&j, "name", b->name);
	json_kstr(&j, "tenant", b->tenant);
	put_labels(b->labels, &j);
	json_ku64(&j, "created", b->created);
	json_ku64(&j, "started", b->started);
	json_ku64(&j, "since", b->since);
	json_ku64(&j, "idle_ttl", b->idle_ttl);
	json_ku64(&j, "ttl", b->ttl);
	json_ku64(&j, "cleanup_ttl", b->cleanup_ttl);
	json_kbool(&j, "restart", b->restart.on);
	json_ku64(&j, "down", b->restart.down);
	json_ku64(&j, "tries", b->restart.tries);
	if (b->error.code)
		box_entry_put_error(&b->error, &j);
	json_object_end(&j);
	buf_putc(out, '\n');
}

static int write_anew(int folder, const struct buf *line)
{
	CLEANUP(fd)
	int fd = openat(folder, STATE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, line->data, line->len);

	if (r == 0 && (fdatasync(fd) < 0 || renameat(folder, STATE_NEW, folder, MONITOR_STATE) < 0))
		r = -errno;
	return r;
}

static int box_entry_append(int folder, const struct buf *line)
{
	CLEANUP(fd)
	int fd = openat(folder, MONITOR_STATE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	char last = '\n';

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > STATE_LONG)
		return write_anew(folder, line);
	/* A killed daemon's half of a line becomes one of its own, which says nothing. */
	if (st.st_size && pread(fd, &last, 1, st.st_size - 1) != 1)
		return -errno;
	if (lseek(fd, 0, SEEK_END) < 0)
		return -errno;
	if (last != '\n' && write(fd, "\n", 1) != 1)
		return -EIO;
	return fd_write_all(fd, line->data, line->len);
}

int entry_save(const struct sandbox_entry *b, struct err *e)
{
	CLEANUP(buf) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	CLEANUP(fd) int folder = entry_folder(b);
	int r;

	box_entry_put_line(b, &line);
	r = line.failed ? -E2BIG : folder < 0 ? -errno : box_entry_append(folder, &line);
	return r < 0 ? err_errno(e, r, "cannot write down the state of '%s'", b->id) : 0;
}

static void box_entry_take_text(char *out, size_t n, const struct jread *v, const char *key)
{
	const char *text = jread_str(v, key);

	(void)snprintf(out, n, "%s", text ? text : "");
}

static uint64_t take_number(const struct jread *v, const char *key)
{
	int64_t n = jread_int(v, key, 0);

	return n > 0 ? (uint64_t)n : 0;
}

static int take_labels(struct sandbox_entry *b, const struct jread *v)
{
	struct label all[SANDBOX_LABELS];
	char **copy;
	size_t n = 0;

	for (void *it = jread_first(v); it && n < ARRAY_LEN(all); it = jread_next(v, it)) {
		all[n].key = jread_key(it);
		all[n].value = jread_text(jread_value(it));
		n += all[n].value != NULL;
	}
	if (labels_copy(all, n, &copy) < 0)
		return -ENOMEM;
	labels_free(b->labels);
	b->labels = copy;
	return 0;
}

static int box_entry_take_line(struct sandbox_entry *b, const char *line, size_t n)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *error;
	const char *word;
	struct err e;
	int state = -1;

	if (jread_parse(line, n, &v, &e) < 0)
		return -EBADMSG;
	word = jread_str(v, "state");
	for (int i = 0; word && i < SANDBOX_STATES; i++)
		if (str_eq(word, words[i]))
			state = i;
	if (state < 0)
		return -EBADMSG;
	b->state = (enum sandbox_state)state;
	box_entry_take_text(b->reason, sizeof(b->reason), v, "reason");
	box_entry_take_text(b->name, sizeof(b->name), v, "name");
	box_entry_take_text(b->tenant, sizeof(b->tenant), v, "tenant");
	b->created = take_number(v, "created");
	b->started = take_number(v, "started");
	b->since = take_number(v, "since");
	b->idle_ttl = take_number(v, "idle_ttl");
	b->ttl = take_number(v, "ttl");
	b->cleanup_ttl = take_number(v, "cleanup_ttl");
	b->restart = (struct restart){ .on = jread_bool(v, "restart"),
				       .down = take_number(v, "down"),
				       .tries = take_number(v, "tries") };
	error = jread_get(v, "error");
	if (error) {
		b->error.code = (int)jread_int(error, "errno", EIO);
		b->error.kind = err_kind_of(jread_str(error, "code"));
		box_entry_take_text(b->error.what, sizeof(b->error.what), error, "what");
		box_entry_take_text(b->error.hint, sizeof(b->error.hint), error, "hint");
	}
	return take_labels(b, jread_get(v, "labels"));
}

int entry_load(struct sandbox_entry *b, int folder)
{
	CLEANUP(mem) char *text = malloc(STATE_MAX);
	ssize_t n = text ? fd_read_file(folder, MONITOR_STATE, text, STATE_MAX) : -ENOMEM;
	char *end = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;

	if (n < 0 && n != -ENOENT)
		return (int)n;
	while (end) {
		char *before = memrchr(text, '\n', (size_t)(end - text));
		char *line = before ? before + 1 : text;

		if (box_entry_take_line(b, line, (size_t)(end - line)) == 0)
			return 0;
		end = before;
	}
	return -EBADMSG;
}

/* ---- shown ---- */

static void box_entry_put_time(struct json *j, const char *key, uint64_t us)
{
	char text[RECORD_TIME_SIZE];

	json_key(j, key);
	if (!us) {
		json_null(j);
		return;
	}
	record_time(us, text);
	json_str(j, text);
}

/* Nothing where there is no such file. */
void entry_read_text(int folder, const char *name, struct buf *out)
{
	CLEANUP(mem) char *text = malloc(SPEC_MAX + 1);
	ssize_t n = text ? fd_read_file(folder, name, text, SPEC_MAX + 1) : -1;

	if (n > 0)
		buf_add(out, text, (size_t)n);
}

int entry_write_text(int folder, const char *name, const char *text, size_t n)
{
	CLEANUP(fd)
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd_write_all(fd, text, n);
}

static struct jread *read_json(int folder, const char *name)
{
	struct stat st;
	CLEANUP(fd) int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC);
	bool there = fd >= 0 && fstat(fd, &st) == 0 && st.st_size < (off_t)FACTS_MAX;
	CLEANUP(mem) char *text = there ? malloc((size_t)st.st_size + 1) : NULL;
	ssize_t n = text ? pread(fd, text, (size_t)st.st_size, 0) : -1;
	struct jread *v = NULL;
	struct err e;

	return n > 0 && jread_parse(text, (size_t)n, &v, &e) == 0 ? v : NULL;
}

void entry_run(const struct sandbox_entry *b, char run[RUN_ID_SIZE])
{
	CLEANUP(fd) int folder = entry_folder(b);
	CLEANUP(jread) struct jread *facts = read_json(folder, MONITOR_FACTS);

	box_entry_take_text(run, RUN_ID_SIZE, facts, "id");
}

/* Variables of companions are shown to nobody. */
static void hide(const struct jread *spec)
{
	const struct jread *companions = jread_get(spec, "companions");

	for (void *it = jread_first(companions); it; it = jread_next(companions, it))
		jread_drop(jread_value(it), "env");
}

/* As the monitor wrote them last. Without a monitor none of them runs. */
static void put_companions(const struct sandbox_entry *b, int folder, struct json *j)
{
	CLEANUP(jread) struct jread *all = read_json(folder, MONITOR_COMPANIONS);
	bool over = b->state == STATE_STOPPED || b->state == STATE_FAILED;
	const struct jread *one;

	json_karray(j, "companions");
	for (size_t i = 0; (one = jread_at(all, i)); i++) {
		const char *state = jread_str(one, "state");

		json_object(j);
		json_kstr(j, "name", jread_str(one, "name"));
		json_kstr(j, "state",
			  over && state && !str_eq(state, "failed") ? "stopped" : state);
		json_kstr(j, "address", jread_str(one, "address"));
		json_kstr(j, "reason", jread_str(one, "reason"));
		json_object_end(j);
	}
	json_array_end(j);
}

void entry_show(const struct sandbox_entry *b, bool redacted, struct json *j)
{
	CLEANUP(fd) int folder = entry_folder(b);
	CLEANUP(jread) struct jread *spec = read_json(folder, MONITOR_SPEC);
	CLEANUP(jread) struct jread *facts = read_json(folder, MONITOR_FACTS);

	if (spec)
		hide(spec);
	if (redacted && spec) /* they may be secrets */
		jread_drop(jread_get(spec, "env"), "set");
	json_object(j);
	json_kstr(j, "id", b->id);
	json_kstr(j, "name", *b->name ? b->name : NULL);
	json_kstr(j, "state", state_word(b->state));
	json_kstr(j, "reason", *b->reason ? b->reason : NULL);
	box_entry_put_time(j, "created", b->created);
	box_entry_put_time(j, "started", b->started);
	json_kstr(j, "backend", jread_str(facts, "backend"));
	json_kvalue(j, "spec", spec);
	json_kvalue(j, "isolation", jread_get(facts, "isolation"));
	json_kstr(j, "run", jread_str(facts, "id"));
	json_kvalue(j, "workspace_target", jread_get(facts, "workspace_target"));
	put_labels(b->labels, j);
	json_kvalue(j, "ports", jread_get(facts, "ports"));
	put_companions(b, folder, j);
	json_kbool(j, "store",
		   folder >= 0 && faccessat(folder, MONITOR_STORE, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	json_ku64(j, "execs_running", b->exec_count);
	json_kstr(j, "restart", b->restart.on ? "on-failure" : "no");
	json_ku64(j, "idle_ttl_ms", b->idle_ttl);
	json_ku64(j, "cleanup_ttl_ms", b->cleanup_ttl);
	box_entry_put_time(j, "expires", b->ttl ? b->created + b->ttl * 1000 : 0);
	if (b->error.code)
		box_entry_put_error(&b->error, j);
	json_object_end(j);
}

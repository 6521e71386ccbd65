/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/chat/chat_history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/bytes/random.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/str.h"

#define FOLDER "sessions"
#define ENDING ".json"
#define FILE_MAX (HISTORY_MAX + (1 << 16))

int history_init(struct chat_history *h, const char *role, const char *folder, struct err *e)
{
	*h = (struct chat_history){ .role = role, .folder = folder };
	return random_hex(h->id, sizeof(h->id), e);
}

void history_done(struct chat_history *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->v[i]);
	free(h->v);
	h->v = NULL;
	h->n = 0;
}

/* ---- messages ---- */

static int history_add(struct chat_history *h, char *text, struct err *e)
{
	char **v;
	size_t len = text ? strlen(text) : 0;

	if (text && (h->n >= HISTORY_MESSAGES || h->bytes + len > HISTORY_MAX)) {
		free(text);
		return err_refuse(e, ERR_UNAVAILABLE, E2BIG, "begin a new one, without --resume",
				  "the conversation is too long to go on");
	}
	v = text ? realloc(h->v, (h->n + 1) * sizeof(*v)) : NULL;
	if (!v) {
		free(text);
		return err_nomem(e);
	}
	h->v = v;
	h->v[h->n++] = text;
	h->bytes += len;
	return 0;
}

static void history_begin(struct json *j, struct buf *b, const char *role)
{
	*b = (struct buf)BUF_INIT(HISTORY_MAX);
	json_init(j, b, false);
	json_object(j);
	json_kstr(j, "role", role);
}

static int history_finish(struct chat_history *h, struct json *j, struct buf *b, struct err *e)
{
	char *text;

	json_object_end(j);
	text = buf_take(b);
	buf_done(b);
	return history_add(h, text, e);
}

int history_user(struct chat_history *h, const char *text, struct err *e)
{
	struct json j;
	struct buf b;

	history_begin(&j, &b, "user");
	json_kstr(&j, "content", text);
	return history_finish(h, &j, &b, e);
}

/* Servers refuse a conversation in which their own word was no JSON. */
static bool is_object(const struct buf *b)
{
	struct jread *root = NULL;
	struct err unused;
	bool is = jread_parse(buf_str(b), b->len, &root, &unused) == 0 &&
		  jread_kind(root) == JREAD_OBJECT;

	(void)jread_free(root);
	return is;
}

static void put_call(struct json *j, const struct chat_call *c)
{
	json_object(j);
	json_kstr(j, "id", c->id);
	json_kstr(j, "type", "function");
	json_kobject(j, "function");
	json_kstr(j, "name", c->name);
	json_kstr(j, "arguments", is_object(&c->args) ? buf_str(&c->args) : "{}");
	json_object_end(j);
	json_object_end(j);
}

int history_answer(struct chat_history *h, const struct chat_answer *a, struct err *e)
{
	struct json j;
	struct buf b;

	history_begin(&j, &b, "assistant");
	json_key(&j, "content");
	if (a->text.len || !a->n_calls)
		json_strn(&j, buf_str(&a->text), a->text.len);
	else
		json_null(&j);
	if (a->n_calls) {
		json_karray(&j, "tool_calls");
		for (size_t i = 0; i < a->n_calls; i++)
			put_call(&j, &a->calls[i]);
		json_array_end(&j);
	}
	return history_finish(h, &j, &b, e);
}

int history_result(struct chat_history *h, const struct chat_call *c, const char *text, size_t n,
		   struct err *e)
{
	struct json j;
	struct buf b;

	history_begin(&j, &b, "tool");
	json_kstr(&j, "tool_call_id", c->id);
	json_key(&j, "content");
	json_strn(&j, text, n);
	return history_finish(h, &j, &b, e);
}

void history_write(const struct chat_history *h, struct json *j)
{
	for (size_t i = 0; i < h->n; i++)
		json_raw(j, h->v[i], strlen(h->v[i]));
}

/* ---- the file ---- */

static bool is_session(const char *name)
{
	return strlen(name) == SESSION_ID_SIZE - 1 + strlen(ENDING) &&
	       strspn(name, "0123456789abcdef") == SESSION_ID_SIZE - 1 &&
	       str_eq(name + SESSION_ID_SIZE - 1, ENDING);
}

/* Calls `each` for every session's file; the folder is borrowed. */
static void each_session(int folder,
			 void (*each)(void *arg, const char *name, const struct stat *st),
			 void *arg)
{
	CLEANUP(fd) int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *x;
	struct folder f;
	struct stat st;

	folder_begin(&f, again);
	while ((x = folder_next(&f)))
		if (is_session(x->name) &&
		    fstatat(folder, x->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			each(arg, x->name, &st);
}

struct oldest {
	char name[64];
	struct timespec at;
	size_t n;
};

static bool before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void look_old(void *arg, const char *name, const struct stat *st)
{
	struct oldest *o = arg;

	if (!o->n++ || before(&st->st_mtim, &o->at)) {
		(void)snprintf(o->name, sizeof(o->name), "%s", name);
		o->at = st->st_mtim;
	}
}

static void prune(int folder)
{
	for (int i = 0; i < SESSIONS_MAX; i++) {
		struct oldest o = { 0 };

		each_session(folder, look_old, &o);
		if (o.n <= SESSIONS_MAX || unlinkat(folder, o.name, 0) < 0)
			return;
	}
}

static int history_put_file(int folder, const char *name, const struct buf *b, struct err *e)
{
	int r = draft_write(folder, name, b, 0600, false);

	return r < 0 ? err_errno(e, r, "cannot keep the conversation") : 0;
}

int history_save(const struct chat_history *h, struct err *e)
{
	CLEANUP(fd) int folder = state_open(FOLDER, NULL, 0, e);
	CLEANUP(buf) struct buf b = BUF_INIT(FILE_MAX);
	char name[SESSION_ID_SIZE + sizeof(ENDING)];
	struct json j;

	if (folder < 0)
		return folder;
	json_init(&j, &b, false);
	json_object(&j);
	json_ku64(&j, "brig_session", 1);
	json_kstr(&j, "id", h->id);
	json_kstr(&j, "role", h->role);
	json_kstr(&j, "folder", h->folder);
	json_karray(&j, "messages");
	history_write(h, &j);
	json_array_end(&j);
	json_object_end(&j);
	if (b.failed)
		return err_nomem(e);
	(void)snprintf(name, sizeof(name), "%s" ENDING, h->id);
	if (history_put_file(folder, name, &b, e) < 0)
		return -e->code;
	prune(folder);
	return 0;
}

static int no_session(const char *id, struct err *e)
{
	return id ? err_refuse(e, ERR_USAGE, ENOENT, "--resume alone goes on with the last one",
			       "there is no conversation '%.40s'", id)
		  : err_refuse(e, ERR_USAGE, ENOENT, "leave --resume out",
			       "no conversation of this role was held in this folder");
}

static int read_tree(int folder, const char *name, struct jread **ret, struct err *e)
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	CLEANUP(buf) struct buf b = BUF_INIT(FILE_MAX);
	struct stat st;
	char piece[65536];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, ERR_CONFIG, ENOENT, "a conversation cannot be read");
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		buf_add(&b, piece, (size_t)n);
	if (n < 0 || b.failed)
		return err_set(e, ERR_CONFIG, EIO, "a conversation cannot be read");
	return jread_parse(buf_str(&b), b.len, ret, e);
}

struct last_session {
	struct chat_history *h;
	int folder;
	char name[64];
	struct timespec at;
};

static void look_new(void *arg, const char *name, const struct stat *st)
{
	struct last_session *x = arg;
	struct jread *root = NULL;
	struct err unused;

	if (x->name[0] && before(&st->st_mtim, &x->at))
		return;
	if (read_tree(x->folder, name, &root, &unused) == 0 &&
	    str_eq(jread_str(root, "role") ? jread_str(root, "role") : "", x->h->role) &&
	    str_eq(jread_str(root, "folder") ? jread_str(root, "folder") : "", x->h->folder)) {
		(void)snprintf(x->name, sizeof(x->name), "%s", name);
		x->at = st->st_mtim;
	}
	(void)jread_free(root);
}

static int take_messages(struct chat_history *h, const struct jread *list, struct err *e)
{
	for (size_t i = 0; i < jread_count(list); i++)
		if (jread_kind(jread_at(list, i)) != JREAD_OBJECT ||
		    !jread_str(jread_at(list, i), "role"))
			return err_set(e, ERR_CONFIG, EBADMSG, "the conversation's file is broken");
		else if (history_add(h, jread_dump(jread_at(list, i)), e) < 0)
			return -e->code;
	return 0;
}

int history_load(struct chat_history *h, const char *id, struct err *e)
{
	CLEANUP(fd) int folder = state_open(FOLDER, NULL, 0, e);
	CLEANUP(jread) struct jread *root = NULL;
	struct last_session x = { .h = h, .folder = folder };

	if (folder < 0)
		return folder;
	if (id)
		(void)snprintf(x.name, sizeof(x.name), "%.40s" ENDING, id);
	else
		each_session(folder, look_new, &x);
	if (!is_session(x.name) || faccessat(folder, x.name, R_OK, 0) < 0)
		return no_session(id, e);
	if (read_tree(folder, x.name, &root, e) < 0)
		return err_wrap(e, "conversation '%.32s'", x.name);
	(void)snprintf(h->id, sizeof(h->id), "%.32s", x.name);
	h->old = true;
	return take_messages(h, jread_get(root, "messages"), e);
}

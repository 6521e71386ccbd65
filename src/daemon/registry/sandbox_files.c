/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/registry/sandbox_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "daemon/registry/sandboxes_internal.h"
#include "proc/order.h"

#define PIPE_BYTES (1 << 20)
#define PATIENCE_US ((uint64_t)FILE_PATIENCE_MS * 1000)
#define LEAVE_US ((uint64_t)10 * 1000 * 1000) /* to take away what it has begun */
#define PATH_BYTES 4096

struct file_op {
	struct loop_watch answers; /* first; fd -1: nothing more is awaited */
	struct loop_timer late;
	struct file_op *next;     /* of its sandbox */
	struct sandbox_entry *of; /* NULL: it is gone */
	struct loop *loop;
	struct file_listener by;
	enum file_verb verb;
	uint64_t id;
	int data, word;
	bool has, over;
	bool left;                 /* it has said its last word, or is no more */
	bool forsaken;             /* nobody owns it: it is only seen off */
	char path[160];            /* for words */
	char names[FILE_LEFT_MAX]; /* what was left out of an archive */
	size_t names_len;
};

/* ---- what went wrong ---- */

#define COVERED "names that programs on the host obey are changed outside of the sandbox alone"
#define MAKE_FOLDERS "brig sandbox files mkdir -r ID:FOLDER makes it"

/* By the number alone: no text of the inside is repeated. Those of one verb stand first. */
static const struct {
	int error;
	enum problem p;
	const char *text, *hint;
	unsigned verbs; /* bits; 0: any */
} words[] = {
	{ ENOENT, PROBLEM_NOT_FOUND, "the folder of '%s' is not in the sandbox", MAKE_FOLDERS,
	  1U << FILE_WRITE | 1U << FILE_MKDIR },
	{ ENOENT, PROBLEM_NOT_FOUND, "there is no folder '%s' in the sandbox", MAKE_FOLDERS,
	  1U << FILE_UNPACK },
	{ ENOENT, PROBLEM_NOT_FOUND,
	  "there is no '%s' in the sandbox, or no folder of the new name", NULL, 1U << FILE_MOVE },
	{ EEXIST, PROBLEM_CONFLICT, "'%s' cannot have the new name: something else has it",
	  "--force (replace: true) puts it in its place", 1U << FILE_MOVE },
	{ ENOENT, PROBLEM_NOT_FOUND, "there is no '%s' in the sandbox", NULL },
	{ ELOOP, PROBLEM_CONFLICT, "'%s' leads through a link, and no link is followed",
	  "name the place itself" },
	{ EXDEV, PROBLEM_CONFLICT, "'%s' and the other name are not on one file system", NULL },
	{ ENOTDIR, PROBLEM_CONFLICT, "something in '%s' is no folder", NULL },
	{ EISDIR, PROBLEM_CONFLICT, "'%s' is a folder", "the archive route copies folders" },
	{ EEXIST, PROBLEM_CONFLICT, "'%s' is there already", NULL },
	{ ENOTEMPTY, PROBLEM_CONFLICT, "folder '%s' is not empty",
	  "-r (recursive=true) removes it all" },
	{ EMEDIUMTYPE, PROBLEM_CONFLICT, "'%s' is neither a folder nor a regular file", NULL },
	{ EBUSY, PROBLEM_CONFLICT, "'%s' is in use", COVERED },
	{ ENODATA, PROBLEM_CONFLICT, "'%s' became shorter while it was read", "try again" },
	{ ECANCELED, PROBLEM_CONFLICT, "writing '%s' was given up", NULL },
	{ EACCES, PROBLEM_FORBIDDEN, "the user inside may not touch '%s'", COVERED },
	{ EPERM, PROBLEM_FORBIDDEN, "the user inside may not touch '%s'", COVERED },
	{ EROFS, PROBLEM_FORBIDDEN, "'%s' is read-only in the sandbox", COVERED },
	{ EINVAL, PROBLEM_INVALID, "'%s' cannot be used for this", NULL },
	{ ENAMETOOLONG, PROBLEM_INVALID, "a name in '%s' is too long, or folders are too deep",
	  NULL },
	{ EBADMSG, PROBLEM_INVALID,
	  "what was sent for '%s' is no archive of folders, files and links that stay below it",
	  NULL },
	{ EFBIG, PROBLEM_TOO_LARGE, "'%s' is larger than what may pass", NULL },
	{ E2BIG, PROBLEM_TOO_LARGE, "there is too much in '%s'", NULL },
	{ ENOSPC, PROBLEM_TOO_LARGE, "there is no room for '%s' in the sandbox", NULL },
	{ EDQUOT, PROBLEM_TOO_LARGE, "there is no room for '%s' in the sandbox", NULL },
	{ EAGAIN, PROBLEM_QUOTA, "the sandbox has as many processes as it may have: '%s'", NULL },
	{ ETIMEDOUT, PROBLEM_CONFLICT, "nothing of '%s' moved for 30 s", NULL },
	{ ENOTSUP, PROBLEM_UNSUPPORTED, "this sandbox cannot do that with '%s'",
	  "files are for native, bwrap and docker, watching not for profile strict" },
};

static enum problem problem_for(const struct file_op *f, int error, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (words[i].error != error || (words[i].verbs && !(words[i].verbs >> f->verb & 1)))
			continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)problem_say(words[i].p, e, words[i].text, f->path);
#pragma GCC diagnostic pop
		if (words[i].hint)
			(void)err_hint(e, "%s", words[i].hint);
		return words[i].p;
	}
	return problem_say(PROBLEM_CONFLICT, e, "'%s' failed in the sandbox (error %d)", f->path,
			   error & 0xfff);
}

static enum problem problem_gone(const struct file_op *f, struct err *e)
{
	return problem_say(PROBLEM_CONFLICT, e,
			   "the work on '%s' was ended inside the sandbox before it was done",
			   f->path);
}

/* ---- its answers ---- */

static void box_files_rest(struct file_op *f)
{
	f->over = true;
	loop_at(f->loop, &f->late, 0);
	if (f->answers.fd < 0)
		return;
	(void)loop_want(f->loop, &f->answers, 0);
	f->answers.fd = fd_close(f->answers.fd);
}

static void box_files_end(struct file_op *f, enum problem p, const struct file_answer *a,
			  const struct err *e)
{
	box_files_rest(f);
	f->by.done(f->by.arg, p, a, e);
}

/* The next one: 1, 0: not yet, -EPIPE: there will be none. Written in one piece, or by nobody of
 * ours. */
static int box_files_hear(struct file_op *f, struct file_answer *a)
{
	ssize_t n = f->answers.fd < 0 ? 0 : read(f->answers.fd, a, sizeof(*a));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	f->left |= n != (ssize_t)sizeof(*a) || a->says == FILE_DONE;
	return n == (ssize_t)sizeof(*a) ? 1 : -EPIPE;
}

static void keep_left(struct file_op *f, const struct file_answer *a)
{
	struct file_left l;

	memcpy(&l, a, sizeof(l));
	if (l.length > sizeof(l.text) || l.length > sizeof(f->names) - f->names_len)
		return;
	memcpy(f->names + f->names_len, l.text, l.length);
	f->names_len += l.length;
}

static void box_files_discard(struct file_op *f)
{
	struct file_op **at = f->of ? &f->of->files : NULL;

	while (at && *at && *at != f)
		at = &(*at)->next;
	if (at && *at)
		*at = f->next;
	box_files_rest(f);
	(void)fd_close(f->data);
	(void)fd_close(f->word);
	free(f);
}

static void box_files_on_answer(struct loop_watch *w, uint32_t events UNUSED)
{
	struct file_op *f = (struct file_op *)w;
	struct file_answer a = { 0 };
	struct err e = { 0 };
	int r = box_files_hear(f, &a);

	if (r == 0 || (f->forsaken && !f->left))
		return;
	if (f->forsaken) {
		box_files_discard(f);
	} else if (r < 0) {
		box_files_end(f, problem_gone(f, &e), &a, &e);
	} else if (a.says == FILE_HAS && !f->has) {
		f->has = true;
		loop_at(f->loop, &f->late, 0);
		if (f->by.has)
			f->by.has(f->by.arg, &a);
	} else if (a.says == FILE_DONE) {
		enum problem p = a.error ? problem_for(f, a.error, &e) : PROBLEM_NONE;

		box_files_end(f, p, &a, &e);
	} else {
		box_files_end(f, problem_gone(f, &e), &a, &e);
	}
}

void file_op_quiet(struct file_op *f)
{
	(void)loop_want(f->loop, &f->answers, 0);
}

enum problem file_op_result(struct file_op *f, struct file_answer *a, struct err *e)
{
	int r = 1;

	*a = (struct file_answer){ 0 };
	while (!f->over && (r = box_files_hear(f, a)) == 1 && a->says != FILE_DONE)
		if (a->says == FILE_LEFT)
			keep_left(f, a);
	box_files_rest(f);
	if (r != 1 || a->says != FILE_DONE)
		return problem_gone(f, e);
	return a->error ? problem_for(f, a->error, e) : PROBLEM_NONE;
}

/* Whoever stopped it inside would keep it for ever. */
static void box_files_on_late(struct loop_timer *t, uint64_t now)
{
	struct file_op *f = CONTAINER_OF(t, struct file_op, late);
	const struct monitor_ask q = { .asks = MONITOR_FILES_END, .value = f->id };
	const struct file_answer none = { 0 };
	struct err e = { 0 };

	if (f->forsaken && f->of->state == STATE_PAUSED) {
		loop_at(f->loop, t, now + LEAVE_US);
		return;
	}
	if (f->of)
		(void)link_ask(f->of, &q, NULL, 0);
	f->left = true;
	if (f->forsaken)
		box_files_discard(f);
	else
		box_files_end(f, problem_for(f, ETIMEDOUT, &e), &none, &e);
}

/* ---- beginning ---- */

enum problem file_path_check(const char *path, struct err *e)
{
	size_t n = strlen(path);

	if (!n)
		return problem_say(PROBLEM_INVALID, e, "no path was given");
	if (n >= PATH_BYTES)
		return problem_say(PROBLEM_INVALID, e, "the path is too long");
	for (const char *at = path; *at;) {
		size_t len = strcspn(at, "/");

		if (len == 2 && at[0] == '.' && at[1] == '.')
			return problem_say(PROBLEM_INVALID, e,
					   "a path may not have '..' in it: name the place itself");
		if (len > 255)
			return problem_say(PROBLEM_INVALID, e, "a name in the path is too long");
		at += len + (at[len] == '/');
	}
	return PROBLEM_NONE;
}

static enum problem may(const struct sandbox_entry *b, enum file_verb verb, struct err *e)
{
	size_t n = 0;

	if (b->state == STATE_PAUSED)
		return problem_say(PROBLEM_SANDBOX_PAUSED, e, "sandbox '%s' is paused: resume it",
				   b->id);
	if (b->state != STATE_READY || b->link.fd < 0 || b->stopping || b->opening || b->strange)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' is %s", b->id,
				   b->stopping ? "stopping" : state_word(b->state));
	for (const struct file_op *f = b->files; f; f = f->next)
		n += (f->verb == FILE_WATCH) == (verb == FILE_WATCH);
	if (n >= (verb == FILE_WATCH ? FILES_WATCHES : FILES_AT_ONCE))
		return problem_say(PROBLEM_QUOTA, e, "sandbox '%s' has %zu of these already", b->id,
				   n);
	return PROBLEM_NONE;
}

static bool make_pipe(int *ours, int *theirs, bool to_us, bool large)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	*ours = ends[!to_us];
	*theirs = ends[to_us];
	if (large) /* as large as this user may have it */
		(void)fcntl(*ours, F_SETPIPE_SZ, PIPE_BYTES);
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

static enum problem send(struct file_op *f, struct sandbox_entry *b, const struct file_order *o,
			 struct err *e)
{
	static const char *const none[] = { NULL };
	const bool takes = file_takes(o->verb);
	const struct monitor_ask q = { .asks = MONITOR_FILES, .value = f->id };
	CLEANUP(fd) int order = -1, data = -1, answers = -1, word = -1;
	struct file_words w;
	int r;

	file_order_words(o, &w);
	if (!make_pipe(&f->data, &data, !takes, true) ||
	    !make_pipe(&f->answers.fd, &answers, true, false) ||
	    (takes && !make_pipe(&f->word, &word, false, false)))
		return err_sys(e, "cannot make a pipe"), PROBLEM_INTERNAL;
	if (order_make(&(struct order){ .argv = w.argv, .envp = none, .path = "", .cwd = "" },
		       &order, e) < 0)
		return problem_of(e);
	r = link_ask(b, &q, (const int[]){ order, data, answers, word }, takes ? 4 : 3);
	if (r == -EAGAIN)
		return problem_say(PROBLEM_QUOTA, e, "sandbox '%s' has too much to do", b->id);
	if (r < 0)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' does not answer",
				   b->id);
	return PROBLEM_NONE;
}

enum problem file_op_new(struct sandboxes *s, const char *tenant, const char *ref,
			 const struct file_order *o, const struct file_listener *by,
			 struct file_op **ret, struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	struct file_op *f;
	enum problem p;

	if (!b)
		return entry_missing(ref, e);
	p = may(b, o->verb, e);
	if (p != PROBLEM_NONE)
		return p;
	f = calloc(1, sizeof(*f));
	if (!f)
		return problem_nomem(e);
	*f = (struct file_op){ .answers = { .fd = -1, .ready = box_files_on_answer },
			       .late.due = box_files_on_late,
			       .next = b->files,
			       .of = b,
			       .loop = s->loop,
			       .by = *by,
			       .verb = o->verb,
			       .id = clock_us() << 8 | (++s->file_ids & 0xff),
			       .data = -1,
			       .word = -1 };
	(void)snprintf(f->path, sizeof(f->path), "%s", o->path);
	b->files = f;
	p = send(f, b, o, e);
	if (p == PROBLEM_NONE && loop_want(s->loop, &f->answers, EPOLLIN) < 0)
		p = problem_nomem(e);
	if (p != PROBLEM_NONE) {
		(void)file_op_free(f);
		return p;
	}
	loop_at(s->loop, &f->late, clock_us() + PATIENCE_US);
	*ret = f;
	return PROBLEM_NONE;
}

/* It ends by itself once nobody is at the other ends, and takes away what it has begun; unless
 * somebody inside has stopped it. */
struct file_op *file_op_free(struct file_op *f)
{
	struct file_answer a;

	if (!f)
		return NULL;
	while (!f->left && box_files_hear(f, &a) == 1)
		;
	if (f->left || !f->of || loop_want(f->loop, &f->answers, EPOLLIN) < 0) {
		box_files_discard(f);
		return NULL;
	}
	f->forsaken = true;
	f->data = fd_close(f->data);
	f->word = fd_close(f->word);
	loop_at(f->loop, &f->late, clock_us() + LEAVE_US);
	return NULL;
}

void files_forget(struct sandbox_entry *b)
{
	while (b->files) {
		struct file_op *f = b->files;

		b->files = f->next;
		f->next = NULL;
		f->of = NULL;
		if (f->forsaken)
			box_files_discard(f);
	}
}

const char *file_op_left(const struct file_op *f, size_t *n)
{
	*n = f->names_len;
	return f->names;
}

int file_op_data(const struct file_op *f)
{
	return f->data;
}

void file_op_whole(struct file_op *f)
{
	(void)!write(f->word, "", 1);
	f->word = fd_close(f->word);
	f->data = fd_close(f->data);
	if (!f->over)
		loop_at(f->loop, &f->late, clock_us() + PATIENCE_US);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* apps/batch/batch_ledger.c - what has begun and what has ended, so that a crash loses and doubles
 * nothing.
 *
 * A result is on the disk before its end is in the ledger, and an end says how long the results
 * were then: what is behind the last one belongs to nobody. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "apps/batch/batch_internal.h"
#include "base/bytes/json.h"
#include "base/bytes/random.h"
#include "base/bytes/sha256.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "sandbox/manager.h"

#define LEDGER "ledger.jsonl"
#define RESULTS "results.jsonl"
#define LEDGER_MAX ((size_t)4 << 30)
#define LEDGER_LINE_MAX 512
#define LEDGER_VERSION 1

/* ---- reading one ---- */

static int not_ours(struct err *e, size_t number)
{
	return err_refuse(e, ERR_CONFIG, EBADMSG, "begin anew with another --out folder",
			  "line %zu of " LEDGER " is not what brig writes there", number);
}

static int read_header(const struct jread *v, const char *digest, size_t lines, struct err *e)
{
	const char *input = jread_str(v, "input");

	if (!jread_str(v, "batch") || !input || jread_int(v, "version", 0) != LEDGER_VERSION)
		return not_ours(e, 1);
	if (!str_eq(input, digest) || jread_int(v, "lines", -1) != (int64_t)lines)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "resume with the file it was begun with, or begin anew with "
				  "another --out folder",
				  "that batch was begun with another file");
	return 0;
}

static int read_entry(const struct jread *v, size_t lines, struct batch_known *known,
		      uint64_t *results)
{
	int64_t start = jread_int(v, "start", 0), end = jread_int(v, "end", 0),
		attempt = jread_int(v, "attempt", 0), index = start ? start : end;
	struct batch_known *k;

	if ((start && end) || index < 1 || (uint64_t)index > lines || attempt < 1 ||
	    attempt > UINT32_MAX)
		return -EBADMSG;
	k = &known[index - 1];
	if (k->ended)
		return -EBADMSG;
	k->attempts = (uint32_t)attempt;
	if (start)
		return 0;
	if (jread_int(v, "results", -1) < (int64_t)*results ||
	    jread_kind(jread_get(v, "failed")) != JREAD_BOOL)
		return -EBADMSG;
	*results = (uint64_t)jread_int(v, "results", 0);
	k->ended = true;
	k->failed = jread_bool(v, "failed");
	return 0;
}

int batch_ledger_read(const char *text, size_t size, const char *digest, size_t lines,
		      struct batch_known *known, uint64_t *results, size_t *whole, struct err *e)
{
	*results = 0;
	*whole = 0;
	for (size_t number = 1; *whole < size; number++) {
		const char *at = text + *whole, *end = memchr(at, '\n', size - *whole);
		CLEANUP(jread) struct jread *v = NULL;
		struct err unused = { 0 };

		if (!end) /* it was being written */
			break;
		if (end - at > LEDGER_LINE_MAX ||
		    jread_parse(at, (size_t)(end - at), &v, &unused) < 0)
			return not_ours(e, number);
		if (number == 1 && read_header(v, digest, lines, e) < 0)
			return -e->code;
		if (number > 1 && read_entry(v, lines, known, results) < 0)
			return not_ours(e, number);
		*whole += (size_t)(end - at) + 1;
	}
	return *whole ? 0 : not_ours(e, 1);
}

/* ---- where it may be ---- */

static int refuse_place(const char *out, struct err *e)
{
	return err_refuse(e, ERR_POLICY, EPERM, "name a folder outside of it: --out ~/batches/1",
			  "%s '%.100s' is where the runs can write", out ? "--out" : "the file of",
			  out ? out : "standard output");
}

/* Where results are written: a folder, and the files in it that are there. */
struct results_place {
	int folder;
	struct stat files[2];
	size_t n;
};

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is that one of its files, or the folder, or above it? By identity, upwards. */
static int leads_to(const struct results_place *p, const char *path, bool *ret, struct err *e)
{
	CLEANUP(fd) int at = openat(p->folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat goal, st, up;

	*ret = false;
	if (stat(path, &goal) < 0)
		return 0; /* nobody can write there */
	for (size_t i = 0; i < p->n; i++)
		*ret |= same_file(&p->files[i], &goal);
	for (int depth = 0; at >= 0 && depth < PATH_MAX; depth++) {
		CLEANUP(fd) int parent = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fstat(at, &st) < 0 || parent < 0 || fstat(parent, &up) < 0)
			return err_sys(e, "cannot look at the folders above --out");
		*ret |= same_file(&st, &goal);
		if (same_file(&st, &up))
			return 0;
		(void)fd_close(at);
		at = TAKE_FD(parent);
	}
	return err_sys(e, "cannot look at the folders above --out");
}

/* What holds, with its paths as a run has them: "~" may still be in what was given. */
static struct spec *checked(const struct spec *holds, struct err *e)
{
	const char *const argv[] = { "true", NULL };
	brig_request *q = request_from(holds);
	struct brig_error be;
	struct spec *s = NULL;

	if (!q)
		(void)err_nomem(e);
	else if (brig_request_argv(q, argv, &be) < 0)
		error_import(&be, e);
	else
		s = request_checked(q, e);
	brig_request_free(q);
	return s;
}

static int check_place(const struct batch_options *o, const struct results_place *p, struct err *e)
{
	CLEANUP(spec) struct spec *s = checked(o->spec, e);
	bool bad = false;

	if (!s)
		return -e->code;
	if (s->policy != POLICY_READONLY && s->workdir && !s->private_workspace &&
	    leads_to(p, s->workdir, &bad, e) < 0)
		return -e->code;
	for (size_t i = 0; !bad && i < s->write.n; i++)
		if (leads_to(p, s->write.v[i], &bad, e) < 0)
			return -e->code;
	for (size_t i = 0; !bad && i < s->mounts.n; i++)
		if (s->mounts.v[i].writable && leads_to(p, s->mounts.v[i].source, &bad, e) < 0)
			return -e->code;
	return bad ? refuse_place(o->out, e) : 0;
}

static const char *const batch_files[] = { LEDGER, RESULTS };

/* A ledger is believed, so no earlier run may have written one either: in the folder, or in a file
 * of it that was shown by itself. */
static int check_earlier(const char *out, struct err *e)
{
	char path[PATH_MAX];
	struct err why = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(batch_files); i++) {
		if (snprintf(path, sizeof(path), "%s/%s", out, batch_files[i]) >= (int)sizeof(path))
			return err_set(e, ERR_USAGE, ENAMETOOLONG, "the path of --out is too long");
		if (!exposed_path(path, NULL, EXPOSED_SHARED, &why))
			continue;
		(void)err_set(e, ERR_POLICY, EPERM, "--out '%.100s' is not used: %.200s", out,
			      why.what);
		exposed_hint("name a folder of its own: --out ~/batches/1", &why, e);
		return -e->code;
	}
	return 0;
}

/* A shell's "> results.jsonl", most likely in the workspace. */
static int check_output(const struct batch_options *o, struct err *e)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/fd/1", path, sizeof(path) - 1);
	struct results_place p = { .folder = -1, .n = 1 };
	CLEANUP(fd) int folder = -1;
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) < 0 || !S_ISREG(st.st_mode) || n <= 0 || path[0] != '/')
		return 0;
	path[n] = '\0';
	strrchr(path, '/')[1] = '\0';
	folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	p.folder = folder;
	p.files[0] = st;
	return folder < 0 ? 0 : check_place(o, &p, e);
}

/* ---- opening ---- */

static int batch_ledger_open_file(int folder, const char *name, int *ret, struct err *e)
{
	struct stat st;

	*ret = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (*ret < 0)
		return err_sys(e, "cannot open '%s' of --out", name);
	if (fstat(*ret, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_refuse(e, ERR_POLICY, EPERM, "name another folder",
				  "'%s' of --out is not a file of yours", name);
	return 0;
}

static int batch_ledger_open_folder(const char *path, int *ret, struct err *e)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make the folder --out '%.100s'", path);
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_sys(e, "cannot open the folder --out '%.100s'", path) : 0;
}

static int batch_ledger_begin(struct batch_ledger *l, const char *digest, size_t lines,
			      struct err *e)
{
	buf_printf(&l->starts, "{\"batch\":\"%s\",\"version\":%d,\"input\":\"%s\",\"lines\":%zu}\n",
		   l->id, LEDGER_VERSION, digest, lines);
	return batch_ledger_commit(l, e);
}

/* It becomes a part of names, so that it must be what `begin` makes. */
static int read_id(const char *text, size_t size, char id[33], struct err *e)
{
	const char *end = memchr(text, '\n', size);
	CLEANUP(jread) struct jread *v = NULL;
	struct err unused = { 0 };
	const char *said = end && jread_parse(text, (size_t)(end - text), &v, &unused) == 0
				   ? jread_str(v, "batch")
				   : NULL;

	if (!said || strlen(said) != 32 || strspn(said, "0123456789abcdef") != 32)
		return not_ours(e, 1);
	(void)snprintf(id, 33, "%s", said);
	return 0;
}

static int go_on(struct batch_ledger *l, size_t size, const char *digest, size_t lines,
		 struct batch_known *known, struct err *e)
{
	void *text = size <= LEDGER_MAX ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, l->ledger, 0)
					: MAP_FAILED;
	struct stat st;
	size_t whole;
	int r;

	if (text == MAP_FAILED)
		return err_sys(e, "cannot read " LEDGER);
	r = batch_ledger_read(text, size, digest, lines, known, &l->size, &whole, e);
	if (r == 0)
		r = read_id(text, size, l->id, e);
	(void)munmap(text, size);
	if (r < 0)
		return r;
	if (fstat(l->results, &st) < 0 || (uint64_t)st.st_size < l->size)
		return err_refuse(e, ERR_CONFIG, EBADMSG, "begin anew with another --out folder",
				  RESULTS " is shorter than " LEDGER " says");
	if (ftruncate(l->results, (off_t)l->size) < 0 || ftruncate(l->ledger, (off_t)whole) < 0 ||
	    lseek(l->results, 0, SEEK_END) < 0 || lseek(l->ledger, 0, SEEK_END) < 0)
		return err_sys(e, "cannot cut off what was not finished");
	return 0;
}

static int open_all(const struct batch_options *o, struct batch_ledger *l, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	struct results_place p = { 0 };

	if (batch_ledger_open_folder(o->out, &folder, e) < 0)
		return -e->code;
	p.folder = folder;
	for (size_t i = 0; i < ARRAY_LEN(batch_files); i++)
		if (fstatat(folder, batch_files[i], &p.files[p.n], AT_SYMLINK_NOFOLLOW) == 0)
			p.n++;
	if (check_place(o, &p, e) < 0 || check_earlier(o->out, e) < 0 ||
	    batch_ledger_open_file(folder, LEDGER, &l->ledger, e) < 0)
		return -e->code;
	if (flock(l->ledger, LOCK_EX | LOCK_NB) < 0)
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "wait for its end, or end it",
				  "another brig batch is at work in '%.100s'", o->out);
	return batch_ledger_open_file(folder, RESULTS, &l->results, e);
}

int batch_ledger_open(const struct batch_options *o, size_t lines, struct batch_known *known,
		      struct batch_ledger *ret, struct err *e)
{
	char digest[SHA256_HEX];
	struct stat st = { 0 }, had = { 0 };

	*ret = (struct batch_ledger){ .ledger = -1,
				      .results = -1,
				      .ends = BUF_INIT(BATCH_RESULT_MAX),
				      .starts = BUF_INIT(BATCH_RESULT_MAX),
				      .lines = BUF_INIT(BATCH_RESULT_MAX) };
	if (random_hex(ret->id, sizeof(ret->id), e) < 0)
		return -e->code;
	if (!o->out) {
		if (check_output(o, e) < 0)
			return -e->code;
		ret->results = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return ret->results < 0 ? err_sys(e, "cannot write to standard output") : 0;
	}
	if (open_all(o, ret, e) < 0 || fstat(ret->ledger, &st) < 0 || fstat(ret->results, &had) < 0)
		return e->code ? -e->code : err_sys(e, "cannot look at " LEDGER);
	sha256_of(o->text, o->size, digest);
	if (st.st_size == 0 && had.st_size == 0)
		return batch_ledger_begin(ret, digest, lines, e);
	if (st.st_size == 0)
		return err_refuse(e, ERR_USAGE, EEXIST, "move it away, or name another folder",
				  RESULTS " in '%.100s' is of no batch that is known there",
				  o->out);
	if (!o->resume)
		return err_refuse(e, ERR_USAGE, EEXIST,
				  "--resume goes on with it; else name another folder",
				  "'%.100s' holds a batch already", o->out);
	return go_on(ret, (size_t)st.st_size, digest, lines, known, e);
}

/* ---- writing ---- */

void batch_ledger_start(struct batch_ledger *l, uint64_t index, unsigned attempt)
{
	if (l->ledger >= 0)
		buf_printf(&l->starts, "{\"start\":%llu,\"attempt\":%u}\n",
			   (unsigned long long)index + 1, attempt);
}

void batch_ledger_end(struct batch_ledger *l, uint64_t index, unsigned attempt, const char *outcome,
		      bool failed, const struct buf *object)
{
	buf_add(&l->lines, object->data, object->len);
	buf_putc(&l->lines, '\n');
	if (l->ledger >= 0)
		buf_printf(&l->ends,
			   "{\"end\":%llu,\"attempt\":%u,\"outcome\":\"%s\",\"failed\":%s,"
			   "\"results\":%llu}\n",
			   (unsigned long long)index + 1, attempt, outcome,
			   failed ? "true" : "false", (unsigned long long)l->size + l->lines.len);
}

static int batch_ledger_put(int fd, struct buf *b, bool sync, struct err *e)
{
	int r = b->failed ? -ENOMEM : b->len ? fd_write_all(fd, b->data, b->len) : 0;

	if (r == 0 && b->len && sync && fdatasync(fd) < 0)
		r = -errno;
	b->len = 0;
	return r < 0 ? err_errno(e, r, "cannot write what the runs gave") : 0;
}

static int put_all(struct batch_ledger *l, struct err *e)
{
	size_t n = l->lines.len;

	if (batch_ledger_put(l->results, &l->lines, l->ledger >= 0, e) < 0)
		return -e->code;
	l->size += n;
	if (l->ledger < 0)
		return 0;
	buf_add(&l->ends, l->starts.data, l->starts.len);
	l->starts.len = 0;
	return batch_ledger_put(l->ledger, &l->ends, true, e);
}

/* Behind what was written in part nothing may follow: it would be the end of a result that is not
 * there. */
int batch_ledger_commit(struct batch_ledger *l, struct err *e)
{
	if (l->broken)
		return err_set(e, ERR_UNAVAILABLE, EIO, "cannot write what the runs gave");
	l->broken = put_all(l, e) < 0;
	return l->broken ? -e->code : 0;
}

void batch_ledger_done(struct batch_ledger *l)
{
	l->ledger = fd_close(l->ledger);
	l->results = fd_close(l->results);
	buf_done(&l->ends);
	buf_done(&l->starts);
	buf_done(&l->lines);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/once.c - see once.h. A file begins with a line "BODY-SHA256 STATUS"; status 000 means
 * that it is being done. The answer stands behind it. */
#include "daemon/api/once.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define LIFE (24 * 3600)
#define HEAD_LEN (SHA256_HEX - 1 + 1 + 3 + 1) /* digits, blank, status, line end */
#define KEPT_MAX ((size_t)4 << 20)
#define BUSY_MAX 4096
#define BYTES_MAX ((size_t)64 << 20) /* of a tenant */
#define FRONT 16                     /* characters of a file's name that say whose it is */

struct once_busy {
	struct once_busy *next;
	char id[ONCE_ID_SIZE];
	char body[SHA256_HEX];
};

/* How many files there are of one, by the front of their names. */
struct once_tenant {
	struct once_tenant *next;
	char front[FRONT + 1];
	size_t files, bytes;
};

struct once {
	int dir;
	struct once_tenant *tenants;
	struct once_busy *busy;
	size_t busy_count;
};

static void forget_tenants(struct once *o)
{
	for (struct once_tenant *t = o->tenants, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	o->tenants = NULL;
}

/* NULL: no memory. */
static struct once_tenant *tenant_of(struct once *o, const char *id)
{
	struct once_tenant *t = o->tenants;

	while (t && strncmp(t->front, id, FRONT) != 0)
		t = t->next;
	if (t || !(t = calloc(1, sizeof(*t))))
		return t;
	memcpy(t->front, id, FRONT);
	t->next = o->tenants;
	o->tenants = t;
	return t;
}

static void once_count(struct once *o, const char *id, size_t bytes)
{
	struct once_tenant *t = tenant_of(o, id);

	if (!t)
		return;
	t->files++;
	t->bytes += bytes;
}

int once_open(int state_dir, struct once **ret, struct err *e)
{
	CLEANUP(once) struct once *o = calloc(1, sizeof(*o));

	if (!o)
		return err_nomem(e);
	if (mkdirat(state_dir, "once", 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make a folder for idempotency keys");
	o->dir = openat(state_dir, "once", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (o->dir < 0)
		return err_sys(e, "cannot open the folder of idempotency keys");
	once_prune(o);
	*ret = TAKE_PTR(o);
	return 0;
}

struct once *once_free(struct once *o)
{
	if (!o)
		return NULL;
	for (struct once_busy *b = o->busy, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	forget_tenants(o);
	(void)fd_close(o->dir);
	free(o);
	return NULL;
}

static void name(const struct once_key *k, char id[ONCE_ID_SIZE])
{
	unsigned char digest[SHA256_SIZE];
	char front[SHA256_HEX];
	struct sha256 h;

	sha256_of(k->tenant, strlen(k->tenant) + 1, front);
	sha256_init(&h);
	sha256_add(&h, k->tenant, strlen(k->tenant) + 1);
	sha256_add(&h, k->route, strlen(k->route) + 1);
	sha256_add(&h, k->key, k->key_len);
	sha256_end(&h, digest);
	sha256_hex(digest, id);
	memcpy(id, front, FRONT);
}

static struct once_busy **find_busy(struct once *o, const char *id)
{
	struct once_busy **b = &o->busy;

	while (*b && !str_eq((*b)->id, id))
		b = &(*b)->next;
	return b;
}

static void not_busy(struct once *o, const char *id)
{
	struct once_busy **b = find_busy(o, id), *gone = *b;

	if (!gone)
		return;
	*b = gone->next;
	o->busy_count--;
	free(gone);
}

/* The file whole, or nothing: written beside it, then moved there. */
static int once_put(struct once *o, const char *id, const char *body, int status,
		    const char *answer, size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KEPT_MAX + HEAD_LEN);
	CLEANUP(fd) int fd = -1;
	char beside[ONCE_ID_SIZE + 8];
	int r;

	(void)snprintf(beside, sizeof(beside), "%s.new", id);
	buf_printf(&b, "%s %03d\n", body, status);
	buf_add(&b, answer, n);
	if (b.failed)
		return -EMSGSIZE;
	fd = openat(o->dir, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, b.data, b.len);
	if (r == 0 && renameat(o->dir, beside, o->dir, id) < 0)
		r = -errno;
	return r;
}

static bool too_old(const struct stat *st)
{
	return st->st_mtime + LIFE < time(NULL);
}

/* What is on disk about it; ONCE_NEW: nothing that counts. */
static enum once_found once_look(struct once *o, const char *id, const char *body, int *status,
				 struct buf *answer)
{
	CLEANUP(fd) int fd = openat(o->dir, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char head[HEAD_LEN], piece[4096];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || too_old(&st))
		return ONCE_NEW;
	if (read(fd, head, sizeof(head)) != (ssize_t)sizeof(head))
		return ONCE_NEW;
	if (memcmp(head, body, SHA256_HEX - 1) != 0)
		return ONCE_OTHER;
	*status = (head[SHA256_HEX] - '0') * 100 + (head[SHA256_HEX + 1] - '0') * 10 +
		  head[SHA256_HEX + 2] - '0';
	if (!*status)
		return ONCE_CUT;
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		buf_add(answer, piece, (size_t)n);
	return n < 0 || answer->failed ? ONCE_FAILED : ONCE_DONE;
}

enum once_found once_begin(struct once *o, const struct once_key *k, char id[ONCE_ID_SIZE],
			   int *status, struct buf *answer)
{
	struct once_tenant *t;
	struct once_busy *b;
	enum once_found found;
	char body[SHA256_HEX];

	name(k, id);
	sha256_of(k->body, k->body_len, body);
	b = *find_busy(o, id);
	if (b)
		return str_eq(b->body, body) ? ONCE_BUSY : ONCE_OTHER;
	found = once_look(o, id, body, status, answer);
	if (found != ONCE_NEW)
		return found;
	t = tenant_of(o, id);
	if (!t || t->files >= ONCE_MOST || t->bytes >= BYTES_MAX)
		return t ? ONCE_FULL : ONCE_FAILED;
	b = o->busy_count < BUSY_MAX ? calloc(1, sizeof(*b)) : NULL;
	if (!b || once_put(o, id, body, 0, "", 0) < 0) {
		free(b);
		return ONCE_FAILED;
	}
	t->files++;
	memcpy(b->id, id, sizeof(b->id));
	memcpy(b->body, body, sizeof(b->body));
	b->next = o->busy;
	o->busy = b;
	o->busy_count++;
	return ONCE_NEW;
}

void once_keep(struct once *o, const char *id, int status, const char *answer, size_t n)
{
	struct once_busy *b = *find_busy(o, id);

	struct once_tenant *t = tenant_of(o, id);

	if (b && once_put(o, id, b->body, status, answer, n) == 0 && t)
		t->bytes += n;
	not_busy(o, id);
}

void once_forget(struct once *o, const char *id)
{
	struct once_tenant *t = tenant_of(o, id);

	if (unlinkat(o->dir, id, 0) == 0 && t && t->files)
		t->files--;
	not_busy(o, id);
}

void once_leave(struct once *o, const char *id)
{
	not_busy(o, id);
}

void once_prune(struct once *o)
{
	const struct fd_entry *at;
	struct folder f;
	struct stat st;

	if (lseek(o->dir, 0, SEEK_SET) < 0)
		return;
	folder_begin(&f, o->dir);
	forget_tenants(o);
	while ((at = folder_next(&f))) {
		if (fstatat(o->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (strlen(at->name) < FRONT)
			continue;
		if (!too_old(&st) || *find_busy(o, at->name))
			once_count(o, at->name, (size_t)st.st_size);
		else
			(void)unlinkat(o->dir, at->name, 0);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/bwrap/letter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "brig-in1"
#define LIST_MAX 1000000

struct letter_head {
	char magic[8];
	char version[24];
	struct inside inside; /* its pointers mean nothing here */
	uint32_t argc, envc, checks;
};

struct letter_reader {
	const char *at, *end;
};

static size_t count(const char *const *v)
{
	size_t n = 0;

	while (v[n])
		n++;
	return n;
}

static void put(struct buf *out, const char *s)
{
	buf_add(out, s, strlen(s) + 1);
}

static void put_all(struct buf *out, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(out, v[i]);
}

void letter_write(const struct inside *c, const struct letter_check *checks, size_t n,
		  struct buf *out)
{
	struct letter_head h = { .inside = *c, .checks = (uint32_t)n };

	memcpy(h.magic, MAGIC, sizeof(h.magic));
	(void)snprintf(h.version, sizeof(h.version), "%s", BRIG_VERSION);
	h.argc = (uint32_t)count(c->argv);
	h.envc = (uint32_t)count(c->envp);
	buf_add(out, &h, sizeof(h));
	for (size_t i = 0; i < n; i++)
		buf_add(out, &checks[i].ident, sizeof(checks[i].ident));
	put_all(out, c->argv, h.argc);
	put_all(out, c->envp, h.envc);
	put(out, c->path);
	put(out, c->cwd);
	put_all(out, c->writable, c->writable_count);
	put_all(out, c->tmpfs, c->tmpfs_count);
	for (size_t i = 0; i < n; i++)
		put(out, checks[i].path);
}

static const char *next(struct letter_reader *r)
{
	const char *s = r->at;
	const char *nul = s < r->end ? memchr(s, '\0', (size_t)(r->end - s)) : NULL;

	if (!nul) {
		r->at = r->end;
		return NULL;
	}
	r->at = nul + 1;
	return s;
}

static bool take_all(struct letter_reader *r, const char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(v[i] = next(r)))
			return false;
	return true;
}

static int strange(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, EPROTO,
		       "the program started inside is another version of brig");
}

static int read_texts(struct letter_reader *r, const struct letter_head *h, struct letter *l,
		      struct err *e)
{
	struct inside *c = &l->inside;
	size_t lists = (size_t)h->argc + h->envc + c->writable_count + 2;
	const char **v = calloc(lists + 1, sizeof(*v));
	const char **argv = v, **envp = v ? argv + h->argc + 1 : NULL;
	const char **writable = v ? envp + h->envc + 1 : NULL;

	l->tables = v;
	l->checks = calloc((size_t)h->checks + 1, sizeof(*l->checks));
	if (!v || !l->checks)
		return err_nomem(e);
	for (size_t i = 0; i < h->checks; i++, r->at += sizeof(struct ident)) {
		if ((size_t)(r->end - r->at) < sizeof(struct ident))
			return strange(e);
		memcpy(&l->checks[i].ident, r->at, sizeof(struct ident));
	}
	if (!take_all(r, argv, h->argc) || !take_all(r, envp, h->envc) || !(c->path = next(r)) ||
	    !(c->cwd = next(r)) || !take_all(r, writable, c->writable_count) ||
	    !take_all(r, c->tmpfs, c->tmpfs_count))
		return strange(e);
	c->argv = argv;
	c->envp = envp;
	c->writable = writable;
	for (size_t i = 0; i < h->checks; i++)
		if (!(l->checks[i].path = next(r)))
			return strange(e);
	l->check_count = h->checks;
	return 0;
}

int letter_read(const char *data, size_t n, struct letter *ret, struct err *e)
{
	struct letter_reader r = { .at = data, .end = data + n };
	struct letter_head h;
	int status;

	*ret = (struct letter){ 0 };
	if (n < sizeof(h))
		return strange(e);
	memcpy(&h, data, sizeof(h));
	r.at += sizeof(h);
	h.version[sizeof(h.version) - 1] = '\0';
	if (memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 || strcmp(h.version, BRIG_VERSION) != 0 ||
	    (h.argc < 1 && !h.inside.open) || h.argc > LIST_MAX || h.envc > LIST_MAX ||
	    h.checks > LIST_MAX || h.inside.writable_count > LIST_MAX ||
	    h.inside.tmpfs_count > INSIDE_TMPFS_MAX || h.inside.rlimit_count > RLIMITS_MAX)
		return strange(e);
	ret->inside = h.inside;
	status = read_texts(&r, &h, ret, e);
	if (status < 0)
		letter_done(ret);
	return status;
}

void letter_done(struct letter *l)
{
	free(l->tables);
	free(l->checks);
	*l = (struct letter){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/renewing.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/sha256.h"
#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "egress/rules/verdict.h"
#include "model/known/login_file.h"

/* The credential that may be renewed; n: none. */
static size_t find(const struct egress_plan *p, const char *name)
{
	size_t i = 0;

	while (i < p->credentials.n &&
	       !(credential_keeps(&p->credentials.v[i]) && str_eq(p->credentials.v[i].name, name)))
		i++;
	return i;
}

static bool is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] >= 0x7f)
			return false;
	return n >= SECRET_MIN && n <= SECRET_MAX;
}

/* Somebody else may have logged in meanwhile: then that login stays. */
static int check_old(int folder, const char *name, const char *was, mode_t *mode, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(folder, name, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	char text[SECRET_MAX + 2], hash[SHA256_HEX];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_UNAVAILABLE, EIO, "it cannot be opened");
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		return err_set(e, ERR_POLICY, EPERM, "it is no plain file of this user's");
	n = read(fd, text, sizeof(text));
	if (n > 0 && text[n - 1] == '\n')
		n--;
	sha256_of(text, n > 0 ? (size_t)n : 0, hash);
	explicit_bzero(text, sizeof(text));
	if (!str_eq(hash, was))
		return err_set(e, ERR_POLICY, EBUSY, "it was changed meanwhile");
	*mode = st.st_mode;
	return 0;
}

static int write_back(const char *path, const struct renewing *r, const char *was, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	CLEANUP(buf) struct buf b = BUF_INIT(SECRET_MAX + 2);
	char where[PATH_MAX], name[PATH_MAX];
	mode_t mode = 0;
	int w;

	if (!is_token(r->value, r->n))
		return err_set(e, ERR_INTERNAL, EBADMSG, "what came is no token");
	(void)snprintf(where, sizeof(where), "%s", path);
	(void)snprintf(name, sizeof(name), "%s", path);
	folder = open(dirname(where), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return err_sys(e, "its folder cannot be opened");
	if (check_old(folder, basename(name), was, &mode, e) < 0)
		return -e->code;
	(void)snprintf(name, sizeof(name), "%s", path);
	buf_add(&b, r->value, r->n);
	buf_putc(&b, '\n');
	w = draft_write(folder, basename(name), &b, mode & 0600, true);
	if (b.data)
		explicit_bzero(b.data, b.len);
	return w < 0 ? err_errno(e, w, "it cannot be written") : 0;
}

static void tell(struct egress_event *ev, const char *path, const struct err *e)
{
	if (!e->code) {
		ev->kind = EGRESS_EVENT_TOKEN;
		(void)snprintf(ev->what, sizeof(ev->what), "written to its file");
		return;
	}
	ev->kind = EGRESS_EVENT_DENY;
	ev->reason = EGRESS_BAD_ANSWER;
	(void)snprintf(ev->what, sizeof(ev->what),
		       "the new refresh token of '%.60s' is not in '%.100s': %.80s", ev->rule, path,
		       e->what);
	(void)snprintf(ev->hint, sizeof(ev->hint), "log in again before the next run");
}

bool renewing_take(struct renewing *r, struct egress_plan *p, struct egress_event *ev)
{
	size_t n = strlen(ev->what), i = find(p, ev->rule);
	bool last = ev->status;
	struct err e = { 0 };

	if (!ev->count)
		r->n = 0;
	if (i == p->credentials.n || n > SECRET_MAX - r->n) {
		explicit_bzero(ev->what, sizeof(ev->what));
		return false;
	}
	memcpy(r->value + r->n, ev->what, n);
	r->n += n;
	explicit_bzero(ev->what, sizeof(ev->what));
	if (!last)
		return false;
	if (write_back(p->credentials.v[i].source.v[0], r, p->digests[i], &e) == 0)
		sha256_of(r->value, r->n, p->digests[i]);
	explicit_bzero(r->value, sizeof(r->value));
	r->n = 0;
	ev->count = ev->status = 0;
	tell(ev, p->credentials.v[i].source.v[0], &e);
	return true;
}

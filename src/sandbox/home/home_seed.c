/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/home/home_seed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "egress/credential/cred.h"
#include "model/known/tool_settings.h"

/* The caller's own file, by whatever links it is reached: what is taken of it are words. */
static ssize_t read_own(const char *below, char *text)
{
	const char *home = getenv("HOME");
	CLEANUP(fd) int fd = -1;
	char path[PATH_MAX];
	struct stat st;

	if (!home || home[0] != '/' ||
	    snprintf(path, sizeof(path), "%s/%s", home, below) >= (int)sizeof(path))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size >= (off_t)TOOL_SETTINGS_MAX)
		return -EINVAL;
	return pread(fd, text, TOOL_SETTINGS_MAX - 1, 0);
}

/* Folders on the way are made; nobody else is there yet. */
static int open_new(int home, const char *below, struct err *e)
{
	CLEANUP(fd) int folder = fcntl(home, F_DUPFD_CLOEXEC, 3);
	char name[256];
	int fd;

	for (const char *slash; folder >= 0 && (slash = strchr(below, '/')); below = slash + 1) {
		int next;

		(void)snprintf(name, sizeof(name), "%.*s", (int)(slash - below), below);
		if (mkdirat(folder, name, 0700) < 0 && errno != EEXIST)
			return err_sys(e, "cannot begin a kept HOME");
		next = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)fd_close(folder);
		folder = next;
	}
	if (folder < 0)
		return err_sys(e, "cannot begin a kept HOME");
	fd = openat(folder, below, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "cannot begin a kept HOME") : fd;
}

/* The way in that its credential is; NULL: it has none, or does not ask. */
static const char *login_of(const struct settings_file *f, const struct spec *s)
{
	for (const char *const *w = f->logins; w && *w; w += 2)
		for (size_t i = 0; i < s->use_credentials.n; i++)
			if (str_eq(s->use_credentials.v[i], *w))
				return w[1];
	return NULL;
}

static int home_seed_take(const struct settings_file *f, char *text, const struct spec *s,
			  const unsigned char *secret, struct buf *out)
{
	char placeholder[CRED_PLACEHOLDER_LEN + 1];
	ssize_t n = read_own(f->path, text);
	const char *answer = login_of(f, s);

	if (secret && f->key) {
		cred_placeholder_kept(secret, f->key, placeholder);
		answer = placeholder;
	}
	if (answer)
		return tool_settings_answer(f, text, n > 0 ? (size_t)n : 0, answer, out);
	return n <= 0 ? -EBADMSG : tool_settings_take(f, text, (size_t)n, out);
}

static int home_seed_put_file(int home, const struct settings_file *f, char *text,
			      const struct spec *s, const unsigned char *secret, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TOOL_SETTINGS_MAX);
	CLEANUP(fd) int fd = -1;
	int r = home_seed_take(f, text, s, secret, &out);

	if (r == -ENOMEM)
		return err_nomem(e);
	if (r < 0 || !out.len)
		return 0;
	fd = open_new(home, f->path, e);
	if (fd < 0)
		return -e->code;
	r = fd_write_all(fd, out.data, out.len);
	return r < 0 ? err_errno(e, r, "cannot begin a kept HOME") : 0;
}

int home_seed_put(int home, const struct spec *s, const unsigned char *secret, struct err *e)
{
	CLEANUP(mem) char *text = malloc(TOOL_SETTINGS_MAX);

	if (!text)
		return err_nomem(e);
	for (size_t i = 0; i < s->home_seed.n; i++) {
		const struct tool_settings *t;

		if (tool_settings_get(s->home_seed.v[i], &t, e) < 0)
			return -e->code;
		for (size_t k = 0; k < 2 && t->files[k].path; k++)
			if (home_seed_put_file(home, &t->files[k], text, s, secret, e) < 0)
				return -e->code;
	}
	explicit_bzero(text, TOOL_SETTINGS_MAX); /* there may be keys in it */
	return 0;
}

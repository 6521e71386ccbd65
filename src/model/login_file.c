/* SPDX-License-Identifier: Apache-2.0 */
#include "model/login_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/jread.h"
#include "base/str.h"

#define FILE_MAX ((size_t)64 << 10)

static ssize_t read_file(const char *home, const char *file, char *text, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	char path[PATH_MAX];
	struct stat st;

	if (!home || home[0] != '/' ||
	    snprintf(path, sizeof(path), "%s/%s", home, file) >= (int)sizeof(path))
		return err_set(e, ERR_CONFIG, ENOENT, "there is no '~/%s'", file);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open '~/%s'", file);
	if (!S_ISREG(st.st_mode) || st.st_size >= (off_t)FILE_MAX)
		return err_set(e, ERR_CONFIG, EINVAL, "'~/%s' is not a file with a login", file);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return err_set(e, ERR_POLICY, EPERM, "'~/%s' can be written by others", file);
	return pread(fd, text, FILE_MAX - 1, 0);
}

/* The tree has a copy of the token; it is gone before the tree is. */
static int take(const struct login_file *l, const struct jread *v, char *out, size_t max,
		size_t *len, struct err *e)
{
	const char *token = jread_str(v, l->token);
	int64_t until = l->expires ? jread_int(v, l->expires, 0) : 0;
	size_t n = token ? strlen(token) : 0;
	int r = 0;

	if (!n)
		return err_set(e, ERR_CONFIG, ENOENT, "'~/%s' has no login", l->file);
	if (n >= max || str_has_control(token))
		r = err_set(e, ERR_CONFIG, EINVAL, "'~/%s' has a token that is none", l->file);
	else if (until && until / 1000 <= (int64_t)time(NULL))
		r = err_refuse(e, ERR_CONFIG, ETIMEDOUT, l->renew,
			       "the login of '~/%s' has expired", l->file);
	else
		memcpy(out, token, n + 1);
	explicit_bzero((char *)(uintptr_t)token, n);
	*len = n;
	return r;
}

int login_file_read(const struct login_file *l, const char *home, char *out, size_t max,
		    size_t *len, struct err *e)
{
	CLEANUP(mem) char *text = calloc(1, FILE_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	ssize_t n;
	int r;

	if (!text)
		return err_nomem(e);
	n = read_file(home, l->file, text, e);
	if (n < 0)
		return e->code ? -e->code : err_sys(e, "cannot read '~/%s'", l->file);
	r = jread_parse(text, (size_t)n, &v, e);
	explicit_bzero(text, FILE_MAX);
	if (r < 0)
		return err_set(e, ERR_CONFIG, EINVAL, "'~/%s' cannot be read", l->file);
	return take(l, l->object ? jread_get(v, l->object) : v, out, max, len, e);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/login_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/base64.h"
#include "base/bytes/jread.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define FILE_MAX ((size_t)64 << 10)
#define CLAIMS_MAX 8192
#define LOGIN_TOKEN_MAX 8192

static ssize_t login_file_read_file(const char *home, const char *file, char *text, struct err *e)
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
	if (exposed_check("the login", path, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	if (!S_ISREG(st.st_mode) || st.st_size >= (off_t)FILE_MAX)
		return err_set(e, ERR_CONFIG, EINVAL, "'~/%s' is not a file with a login", file);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return err_refuse(e, ERR_POLICY, EPERM, "chmod 600 it, if nobody else wrote to it",
				  "'~/%s' can be written by others", file);
	return pread(fd, text, FILE_MAX - 1, 0);
}

/* The middle part of a token in the ordinary alphabet, padded; its length, 0 if there is none. */
static size_t claims_text(const char *token, char *out)
{
	const char *first = strchr(token, '.'), *second = first ? strchr(first + 1, '.') : NULL;
	size_t n = second ? (size_t)(second - first - 1) : 0;

	if (n > CLAIMS_MAX - 4)
		return 0;
	for (size_t i = 0; i < n; i++)
		out[i] = first[1 + i] == '-' ? '+' : first[1 + i] == '_' ? '/' : first[1 + i];
	while (n % 4)
		out[n++] = '=';
	return n;
}

int64_t login_jwt_end(const char *token)
{
	char text[CLAIMS_MAX], claims[CLAIMS_MAX];
	CLEANUP(jread) struct jread *v = NULL;
	size_t n = claims_text(token, text);
	ssize_t len = n ? base64_read(text, n, claims, sizeof(claims)) : -1;
	struct err e;
	int64_t end;

	if (len <= 0 || jread_parse(claims, (size_t)len, &v, &e) < 0)
		return 0;
	end = jread_int(v, "exp", 0);
	return end > 0 ? end : 0;
}

static int64_t end_of(const struct login_file *l, const struct jread *v, const char *token)
{
	int64_t ms = l->expires ? jread_int(v, l->expires, 0) : 0;

	return l->jwt ? login_jwt_end(token) : ms > 0 ? ms / 1000 : 0;
}

/* The tree has a copy of the token; it is gone before the tree is. */
static int login_file_take(const struct login_file *l, const struct jread *v, char *out, size_t max,
			   size_t *len, int64_t *until, struct err *e)
{
	const char *token = jread_str(v, l->token);
	size_t n = token ? strlen(token) : 0;
	int r = 0;

	if (!n)
		return err_set(e, ERR_CONFIG, ENOENT, "'~/%s' has no login", l->file);
	*until = end_of(l, v, token);
	if (n >= max || str_has_control(token))
		r = err_set(e, ERR_CONFIG, EINVAL, "'~/%s' has a token that is none", l->file);
	else if (*until && *until <= (int64_t)time(NULL))
		r = err_refuse(e, ERR_CONFIG, ETIMEDOUT, l->renew,
			       "the login of '~/%s' has expired", l->file);
	else
		memcpy(out, token, n + 1);
	explicit_bzero((char *)(uintptr_t)token, n);
	*len = n;
	return r;
}

static int read_login(const struct login_file *l, const char *home, char *out, size_t max,
		      size_t *len, int64_t *until, struct err *e)
{
	CLEANUP(mem) char *text = calloc(1, FILE_MAX);
	CLEANUP(jread) struct jread *v = NULL;
	ssize_t n;
	int r;

	if (!text)
		return err_nomem(e);
	n = login_file_read_file(home, l->file, text, e);
	if (n < 0)
		return e->code ? -e->code : err_sys(e, "cannot read '~/%s'", l->file);
	r = jread_parse(text, (size_t)n, &v, e);
	explicit_bzero(text, FILE_MAX);
	if (r < 0)
		return err_set(e, ERR_CONFIG, EINVAL, "'~/%s' cannot be read", l->file);
	return login_file_take(l, l->object ? jread_get(v, l->object) : v, out, max, len, until, e);
}

int login_file_read(const struct login_file *l, const char *home, char *out, size_t max,
		    size_t *len, struct err *e)
{
	int64_t until;

	return read_login(l, home, out, max, len, &until, e);
}

int64_t login_file_end(const struct login_file *l, const char *home)
{
	char token[LOGIN_TOKEN_MAX];
	int64_t until = 0;
	struct err e = { 0 };
	size_t len = 0;
	int r = read_login(l, home, token, sizeof(token), &len, &until, &e);

	explicit_bzero(token, sizeof(token));
	return r == 0 ? until : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit/auditcheck.h - a record of its own for a test, and hands that tamper with it. */
#pragma once

#include "unit.h"

#include "audit/log.h"
#include "audit/verify.h"

#define SEGMENT1 "log/000001.jsonl"

static inline struct log *open_log(uint64_t segment_bytes, bool sync)
{
	struct log_options o = { .dir = "log", .segment_bytes = segment_bytes, .sync = sync };
	struct err e = { 0 };
	struct log *l = NULL;

	if (log_open(&o, &l, &e) < 0)
		(void)fprintf(stderr, "%s\n", e.what);
	assert_int_equal(e.code, 0);
	return l;
}

static inline int append(struct log *l, const char *argv0, int64_t rc, struct err *e)
{
	struct record r;

	record_init(&r, EVENT_SANDBOX_EXEC);
	r.run = "0123456789abcdef0123456789abcdef";
	record_text(&r, "argv0", argv0);
	record_number(&r, "rc", rc);
	return log_append(l, &r, 1, e);
}

static inline void append_many(struct log *l, int n)
{
	struct err e = { 0 };

	for (int i = 0; i < n; i++)
		assert_int_equal(append(l, "true", i, &e), 0);
}

/* A record with n lines, closed again. */
static inline void make_log(int n, uint64_t segment_bytes)
{
	struct log *l = open_log(segment_bytes, false);

	append_many(l, n);
	(void)log_free(l);
}

static inline struct verify_report check(const char *anchor)
{
	const char *anchors[] = { anchor, NULL };
	struct verify_options o = { .dir = "log",
				    .anchors = anchor ? anchors : NULL,
				    .threads = 1 };
	struct verify_report r;
	struct err e = { 0 };

	if (verify(&o, &r, &e) < 0)
		fail_msg("verify: %s", e.what);
	return r;
}

static inline bool intact(void)
{
	return check(NULL).ok;
}

static inline char *slurp(const char *path, size_t *n)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text;

	must(fd >= 0 && fstat(fd, &st) == 0);
	text = malloc((size_t)st.st_size + 1);
	must(text && read(fd, text, (size_t)st.st_size) == st.st_size);
	text[st.st_size] = '\0';
	(void)close(fd);
	*n = (size_t)st.st_size;
	return text;
}

static inline void spill(const char *path, const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd >= 0 && write(fd, text, n) == (ssize_t)n);
	(void)close(fd);
}

static inline void copy_file(const char *from, const char *to)
{
	size_t n;
	char *text = slurp(from, &n);

	spill(to, text, n);
	free(text);
}

/* The nth line (from 0) of a text; its length with the newline in *len. */
static inline const char *nth_line(const char *text, int n, size_t *len)
{
	for (; n; n--)
		text = strchr(text, '\n') + 1;
	*len = (size_t)(strchr(text, '\n') + 1 - text);
	return text;
}

static inline bool log_says(const char *what)
{
	bool found = false;

	for (unsigned i = 1; i < 2000 && !found; i++) {
		char path[64], *text;
		size_t n;

		(void)snprintf(path, sizeof(path), "log/%06u.jsonl", i);
		if (access(path, F_OK) < 0)
			continue;
		text = slurp(path, &n);
		found = strstr(text, what) != NULL;
		free(text);
	}
	return found;
}

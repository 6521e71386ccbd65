/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/brings.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/kit/survey/protected_names.h"
#include "base/bytes/hex.h"
#include "base/bytes/sha1.h"
#include "base/bytes/sha256.h"
#include "base/text/str.h"
#include "git/git_reader.h"

#define NAMES_MAX 16
#define FILE_MAX ((off_t)16 << 20)
#define LINK "120000 "

struct comparison {
	struct branch_names *to;
	int top;
	unsigned told;
	bool odd; /* not as git prints it */
};

/* Both sums at once: which one counts is told by the length of the name. */
struct sums {
	struct sha1 one;
	struct sha256 two;
};

static void sums_add(struct sums *s, const void *p, size_t n)
{
	sha1_add(&s->one, p, n);
	sha256_add(&s->two, p, n);
}

static void sums_begin(struct sums *s, off_t size)
{
	char head[48];
	int n = snprintf(head, sizeof(head), "blob %lld", (long long)size);

	sha1_init(&s->one);
	sha256_init(&s->two);
	sums_add(s, head, (size_t)n + 1);
}

static bool sums_are(struct sums *s, const char *id)
{
	unsigned char sum[SHA256_SIZE];
	bool one = strlen(id) == 2 * SHA1_SIZE;
	char hex[SHA256_HEX] = "";

	if (one)
		sha1_end(&s->one, sum);
	else
		sha256_end(&s->two, sum);
	hex_encode(sum, one ? SHA1_SIZE : SHA256_SIZE, hex);
	return str_eq(hex, id);
}

static bool same_link(int top, const char *id, const char *path)
{
	char to[PATH_MAX];
	ssize_t n = readlinkat(top, path, to, sizeof(to));
	struct sums s;

	if (n <= 0)
		return false;
	sums_begin(&s, n);
	sums_add(&s, to, (size_t)n);
	return sums_are(&s, id);
}

static bool same_file(int top, const char *id, const char *path)
{
	CLEANUP(fd)
	int fd = fd_open_nolinks(top, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, FD_BENEATH);
	struct sums s;
	char data[16384];
	struct stat st;
	off_t left;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return false;
	sums_begin(&s, st.st_size);
	for (left = st.st_size; left > 0;) {
		ssize_t n = read(fd, data, sizeof(data));

		if (n <= 0)
			return false;
		sums_add(&s, data, (size_t)n);
		left -= n;
	}
	return left == 0 && sums_are(&s, id);
}

/* "100644 blob ID\tPATH" */
static void brings_compare(struct comparison *c, const char *record)
{
	const char *path = strchr(record, '\t'), *type = strchr(record, ' ');
	const char *at = type ? strchr(type + 1, ' ') : NULL;
	bool link = str_starts(record, LINK);
	char id[72];

	if (!path || !at || at > path || (size_t)(path - at) > sizeof(id)) {
		c->odd = true;
		return;
	}
	(void)snprintf(id, sizeof(id), "%.*s", (int)(path - at - 1), at + 1);
	path++;
	if (!name_forbidden(path) ||
	    (link ? same_link(c->top, id, path) : same_file(c->top, id, path)))
		return;
	if (c->told++ < NAMES_MAX)
		buf_add(&c->to->names, path, strlen(path) + 1);
	else
		c->to->more++;
}

static void on_record(void *arg, const char *record)
{
	struct comparison *c = arg;

	if (c->to->commit[0])
		brings_compare(c, record);
	else if (strlen(record) < sizeof(c->to->commit) && !strchr(record, '\t'))
		(void)snprintf(c->to->commit, sizeof(c->to->commit), "%s", record);
	else
		c->odd = true;
}

bool branch_brings(const char *top, const char *branch, struct branch_names *ret)
{
	struct comparison c = { .to = ret };
	struct reader_asker who = { .avoid = top };
	CLEANUP(fd) int input = memfd_create("brig-none", MFD_CLOEXEC);
	CLEANUP(fd) int at = fd_open_nolinks(AT_FDCWD, top, O_PATH | O_DIRECTORY, 0);
	char git[PATH_MAX];

	c.top = at;
	if (input < 0 || at < 0 || snprintf(git, sizeof(git), "%s/.git", top) >= (int)sizeof(git))
		return false;
	return reader_repository(READER_TREE, git, branch, input, &who, on_record, &c) ==
		       READER_PLAIN &&
	       !c.odd && !ret->names.failed;
}

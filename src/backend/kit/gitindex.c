/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gitindex.c - versions 2 to 4, split or whole; see gitformat-index(5). */
#include "backend/kit/gitindex.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

#define SHA1_SIZE 20
#define SHA256_SIZE 32
#define CONFIG_MAX 65536
#define STAT_SIZE 40 /* times, device, inode, mode, owner, size */
#define MODE_AT 24
#define EXTENDED 0x4000

struct reader {
	int fd;
	unsigned char data[16384];
	size_t n, at;
	uint64_t taken, size;
	size_t hash;
	int tree;
	const char *git;
	bool shared; /* it is the other half of a split index */
	int (*found)(void *arg, const char *path);
	void *arg;
};

/* The next byte, or -EBADMSG at the end. */
static int byte(struct reader *r)
{
	if (r->at == r->n) {
		ssize_t n = read(r->fd, r->data, sizeof(r->data));

		if (n <= 0)
			return -EBADMSG;
		r->n = (size_t)n;
		r->at = 0;
	}
	r->taken++;
	return r->data[r->at++];
}

static int take(struct reader *r, unsigned char *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int c = byte(r);

		if (c < 0)
			return c;
		out[i] = (unsigned char)c;
	}
	return 0;
}

static int skip(struct reader *r, uint64_t n)
{
	for (; n; n--)
		if (byte(r) < 0)
			return -EBADMSG;
	return 0;
}

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* How much of the name before goes, in git's way of writing numbers. */
static int read_strip(struct reader *r, size_t *ret)
{
	size_t v;
	int c = byte(r);

	for (v = (size_t)c & 127; c >= 0 && c & 128;) {
		if (v > PATH_MAX)
			return -EBADMSG;
		c = byte(r);
		v = ((v + 1) << 7) + ((size_t)c & 127);
	}
	*ret = v;
	return c < 0 ? c : 0;
}

/* Appends to what is kept of the name before; *len is the whole. */
static int read_name(struct reader *r, char name[PATH_MAX], size_t *len)
{
	int c;

	while ((c = byte(r)) > 0) {
		if (*len + 1 >= PATH_MAX)
			return -EBADMSG;
		name[(*len)++] = (char)c;
	}
	name[*len] = '\0';
	return c;
}

static int read_entry(struct reader *r, uint32_t version, char name[PATH_MAX], size_t *len)
{
	unsigned char head[STAT_SIZE + SHA256_SIZE + 2];
	size_t size = STAT_SIZE + r->hash + 2, strip = *len;
	bool extended;

	if (take(r, head, size) < 0)
		return -EBADMSG;
	extended = head[size - 2] & (EXTENDED >> 8);
	if (extended && (version < 3 || skip(r, 2) < 0))
		return -EBADMSG;
	if (version == 4 && (read_strip(r, &strip) < 0 || strip > *len))
		return -EBADMSG;
	*len -= strip;
	if (read_name(r, name, len) < 0)
		return -EBADMSG;
	size += (extended ? 2 : 0) + *len;
	if (version < 4 && skip(r, 7 - size % 8) < 0) /* one of them has ended the name */
		return -EBADMSG;
	if ((be32(head + MODE_AT) & 0170000) != 0160000)
		return 0;
	return *len ? r->found(r->arg, name) : -EBADMSG;
}

static int read_file(struct reader *r, const char *name);

/* Names the other half, unless it is all zeros. */
static int read_shared(struct reader *r, uint32_t size)
{
	unsigned char hash[SHA256_SIZE];
	char name[32 + 2 * SHA256_SIZE] = "sharedindex.";
	struct reader other = *r;
	unsigned any = 0;

	if (r->shared || size < r->hash || take(r, hash, r->hash) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < r->hash; i++) {
		any |= hash[i];
		(void)snprintf(name + strlen(name), 3, "%02x", hash[i]);
	}
	other.shared = true;
	return any ? read_file(&other, name) : 0;
}

static int read_extensions(struct reader *r)
{
	unsigned char head[8];

	while (r->taken + r->hash < r->size) {
		uint64_t end;
		int code = 0;

		if (take(r, head, sizeof(head)) < 0)
			return -EBADMSG;
		end = r->taken + be32(head + 4);
		if (memcmp(head, "link", 4) == 0)
			code = read_shared(r, be32(head + 4));
		if (code != 0)
			return code;
		if (end < r->taken || skip(r, end - r->taken) < 0)
			return -EBADMSG;
	}
	return r->taken + r->hash == r->size ? 0 : -EBADMSG;
}

static int read_all(struct reader *r)
{
	unsigned char head[12];
	char name[PATH_MAX] = "";
	uint32_t version, count;
	size_t len = 0;

	if (take(r, head, sizeof(head)) < 0 || memcmp(head, "DIRC", 4) != 0)
		return -EBADMSG;
	version = be32(head + 4);
	count = be32(head + 8);
	if (version < 2 || version > 4)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		int code = read_entry(r, version, name, &len);

		if (code != 0)
			return code;
	}
	return read_extensions(r);
}

static int read_file(struct reader *r, const char *name)
{
	CLEANUP(fd) int fd = -1;
	char path[PATH_MAX + 128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", r->git, name);
	fd = fd_open_nolinks(r->tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	if (fd == -ENOENT && !r->shared)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EBADMSG;
	r->fd = fd;
	r->n = r->at = 0;
	r->taken = 0;
	r->size = (uint64_t)st.st_size;
	return read_all(r);
}

/* git knows the size of its hashes from its configuration, where the word has no other use. */
static size_t hash_size(int tree, const char *git)
{
	char path[PATH_MAX + 32], text[CONFIG_MAX];
	CLEANUP(fd) int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/config", git);
	fd = fd_open_nolinks(tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	if (fd < 0) /* a worktree's is the whole repository's, at the top of its tree */
		fd = fd_open_nolinks(tree, "config", O_RDONLY | O_NONBLOCK, FD_BENEATH);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return strcasestr(text, "sha256") ? SHA256_SIZE : SHA1_SIZE;
}

int gitindex_links(int tree, const char *git, int (*found)(void *arg, const char *path), void *arg)
{
	struct reader r = {
		.tree = tree, .git = git, .hash = hash_size(tree, git), .found = found, .arg = arg
	};

	return read_file(&r, "index");
}

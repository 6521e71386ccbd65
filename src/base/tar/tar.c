/* SPDX-License-Identifier: Apache-2.0 */
/* base/tar/tar.c - headers: ustar, with the longer names and sizes of pax and GNU. */
#include "base/tar/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/cleanup.h"

/* Where the fields of a header are. */
enum {
	AT_NAME = 0,
	AT_MODE = 100,
	AT_OWNER = 108,
	AT_GROUP = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_TARGET = 157,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
};

enum { NAME_LEN = 100, PREFIX_LEN = 155, NUMBER_LEN = 12, SUM_LEN = 8, MODE_LEN = 8 };

#define SIZE_MOST ((uint64_t)1 << 62)
#define OCTAL_MOST (((uint64_t)1 << 33) - 1)

/* ---- reading ---- */

/* Octal digits, or a number of GNU's: the first bit is set, the rest is the number. */
static bool tar_number(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if ((unsigned char)p[0] == 0x80) {
		for (i = 1; i < n; i++) {
			if (v >> 54)
				return false;
			v = v << 8 | (unsigned char)p[i];
		}
		*ret = v;
		return true;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return false;
	*ret = v;
	return true;
}

static bool sum_fits(const char *block)
{
	uint64_t said, sum = 0;

	if (!tar_number(block + AT_SUM, SUM_LEN, &said))
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + SUM_LEN ? ' ' : (unsigned char)block[i];
	return sum == said;
}

static enum tar_type type_of(char c)
{
	static const struct {
		char c;
		enum tar_type type;
	} rows[] = { { '0', TAR_FILE },     { '\0', TAR_FILE }, { '7', TAR_FILE },
		     { '5', TAR_FOLDER },   { '2', TAR_LINK },  { 'L', TAR_LONGNAME },
		     { 'K', TAR_LONGLINK }, { 'x', TAR_PAX },   { 'g', TAR_GLOBAL },
		     { '1', TAR_HARDLINK }, { '3', TAR_NODE },  { '4', TAR_NODE },
		     { '6', TAR_NODE } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].c == c)
			return rows[i].type;
	return TAR_OTHER;
}

static void tar_read_name(const char *block, char out[TAR_NAME_MAX])
{
	size_t prefix = memcmp(block + AT_MAGIC, "ustar\0", 6) == 0
				? strnlen(block + AT_PREFIX, PREFIX_LEN)
				: 0;
	int name = (int)strnlen(block + AT_NAME, NAME_LEN);

	(void)snprintf(out, TAR_NAME_MAX, "%.*s%s%.*s", (int)prefix, block + AT_PREFIX,
		       prefix ? "/" : "", name, block + AT_NAME);
}

int tar_parse(const char block[TAR_BLOCK], struct tar_entry *ret)
{
	static const char zeros[TAR_BLOCK];
	uint64_t mode, mtime;

	ret->type = TAR_END;
	if (memcmp(block, zeros, TAR_BLOCK) == 0)
		return 0;
	if (!sum_fits(block) || !tar_number(block + AT_MODE, MODE_LEN, &mode) ||
	    !tar_number(block + AT_SIZE, NUMBER_LEN, &ret->size) || ret->size > SIZE_MOST)
		return -EBADMSG;
	if (!tar_number(block + AT_MTIME, NUMBER_LEN, &mtime) || mtime > INT64_MAX)
		mtime = 0;
	ret->type = type_of(block[AT_TYPE]);
	ret->mode = (mode_t)mode & 0777;
	ret->mtime = (int64_t)mtime;
	tar_read_name(block, ret->name);
	(void)snprintf(ret->target, sizeof(ret->target), "%.*s",
		       (int)strnlen(block + AT_TARGET, NAME_LEN), block + AT_TARGET);
	/* Archives from before there were folders in them. */
	if (ret->type == TAR_FILE && block[AT_TYPE] == '\0' && *ret->name &&
	    ret->name[strlen(ret->name) - 1] == '/')
		ret->type = TAR_FOLDER;
	return 0;
}

static bool tar_take_text(char out[TAR_NAME_MAX], const char *p, size_t n)
{
	if (n >= TAR_NAME_MAX || memchr(p, '\0', n))
		return false;
	memcpy(out, p, n);
	out[n] = '\0';
	return true;
}

static bool take_size(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (!n || n > 19)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return v <= SIZE_MOST;
}

/* "LENGTH KEY=VALUE\n", the length with itself; *p and *n go on behind it. */
static bool next_record(const char **p, size_t *n, const char **key, size_t *key_len,
			const char **value, size_t *value_len)
{
	size_t len = 0, i = 0;

	while (i < *n && i < 8 && (*p)[i] >= '0' && (*p)[i] <= '9')
		len = len * 10 + (size_t)((*p)[i++] - '0');
	if (!i || i == *n || (*p)[i] != ' ' || len > *n || len < i + 3 || (*p)[len - 1] != '\n')
		return false;
	*key = *p + i + 1;
	*value = memchr(*key, '=', len - i - 2);
	if (!*value)
		return false;
	*key_len = (size_t)(*value - *key);
	(*value)++;
	*value_len = (size_t)(*p + len - 1 - *value);
	*p += len;
	*n -= len;
	return true;
}

static bool is_key(const char *key, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(key, name, n) == 0;
}

int tar_parse_pax(const char *p, size_t n, struct tar_entry *ret, bool *sized)
{
	while (n) {
		const char *key, *value;
		size_t key_len, value_len;
		bool fine = next_record(&p, &n, &key, &key_len, &value, &value_len);

		if (fine && is_key(key, key_len, "path"))
			fine = tar_take_text(ret->name, value, value_len);
		else if (fine && is_key(key, key_len, "linkpath"))
			fine = tar_take_text(ret->target, value, value_len);
		else if (fine && is_key(key, key_len, "size"))
			fine = *sized = take_size(value, value_len, &ret->size);
		else if (fine && key_len > 11 && memcmp(key, "GNU.sparse.", 11) == 0)
			fine = false; /* its data is not the file's */
		if (!fine)
			return -EBADMSG;
	}
	return 0;
}

bool tar_clean_name(char *name)
{
	size_t skip = 0, n;

	if (name[0] == '/')
		return false;
	while (name[skip] == '.' && (name[skip + 1] == '/' || !name[skip + 1]))
		for (skip++; name[skip] == '/';)
			skip++;
	n = strlen(name + skip);
	memmove(name, name + skip, n + 1);
	while (n && name[n - 1] == '/')
		name[--n] = '\0';
	for (const char *at = name; *at;) {
		size_t len = strcspn(at, "/");

		if (!len || len > 255 || (len == 1 && at[0] == '.') ||
		    (len == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		at += len + (at[len] == '/');
	}
	return true;
}

/* ---- writing ---- */

static void put_octal(char *at, size_t n, uint64_t v)
{
	for (at[n - 1] = '\0', n--; n--; v >>= 3)
		at[n] = (char)('0' + (v & 7));
}

static void fill_header(char block[TAR_BLOCK], const char *name, char type,
			const struct tar_entry *t, uint64_t size)
{
	static const char magic[8] = { 'u', 's', 't', 'a', 'r', '\0', '0', '0' };
	unsigned sum = 0;

	memset(block, 0, TAR_BLOCK);
	memcpy(block + AT_NAME, name, strnlen(name, NAME_LEN));
	put_octal(block + AT_MODE, MODE_LEN, t->mode & 0777);
	put_octal(block + AT_OWNER, MODE_LEN, 0);
	put_octal(block + AT_GROUP, MODE_LEN, 0);
	put_octal(block + AT_SIZE, NUMBER_LEN, size <= OCTAL_MOST ? size : 0);
	put_octal(block + AT_MTIME, NUMBER_LEN,
		  t->mtime > 0 && (uint64_t)t->mtime <= OCTAL_MOST ? (uint64_t)t->mtime : 0);
	block[AT_TYPE] = type;
	memcpy(block + AT_MAGIC, magic, sizeof(magic));
	if (type == '2')
		memcpy(block + AT_TARGET, t->target, strnlen(t->target, NAME_LEN));
	memset(block + AT_SUM, ' ', SUM_LEN);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)block[i];
	put_octal(block + AT_SUM, SUM_LEN - 1, sum);
}

/* One record; its own length is a part of it. */
static size_t add_record(char *out, size_t room, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;

	for (size_t digits = 1, most = 10; len >= most; most *= 10)
		len = rest + ++digits;
	if (len >= room)
		return 0;
	(void)snprintf(out, room, "%zu %s=%s\n", len, key, value);
	return len;
}

/* What does not fit in a header goes in front of it. */
static int put_pax(tar_put_fn *put, void *arg, const struct tar_entry *t, bool name, bool target,
		   bool size)
{
	char text[2 * TAR_NAME_MAX + 512] = { 0 }, digits[24], block[TAR_BLOCK];
	const struct tar_entry as = { .mode = 0644, .mtime = t->mtime };
	size_t n = 0;
	int r;

	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)t->size);
	if (name)
		n += add_record(text + n, sizeof(text) - TAR_BLOCK - n, "path", t->name);
	if (target)
		n += add_record(text + n, sizeof(text) - TAR_BLOCK - n, "linkpath", t->target);
	if (size)
		n += add_record(text + n, sizeof(text) - TAR_BLOCK - n, "size", digits);
	fill_header(block, "././@PaxHeader", 'x', &as, n);
	r = put(arg, block, sizeof(block));
	return r < 0 ? r : put(arg, text, (n + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
}

int tar_put_entry(tar_put_fn *put, void *arg, const struct tar_entry *t)
{
	const char type = t->type == TAR_FOLDER ? '5' : t->type == TAR_LINK ? '2' : '0';
	bool name = strlen(t->name) > NAME_LEN, size = t->size > OCTAL_MOST,
	     target = t->type == TAR_LINK && strlen(t->target) > NAME_LEN;
	char block[TAR_BLOCK];
	int r = name || size || target ? put_pax(put, arg, t, name, target, size) : 0;

	fill_header(block, t->name, type, t, t->size);
	return r < 0 ? r : put(arg, block, sizeof(block));
}

int tar_pack_end(tar_put_fn *put, void *arg)
{
	static const char zeros[2 * TAR_BLOCK];

	return put(arg, zeros, sizeof(zeros));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/seen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>

#include <linux/magic.h>

#include "backend/kit/survey/protected_names.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define FIRST_ROOM 64 /* a power of two */
#define ROOM_MAX 131072
#define PROBES 8 /* whoever chooses names so that they meet is not remembered */
#define TEXT_MAX ((size_t)16 << 20)
#define XFS_MAGIC 0x58465342

struct one {
	struct stamp was;
	uint32_t path, names; /* in the text; 0: free */
	bool git;
};

struct seen_folders {
	dev_t dev;
	struct timespec before; /* what has changed since is not believed */
	struct one *v;
	size_t room, n;
	struct buf text;
	bool frozen;
	bool fresh; /* something was put that was not loaded */
};

/* Of the file; behind it come the entries and the text. The sum is against a machine that went
 * down, not against anybody who can write here. */
struct seen_head {
	uint64_t magic, names, count, len, sum;
};
#define MAGIC 0x316e656573676962ULL /* "bigseen1" */

static bool keeps_stamps(int tree)
{
	static const unsigned long kinds[] = { EXT4_SUPER_MAGIC, XFS_MAGIC, BTRFS_SUPER_MAGIC,
					       TMPFS_MAGIC };
	struct statfs fs;

	if (fstatfs(tree, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if ((unsigned long)fs.f_type == kinds[i])
			return true;
	return false;
}

struct seen_folders *seen_free(struct seen_folders *s)
{
	if (!s)
		return NULL;
	buf_done(&s->text);
	free(s->v);
	free(s);
	return NULL;
}

struct seen_folders *seen_new(int tree)
{
	struct stat st;
	struct seen_folders *s =
		keeps_stamps(tree) && fstat(tree, &st) == 0 ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	*s = (struct seen_folders){ .dev = st.st_dev,
				    .room = FIRST_ROOM,
				    .text = BUF_INIT(TEXT_MAX) };
	s->v = calloc(s->room, sizeof(*s->v));
	buf_putc(&s->text, '\0'); /* so that 0 is nobody's */
	if (!s->v || s->text.failed)
		return seen_free(s);
	seen_begin(s);
	return s;
}

/* The clock that stamps are taken from, which stands still while the processor that drives it does:
 * a stamp that it had passed comes never again, and by any other clock nobody can tell. */
void seen_begin(struct seen_folders *s)
{
	if (s)
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &s->before);
}

void seen_freeze(struct seen_folders *s)
{
	if (s)
		s->frozen = true;
}

static size_t seen_place_of(const char *path, size_t room)
{
	uint64_t h = mem_hash(0, path, strlen(path));

	return (size_t)(h ^ (h >> 32)) & (room - 1);
}

/* It, or a free one in its place, or NULL. */
static struct one *slot_of(const struct seen_folders *s, struct one *v, size_t room,
			   const char *path)
{
	size_t at = seen_place_of(path, room);

	for (size_t i = 0; i < PROBES; i++) {
		struct one *o = &v[(at + i) & (room - 1)];

		if (!o->path || str_eq(s->text.data + o->path, path))
			return o;
	}
	return NULL;
}

static const struct one *seen_find(const struct seen_folders *s, const char *path, bool git)
{
	const struct one *o = s ? slot_of(s, s->v, s->room, path) : NULL;

	return o && o->path && o->git == git ? o : NULL;
}

static void seen_grow(struct seen_folders *s)
{
	size_t room = s->room * 2;
	struct one *v = s->room < ROOM_MAX ? calloc(room, sizeof(*v)) : NULL;

	if (!v)
		return;
	s->n = 0;
	for (size_t i = 0; i < s->room; i++) {
		struct one *to =
			s->v[i].path ? slot_of(s, v, room, s->text.data + s->v[i].path) : NULL;

		if (to) {
			*to = s->v[i];
			s->n++;
		}
	}
	free(s->v);
	s->v = v;
	s->room = room;
}

/* Names that were put again leave their old text behind: when there is no more room, all goes. */
static void seen_forget(struct seen_folders *s)
{
	memset(s->v, 0, s->room * sizeof(*s->v));
	s->n = 0;
	s->text.len = 1;
	s->text.failed = false;
}

bool seen_has(const struct seen_folders *s, const char *path, bool git)
{
	return seen_find(s, path, git) != NULL;
}

bool seen_wants(const struct seen_folders *s)
{
	return s && !s->frozen;
}

void seen_put(struct seen_folders *s, const char *path, bool git, const struct stat *st,
	      const struct buf *names)
{
	struct one *o, fresh = { .was = stamp_of(st), .git = git };

	if (!seen_wants(s) || st->st_dev != s->dev || !time_before(&st->st_ctim, &s->before))
		return;
	if (s->n >= s->room / 2)
		seen_grow(s);
	o = slot_of(s, s->v, s->room, path);
	if (!o)
		return;
	fresh.path = (uint32_t)s->text.len;
	buf_add(&s->text, path, strlen(path) + 1);
	fresh.names = (uint32_t)s->text.len;
	if (names->len)
		buf_add(&s->text, names->data, names->len);
	buf_putc(&s->text, '\0');
	if (s->text.failed) {
		seen_forget(s);
		return;
	}
	s->n += !o->path;
	s->fresh = true;
	*o = fresh;
}

const char *seen_names(const struct seen_folders *s, const char *path, bool git,
		       const struct stat *st)
{
	const struct one *o = seen_find(s, path, git);
	const struct stamp now = stamp_of(st);

	return o && stamp_same(&o->was, &now) ? s->text.data + o->names : NULL;
}

/* ---- the file ---- */

/* Of the names that count: a folder that was of no interest to one brig may be to another. */
static uint64_t sum_of_names(void)
{
	uint64_t h = sizeof(struct one);

	for (size_t i = 0; i < guarded_name_count; i++)
		h = mem_hash(h, guarded_names[i].name, guarded_names[i].len + 1) +
		    (uint64_t)guarded_names[i].class;
	return h;
}

bool seen_is_new(const struct seen_folders *s)
{
	return s && s->fresh;
}

int seen_store(struct seen_folders *s, int fd)
{
	CLEANUP(buf) struct buf all = BUF_INIT(2 * TEXT_MAX);
	struct seen_head h = {
		.magic = MAGIC, .names = sum_of_names(), .count = s->n, .len = s->text.len
	};
	size_t head = sizeof(h);

	buf_add(&all, &h, head);
	for (size_t i = 0; i < s->room; i++)
		if (s->v[i].path)
			buf_add(&all, &s->v[i], sizeof(s->v[i]));
	buf_add(&all, s->text.data, s->text.len);
	if (all.failed)
		return -E2BIG;
	h.sum = mem_hash(0, all.data + head, all.len - head);
	memcpy(all.data, &h, head);
	s->fresh = false;
	return fd_write_all(fd, all.data, all.len);
}

/* The whole file, if it is one and fits. */
static bool seen_read_all(int fd, struct buf *ret, struct seen_head *h)
{
	if (buf_read_file(ret, fd) < 0 || ret->len < sizeof(*h))
		return false;
	memcpy(h, ret->data, sizeof(*h));
	return h->magic == MAGIC && h->names == sum_of_names() && h->count <= ROOM_MAX &&
	       h->len <= TEXT_MAX && h->len > 1 &&
	       ret->len == sizeof(*h) + h->count * sizeof(struct one) + h->len &&
	       h->sum == mem_hash(0, ret->data + sizeof(*h), ret->len - sizeof(*h)) &&
	       !ret->data[ret->len - 1] && !ret->data[ret->len - 2];
}

void seen_load(struct seen_folders *s, int fd)
{
	CLEANUP(buf) struct buf all = BUF_INIT(2 * TEXT_MAX);
	struct seen_head h;

	if (!s || !seen_read_all(fd, &all, &h))
		return;
	seen_forget(s);
	s->text.len = 0;
	buf_add(&s->text, all.data + all.len - h.len, h.len);
	for (size_t i = 0; i < h.count && !s->text.failed; i++) {
		struct one o, *to;

		memcpy(&o, all.data + sizeof(h) + i * sizeof(o), sizeof(o));
		if (s->n >= s->room / 2)
			seen_grow(s);
		to = o.path && o.path < h.len && o.names < h.len
			     ? slot_of(s, s->v, s->room, s->text.data + o.path)
			     : NULL;
		if (to) {
			s->n += !to->path;
			*to = o;
		}
	}
	if (s->text.failed)
		seen_forget(s);
}

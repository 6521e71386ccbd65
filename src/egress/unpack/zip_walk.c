/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "egress/unpack/archive_walk.h"

#define LOCAL 0x04034b50U
#define CENTRAL 0x02014b50U
#define DESCRIPTOR 0x08074b50U
#define END64 0x06064b50U
#define LOCATOR 0x07064b50U
#define END 0x06054b50U
#define LOCAL_HEAD 30
#define CENTRAL_HEAD 46
#define END_HEAD 22
#define END64_HEAD 56 /* without what may be added to it, which nobody adds */
#define LOCATOR_HEAD 20
#define ALL16 UINT16_MAX
#define EXTRA_MOST 4096
#define DESCRIPTOR_MOST 28 /* the longest, and the sign behind it */
#define ZIP_OUT 65536
#define LOCKED 1U /* flags: encrypted */
#define SIZED_LATER 8U
#define ALL32 UINT32_MAX

enum zip_state {
	ZIP_SIGN,
	ZIP_LOCAL,
	ZIP_NAME, /* skipped */
	ZIP_EXTRA,
	ZIP_STORED,
	ZIP_SKIPPED,
	ZIP_SEEKS, /* stored, its size said behind it */
	ZIP_PACKED,
	ZIP_REST, /* what its size leaves behind the end of what is packed */
	ZIP_DESCRIPTOR,
	ZIP_CENTRAL,
	ZIP_CENTRAL_NAME,
	ZIP_CENTRAL_EXTRA,
	ZIP_CENTRAL_REST,
	ZIP_END64,
	ZIP_LOCATOR,
	ZIP_END,
	ZIP_COMMENT,
	ZIP_OVER
};

struct zip_member {
	unsigned flags, method;
	uint64_t at, size, plain; /* size: as packed */
	size_t name, extra, comment;
	bool in64;
};

struct zip_walk {
	const struct members_ops *ops;
	void *arg;
	struct codec_pool *pool;
	enum zip_state state;
	uint64_t at; /* of the next byte, from the archive's first */
	struct zip_member m;
	uint64_t left, fed; /* of what is counted; of the member's data */
	char have[EXTRA_MOST];
	size_t n_have, want;
	struct codec *codec;
	/* Sums over all members, as found and as the directory says, in no order. */
	uint64_t key, found, said;
	/* The directory as it lies there: readers go to it by what the end says. */
	uint64_t dir_at, dir_members, dir_size, end64_at;
	bool in_dir, has64, ended64; /* from its first entry on; a larger end; and where that is */
	uint32_t tail;               /* the last four bytes of the comment */
	bool full; /* there may be more of what was packed, without another byte */
	char out[ZIP_OUT];
};

static unsigned two(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return u[0] | (unsigned)u[1] << 8;
}

static uint32_t four(const char *p)
{
	return two(p) | (uint32_t)two(p + 2) << 16;
}

static uint64_t eight(const char *p)
{
	return four(p) | (uint64_t)four(p + 4) << 32;
}

struct zip_walk *zip_walk_new(struct codec_pool *pool, const struct members_ops *ops, void *arg)
{
	struct zip_walk *z;

	if (sizeof(*z) > pool->most - pool->used)
		return NULL;
	z = calloc(1, sizeof(*z));
	if (!z)
		return NULL;
	z->ops = ops;
	z->arg = arg;
	z->pool = pool;
	z->want = 4;
	if (getrandom(&z->key, sizeof(z->key), GRND_NONBLOCK) != (ssize_t)sizeof(z->key))
		z->key = (uint64_t)(uintptr_t)z;
	return z;
}

struct zip_walk *zip_walk_free(struct zip_walk *z)
{
	if (z)
		(void)codec_free(z->codec);
	free(z);
	return NULL;
}

bool zip_walk_whole(const struct zip_walk *z)
{
	return z->state == ZIP_OVER;
}

/* Which member lies where. Who does not know the key finds no two sets with one sum. */
static uint64_t zip_mix(const struct zip_walk *z, uint64_t at, uint64_t size, unsigned method)
{
	uint64_t x = z->key ^ at;

	for (int i = 0; i < 3; i++) {
		x ^= x >> 32;
		x *= 0xd6e8feb86659fd93U;
		x ^= x >> 29;
		x += i == 0 ? size : i == 1 ? method + 1 : z->key;
	}
	return x ^ x >> 32;
}

static void zip_unreadable(struct zip_walk *z, enum unreadable why)
{
	z->ops->unreadable(z->arg, why);
}

static void zip_next(struct zip_walk *z, enum zip_state s, size_t want)
{
	z->state = s;
	z->want = want;
	z->n_have = 0;
}

/* ---- a member ---- */

static int zip_member_done(struct zip_walk *z)
{
	z->codec = codec_free(z->codec);
	z->found += zip_mix(z, z->m.at, z->m.size, z->m.method);
	zip_next(z, ZIP_SIGN, 4);
	return 0;
}

static int zip_data_over(struct zip_walk *z)
{
	int r = z->ops->ends(z->arg);

	z->codec = codec_free(z->codec);
	if (r < 0)
		return r;
	if (z->m.flags & SIZED_LATER) {
		zip_next(z, ZIP_DESCRIPTOR, DESCRIPTOR_MOST);
		return 0;
	}
	return zip_member_done(z);
}

static enum packed_as zip_packing(unsigned method)
{
	switch (method) {
	case 8:
		return PACKING_BARE;
	case 12:
		return PACKING_BZIP2;
	case 93:
		return PACKING_ZSTD;
	case 95:
		return PACKING_XZ;
	default:
		return PACKING_NONE;
	}
}

/* One that cannot be read is passed over, if it says how long it is. */
static int zip_pass_over(struct zip_walk *z, enum unreadable why)
{
	zip_unreadable(z, why);
	if (z->m.flags & SIZED_LATER && !z->m.size)
		return -EBADMSG;
	z->left = z->m.size;
	z->state = ZIP_SKIPPED;
	return 0;
}

static int zip_open(struct zip_walk *z)
{
	struct zip_member *m = &z->m;
	enum packed_as k = zip_packing(m->method);

	z->fed = 0;
	z->left = m->size;
	if (m->flags & LOCKED)
		return zip_pass_over(z, UNREADABLE_LOCKED);
	if (m->method == 0) {
		z->state = m->flags & SIZED_LATER && !m->size ? ZIP_SEEKS : ZIP_STORED;
		z->n_have = 0;
		return z->ops->begins(z->arg, false);
	}
	if (k == PACKING_NONE)
		return zip_pass_over(z, UNREADABLE_METHOD);
	z->codec = codec_new(k, z->pool);
	if (!z->codec)
		return -ENOMEM;
	z->state = ZIP_PACKED;
	return z->ops->begins(z->arg, true);
}

/* Of the fields that were all ones, in this order. */
static void zip_read_extra(struct zip_member *m, const char *p, size_t n, bool central)
{
	while (n >= 4) {
		size_t len = two(p + 2), k = 4;

		if (len > n - 4)
			return;
		if (two(p) == 1) {
			m->in64 = true;
			if (m->plain == ALL32 && k + 8 <= 4 + len) {
				m->plain = eight(p + k);
				k += 8;
			}
			if (m->size == ALL32 && k + 8 <= 4 + len) {
				m->size = eight(p + k);
				k += 8;
			}
			if (central && m->at == ALL32 && k + 8 <= 4 + len)
				m->at = eight(p + k);
		}
		p += 4 + len;
		n -= 4 + len;
	}
}

static int zip_local(struct zip_walk *z)
{
	const char *p = z->have;

	z->m = (struct zip_member){ .flags = two(p + 6),
				    .method = two(p + 8),
				    .at = z->at - z->n_have,
				    .size = four(p + 18),
				    .plain = four(p + 22),
				    .name = two(p + 26),
				    .extra = two(p + 28) };
	/* It says so behind the data; a size in front of it, too, would be a second word. */
	if (z->m.flags & SIZED_LATER && z->m.size != ALL32 && !(z->m.flags & LOCKED))
		z->m.size = 0;
	z->left = z->m.name;
	zip_next(z, ZIP_NAME, 0);
	return 0;
}

static int zip_local_extra(struct zip_walk *z)
{
	size_t n = z->m.extra < EXTRA_MOST ? z->m.extra : EXTRA_MOST;

	zip_read_extra(&z->m, z->have, n, false);
	if (z->m.flags & SIZED_LATER && !(z->m.flags & LOCKED))
		z->m.size = 0;
	return zip_open(z);
}

/* With or without its sign, in 32 or 64 bits: the one that says the size that was counted, and with
 * the sign of what may follow. */
static int zip_descriptor(struct zip_walk *z)
{
	static const struct {
		unsigned sign, wide, n;
	} ways[] = { { 4, 0, 16 }, { 4, 1, 24 }, { 0, 0, 12 }, { 0, 1, 20 } };

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		const char *p = z->have + ways[i].sign + 4;
		uint64_t size = ways[i].wide ? eight(p) : four(p);
		uint32_t next = four(z->have + ways[i].n);

		if ((ways[i].sign && four(z->have) != DESCRIPTOR) || size != z->m.size ||
		    (next != LOCAL && next != CENTRAL))
			continue;
		memmove(z->have, z->have + ways[i].n, DESCRIPTOR_MOST - ways[i].n);
		(void)zip_member_done(z);
		z->n_have = DESCRIPTOR_MOST - ways[i].n;
		return 0;
	}
	return -EBADMSG;
}

/* ---- its data ---- */

static int zip_stored(struct zip_walk *z, const char *p, size_t n, size_t *took)
{
	int r;

	*took = z->left < n ? (size_t)z->left : n;
	z->left -= *took;
	r = *took ? z->ops->data(z->arg, p, *took) : 0;
	return r < 0 || z->left ? r : zip_data_over(z);
}

/* Stored, and as long as a descriptor says: the first that says how long it was until there. */
static int zip_seeks(struct zip_walk *z, const char *p, size_t n, size_t *took)
{
	const char *end = memchr(p, 'P', n);
	int r;

	*took = !z->n_have && end ? (size_t)(end - p) : !z->n_have ? n : 0;
	if (*took) {
		z->fed += *took;
		return z->ops->data(z->arg, p, *took);
	}
	*took = DESCRIPTOR_MOST - z->n_have < n ? DESCRIPTOR_MOST - z->n_have : n;
	memcpy(z->have + z->n_have, p, *took);
	z->n_have += *took;
	if (z->n_have < DESCRIPTOR_MOST)
		return 0;
	if (four(z->have) == DESCRIPTOR &&
	    (four(z->have + 8) == z->fed || eight(z->have + 8) == z->fed)) {
		z->m.size = z->fed;
		r = z->ops->ends(z->arg);
		return r < 0 ? r : zip_descriptor(z);
	}
	z->fed++;
	r = z->ops->data(z->arg, z->have, 1);
	memmove(z->have, z->have + 1, --z->n_have);
	while (r == 0 && z->n_have && z->have[0] != 'P') {
		z->fed++;
		r = z->ops->data(z->arg, z->have, 1);
		memmove(z->have, z->have + 1, --z->n_have);
	}
	return r;
}

static int zip_packed(struct zip_walk *z, const char *p, size_t n, size_t *took)
{
	bool sized = !(z->m.flags & SIZED_LATER);
	struct codec_io io = { .in = p, .in_n = n, .out = z->out, .room = sizeof(z->out) };
	int r, given;

	if (sized && io.in_n > z->left)
		io.in_n = (size_t)z->left;
	n = io.in_n;
	r = codec_step(z->codec, &io);
	*took = n - io.in_n;
	z->fed += *took;
	z->left -= sized ? *took : 0;
	z->full = r == CODEC_GOES && io.out_n == io.room;
	given = io.out_n ? z->ops->data(z->arg, z->out, io.out_n) : 0;
	if (given < 0)
		return given;
	if (r == -EBADMSG) {
		zip_unreadable(z, UNREADABLE_BROKEN);
		r = sized ? CODEC_ENDS : r;
	}
	if (r < 0)
		return r;
	if (r == CODEC_ENDS) {
		if (!sized)
			z->m.size = z->fed;
		if (!z->left || !sized)
			return zip_data_over(z);
		zip_unreadable(z, UNREADABLE_BROKEN);
		z->state = ZIP_REST;
	} else if (sized && !z->left && !z->full) {
		zip_unreadable(z, UNREADABLE_BROKEN);
		return zip_data_over(z);
	}
	return 0;
}

/* ---- the directory ---- */

static int zip_central(struct zip_walk *z)
{
	const char *p = z->have;

	z->m = (struct zip_member){ .flags = two(p + 8),
				    .method = two(p + 10),
				    .size = four(p + 20),
				    .plain = four(p + 24),
				    .name = two(p + 28),
				    .extra = two(p + 30),
				    .comment = two(p + 32),
				    .at = four(p + 42) };
	z->dir_members++;
	z->dir_size += CENTRAL_HEAD + z->m.name + z->m.extra + z->m.comment;
	z->left = z->m.name;
	zip_next(z, ZIP_CENTRAL_NAME, 0);
	return 0;
}

static int zip_central_extra(struct zip_walk *z)
{
	size_t n = z->m.extra < EXTRA_MOST ? z->m.extra : EXTRA_MOST;

	zip_read_extra(&z->m, z->have, n, true);
	z->said += zip_mix(z, z->m.at, z->m.size, z->m.method);
	z->left = z->m.comment;
	zip_next(z, ZIP_CENTRAL_REST, 0);
	return 0;
}

/* The directory begins; false: members or entries behind its end. */
static bool zip_enters(struct zip_walk *z, uint32_t sign)
{
	if (sign == LOCAL)
		return !z->in_dir;
	if (!z->in_dir)
		z->dir_at = z->at - z->n_have;
	z->in_dir = true;
	return !z->has64 || sign == LOCATOR || (sign == END && z->ended64);
}

static int zip_sign(struct zip_walk *z)
{
	uint32_t sign = four(z->have);

	if (!zip_enters(z, sign))
		return -EBADMSG;
	switch (sign) {
	case LOCAL:
		z->state = ZIP_LOCAL;
		z->want = LOCAL_HEAD;
		return 0;
	case CENTRAL:
		z->state = ZIP_CENTRAL;
		z->want = CENTRAL_HEAD;
		return 0;
	case END64:
		z->state = ZIP_END64;
		z->want = END64_HEAD;
		return 0;
	case LOCATOR:
		z->state = ZIP_LOCATOR;
		z->want = LOCATOR_HEAD;
		return 0;
	case END:
		z->state = ZIP_END;
		z->want = END_HEAD;
		return 0;
	default: /* a signature, too: nobody makes them */
		return -EBADMSG;
	}
}

/* What the end says of the directory: by that readers find it, and not by what lies before. */
static bool zip_leads_here(const struct zip_walk *z, uint64_t members, uint64_t size, uint64_t at)
{
	return members == z->dir_members && size == z->dir_size && at == z->dir_at;
}

static int zip_end64(struct zip_walk *z)
{
	const char *p = z->have;

	if (eight(p + 4) != END64_HEAD - 12 || eight(p + 24) != eight(p + 32) ||
	    !zip_leads_here(z, eight(p + 32), eight(p + 40), eight(p + 48)))
		return -EBADMSG;
	z->has64 = true;
	z->end64_at = z->at - z->n_have;
	zip_next(z, ZIP_SIGN, 4);
	return 0;
}

static int zip_locator(struct zip_walk *z)
{
	if (!z->has64 || z->ended64 || eight(z->have + 8) != z->end64_at)
		return -EBADMSG;
	z->ended64 = true;
	zip_next(z, ZIP_SIGN, 4);
	return 0;
}

/* A number that the larger end says. */
static uint64_t zip_or(const struct zip_walk *z, uint64_t said, uint64_t all, uint64_t larger)
{
	return z->has64 && said == all ? larger : said;
}

static int zip_end(struct zip_walk *z)
{
	const char *p = z->have;

	if (z->found != z->said || two(p + 8) != two(p + 10) ||
	    !zip_leads_here(z, zip_or(z, two(p + 10), ALL16, z->dir_members),
			    zip_or(z, four(p + 12), ALL32, z->dir_size),
			    zip_or(z, four(p + 16), ALL32, z->dir_at)))
		zip_unreadable(z, UNREADABLE_BROKEN);
	z->left = two(z->have + 20);
	zip_next(z, ZIP_COMMENT, 0);
	return 0;
}

/* Readers look for the end from behind: one in the comment would be found first. */
static void zip_comment(struct zip_walk *z, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		z->tail = z->tail >> 8 | (uint32_t)(unsigned char)p[i] << 24;
		if (z->tail == END || z->tail == LOCATOR)
			zip_unreadable(z, UNREADABLE_BROKEN);
	}
}

/* ---- feeding ---- */

/* What was gathered is whole. */
static int zip_gathered(struct zip_walk *z)
{
	switch (z->state) {
	case ZIP_SIGN:
		return zip_sign(z);
	case ZIP_LOCAL:
		return zip_local(z);
	case ZIP_EXTRA:
		return zip_local_extra(z);
	case ZIP_DESCRIPTOR:
		return zip_descriptor(z);
	case ZIP_CENTRAL:
		return zip_central(z);
	case ZIP_CENTRAL_EXTRA:
		return zip_central_extra(z);
	case ZIP_END64:
		return zip_end64(z);
	case ZIP_LOCATOR:
		return zip_locator(z);
	default:
		return zip_end(z);
	}
}

/* What was counted is over. */
static int zip_counted(struct zip_walk *z)
{
	switch (z->state) {
	case ZIP_NAME:
		z->left = z->m.extra;
		zip_next(z, ZIP_EXTRA, z->m.extra);
		return z->m.extra ? 0 : zip_local_extra(z);
	case ZIP_CENTRAL_NAME:
		zip_next(z, ZIP_CENTRAL_EXTRA, z->m.extra);
		return z->m.extra ? 0 : zip_central_extra(z);
	case ZIP_CENTRAL_REST:
		zip_next(z, ZIP_SIGN, 4);
		return 0;
	case ZIP_SKIPPED:
		if (z->m.flags & SIZED_LATER) {
			zip_next(z, ZIP_DESCRIPTOR, DESCRIPTOR_MOST);
			return 0;
		}
		return zip_member_done(z);
	case ZIP_REST:
		return zip_data_over(z);
	default:
		z->state = ZIP_OVER;
		return 0;
	}
}

static bool zip_counts(enum zip_state s)
{
	return s == ZIP_NAME || s == ZIP_CENTRAL_NAME || s == ZIP_CENTRAL_REST ||
	       s == ZIP_SKIPPED || s == ZIP_REST || s == ZIP_COMMENT;
}

/* Bytes beyond the room are counted, not kept. */
static int zip_gather(struct zip_walk *z, const char *p, size_t n, size_t *took)
{
	size_t lacks = z->want > z->n_have ? z->want - z->n_have : 0, k = lacks < n ? lacks : n;
	size_t room = z->n_have < EXTRA_MOST ? EXTRA_MOST - z->n_have : 0;

	if (room && k)
		memcpy(z->have + z->n_have, p, k < room ? k : room);
	z->n_have += k;
	z->at += k;
	*took = k;
	return z->n_have < z->want ? 0 : zip_gathered(z);
}

static int zip_step(struct zip_walk *z, const char *p, size_t n, size_t *took)
{
	int r;

	if (zip_counts(z->state)) {
		*took = z->left < n ? (size_t)z->left : n;
		if (z->state == ZIP_COMMENT)
			zip_comment(z, p, *took);
		z->left -= *took;
		z->at += *took;
		return z->left ? 0 : zip_counted(z);
	}
	if (z->state != ZIP_STORED && z->state != ZIP_SEEKS && z->state != ZIP_PACKED)
		return zip_gather(z, p, n, took);
	r = z->state == ZIP_STORED  ? zip_stored(z, p, n, took)
	    : z->state == ZIP_SEEKS ? zip_seeks(z, p, n, took)
				    : zip_packed(z, p, n, took);
	z->at += *took;
	return r;
}

/* May a step be made without a byte? */
static bool zip_goes_on(const struct zip_walk *z)
{
	return (zip_counts(z->state) && !z->left) || (z->state == ZIP_STORED && !z->left) ||
	       (z->state == ZIP_PACKED && z->full) ||
	       (z->state == ZIP_SEEKS && z->n_have == DESCRIPTOR_MOST) ||
	       (z->state < ZIP_OVER && !zip_counts(z->state) && z->want && z->n_have >= z->want &&
		z->state != ZIP_STORED && z->state != ZIP_SEEKS && z->state != ZIP_PACKED);
}

int zip_walk_feed(struct zip_walk *z, const char *p, size_t n, bool *over, size_t *left)
{
	int r = 0;

	while (r == 0 && z->state != ZIP_OVER && (n || zip_goes_on(z))) {
		size_t took = 0;

		r = zip_step(z, p, n, &took);
		p += took;
		n -= took;
		if (r == 0)
			r = z->ops->paced(z->arg);
	}
	*over = z->state == ZIP_OVER;
	*left = n;
	return r;
}

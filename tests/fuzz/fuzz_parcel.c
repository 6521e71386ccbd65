/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_parcel.c - a record with a field of every kind: whatever the bytes are, reading stays
 * within them, and what was read whole is written back as the same bytes. */
#include "fuzz.h"

#include "base/bytes/parcel.h"

#define MARK "fuzz"
#define ROOM ((size_t)1 << 20)

struct record {
	uint64_t number;
	bool flag;
	int word;
	unsigned char fixed[8];
	const char *bytes, *text;
	size_t len;
	const char **texts;
	size_t text_count;
	struct part {
		const char *name;
		uint64_t size;
	} * parts;
	size_t part_count;
};

/* One function for both directions, as every record has. */
static void fields(struct parcel *p, struct record *r)
{
	parcel_number(p, &r->number);
	parcel_flag(p, &r->flag);
	parcel_word(p, &r->word, 5);
	parcel_fixed(p, r->fixed, sizeof(r->fixed));
	parcel_bytes(p, &r->bytes, &r->len);
	parcel_text(p, &r->text);
	r->texts = parcel_texts(p, r->texts, &r->text_count);
	r->parts = parcel_list(p, r->parts, &r->part_count, sizeof(*r->parts));
	for (size_t i = 0; r->parts && i < r->part_count; i++) {
		parcel_text(p, &r->parts[i].name);
		parcel_number(p, &r->parts[i].size);
	}
}

static void check(const struct record *r, const uint8_t *data, size_t size, bool copied)
{
	const char *from = (const char *)data, *to = from + size;

	require(r->word >= 0 && r->word <= 5);
	require(!r->len || (r->bytes >= from && r->bytes + r->len <= to));
	require(copied || !r->text || (r->text >= from && r->text + strlen(r->text) < to));
	require(r->text_count <= size && r->part_count <= size);
	for (size_t i = 0; i < r->text_count; i++)
		require(r->texts[i] && strlen(r->texts[i]) < size);
	require(!r->texts || !r->texts[r->text_count]);
}

static void write_back(struct record *r, const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT(2 * ROOM);
	struct parcel p = parcel_to(&b, MARK);

	fields(&p, r);
	require(!b.failed && b.len == size && memcmp(b.data, data, size) == 0);
	buf_done(&b);
}

static void read_one(const uint8_t *data, size_t size, struct arena *a, bool copy)
{
	struct parcel p = parcel_from((const char *)data, size, MARK);
	struct record r = { 0 };
	char *room = a ? NULL : malloc(ROOM);

	p.arena = a;
	p.copy = copy;
	p.room = room;
	p.left = room ? ROOM : 0;
	fields(&p, &r);
	if (parcel_whole(&p)) {
		check(&r, data, size, copy);
		write_back(&r, data, size);
	}
	free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new(4 * ROOM);

	require(a != NULL);
	if (size <= ROOM / 32) {
		read_one(data, size, a, false);
		read_one(data, size, a, true);
		read_one(data, size, NULL, false);
	}
	(void)arena_free(a);
	return 0;
}

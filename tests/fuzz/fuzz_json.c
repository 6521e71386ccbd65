/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_json.c - the input drives the writer; what comes out is JSON, judged by another reader.
 */
#include "fuzz.h"

#include "base/bytes/json.h"
#include "jsoncheck.h"

#define DEPTH_MAX 40

struct driver {
	struct json j;
	const uint8_t *at, *end;
	bool object[DEPTH_MAX];
	unsigned depth;
};

/* The next bytes as a text of at most 15. */
static const char *some(struct driver *d, size_t *n)
{
	const char *p = (const char *)d->at;

	*n = d->at < d->end ? *d->at % 16 : 0;
	if (*n > (size_t)(d->end - d->at))
		*n = (size_t)(d->end - d->at);
	d->at += *n;
	return p;
}

static void key(struct driver *d)
{
	char name[16];
	size_t n;
	const char *p = some(d, &n);

	if (!d->object[d->depth])
		return;
	memcpy(name, p, n);
	name[n] = '\0';
	json_key(&d->j, name);
}

static void open_level(struct driver *d, bool object)
{
	if (d->depth + 1 == DEPTH_MAX)
		return;
	key(d);
	d->object[++d->depth] = object;
	if (object)
		json_object(&d->j);
	else
		json_array(&d->j);
}

static void close_level(struct driver *d)
{
	if (d->object[d->depth--])
		json_object_end(&d->j);
	else
		json_array_end(&d->j);
}

static void value(struct driver *d, uint8_t what)
{
	uint64_t v = 0;
	size_t n;
	const char *p;

	key(d);
	p = some(d, &n);
	memcpy(&v, p, n < sizeof(v) ? n : sizeof(v));
	switch (what % 6) {
	case 0:
		json_strn(&d->j, p, n);
		break;
	case 1:
		json_u64(&d->j, v);
		break;
	case 2:
		json_i64(&d->j, (int64_t)v);
		break;
	case 3:
		json_milli(&d->j, v);
		break;
	case 4:
		json_bool(&d->j, v & 1);
		break;
	default:
		json_str(&d->j, NULL);
	}
}

static void drive(struct driver *d, const uint8_t *data, size_t size, struct buf *out, bool pretty)
{
	*d = (struct driver){ .at = data, .end = data + size };
	json_init(&d->j, out, pretty);
	json_array(&d->j);
	while (d->at < d->end) {
		uint8_t what = *d->at++;

		if (what % 8 == 0)
			open_level(d, what & 8);
		else if (what % 8 == 1 && d->depth)
			close_level(d);
		else
			value(d, what / 8);
	}
	while (d->depth)
		close_level(d);
	json_array_end(&d->j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT((size_t)64 << 20), small = BUF_INIT(size);
	struct driver d;

	if (size > 4096)
		return 0;
	drive(&d, data, size, &out, size % 2);
	require(!out.failed && json_is_valid(out.data, out.len));
	drive(&d, data, size, &small, false);
	require(small.len <= size);
	buf_done(&out);
	buf_done(&small);
	json_init(&d.j, &out, false);
	json_strn(&d.j, (const char *)data, size);
	require(json_is_valid(out.data, out.len));
	buf_done(&out);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/node/node_frame.h"

#include <errno.h>
#include <string.h>

#include "base/text/str.h"

#define MARK 0xb5
#define WORDS_MAX ((size_t)8 << 20)

static const struct {
	enum node_side from;
	size_t max;
} kinds[NODE_KINDS] = {
	[NODE_SETTINGS] = { NODE_FROM_HERE, (size_t)4 << 20 },
	[NODE_WORDS] = { NODE_FROM_HERE, WORDS_MAX },
	[NODE_VARIABLES] = { NODE_FROM_HERE, WORDS_MAX },
	[NODE_CODE] = { NODE_FROM_HERE, WORDS_MAX },
	[NODE_GO] = { NODE_FROM_HERE, 0 },
	[NODE_INPUT] = { NODE_FROM_HERE, NODE_PART },
	[NODE_INPUT_END] = { NODE_FROM_HERE, 0 },
	[NODE_SIGNAL] = { NODE_FROM_HERE, 1 },
	[NODE_SIZE] = { NODE_FROM_HERE, 4 },
	[NODE_PING] = { NODE_FROM_HERE, 0 },
	[NODE_READY] = { NODE_FROM_NODE, 4096 },
	[NODE_BEGAN] = { NODE_FROM_NODE, 0 },
	[NODE_OUT] = { NODE_FROM_NODE, NODE_PART },
	[NODE_ERR] = { NODE_FROM_NODE, NODE_PART },
	[NODE_TAKEN] = { NODE_FROM_NODE, 4 },
	[NODE_ALIVE] = { NODE_FROM_NODE, 0 },
	[NODE_NOTE] = { NODE_FROM_NODE, 4096 },
	[NODE_REPORT] = { NODE_FROM_NODE, (size_t)32 << 20 },
};

size_t node_max(enum node_word kind)
{
	return kinds[kind].max;
}

void node_reader_init(struct node_reader *r, enum node_side from)
{
	*r = (struct node_reader){ .from = from, .held = BUF_INIT(((size_t)32 << 20) + (1 << 20)) };
}

void node_reader_done(struct node_reader *r)
{
	buf_done(&r->held);
}

static void node_frame_forget(struct node_reader *r)
{
	if (!r->used)
		return;
	memmove(r->held.data, r->held.data + r->used, r->held.len - r->used);
	r->held.len -= r->used;
	r->used = 0;
}

void node_reader_add(struct node_reader *r, const void *p, size_t n)
{
	node_frame_forget(r);
	if (!r->broken)
		buf_add(&r->held, p, n);
	r->broken |= r->held.failed;
}

static uint32_t big_endian(const unsigned char *p, size_t n)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

int node_reader_next(struct node_reader *r, struct node_frame *ret)
{
	const unsigned char *head;
	size_t size;

	node_frame_forget(r);
	if (r->broken)
		return -EPROTO;
	if (r->held.len < NODE_HEADER)
		return 0;
	head = (const unsigned char *)r->held.data;
	size = big_endian(head + 4, 4);
	if (head[0] != MARK || head[1] >= NODE_KINDS || head[2] || head[3] ||
	    kinds[head[1]].from != r->from || size > kinds[head[1]].max) {
		r->broken = true;
		return -EPROTO;
	}
	if (r->held.len - NODE_HEADER <= size)
		return 0;
	if (r->held.data[NODE_HEADER + size] != '\n') {
		r->broken = true;
		return -EPROTO;
	}
	*ret = (struct node_frame){ .kind = (enum node_word)head[1],
				    .data = r->held.data + NODE_HEADER,
				    .size = size };
	r->used = NODE_HEADER + size + 1;
	return 1;
}

void node_put(struct buf *b, enum node_word kind, const void *p, size_t n)
{
	const unsigned char head[NODE_HEADER] = { MARK,
						  (unsigned char)kind,
						  0,
						  0,
						  (unsigned char)(n >> 24),
						  (unsigned char)(n >> 16),
						  (unsigned char)(n >> 8),
						  (unsigned char)n };

	if (n > kinds[kind].max) {
		b->failed = true;
		return;
	}
	buf_add(b, head, sizeof(head));
	if (n)
		buf_add(b, p, n);
	buf_putc(b, '\n');
}

void node_put_number(struct buf *b, enum node_word kind, uint32_t v, size_t bytes)
{
	unsigned char p[4];

	for (size_t i = 0; i < bytes; i++)
		p[i] = (unsigned char)(v >> (8 * (bytes - 1 - i)));
	node_put(b, kind, p, bytes);
}

uint32_t node_number(const struct node_frame *f)
{
	return big_endian((const unsigned char *)f->data, f->size < 4 ? f->size : 4);
}

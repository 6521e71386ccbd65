/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/event_pack.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"

#define TEXT(field)                                                                                \
	{                                                                                          \
		offsetof(struct egress_event, field), sizeof(((struct egress_event *)0)->field)    \
	}

/* The texts, in the order in which they follow the numbers. */
static const struct {
	size_t at, room;
} texts[] = { TEXT(host), TEXT(method), TEXT(address), TEXT(rule),  TEXT(credential),
	      TEXT(what), TEXT(hint),   TEXT(path),    TEXT(fields) };

/* Both ends are of one build, and of machines of one byte order. */
struct event_head {
	uint64_t bytes_out, bytes_in;
	uint32_t kind, reason, count;
	uint16_t size; /* of all of it */
	uint16_t port, status;
	uint16_t none[2]; /* so that no byte of it is left as it was */
	uint16_t n[ARRAY_LEN(texts)];
};

/* Behind them, of one kind alone: most events are of others. */
struct event_usage {
	uint64_t in, cached, out, cost;
};

static_assert(sizeof(struct event_head) + sizeof(struct egress_event) <= EVENT_PACKED_MAX,
	      "an event may have all of its texts");

size_t event_pack(const struct egress_event *ev, char out[EVENT_PACKED_MAX])
{
	struct event_head h = { .bytes_out = ev->bytes_out,
				.bytes_in = ev->bytes_in,
				.kind = ev->kind,
				.reason = ev->reason,
				.count = ev->count,
				.port = ev->port,
				.status = ev->status };
	char *to = out + sizeof(h);
	struct event_usage u = { ev->tokens_in, ev->tokens_cached, ev->tokens_out, ev->cost };

	if (ev->kind == EGRESS_EVENT_USAGE)
		to = mempcpy(to, &u, sizeof(u));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = (const char *)ev + texts[i].at;

		h.n[i] = *text ? (uint16_t)strnlen(text, texts[i].room - 1) : 0;
		to = mempcpy(to, text, h.n[i]);
	}
	h.size = (uint16_t)(to - out);
	memcpy(out, &h, sizeof(h));
	return h.size;
}

static bool adds_up(const struct event_head *h)
{
	size_t all = sizeof(*h) + (h->kind == EGRESS_EVENT_USAGE ? sizeof(struct event_usage) : 0);

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (h->n[i] >= texts[i].room)
			return false;
		all += h->n[i];
	}
	return all == h->size;
}

ssize_t event_size(const char *p, size_t n)
{
	struct event_head h;

	if (n < sizeof(h))
		return 0;
	memcpy(&h, p, sizeof(h));
	if (!adds_up(&h))
		return -EBADMSG;
	return h.size <= n ? h.size : 0;
}

ssize_t event_unpack(const char *p, size_t n, struct egress_event *ret)
{
	ssize_t size = event_size(p, n);
	struct event_head h;

	if (size <= 0)
		return size;
	memcpy(&h, p, sizeof(h));
	*ret = (struct egress_event){ .kind = h.kind,
				      .reason = h.reason,
				      .port = h.port,
				      .status = h.status,
				      .count = h.count,
				      .bytes_out = h.bytes_out,
				      .bytes_in = h.bytes_in };
	p += sizeof(h);
	if (h.kind == EGRESS_EVENT_USAGE) {
		struct event_usage u;

		memcpy(&u, p, sizeof(u));
		ret->tokens_in = u.in;
		ret->tokens_cached = u.cached;
		ret->tokens_out = u.out;
		ret->cost = u.cost;
		p += sizeof(u);
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		memcpy((char *)ret + texts[i].at, p, h.n[i]);
		p += h.n[i];
	}
	return size;
}

size_t event_packet(const char *p, size_t n)
{
	size_t at = 0;
	ssize_t one;

	while (at < n && (one = event_size(p + at, n - at)) > 0 &&
	       at + (size_t)one <= EGRESS_PACKET)
		at += (size_t)one;
	return at;
}

void event_target(const struct egress_event *ev, char *out, size_t n)
{
	bool six = ev->host[0] != '[' && strchr(ev->host, ':');
	char port[8] = "";

	if (ev->port && ev->host[0])
		(void)snprintf(port, sizeof(port), ":%u", ev->port);
	(void)snprintf(out, n, "%s%s%s%s", six ? "[" : "", ev->host, six ? "]" : "", port);
}

bool event_is_uninspected(const struct egress_event *ev)
{
	return ev->kind == EGRESS_EVENT_ALLOW &&
	       (str_eq(ev->method, "TLS") || str_eq(ev->method, "SSH") ||
		str_eq(ev->method, "CONNECT"));
}

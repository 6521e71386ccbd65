/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/rate.c - a bucket a host and one for all; an open-addressed table of names that
 * never grows beyond what the run may ask for. */
#include "egress/rules/rate.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/settings/groups.h"

#define MINUTE_MS 60000
#define NAMES_MAX 100000

/* One request costs 60,000 units and each millisecond brings as many as requests a minute are
 * allowed: whole numbers, so nothing is lost between two looks. */
#define COST MINUTE_MS

struct bucket {
	int64_t units; /* below zero: so much of what is to come was given away */
	uint64_t seen_ms;
	bool started;
};

struct name {
	char *text; /* NULL: free */
	struct bucket bucket;
};

struct rate {
	struct rate_spec limits;
	struct name *names; /* a power of two of them, at most half in use */
	size_t slots, used;
	struct bucket all;
	uint64_t connections, sent, received;
};

int rate_new(const struct rate_spec *limits, struct rate **ret, struct err *e)
{
	CLEANUP(rate) struct rate *r = calloc(1, sizeof(*r));
	uint64_t names = limits->names && limits->names < NAMES_MAX ? limits->names : NAMES_MAX;

	if (!r)
		return err_nomem(e);
	r->limits = *limits;
	r->limits.names = names;
	for (r->slots = 16; r->slots < names * 2;)
		r->slots *= 2;
	r->names = calloc(r->slots, sizeof(*r->names));
	if (!r->names)
		return err_nomem(e);
	*ret = TAKE_PTR(r);
	return 0;
}

struct rate *rate_free(struct rate *r)
{
	if (r)
		for (size_t i = 0; r->names && i < r->slots; i++)
			free(r->names[i].text);
	if (r)
		free(r->names);
	free(r);
	return NULL;
}

/* The guest can make names collide, and gains a longer walk over at most `names` slots. */
static struct name *rate_find(struct rate *r, const struct host *h)
{
	size_t at = str_hash(h->name) & (r->slots - 1);

	while (r->names[at].text && strcmp(r->names[at].text, h->name) != 0)
		at = (at + 1) & (r->slots - 1);
	return &r->names[at];
}

bool rate_name(struct rate *r, const struct host *h, struct egress_verdict *v)
{
	struct name *n = rate_find(r, h);

	if (n->text)
		return true;
	if (r->used >= r->limits.names)
		return verdict_deny(v, EGRESS_LIMIT, "--set egress.rate.names=N raises it",
				    "this run has asked for %llu different hosts already",
				    (unsigned long long)r->limits.names);
	n->text = strdup(h->name);
	if (!n->text)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
	r->used++;
	return true;
}

bool rate_connect(struct rate *r, struct egress_verdict *v)
{
	if (r->limits.connections && r->connections >= r->limits.connections) {
		v->retry_after = 1;
		return verdict_deny(v, EGRESS_LIMIT, "--set egress.rate.connections=N raises it",
				    "%llu connections are open already",
				    (unsigned long long)r->connections);
	}
	r->connections++;
	return true;
}

void rate_disconnect(struct rate *r)
{
	if (r->connections)
		r->connections--;
}

/* Fills up for the time that passed; a clock that stands still or jumps back fills nothing. */
static void refill(struct bucket *b, uint64_t a_minute, uint64_t now_ms)
{
	uint64_t passed = now_ms > b->seen_ms ? now_ms - b->seen_ms : 0;
	int64_t full = (int64_t)(a_minute * COST);

	if (!b->started || passed >= 2 * MINUTE_MS)
		b->units = full;
	else
		b->units += (int64_t)(a_minute * passed);
	if (b->units > full)
		b->units = full;
	b->started = true;
	b->seen_ms += passed;
}

/* How long until there is a token, in milliseconds; those before may have taken what is to come. */
static uint64_t rate_wait_for(const struct bucket *b, uint64_t a_minute)
{
	return b->units >= COST ? 0
				: (uint64_t)(COST - b->units + (int64_t)a_minute - 1) / a_minute;
}

static bool rate_refuse(struct egress_verdict *v, uint64_t wait, uint64_t limit, const char *hint,
			const char *to)
{
	v->retry_after = (uint32_t)((wait + 999) / 1000);
	return verdict_deny(v, EGRESS_LIMIT, hint, "more than %llu requests a minute%s%s",
			    (unsigned long long)limit, *to ? " to " : "", to);
}

bool rate_request(struct rate *r, const struct host *h, uint64_t now_ms, struct egress_verdict *v)
{
	bool ours = group_covering(h->name) != NULL;
	uint64_t domain = ours && r->limits.spare_domain ? 0 : r->limits.domain,
		 total = ours && r->limits.spare_total ? 0 : r->limits.total, wait = 0, again = 0;
	struct name *n;

	if (!rate_name(r, h, v))
		return false;
	n = rate_find(r, h);
	if (domain) {
		refill(&n->bucket, domain, now_ms);
		wait = rate_wait_for(&n->bucket, domain);
	}
	if (total) {
		refill(&r->all, total, now_ms);
		again = rate_wait_for(&r->all, total);
	}
	if (wait > RATE_WAIT_MS)
		return rate_refuse(v, wait, domain, "--set egress.rate.domain=N raises it",
				   h->name);
	if (again > RATE_WAIT_MS)
		return rate_refuse(v, again, total, "--set egress.rate.total=N raises it", "");
	n->bucket.units -= domain ? COST : 0;
	r->all.units -= total ? COST : 0;
	v->wait_ms = (uint32_t)(wait > again ? wait : again);
	return true;
}

static bool spend(uint64_t *used, uint64_t limit, uint64_t bytes, const char *what,
		  const char *field, struct egress_verdict *v)
{
	char hint[64];

	if (limit && (bytes > limit || *used > limit - bytes)) {
		(void)snprintf(hint, sizeof(hint), "--set egress.rate.%s=SIZE raises it", field);
		return verdict_deny(v, EGRESS_LIMIT, hint, "this run has %s %llu bytes, its limit",
				    what, (unsigned long long)limit);
	}
	*used = *used + bytes < *used ? UINT64_MAX : *used + bytes;
	return true;
}

bool rate_sent(struct rate *r, uint64_t bytes, struct egress_verdict *v)
{
	return spend(&r->sent, r->limits.bytes_out, bytes, "sent", "bytes_out", v);
}

bool rate_received(struct rate *r, uint64_t bytes, struct egress_verdict *v)
{
	return spend(&r->received, r->limits.bytes_in, bytes, "received", "bytes_in", v);
}

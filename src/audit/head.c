/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/hex.h"
#include "base/cleanup.h"
#include "base/str.h"

#define WORD "brig-head 1 "

/* The text in front of the signature; its length. */
static size_t unsigned_line(const struct head *h, const char *id, char out[HEAD_SLOT])
{
	char mac[SHA256_HEX];

	sha256_hex(h->mac, mac);
	return (size_t)snprintf(out, HEAD_SLOT,
				WORD "%s %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %s ", id,
				h->seq, h->segment, h->offset, h->time_us, mac);
}

static size_t signed_line(const struct head *h, const struct audit_key *k, char out[HEAD_SLOT])
{
	unsigned char sum[SHA256_SIZE];
	size_t n = unsigned_line(h, k->id, out);

	hmac_sha256(&k->mac, out, n, sum);
	hex_encode(sum, sizeof(sum), out + n);
	return n + 2 * sizeof(sum);
}

void head_format(const struct head *h, const struct audit_key *k, char slot[HEAD_SLOT])
{
	size_t n = signed_line(h, k, slot);

	memset(slot + n, ' ', HEAD_SLOT - n);
	slot[HEAD_SLOT - 1] = '\n';
}

static const char *number(const char *p, const char *end, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	const char *from = p;

	for (; p && p < end && *p >= '0' && *p <= '9'; p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (v > (max - digit) / 10)
			return NULL;
		v = v * 10 + digit;
	}
	if (!p || p == from || p >= end || *p != ' ')
		return NULL;
	*ret = v;
	return p + 1;
}

/* Takes the line apart; its signature stays to be checked. */
static int take_apart(const char *p, size_t n, char id[KEY_ID_SIZE], struct head *ret)
{
	const char *end = p + n;
	uint64_t segment = 0;

	if (n < sizeof(WORD) - 1 + KEY_ID_SIZE || memcmp(p, WORD, sizeof(WORD) - 1) != 0)
		return -EINVAL;
	p += sizeof(WORD) - 1;
	memcpy(id, p, KEY_ID_SIZE - 1);
	id[KEY_ID_SIZE - 1] = '\0';
	p += KEY_ID_SIZE;
	p = number(p, end, UINT64_MAX, &ret->seq);
	p = number(p, end, UINT32_MAX, &segment);
	p = number(p, end, UINT64_MAX, &ret->offset);
	p = number(p, end, UINT64_MAX, &ret->time_us);
	if (!p || end - p != 2 * SHA256_SIZE + 1 + 2 * SHA256_SIZE ||
	    hex_decode(p, ret->mac, SHA256_SIZE) < 0)
		return -EINVAL;
	ret->segment = (uint32_t)segment;
	return 0;
}

int head_parse_line(const char *p, size_t n, const struct audit_key *k, struct head *ret)
{
	char id[KEY_ID_SIZE], again[HEAD_SLOT];
	struct head h = { 0 };

	if (n >= HEAD_SLOT || take_apart(p, n, id, &h) < 0)
		return -EINVAL;
	if (k && !str_eq(id, k->id))
		return -EACCES;
	if (k && (signed_line(&h, k, again) != n || memcmp(p, again, n) != 0))
		return -EINVAL;
	*ret = h;
	return 0;
}

int head_parse(const char slot[HEAD_SLOT], const struct audit_key *k, struct head *ret)
{
	size_t n = HEAD_SLOT - 1;

	if (slot[n] != '\n')
		return -EINVAL;
	while (n && slot[n - 1] == ' ')
		n--;
	return head_parse_line(slot, n, k, ret);
}

static bool all_zero(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static ssize_t read_slots(int fd, char out[HEAD_FILE])
{
	ssize_t n;

	memset(out, 0, HEAD_FILE);
	n = pread(fd, out, HEAD_FILE, 0);
	return n < 0 ? -errno : n;
}

/* Without the lock a slot may be seen while it is written; looking twice tells. */
static ssize_t read_stable(int fd, char out[HEAD_FILE])
{
	char again[HEAD_FILE];
	ssize_t n = read_slots(fd, out);

	for (int tries = 0; n >= 0 && tries < 100; tries++) {
		n = read_slots(fd, again);
		if (n < 0 || memcmp(out, again, sizeof(again)) == 0)
			break;
		memcpy(out, again, sizeof(again));
	}
	return n;
}

int head_read(int fd, const struct audit_key *k, bool locked, struct head_state *ret)
{
	char text[HEAD_FILE];
	ssize_t n = locked ? read_slots(fd, text) : read_stable(fd, text);
	struct head h;

	*ret = (struct head_state){ .slot = -1 };
	if (n < 0)
		return (int)n;
	for (int i = 0; i < 2; i++) {
		const char *slot = text + (size_t)i * HEAD_SLOT;
		unsigned bit = 1U << i;
		int r = head_parse(slot, k, &h);

		if (all_zero(slot, HEAD_SLOT))
			ret->empty |= bit;
		else if (r == -EACCES)
			ret->foreign |= bit;
		else if (r < 0)
			ret->damaged |= bit;
		else if (ret->slot < 0 || h.seq > ret->head.seq ||
			 (h.seq == ret->head.seq && h.segment > ret->head.segment)) {
			ret->head = h;
			ret->slot = i;
		}
	}
	/* No writer leaves two that are the same: somebody put the older one in place of both. */
	if (memcmp(text, text + HEAD_SLOT, HEAD_SLOT) == 0 && ret->slot >= 0)
		ret->damaged |= 2;
	if (ret->slot >= 0)
		return 0;
	return ret->empty == 3 ? -ENOENT : -EINVAL;
}

int head_write(int fd, const struct audit_key *k, struct head_state *s, const struct head *h)
{
	int slot = s->slot < 0 ? 0 : 1 - s->slot;
	char text[HEAD_SLOT];
	ssize_t n;

	head_format(h, k, text);
	n = pwrite(fd, text, sizeof(text), (off_t)slot * HEAD_SLOT);
	if (n != (ssize_t)sizeof(text))
		return n < 0 ? -errno : -EIO;
	s->head = *h;
	s->slot = slot;
	return 0;
}

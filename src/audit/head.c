/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/head.h"

#include <assert.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define WORD "brig-head 1 "

/* By hand: every append writes one and reads two, and printf costs more than the signature. */
static char *head_put(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

static char *head_put_number(char *p, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	p = head_put(p, digits + at, sizeof(digits) - at);
	*p = ' ';
	return p + 1;
}

/* The text in front of the signature; its length. */
static size_t unsigned_line(const struct head *h, const char *id, char out[HEAD_SLOT])
{
	char *p = head_put(out, WORD, sizeof(WORD) - 1);

	p = head_put(p, id, KEY_ID_SIZE - 1);
	*p++ = ' ';
	p = head_put_number(p, h->seq);
	p = head_put_number(p, h->segment);
	p = head_put_number(p, h->offset);
	p = head_put_number(p, h->time_us);
	hex_encode(h->mac, sizeof(h->mac), p);
	p += 2 * sizeof(h->mac);
	*p++ = ' ';
	return (size_t)(p - out);
}

/* Four numbers of twenty digits, two sums, and what is between them. */
static_assert(sizeof(WORD) - 1 + KEY_ID_SIZE + 4 * 21 + 2 * (2 * SHA256_SIZE) + 1 < HEAD_SLOT,
	      "the longest head fits a slot");

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

static const char *head_number(const char *p, const char *end, uint64_t max, uint64_t *ret)
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
	p = head_number(p, end, UINT64_MAX, &ret->seq);
	p = head_number(p, end, UINT32_MAX, &segment);
	p = head_number(p, end, UINT64_MAX, &ret->offset);
	p = head_number(p, end, UINT64_MAX, &ret->time_us);
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

/* What both slots say. */
static int head_judge(const char text[HEAD_FILE], const struct audit_key *k, struct head_state *ret)
{
	struct head h;

	*ret = (struct head_state){ .slot = -1 };
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

int head_read(int fd, const struct audit_key *k, struct head_state *ret)
{
	char text[HEAD_FILE];
	ssize_t n = read_stable(fd, text);

	return n < 0 ? (int)n : head_judge(text, k, ret);
}

int head_follow(int fd, const struct audit_key *k, struct head_state *s)
{
	char text[HEAD_FILE];
	ssize_t n = read_slots(fd, text);
	int r;

	if (n < 0)
		return (int)n;
	if (s->known && memcmp(text, s->text, sizeof(text)) == 0) {
		s->head = s->on_file; /* whoever had the lock before may have gone on from it */
		return 0;
	}
	r = head_judge(text, k, s);
	memcpy(s->text, text, sizeof(text));
	s->on_file = s->head;
	s->known = r == 0 && !s->damaged && !s->foreign;
	return r;
}

int head_write(int fd, const struct audit_key *k, struct head_state *s, const struct head *h)
{
	int slot = s->slot < 0 ? 0 : 1 - s->slot;
	size_t at = (size_t)slot * HEAD_SLOT;
	char text[HEAD_SLOT];
	ssize_t n;

	head_format(h, k, text);
	n = pwrite(fd, text, sizeof(text), (off_t)at);
	if (n != (ssize_t)sizeof(text)) {
		s->known = false;
		return n < 0 ? -errno : -EIO;
	}
	memcpy(s->text + at, text, sizeof(text));
	s->head = s->on_file = *h;
	s->slot = slot;
	return 0;
}

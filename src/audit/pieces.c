/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/pieces.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "audit/dir.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define PIECE ((uint64_t)4 << 20)
#define THREADS_MAX 64

static void piece_fault(struct piece *p, enum fault_kind kind, uint64_t seq, uint64_t expected)
{
	if (p->faults < PIECE_FAULTS)
		p->fault[p->faults] = (struct piece_fault){ kind, p->lines, seq, expected };
	p->faults++;
}

static void meet_anchor(struct piece_check *c, const struct line *l)
{
	size_t low = 0, high = c->anchored_n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (c->anchored[mid].head.seq < l->at.seq)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < c->anchored_n && c->anchored[low].head.seq == l->at.seq; low++)
		c->met[low] = hmac_equal(c->anchored[low].head.mac, l->mac) ? 1 : 2;
}

static void check_line(struct piece_check *c, struct piece *p, const char *text, size_t n)
{
	struct line l;

	if (line_parse(text, n, &l) < 0) {
		piece_fault(p, FAULT_FORM, 0, 0);
		p->last_seq = 0;
		return;
	}
	if (!line_genuine(text, &l, c->key))
		piece_fault(p, FAULT_MAC, l.at.seq, 0);
	else if (p->first_seq && p->last_seq &&
		 (l.at.seq != p->last_seq + 1 ||
		  memcmp(l.at.prev, p->last_mac, sizeof(l.at.prev)) != 0 ||
		  l.at.time_us < p->last_time))
		piece_fault(p, FAULT_CHAIN, l.at.seq, p->last_seq + 1);
	else if (l.type_n == 8 && memcmp(l.type, "log.lost", 8) == 0)
		piece_fault(p, FAULT_LOST, l.at.seq, 0);
	if (c->anchored_n)
		meet_anchor(c, &l);
	if (!p->first_seq) {
		p->first_seq = l.at.seq;
		memcpy(p->first_prev, l.at.prev, sizeof(l.at.prev));
	}
	p->last_seq = l.at.seq;
	p->last_time = l.at.time_us;
	memcpy(p->last_mac, l.mac, sizeof(l.mac));
}

/* Where the first line that begins at or after `from` begins. */
static const char *first_line(const struct piece *p, const char *text, size_t n)
{
	const char *end;

	if (!p->from)
		return text;
	end = memchr(text, '\n', n); /* the text begins one byte before the piece */
	return end ? end + 1 : text + n;
}

static void check_piece(struct piece_check *c, struct piece *p, char *text, size_t room)
{
	CLEANUP(fd) int fd = audit_segment_open(c->dir, p->segment, O_RDONLY);
	uint64_t from = p->from ? p->from - 1 : 0;
	size_t n = 0;
	const char *at, *end, *stop;

	if (fd < 0) {
		p->error = fd;
		return;
	}
	for (ssize_t got = 1; got > 0 && n < room; n += (size_t)got) {
		got = pread(fd, text + n, room - n, (off_t)(from + n));
		if (got < 0) {
			p->error = -errno;
			return;
		}
	}
	if (p->last && from + n > p->to)
		n = (size_t)(p->to - from);
	stop = text + (p->to - from < n ? p->to - from : n);
	for (at = first_line(p, text, n); at < stop; at = end + 1, p->lines++) {
		end = memchr(at, '\n', (size_t)(text + n - at));
		if (!end) {
			piece_fault(p, FAULT_UNFINISHED, 0, 0);
			p->last_seq = 0;
			break;
		}
		check_line(c, p, at, (size_t)(end - at));
	}
}

/* What the largest piece needs: most logs are small. */
static size_t room_needed(const struct piece_check *c)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < c->count; i++)
		if (c->pieces[i].to - c->pieces[i].from > largest)
			largest = c->pieces[i].to - c->pieces[i].from;
	return (size_t)largest + 1 + RECORD_LINE_MAX;
}

static void *work(void *arg)
{
	struct piece_check *c = arg;
	const size_t room = room_needed(c);
	CLEANUP(mem) char *text = malloc(room);

	for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;) {
		if (text)
			check_piece(c, &c->pieces[i], text, room);
		else
			c->pieces[i].error = -ENOMEM;
	}
	return NULL;
}

void check_run(struct piece_check *c, unsigned wanted)
{
	pthread_t threads[THREADS_MAX];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = wanted ? wanted : cpus > 0 ? (size_t)cpus : 1, started = 0;

	if (n > THREADS_MAX)
		n = THREADS_MAX;
	if (n > c->count)
		n = c->count;
	while (started + 1 < n && pthread_create(&threads[started], NULL, work, c) == 0)
		started++;
	(void)work(c);
	while (started)
		(void)pthread_join(threads[--started], NULL);
}

int check_add(struct piece_check *c, uint32_t segment, uint64_t size)
{
	for (uint64_t from = 0; from < size; from += PIECE) {
		if (c->count == c->room) {
			size_t room = c->room ? 2 * c->room : 64;
			struct piece *more = realloc(c->pieces, room * sizeof(*more));

			if (!more)
				return -ENOMEM;
			c->pieces = more;
			c->room = room;
		}
		c->pieces[c->count++] = (struct piece){
			.segment = segment,
			.from = from,
			.to = size - from > PIECE ? from + PIECE : size,
			.last = size - from <= PIECE,
		};
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/base64.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define PATIENCE_US ((uint64_t)FOLLOW_PATIENCE_S * 1000 * 1000)
#define PAUSE_MS 20
#define PAUSE_MAX_MS 500

void follow_begin(struct follow *f, struct daemon_client *d, size_t event_max)
{
	*f = (struct follow){ .d = d, .sse = SSE_INIT(event_max), .since = clock_us() };
}

void follow_done(struct follow *f)
{
	sse_done(&f->sse);
	if (f->own)
		(void)daemon_client_free(f->d);
	f->d = NULL;
}

int follow_event(struct follow *f, uint64_t deadline, struct err *e)
{
	int r = daemon_client_event(f->d, &f->sse, deadline, e);

	if (r <= 0)
		return r;
	f->ended |= str_eq(f->sse.type, "end") || str_eq(f->sse.type, "error");
	/* It begins with one that says nothing new. */
	if (!str_eq(f->sse.type, "start"))
		f->tries = 0;
	return r;
}

bool follow_broken(const struct follow *f, int r)
{
	return !f->ended && r <= 0 && r != -EAGAIN && r != -EMSGSIZE && r != -EBADMSG;
}

/* One that was killed has left its socket, to which nobody listens; one that was stopped has not:
 * whoever stopped it wants none. */
static int connect_once(struct daemon_client **ret, struct err *e)
{
	int r = daemon_client_open(false, ret, e);

	if (r != -ECONNREFUSED)
		return r;
	err_clear(e);
	return daemon_client_open(true, ret, e);
}

/* Tries until it is there: 1 and it is `connected`, 0 and it answers; -errno. */
static int follow_await(struct daemon_client **ret, const struct daemon_question *q, struct err *e)
{
	const uint64_t until = clock_us() + PATIENCE_US;
	int pause = PAUSE_MS;

	for (;;) {
		CLEANUP(daemon_client) struct daemon_client *d = NULL;
		int r = connect_once(&d, e);

		if (r == 0 && q)
			r = daemon_client_stream(d, q, e);
		if (r == 0) {
			*ret = TAKE_PTR(d);
			return 0;
		}
		/* A daemon that refuses has been asked. */
		if (clock_us() >= until || (d && e->kind == ERR_USAGE) || e->kind == ERR_POLICY)
			return r;
		err_clear(e);
		wait_moment((unsigned)pause);
		pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
	}
}

int follow_connect(struct daemon_client **ret, struct err *e)
{
	return follow_await(ret, NULL, e);
}

int follow_again(struct follow *f, const char *target, struct err *e)
{
	const struct daemon_question q = { .method = "GET", .target = target };
	const size_t event_max = f->sse.data.max;
	struct daemon_client *d = NULL;
	struct err why = { 0 };

	if (clock_us() - f->since > PATIENCE_US)
		f->tries = 0;
	if (f->tries++ == FOLLOW_TRIES)
		return -e->code;
	if (follow_await(&d, &q, &why) < 0) {
		/* Of those who are there, the reason; of those who are not, what was cut off. */
		if (why.kind == ERR_USAGE || why.kind == ERR_POLICY)
			*e = why;
		return -e->code;
	}
	if (f->own)
		(void)daemon_client_free(f->d);
	f->d = d;
	f->own = true;
	f->since = clock_us();
	sse_done(&f->sse);
	f->sse = (struct sse)SSE_INIT(event_max);
	err_clear(e);
	return 0;
}

ssize_t follow_output(struct follow *f, const struct jread *v, char **data, const char **from,
		      struct err *e)
{
	const char *text = jread_str(v, "data");
	const int64_t said = jread_int(v, "seq", -1);
	size_t n = text ? strlen(text) : 0, heard;
	uint64_t seq = (uint64_t)said;
	ssize_t len;

	*data = malloc(n + 1);
	len = *data && text && said >= 0 ? base64_read(text, n, *data, n) : -EBADMSG;
	if (len < 0)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the daemon's stream is malformed");
	heard = f->next <= seq                  ? 0
		: f->next - seq < (uint64_t)len ? (size_t)(f->next - seq)
						: (size_t)len;
	*from = *data + heard;
	if (seq + (uint64_t)len > f->next)
		f->next = seq + (uint64_t)len;
	return len - (ssize_t)heard;
}

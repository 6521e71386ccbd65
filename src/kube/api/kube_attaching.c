/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_attaching.c - a command's streams over a WebSocket, and brig's over sockets.
 *
 *   asking -> open -> (the status has come, or `in` is closed without v5) closing -> over
 *
 * Channels: 0 stdin, 1 stdout, 2 stderr, 3 status, and with v5 255, whose one byte names a
 * channel that is closed. Bytes go on in the order in which they came, and nothing more is read
 * from the server until they have gone: a reader that does not read holds up the command, not us.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "kube/api/kube_speaker.h"
#include "wire/websocket.h"
#include "kube/kube.h"

#define PIECE 16384
#define OUT_FULL 65536
#define OUT_MAX ((size_t)OUT_FULL * 4)
#define READS 16 /* of a turn */
#define PING_US 30000000ULL
#define CLOSING_US 2000000ULL

enum { CHANNEL_IN, CHANNEL_OUT, CHANNEL_ERR, CHANNEL_STATUS, CHANNEL_CLOSE = 255 };

struct attaching {
	struct speaker *speaker;
	struct transport t; /* the WebSocket's */
	struct ws_reader reader;
	int version;
	char from[PIECE]; /* read and not yet understood: at .. len */
	size_t at, len;
	struct ws_piece piece; /* understood, and not yet gone */
	int channel;           /* of the message; -1: its first byte is to come */
	struct buf to;         /* to the server; the first `gone` bytes are */
	size_t gone;
	struct buf status;
	bool told; /* the status, to brig */
	bool more; /* to read at once */
	bool closing, over;
	uint64_t until; /* of closing */
	uint64_t ping;  /* when the next is due */
};

/* ---- to the server ---- */

static void kube_attaching_put(struct attaching *a, enum ws_code code, int channel, const void *p,
			       size_t n)
{
	unsigned char mask[4];
	struct err ignored;

	if (random_fill(mask, sizeof(mask), &ignored) < 0) {
		a->over = true;
		return;
	}
	ws_put(&a->to, code, channel, p, n, mask);
	a->over |= a->to.failed;
	a->ping = clock_us() + PING_US;
}

static void start_closing(struct attaching *a)
{
	static const unsigned char normal[] = { WS_NORMAL >> 8, WS_NORMAL & 255 };

	if (a->closing)
		return;
	kube_attaching_put(a, WS_CLOSE, -1, normal, sizeof(normal));
	a->closing = true;
	a->until = clock_us() + CLOSING_US;
}

static void kube_attaching_flush(struct attaching *a)
{
	while (a->gone < a->to.len && !a->over) {
		short wait;
		ssize_t n = a->t.write(a->t.arg, a->to.data + a->gone, a->to.len - a->gone, &wait);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0)
			a->over = true;
		else
			a->gone += (size_t)n;
	}
	a->to.len = a->gone = 0;
}

/* ---- from brig ---- */

static void end_input(struct attaching *a)
{
	static const unsigned char in = CHANNEL_IN;

	a->speaker->in = fd_close(a->speaker->in);
	if (a->version >= 5)
		kube_attaching_put(a, WS_BINARY, CHANNEL_CLOSE, &in, 1);
	else
		start_closing(a);
}

static void take_input(struct attaching *a)
{
	char piece[PIECE];
	ssize_t n = read(a->speaker->in, piece, sizeof(piece));

	if (n > 0)
		kube_attaching_put(a, WS_BINARY, CHANNEL_IN, piece, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		end_input(a);
}

/* ---- to brig ---- */

/* The object is whole. One that is too long is none, as one that never came. */
static void tell_status(struct attaching *a)
{
	if (!a->told && !a->status.failed)
		(void)!send(a->speaker->channel, a->status.data, a->status.len, MSG_NOSIGNAL);
	a->told = true;
}

static int *stream_of(struct attaching *a, int channel)
{
	return channel == CHANNEL_OUT   ? &a->speaker->out
	       : channel == CHANNEL_ERR ? &a->speaker->err
					: NULL;
}

/* Bytes for a stream without a reader are dropped; the command goes on. */
static void kube_attaching_give(struct attaching *a, int *fd)
{
	while (a->piece.n) {
		ssize_t n =
			*fd < 0 ? (ssize_t)a->piece.n
				: send(*fd, a->piece.p, a->piece.n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			*fd = fd_close(*fd);
			continue;
		}
		a->piece.p += n;
		a->piece.n -= (size_t)n;
	}
}

static void close_channel(struct attaching *a)
{
	int *fd = stream_of(a, (unsigned char)a->piece.p[0]);

	if (fd)
		*fd = fd_close(*fd);
	a->piece.n = 0;
}

/* Goes as far as it can: what is left in `piece` waits for its reader. */
static void give_data(struct attaching *a)
{
	if (a->piece.n && a->channel < 0) {
		a->channel = (unsigned char)*a->piece.p++;
		a->piece.n--;
	}
	if (a->piece.n) {
		int *fd = stream_of(a, a->channel);

		if (fd)
			kube_attaching_give(a, fd);
		else if (a->channel == CHANNEL_CLOSE)
			close_channel(a);
		else if (a->channel == CHANNEL_STATUS)
			buf_add(&a->status, a->piece.p, a->piece.n);
		a->piece.n = fd ? a->piece.n : 0;
	}
	if (!a->piece.n && a->piece.ends) {
		if (a->channel == CHANNEL_STATUS && (a->status.len || a->status.failed))
			tell_status(a);
		a->channel = -1;
		a->piece.ends = false;
	}
}

static void give_piece(struct attaching *a)
{
	switch (a->piece.kind) {
	case WS_DATA:
		give_data(a);
		return;
	case WS_ASKED:
		if (a->to.len < OUT_FULL)
			kube_attaching_put(a, WS_PONG, -1, a->piece.p, a->piece.n);
		break;
	case WS_ENDED:
		start_closing(a);
		kube_attaching_flush(a);
		a->over = true;
		break;
	case WS_NOTHING:
	case WS_ANSWERED:
		break;
	}
	a->piece = (struct ws_piece){ .kind = WS_NOTHING };
}

/* All that has come, as far as its readers take it. */
static void understand(struct attaching *a)
{
	give_piece(a);
	while (!a->over && !a->piece.n && a->at < a->len) {
		ssize_t n = ws_read(&a->reader, a->from + a->at, a->len - a->at, &a->piece);

		if (n < 0) {
			a->over = true;
			return;
		}
		a->at += (size_t)n;
		give_piece(a);
	}
}

/* As much as others need not wait for; `more`: there may be some that poll does not tell of. */
static void take_news(struct attaching *a)
{
	a->more = false;
	for (int i = 0; i < READS && !a->over && !a->piece.n; i++) {
		short wait;
		ssize_t n = a->t.read(a->t.arg, a->from, sizeof(a->from), &wait);

		a->more = i + 1 == READS;
		if (n == -EAGAIN || n == -EINTR) {
			a->more = n == -EINTR;
			return;
		}
		if (n <= 0) {
			a->over = true;
			return;
		}
		a->at = 0;
		a->len = (size_t)n;
		understand(a);
	}
}

/* ---- the pump ---- */

enum { AT_SERVER, AT_BRIG, AT_IN, AT_READER, PLACES };

static void kube_attaching_prepare(struct attaching *a, struct pollfd p[PLACES])
{
	const int *reader = a->piece.n ? stream_of(a, a->channel) : NULL;
	short events = (short)((a->piece.n ? 0 : POLLIN) | (a->to.len ? POLLOUT : 0));
	bool input = a->speaker->in >= 0 && !a->closing && a->to.len < OUT_FULL;

	/* Without anything to wait for it would tell of its end over and over. */
	p[AT_SERVER] = (struct pollfd){ .fd = events ? a->t.fd : -1, .events = events };
	p[AT_BRIG] = (struct pollfd){ .fd = a->speaker->channel, .events = POLLIN };
	p[AT_IN] = (struct pollfd){ .fd = input ? a->speaker->in : -1, .events = POLLIN };
	p[AT_READER] = (struct pollfd){ .fd = reader ? *reader : -1, .events = POLLOUT };
}

/* How long nothing need happen. */
static uint64_t patience(const struct attaching *a)
{
	return a->more && !a->piece.n ? clock_us() : a->closing ? a->until : a->ping;
}

static void kube_attaching_turn(struct attaching *a)
{
	struct pollfd p[PLACES];

	kube_attaching_prepare(a, p);
	if (wait_any(p, PLACES, patience(a)) < 0) {
		a->over = true;
		return;
	}
	if (p[AT_BRIG].revents) { /* brig has closed its end */
		a->over = true;
		return;
	}
	if (p[AT_IN].revents)
		take_input(a);
	understand(a);
	take_news(a);
	if (!a->over && !a->closing && clock_us() >= a->ping && a->to.len < OUT_FULL)
		kube_attaching_put(a, WS_PING, -1, NULL, 0);
	kube_attaching_flush(a);
	if (a->told)
		start_closing(a);
	a->over |= a->closing && clock_us() >= a->until;
}

static void pump(struct attaching *a)
{
	a->channel = -1;
	a->ping = clock_us() + PING_US;
	a->to = (struct buf)BUF_INIT(OUT_MAX);
	a->status = (struct buf)BUF_INIT(KUBE_STATUS_MAX);
	understand(a);
	while (!a->over)
		kube_attaching_turn(a);
	buf_done(&a->to);
	buf_done(&a->status);
	a->t.close(a->t.arg);
}

/* ---- opening ---- */

static bool is_field(const struct http1_answer *h, const char *name, const char *value)
{
	struct http1_text t = http1_field(h, name);

	return t.p && t.n == strlen(value) && memcmp(t.p, value, t.n) == 0;
}

/* Who does not know our protocols leaves the field out, or does not change to WebSocket. */
static int check_answer(const struct http1_answer *h, const char *key, int *version, struct err *e)
{
	char accept[WS_ACCEPT_SIZE];

	ws_accept(key, accept);
	*version = is_field(h, "Sec-WebSocket-Protocol", "v5.channel.k8s.io")   ? 5
		   : is_field(h, "Sec-WebSocket-Protocol", "v4.channel.k8s.io") ? 4
										: 0;
	if (h->status != 101 || !is_field(h, "Sec-WebSocket-Accept", accept) ||
	    !http1_text_is(http1_field(h, "Upgrade"), "websocket"))
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the API server does not change to WebSocket");
	if (!*version)
		return err_set(e, ERR_UNAVAILABLE, EPROTO,
			       "the API server knows neither v5 nor v4 of channel.k8s.io");
	return 0;
}

/* The head goes with the connection. */
static int kube_attaching_refused(struct speaker *s, int status, uint64_t deadline, struct err *e)
{
	struct kube_answer a = { .status = status, .body = BUF_INIT(KUBE_STATUS_MAX) };
	int code = status == 404 ? ENOENT : status == 401 || status == 403 ? EACCES : EREMOTEIO;
	char text[256];

	(void)client_read_all(s->client, &a.body, deadline, e);
	kube_answer_text(&a, text, sizeof(text));
	kube_answer_done(&a);
	speaker_hang_up(s);
	return err_set(e, ERR_UNAVAILABLE, code, "%s", text);
}

/* 1: try again, after the pause that *r asks for. */
static int open_once(struct attaching *a, const struct kube_letter *l, uint64_t deadline,
		     struct speaker_result *r, struct err *e)
{
	CLEANUP(buf) struct buf already = BUF_INIT(PIECE);
	CLEANUP(buf) struct buf fields = BUF_INIT(1024);
	struct speaker_call c = { .method = "GET", .target = l->path, .upgrade = "websocket" };
	struct speaker *s = a->speaker;
	const struct http1_answer *h;
	unsigned char random[16];
	char key[WS_KEY_SIZE];

	*r = (struct speaker_result){ 0 };
	if (random_fill(random, sizeof(random), e) < 0)
		return -e->code;
	ws_key(random, key);
	buf_printf(&fields,
		   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"
		   "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n",
		   key);
	c.fields = buf_str(&fields);
	if (speaker_try(s, &c, deadline, &h, e) < 0)
		return !s->sent && (e->code == ECONNREFUSED || e->code == ETIMEDOUT ||
				    e->code == EHOSTUNREACH || e->code == ECONNRESET)
			       ? 1
			       : -e->code;
	*r = (struct speaker_result){ h->status, speaker_retry_after(h) };
	if (h->framing != HTTP1_UPGRADED) {
		(void)kube_attaching_refused(s, r->status, deadline, e);
		return r->status == 429 ? 1 : -e->code;
	}
	if (check_answer(h, key, &a->version, e) < 0)
		return -e->code;
	a->t = client_hijack(s->client, &already);
	speaker_hang_up(s);
	if (already.failed || already.len > sizeof(a->from)) {
		a->t.close(a->t.arg);
		return err_set(e, ERR_UNAVAILABLE, EMSGSIZE, "the API server says too much");
	}
	if (already.len)
		memcpy(a->from, already.data, already.len);
	a->len = already.len;
	return 0;
}

static int open_socket(struct attaching *a, const struct kube_letter *l, struct err *e)
{
	uint64_t deadline = clock_us() + l->ms * 1000;

	for (unsigned tries = 0;; tries++) {
		struct speaker_result result;
		int r = open_once(a, l, deadline, &result, e);
		uint64_t pause = speaker_pause(tries, &result);

		if (r <= 0)
			return r;
		if (clock_us() + pause >= deadline || !speaker_sleep(a->speaker->channel, pause))
			return -e->code;
	}
}

void speaker_attach(struct speaker *s, const struct kube_letter *l)
{
	struct attaching a = { .speaker = s };
	struct kube_packet p = { 0 };
	struct err e = { 0 };

	if (open_socket(&a, l, &e) < 0) {
		speaker_fail(s, &e);
		return;
	}
	p.status = a.version;
	if (kube_packet_send(s->channel, &p, NULL) < 0 ||
	    (s->in >= 0 && fcntl(s->in, F_SETFL, O_NONBLOCK) < 0))
		a.over = true;
	pump(&a);
}

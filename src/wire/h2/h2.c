/* SPDX-License-Identifier: Apache-2.0 */
/* wire/h2/h2.c - see h2.h.
 *
 * nghttp2 keeps the protocol's state and refuses what is malformed; what is checked here once more
 * is what a line of HTTP/1 could not hold. A stream lives until both its owner and nghttp2 have
 * left it. Windows open again only as the owner takes what came. */
#include "wire/h2/h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/cleanup.h"
#include "wire/h2/h2_internal.h"
#include "wire/http1_internal.h"

#define HEADS_MAX ((size_t)2 * H2_FIELDS_BYTES)
#define SECOND_US 1000000
#define SWALLOWED_MAX ((size_t)4 << 20)

struct h2 {
	nghttp2_session *session;
	enum h2_role role;
	const struct h2_events *events;
	void *arg;
	struct h2_stream *streams;
	size_t n_streams, ever;
	uint64_t now, calm_at;   /* microseconds */
	unsigned calm, answered; /* streams of a guest's, which it may reset for nothing */
	bool ended;              /* no new streams */
	bool told;               /* a server's peer, that this is about to end */
};

/* The first word of two (RFC 9113, 6.8): what the peer had sent before it heard it is still
 * answered. Its echo says that it has heard. */
static void h2_announce(struct h2 *h)
{
	h->told = true;
	(void)nghttp2_submit_shutdown_notice(h->session);
	(void)nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
}

/* A connection that has had enough streams says so while none is open: there are clients that take
 * every answer for lost that they wait for when they hear it. One that is never idle is told
 * later, and one that does not listen is not listened to. */
static void h2_count(struct h2 *h)
{
	bool late = h->ever >= H2_STREAMS_EVER + H2_STREAMS_MAX;

	if (h->role == H2_CLIENT)
		return;
	if (h->told ? h->ever >= H2_STREAMS_EVER + H2_STREAMS_LATE
		    : h->ever >= H2_STREAMS_EVER && (late || !h->n_streams))
		h2_drain(h);
}

/* ---- what costs nothing to send ---- */

static void spend(struct h2 *h)
{
	uint64_t more = (h->now - h->calm_at) * H2_CALM_A_SECOND / SECOND_US;

	if (more) {
		h->calm_at = h->now;
		h->calm = h->calm + more > H2_CALM ? H2_CALM : h->calm + (unsigned)more;
	}
	if (h->calm)
		h->calm--;
	else
		(void)nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static bool costs_nothing(const nghttp2_frame_hd *f)
{
	switch (f->type) {
	case NGHTTP2_DATA:
		return !(f->flags & NGHTTP2_FLAG_END_STREAM) &&
		       f->length <= (f->flags & NGHTTP2_FLAG_PADDED ? 256 : 0);
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
	case NGHTTP2_GOAWAY:
	case NGHTTP2_WINDOW_UPDATE:
		return false;
	default:
		return true;
	}
}

/* There are clients that reset each stream whose answer they have read: once for each that got
 * one, that is no flood. */
static bool is_answered(struct h2 *h, int id)
{
	const struct h2_stream *s = nghttp2_session_get_stream_user_data(h->session, id);

	if (h->role == H2_CLIENT || !h->answered || (s && !s->said))
		return false;
	h->answered--;
	return true;
}

static int on_frame_begins(nghttp2_session *session UNUSED, const nghttp2_frame_hd *f, void *arg)
{
	if (costs_nothing(f) && (f->type != NGHTTP2_RST_STREAM || !is_answered(arg, f->stream_id)))
		spend(arg);
	return 0;
}

static int on_frame_refused(nghttp2_session *session UNUSED, const nghttp2_frame *f UNUSED,
			    int code UNUSED, void *arg)
{
	spend(arg);
	return 0;
}

/* ---- streams ---- */

static void stream_free(struct h2_stream *s)
{
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	s->h2->n_streams--;
	buf_done(&s->heads.b);
	buf_done(&s->in.b);
	buf_done(&s->out.b);
	buf_done(&s->fields);
	buf_done(&s->cookies);
	buf_done(&s->path);
	buf_done(&s->trailers);
	buf_done(&s->out_trailers);
	free(s);
}

static struct h2_stream *stream_new(struct h2 *h)
{
	struct h2_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->h2 = h;
	s->heads.b = (struct buf)BUF_INIT(HEADS_MAX);
	s->fields = s->cookies = s->path = s->trailers = s->out_trailers =
		(struct buf)BUF_INIT(HEADS_MAX);
	s->in.b = (struct buf)BUF_INIT(2 * H2_HOST_WINDOW);
	s->out.b = (struct buf)BUF_INIT((size_t)16 * H2_OUT_FULL);
	s->fresh = true;
	s->next = h->streams;
	if (s->next)
		s->next->at = &s->next;
	s->at = &h->streams;
	h->streams = s;
	h->n_streams++;
	return s;
}

static struct h2_stream *stream_of(struct h2 *h, int id)
{
	return nghttp2_session_get_stream_user_data(h->session, id);
}

static void tell(struct h2_stream *s)
{
	if (s->owner)
		s->h2->events->stirs(s->h2->arg, s);
}

static size_t queued(const struct h2_queue *q)
{
	return q->b.len - q->at;
}

static void queue_add(struct h2_queue *q, const char *p, size_t n)
{
	if (q->at && (q->at == q->b.len || q->b.len + n > q->b.cap)) {
		q->b.len -= q->at;
		memmove(q->b.data, q->b.data + q->at, q->b.len);
		q->at = 0;
	}
	buf_add(&q->b, p, n);
}

static int stream_reset(struct h2 *h, int id, uint32_t code)
{
	return nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, code);
}

/* ---- heads that come ---- */

static int on_head_begins(nghttp2_session *session, const nghttp2_frame *f, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = stream_of(h, f->hd.stream_id);

	if (s) {
		h2_head_start(s);
		return 0;
	}
	if (f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	h->ever++;
	s = stream_new(h);
	if (!s)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	s->id = f->hd.stream_id;
	(void)nghttp2_session_set_stream_user_data(session, s->id, s);
	h2_count(h);
	return 0;
}

static int on_field(nghttp2_session *session UNUSED, const nghttp2_frame *f, const uint8_t *name,
		    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags UNUSED,
		    void *arg)
{
	struct h2_stream *s = stream_of(arg, f->hd.stream_id);
	struct http1_text n = { (const char *)name, name_len };
	struct http1_text v = { (const char *)value, value_len };

	if (!s)
		return 0;
	if (h2_head_field(s, n, v))
		return 0;
	spend(s->h2);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_bad_field(nghttp2_session *session UNUSED, const nghttp2_frame *f UNUSED,
			const uint8_t *name UNUSED, size_t name_len UNUSED,
			const uint8_t *value UNUSED, size_t value_len UNUSED, uint8_t flags UNUSED,
			void *arg)
{
	spend(arg);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void head_ends(struct h2 *h, struct h2_stream *s, const nghttp2_frame *f)
{
	bool end = f->hd.flags & NGHTTP2_FLAG_END_STREAM;
	bool request = f->headers.cat == NGHTTP2_HCAT_REQUEST;

	if (f->headers.cat == NGHTTP2_HCAT_HEADERS && !s->fresh) {
		s->trailers.len = 0;
		buf_add(&s->trailers, buf_str(&s->fields), s->fields.len);
	} else if (!h2_head_end(s, request, end)) {
		(void)stream_reset(h, s->id, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	if (request)
		h->events->opened(h->arg, s);
}

static int h2_on_frame(nghttp2_session *session UNUSED, const nghttp2_frame *f, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = f->hd.stream_id ? stream_of(h, f->hd.stream_id) : NULL;

	if (f->hd.type == NGHTTP2_GOAWAY)
		h->ended = true;
	if (h->told && f->hd.type == NGHTTP2_PING && f->hd.flags & NGHTTP2_FLAG_ACK)
		h2_drain(h);
	if (!s)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS)
		head_ends(h, s, f);
	if ((f->hd.type == NGHTTP2_HEADERS || f->hd.type == NGHTTP2_DATA) &&
	    (f->hd.flags & NGHTTP2_FLAG_END_STREAM))
		s->ended = true;
	tell(s);
	return 0;
}

/* A request was answered before all of it was there. Clients that are cut off at once take the
 * answer for lost: they may say a little more. */
static void swallow(struct h2_stream *s, size_t n)
{
	s->swallowed += n;
	if (s->said && s->swallowed > SWALLOWED_MAX)
		(void)stream_reset(s->h2, s->id, NGHTTP2_NO_ERROR);
}

static int on_data(nghttp2_session *session, uint8_t flags UNUSED, int32_t id, const uint8_t *p,
		   size_t n, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = stream_of(h, id);

	if (!s || !s->owner) {
		(void)nghttp2_session_consume(session, id, n);
		if (s)
			swallow(s, n);
		return 0;
	}
	queue_add(&s->in, (const char *)p, n);
	if (s->in.b.failed)
		(void)stream_reset(h, id, NGHTTP2_ENHANCE_YOUR_CALM);
	tell(s);
	return 0;
}

static int on_stream_closed(nghttp2_session *session UNUSED, int32_t id, uint32_t code, void *arg)
{
	struct h2_stream *s = stream_of(arg, id);
	struct h2 *h = arg;

	if (!s)
		return 0;
	s->closed = true;
	s->refused = code == NGHTTP2_REFUSED_STREAM;
	if (s->owner) {
		tell(s);
		return 0;
	}
	stream_free(s);
	h2_count(h);
	return 0;
}

/* ---- what is sent ---- */

static ssize_t on_read(nghttp2_session *session, int32_t id UNUSED, uint8_t *to, size_t room,
		       uint32_t *flags, nghttp2_data_source *source, void *arg UNUSED)
{
	struct h2_stream *s = source->ptr;
	size_t have = queued(&s->out), n = have < room ? have : room;

	if (!have && !s->out_ended) {
		s->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n)
		memcpy(to, s->out.b.data + s->out.at, n);
	s->out.at += n;
	if (n < have || !s->out_ended) {
		tell(s);
		return (ssize_t)n;
	}
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (s->out_trailers.len) {
		struct h2_fields f;

		h2_fields_init(&f);
		h2_fields_of(&f, (struct http1_text){ s->out_trailers.data, s->out_trailers.len });
		if (f.n && !f.lost && nghttp2_submit_trailer(session, s->id, f.v, f.n) == 0)
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	}
	return (ssize_t)n;
}

static int on_sent(nghttp2_session *session UNUSED, const nghttp2_frame *f, void *arg)
{
	struct h2_stream *s = f->hd.stream_id ? stream_of(arg, f->hd.stream_id) : NULL;

	if (!s || !(f->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
	    (f->hd.type != NGHTTP2_DATA && f->hd.type != NGHTTP2_HEADERS))
		return 0;
	s->said = true;
	s->h2->answered++;
	return 0;
}

static void wake_stream(struct h2_stream *s)
{
	if (!s->deferred || s->closed)
		return;
	s->deferred = false;
	(void)nghttp2_session_resume_data(s->h2->session, s->id);
}

struct h2_stream *h2_ask(struct h2 *h, struct http1_text head, bool body, void *owner)
{
	struct h2_fields f;
	struct h2_stream *s;
	nghttp2_data_provider source = { .read_callback = on_read };
	int id;

	h2_fields_init(&f);
	if (!h2_accepts(h) || !h2_fields_of_request(&f, head))
		return NULL;
	s = stream_new(h);
	if (!s)
		return NULL;
	source.source.ptr = s;
	s->owner = owner;
	id = nghttp2_submit_request(h->session, NULL, f.v, f.n, body ? &source : NULL, s);
	if (id < 0) {
		stream_free(s);
		return NULL;
	}
	s->id = id;
	h->ever++;
	return s;
}

bool h2_answer(struct h2_stream *s, int status, struct http1_text lines, bool body)
{
	struct h2_fields f;
	nghttp2_data_provider source = { .source.ptr = s, .read_callback = on_read };

	h2_fields_init(&f);
	h2_fields_status(&f, status);
	h2_fields_of(&f, lines);
	if (s->closed || f.lost)
		return false;
	if (status < 200)
		return nghttp2_submit_headers(s->h2->session, NGHTTP2_FLAG_NONE, s->id, NULL, f.v,
					      f.n, NULL) == 0;
	return nghttp2_submit_response(s->h2->session, s->id, f.v, f.n, body ? &source : NULL) == 0;
}

bool h2_add(struct h2_stream *s, const char *p, size_t n)
{
	queue_add(&s->out, p, n);
	wake_stream(s);
	return !s->out.b.failed && !s->closed;
}

void h2_end(struct h2_stream *s, struct http1_text trailers)
{
	if (trailers.n)
		buf_add(&s->out_trailers, trailers.p, trailers.n);
	s->out_ended = true;
	wake_stream(s);
}

bool h2_full(const struct h2_stream *s)
{
	return queued(&s->out) >= H2_OUT_FULL;
}

void h2_cancel(struct h2_stream *s)
{
	if (!s->closed)
		(void)stream_reset(s->h2, s->id, NGHTTP2_INTERNAL_ERROR);
}

/* An answer that is whole goes on its way; of a request nobody reads any more the rest is not
 * wanted. */
void h2_leave(struct h2_stream *s)
{
	struct h2 *h;

	if (!s)
		return;
	h = s->h2;
	s->owner = NULL;
	s->fresh = false;
	if (s->closed) {
		stream_free(s);
		h2_count(h);
		return;
	}
	if (queued(&s->in))
		(void)nghttp2_session_consume(h->session, s->id, queued(&s->in));
	s->in.at = s->in.b.len = s->shown = 0;
	if (h->role == H2_CLIENT && !(s->ended && s->said))
		(void)stream_reset(h, s->id, NGHTTP2_CANCEL);
}

/* ---- what came ---- */

struct http1_text h2_heads(struct h2_stream *s)
{
	return (struct http1_text){ queued(&s->heads) ? s->heads.b.data + s->heads.at : "",
				    queued(&s->heads) };
}

void h2_drop_head(struct h2_stream *s, size_t n)
{
	s->heads.at += n;
}

static void drop_shown(struct h2_stream *s)
{
	if (!s->shown)
		return;
	s->in.at += s->shown;
	if (!s->closed)
		(void)nghttp2_session_consume(s->h2->session, s->id, s->shown);
	else
		(void)nghttp2_session_consume_connection(s->h2->session, s->shown);
	s->shown = 0;
}

size_t h2_piece(struct h2_stream *s, size_t most, char **p)
{
	size_t n;

	drop_shown(s);
	n = queued(&s->in);
	s->shown = n < most ? n : most;
	*p = s->shown ? s->in.b.data + s->in.at : NULL;
	return s->shown;
}

struct http1_text h2_trailers(const struct h2_stream *s)
{
	return (struct http1_text){ buf_str(&s->trailers), s->trailers.len };
}

/* ---- the connection ---- */

static int make_session(struct h2 *h, nghttp2_session_callbacks *c, nghttp2_option *o)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_frame_begins);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_frame_refused);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_head_begins);
	nghttp2_session_callbacks_set_on_header_callback(c, on_field);
	nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_bad_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, h2_on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_closed);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_continuations(o, 8);
	/* of all resets, spend() is for those that count */
	nghttp2_option_set_stream_reset_rate_limit(o, H2_STREAMS_EVER + H2_STREAMS_LATE + H2_CALM,
						   H2_CALM_A_SECOND);
	nghttp2_option_set_max_send_header_block_length(o, (size_t)4 * H2_FIELDS_BYTES);
	nghttp2_option_set_max_deflate_dynamic_table_size(o, 4096);
	return h->role == H2_SERVER ? nghttp2_session_server_new2(&h->session, c, h, o)
				    : nghttp2_session_client_new2(&h->session, c, h, o);
}

static int introduce(struct h2 *h)
{
	uint32_t window = h->role == H2_SERVER ? H2_GUEST_WINDOW : H2_HOST_WINDOW;
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_FIELDS_BYTES },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 }, /* a client's alone */
	};
	size_t n = ARRAY_LEN(settings) - (h->role == H2_SERVER);

	if (nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, n) != 0)
		return -ENOMEM;
	/* Streams that stand still do not hold up the others. */
	return nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
						     (int32_t)window * H2_STREAMS_MAX);
}

struct h2 *h2_new(enum h2_role role, const struct h2_events *events, void *arg)
{
	struct h2 *h = calloc(1, sizeof(*h));
	nghttp2_session_callbacks *c = NULL;
	nghttp2_option *o = NULL;
	bool ok;

	if (!h)
		return NULL;
	h->role = role;
	h->events = events;
	h->arg = arg;
	h->calm = H2_CALM;
	ok = nghttp2_session_callbacks_new(&c) == 0 && nghttp2_option_new(&o) == 0 &&
	     make_session(h, c, o) == 0 && introduce(h) == 0;
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	return ok ? h : h2_free(h);
}

struct h2 *h2_free(struct h2 *h)
{
	if (!h)
		return NULL;
	while (h->streams)
		stream_free(h->streams);
	nghttp2_session_del(h->session);
	free(h);
	return NULL;
}

bool h2_feed(struct h2 *h, const char *p, size_t n, uint64_t now_us)
{
	if (!h->calm_at)
		h->calm_at = now_us;
	h->now = now_us;
	return nghttp2_session_mem_recv(h->session, (const uint8_t *)p, n) == (ssize_t)n;
}

size_t h2_next(struct h2 *h, const char **p)
{
	const uint8_t *at = NULL;
	ssize_t n = nghttp2_session_mem_send(h->session, &at);

	*p = (const char *)at;
	return n > 0 ? (size_t)n : 0;
}

bool h2_over(const struct h2 *h)
{
	return !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session);
}

bool h2_accepts(const struct h2 *h)
{
	return !h->ended && h->ever < H2_STREAMS_EVER &&
	       (h->role == H2_SERVER || nghttp2_session_check_request_allowed(h->session));
}

void h2_drain(struct h2 *h)
{
	if (h->ended)
		return;
	if (h->role == H2_SERVER && !h->told) {
		h2_announce(h);
		return;
	}
	h->ended = true;
	(void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(h->session),
				    NGHTTP2_NO_ERROR, NULL, 0);
}

size_t h2_streams(const struct h2 *h)
{
	return h->n_streams;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_speaker.c - see kube_speaker.h.
 *
 * A connection is kept for as long as the credentials are the same and the server keeps it. One
 * that the server has closed meanwhile is seen before it is used again. */
#include "kube/api/kube_speaker.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "kube/kube.h"
#include "proc/confine.h"
#include "wire/tcp.h"

#define SECRET_MAX ((size_t)4 << 20)
#define LETTER_MAX ((size_t)KUBE_BODY_MAX + (1 << 20))
#define KEEPER_US 30000000ULL /* a plugin may take ten seconds, and another speaker's before it */
#define FIRST_PAUSE_US 100000ULL
#define LONGEST_PAUSE_US 5000000ULL
#define LONGEST_ASKED_US 60000000ULL /* of a Retry-After */
#define CONNECT_US 10000000ULL       /* of one try */
#define TARGET_MAX 32768

void speaker_hang_up(struct speaker *s)
{
	s->client = client_free(s->client);
}

void speaker_fail(struct speaker *s, const struct err *e)
{
	struct kube_packet p = { .err = *e };

	(void)kube_packet_send(s->channel, &p, NULL);
}

/* ---- credentials ---- */

static int take_secret(struct speaker *s, struct err *e)
{
	struct parcel p = parcel_from(s->given.data, s->given.len, KUBE_SECRET_MARK);
	struct tls_material m;

	kube_secret_fields(&p, &s->secret);
	if (!parcel_whole(&p) || url_parse(s->secret.server, &s->url, e) < 0 || !s->url.tls)
		return err_set(e, ERR_INTERNAL, EBADMSG, "brig-kube gave no credentials");
	m = (struct tls_material){ .roots = s->secret.ca[0] ? s->secret.ca : NULL,
				   .cert = s->secret.cert[0] ? s->secret.cert : NULL,
				   .key = s->secret.key[0] ? s->secret.key : NULL };
	s->tls = tls_client_free(s->tls);
	return tls_client_new_with(&m, &s->tls, e);
}

/* Asks brig-kube; where they are other ones, the connection of the old ones is over. */
static int fresh_secret(struct speaker *s, bool refused, struct err *e)
{
	struct kube_packet p = { .serial = s->serial, .flags = refused ? KUBE_REFUSED : 0 };
	struct buf text = BUF_INIT(SECRET_MAX);
	int r = kube_packet_send(s->keeper, &p, NULL);

	if (r == 0)
		r = kube_packet_recv(s->keeper, clock_us() + KEEPER_US, &p, &text);
	if (r < 0 || p.err.code || !p.len) {
		buf_done(&text);
		if (r < 0)
			return err_errno(e, r, "brig-kube gives no credentials");
		if (p.err.code)
			*e = p.err;
		return -p.err.code;
	}
	speaker_hang_up(s);
	buf_done(&s->given);
	s->given = text;
	s->serial = p.serial;
	return take_secret(s, e);
}

/* ---- the connection ---- */

/* A peer that is gone without a word is noticed within half a minute. */
static void keep_alive(int fd)
{
	static const struct {
		int level, name, value;
	} all[] = { { SOL_SOCKET, SO_KEEPALIVE, 1 },
		    { IPPROTO_TCP, TCP_KEEPIDLE, 15 },
		    { IPPROTO_TCP, TCP_KEEPINTVL, 5 },
		    { IPPROTO_TCP, TCP_KEEPCNT, 3 },
		    { IPPROTO_TCP, TCP_NODELAY, 1 } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		(void)setsockopt(fd, all[i].level, all[i].name, &all[i].value, sizeof(int));
}

static int kube_speaker_explain(struct speaker *s, struct err *e)
{
	if (e->code == EKEYREJECTED && !e->hint[0])
		(void)err_hint(e, "%s",
			       s->secret.ca[0]
				       ? "certificate-authority is not the one of this server, or "
					 "its name is not in the certificate: tls-server-name"
				       : "the kubeconfig names no certificate-authority, so the "
					 "system's count");
	return err_wrap(e, "API server '%.100s'", s->url.authority);
}

static int connect_server(struct speaker *s, uint64_t deadline, struct err *e)
{
	const char *name = s->secret.tls_name[0] ? s->secret.tls_name : s->url.host;
	struct addrinfo *list = NULL;
	struct transport t;
	uint64_t soon = clock_us() + CONNECT_US;
	int fd;

	deadline = deadline && deadline < soon ? deadline : soon;
	if (tcp_resolve(s->url.host, s->url.port, &list, e) < 0)
		return -e->code;
	fd = tcp_connect(list, deadline, e);
	freeaddrinfo(list);
	if (fd < 0)
		return fd;
	keep_alive(fd);
	if (transport_tls(s->tls, fd, name, deadline, &t, e) < 0)
		return -e->code;
	s->client = client_new(t, s->url.authority, e);
	return s->client ? 0 : -e->code;
}

/* What has something to read before it was asked is over, or never was right. */
static bool is_usable(struct speaker *s)
{
	return s->client && client_reusable(s->client) && !wait_look(client_fd(s->client), POLLIN);
}

static int call_once(struct speaker *s, const struct speaker_call *c, uint64_t deadline,
		     const struct http1_answer **ret, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(TARGET_MAX);
	CLEANUP(buf) struct buf fields = BUF_INIT(TARGET_MAX);
	size_t prefix = strlen(s->url.target);
	struct client_request q = { .method = c->method,
				    .type = c->body ? c->type : NULL,
				    .body = c->body,
				    .body_len = c->len,
				    .upgrade = c->upgrade };

	while (prefix && s->url.target[prefix - 1] == '/')
		prefix--;
	buf_add(&target, s->url.target, prefix);
	buf_puts(&target, c->target);
	buf_puts(&fields, c->upgrade ? "" : "Accept: application/json\r\n");
	if (s->secret.token[0])
		buf_printf(&fields, "Authorization: Bearer %s\r\n", s->secret.token);
	buf_puts(&fields, c->fields ? c->fields : "");
	if (target.failed || fields.failed)
		return err_set(e, ERR_CONFIG, E2BIG, "the request is too long for the API server");
	if (!is_usable(s)) {
		speaker_hang_up(s);
		if (connect_server(s, deadline, e) < 0)
			return kube_speaker_explain(s, e);
	}
	q.target = buf_str(&target);
	q.fields = buf_str(&fields);
	s->sent = true;
	if (client_send(s->client, &q, deadline, e) < 0 ||
	    client_answer(s->client, deadline, ret, e) < 0)
		return kube_speaker_explain(s, e);
	return 0;
}

int speaker_try(struct speaker *s, const struct speaker_call *c, uint64_t deadline,
		const struct http1_answer **ret, struct err *e)
{
	uint64_t before;

	s->sent = false;
	if (c->target[0] != '/')
		return err_set(e, ERR_INTERNAL, EINVAL, "'%.100s' is no path", c->target);
	if (fresh_secret(s, false, e) < 0)
		return -e->code;
	if (call_once(s, c, deadline, ret, e) < 0) {
		speaker_hang_up(s);
		return -e->code;
	}
	before = s->serial;
	if ((*ret)->status != 401)
		return 0;
	/* Without other credentials the answer stands, and is read by the caller; with them the
	 * connection was hung up. */
	if (fresh_secret(s, true, e) < 0)
		return -e->code;
	if (s->serial == before)
		return 0;
	return call_once(s, c, deadline, ret, e);
}

/* ---- patience ---- */

uint64_t speaker_retry_after(const struct http1_answer *a)
{
	uint64_t seconds = http1_retry_after(a);

	return seconds < LONGEST_ASKED_US / 1000000 ? seconds * 1000000 : LONGEST_ASKED_US;
}

/* Doubles each time, with a random part, so that callers do not come back together. */
uint64_t speaker_pause(unsigned tries, const struct speaker_result *r)
{
	uint64_t most = tries < 6 ? FIRST_PAUSE_US << tries : LONGEST_PAUSE_US, dice = 0;

	(void)!getrandom(&dice, sizeof(dice), 0);
	if (r->retry_after)
		return r->retry_after + dice % FIRST_PAUSE_US;
	return most / 2 + dice % (most / 2);
}

bool speaker_sleep(int fd, uint64_t us)
{
	return wait_fd(fd, 0, clock_us() + us) == -ETIMEDOUT;
}

/* ---- the process ---- */

static int read_letter(struct speaker *s, struct buf *text, struct kube_letter *l)
{
	struct kube_packet packet;
	struct parcel p;

	if (kube_packet_recv(s->channel, 0, &packet, text) < 0)
		return -EPIPE;
	p = parcel_from(text->data, text->len, KUBE_LETTER_MARK);
	*l = (struct kube_letter){ 0 };
	kube_letter_fields(&p, l);
	return parcel_whole(&p) ? 0 : -EBADMSG;
}

int speaker_run(struct speaker *s, enum kube_job_kind kind)
{
	static void (*const jobs[])(struct speaker *, const struct kube_letter *) = {
		[KUBE_ASK] = speaker_ask,
		[KUBE_WATCH] = speaker_watch,
		[KUBE_ATTACH] = speaker_attach,
	};
	const struct confine_want rest = { .port = s->port, .bytes = UINT64_MAX };
	struct kube_letter l;
	struct err e = { 0 };
	int r;

	s->given = (struct buf)BUF_INIT(SECRET_MAX);
	/* What OpenSSL's configuration asks it to load cannot be loaded later. */
	if (tls_client_new(&s->tls, &e) < 0 || confine(CONFINE_SPEAKER, &rest, &e) < 0) {
		speaker_fail(s, &e);
		return 1;
	}
	do {
		struct buf text = BUF_INIT(LETTER_MAX);

		r = read_letter(s, &text, &l);
		if (r == 0)
			jobs[kind](s, &l);
		buf_done(&text);
	} while (r == 0 && kind == KUBE_ASK);
	speaker_hang_up(s);
	s->tls = tls_client_free(s->tls);
	buf_done(&s->given);
	return 0;
}

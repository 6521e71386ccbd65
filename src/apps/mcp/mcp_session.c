/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_session.c - tenants, made when their token is first seen, and the sessions of the
 * older era: how many there may be, and which of them goes when there are too many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mcp/mcp_http_internal.h"
#include "base/bytes/random.h"
#include "base/bytes/sha256.h"
#include "base/sys/clock.h"
#include "base/text/str.h"

void session_free(struct mcp_tenant *t, struct mcp_session *s)
{
	struct mcp_session **at = &t->sessions;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	t->session_count--;
	free(s);
}

static struct mcp_session *idlest(struct mcp_tenant *t)
{
	struct mcp_session *found = NULL;

	for (struct mcp_session *s = t->sessions; s; s = s->next)
		if (!s->exchanges && (!found || s->used_us < found->used_us))
			found = s;
	return found;
}

struct mcp_session *session_new(struct mcp_tenant *t, struct err *e)
{
	struct mcp_session *s;

	/* Nothing is lost with one but its name: a client that comes back begins anew. */
	if (t->session_count >= MCP_SESSIONS_MAX && (s = idlest(t)))
		session_free(t, s);
	if (t->session_count >= MCP_SESSIONS_MAX) {
		(void)err_set(e, ERR_USAGE, EAGAIN, "there are %d sessions already",
			      MCP_SESSIONS_MAX);
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s || random_hex(s->id, sizeof(s->id), e) < 0) {
		if (!s)
			(void)err_nomem(e);
		free(s);
		return NULL;
	}
	s->used_us = clock_us();
	s->next = t->sessions;
	t->sessions = s;
	t->session_count++;
	return s;
}

/* An id is 128 random bits, and counts for the tenant that has made it alone. */
struct mcp_session *session_find(struct mcp_tenant *t, struct http1_text id)
{
	for (struct mcp_session *s = t->sessions; s && id.p; s = s->next)
		if (id.n == strlen(s->id) && memcmp(id.p, s->id, id.n) == 0) {
			s->used_us = clock_us();
			return s;
		}
	return NULL;
}

/* ---- tenants ---- */

void mcp_tenant(const struct tools_daemon *d, const char *name, char out[MCP_TENANT_SIZE])
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, d->spec, d->spec_len);
	sha256_add(&h, "", 1);
	sha256_add(&h, name, strlen(name));
	sha256_end(&h, digest);
	sha256_hex(digest, hex);
	(void)snprintf(out, MCP_TENANT_SIZE, "@mcp-%.24s", hex);
}

static void tenant_free(struct mcp_tenant *t)
{
	while (t->sessions)
		session_free(t, t->sessions);
	(void)mcp_free(t->server);
	free(t);
}

struct mcp_tenant *tenant_of(struct mcp_http *h, const char *name, struct err *e)
{
	struct tools_daemon d = h->daemon;
	struct mcp_tenant *t;

	for (t = h->tenants; t; t = t->next)
		if (str_eq(t->name, name))
			return t;
	if (h->tenant_count >= MCP_TENANTS_MAX) {
		(void)err_set(e, ERR_USAGE, EAGAIN, "there are too many tenants");
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		(void)err_nomem(e);
		return NULL;
	}
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	mcp_tenant(&d, name, t->own);
	d.tenant = t->own;
	if (mcp_new(h->loop, h->spec, &d, &t->server, e) < 0) {
		free(t);
		return NULL;
	}
	t->next = h->tenants;
	h->tenants = t;
	h->tenant_count++;
	return t;
}

void tenants_free(struct mcp_http *h)
{
	while (h->tenants) {
		struct mcp_tenant *t = h->tenants;

		h->tenants = t->next;
		tenant_free(t);
	}
}

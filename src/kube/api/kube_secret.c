/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api/kube_secret.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/files/exposed.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "kube/api/kube_plugin.h"

#define MINUTE_US 60000000ULL
#define SOONEST_US 1000000ULL
#define AHEAD_S 10 /* a plugin's credentials are renewed so long before they expire */
#define ARENA_MAX ((size_t)16 << 20)

struct kube_keeper {
	const struct kube_config *config;
	const struct kube_begin *begin;
	struct arena *arena; /* of what is given out */
	struct kube_secret secret;
	uint64_t serial, made; /* made: clock_us; 0: never */
	int64_t expires;
};

void kube_secret_fields(struct parcel *p, struct kube_secret *s)
{
	const char **all[] = { &s->server, &s->tls_name, &s->ca, &s->cert, &s->key, &s->token };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (p->out && !*all[i])
			*all[i] = "";
		parcel_text(p, all[i]);
	}
}

struct kube_keeper *kube_keeper_new(const struct kube_config *c, const struct kube_begin *b)
{
	struct kube_keeper *k = calloc(1, sizeof(*k));

	if (k)
		*k = (struct kube_keeper){ .config = c, .begin = b };
	return k;
}

struct kube_keeper *kube_keeper_free(struct kube_keeper *k)
{
	if (k)
		(void)arena_free(k->arena);
	free(k);
	return NULL;
}

/* What the kubeconfig names is a key, a token, or whom to believe. */
static int read_named(const char *file, struct buf *b, struct err *e)
{
	if (exposed_check("of the kubeconfig,", file, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	return kube_read_file(file, b, e);
}

/* Either the text itself or what is in the file. */
static int text_or_file(struct arena *a, const char *text, const char *file, const char **ret,
			struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KUBECONFIG_MAX);

	*ret = text ? text : "";
	if (text || !file)
		return 0;
	if (read_named(file, &b, e) < 0)
		return -e->code;
	if (memchr(buf_str(&b), '\0', b.len))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.200s' is not text", file);
	*ret = arena_strdup(a, buf_str(&b));
	return *ret ? 0 : err_nomem(e);
}

static int token_of(struct arena *a, const struct kube_config *c, const char **ret, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(KUBE_TOKEN_MAX + 16);
	size_t n;

	*ret = c->token ? c->token : "";
	if (!c->token_file)
		return 0;
	if (read_named(c->token_file, &b, e) < 0)
		return -e->code;
	n = b.len;
	while (n && strchr(" \t\r\n", b.data[n - 1]))
		n--;
	*ret = arena_strndup(a, buf_str(&b), n);
	if (!*ret)
		return err_nomem(e);
	if (!kube_token_valid(*ret))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.200s' has no token", c->token_file);
	return 0;
}

static int kube_secret_make(struct kube_keeper *k, struct arena *a, struct kube_secret *s,
			    int64_t *expires, struct err *e)
{
	const struct kube_config *c = k->config;
	struct kube_given g = { 0 };

	*s = (struct kube_secret){ .server = c->server,
				   .tls_name = c->tls_name ? c->tls_name : "" };
	*expires = 0;
	if (text_or_file(a, c->ca, c->ca_file, &s->ca, e) < 0 ||
	    text_or_file(a, c->cert, c->cert_file, &s->cert, e) < 0 ||
	    text_or_file(a, c->key, c->key_file, &s->key, e) < 0 ||
	    token_of(a, c, &s->token, e) < 0)
		return -e->code;
	/* A speaker that has a token is asked for no other. */
	if (!c->plugin || s->token[0])
		return 0;
	if (kube_plugin_run(a, c, s->ca[0] ? s->ca : NULL, k->begin, &g, e) < 0)
		return -e->code;
	s->token = g.token ? g.token : "";
	s->cert = g.cert ? g.cert : s->cert;
	s->key = g.key ? g.key : s->key;
	*expires = g.expires;
	return 0;
}

static bool kube_secret_same(const struct kube_secret *a, const struct kube_secret *b)
{
	return str_eq(a->ca, b->ca) && str_eq(a->cert, b->cert) && str_eq(a->key, b->key) &&
	       str_eq(a->token, b->token);
}

static int renew(struct kube_keeper *k, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(ARENA_MAX);
	struct kube_secret s;
	int64_t expires;

	if (!a)
		return err_nomem(e);
	if (kube_secret_make(k, a, &s, &expires, e) < 0) {
		e->code = e->code == ENOMEM ? ENOMEM : EACCES;
		return -e->code;
	}
	k->made = clock_us();
	k->expires = expires;
	if (k->serial && kube_secret_same(&s, &k->secret))
		return 0;
	(void)arena_free(k->arena);
	k->arena = TAKE_PTR(a);
	k->secret = s;
	k->serial++;
	return 0;
}

/* A plugin's last as long as it says; files may be other ones at any time. */
static bool is_stale(const struct kube_keeper *k, uint64_t refused)
{
	const struct kube_config *c = k->config;
	uint64_t age = clock_us() - k->made;
	bool files = c->token_file || c->cert_file || c->ca_file;
	bool plugin = c->plugin && !c->token && !c->token_file;

	if (!k->made)
		return true;
	if (refused && refused == k->serial && (files || plugin))
		return age >= SOONEST_US;
	if (plugin)
		return k->expires && time(NULL) + AHEAD_S >= k->expires && age >= SOONEST_US;
	return files && age >= MINUTE_US;
}

int kube_keeper_get(struct kube_keeper *k, uint64_t refused, const struct kube_secret **ret,
		    uint64_t *serial, struct err *e)
{
	if (is_stale(k, refused) && renew(k, e) < 0)
		return -e->code;
	*ret = &k->secret;
	*serial = k->serial;
	return 0;
}

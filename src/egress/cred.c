/* SPDX-License-Identifier: Apache-2.0 */
/* egress/cred.c - placeholders become values in their slots, and nowhere else.
 *
 * First each slot that a credential bound to this host declares is looked at: it holds a
 * placeholder, which is replaced if method and path permit, or nothing, or the request is refused.
 * Then {NAME} in the query. What is left of placeholders after that stands where it must not. */
#include "egress/cred.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/str.h"
#include "egress/path.h"
#include "model/credentials.h"
#include "model/rule.h"

#define PREFIX "brig-"
#define TEXT_MAX 131072
#define CREDS_BYTES ((size_t)1 << 20)

struct binding {
	struct host host;
	uint16_t port;
};

struct cred {
	const struct credential_spec *spec;
	const struct secret *secret;
	struct binding *hosts;
	size_t n_hosts;
	char *name, *escaped; /* {NAME} and %7BNAME%7D */
};

struct creds {
	struct arena *arena;
	struct cred *v;
	size_t n;
	bool bind_names;
};

/* One request on its way. */
struct job {
	const struct creds *creds;
	const struct cred_target *to;
	struct egress_head *head;
	struct egress_verdict *v;
	uint64_t bound, used;
};

/* --- making --- */

int cred_placeholder(char out[CRED_PLACEHOLDER_LEN + 1], struct err *e)
{
	static const char signs[] = "0123456789abcdefghijklmnopqrstuv"; /* 32: no bias */
	unsigned char random[CRED_PLACEHOLDER_LEN - 5];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, "no random bytes for a placeholder");
	memcpy(out, PREFIX, 5);
	for (size_t i = 0; i < sizeof(random); i++)
		out[5 + i] = signs[random[i] & 31];
	out[CRED_PLACEHOLDER_LEN] = '\0';
	return 0;
}

bool cred_is_placeholder(struct egress_text t)
{
	if (t.n != CRED_PLACEHOLDER_LEN || memcmp(t.p, PREFIX, 5) != 0)
		return false;
	for (size_t i = 5; i < t.n; i++)
		if (!((t.p[i] >= '0' && t.p[i] <= '9') || (t.p[i] >= 'a' && t.p[i] <= 'z')))
			return false;
	return true;
}

/* The bytes that would change the meaning of the field they are put into. */
static int check_value(const struct credential_spec *c, const struct secret *s, struct err *e)
{
	if (s->len < SECRET_MIN || s->len > SECRET_MAX)
		return err_set(e, ERR_CONFIG, EINVAL,
			       "credential '%.60s': the value has %zu bytes, not %d to %d", c->name,
			       s->len, SECRET_MIN, SECRET_MAX);
	for (size_t i = 0; i < s->len; i++) {
		unsigned char b = (unsigned char)s->value[i];

		if (b < 0x20 || b == 0x7f || (c->slot == SLOT_COOKIE && strchr(";, \"\\", b)))
			return err_set(e, ERR_CONFIG, EINVAL,
				       "credential '%.60s': the value has a byte that cannot stand "
				       "in its place",
				       c->name),
			       err_hint(e, "is it more than one line, or the wrong file?");
	}
	return 0;
}

static int add_host(struct creds *all, struct cred *c, const char *text, struct err *e)
{
	struct binding *b = ARENA_PUSH(all->arena, c->hosts, c->n_hosts);
	const char *name;

	if (!b)
		return err_nomem(e);
	if (rule_parse_host_port(all->arena, text, &name, &b->port, e) < 0)
		return -e->code;
	if (host_parse(egress_text(name, strlen(name)), &b->host) != HOST_OK)
		return err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not a host name", name);
	return 0;
}

static int add(struct creds *all, const struct credential_spec *spec, const struct secret *secret,
	       struct err *e)
{
	struct cred *c = &all->v[all->n++];

	*c = (struct cred){ .spec = spec, .secret = secret };
	c->name = arena_printf(all->arena, "{%s}", spec->name);
	c->escaped = arena_printf(all->arena, "%%7B%s%%7D", spec->name);
	if (!c->name || !c->escaped)
		return err_nomem(e);
	if (check_value(spec, secret, e) < 0)
		return -e->code;
	for (size_t i = 0; i < spec->hosts.n; i++)
		if (add_host(all, c, spec->hosts.v[i], e) < 0)
			return -e->code;
	return 0;
}

int creds_new(const struct credentiallist *specs, const struct secret *secrets, bool bind_names,
	      struct creds **ret, struct err *e)
{
	CLEANUP(creds) struct creds *c = calloc(1, sizeof(*c));

	if (!c || !(c->arena = arena_new(CREDS_BYTES)))
		return err_nomem(e);
	if (specs->n > CREDENTIALS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d credentials", CREDENTIALS_MAX);
	c->bind_names = bind_names;
	c->v = arena_alloc(c->arena, (specs->n + 1) * sizeof(*c->v));
	if (!c->v)
		return err_nomem(e);
	for (size_t i = 0; i < specs->n; i++)
		if (add(c, &specs->v[i], &secrets[i], e) < 0)
			return -e->code;
	*ret = TAKE_PTR(c);
	return 0;
}

struct creds *creds_free(struct creds *c)
{
	if (c)
		(void)arena_free(c->arena);
	free(c);
	return NULL;
}

/* --- texts --- */

static bool same(struct egress_text a, const char *b)
{
	return a.n == strlen(b) && memcmp(a.p, b, a.n) == 0;
}

static bool same_nocase(struct egress_text a, const char *b)
{
	return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

/* The per-run placeholder, {NAME} or %7BNAME%7D, and nothing else. */
static bool is_token(const struct cred *c, struct egress_text t)
{
	return (c->secret->placeholder && same(t, c->secret->placeholder)) || same(t, c->name) ||
	       same_nocase(t, c->escaped);
}

static bool no_memory(struct job *j)
{
	return verdict_deny(j->v, EGRESS_INTERNAL, NULL, "no memory");
}

/* The text of a buffer, kept in the request's arena; the buffer is wiped. */
static bool keep(struct job *j, struct buf *b, struct egress_text *ret)
{
	char *copy = b->failed ? NULL : arena_strndup(j->head->arena, buf_str(b), b->len);

	if (copy)
		*ret = egress_text(copy, b->len);
	if (b->data)
		explicit_bzero(b->data, b->len);
	return copy || no_memory(j);
}

static bool unreserved(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

static void put_escaped(struct buf *b, const struct secret *s)
{
	for (size_t i = 0; i < s->len; i++)
		if (unreserved(s->value[i]))
			buf_putc(b, s->value[i]);
		else
			buf_printf(b, "%%%02X", (unsigned char)s->value[i]);
}

static const char signs64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(struct buf *b, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)p[i] << 16;

		v |= i + 1 < n ? (unsigned)(unsigned char)p[i + 1] << 8 : 0;
		v |= i + 2 < n ? (unsigned char)p[i + 2] : 0;
		buf_putc(b, signs64[v >> 18]);
		buf_putc(b, signs64[v >> 12 & 63]);
		buf_putc(b, i + 1 < n ? signs64[v >> 6 & 63] : '=');
		buf_putc(b, i + 2 < n ? signs64[v & 63] : '=');
	}
}

/* Strict: the alphabet, padding at the end alone. */
static bool get_base64(struct egress_text t, struct buf *out)
{
	unsigned bits = 0, have = 0;

	while (t.n && t.p[t.n - 1] == '=')
		t.n--;
	for (size_t i = 0; i < t.n; i++) {
		const char *at = t.p[i] ? strchr(signs64, t.p[i]) : NULL;

		if (!at)
			return false;
		bits = (bits << 6 | (unsigned)(at - signs64)) & 0xffff;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_putc(out, (char)(bits >> have));
		}
	}
	return !out->failed;
}

/* --- may this credential go with this request? --- */

static bool bound_here(const struct cred *c, const struct cred_target *to)
{
	for (size_t i = 0; to->verified && i < c->n_hosts; i++)
		if (c->hosts[i].port == to->port && host_eq(&c->hosts[i].host, to->host))
			return true;
	return false;
}

bool creds_bound(const struct creds *c, const struct cred_target *to)
{
	for (size_t i = 0; i < c->n; i++)
		if (bound_here(&c->v[i], to))
			return true;
	return false;
}

static bool path_permitted(const struct cred *c, struct egress_text target)
{
	CLEANUP(buf) struct buf path = BUF_INIT(PATH_MAX_LEN * 3 + 1);

	if (!c->spec->paths.n)
		return true;
	if (path_normalise(path_of_target(target), &path) != PATH_OK)
		return false;
	for (size_t i = 0; i < c->spec->paths.n; i++)
		if (path_below(buf_str(&path), c->spec->paths.v[i]))
			return true;
	return false;
}

static bool method_permitted(const struct cred *c, struct egress_text method)
{
	for (size_t i = 0; i < c->spec->methods.n; i++)
		if (same(method, c->spec->methods.v[i]))
			return true;
	return !c->spec->methods.n;
}

/* Called before a value is put in, with the target as the guest wrote it. */
static bool permitted(struct job *j, const struct cred *c)
{
	if (!method_permitted(c, j->head->method) || !path_permitted(c, j->head->target))
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
				    "its methods and paths are declared under credentials",
				    "credential '%s' is not for this method and path",
				    c->spec->name);
	/* "*", or a wish that some hop answers in place of the server: both reflect. */
	if (!j->head->target.n || j->head->target.p[0] == '*' ||
	    head_field(j->head, "max-forwards"))
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "credential '%s' is not put into a request that asks to be "
				    "reflected",
				    c->spec->name);
	j->used |= (uint64_t)1 << (c - j->creds->v);
	return true;
}

static bool foreign_value(struct job *j, const struct cred *c, const char *slot)
{
	return verdict_deny(
		j->v, EGRESS_CREDENTIAL_MISUSE, "send the placeholder of the variable, or nothing",
		"%s is the slot of credential '%s' and holds something else", slot, c->spec->name);
}

/* --- headers --- */

/* "Scheme token" in two; false when it is not of that form. */
static bool split_scheme(struct egress_text v, struct egress_text *scheme, struct egress_text *rest)
{
	const char *blank = v.n ? memchr(v.p, ' ', v.n) : NULL;

	if (!blank)
		return false;
	*scheme = egress_text(v.p, (size_t)(blank - v.p));
	while (blank < v.p + v.n && *blank == ' ')
		blank++;
	*rest = egress_text(blank, (size_t)(v.p + v.n - blank));
	return true;
}

enum outcome { NOT_THIS, REPLACED, REFUSED };

/* Basic USER:TOKEN. Git sends a token as either half; a slot `basic` names its own user. */
static enum outcome replace_basic(struct job *j, const struct cred *c, struct egress_text rest,
				  struct egress_text *value)
{
	CLEANUP(buf)
	struct buf pair = BUF_INIT(TEXT_MAX), plain = BUF_INIT(TEXT_MAX), out = BUF_INIT(TEXT_MAX);
	struct egress_text user, pass;
	bool as_user, as_pass;
	const char *colon;

	if (!get_base64(rest, &pair) || !pair.len || !(colon = memchr(pair.data, ':', pair.len)))
		return NOT_THIS;
	user = egress_text(pair.data, (size_t)(colon - pair.data));
	pass = egress_text(colon + 1, pair.len - user.n - 1);
	as_pass = is_token(c, pass);
	as_user = c->spec->slot == SLOT_HEADER && is_token(c, user);
	if (!as_user && !as_pass)
		return NOT_THIS;
	if (!permitted(j, c))
		return REFUSED;
	if (c->spec->slot == SLOT_BASIC)
		buf_puts(&plain, c->spec->field);
	else if (as_user)
		buf_add(&plain, c->secret->value, c->secret->len);
	else
		buf_add(&plain, user.p, user.n);
	buf_putc(&plain, ':');
	if (as_pass)
		buf_add(&plain, c->secret->value, c->secret->len);
	else
		buf_add(&plain, pass.p, pass.n);
	buf_puts(&out, "Basic ");
	put_base64(&out, buf_str(&plain), plain.len);
	explicit_bzero(plain.data, plain.len);
	return keep(j, &out, value) ? REPLACED : REFUSED;
}

static bool is_authorization(const struct credential_spec *c)
{
	return c->slot == SLOT_BASIC ||
	       (c->slot == SLOT_HEADER && strcasecmp(c->field, "authorization") == 0);
}

static bool is_word(struct egress_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (!((t.p[i] | 32) >= 'a' && (t.p[i] | 32) <= 'z'))
			return false;
	return t.n > 0 && t.n <= 16;
}

/* The bare placeholder, behind the declared prefix, or behind a scheme of the client's choice. */
static enum outcome replace_value(struct job *j, const struct cred *c, struct egress_text *value)
{
	CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
	size_t prefix = strlen(c->spec->prefix);
	struct egress_text scheme, rest;
	bool split = split_scheme(*value, &scheme, &rest);

	if (split && is_authorization(c->spec) && same_nocase(scheme, "basic"))
		return replace_basic(j, c, rest, value);
	if (c->spec->slot == SLOT_BASIC)
		return NOT_THIS;
	if (is_token(c, *value) ||
	    (value->n > prefix && strncasecmp(value->p, c->spec->prefix, prefix) == 0 &&
	     is_token(c, egress_text(value->p + prefix, value->n - prefix)))) {
		buf_puts(&out, c->spec->prefix);
	} else if (split && is_authorization(c->spec) && is_word(scheme) && is_token(c, rest)) {
		buf_add(&out, scheme.p, scheme.n);
		buf_putc(&out, ' ');
	} else {
		return NOT_THIS;
	}
	if (!permitted(j, c))
		return REFUSED;
	buf_add(&out, c->secret->value, c->secret->len);
	return keep(j, &out, value) ? REPLACED : REFUSED;
}

static const char *header_of(const struct credential_spec *c)
{
	return c->slot == SLOT_BASIC ? "authorization" : c->field;
}

static bool has_header_slot(const struct job *j, size_t i, struct egress_text name)
{
	const struct credential_spec *c = j->creds->v[i].spec;

	return (j->bound >> i & 1) && (c->slot == SLOT_HEADER || c->slot == SLOT_BASIC) &&
	       same_nocase(name, header_of(c));
}

/* Several credentials may share a slot: one of them must fit. */
static bool apply_header(struct job *j, struct egress_field *f)
{
	const struct cred *slot = NULL;
	unsigned count = 0;

	for (size_t i = 0; i < j->creds->n; i++) {
		if (!has_header_slot(j, i, f->name))
			continue;
		slot = &j->creds->v[i];
		switch (replace_value(j, slot, &f->value)) {
		case REPLACED:
			for (size_t k = 0; k < j->head->n_fields; k++)
				count += has_header_slot(j, i, j->head->fields[k].name);
			return count == 1 || verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
							  "two fields '%s'", header_of(slot->spec));
		case REFUSED:
			return false;
		case NOT_THIS:
			break;
		}
	}
	return !slot || foreign_value(j, slot, header_of(slot->spec));
}

/* --- name=value lists: cookies and queries --- */

struct list_style {
	char between;
	bool escaped, blanks; /* values are percent-escaped; blanks may follow a separator */
	enum credential_slot slot;
};

static const struct list_style cookies = { ';', false, true, SLOT_COOKIE };
static const struct list_style queries = { '&', true, false, SLOT_QUERY };

static enum outcome put_pair(struct job *j, const struct list_style *style, struct egress_text name,
			     struct egress_text value, struct buf *out, uint64_t *seen)
{
	const struct cred *slot = NULL;

	for (size_t i = 0; i < j->creds->n; i++) {
		const struct cred *c = &j->creds->v[i];

		if (!(j->bound >> i & 1) || c->spec->slot != style->slot ||
		    !same(name, c->spec->field))
			continue;
		slot = c;
		if (!is_token(c, value))
			continue;
		if (*seen >> i & 1)
			return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
					    "credential '%s' twice in one request", c->spec->name),
			       REFUSED;
		if (!permitted(j, c))
			return REFUSED;
		*seen |= (uint64_t)1 << i;
		buf_add(out, name.p, name.n);
		buf_putc(out, '=');
		if (style->escaped)
			put_escaped(out, c->secret);
		else
			buf_add(out, c->secret->value, c->secret->len);
		return REPLACED;
	}
	return slot ? (foreign_value(j, slot, slot->spec->field), REFUSED) : NOT_THIS;
}

/* Rewrites the list from p to end into out. */
static bool apply_list(struct job *j, const struct list_style *style, struct egress_text list,
		       struct buf *out)
{
	const char *p = list.p, *end = list.p + list.n;
	uint64_t seen = 0;

	while (p < end) {
		const char *sep = memchr(p, style->between, (size_t)(end - p)),
			   *stop = sep ? sep : end, *eq;
		enum outcome o = NOT_THIS;

		while (style->blanks && p < stop && *p == ' ')
			buf_putc(out, *p++);
		eq = memchr(p, '=', (size_t)(stop - p));
		if (eq)
			o = put_pair(j, style, egress_text(p, (size_t)(eq - p)),
				     egress_text(eq + 1, (size_t)(stop - eq - 1)), out, &seen);
		if (o == REFUSED)
			return false;
		if (o == NOT_THIS)
			buf_add(out, p, (size_t)(stop - p));
		if (sep)
			buf_putc(out, style->between);
		p = stop + 1;
	}
	return true;
}

static bool apply_cookies(struct job *j)
{
	for (size_t i = 0; i < j->head->n_fields; i++) {
		CLEANUP(buf) struct buf out = BUF_INIT(TEXT_MAX);
		struct egress_field *f = &j->head->fields[i];

		if (!egress_text_is(f->name, "cookie") || !f->value.n)
			continue;
		if (!apply_list(j, &cookies, f->value, &out) || !keep(j, &out, &f->value))
			return false;
	}
	return true;
}

/* --- {NAME} in the target --- */

/* How long the token of this credential at p is; 0: none is there. */
static size_t name_at(const struct cred *c, const char *p, size_t n)
{
	size_t plain = strlen(c->name), escaped = strlen(c->escaped);

	if (n >= plain && memcmp(p, c->name, plain) == 0)
		return plain;
	return n >= escaped && strncasecmp(p, c->escaped, escaped) == 0 ? escaped : 0;
}

static bool put_names(struct job *j, struct egress_text t, bool path, struct buf *out)
{
	for (size_t at = 0; at < t.n;) {
		size_t len = 0;

		for (size_t i = 0; i < j->creds->n && !len; i++) {
			const struct cred *c = &j->creds->v[i];

			if (!(j->bound >> i & 1) || (path && !c->spec->in_path))
				continue;
			len = name_at(c, t.p + at, t.n - at);
			if (!len)
				continue;
			if (!permitted(j, c))
				return false;
			put_escaped(out, c->secret);
		}
		if (!len)
			buf_putc(out, t.p[at]);
		at += len ? len : 1;
	}
	return true;
}

static bool apply_target(struct job *j)
{
	CLEANUP(buf) struct buf list = BUF_INIT(TEXT_MAX), out = BUF_INIT(TEXT_MAX);
	struct egress_text target = j->head->target, path = path_of_target(target), query;
	bool ok;

	if (!put_names(j, path, true, &out))
		return false;
	if (path.n < target.n) {
		query = egress_text(path.p + path.n + 1, target.n - path.n - 1);
		if (!apply_list(j, &queries, query, &list))
			return false;
		buf_putc(&out, '?');
		ok = put_names(j, egress_text(buf_str(&list), list.len), false, &out);
		if (list.data)
			explicit_bzero(list.data, list.len);
		if (!ok)
			return false;
	}
	return keep(j, &out, &j->head->target);
}

/* --- what is left --- */

static bool misuse(struct job *j, const char *name, const char *where)
{
	char hint[sizeof(j->v->hint)];

	(void)snprintf(hint, sizeof(hint),
		       "credentials: {%.60s: {host: %.200s}} binds it to this host", name,
		       j->to->host->name);
	return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, hint,
			    "the placeholder of credential '%s' in the %s of a request to %s", name,
			    where, j->to->host->name);
}

/* {UPPER_CASE}, which is a name somebody meant to bind. */
static size_t unbound_name(const char *p, size_t n, char *out, size_t max)
{
	size_t open = n && *p == '{'                            ? 1
		      : n >= 3 && strncasecmp(p, "%7b", 3) == 0 ? 3
								: 0,
	       i = open;

	while (open && i < n && i - open < max - 1 &&
	       ((p[i] >= 'A' && p[i] <= 'Z') || p[i] == '_' ||
		(i > open && p[i] >= '0' && p[i] <= '9')))
		i++;
	if (!open || i - open < 3 || i >= n ||
	    !(p[i] == '}' || (n - i >= 3 && strncasecmp(p + i, "%7d", 3) == 0)))
		return 0;
	memcpy(out, p + open, i - open);
	out[i - open] = '\0';
	return i - open;
}

static bool check_at(struct job *j, const char *p, size_t n, const char *where)
{
	char name[64];

	for (size_t i = 0; i < j->creds->n; i++) {
		const struct cred *c = &j->creds->v[i];

		if (name_at(c, p, n))
			return misuse(j, c->spec->name, where);
		if (c->secret->placeholder && n >= CRED_PLACEHOLDER_LEN &&
		    memcmp(p, c->secret->placeholder, CRED_PLACEHOLDER_LEN) == 0)
			return misuse(j, c->spec->name, where);
	}
	if (n >= CRED_PLACEHOLDER_LEN && cred_is_placeholder(egress_text(p, CRED_PLACEHOLDER_LEN)))
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "a placeholder of another run in the %s", where);
	if (j->creds->bind_names && unbound_name(p, n, name, sizeof(name)))
		return misuse(j, name, where);
	return true;
}

static bool check_left(struct job *j, struct egress_text t, const char *where)
{
	for (size_t i = 0; i < t.n; i++)
		if ((t.p[i] == 'b' || t.p[i] == '{' || t.p[i] == '%') &&
		    !check_at(j, t.p + i, t.n - i, where))
			return false;
	return true;
}

/* A placeholder that Basic has wrapped is one all the same. */
static bool check_basic(struct job *j, struct egress_text value)
{
	CLEANUP(buf) struct buf pair = BUF_INIT(TEXT_MAX);
	struct egress_text scheme, rest;

	if (!split_scheme(value, &scheme, &rest) || !same_nocase(scheme, "basic") ||
	    !get_base64(rest, &pair) || !pair.len)
		return true;
	return check_left(j, egress_text(pair.data, pair.len), "authorization");
}

static bool check_head(struct job *j)
{
	if (!check_left(j, j->head->target, "URL"))
		return false;
	for (size_t i = 0; i < j->head->n_fields; i++) {
		const struct egress_field *f = &j->head->fields[i];

		if (!check_left(j, f->name, "headers") || !check_left(j, f->value, "headers") ||
		    !check_basic(j, f->value))
			return false;
	}
	return true;
}

bool cred_apply(const struct creds *c, const struct cred_target *to, struct egress_head *head,
		uint64_t *used, struct egress_verdict *v)
{
	struct job j = { .creds = c, .to = to, .head = head, .v = v };
	struct egress_text target = head->target;

	*used = 0;
	for (size_t i = 0; i < c->n; i++)
		j.bound |= (uint64_t)bound_here(&c->v[i], to) << i;
	if (j.bound) {
		for (size_t i = 0; i < head->n_fields; i++)
			if (!apply_header(&j, &head->fields[i]))
				return false;
		if (!apply_cookies(&j) || !apply_target(&j)) {
			head->target = target;
			return false;
		}
	}
	if (!check_head(&j))
		return false;
	*used = j.used;
	return true;
}

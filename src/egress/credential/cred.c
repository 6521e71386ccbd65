/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred.c - placeholders become values in their slots, and nowhere else.
 *
 * First each slot that a credential bound to this host declares is looked at: it holds a
 * placeholder, which is replaced if method and path permit, or nothing, or the request is refused.
 * Then the further places it declares: the path, parameters of the query. What is left of
 * placeholders after that stands where it must not. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h"
#include "base/bytes/hmac.h"
#include "base/bytes/random.h"
#include "egress/credential/cred_internal.h"
#include "egress/rules/path.h"
#include "model/known/login_file.h"
#include "model/settings/rule.h"

#define PREFIX "brig-"
#define CREDS_BYTES ((size_t)1 << 20)

/* --- making --- */

static void spell(const unsigned char bytes[SHA256_SIZE], char out[CRED_PLACEHOLDER_LEN + 1])
{
	static const char signs[] = "0123456789abcdefghijklmnopqrstuv"; /* 32: no bias */

	static_assert(CRED_PLACEHOLDER_LEN == 5 + SHA256_SIZE, "a sign for each byte");
	memcpy(out, PREFIX, 5);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		out[5 + i] = signs[bytes[i] & 31];
	out[CRED_PLACEHOLDER_LEN] = '\0';
}

int cred_placeholder(char out[CRED_PLACEHOLDER_LEN + 1], struct err *e)
{
	unsigned char random[SHA256_SIZE];

	if (random_fill(random, sizeof(random), e) < 0)
		return -e->code;
	spell(random, out);
	return 0;
}

void cred_placeholder_kept(const unsigned char *secret, const char *name,
			   char out[CRED_PLACEHOLDER_LEN + 1])
{
	unsigned char mac[SHA256_SIZE];
	struct hmac_key key;

	hmac_key_init(&key, secret, SHA256_SIZE);
	hmac_sha256(&key, name, strlen(name), mac);
	spell(mac, out);
	explicit_bzero(&key, sizeof(key));
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
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "is it the whole key? A shorter one could not be told from other "
				  "text on its way out",
				  "credential '%.60s': the value has %zu bytes, not %d to %d",
				  c->name, s->len, SECRET_MIN, SECRET_MAX);
	for (size_t i = 0; i < s->len; i++) {
		unsigned char b = (unsigned char)s->value[i];

		if (b == 0x20 && !c->delayed)
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "'streaming: delayed' permits it: the end of every "
					  "answer then waits for the next 24 KiB",
					  "credential '%.60s': the value has a blank in it",
					  c->name);
		if (b < 0x20 || b == 0x7f || (c->slot == SLOT_COOKIE && strchr(";, \"\\", b)))
			return err_refuse(
				e, ERR_CONFIG, EINVAL,
				"is it more than one line, or the wrong file?",
				"credential '%.60s': the value has a byte that cannot stand "
				"in its place",
				c->name);
	}
	return 0;
}

static int add_host(struct creds *all, struct cred *c, const char *text, struct err *e)
{
	struct binding *b = ARENA_PUSH(all->arena, c->hosts, c->n_hosts);
	const char *name;

	if (!b)
		return err_nomem(e);
	if (credential_host(all->arena, c->spec, text, &name, &b->port, e) < 0)
		return -e->code;
	if (name[0] == '*') {
		b->below = name;
		return 0;
	}
	if (host_parse(egress_text(name, strlen(name)), &b->host) != HOST_OK)
		return err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not a host name", name);
	return 0;
}

static int cred_add(struct creds *all, const struct credential_spec *spec,
		    const struct secret *secret, struct err *e)
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
		if (cred_add(c, &specs->v[i], &secrets[i], e) < 0)
			return -e->code;
	*ret = TAKE_PTR(c);
	return 0;
}

void creds_lacking(struct creds *c, const struct strlist *names)
{
	c->lacking = names;
}

int creds_other_keys(struct creds *c, const struct strlist *texts, struct err *e)
{
	if (field_list_read(c->arena, texts, true, &c->other_keys, e) < 0)
		return err_wrap(e, "egress.other_keys");
	return 0;
}

int creds_learn(struct creds *c, size_t i, const struct secret *s, struct err *e)
{
	struct cred_learned *slot;

	for (size_t k = 0; k < c->v[i].n_learned; k++)
		if (!c->v[i].learned[k].secret) {
			c->v[i].learned[k].secret = s;
			return 0;
		}
	slot = ARENA_PUSH(c->arena, c->v[i].learned, c->v[i].n_learned);
	if (!slot)
		return err_nomem(e);
	slot->secret = s;
	return 0;
}

void creds_forget(struct creds *c, size_t i, const struct secret *s)
{
	for (size_t k = 0; k < c->v[i].n_learned; k++)
		if (c->v[i].learned[k].secret == s)
			c->v[i].learned[k].secret = NULL;
}

struct creds *creds_free(struct creds *c)
{
	if (c)
		(void)arena_free(c->arena);
	free(c);
	return NULL;
}

/* --- may this credential go with this request? --- */

bool binding_is(const struct binding *b, const struct host *host)
{
	return b->below ? host_matches(b->below, host) : host_eq(&b->host, host);
}

bool cred_bound_here(const struct cred *c, const struct cred_target *to)
{
	for (size_t i = 0; to->verified && i < c->n_hosts; i++)
		if (c->hosts[i].port == to->port && binding_is(&c->hosts[i], to->host))
			return true;
	return false;
}

static bool host_named(const struct creds *c, const struct cred_target *to)
{
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->v[i].n_hosts; k++)
			if (binding_is(&c->v[i].hosts[k], to->host))
				return true;
	return false;
}

bool creds_bound(const struct creds *c, const struct cred_target *to)
{
	for (size_t i = 0; i < c->n; i++)
		if (cred_bound_here(&c->v[i], to))
			return true;
	return false;
}

bool creds_narrow(const struct creds *c, const struct cred_target *to)
{
	for (size_t i = 0; i < c->n; i++)
		if ((c->v[i].spec->methods.n || c->v[i].spec->paths.n) &&
		    cred_bound_here(&c->v[i], to))
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
		if (token_urls_of(c->spec) ? str_eq(buf_str(&path), c->spec->paths.v[i])
					   : path_below(buf_str(&path), c->spec->paths.v[i], false))
			return true;
	return false;
}

static bool method_permitted(const struct cred *c, struct egress_text method)
{
	for (size_t i = 0; i < c->spec->methods.n; i++)
		if (cred_same(method, c->spec->methods.v[i]))
			return true;
	return !c->spec->methods.n;
}

/* Called before a value is put in, with the target as the guest wrote it. */
bool cred_permitted(struct cred_job *j, const struct cred *c)
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

bool cred_foreign(struct cred_job *j, const struct cred *c, const char *slot)
{
	return verdict_deny(
		j->v, EGRESS_CREDENTIAL_MISUSE, "send the placeholder of the variable, or nothing",
		"%s is the slot of credential '%s' and holds something else", slot, c->spec->name);
}

/* --- headers --- */

/* Basic USER:TOKEN. Git sends a token as either half; a slot `basic` names its own user. */
static enum cred_outcome replace_basic(struct cred_job *j, const struct cred *c,
				       struct egress_text rest, struct egress_text *value)
{
	CLEANUP(buf)
	struct buf pair = BUF_INIT(CRED_TEXT_MAX), plain = BUF_INIT(CRED_TEXT_MAX),
		   out = BUF_INIT(CRED_TEXT_MAX);
	struct egress_text user, pass;
	const struct secret *as_user, *as_pass;
	const char *colon;

	if (!cred_get_base64(rest, &pair) || !pair.len ||
	    !(colon = memchr(pair.data, ':', pair.len)))
		return NOT_THIS;
	user = egress_text(pair.data, (size_t)(colon - pair.data));
	pass = egress_text(colon + 1, pair.len - user.n - 1);
	as_pass = cred_token(c, pass);
	as_user = c->spec->slot == SLOT_HEADER ? cred_token(c, user) : NULL;
	if (!as_user && !as_pass)
		return NOT_THIS;
	if (!cred_permitted(j, c))
		return REFUSED;
	if (c->spec->slot == SLOT_BASIC && !token_urls_of(c->spec))
		buf_puts(&plain, c->spec->field);
	else if (as_user)
		buf_add(&plain, as_user->value, as_user->len);
	else
		buf_add(&plain, user.p, user.n);
	buf_putc(&plain, ':');
	if (as_pass)
		buf_add(&plain, as_pass->value, as_pass->len);
	else
		buf_add(&plain, pass.p, pass.n);
	buf_puts(&out, "Basic ");
	cred_put_base64(&out, buf_str(&plain), plain.len);
	explicit_bzero(plain.data, plain.len);
	return cred_keep(j, &out, value) ? REPLACED : REFUSED;
}

static bool cred_is_word(struct egress_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (!((t.p[i] | 32) >= 'a' && (t.p[i] | 32) <= 'z'))
			return false;
	return t.n > 0 && t.n <= 16;
}

/* What stands before the value in that header of it. */
static const char *prefix_in(const struct credential_spec *c, struct egress_text name)
{
	return cred_same_nocase(name, c->field)          ? c->prefix
	       : cred_same_nocase(name, "authorization") ? "Bearer "
							 : "";
}

/* The bare placeholder, behind the declared prefix, or behind a scheme of the client's choice. */
static enum cred_outcome replace_value(struct cred_job *j, const struct cred *c,
				       struct egress_text name, struct egress_text *value)
{
	CLEANUP(buf) struct buf out = BUF_INIT(CRED_TEXT_MAX);
	const char *before = prefix_in(c->spec, name);
	size_t prefix = strlen(before);
	const struct secret *token;
	struct egress_text scheme, rest;
	bool split = cred_split_scheme(*value, &scheme, &rest),
	     authorization = cred_same_nocase(name, "authorization");

	if (split && authorization && cred_same_nocase(scheme, "basic"))
		return replace_basic(j, c, rest, value);
	if (c->spec->slot == SLOT_BASIC)
		return NOT_THIS;
	token = cred_token(c, *value);
	if (!token && value->n > prefix && strncasecmp(value->p, before, prefix) == 0)
		token = cred_token(c, egress_text(value->p + prefix, value->n - prefix));
	if (token) {
		buf_puts(&out, before);
	} else if (split && authorization && cred_is_word(scheme) &&
		   (token = cred_token(c, rest))) {
		buf_add(&out, scheme.p, scheme.n);
		buf_putc(&out, ' ');
	} else {
		return NOT_THIS;
	}
	if (!cred_permitted(j, c))
		return REFUSED;
	buf_add(&out, token->value, token->len);
	return cred_keep(j, &out, value) ? REPLACED : REFUSED;
}

/* Is it a field that this credential may stand in? */
static bool is_slot(const struct credential_spec *c, struct egress_text name)
{
	if (c->slot == SLOT_SIGV4)
		return cred_sign_slot(c, name);
	if (c->slot == SLOT_BASIC)
		return cred_same_nocase(name, "authorization");
	for (size_t i = 0; i < c->headers.n; i++)
		if (cred_same_nocase(name, c->headers.v[i]))
			return true;
	return c->slot == SLOT_HEADER && cred_same_nocase(name, c->field);
}

bool creds_header(const struct creds *c, const struct cred_target *to, struct egress_text name)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].spec->slot == SLOT_HEADER && cred_bound_here(&c->v[i], to) &&
		    is_slot(c->v[i].spec, name))
			return true;
	return false;
}

static bool twice(const struct egress_head *h, struct egress_text name)
{
	unsigned count = 0;

	for (size_t i = 0; i < h->n_fields; i++)
		count += h->fields[i].name.n == name.n &&
			 strncasecmp(h->fields[i].name.p, name.p, name.n) == 0;
	return count > 1;
}

/* Several credentials may share a slot: one of them must fit. */
static bool apply_header(struct cred_job *j, struct egress_field *f)
{
	const struct cred *slot = NULL;
	char name[64];

	for (size_t i = 0; i < j->creds->n; i++) {
		if (!(j->bound >> i & 1) || !is_slot(j->creds->v[i].spec, f->name))
			continue;
		slot = &j->creds->v[i];
		switch (slot->spec->slot == SLOT_SIGV4
				? cred_sign_field(j, slot, f->name, &f->value)
				: replace_value(j, slot, f->name, &f->value)) {
		case REPLACED:
			return !twice(j->head, f->name) ||
			       verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
					    "two fields '%.*s'", (int)f->name.n, f->name.p);
		case REFUSED:
			return false;
		case NOT_THIS:
			break;
		}
	}
	if (!slot)
		return cred_other_field(j, f);
	(void)snprintf(name, sizeof(name), "%.*s", (int)f->name.n, f->name.p);
	return cred_foreign(j, slot, name);
}

bool cred_apply(const struct creds *c, const struct cred_target *to, struct egress_head *head,
		uint64_t *used, struct egress_verdict *v)
{
	struct cred_job j = {
		.creds = c, .to = to, .head = head, .v = v, .named = host_named(c, to)
	};
	struct egress_text target = head->target;

	*used = 0;
	for (size_t i = 0; i < c->n; i++)
		j.bound |= (uint64_t)cred_bound_here(&c->v[i], to) << i;
	if (j.named) {
		if (!cred_presigned(&j))
			return false;
		for (size_t i = 0; i < head->n_fields; i++)
			if (!apply_header(&j, &head->fields[i]))
				return false;
		if (!cred_cookies(&j) || !cred_target_names(&j)) {
			head->target = target;
			return false;
		}
	}
	if ((j.signer && !cred_sign(&j)) || !cred_check_left(&j))
		return false;
	*used = j.used;
	return true;
}

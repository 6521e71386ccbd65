/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_plan.h"

#include <string.h>

#include "base/bytes/parcel.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "egress/budget/budget.h"
#include "egress/credential/client_pem.h"
#include "egress/credential/cred.h"
#include "egress/rules/allow.h"
#include "egress/rules/direct.h"
#include "egress/rules/upstream_proxy.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"
#include "model/known/login_file.h"
#include "model/settings/rule.h"
#include "model/settings/spec_lists.h"
#include "model/settings/spec_writes.h"

#define MARK "brig-egress-plan 11"
#define PLAN_BYTES ((size_t)16 << 20)
#define MEMORY_MIN ((uint64_t)16 << 20)
#define MEMORY_MAX ((uint64_t)64 << 20)

/* --- making --- */

/* In the IronClaw dialect every well-known name stands for itself; those that are not set in the
 * caller's environment were never asked for. */
static bool may_lack(const struct spec *s)
{
	return !s->use_credentials.n && !spec_wrote(s, FIELD_CREDENTIALS);
}

static int add_secret(struct egress_plan *p, const struct spec *s, const struct credential_spec *c,
		      const char *kept_as, char *value, size_t len, struct err *e)
{
	size_t n = p->credentials.n;
	struct credential_spec *slot = ARENA_PUSH(p->arena, p->credentials.v, n);
	char placeholder[CRED_PLACEHOLDER_LEN + 1];

	p->secrets[p->credentials.n] =
		(struct secret){ .name = c->name, .value = value, .len = len };
	if (!slot)
		return err_nomem(e);
	*slot = *c;
	p->credentials.n = n; /* from here on the plan frees the value */
	if (s->home_secret)
		cred_placeholder_kept(s->home_secret, kept_as, placeholder);
	else if (cred_placeholder(placeholder, e) < 0)
		return -e->code;
	p->secrets[n - 1].placeholder = arena_strdup(p->arena, placeholder);
	return p->secrets[n - 1].placeholder ? 0 : err_nomem(e);
}

/* Nobody knows it, and it is good for nothing: what is needed is its placeholder. */
static int made_up(char **value, size_t *len, struct err *e)
{
	char text[CRED_PLACEHOLDER_LEN + 1];

	if (cred_placeholder(text, e) < 0)
		return -e->code;
	*len = CRED_PLACEHOLDER_LEN - 5; /* without what makes it one */
	return cred_value_new(text + 5, *len, value, e);
}

static int add_token_url(struct egress_plan *p, struct credential_spec *c, const char *text,
			 struct err *e)
{
	struct url u;
	const char *host;

	if (url_parse(text, &u, e) < 0)
		return -e->code;
	host = arena_printf(p->arena, "%s:%u", u.host, u.port);
	if (!host)
		return err_nomem(e);
	return list_add_string(p->arena, &c->hosts, host, e) < 0 ||
			       list_add_string(p->arena, &c->paths, u.target, e) < 0
		       ? -e->code
		       : 0;
}

/* One that logs in becomes two: itself, for its endpoints alone, and behind it one without a value
 * for what these answer (egress/oauth/oauth.h). */
static int add_login(struct egress_plan *p, const struct spec *s, const struct credential_spec *c,
		     char *value, size_t len, struct err *e)
{
	struct credential_spec login = { .name = c->name,
					 .slot = SLOT_BASIC,
					 .field = "",
					 .prefix = "",
					 .login = c->login,
					 .delayed = c->delayed,
					 .from = c->from,
					 .source = c->source };
	struct credential_spec tokens = *c;
	const char *kept_as = arena_printf(p->arena, "%s/tokens", c->name);
	int r = kept_as ? list_add_string(p->arena, &login.methods, "POST", e) : err_nomem(e);

	if (credential_keeps(c))
		sha256_of(value, len, p->digests[p->credentials.n]);
	for (size_t i = 0; r == 0 && i < token_urls_of(c)->n; i++)
		r = add_token_url(p, &login, token_urls_of(c)->v[i], e);
	if (r < 0) {
		cred_value_free(value, len);
		return r;
	}
	if (add_secret(p, s, &login, c->name, value, len, e) < 0)
		return -e->code;
	if (!c->hosts.n)
		return 0;
	tokens.login = NULL;
	if (made_up(&value, &len, e) < 0)
		return -e->code;
	return add_secret(p, s, &tokens, kept_as, value, len, e);
}

/* One that is not set, of several: another one of its service may be. */
static bool is_unset(const struct credential_spec *c, int r, size_t len, const struct err *e)
{
	return c->service && (r < 0 ? e->code == ENOENT : !len);
}

static int fetch_one(struct egress_plan *p, const struct spec *s, const struct credential_spec *c,
		     char *const *envp, const char *const *places, struct err *e)
{
	char *value = NULL;
	size_t len = 0;
	int r;

	/* One of a guest's making would go where the user sends the true one, and another secret of
	 * the user's to where a guest's link sends it. */
	if (c->from == FROM_FILE && spec_check_input(s, c->name, c->source.v[0], e) < 0)
		return -e->code;
	r = !c->source.n ? made_up(&value, &len, e) : cred_fetch(c, envp, places, &value, &len, e);
	if (is_unset(c, r, len, e)) {
		cred_value_free(value, SECRET_MAX);
		return 0;
	}
	if (r < 0 && e->code == ENOENT && may_lack(s))
		return list_add_string(p->arena, &p->lacking, c->name, e);
	if (r < 0)
		return r;
	return token_urls_of(c) ? add_login(p, s, c, value, len, e)
				: add_secret(p, s, c, c->name, value, len, e);
}

#define SIGV4_HINT                                                                                 \
	"export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; and AWS_SESSION_TOKEN, where the "    \
	"key has one (of a profile or SSO: eval \"$(aws configure export-credentials --format "    \
	"env)\")"

/* Of a service that was asked for by its name one variable at least is set. */
static int check_service(const struct egress_plan *p, const struct credentiallist *granted,
			 const char *service, struct err *e)
{
	CLEANUP(buf) struct buf names = BUF_INIT(512);
	bool signs = false;

	for (size_t i = 0; i < p->credentials.n; i++)
		if (p->credentials.v[i].service && str_eq(p->credentials.v[i].service, service))
			return 0;
	for (size_t i = 0; i < granted->n; i++)
		if (granted->v[i].service && str_eq(granted->v[i].service, service)) {
			buf_printf(&names, "%s%s", names.len ? ", " : "", granted->v[i].name);
			signs |= granted->v[i].slot == SLOT_SIGV4;
		}
	(void)err_set(e, ERR_CONFIG, ENOENT, "credential '%.60s': no variable of it is set",
		      service);
	/* One half of a key is of no use. */
	return signs ? err_hint(e, "%s", SIGV4_HINT)
		     : err_hint(e, "export one of %s", buf_str(&names));
}

/* Where the proxy has a name, the password is for that name; it is nobody else's. */
static int check_login(struct egress_plan *p, const struct credential_spec *c, struct err *e)
{
	struct upstream_proxy to;
	const char *host;
	uint16_t port;

	if (chain_parse(p->egress.upstream_proxy, &to, e) < 0)
		return -e->code;
	for (size_t i = 0; to.host.len && i < c->hosts.n; i++)
		if (rule_parse_host_port(p->arena, c->hosts.v[i], &host, &port, e) == 0 &&
		    str_eq(host, to.host.name))
			return 0;
	if (!to.host.len)
		return 0;
	return err_set(e, ERR_CONFIG, EINVAL,
		       "egress.upstream_login '%.60s' is not for the host of "
		       "egress.upstream_proxy",
		       c->name);
}

/* The parts of one key: it is of use with both halves, and the third is there or not. */
static int check_sigv4(const struct egress_plan *p, struct err *e)
{
	const char *any = NULL;
	unsigned ids = 0, secrets = 0;

	for (size_t i = 0; i < p->credentials.n; i++) {
		const struct credential_spec *c = &p->credentials.v[i];

		if (c->slot != SLOT_SIGV4)
			continue;
		any = c->name;
		ids += str_eq(c->field, "id");
		secrets += str_eq(c->field, "secret");
	}
	if (!any || (ids == 1 && secrets == 1))
		return 0;
	if (ids > 1 || secrets > 1)
		return err_set(e, ERR_CONFIG, EINVAL,
			       "credential '%.60s': a run has one key of sigv4, not two", any);
	return err_refuse(e, ERR_CONFIG, ENOENT, SIGV4_HINT,
			  "credential '%.60s': the %s that belongs to it is not set", any,
			  ids ? "secret" : "id of the key");
}

static int fetch_login(struct egress_plan *p, const struct spec *s, char *const *envp,
		       const char *const *places, struct err *e)
{
	const struct credential_spec *c;
	char *value = NULL;

	p->login.name = "";
	if (credential_login(s, &c, e) < 0 || (c && check_login(p, c, e) < 0))
		return -e->code;
	if (!c)
		return 0;
	if (c->from == FROM_FILE && spec_check_input(s, c->name, c->source.v[0], e) < 0)
		return -e->code;
	if (cred_fetch(c, envp, places, &value, &p->login.len, e) < 0)
		return -e->code;
	p->login.name = c->field;
	p->login.value = value;
	return p->login.len
		       ? 0
		       : err_set(e, ERR_CONFIG, EINVAL, "credential '%.60s' is empty", c->name);
}

static const char *home_of(char *const *envp)
{
	for (; envp && *envp; envp++)
		if (str_starts(*envp, "HOME=/"))
			return *envp + sizeof("HOME=") - 1;
	return NULL;
}

/* One of a guest's making would speak for somebody else, as a value of its making would. */
static int fetch_client_certs(struct egress_plan *p, const struct spec *s, char *const *envp,
			      struct err *e)
{
	const struct strlist *l = &s->egress.client_certs;
	struct client_pem c = { 0 };

	if (l->n > CLIENT_CERTS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "egress.client_certs: more than %d",
			       CLIENT_CERTS_MAX);
	p->client_keys = arena_alloc(p->arena, (l->n + 1) * sizeof(*p->client_keys));
	if (!p->client_keys)
		return err_nomem(e);
	for (size_t i = 0; i < l->n; i++) {
		struct envvar *slot = ARENA_PUSH(p->arena, p->client_certs.v, p->client_certs.n);

		if (!slot || client_pem_parse(p->arena, l->v[i], home_of(envp), &c, e) < 0 ||
		    spec_check_input(s, "egress.client_certs", c.path, e) < 0 ||
		    client_pem_read(p->arena, &c, e) < 0)
			return p->client_certs.n = i, slot ? -e->code : err_nomem(e);
		*slot = (struct envvar){ .name = c.host, .value = c.certs };
		p->client_keys[i] =
			(struct secret){ .name = c.host, .value = c.key, .len = c.key_len };
	}
	return 0;
}

static int fetch_all(struct egress_plan *p, const struct spec *s, char *const *envp, struct err *e)
{
	const char *const *places = NULL;
	struct credentiallist granted = { 0 };

	if (spec_places(p->arena, s, &places, e) < 0 ||
	    credentials_granted(p->arena, s, &granted, e) < 0)
		return -e->code;
	/* Where every public name is open a value goes along only when that was said for this run.
	 */
	if (s->egress.learn && s->origin[FIELD_CREDENTIAL] != ORIGIN_FLAG)
		granted.n = 0;
	p->secrets = arena_alloc(p->arena, (2 * granted.n + 1) * sizeof(*p->secrets));
	p->digests = arena_alloc(p->arena, (2 * granted.n + 1) * sizeof(*p->digests));
	if (!p->secrets || !p->digests)
		return err_nomem(e);
	for (size_t i = 0; i < granted.n; i++)
		if (fetch_one(p, s, &granted.v[i], envp, places, e) < 0)
			return -e->code;
	if (fetch_login(p, s, envp, places, e) < 0)
		return -e->code;
	for (size_t i = 0; i < granted.n; i++)
		if (granted.v[i].service && check_service(p, &granted, granted.v[i].service, e) < 0)
			return -e->code;
	return check_sigv4(p, e);
}

/* What would be refused in the worker is refused here, before anything runs. */
static int egress_plan_check(const struct egress_plan *p, struct err *e)
{
	CLEANUP(egress_rules) struct egress_rules *rules = NULL;
	CLEANUP(creds) struct creds *creds = NULL;
	CLEANUP(budget) struct budget *budget = NULL;
	CLEANUP(direct) struct direct *direct = NULL;
	struct upstream_proxy chain;

	if (budget_new(&p->egress, &budget, e) < 0)
		return -e->code;
	if (egress_rules_new(&p->egress, &rules, e) < 0 ||
	    direct_new(&p->egress.direct, &direct, e) < 0 ||
	    chain_parse(p->egress.upstream_proxy, &chain, e) < 0)
		return -e->code;
	if (creds_new(&p->credentials, p->secrets, p->bind_names, &creds, e) < 0)
		return -e->code;
	return creds_other_keys(creds, &p->egress.other_keys, e);
}

/* An eighth of what the run has, within reason; the run's own limit does not count it. */
static uint64_t memory_for(uint64_t limit)
{
	uint64_t share = limit / 8;

	if (!limit || share > MEMORY_MAX)
		return MEMORY_MAX;
	return share > MEMORY_MIN ? share : MEMORY_MIN;
}

static int take_members(struct egress_plan *p, const struct memberlist *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		struct envvar *slot = ARENA_PUSH(p->arena, p->members.v, p->members.n);

		if (!slot)
			return err_nomem(e);
		slot->name = arena_strdup(p->arena, l->v[i].name);
		slot->value = arena_strdup(p->arena, l->v[i].address);
		if (!slot->name || !slot->value)
			return err_nomem(e);
	}
	return 0;
}

int egress_plan_new(const struct spec *s, char *const *envp, struct egress_plan **ret,
		    struct err *e)
{
	CLEANUP(egress_plan) struct egress_plan *p = calloc(1, sizeof(*p));

	if (!p || !(p->arena = arena_new_on(s->arena, PLAN_BYTES)))
		return err_nomem(e);
	p->egress = s->egress;
	p->egress.rate.spare_domain = !spec_wrote(s, FIELD_RATE_DOMAIN);
	p->egress.rate.spare_total = !spec_wrote(s, FIELD_RATE_TOTAL);
	p->leaks = s->leaks;
	p->bind_names = s->dialect_used == DIALECT_IRONCLAW;
	p->redact_json = s->dialect_used != DIALECT_IRONCLAW; /* which documents a block */
	p->memory = memory_for(s->limits.memory);
	if (take_members(p, &s->members, e) < 0 || spec_check_inputs(s, e) < 0 ||
	    fetch_all(p, s, envp, e) < 0 || fetch_client_certs(p, s, envp, e) < 0 ||
	    egress_plan_check(p, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(p);
	return 0;
}

void egress_plan_forget(struct egress_plan *p)
{
	for (size_t i = 0; i < p->credentials.n; i++) {
		struct secret *s = &p->secrets[i];

		cred_value_free((char *)(uintptr_t)s->value, s->len);
		s->value = NULL;
		s->len = 0;
	}
	for (size_t i = 0; p->client_keys && i < p->client_certs.n; i++) {
		cred_value_free((char *)(uintptr_t)p->client_keys[i].value, p->client_keys[i].len);
		p->client_keys[i].value = NULL;
	}
	cred_value_free((char *)(uintptr_t)p->login.value, p->login.len);
	p->login.value = NULL;
	p->login.len = 0;
}

struct egress_plan *egress_plan_free(struct egress_plan *p)
{
	if (!p)
		return NULL;
	egress_plan_forget(p);
	(void)arena_free(p->arena);
	free(p);
	return NULL;
}

/* --- one list of fields for both directions --- */

static void texts(struct parcel *p, struct strlist *l)
{
	l->v = parcel_texts(p, l->v, &l->n);
}

static void pairs(struct parcel *p, struct envlist *l)
{
	l->v = parcel_list(p, l->v, &l->n, sizeof(*l->v));
	for (size_t i = 0; i < l->n && !p->failed; i++) {
		parcel_text(p, &l->v[i].name);
		parcel_text(p, &l->v[i].value);
	}
}

static void egress(struct parcel *p, struct egress_spec *s)
{
	texts(p, &s->allow);
	texts(p, &s->deny);
	texts(p, &s->groups);
	texts(p, &s->passthrough);
	texts(p, &s->fields);
	texts(p, &s->other_keys);
	texts(p, &s->roots);
	texts(p, &s->budgets);
	texts(p, &s->models);
	texts(p, &s->prices);
	parcel_number(p, &s->tokens);
	parcel_number(p, &s->cost);
	texts(p, &s->direct);
	s->client_certs.n = 0; /* what they name comes along instead */
	pairs(p, &s->resolve);
	parcel_flag(p, &s->rate.spare_domain);
	parcel_flag(p, &s->rate.spare_total);
	parcel_number(p, &s->rate.domain);
	parcel_number(p, &s->rate.total);
	parcel_number(p, &s->rate.connections);
	parcel_number(p, &s->rate.names);
	parcel_number(p, &s->rate.bytes_out);
	parcel_number(p, &s->rate.bytes_in);
	parcel_flag(p, &s->https_only);
	parcel_flag(p, &s->inspect);
	parcel_flag(p, &s->ask);
	parcel_flag(p, &s->learn);
	parcel_number(p, &s->port);
	parcel_number(p, &s->host_service);
	if (!s->upstream_proxy)
		s->upstream_proxy = "";
	parcel_text(p, &s->upstream_proxy);
	s->upstream_login = NULL; /* what it names comes along instead */
}

/* Of the way it comes about: where it goes, and that it is to be told. */
static void login(struct parcel *p, struct credential_spec *c)
{
	struct login_file l = { 0 }, *own;

	if (c->login)
		l = (struct login_file){ .token_urls = c->login->token_urls,
					 .keeps = c->login->keeps };
	texts(p, &l.token_urls);
	parcel_flag(p, &l.keeps);
	if (p->out || !l.token_urls.n)
		return;
	own = arena_alloc(p->arena, sizeof(*own));
	p->failed |= !own;
	if (own)
		*own = l;
	c->login = own;
}

static void credential(struct parcel *p, struct credential_spec *c)
{
	int slot = (int)c->slot;

	parcel_text(p, &c->name);
	texts(p, &c->hosts);
	parcel_word(p, &slot, SLOT_SIGV4);
	c->slot = (enum credential_slot)slot;
	parcel_text(p, &c->field);
	parcel_text(p, &c->prefix);
	texts(p, &c->headers);
	texts(p, &c->methods);
	texts(p, &c->paths);
	texts(p, &c->query);
	parcel_flag(p, &c->in_path);
	parcel_flag(p, &c->delayed);
	login(p, c);
}

static void fields_of(struct parcel *p, struct egress_plan *plan)
{
	int unreadable = (int)plan->leaks.unreadable, labels = (int)plan->leaks.labels;

	egress(p, &plan->egress);
	parcel_flag(p, &plan->leaks.scan);
	parcel_flag(p, &plan->leaks.strict);
	parcel_word(p, &unreadable, UNREADABLE_BLOCK);
	plan->leaks.unreadable = (enum unreadable_action)unreadable;
	parcel_word(p, &labels, UNREADABLE_BLOCK);
	plan->leaks.labels = (enum unreadable_action)labels;
	parcel_number(p, &plan->leaks.answers);
	pairs(p, &plan->leaks.rules);
	parcel_flag(p, &plan->bind_names);
	pairs(p, &plan->members);
	pairs(p, &plan->client_certs);
	texts(p, &plan->lacking);
	parcel_flag(p, &plan->redact_json);
	parcel_number(p, &plan->memory);
}

/* --- secrets: the values go to locked memory --- */

static int read_secret(struct parcel *p, struct secret *s, const char *name, struct err *e)
{
	const char *value = NULL;
	size_t n = 0;
	char *copy = NULL;

	parcel_text(p, &s->placeholder);
	parcel_bytes(p, &value, &n);
	if (p->failed)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	if (cred_value_new(value, n, &copy, e) < 0)
		return -e->code;
	s->name = name;
	s->value = copy;
	s->len = n;
	return 0;
}

static int read_login(struct parcel *p, struct secret *s, struct err *e)
{
	const char *value = NULL;
	size_t n = 0;
	char *copy = NULL;

	parcel_text(p, &s->name);
	parcel_bytes(p, &value, &n);
	if (p->failed)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	if (n && cred_value_new(value, n, &copy, e) < 0)
		return -e->code;
	s->value = copy;
	s->len = n;
	return 0;
}

static int read_credentials(struct parcel *p, struct egress_plan *plan, struct err *e)
{
	size_t n = 0;

	plan->credentials.v = parcel_list(p, NULL, &n, sizeof(*plan->credentials.v));
	plan->secrets =
		p->failed ? NULL : arena_alloc(plan->arena, (n + 1) * sizeof(*plan->secrets));
	if (!plan->secrets)
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	for (size_t i = 0; i < n; i++) {
		credential(p, &plan->credentials.v[i]);
		if (read_secret(p, &plan->secrets[i], plan->credentials.v[i].name, e) < 0)
			return -e->code;
		plan->credentials.n++;
	}
	return 0;
}

int egress_plan_write(const struct egress_plan *plan, struct buf *out, struct err *e)
{
	struct parcel p = parcel_to(out, MARK);
	struct egress_plan copy = *plan;
	size_t n = plan->credentials.n;

	fields_of(&p, &copy);
	(void)parcel_list(&p, copy.credentials.v, &n, sizeof(*copy.credentials.v));
	for (size_t i = 0; i < n; i++) {
		struct secret *s = &copy.secrets[i];

		credential(&p, &copy.credentials.v[i]);
		parcel_text(&p, &s->placeholder);
		parcel_bytes(&p, &s->value, &s->len);
	}
	parcel_text(&p, &copy.login.name);
	parcel_bytes(&p, &copy.login.value, &copy.login.len);
	return out->failed ? err_nomem(e) : 0;
}

int egress_plan_read(const char *data, size_t n, struct egress_plan **ret, struct err *e)
{
	CLEANUP(egress_plan) struct egress_plan *plan = calloc(1, sizeof(*plan));
	struct parcel p = parcel_from(data, n, MARK);

	if (!plan || !(plan->arena = arena_new(PLAN_BYTES)))
		return err_nomem(e);
	p.arena = plan->arena;
	p.copy = true; /* the text is not kept */
	fields_of(&p, plan);
	if (read_credentials(&p, plan, e) < 0 || read_login(&p, &plan->login, e) < 0)
		return -e->code;
	if (!parcel_whole(&p))
		return err_set(e, ERR_INTERNAL, EBADMSG, "the egress plan is broken");
	*ret = TAKE_PTR(plan);
	return 0;
}

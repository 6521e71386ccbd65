/* SPDX-License-Identifier: Apache-2.0 */
#include "model/dialect/credentials.h"

#include <string.h>
#include <strings.h>

#include "base/text/str.h"
#include "base/text/url.h"
#include "model/dialect/brigyaml.h"
#include "model/known/login_file.h"
#include "model/known/services.h"
#include "model/settings/envrules.h"
#include "model/settings/groups.h"
#include "model/settings/rule.h"
#include "model/settings/spec_lists.h"

const struct credential_spec *credential_find(const struct credentiallist *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name))
			return &l->v[i];
	return NULL;
}

int credentials_add(struct arena *a, struct credentiallist *l, const struct credential_spec *c,
		    struct err *e)
{
	struct credential_spec *slot;

	if (l->n == CREDENTIALS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d credentials", CREDENTIALS_MAX);
	slot = ARENA_PUSH(a, l->v, l->n);
	if (!slot)
		return err_nomem(e);
	*slot = *c;
	return 0;
}

int credential_host(struct arena *a, const struct credential_spec *c, const char *text,
		    const char **host, uint16_t *port, struct err *e)
{
	bool below = c->slot == SLOT_SIGV4 && str_starts(text, "*.");

	if (rule_parse_host_port(a, text + (below ? 2 : 0), host, port, e) < 0)
		return -e->code;
	if (below)
		*host = arena_printf(a, "*.%s", *host);
	return *host ? 0 : err_nomem(e);
}

/* `host` may be "*.NAME": any one below it. */
static bool rule_reaches(struct arena *a, const char *text, const char *host)
{
	const struct group *g = text[0] == '@' ? group_find(text) : NULL;
	struct rule r;
	struct err e;

	if (!g && rule_parse(a, text, &r, &e) == 0 && !r.group)
		return host_covers(r.host, host) || (*host == '*' && host_covers(host, r.host));
	for (const char *const *h = g ? g->hosts : NULL; h && *h; h++)
		if (host_covers(*h, host) || (*host == '*' && host_covers(host, *h)))
			return true;
	return false;
}

static bool host_reachable(struct arena *a, const struct spec *s, const char *host)
{
	for (size_t k = 0; k < s->egress.allow.n; k++)
		if (rule_reaches(a, s->egress.allow.v[k], host))
			return true;
	for (size_t k = 0; k < s->egress.groups.n; k++) {
		const struct group *g = group_find(s->egress.groups.v[k]);

		if (g && group_covering(host) == g)
			return true;
	}
	return false;
}

bool credential_reachable(struct arena *a, const struct spec *s, const struct credential_spec *c)
{
	const struct strlist *urls = token_urls_of(c);
	struct url u;
	struct err e;

	/* Where it logs in: without that its hosts hear nothing. */
	for (size_t i = 0; urls && i < urls->n; i++)
		if (url_parse(urls->v[i], &u, &e) == 0 && host_reachable(a, s, u.host))
			return true;
	for (size_t i = 0; !urls && i < c->hosts.n; i++) {
		const char *host;
		uint16_t port;

		if (credential_host(a, c, c->hosts.v[i], &host, &port, &e) == 0 &&
		    host_reachable(a, s, host))
			return true;
	}
	return false;
}

bool credential_of_service(struct arena *a, const struct credential_spec *c)
{
	const char *host;
	uint16_t port;
	struct err e;

	return c->hosts.n && credential_host(a, c, c->hosts.v[0], &host, &port, &e) == 0 &&
	       str_eq(host, "host.brig.internal");
}

int credentials_declare(struct spec *s, const char *name, const char *host, struct err *e)
{
	struct credential_spec c = { .slot = SLOT_HEADER,
				     .field = "Authorization",
				     .prefix = "Bearer ",
				     .from = FROM_ENVIRONMENT };

	if (!env_name_valid(name))
		return err_set(e, ERR_USAGE, EINVAL, "'%.60s' is not a name of a variable", name);
	if (credential_find(&s->credentials, name))
		return err_set(e, ERR_USAGE, EEXIST, "credential '%.60s' twice", name);
	c.name = arena_strdup(s->arena, name);
	if (!c.name || list_add_string(s->arena, &c.hosts, host, e) < 0 ||
	    list_add_string(s->arena, &c.source, name, e) < 0)
		return err_nomem(e);
	s->origin[FIELD_CREDENTIALS] = ORIGIN_API;
	return credentials_add(s->arena, &s->credentials, &c, e);
}

/* --- reading --- */

/* One text or a list of them. */
static int read_texts(struct arena *a, const struct source *src, const struct node *n,
		      struct strlist *ret, struct err *e)
{
	if (!n)
		return 0;
	if (n->kind == NODE_SCALAR)
		return list_add_string(a, ret, n->text, e);
	if (brigyaml_want(src, n, NODE_LIST, e) < 0)
		return -e->code;
	for (const struct node *c = n->first; c; c = c->next)
		if (brigyaml_want(src, c, NODE_SCALAR, e) < 0 ||
		    list_add_string(a, ret, c->text, e) < 0)
			return -e->code;
	return 0;
}

static int read_hosts(struct spec *s, const struct source *src, const struct node *n,
		      struct credential_spec *c, struct err *e)
{
	const struct node *host = brigyaml_member(n, "host");
	const char *name;
	uint16_t port;

	if (host)
		c->hosts = (struct strlist){ 0 };
	if (read_texts(s->arena, src, host, &c->hosts, e) < 0)
		return -e->code;
	if (!c->hosts.n && !brigyaml_member(n, "token_url")) {
		(void)node_error(src->name, n, e, "'host' is missing");
		return err_hint(e, "a credential is bound to the hosts it may be sent to");
	}
	for (size_t i = 0; i < c->hosts.n; i++)
		if (credential_host(s->arena, c, c->hosts.v[i], &name, &port, e) < 0)
			return read_failed(src, host, e);
	return 0;
}

static int read_methods(struct spec *s, const struct source *src, const struct node *n,
			struct credential_spec *c, struct err *e)
{
	const struct node *methods = brigyaml_member(n, "methods"),
			  *paths = brigyaml_member(n, "paths");

	if (paths)
		c->paths = (struct strlist){ 0 };
	if (read_texts(s->arena, src, methods, &c->methods, e) < 0 ||
	    read_texts(s->arena, src, paths, &c->paths, e) < 0)
		return -e->code;
	for (size_t i = 0; i < c->methods.n; i++)
		if (!method_valid(c->methods.v[i]))
			return node_error(src->name, methods, e, "'%.40s' is not a method",
					  c->methods.v[i]);
	for (size_t i = 0; i < c->paths.n; i++)
		if (path_prefix_check(c->paths.v[i], e) < 0)
			return read_failed(src, paths, e);
	return 0;
}

static bool credentials_is_token(const char *s)
{
	return *s && strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$"
			       "%&'*+-.^_`|~") == strlen(s);
}

/* Fields that frame or route the request; their value is not for anybody to inject. */
static bool is_structural(const char *name)
{
	static const char *const names[] = { "host",       "content-length",   "transfer-encoding",
					     "connection", "upgrade",          "te",
					     "trailer",    "content-encoding", "expect",
					     "cookie",     "keep-alive",       NULL };

	for (size_t i = 0; names[i]; i++)
		if (str_starts_nocase(name, names[i]) && strlen(name) == strlen(names[i]))
			return true;
	return str_starts_nocase(name, "proxy-");
}

static int check_field(const struct source *src, const struct node *m, enum credential_slot slot,
		       const char *name, struct err *e)
{
	if (slot == SLOT_SIGV4 && !str_eq(name, "id") && !str_eq(name, "secret") &&
	    !str_eq(name, "token"))
		return node_error(src->name, m, e, "sigv4: id, secret or token, not '%.60s'", name);
	if (slot == SLOT_BASIC ? str_has_control(name) || strchr(name, ':')
			       : !credentials_is_token(name))
		return node_error(src->name, m, e, "'%.60s' is not a name", name);
	if (slot == SLOT_HEADER && is_structural(name))
		return node_error(src->name, m, e, "nothing can be injected into the field '%.60s'",
				  name);
	return 0;
}

/* Of several headers each may hold it. */
static int read_field(struct spec *s, const struct source *src, const struct node *m,
		      struct credential_spec *c, struct err *e)
{
	struct strlist names = { 0 };

	if (c->slot != SLOT_HEADER)
		return read_text(src, m, &c->field, e) < 0
			       ? -e->code
			       : check_field(src, m, c->slot, c->field, e);
	if (read_texts(s->arena, src, m, &names, e) < 0)
		return -e->code;
	if (!names.n)
		return node_error(src->name, m, e, "header: the name of a field");
	for (size_t i = 0; i < names.n; i++)
		if (check_field(src, m, c->slot, names.v[i], e) < 0)
			return -e->code;
	c->field = names.v[0];
	c->headers = (struct strlist){ .v = names.v + 1, .n = names.n - 1 };
	return 0;
}

/* Alone the first of them is the slot; beside another slot all of them are further places. */
static int read_query(struct spec *s, const struct source *src, const struct node *n, bool beside,
		      struct credential_spec *c, struct err *e)
{
	const struct node *m = brigyaml_member(n, "query");

	if (!m)
		return 0;
	if (read_texts(s->arena, src, m, &c->query, e) < 0)
		return -e->code;
	for (size_t i = 0; i < c->query.n; i++)
		if (!credentials_is_token(c->query.v[i]))
			return node_error(src->name, m, e, "'%.60s' is not a name", c->query.v[i]);
	if (!c->query.n)
		return node_error(src->name, m, e, "query: the names of its parameters");
	if (!beside) {
		c->slot = SLOT_QUERY;
		c->field = c->query.v[0];
		c->query.v++;
		c->query.n--;
	}
	return 0;
}

static int read_prefix(struct spec *s, const struct source *src, const struct node *prefix,
		       struct credential_spec *c, struct err *e)
{
	if (prefix && c->slot != SLOT_HEADER)
		return node_error(src->name, prefix, e, "a prefix belongs to a header");
	/* "Bearer " is how Authorization is used; other fields hold the bare value. */
	if (!c->prefix)
		c->prefix = str_starts_nocase(c->field, "authorization") ? "Bearer " : "";
	if (prefix && read_text(src, prefix, &c->prefix, e) < 0)
		return -e->code;
	if (str_has_control(c->prefix) || strlen(c->prefix) > 64)
		return node_error(src->name, prefix, e, "not a prefix of a header value");
	c->prefix = arena_strdup(s->arena, c->prefix);
	c->field = arena_strdup(s->arena, c->field);
	return c->prefix && c->field ? 0 : err_nomem(e);
}

/* The one that is written; NULL: none, and then it may be the service's. */
static int find_slot(const struct source *src, const struct node *n, const struct node **ret,
		     enum credential_slot *slot, struct err *e)
{
	static const struct {
		const char *key;
		enum credential_slot slot;
	} keys[] = { { "header", SLOT_HEADER },
		     { "cookie", SLOT_COOKIE },
		     { "basic", SLOT_BASIC },
		     { "sigv4", SLOT_SIGV4 } };

	*ret = NULL;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct node *m = brigyaml_member(n, keys[i].key);

		if (m && *ret)
			return node_error(src->name, m, e,
					  "one of header, cookie, basic and sigv4, not two");
		if (m) {
			*ret = m;
			*slot = keys[i].slot;
		}
	}
	return 0;
}

static int read_slot(struct spec *s, const struct source *src, const struct node *n,
		     struct credential_spec *c, struct err *e)
{
	bool known = c->field != NULL; /* of a service */
	enum credential_slot slot = SLOT_HEADER;
	const struct node *at;

	if (find_slot(src, n, &at, &slot, e) < 0)
		return -e->code;
	if (at || !known) {
		c->slot = slot;
		c->field = "Authorization";
		c->prefix = NULL;
		c->headers = (struct strlist){ 0 };
	}
	if ((at && read_field(s, src, at, c, e) < 0) ||
	    read_query(s, src, n, at != NULL || known, c, e) < 0)
		return -e->code;
	return read_prefix(s, src, brigyaml_member(n, "prefix"), c, e);
}

/* Can it be a password of Basic, which is all that git sends? */
static bool takes_basic(const struct credential_spec *c)
{
	bool is = c->slot == SLOT_BASIC ||
		  (c->slot == SLOT_HEADER && strcasecmp(c->field, "authorization") == 0);

	for (size_t i = 0; i < c->headers.n; i++)
		is |= strcasecmp(c->headers.v[i], "authorization") == 0;
	return is;
}

/* At hosts of somebody's own git goes to these. */
static int git_anywhere(struct spec *s, struct credential_spec *c, struct err *e)
{
	const char *at = c->git ? strchr(c->git, '@') : NULL;

	if (!at)
		return 0;
	c->git = arena_strndup(s->arena, c->git, (size_t)(at - c->git));
	return c->git ? 0 : err_nomem(e);
}

static int read_git(struct spec *s, const struct source *src, const struct node *n,
		    struct credential_spec *c, struct err *e)
{
	static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789._-";
	const struct node *m = brigyaml_member(n, "git");
	const char *user = NULL, *host;

	if (brigyaml_member(n, "host") && git_anywhere(s, c, e) < 0)
		return -e->code;
	if (m && read_text(src, m, &user, e) < 0)
		return -e->code;
	if (!takes_basic(c))
		c->git = NULL;
	if (!user)
		return 0;
	host = user + strspn(user, signs);
	if (host == user || (*host && (*host != '@' || host_check(host + 1, e) < 0)))
		return node_error(src->name, m, e, "git: USER or USER@HOST");
	if (!takes_basic(c)) {
		(void)node_error(src->name, m, e,
				 "git sends a password, and this is no place for one");
		return err_hint(e, "header: [%.60s, Authorization]", c->field);
	}
	c->git = arena_strdup(s->arena, user);
	return c->git ? 0 : err_nomem(e);
}

/* What the table says of a service, for what is not written. */
static int read_service(struct spec *s, const struct source *src, const struct node *n,
			struct credential_spec *c, struct err *e)
{
	const struct node *m = brigyaml_member(n, "service");
	const struct service *row, *of = service_of_variable(n->key);
	const char *name = NULL, *near;

	if (!m || read_text(src, m, &name, e) < 0)
		return m ? -e->code : 0;
	row = service_find(name);
	if (row)
		return credential_of_row(s->arena, of && str_eq(of->name, name) ? of : row, c, e);
	(void)node_error(src->name, m, e, "unknown service '%.60s'", name);
	near = service_nearest(name);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig schema lists them; host and header say it by hand");
}

static int read_source(struct spec *s, const struct source *src, const struct node *n,
		       struct credential_spec *c, struct err *e)
{
	static const char *const keys[] = { "env", "file", "command", NULL };
	const struct node *from = brigyaml_member(n, "from"), *m;
	const char *path;

	c->from = FROM_ENVIRONMENT;
	if (!from)
		return list_add_string(s->arena, &c->source, c->name, e);
	if (from->kind == NODE_SCALAR && str_eq(from->text, "nothing") && token_urls_of(c)) {
		c->from = FROM_COMMAND; /* of no words */
		return 0;
	}
	if (brigyaml_want(src, from, NODE_MAP, e) < 0 ||
	    read_only_keys(src, from, keys, "from", e) < 0)
		return -e->code;
	m = from->first;
	if (!m || m->next || m->kind == NODE_NULL)
		return node_error(src->name, from, e, "from: one of env, file and command");
	c->from = str_eq(m->key, "env")    ? FROM_ENVIRONMENT
		  : str_eq(m->key, "file") ? FROM_FILE
					   : FROM_COMMAND;
	if (c->from == FROM_COMMAND && brigyaml_want(src, m, NODE_LIST, e) < 0)
		return err_hint(e, "a list of words, run without a shell: [pass, show, github]");
	if (c->from == FROM_FILE)
		return read_path(s, src, m, &path, e) < 0
			       ? -e->code
			       : list_add_string(s->arena, &c->source, path, e);
	if (read_texts(s->arena, src, m, &c->source, e) < 0)
		return -e->code;
	if (!c->source.n || !*c->source.v[0] ||
	    (c->from == FROM_ENVIRONMENT && !env_name_valid(c->source.v[0])))
		return node_error(src->name, m, e, "%s: not something to read a value from",
				  m->key);
	return 0;
}

static int check_token_url(const struct source *src, const struct node *m, const char *text,
			   struct err *e)
{
	struct url u;

	if (url_parse(text, &u, e) < 0)
		return read_failed(src, m, e);
	if (!u.tls || strchr(u.target, '?') || strchr(u.target, '%'))
		return node_error(src->name, m, e,
				  "token_url: https://HOST[:PORT]/PATH, without a query");
	return 0;
}

static int read_tokens(struct spec *s, const struct source *src, const struct node *n,
		       struct credential_spec *c, struct err *e)
{
	const struct node *m = brigyaml_member(n, "token_url");
	struct login_file *l = m ? arena_alloc(s->arena, sizeof(*l)) : NULL;

	if (!m)
		return 0;
	if (!l)
		return err_nomem(e);
	*l = (struct login_file){ 0 };
	if (read_texts(s->arena, src, m, &l->token_urls, e) < 0)
		return -e->code;
	if (!l->token_urls.n || l->token_urls.n > TOKEN_URLS_MAX)
		return node_error(src->name, m, e, "token_url: one address, or up to %d",
				  TOKEN_URLS_MAX);
	for (size_t i = 0; i < l->token_urls.n; i++)
		if (check_token_url(src, m, l->token_urls.v[i], e) < 0)
			return -e->code;
	c->login = l;
	if (c->slot == SLOT_SIGV4 || c->in_path)
		return node_error(src->name, m, e,
				  "tokens go into a header, a cookie, a parameter or basic");
	return 0;
}

/* Back to where it came from, and nowhere else. */
static int read_renew(struct spec *s, const struct source *src, const struct node *n,
		      struct credential_spec *c, struct err *e)
{
	const struct node *m = brigyaml_member(n, "renew");
	struct login_file *l;
	const char *word = NULL;

	if (!m)
		return 0;
	if (read_text(src, m, &word, e) < 0)
		return -e->code;
	if (!str_eq(word, "true"))
		return str_eq(word, "false") ? 0
					     : node_error(src->name, m, e, "renew: true or false");
	if (c->from != FROM_FILE || !token_urls_of(c))
		return node_error(src->name, m, e,
				  "renew: for a credential from a file with a token_url");
	l = arena_alloc(s->arena, sizeof(*l));
	if (!l)
		return err_nomem(e);
	*l = *c->login;
	l->keeps = true;
	c->login = l;
	return 0;
}

/* Further places for {NAME}: the path, and the parameters that `query` names. */
static int read_also(struct spec *s, const struct source *src, const struct node *n,
		     struct credential_spec *c, struct err *e)
{
	const struct node *also = brigyaml_member(n, "also"),
			  *streaming = brigyaml_member(n, "streaming");
	struct strlist places = { 0 };
	const char *word = NULL;

	if (also && read_texts(s->arena, src, also, &places, e) < 0)
		return -e->code;
	for (size_t i = 0; i < places.n; i++) {
		c->in_path |= str_eq(places.v[i], "path");
		if (str_eq(places.v[i], "query") && c->slot != SLOT_QUERY && !c->query.n) {
			(void)node_error(src->name, also, e,
					 "also: which parameters of the query?");
			return err_hint(e, "name them: query: [access_token]");
		}
		if (!str_eq(places.v[i], "path") && !str_eq(places.v[i], "query"))
			return node_error(src->name, also, e,
					  "also: the further places are 'path' and 'query'");
	}
	if (streaming && read_text(src, streaming, &word, e) < 0)
		return -e->code;
	c->delayed = word && str_eq(word, "delayed");
	if (word && !c->delayed)
		return node_error(src->name, streaming, e, "streaming: the only word is 'delayed'");
	return 0;
}

const struct credential_key credential_keys[] = {
	{ "service", "an API that brig knows: its hosts and the place of its key, where not given",
	  CREDENTIAL_SERVICE },
	{ "host", "where it may go: HOST[:PORT], one or several", CREDENTIAL_TEXTS },
	{ "header", "the header it goes into, or one of several; Authorization if not given",
	  CREDENTIAL_TEXTS },
	{ "prefix", "what comes before it there; 'Bearer ' for Authorization", CREDENTIAL_TEXT },
	{ "cookie", "instead of a header: the cookie it is", CREDENTIAL_TEXT },
	{ "basic", "instead of a header: the password of this user", CREDENTIAL_TEXT },
	{ "sigv4", "instead of a header: the id, secret or token of a key that signs (AWS)",
	  CREDENTIAL_TEXT },
	{ "query", "parameters of the query that may hold it", CREDENTIAL_TEXTS },
	{ "methods", "only for these methods", CREDENTIAL_TEXTS },
	{ "paths", "only below these paths", CREDENTIAL_TEXTS },
	{ "git", "the user that git inside names at these hosts, with it as the password",
	  CREDENTIAL_TEXT },
	{ "token_url",
	  "where it logs in (OAuth): it goes there alone, and the tokens it gets to host",
	  CREDENTIAL_TEXTS },
	{ "renew", "true: a refresh token that replaces it is written into its file",
	  CREDENTIAL_FLAG },
	{ "also", "further places where {NAME} is filled in: path, query", CREDENTIAL_TEXTS },
	{ "from", "where the value comes from; the variable NAME if not given", CREDENTIAL_SOURCE },
	{ "streaming", "delayed: answers are held back until they are looked through",
	  CREDENTIAL_TEXT },
	{ NULL, NULL, CREDENTIAL_TEXT },
};
enum { KEYS_MAX = ARRAY_LEN(credential_keys) };

static int read_one(struct spec *s, const struct source *src, const struct node *n,
		    struct credential_spec *c, struct err *e)
{
	const char *keys[KEYS_MAX] = { NULL };

	for (size_t i = 0; credential_keys[i].name; i++)
		keys[i] = credential_keys[i].name;
	if (!env_name_valid(n->key))
		return node_key_error(src->name, n, e, "'%.60s' is not the name of a variable",
				      n->key);
	if (brigyaml_want(src, n, NODE_MAP, e) < 0 ||
	    read_only_keys(src, n, keys, "a credential", e) < 0)
		return -e->code;
	c->name = arena_strdup(s->arena, n->key);
	if (!c->name)
		return err_nomem(e);
	if (read_service(s, src, n, c, e) < 0 || read_slot(s, src, n, c, e) < 0 ||
	    read_hosts(s, src, n, c, e) < 0 || read_methods(s, src, n, c, e) < 0 ||
	    read_git(s, src, n, c, e) < 0 || read_also(s, src, n, c, e) < 0 ||
	    read_tokens(s, src, n, c, e) < 0 || read_source(s, src, n, c, e) < 0)
		return -e->code;
	return read_renew(s, src, n, c, e);
}

int credentials_read(struct spec *s, const struct source *src, const struct node *map,
		     struct err *e)
{
	struct credentiallist kept = s->credentials;
	bool counts;

	if (map->kind != NODE_NULL && brigyaml_want(src, map, NODE_MAP, e) < 0)
		return -e->code;
	counts = spec_list_begin(s, FIELD_CREDENTIALS, src->origin);
	if (!counts)
		s->credentials = (struct credentiallist){ 0 };
	for (const struct node *n = map->first; n; n = n->next) {
		struct credential_spec c = { 0 };

		if (read_one(s, src, n, &c, e) < 0)
			return -e->code;
		if (credential_find(&s->credentials, c.name))
			return node_key_error(src->name, n, e, "'%.60s' is written twice", c.name);
		if (credentials_add(s->arena, &s->credentials, &c, e) < 0)
			return read_failed(src, n, e);
	}
	if (!counts)
		s->credentials = kept;
	return read_where(s, src, FIELD_CREDENTIALS, map, e);
}

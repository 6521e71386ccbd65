/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/oauth/oauth.h"

#include <string.h>
#include <sys/mman.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "egress/oauth/oauth_internal.h"
#include "model/known/login_file.h"

#define SLOT ((size_t)SECRET_MAX + 1)

/* --- making --- */

static int add_endpoint(struct oauth *t, size_t login, const char *text, struct err *e)
{
	struct oauth_endpoint *end = &t->ends[t->n_ends];
	struct url u;

	if (t->n_ends == OAUTH_ENDPOINTS)
		return err_set(e, ERR_CONFIG, E2BIG, "token_url: more than %d of one run",
			       OAUTH_ENDPOINTS);
	if (url_parse(text, &u, e) < 0)
		return -e->code;
	if (host_parse(egress_text(u.host, strlen(u.host)), &end->host) != HOST_OK)
		return err_set(e, ERR_CONFIG, EINVAL, "token_url: '%.100s' is not a host name",
			       u.host);
	end->port = u.port;
	end->path = u.target;
	end->login = login;
	t->n_ends++;
	return 0;
}

static int find_endpoints(struct oauth *t, struct err *e)
{
	for (size_t i = 0; i < t->specs->n; i++) {
		const struct strlist *l = token_urls_of(&t->specs->v[i]);

		for (size_t k = 0; l && k < l->n; k++)
			if (add_endpoint(t, i, l->v[k], e) < 0)
				return -e->code;
	}
	return 0;
}

/* Later the worker can lock no page. */
static int take_room(struct oauth *t, const struct secret *secrets, struct err *e)
{
	size_t n = OAUTH_MAX * SLOT;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return err_nomem(e);
	t->room = p;
	if (mlock(p, n) < 0) {
		(void)err_sys(e, "cannot lock memory for tokens");
		return err_hint(e, "raise the limit: ulimit -l");
	}
	(void)madvise(p, n, MADV_DONTDUMP);
	for (size_t i = 0; i < OAUTH_MAX; i++)
		t->v[i].room = p + i * SLOT;
	t->n_plan = t->n_all = t->specs->n;
	t->all = calloc(t->n_plan + OAUTH_MAX, sizeof(*t->all));
	if (!t->all)
		return err_nomem(e);
	memcpy(t->all, secrets, t->n_plan * sizeof(*t->all));
	return 0;
}

int oauth_new(const struct credentiallist *specs, const struct secret *secrets, struct creds *creds,
	      struct oauth **ret, struct err *e)
{
	CLEANUP(oauth) struct oauth *t = calloc(1, sizeof(*t));

	*ret = NULL;
	if (!t)
		return err_nomem(e);
	t->specs = specs;
	t->creds = creds;
	if (find_endpoints(t, e) < 0)
		return -e->code;
	if (!t->n_ends)
		return 0;
	if (take_room(t, secrets, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(t);
	return 0;
}

struct oauth *oauth_free(struct oauth *t)
{
	if (!t)
		return NULL;
	if (t->room) {
		explicit_bzero(t->room, OAUTH_MAX * SLOT);
		(void)munmap(t->room, OAUTH_MAX * SLOT);
	}
	free(t->all);
	free(t);
	return NULL;
}

const struct secret *oauth_secrets(const struct oauth *t, size_t *n)
{
	*n = t->n_all;
	return t->all;
}

/* --- endpoints --- */

int oauth_endpoint(const struct oauth *t, const struct cred_target *to, struct egress_text target)
{
	int found = OAUTH_NONE;

	for (size_t i = 0; t && i < t->n_ends; i++) {
		enum token_path is;

		if (!host_eq(&t->ends[i].host, to->host))
			continue;
		is = token_path(t->ends[i].path, target);
		if (is == TOKEN_PATH_SAME && to->verified && t->ends[i].port == to->port)
			return (int)i;
		if (is != TOKEN_PATH_OTHER)
			found = OAUTH_ODD;
	}
	return found;
}

/* Several credentials may log in at one endpoint: a refresh token, the client's secret. */
static bool logs_in(const struct oauth *t, int endpoint, size_t login)
{
	const struct oauth_endpoint *at = &t->ends[endpoint];

	for (size_t i = 0; i < t->n_ends; i++)
		if (t->ends[i].login == login && t->ends[i].port == at->port &&
		    host_eq(&t->ends[i].host, &at->host) && str_eq(t->ends[i].path, at->path))
			return true;
	return false;
}

const struct secret *oauth_value(const struct oauth *t, int endpoint, struct egress_text text,
				 uint64_t *used)
{
	if (!cred_is_placeholder(text))
		return NULL;
	for (size_t i = 0; i < t->n_plan; i++)
		if (t->all[i].placeholder && logs_in(t, endpoint, i) &&
		    memcmp(t->all[i].placeholder, text.p, text.n) == 0) {
			*used |= (uint64_t)1 << i;
			return &t->all[i];
		}
	for (size_t i = 0; i < OAUTH_MAX; i++)
		if (t->v[i].used && logs_in(t, endpoint, t->v[i].login) &&
		    memcmp(t->v[i].placeholder, text.p, text.n) == 0) {
			*used |= (uint64_t)1 << t->v[i].login;
			return &t->v[i].secret;
		}
	return NULL;
}

/* --- keeping --- */

static void list_all(struct oauth *t)
{
	t->n_all = t->n_plan;
	for (size_t i = 0; i < OAUTH_MAX; i++)
		if (t->v[i].used)
			t->all[t->n_all++] = t->v[i].secret;
}

/* What has expired is of no use to anybody. */
static struct oauth_token *free_slot(struct oauth *t)
{
	for (size_t i = 0; i < OAUTH_MAX; i++)
		if (!t->v[i].used)
			return &t->v[i];
	for (size_t i = 0; i < OAUTH_MAX; i++)
		if (t->v[i].until && t->v[i].until < t->now) {
			creds_forget(t->creds, t->v[i].cred, &t->v[i].secret);
			explicit_bzero(t->v[i].room, SLOT);
			t->v[i].used = false;
			return &t->v[i];
		}
	return NULL;
}

bool oauth_has_room(const struct oauth *t, int64_t now)
{
	size_t room = 0;

	for (size_t i = 0; i < OAUTH_MAX; i++)
		room += !t->v[i].used || (t->v[i].until && t->v[i].until < now);
	return room >= OAUTH_OF_ONE;
}

/* The credential of the same endpoint that says where tokens go; a refresh token goes there alone,
 * and so does each token where none says more. */
static size_t holder(const struct oauth *t, int endpoint, enum token_name is)
{
	for (size_t i = 0; is != TOKEN_REFRESH && i + 1 < t->n_plan; i++)
		if (logs_in(t, endpoint, i) && !token_urls_of(&t->specs->v[i + 1]) &&
		    str_eq(t->specs->v[i].name, t->specs->v[i + 1].name))
			return i + 1;
	return t->ends[endpoint].login;
}

static const char *known(struct oauth *t, struct egress_text value)
{
	for (size_t i = 0; i < t->n_all; i++)
		if (t->all[i].len == value.n && memcmp(t->all[i].value, value.p, value.n) == 0)
			return t->all[i].placeholder;
	return NULL;
}

/* The placeholder that stands for it from now on; NULL and *e: it may not pass. */
static const char *keep(struct oauth *t, int endpoint, enum token_name is, int64_t until,
			struct egress_text value, struct oauth_news *news, struct err *e)
{
	const char *old = known(t, value);
	struct oauth_token *slot;

	if (old)
		return old;
	slot = free_slot(t);
	if (!slot)
		return (void)err_refuse(e, ERR_CONFIG, ENOSPC,
					"a run has so many at a time: start another one",
					"more than %d tokens", OAUTH_MAX),
		       NULL;
	if (cred_placeholder(slot->placeholder, e) < 0)
		return NULL;
	memcpy(slot->room, value.p, value.n);
	slot->room[value.n] = '\0';
	slot->login = t->ends[endpoint].login;
	slot->cred = holder(t, endpoint, is);
	slot->until = is == TOKEN_REFRESH ? 0 : until;
	slot->secret = (struct secret){ .name = t->specs->v[slot->cred].name,
					.value = slot->room,
					.len = value.n,
					.placeholder = slot->placeholder };
	if (creds_learn(t->creds, slot->cred, &slot->secret, e) < 0)
		return NULL;
	slot->used = true;
	list_all(t);
	news->n++;
	if (is == TOKEN_REFRESH)
		news->renews = &slot->secret;
	return slot->placeholder;
}

/* Part of it was another value of the run's. */
static bool holds_placeholder(const struct oauth *t, struct egress_text value)
{
	for (size_t i = 0; i < t->n_all; i++)
		if (t->all[i].placeholder &&
		    memmem(value.p, value.n, t->all[i].placeholder, strlen(t->all[i].placeholder)))
			return true;
	return false;
}

static bool is_word(struct egress_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (!((t.p[i] | 32) >= 'a' && (t.p[i] | 32) <= 'z') && t.p[i] != '_')
			return false;
	return t.n < SECRET_MIN;
}

int token_seal(struct oauth *t, int endpoint, struct egress_text name, struct egress_text value,
	       int64_t until, const char **instead, struct oauth_news *news, struct err *e)
{
	enum token_name is = token_name(name);

	if (is == TOKEN_NO || !value.n || cred_is_placeholder(value) ||
	    (is == TOKEN_OTHER && is_word(value)))
		return 0;
	if (!token_is_secret(value.p, value.n) || holds_placeholder(t, value))
		return err_refuse(
			e, ERR_UNAVAILABLE, EPERM,
			"brig keeps tokens of 16 to 4096 signs that no other text could be",
			"the '%.*s' in it has %zu signs, and cannot be told from other "
			"text",
			(int)(name.n < 40 ? name.n : 40), name.p, value.n);
	*instead = keep(t, endpoint, is, until, value, news, e);
	return *instead ? 0 : -e->code;
}

/* --- both ways --- */

bool oauth_body(const struct oauth *t, int endpoint, struct egress_text body, struct buf *sent,
		struct buf *said, uint64_t *used)
{
	size_t blank = 0;

	*used = 0;
	while (blank < body.n && (unsigned char)body.p[blank] <= ' ')
		blank++;
	if (blank == body.n || body.p[blank] != '{' ||
	    token_json_body(t, endpoint, body, sent, said, used) < 0) {
		sent->len = said->len = 0;
		*used = 0;
		token_form_body(t, endpoint, body, sent, said, used);
	}
	return !sent->failed && !said->failed;
}

int oauth_answer(struct oauth *t, int endpoint, int64_t now, struct egress_text body,
		 struct buf *out, struct oauth_news *news, struct err *e)
{
	size_t blank = 0;
	int r;

	*news = (struct oauth_news){ .login = t->ends[endpoint].login };
	t->now = now;
	while (blank < body.n && (unsigned char)body.p[blank] <= ' ')
		blank++;
	if (blank == body.n)
		return 0;
	if (body.p[blank] == '{' || body.p[blank] == '[')
		r = token_json_answer(t, endpoint, body, out, news, e);
	else
		r = token_form_answer(t, endpoint, body, out, news, e);
	return r < 0 ? r : out->failed ? err_nomem(e) : 0;
}

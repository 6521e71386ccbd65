/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/budget/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "egress/budget/price.h"
#include "egress/rules/path.h"
#include "model/settings/rule.h"

#define ARENA_MOST ((size_t)1 << 20)
#define HOSTS_MAX 1024
#define NONE UINT64_MAX

struct limit_pair {
	uint64_t tokens, cost; /* NONE: no limit */
};

struct limit_row {
	const char *host; /* "*.name" for what lies below it */
	struct limit_pair most;
};

/* A host that calls have gone to. */
struct budget_host {
	struct host host;
	struct limit_pair most, used;
	uint64_t most_in; /* that one call has had */
	bool blind;       /* it let an answer go that nobody can count */
	struct budget_host *next;
};

struct budget {
	struct arena *arena;
	struct limit_pair most, used;
	struct limit_row *rows;
	size_t n_rows;
	const char **more; /* hosts that were declared */
	size_t n_more;
	struct price_list prices;
	struct budget_host *hosts;
	size_t n_hosts;
	unsigned calls; /* under way */
};

struct budget_call {
	struct budget *b;
	struct budget_host *at;
	bool limited, costs; /* some limit holds for it; one of money */
	bool reads;          /* the request's body is JSON that is read */
	bool answers;        /* a head came that says it was done */
	bool counts;         /* its body is read */
	bool charged;
	bool named;                      /* by the request, a model whose price is known */
	char odd[USAGE_MODEL_MAX + 1];   /* the first it named whose price is not */
	const struct model_price *asked; /* the dearest of those it named */
	struct usage_reader up, down;
};

/* ---- settings ---- */

static int budget_refuse(const char *text, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL,
			  "'api.example.org tokens=200k', 'api.example.org cost=1.50', or both",
			  "egress.budgets: '%.100s' is not a host and its budget", text);
}

static int read_limit(const char *word, struct limit_pair *to)
{
	if (strncmp(word, "tokens=", 7) == 0)
		return num_thousands(word + 7, &to->tokens);
	if (strncmp(word, "cost=", 5) != 0 || num_milli(word + 5, &to->cost) < 0 ||
	    to->cost > NONE / BUDGET_NANO)
		return -EINVAL;
	to->cost *= BUDGET_NANO;
	return 0;
}

static int read_row(struct arena *a, const char *text, struct limit_row *ret, struct err *e)
{
	size_t n = strcspn(text, " ");
	const char *p = text + n;

	ret->most = (struct limit_pair){ NONE, NONE };
	if (rule_host_alone(a, text, n, &ret->host, e) < 0)
		return err_wrap(e, "egress.budgets");
	while (*(p += strspn(p, " "))) {
		char word[48];

		n = strcspn(p, " ");
		if (n >= sizeof(word))
			return budget_refuse(text, e);
		memcpy(word, p, n);
		word[n] = '\0';
		if (read_limit(word, &ret->most) < 0)
			return budget_refuse(text, e);
		p += n;
	}
	return ret->most.tokens == NONE && ret->most.cost == NONE ? budget_refuse(text, e) : 0;
}

static int read_settings(struct budget *b, const struct egress_spec *s, struct err *e)
{
	b->most.tokens = s->tokens ? s->tokens : NONE;
	b->most.cost = s->cost ? s->cost * BUDGET_NANO : NONE;
	for (size_t i = 0; i < s->budgets.n; i++) {
		struct limit_row *slot = ARENA_PUSH(b->arena, b->rows, b->n_rows);

		if (!slot)
			return err_nomem(e);
		if (read_row(b->arena, s->budgets.v[i], slot, e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->models.n; i++) {
		const char **slot = ARENA_PUSH(b->arena, b->more, b->n_more);

		if (!slot)
			return err_nomem(e);
		if (rule_host_alone(b->arena, s->models.v[i], strlen(s->models.v[i]), slot, e) < 0)
			return err_wrap(e, "egress.models");
	}
	return price_list_read(b->arena, &s->prices, &b->prices, e);
}

bool budget_limits(const struct egress_spec *s)
{
	return s->tokens || s->cost || s->budgets.n;
}

/* Would TLS of a model's host pass unopened? A wildcard lets any name below it do so. */
static bool unopened(const struct budget *b, const char *passed)
{
	const char *below = passed[0] == '*' ? passed + 1 : NULL;
	struct host h;

	for (size_t i = 0; model_hosts[i]; i++) {
		const char *star = strchr(model_hosts[i], '*');
		const char *name = star ? star + 1 : model_hosts[i];
		size_t n = strlen(name), m = below ? strlen(below) : 0;

		if (below && n >= m && strcasecmp(name + n - m, below) == 0)
			return true;
	}
	if (host_parse(egress_text(passed, strlen(passed)), &h) != HOST_OK)
		return false;
	return budget_is_model(b, &h);
}

static int check_opened(const struct budget *b, const struct egress_spec *s, struct err *e)
{
	static const char hint[] = "take the budget away, or let the door read that host";

	if (!budget_limits(s))
		return 0;
	if (!s->inspect)
		return err_refuse(e, ERR_CONFIG, EINVAL, hint,
				  "a budget of tokens or cost cannot be kept with egress.inspect "
				  "false: the door reads no answer");
	for (size_t i = 0; i < s->passthrough.n; i++)
		if (unopened(b, s->passthrough.v[i]))
			return err_refuse(e, ERR_CONFIG, EINVAL, hint,
					  "a budget of tokens or cost cannot be kept: %.100s is in "
					  "egress.passthrough, and models are behind it",
					  s->passthrough.v[i]);
	return 0;
}

int budget_new(const struct egress_spec *s, struct budget **ret, struct err *e)
{
	CLEANUP(budget) struct budget *b = calloc(1, sizeof(*b));

	if (!b || !(b->arena = arena_new(ARENA_MOST)))
		return err_nomem(e);
	if (read_settings(b, s, e) < 0 || check_opened(b, s, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(b);
	return 0;
}

struct budget *budget_free(struct budget *b)
{
	struct budget_host *next;

	if (!b)
		return NULL;
	for (struct budget_host *h = b->hosts; h; h = next) {
		next = h->next;
		free(h);
	}
	(void)arena_free(b->arena);
	free(b);
	return NULL;
}

/* ---- which calls ---- */

static bool is_like(const char *pattern, const char *name)
{
	const char *star = strchr(pattern, '*');
	size_t head = star ? (size_t)(star - pattern) : 0, tail = star ? strlen(star + 1) : 0,
	       n = strlen(name);

	if (!star)
		return str_eq(pattern, name);
	return n > head + tail && strncmp(pattern, name, head) == 0 &&
	       strcmp(name + n - tail, star + 1) == 0;
}

bool budget_is_model(const struct budget *b, const struct host *h)
{
	for (size_t i = 0; i < b->n_more; i++)
		if (host_matches(b->more[i], h))
			return true;
	for (size_t i = 0; model_hosts[i]; i++)
		if (is_like(model_hosts[i], h->name))
			return true;
	return false;
}

/* Nothing of it is read in two ways: no escape but that of a colon, no dots for other folders. */
static bool is_clear_path(struct egress_text p)
{
	for (size_t i = 0; i < p.n; i++) {
		if (p.p[i] == '%' && !(p.n - i > 2 && strncasecmp(p.p + i, "%3a", 3) == 0))
			return false;
		if (p.p[i] == ';' || p.p[i] == '\\' ||
		    (p.p[i] == '/' && i + 1 < p.n && (p.p[i + 1] == '/' || p.p[i + 1] == '.')))
			return false;
	}
	return true;
}

static bool path_ends(struct egress_text p, const char *end)
{
	size_t n = strlen(end);

	if (p.n >= n && memcmp(p.p + p.n - n, end, n) == 0)
		return true;
	/* ":" in its escape */
	return end[0] == ':' && p.n >= n + 2 && strncasecmp(p.p + p.n - n - 2, "%3a", 3) == 0 &&
	       memcmp(p.p + p.n - n + 1, end + 1, n - 1) == 0;
}

static enum model_path path_kind(struct egress_text p)
{
	while (p.n > 1 && p.p[p.n - 1] == '/')
		p.n--;
	if (!is_clear_path(p))
		return MODEL_PATH_OTHER;
	for (const struct model_ending *m = model_endings; m->text; m++)
		if (path_ends(p, m->text))
			return m->is;
	return MODEL_PATH_OTHER;
}

static bool is_reading(struct egress_text method)
{
	static const char *const words[] = { "GET", "HEAD", "OPTIONS", "DELETE" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (method.n == strlen(words[i]) && memcmp(method.p, words[i], method.n) == 0)
			return true;
	return false;
}

static struct budget_host *host_at(struct budget *b, const struct host *host)
{
	struct budget_host *h = b->hosts;

	while (h && !host_eq(&h->host, host))
		h = h->next;
	if (h || b->n_hosts == HOSTS_MAX || !(h = calloc(1, sizeof(*h))))
		return h;
	h->host = *host;
	h->most = (struct limit_pair){ NONE, NONE };
	for (size_t i = 0; i < b->n_rows; i++) {
		const struct limit_row *r = &b->rows[i];

		if (!host_matches(r->host, host))
			continue;
		h->most.tokens = r->most.tokens < h->most.tokens ? r->most.tokens : h->most.tokens;
		h->most.cost = r->most.cost < h->most.cost ? r->most.cost : h->most.cost;
	}
	h->next = b->hosts;
	b->hosts = h;
	b->n_hosts++;
	return h;
}

/* ---- judging ---- */

static void spent_hint(char *out, size_t n, const char *host, const char *what, const char *value)
{
	if (*host)
		(void)snprintf(out, n, "its line of egress.budgets: '%.90s %s=%s'", host, what,
			       value);
	else
		(void)snprintf(out, n, "--egress-%s %s gives the next run more", what, value);
}

/* Is there nothing left? */
static bool spent(struct egress_verdict *v, const struct limit_pair *used,
		  const struct limit_pair *most, const char *host)
{
	char hint[160];
	const char *of = *host ? " of " : "";

	if (used->tokens >= most->tokens) {
		spent_hint(hint, sizeof(hint), host, "tokens", "N");
		return !verdict_deny(v, EGRESS_BUDGET, hint,
				     "the budget%s%s is used up: %llu of %llu tokens", of, host,
				     (unsigned long long)used->tokens,
				     (unsigned long long)most->tokens);
	}
	if (used->cost < most->cost)
		return false;
	spent_hint(hint, sizeof(hint), host, "cost", "USD");
	return !verdict_deny(v, EGRESS_BUDGET, hint,
			     "the budget%s%s is used up: %llu.%03llu of %llu.%03llu USD", of, host,
			     (unsigned long long)(used->cost / BUDGET_NANO / 1000),
			     (unsigned long long)(used->cost / BUDGET_NANO % 1000),
			     (unsigned long long)(most->cost / BUDGET_NANO / 1000),
			     (unsigned long long)(most->cost / BUDGET_NANO % 1000));
}

/* What no answer will count. */
static bool uncountable(const struct budget_request *q, enum model_path kind,
			struct egress_verdict *v)
{
	static const char hint[] = "a run without a budget of tokens or cost may";

	if (q->websocket)
		return !verdict_deny(v, EGRESS_BUDGET, hint,
				     "what goes through a WebSocket to %s cannot be counted, and "
				     "there is a budget",
				     q->host->name);
	if (kind == MODEL_PATH_OTHER && !is_reading(q->method))
		return !verdict_deny(v, EGRESS_BUDGET, hint,
				     "this path of %s says nothing of tokens, and there is a "
				     "budget",
				     q->host->name);
	return false;
}

static bool may_call(const struct budget *b, const struct budget_call *c,
		     const struct budget_request *q, struct egress_verdict *v)
{
	if (spent(v, &b->used, &b->most, "") || spent(v, &c->at->used, &c->at->most, q->host->name))
		return false;
	if (c->at->blind)
		return verdict_deny(v, EGRESS_BUDGET,
				    "have its client ask for usage (OpenAI's streams: "
				    "stream_options.include_usage)",
				    "%s gave an answer that cannot be counted, and there is a "
				    "budget",
				    q->host->name);
	if (q->coded)
		return verdict_deny(v, EGRESS_BUDGET, "send the body uncoded",
				    "a coded request to a model cannot be read, and there is a "
				    "budget");
	if (b->calls < BUDGET_CALLS)
		return true;
	v->retry_after = 2;
	return verdict_deny(v, EGRESS_LIMIT, NULL,
			    "under a budget %d calls of models may be under way at a time",
			    BUDGET_CALLS);
}

static void budget_names(void *arg, const char *model)
{
	struct budget_call *c = arg;
	const struct model_price *p = price_find(&c->b->prices, model);

	if (!p && !c->odd[0])
		(void)snprintf(c->odd, sizeof(c->odd), "%s", *model ? model : "?");
	c->named |= p != NULL;
	if (p && (!c->asked || p->in + p->out > c->asked->in + c->asked->out))
		c->asked = p;
}

/* Where the path says which model it is. */
static void path_names(struct budget_call *c, struct egress_text path)
{
	static const char *const words[] = { "/models/", "/model/", "/deployments/" };
	char name[USAGE_MODEL_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		const char *at = memmem(path.p, path.n, words[i], strlen(words[i]));
		size_t n = 0;

		if (!at)
			continue;
		at += strlen(words[i]);
		while (at + n < path.p + path.n && n < USAGE_MODEL_MAX && !strchr("/:%?", at[n]))
			n++;
		memcpy(name, at, n);
		name[n] = '\0';
		budget_names(c, name);
		return;
	}
}

static bool no_price(const struct budget_call *c, struct egress_verdict *v)
{
	char hint[192];

	(void)snprintf(hint, sizeof(hint), "--set 'egress.prices=%.95s IN OUT' (USD for a million)",
		       c->odd[0] ? c->odd : "MODEL");
	if (!c->odd[0])
		return verdict_deny(v, EGRESS_BUDGET, hint,
				    "the request names no model, and there is a budget of money");
	return verdict_deny(v, EGRESS_BUDGET, hint,
			    "the price of the model '%.95s' is not known, and there is a budget "
			    "of money",
			    c->odd);
}

bool budget_open(struct budget *b, const struct budget_request *q, struct budget_call **ret,
		 struct egress_verdict *v)
{
	struct egress_text path = path_of_target(q->target);
	enum model_path kind;
	struct budget_call *c;
	struct budget_host *at;
	bool limited;

	*ret = NULL;
	if (!budget_is_model(b, q->host))
		return true;
	kind = path_kind(path);
	at = host_at(b, q->host);
	if (!at)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory for another host");
	limited = b->most.tokens != NONE || b->most.cost != NONE || at->most.tokens != NONE ||
		  at->most.cost != NONE;
	if (limited && uncountable(q, kind, v))
		return false;
	if (kind != MODEL_PATH_COUNTED || is_reading(q->method))
		return true;
	c = calloc(1, sizeof(*c));
	if (!c)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
	c->b = b;
	c->at = at;
	c->limited = limited;
	c->costs = b->most.cost != NONE || at->most.cost != NONE;
	c->reads = limited && q->has_body;
	usage_open(&c->up, USAGE_JSON);
	c->up.named = budget_names;
	c->up.arg = c;
	path_names(c, path);
	if ((limited && !may_call(b, c, q, v)) || (c->costs && !q->has_body && !no_price(c, v))) {
		free(c);
		return false;
	}
	b->calls++;
	*ret = c;
	return true;
}

struct budget_call *budget_close(struct budget_call *c)
{
	if (c)
		c->b->calls--;
	free(c);
	return NULL;
}

/* ---- under way ---- */

static bool unread_body(const struct budget_call *c, struct egress_verdict *v)
{
	return verdict_deny(v, EGRESS_BUDGET, NULL,
			    "a request to %s that is not JSON cannot be judged, and there is a "
			    "budget",
			    c->at->host.name);
}

bool budget_up(struct budget_call *c, const char *p, size_t n, bool last, struct egress_verdict *v)
{
	const struct usage *u = &c->up.u;
	bool was = u->ended;

	if (!c->reads)
		return true;
	usage_feed(&c->up, p, n);
	if (last)
		usage_end(&c->up);
	if (c->costs && (c->odd[0] || ((last || (u->ended && !was)) && !c->named)))
		return no_price(c, v);
	if (u->later)
		return verdict_deny(v, EGRESS_BUDGET, "have the answer in the same call",
				    "what %s answers later (background, deferred) cannot be "
				    "counted, and there is a budget",
				    c->at->host.name);
	/* A server that reads on after what no JSON can be would hear of something else. */
	return (!u->bad && (u->ended || !last)) || unread_body(c, v);
}

static bool type_has(struct egress_text type, const char *word)
{
	for (size_t n = strlen(word); type.n >= n; type.p++, type.n--)
		if (strncasecmp(type.p, word, n) == 0)
			return true;
	return false;
}

void budget_answer(struct budget_call *c, int status, struct egress_text type, bool readable)
{
	bool events = type_has(type, "event-stream") && !type_has(type, "amazon");

	c->answers = status >= 200 && status < 300;
	c->counts = c->answers && readable && (events || type_has(type, "json"));
	usage_open(&c->down, events ? USAGE_EVENTS : USAGE_JSON);
}

void budget_down(struct budget_call *c, const char *p, size_t n)
{
	if (c->counts)
		usage_feed(&c->down, p, n);
}

/* ---- charging ---- */

static void budget_add(uint64_t *to, uint64_t n)
{
	*to = n > NONE - 1 - *to ? NONE - 1 : *to + n;
}

/* What was not said is taken for as many tokens as there were bytes, of which no text has more;
 * and of what a model thinks nothing may be shown. A request may go on with what the host has kept
 * of another, so that its own bytes say little. */
static void estimate(const struct budget_call *c, struct usage_sum *s, uint64_t out, uint64_t in)
{
	uint64_t rest = c->counts && c->down.u.out ? c->down.u.since : in;

	if (!c->down.u.in) {
		s->in = out > s->in ? out : s->in;
		s->in = c->at->most_in > s->in ? c->at->most_in : s->in;
	}
	if (rest > BUDGET_UNSAID / 16 || !c->down.u.out)
		budget_add(&s->out, rest > BUDGET_UNSAID ? rest : BUDGET_UNSAID);
}

static void clean_name(char *to, const char *from)
{
	for (; *from; from++)
		*to++ = (char)(*from > 0x20 && *from < 0x7f ? *from : '?');
	*to = '\0';
}

/* By the model that answered: a request is the guest's word. */
static void set_price(struct budget_call *c, const struct usage_sum *s, struct budget_told *ret)
{
	const struct model_price *p = price_find(&c->b->prices, c->down.u.model);

	if (!p && c->down.u.model[0] && c->costs)
		c->at->blind = true;
	p = p ? p : c->asked;
	ret->priced = p != NULL;
	ret->cost = p ? price_of(p, s) : 0;
	clean_name(ret->model, c->down.u.model);
	if (!ret->model[0] && c->up.u.model[0])
		clean_name(ret->model, c->up.u.model);
}

bool budget_charge(struct budget_call *c, bool whole, bool sent, uint64_t bytes_out,
		   uint64_t bytes_in, struct budget_told *ret)
{
	struct usage_sum s;

	*ret = (struct budget_told){ 0 };
	if (c->charged || !sent || (whole && !c->answers))
		return false;
	c->charged = true;
	if (whole)
		usage_end(&c->down);
	s = usage_sum(&c->down.u);
	ret->estimated = !whole;
	ret->uncounted = whole && (!c->counts || c->down.u.bad || !(c->down.u.in || c->down.u.out));
	if (ret->estimated || ret->uncounted)
		estimate(c, &s, bytes_out, bytes_in);
	else if (s.in > c->at->most_in)
		c->at->most_in = s.in;
	c->at->blind |= ret->uncounted;
	set_price(c, &s, ret);
	ret->in = s.in;
	ret->cached = s.cached;
	ret->out = s.out;
	budget_add(&c->b->used.tokens, s.in);
	budget_add(&c->b->used.tokens, s.out);
	budget_add(&c->at->used.tokens, s.in);
	budget_add(&c->at->used.tokens, s.out);
	budget_add(&c->b->used.cost, ret->cost);
	budget_add(&c->at->used.cost, ret->cost);
	return true;
}

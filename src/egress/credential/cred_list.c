/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_list.c - placeholders in cookies, queries and paths. */
#include <string.h>

#include "egress/credential/cred_internal.h"
#include "egress/rules/path.h"

/* --- name=value lists: cookies and queries --- */

struct list_style {
	char between;
	bool escaped, blanks; /* values are percent-escaped; blanks may follow a separator */
	enum credential_slot slot;
};

static const struct list_style cookies = { ';', false, true, SLOT_COOKIE };
static const struct list_style queries = { '&', true, false, SLOT_QUERY };

/* Is this the name of a place that the credential has in such a list? Its slot holds nothing but
 * its token; a further parameter may hold anything else as well. */
static bool has_place(const struct cred *c, const struct list_style *style, struct egress_text name,
		      bool *slot)
{
	*slot = c->spec->slot == style->slot && cred_same(name, c->spec->field);
	if (*slot)
		return true;
	for (size_t i = 0; style->slot == SLOT_QUERY && i < c->spec->query.n; i++)
		if (cred_same(name, c->spec->query.v[i]))
			return true;
	return false;
}

static enum cred_outcome cred_list_put_value(struct cred_job *j, const struct list_style *style,
					     size_t i, const struct secret *value,
					     struct egress_text name, struct buf *out,
					     uint64_t *seen)
{
	const struct cred *c = &j->creds->v[i];

	if (*seen >> i & 1)
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "credential '%s' twice in one request", c->spec->name),
		       REFUSED;
	if (!cred_permitted(j, c))
		return REFUSED;
	*seen |= (uint64_t)1 << i;
	buf_add(out, name.p, name.n);
	buf_putc(out, '=');
	if (style->escaped)
		cred_put_escaped(out, value);
	else
		buf_add(out, value->value, value->len);
	return REPLACED;
}

static enum cred_outcome put_pair(struct cred_job *j, const struct list_style *style,
				  struct egress_text name, struct egress_text value,
				  struct buf *out, uint64_t *seen)
{
	const struct cred *slot = NULL;

	for (size_t i = 0; i < j->creds->n; i++) {
		const struct cred *c = &j->creds->v[i];
		const struct secret *token;
		bool own;

		if (!(j->bound >> i & 1) || !has_place(c, style, name, &own))
			continue;
		token = cred_token(c, value);
		if (token)
			return cred_list_put_value(j, style, i, token, name, out, seen);
		if (own)
			slot = c;
	}
	return slot ? (cred_foreign(j, slot, slot->spec->field), REFUSED) : NOT_THIS;
}

/* What no credential is put into. A cookie that may hold a login is left out: clients send back
 * whatever a host has set, and expect that it may be forgotten. NOT_THIS: it was. */
static enum cred_outcome pass_pair(struct cred_job *j, const struct list_style *style,
				   struct egress_text pair, struct buf *out)
{
	const char *eq = memchr(pair.p, '=', pair.n);
	struct egress_text name = egress_text(pair.p, eq ? (size_t)(eq - pair.p) : pair.n);

	if (style->slot == SLOT_COOKIE && !cred_cookie_passes(j, name))
		return NOT_THIS;
	if (style->slot == SLOT_QUERY && j->named && !cred_other_parameter(j, pair))
		return REFUSED;
	buf_add(out, pair.p, pair.n);
	return REPLACED;
}

/* Rewrites the list from p to end into out. */
static bool apply_list(struct cred_job *j, const struct list_style *style, struct egress_text list,
		       struct buf *out)
{
	const char *p = list.p, *end = list.p + list.n;
	uint64_t seen = 0;

	while (p < end) {
		const char *sep = memchr(p, style->between, (size_t)(end - p)),
			   *stop = sep ? sep : end, *eq;
		enum cred_outcome o = NOT_THIS;
		size_t before = out->len;

		while (style->blanks && p < stop && *p == ' ')
			buf_putc(out, *p++);
		eq = memchr(p, '=', (size_t)(stop - p));
		if (eq)
			o = put_pair(j, style, egress_text(p, (size_t)(eq - p)),
				     egress_text(eq + 1, (size_t)(stop - eq - 1)), out, &seen);
		if (o == NOT_THIS)
			o = pass_pair(j, style, egress_text(p, (size_t)(stop - p)), out);
		if (o == REFUSED)
			return false;
		if (o == NOT_THIS)
			out->len = before;
		else if (sep)
			buf_putc(out, style->between);
		p = stop + 1;
	}
	return true;
}

static void remove_field(struct egress_head *h, size_t i)
{
	memmove(&h->fields[i], &h->fields[i + 1], (--h->n_fields - i) * sizeof(*h->fields));
}

bool cred_cookies(struct cred_job *j)
{
	for (size_t i = 0; i < j->head->n_fields; i++) {
		CLEANUP(buf) struct buf out = BUF_INIT(CRED_TEXT_MAX);
		struct egress_field *f = &j->head->fields[i];

		if (!egress_text_is(f->name, "cookie") || !f->value.n)
			continue;
		if (!apply_list(j, &cookies, f->value, &out) || !cred_keep(j, &out, &f->value))
			return false;
		while (f->value.n && strchr("; ", *f->value.p))
			f->value = egress_text(f->value.p + 1, f->value.n - 1);
		while (f->value.n && strchr("; ", f->value.p[f->value.n - 1]))
			f->value.n--;
		if (!f->value.n)
			remove_field(j->head, i--);
	}
	return true;
}

/* --- the target: {NAME} in the path where it is declared, then the query --- */

static bool put_names(struct cred_job *j, struct egress_text path, struct buf *out)
{
	for (size_t at = 0; at < path.n;) {
		size_t len = 0;

		for (size_t i = 0; i < j->creds->n && !len; i++) {
			const struct cred *c = &j->creds->v[i];

			if (!(j->bound >> i & 1) || !c->spec->in_path)
				continue;
			len = cred_name_at(c, path.p + at, path.n - at);
			if (!len)
				continue;
			if (!cred_permitted(j, c))
				return false;
			cred_put_escaped(out, c->secret);
		}
		if (!len)
			buf_putc(out, path.p[at]);
		at += len ? len : 1;
	}
	return true;
}

bool cred_target_names(struct cred_job *j)
{
	CLEANUP(buf) struct buf out = BUF_INIT(CRED_TEXT_MAX);
	struct egress_text target = j->head->target, path = path_of_target(target);
	bool ok = put_names(j, path, &out);

	if (ok && path.n < target.n) {
		buf_putc(&out, '?');
		ok = apply_list(j, &queries,
				egress_text(path.p + path.n + 1, target.n - path.n - 1), &out);
	}
	if (!ok && out.data)
		explicit_bzero(out.data, out.len);
	return ok && cred_keep(j, &out, &j->head->target);
}

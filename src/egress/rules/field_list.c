/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/field_list.h"

#include <string.h>
#include <strings.h>

#include "model/settings/rule.h"

#define FIELD_NAME_MAX 120

/* Of a field, or of a parameter, which may have brackets and dots as well. */
static bool field_name_ok(const char *name, size_t n, bool query)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	for (size_t i = 0; i < n; i++)
		if (!name[i] || (!strchr(letters, name[i]) && !(query && strchr(".[]$", name[i]))))
			return false;
	return n > 0 && n <= FIELD_NAME_MAX;
}

static int read_listed(struct arena *a, const char *text, bool parameters, struct listed_field *ret,
		       struct err *e)
{
	size_t host = strcspn(text, " ");
	const char *name = text + host + strspn(text + host, " ");
	struct listed_field p = { .query = parameters && *name == '?' };
	size_t n = strlen(name += p.query);

	p.prefix = !p.query && n > 1 && name[n - 1] == '*';
	n -= p.prefix;
	if (!host || !text[host] || !field_name_ok(name, n, p.query))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  parameters ? "'api.example.org X-Other-Key', or "
					       "'api.example.org ?key' for a parameter"
					     : "'api.example.org X-Tenant', or 'api.example.org "
					       "X-Acme-*' for all that begin so",
				  "'%.100s' is not a host and the name of a field", text);
	if (rule_host_alone(a, text, host, &p.host, e) < 0)
		return -e->code;
	p.name = arena_strndup(a, name, n);
	if (!p.name)
		return err_nomem(e);
	*ret = p;
	return 0;
}

int field_list_read(struct arena *a, const struct strlist *texts, bool parameters,
		    struct field_list *ret, struct err *e)
{
	for (size_t i = 0; i < texts->n; i++) {
		struct listed_field *slot = ARENA_PUSH(a, ret->v, ret->n);

		if (!slot)
			return err_nomem(e);
		if (read_listed(a, texts->v[i], parameters, slot, e) < 0)
			return -e->code;
	}
	return 0;
}

bool field_list_has(const struct field_list *p, const struct host *host, struct egress_text name,
		    bool query)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct listed_field *at = &p->v[i];
		size_t n = strlen(at->name);

		if (at->query == query && host_matches(at->host, host) &&
		    (at->prefix ? name.n >= n : name.n == n) &&
		    strncasecmp(name.p, at->name, n) == 0)
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_account.c - keys of somebody else's at a host that a credential is bound
 * to.
 *
 * The run was given the use of one account there. With a key of its own the command could send what
 * it has seen to an account of its own, at a host that is allowed. So every place that services
 * take a key from holds a placeholder or nothing, whatever slot the credential has. */
#include <stdio.h>
#include <string.h>

#include "egress/credential/cred_internal.h"
#include "egress/rules/head_fields.h"

/* A placeholder there is told as what it is. */
static bool other_key(struct cred_job *j, struct egress_text name, const char *mark)
{
	int shown = (int)(name.n < 60 ? name.n : 60);
	char hint[sizeof(j->v->hint)];

	/* The id of a key that signs stands where it belongs, until the head is signed. */
	if (!j->signer && !cred_check_left(j))
		return false;
	(void)snprintf(hint, sizeof(hint),
		       "send the placeholder in the credential's own place, or nothing; --set "
		       "'egress.other_keys=%s %s%.*s' lets another key pass",
		       j->to->host->name, mark, shown, name.p);
	return verdict_deny(
		j->v, EGRESS_CREDENTIAL_MISUSE, hint,
		"'%s%.*s' takes a key at %s, which a credential of this run is for, and "
		"holds another",
		mark, shown, name.p, j->to->host->name);
}

bool cred_other_field(struct cred_job *j, const struct egress_field *f)
{
	return !f->value.n || !field_takes_key(f->name) ||
	       field_list_has(&j->creds->other_keys, j->to->host, f->name, false) ||
	       other_key(j, f->name, "");
}

static bool parameter_passes(struct cred_job *j, struct egress_text pair)
{
	const char *eq = memchr(pair.p, '=', pair.n);
	struct egress_text name = egress_text(pair.p, eq ? (size_t)(eq - pair.p) : pair.n);

	return !eq || eq + 1 == pair.p + pair.n || !parameter_takes_key(name) ||
	       field_list_has(&j->creds->other_keys, j->to->host, name, true) ||
	       other_key(j, name, "?");
}

/* Some frameworks end a parameter at ';' as well. */
bool cred_other_parameter(struct cred_job *j, struct egress_text part)
{
	while (part.n) {
		const char *semicolon = memchr(part.p, ';', part.n);
		size_t n = semicolon ? (size_t)(semicolon - part.p) : part.n;

		if (!parameter_passes(j, egress_text(part.p, n)))
			return false;
		n += semicolon != NULL;
		part = egress_text(part.p + n, part.n - n);
	}
	return true;
}

bool cred_cookie_passes(const struct cred_job *j, struct egress_text name)
{
	static const struct egress_text cookie = { "Cookie", 6 };

	return !j->named || cookie_is_of_front(name) ||
	       field_list_has(&j->creds->other_keys, j->to->host, cookie, false);
}

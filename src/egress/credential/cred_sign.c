/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_sign.c - requests that the client has signed with a placeholder, signed
 * with the key (AWS Signature Version 4).
 *
 * The client signs as it always does, with an id and a secret that are no key. Its Authorization
 * says for which service and region; whatever else stands there is made anew, from the head as it
 * will be sent. The secret never leaves, and a signature is good for one host, path and quarter of
 * an hour. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "egress/credential/cred_internal.h"
#include "egress/rules/path.h"

#define TOKEN_FIELD "x-amz-security-token"
#define PAYLOAD_FIELD "x-amz-content-sha256"

static bool has_part(const struct credential_spec *c, const char *part)
{
	return c->slot == SLOT_SIGV4 && str_eq(c->field, part);
}

bool cred_sign_slot(const struct credential_spec *c, struct egress_text name)
{
	return (has_part(c, "id") && cred_same_nocase(name, "authorization")) ||
	       (has_part(c, "token") && cred_same_nocase(name, TOKEN_FIELD));
}

/* Two fields of such a request have 64 hexadecimal digits each time: the client's signature, which
 * is made anew, and the hash of what it sends. */
void creds_mark_hashes(const struct creds *c, const struct cred_target *to,
		       struct egress_head *head)
{
	struct egress_field *signs = head_field(head, "authorization"),
			    *hash = head_field(head, PAYLOAD_FIELD);
	struct sigv4_claim claim;

	if (!signs || sigv4_parse(signs->value, &claim) != SIGV4_CLAIM)
		return;
	for (size_t i = 0; i < c->n; i++) {
		if (!has_part(c->v[i].spec, "id") || !cred_token(&c->v[i], claim.id) ||
		    !cred_bound_here(&c->v[i], to))
			continue;
		signs->hashed = true;
		if (hash)
			hash->hashed = true;
	}
}

static enum cred_outcome put_token(struct cred_job *j, const struct cred *c,
				   struct egress_text *value)
{
	CLEANUP(buf) struct buf out = BUF_INIT(CRED_TEXT_MAX);

	if (!cred_token(c, *value))
		return NOT_THIS;
	if (!cred_permitted(j, c))
		return REFUSED;
	buf_add(&out, c->secret->value, c->secret->len);
	return cred_keep(j, &out, value) ? REPLACED : REFUSED;
}

enum cred_outcome cred_sign_field(struct cred_job *j, const struct cred *c,
				  struct egress_text name UNUSED, struct egress_text *value)
{
	if (has_part(c->spec, "token"))
		return put_token(j, c, value);
	switch (sigv4_parse(*value, &j->claim)) {
	case SIGV4_NONE:
		return NOT_THIS;
	case SIGV4_ASYMMETRIC:
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
				    "let the client sign with AWS4-HMAC-SHA256, for one region: a "
				    "bucket's own host in place of a multi-region access point",
				    "a request that is signed by SigV4A, which brig cannot sign "
				    "anew with credential '%s'",
				    c->spec->name),
		       REFUSED;
	case SIGV4_BROKEN:
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
				    "AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/"
				    "aws4_request, SignedHeaders=host;..., Signature=...",
				    "an Authorization of AWS's that brig cannot read: credential "
				    "'%s' signs what says where it goes",
				    c->spec->name),
		       REFUSED;
	case SIGV4_CLAIM:
		break;
	}
	if (!cred_token(c, j->claim.id))
		return NOT_THIS;
	if (!cred_permitted(j, c))
		return REFUSED;
	j->signer = c;
	return REPLACED;
}

/* The name of a parameter, as a server reads it: escaped or not. */
static bool is_parameter(struct egress_text name, const char *word)
{
	size_t n = strlen(word), at = 0;

	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (c == '%' && name.n - i > 2) {
			char two[3] = { name.p[i + 1], name.p[i + 2], '\0' };

			c = (char)strtoul(two, NULL, 16);
			i += 2;
		}
		if (at == n || (c | 32) != (word[at] | 32))
			return false;
		at++;
	}
	return at == n;
}

bool cred_presigned(struct cred_job *j)
{
	struct egress_text target = j->head->target, path = path_of_target(target);
	const char *p = path.p + path.n, *end = target.p + target.n;
	const struct cred *c = NULL;

	for (size_t i = 0; i < j->creds->n && !c; i++)
		if ((j->bound >> i & 1) && has_part(j->creds->v[i].spec, "id"))
			c = &j->creds->v[i];
	while (c && p < end) {
		const char *next = memchr(p + 1, '&', (size_t)(end - p - 1)),
			   *stop = next ? next : end,
			   *eq = memchr(p + 1, '=', (size_t)(stop - p - 1));
		struct egress_text name = egress_text(p + 1, (size_t)((eq ? eq : stop) - p - 1));

		if (is_parameter(name, "X-Amz-Signature") ||
		    is_parameter(name, "X-Amz-Credential") || is_parameter(name, "AWSAccessKeyId"))
			return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
					    "call the API itself (get_object in place of "
					    "generate_presigned_url): the client then signs in "
					    "Authorization, which brig signs anew",
					    "a presigned URL: credential '%s' signs no URL that "
					    "somebody else could use",
					    c->spec->name);
		p = stop;
	}
	return true;
}

static const struct cred *part_of(const struct cred_job *j, const char *part)
{
	for (size_t i = 0; i < j->creds->n; i++)
		if ((j->bound >> i & 1) && has_part(j->creds->v[i].spec, part))
			return &j->creds->v[i];
	return NULL;
}

static bool scope_fits(struct cred_job *j)
{
	const struct sigv4_claim *c = &j->claim;
	char want[128];

	if (!sigv4_is_aws(j->to->host) || sigv4_fits(c, j->to->host, want))
		return true;
	return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
			    "let the client sign for the service and region that it asks",
			    "the request is signed for %.*s in %.*s, and %s is %s: credential '%s' "
			    "signs for no other",
			    (int)c->service.n, c->service.p, (int)c->region.n, c->region.p,
			    j->to->host->name, want, j->signer->spec->name);
}

/* What is said of the body. */
static bool read_payload(struct cred_job *j, struct sigv4 *s)
{
	static const char empty[] =
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
	const struct egress_field *f = head_field(j->head, PAYLOAD_FIELD);
	struct egress_text said = f ? f->value : egress_text(empty, j->to->has_body ? 0 : 64);

	switch (sigv4_payload_of(said)) {
	case SIGV4_HASHED:
		memcpy(s->payload, said.p, said.n);
		s->payload[said.n] = '\0';
		return true;
	case SIGV4_ABSENT:
		s->waits = true;
		return j->to->signing ||
		       verdict_deny(j->v, EGRESS_INTERNAL, NULL, "nobody hashes the body");
	case SIGV4_CHUNKED:
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
				    "let the client send the body as it is over https "
				    "(payload signing and chunked encoding off): "
				    "UNSIGNED-PAYLOAD, or a hash of all of it",
				    "a body in pieces that are signed one by one (%.*s), which "
				    "credential '%s' cannot sign anew",
				    (int)(said.n < 60 ? said.n : 60), said.p,
				    j->signer->spec->name);
	case SIGV4_UNKNOWN:
		break;
	}
	return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
			    "the field '" PAYLOAD_FIELD "' is neither a hash nor a word that brig "
			    "knows");
}

static bool make_signature(struct cred_job *j, struct sigv4 *s, const struct cred *secret,
			   struct egress_text date)
{
	CLEANUP(buf) struct buf list = BUF_INIT(CRED_TEXT_MAX), out = BUF_INIT(CRED_TEXT_MAX);
	struct egress_field *f = head_field(j->head, "authorization");
	char host[HOST_NAME_MAX_LEN + 8], digits[SIGV4_DIGITS + 1];
	struct sigv4_request q = { .head = j->head, .claim = &j->claim, .date = date };
	struct egress_text name;
	const char *why;
	int n = j->to->port == 443
			? snprintf(host, sizeof(host), "%s", j->to->host->name)
			: snprintf(host, sizeof(host), "%s:%u", j->to->host->name, j->to->port);

	q.host = egress_text(host, (size_t)n);
	why = sigv4_begin(s, &q, secret->secret->value, secret->secret->len, &list, &name);
	if (why)
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL, "'%.*s' %s",
				    (int)(name.n < 60 ? name.n : 60), name.p, why);
	memset(digits, '0', SIGV4_DIGITS);
	digits[SIGV4_DIGITS] = '\0';
	if (!s->waits)
		sigv4_finish(s, s->payload, digits);
	buf_puts(&out, "AWS4-HMAC-SHA256 Credential=");
	buf_add(&out, j->signer->secret->value, j->signer->secret->len);
	buf_printf(&out, "/%s, SignedHeaders=%s, Signature=%s", s->scope, buf_str(&list), digits);
	if (!cred_keep(j, &out, &f->value))
		return false;
	s->place = f->value.p + f->value.n - SIGV4_DIGITS;
	return true;
}

bool cred_sign(struct cred_job *j)
{
	struct sigv4 own = { 0 }, *s = j->to->signing ? j->to->signing : &own;
	const struct egress_field *date = head_field(j->head, "x-amz-date");
	const struct cred *secret = part_of(j, "secret");
	const char *name = j->signer->spec->name;

	if (!secret)
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE, NULL,
				    "credential '%s' is bound to %s, and its secret is not", name,
				    j->to->host->name);
	if (!scope_fits(j) || !cred_permitted(j, secret))
		return false;
	if (!date || !sigv4_date(date->value, j->claim.date, j->to->now))
		return verdict_deny(j->v, EGRESS_CREDENTIAL_MISUSE,
				    "x-amz-date is YYYYMMDDTHHMMSSZ, of the day in Authorization; "
				    "is the clock of the command right?",
				    "the time of the request is not now: credential '%s' signs for "
				    "a quarter of an hour",
				    name);
	s->wanted = true;
	return read_payload(j, s) && make_signature(j, s, secret, date->value);
}

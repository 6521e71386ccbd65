/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/sigv4_scope.c - which service in which region a host of Amazon's is.
 *
 * Names end in SERVICE.REGION, in REGION.SERVICE (older ones), or in SERVICE, which is global. What
 * stands before that is a customer's choice (a bucket, an API, a domain) and says nothing. */
#include <stdio.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/credential/sigv4.h"

struct endpoint {
	struct egress_text service, region; /* region.p NULL: global */
};

static const char *const domains[] = { ".amazonaws.com", ".amazonaws.com.cn", ".api.aws" };

/* Those whose service is neither the beginning nor the end of their name. */
static const char *const other_names[][2] = {
	{ "email", "ses" },
	{ "queue", "sqs" },
	{ "marketplace", "aws-marketplace" },
	{ "oidc", "awsssooidc" },
	{ "sso", "awsssoportal" },
	{ "iot", "iotdata" },
	{ "iot", "iotdevicegateway" },
	{ "iot", "iot-jobs-data" },
	{ "iot", "iotfleethub" },
	{ "iot", "IoTSecuredTunneling" },
	{ "iot", "execute-api" },
	{ "iotevents", "ioteventsdata" },
	{ "connect", "execute-api" },
	{ "contact-lens", "connect" },
	{ "migrationhub-config", "mgh" },
	{ "pinpoint", "mobiletargeting" },
	{ "pinpoint", "sms-voice" },
};

/* Without its domain; 0: it is not one of Amazon's. */
static size_t name_part(const struct host *h)
{
	for (size_t i = 0; i < ARRAY_LEN(domains); i++) {
		size_t n = strlen(domains[i]);

		if (h->len > n && memcmp(h->name + h->len - n, domains[i], n) == 0)
			return h->len - n;
	}
	return 0;
}

bool sigv4_is_aws(const struct host *host)
{
	return name_part(host) > 0;
}

/* "us-east-1", "us-gov-west-1", "eu-isoe-west-1": letters, hyphens, one number. */
static bool is_region(struct egress_text t)
{
	size_t n = t.n, hyphens = 0;

	while (n && t.p[n - 1] >= '0' && t.p[n - 1] <= '9')
		n--;
	if (n == t.n || n < 5 || t.p[n - 1] != '-')
		return false;
	for (size_t i = 0; i < n; i++) {
		hyphens += t.p[i] == '-';
		if (t.p[i] != '-' && (t.p[i] < 'a' || t.p[i] > 'z'))
			return false;
	}
	return hyphens >= 2;
}

/* The last part of the name, which is cut off it. */
static struct egress_text last_part(struct egress_text *name)
{
	const char *dot = name->n ? memrchr(name->p, '.', name->n) : NULL;
	const char *from = dot ? dot + 1 : name->p;
	struct egress_text part = egress_text(from, (size_t)(name->p + name->n - from));

	name->n = dot ? (size_t)(dot - name->p) : 0;
	return part;
}

static bool begins_with(struct egress_text t, const char *word)
{
	return t.n >= strlen(word) && memcmp(t.p, word, strlen(word)) == 0;
}

static struct endpoint endpoint_of(const struct host *h)
{
	struct egress_text name = egress_text(h->name, name_part(h)), a = last_part(&name), b, rest;

	if (is_region(a)) {
		b = last_part(&name);
		if (begins_with(b, "dualstack") && b.n == 9)
			b = last_part(&name);
		return (struct endpoint){ b, a };
	}
	/* An old name of a region's own. */
	rest = egress_text(a.p + 3, a.n > 3 ? a.n - 3 : 0);
	if (begins_with(a, "s3-") && is_region(rest))
		return (struct endpoint){ egress_text("s3", 2), rest };
	/* Of buckets, whose names may be anything. */
	if (begins_with(a, "s3"))
		return (struct endpoint){ .service = a };
	b = last_part(&name);
	return is_region(b) ? (struct endpoint){ a, b } : (struct endpoint){ .service = a };
}

static bool scope_text_is(struct egress_text a, struct egress_text b)
{
	return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

/* bedrock-runtime is bedrock, s3-fips is s3, memory-db is memorydb. */
static bool is_begin(struct egress_text label, struct egress_text service)
{
	size_t i = 0, k = 0;

	while (i < label.n && k < service.n) {
		if (label.p[i] == service.p[k]) {
			i++;
			k++;
		} else if (service.p[k] == '-') {
			k++;
		} else if (label.p[i] == '-') {
			i++;
		} else {
			return false;
		}
	}
	/* A short one could be the beginning of anything. */
	return service.n && k == service.n && (i == label.n || label.p[i] == '-' || k >= 5);
}

/* runtime-v2-lex is lex. */
static bool is_end(struct egress_text label, struct egress_text service)
{
	return service.n && label.n > service.n && label.p[label.n - service.n - 1] == '-' &&
	       memcmp(label.p + label.n - service.n, service.p, service.n) == 0;
}

static bool service_fits(struct egress_text label, struct egress_text service)
{
	for (size_t i = 0; i < ARRAY_LEN(other_names); i++)
		if (scope_text_is(label,
				  egress_text(other_names[i][0], strlen(other_names[i][0]))) &&
		    scope_text_is(service,
				  egress_text(other_names[i][1], strlen(other_names[i][1]))))
			return true;
	return is_begin(label, service) || is_end(label, service);
}

/* One that has no region in its name is signed for the first of its partition; S3's buckets lie
 * anywhere. */
static bool region_fits(const struct endpoint *at, struct egress_text region)
{
	if (at->region.p)
		return scope_text_is(at->region, region);
	return begins_with(at->service, "s3") || begins_with(region, "us-east-1") ||
	       begins_with(region, "cn-north") || begins_with(region, "us-gov-west-1");
}

bool sigv4_fits(const struct sigv4_claim *c, const struct host *host, char want[128])
{
	struct endpoint at = endpoint_of(host);

	(void)snprintf(want, 128, "%.*s in %.*s", (int)(at.service.n < 60 ? at.service.n : 60),
		       at.service.p, at.region.p ? (int)at.region.n : 13,
		       at.region.p ? at.region.p : "no one region");
	return service_fits(at.service, c->service) && region_fits(&at, c->region);
}

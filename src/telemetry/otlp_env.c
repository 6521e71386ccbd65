/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/otlp_env.c - the OTEL_* variables, as the OpenTelemetry specification writes them. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes/hex.h"
#include "base/bytes/random.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "telemetry/otlp.h"

#define URL_DEFAULT "http://localhost:4318"
#define TIMEOUT_MS 10000
#define TIMEOUT_MAX_MS (10 * 60 * 1000)
#define STATE_MAX 512
#define BILLION 1000000000ULL

/* An empty variable counts as unset. */
static const char *otlp_env_get(char *const *variables, const char *name)
{
	size_t n = strlen(name);

	for (char *const *v = variables; v && *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return (*v)[n + 1] ? *v + n + 1 : NULL;
	return NULL;
}

/* The variable for traces beats the one for all signals; *name is the one that was found. */
static const char *get_exporter(char *const *variables, const char *what, const char **name)
{
	static const struct {
		const char *what, *traces, *all;
	} names[] = {
#define EXPORTER(what) { what, "OTEL_EXPORTER_OTLP_TRACES_" what, "OTEL_EXPORTER_OTLP_" what }
		EXPORTER("ENDPOINT"),
		EXPORTER("PROTOCOL"),
		EXPORTER("HEADERS"),
		EXPORTER("TIMEOUT"),
		EXPORTER("CERTIFICATE"),
		EXPORTER("CLIENT_KEY"),
		EXPORTER("CLIENT_CERTIFICATE"),
	};
	const char *value = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!str_eq(names[i].what, what))
			continue;
		*name = names[i].traces;
		value = otlp_env_get(variables, *name);
		if (!value) {
			*name = names[i].all;
			value = otlp_env_get(variables, *name);
		}
	}
	return value;
}

/* ---- lists ---- */

static bool otlp_env_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Blanks around are not part of it; %XX is a byte. -EINVAL: a broken escape, or a NUL. */
static int decode(struct arena *a, const char *from, const char *end, const char **ret)
{
	char *out, *to;

	while (from < end && otlp_env_is_blank(*from))
		from++;
	while (from < end && otlp_env_is_blank(end[-1]))
		end--;
	out = to = arena_alloc(a, (size_t)(end - from) + 1);
	if (!out)
		return -ENOMEM;
	for (; from < end; from++) {
		char c = *from;

		if (c == '%') {
			if (end - from < 3 || hex_nibble(from[1]) < 0 || hex_nibble(from[2]) < 0)
				return -EINVAL;
			c = (char)(hex_nibble(from[1]) << 4 | hex_nibble(from[2]));
			from += 2;
		}
		if (!c)
			return -EINVAL;
		*to++ = c;
	}
	*ret = out;
	return 0;
}

static int take_pair(struct arena *a, const char *from, const char *end, struct otlp_pairs *ret,
		     struct err *e)
{
	const char *equals = memchr(from, '=', (size_t)(end - from));
	struct otlp_pair pair = { 0 }, *slot;
	int r = equals ? decode(a, from, equals, &pair.name) : -EINVAL;

	if (r == 0)
		r = decode(a, equals + 1, end, &pair.value);
	if (r == -ENOMEM)
		return err_nomem(e);
	if (r < 0 || !pair.name[0])
		return err_set(e, ERR_CONFIG, EINVAL, "part %zu is not NAME=VALUE", ret->n + 1);
	if (ret->n == OTLP_PAIRS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d parts", OTLP_PAIRS_MAX);
	slot = ARENA_PUSH(a, ret->v, ret->n);
	if (!slot)
		return err_nomem(e);
	*slot = pair;
	return 0;
}

int otlp_pairs_parse(struct arena *a, const char *text, struct otlp_pairs *ret, struct err *e)
{
	struct otlp_pairs found = { 0 };

	while (*text) {
		const char *end = strchrnul(text, ',');
		const char *at = text;

		while (at < end && otlp_env_is_blank(*at))
			at++;
		if (at < end && take_pair(a, at, end, &found, e) < 0)
			return -e->code;
		text = end + (*end == ',');
	}
	*ret = found;
	return 0;
}

static bool otlp_env_is_token(const char *s)
{
	static const char more[] = "!#$%&'*+-.^_`|~";

	for (; *s; s++) {
		char c = (char)(*s | 0x20);

		if (!(c >= 'a' && c <= 'z') && !(*s >= '0' && *s <= '9') && !strchr(more, *s))
			return false;
	}
	return true;
}

/* Headers of the connection are the sender's own: a second one would let text become a request. */
static bool otlp_env_is_ours(const char *name)
{
	static const char *const ours[] = { "connection", "content-length", "content-type",
					    "expect",     "host",           "te",
					    "trailer",    "upgrade",        "transfer-encoding" };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return true;
	return false;
}

int otlp_headers_parse(struct arena *a, const char *text, struct otlp_pairs *ret, struct err *e)
{
	struct otlp_pairs found = { 0 };

	if (otlp_pairs_parse(a, text, &found, e) < 0)
		return -e->code;
	for (size_t i = 0; i < found.n; i++) {
		const struct otlp_pair *p = &found.v[i];

		if (!otlp_env_is_token(p->name) || otlp_env_is_ours(p->name))
			return err_set(e, ERR_CONFIG, EINVAL, "part %zu is not a header to send",
				       i + 1);
		if (str_has_control(p->value))
			return err_set(e, ERR_CONFIG, EINVAL,
				       "the value of part %zu has a control character", i + 1);
	}
	*ret = found;
	return 0;
}

/* ---- W3C trace context ---- */

/* Lower case only, and not all zeros. */
static bool read_id(const char *text, unsigned char *out, size_t n)
{
	unsigned char any = 0;

	for (size_t i = 0; i < n; i++) {
		char a = text[2 * i], b = a ? text[2 * i + 1] : '\0';

		if (hex_nibble(a) < 0 || hex_nibble(b) < 0 || (a >= 'A' && a <= 'F') ||
		    (b >= 'A' && b <= 'F'))
			return false;
		out[i] = (unsigned char)(hex_nibble(a) << 4 | hex_nibble(b));
		any |= out[i];
	}
	return any;
}

bool otlp_parent_parse(const char *text, struct otlp_parent *ret)
{
	struct otlp_parent p = { .there = true };
	unsigned char version = 0, flags = 0;
	size_t n = strlen(text);

	if (n < TRACEPARENT_SIZE - 1 || text[2] != '-' || text[35] != '-' || text[52] != '-')
		return false;
	/* 00 and its flags may be zero, unlike ids. */
	if ((!read_id(text, &version, 1) && strncmp(text, "00", 2) != 0) || version == 0xff ||
	    (!read_id(text + 53, &flags, 1) && strncmp(text + 53, "00", 2) != 0))
		return false;
	/* A later version may say more behind a dash, this one may not. */
	if (n > TRACEPARENT_SIZE - 1 && (version == 0 || text[TRACEPARENT_SIZE - 1] != '-'))
		return false;
	if (!read_id(text + 3, p.trace, sizeof(p.trace)) ||
	    !read_id(text + 36, p.span, sizeof(p.span)))
		return false;
	p.sampled = flags & 1;
	*ret = p;
	return true;
}

static const char *usable_state(const char *state)
{
	if (!state || strlen(state) > STATE_MAX)
		return NULL;
	for (const char *s = state; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			return NULL;
	return state;
}

/* ---- the decision ---- */

/* 0, 1 or 0.DIGITS, as a bound of 2^63; false: none of them. */
static bool read_ratio(const char *text, uint64_t *bound)
{
	uint64_t billionths = 0;
	int digits = 0;

	if (text[0] != '0' && text[0] != '1')
		return false;
	billionths = (uint64_t)(text[0] - '0') * BILLION;
	if (text[1] == '.')
		for (const char *s = text + 2; *s; s++, digits++) {
			uint64_t unit = BILLION;

			if (*s < '0' || *s > '9')
				return false;
			for (int i = 0; i <= digits && unit; i++)
				unit /= 10;
			billionths += (uint64_t)(*s - '0') * unit;
		}
	else if (text[1])
		return false;
	if (billionths > BILLION)
		return false;
	*bound = (uint64_t)((unsigned __int128)billionths * ((uint64_t)1 << 63) / BILLION);
	return true;
}

static bool read_sampler(struct otlp *t, const char *name, const char *arg)
{
	bool by_parent = str_starts(name, "parentbased_");
	const char *rest = by_parent ? name + strlen("parentbased_") : name;
	uint64_t bound = (uint64_t)1 << 63;

	if (str_eq(rest, "traceidratio") && (!arg || read_ratio(arg, &bound))) {
		t->sampler = OTLP_RATIO;
		t->ratio_bound = bound;
	} else if (str_eq(rest, "always_on") || str_eq(rest, "always_off")) {
		t->sampler = str_eq(rest, "always_on") ? OTLP_ALWAYS_ON : OTLP_ALWAYS_OFF;
	} else {
		return false;
	}
	t->by_parent = by_parent;
	return true;
}

bool otlp_decide(const struct otlp *t)
{
	uint64_t low = 0;

	if (t->by_parent && t->parent.there)
		return t->parent.sampled;
	for (size_t i = TRACE_ID_SIZE - 8; i < TRACE_ID_SIZE; i++)
		low = low << 8 | t->trace[i];
	switch (t->sampler) {
	case OTLP_ALWAYS_ON:
		return true;
	case OTLP_ALWAYS_OFF:
		return false;
	case OTLP_RATIO:
		break;
	}
	return low >> 1 < t->ratio_bound;
}

/* ---- all of it ---- */

/* 1: traces are asked for; 0: not. */
static int otlp_env_wanted(char *const *variables, struct err *e)
{
	const char *disabled = otlp_env_get(variables, "OTEL_SDK_DISABLED"), *name;
	const char *exporter = otlp_env_get(variables, "OTEL_TRACES_EXPORTER");

	if (disabled && strcasecmp(disabled, "true") == 0)
		return 0;
	if (exporter && str_eq(exporter, "none"))
		return 0;
	if (!exporter)
		return get_exporter(variables, "ENDPOINT", &name) != NULL;
	if (str_eq(exporter, "otlp"))
		return 1;
	return err_refuse(e, ERR_CONFIG, EINVAL, "brig knows otlp and none",
			  "OTEL_TRACES_EXPORTER '%.40s' is not supported", exporter);
}

static int check_supported(char *const *variables, struct err *e)
{
	static const char *const not_known[] = { "CLIENT_KEY", "CLIENT_CERTIFICATE" };
	const char *name, *protocol = get_exporter(variables, "PROTOCOL", &name);

	if (protocol && !str_eq(protocol, "http/json"))
		return err_refuse(e, ERR_CONFIG, EPROTONOSUPPORT,
				  "brig speaks http/json, which a collector takes on port 4318",
				  "%s '%.40s' is not supported", name, protocol);
	for (size_t i = 0; i < ARRAY_LEN(not_known); i++)
		if (get_exporter(variables, not_known[i], &name))
			return err_set(e, ERR_CONFIG, EPROTONOSUPPORT, "%s is not supported", name);
	return 0;
}

static int read_url(struct arena *a, char *const *variables, struct otlp *t, struct err *e)
{
	const char *name, *url = get_exporter(variables, "ENDPOINT", &name);
	struct url parsed;
	size_t n;

	if (!url)
		url = URL_DEFAULT;
	n = strlen(url);
	if (url_parse(url, &parsed, e) < 0)
		return err_wrap(e, "%s", name);
	/* The one for traces is complete; the one for all signals is what they stand below. */
	t->url = str_starts(name, "OTEL_EXPORTER_OTLP_TRACES")
			 ? url
			 : arena_printf(a, "%s%sv1/traces", url, url[n - 1] == '/' ? "" : "/");
	return t->url ? 0 : err_nomem(e);
}

static int read_lists(struct arena *a, char *const *variables, struct otlp *t, struct err *e)
{
	const char *name, *text = get_exporter(variables, "HEADERS", &name);

	if (text && otlp_headers_parse(a, text, &t->headers, e) < 0)
		return err_wrap(e, "%s", name);
	name = "OTEL_RESOURCE_ATTRIBUTES";
	text = otlp_env_get(variables, name);
	if (text && otlp_pairs_parse(a, text, &t->resource, e) < 0)
		return err_wrap(e, "%s", name);
	return 0;
}

static int read_timeout(char *const *variables, struct otlp *t, struct err *e)
{
	const char *name, *text = get_exporter(variables, "TIMEOUT", &name);

	t->timeout_ms = TIMEOUT_MS;
	if (text && (num_count(text, &t->timeout_ms) < 0 || t->timeout_ms < 1 ||
		     t->timeout_ms > TIMEOUT_MAX_MS))
		return err_set(e, ERR_CONFIG, EINVAL,
			       "%s '%.40s' is not a number of milliseconds from 1 to %d", name,
			       text, TIMEOUT_MAX_MS);
	return 0;
}

static void read_service(char *const *variables, struct otlp *t)
{
	t->service = otlp_env_get(variables, "OTEL_SERVICE_NAME");
	for (size_t i = 0; !t->service && i < t->resource.n; i++)
		if (str_eq(t->resource.v[i].name, "service.name"))
			t->service = t->resource.v[i].value;
	if (!t->service)
		t->service = "brig";
}

static int read_context(char *const *variables, struct otlp *t, struct err *e)
{
	const char *parent = otlp_env_get(variables, "TRACEPARENT");

	if (random_fill(t->trace, sizeof(t->trace), e) < 0 ||
	    random_fill(t->span, sizeof(t->span), e) < 0)
		return -e->code;
	/* As the standard says, one that is not valid counts as none. */
	if (parent && otlp_parent_parse(parent, &t->parent)) {
		memcpy(t->trace, t->parent.trace, sizeof(t->trace));
		t->parent.state = usable_state(otlp_env_get(variables, "TRACESTATE"));
	}
	t->sampled = otlp_decide(t);
	return 0;
}

int otlp_open(struct arena *a, char *const *variables, struct otlp *ret, struct err *e)
{
	struct otlp t = { .by_parent = true };
	const char *sampler = otlp_env_get(variables, "OTEL_TRACES_SAMPLER"), *name;
	int r = otlp_env_wanted(variables, e);

	if (r <= 0)
		return r;
	if (check_supported(variables, e) < 0 || read_url(a, variables, &t, e) < 0 ||
	    read_lists(a, variables, &t, e) < 0 || read_timeout(variables, &t, e) < 0)
		return -e->code;
	if (sampler &&
	    !read_sampler(&t, sampler, otlp_env_get(variables, "OTEL_TRACES_SAMPLER_ARG")))
		t.warning = "OTEL_TRACES_SAMPLER is not one that brig knows: parentbased_always_on "
			    "is used";
	t.ca_file = get_exporter(variables, "CERTIFICATE", &name);
	read_service(variables, &t);
	if (read_context(variables, &t, e) < 0)
		return -e->code;
	*ret = t;
	return 1;
}

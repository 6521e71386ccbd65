/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/ocsf.c - a record as an event of the Open Cybersecurity Schema Framework, version 1.1.
 *
 * Class, activity and severity come from the table of events; what OCSF has no place for goes under
 * `unmapped`, so that nothing is lost. */
#include <stdio.h>
#include <string.h>

#include "audit/events.h"
#include "audit/read/export.h"
#include "base/text/clean.h"
#include "base/text/str.h"

enum {
	CLASS_PROCESS = 1007,
	CLASS_EVENT_LOG = 1008,
	CLASS_COMPLIANCE = 2003,
	CLASS_DETECTION = 2004,
	CLASS_AUTHENTICATION = 3002,
	CLASS_ENTITY = 3004,
	CLASS_HTTP = 4002,
	CLASS_LIFECYCLE = 6002,
	CLASS_API = 6003,
};

static const struct class_name {
	unsigned uid;
	const char *name;
} classes[] = {
	{ CLASS_PROCESS, "Process Activity" },
	{ CLASS_EVENT_LOG, "Event Log Activity" },
	{ CLASS_COMPLIANCE, "Compliance Finding" },
	{ CLASS_DETECTION, "Detection Finding" },
	{ CLASS_AUTHENTICATION, "Authentication" },
	{ CLASS_ENTITY, "Entity Management" },
	{ CLASS_HTTP, "HTTP Activity" },
	{ CLASS_LIFECYCLE, "Application Lifecycle" },
	{ CLASS_API, "API Activity" },
};

static const char *const categories[] = {
	"Uncategorized",
	"System Activity",
	"Findings",
	"Identity & Access Management",
	"Network Activity",
	"Discovery",
	"Application Activity",
};

/* What was done about it: action_id and disposition_id of the profile security_control. */
static const struct verdict {
	const char *type;
	unsigned action, disposition;
	const char *word;
} verdicts[] = {
	{ "egress.allow", 1, 1, "Allowed" },      { "egress.deny", 2, 2, "Blocked" },
	{ "egress.done", 1, 1, "Allowed" },       { "egress.usage", 1, 1, "Allowed" },
	{ "access.deny", 2, 2, "Blocked" },       { "leak.block", 2, 2, "Blocked" },
	{ "leak.redact", 1, 11, "Corrected" },    { "leak.warn", 1, 17, "Logged" },
	{ "credential.inject", 1, 1, "Allowed" }, { "credential.token", 1, 1, "Allowed" },
	{ "credential.misuse", 2, 2, "Blocked" }, { "credential.scrub", 2, 11, "Corrected" },
	{ "limit.hit", 2, 2, "Blocked" },         { "config.refused", 2, 2, "Blocked" },
	{ "auth.fail", 2, 2, "Blocked" },         { "agent.sign", 1, 1, "Allowed" },
	{ "trust.change", 1, 17, "Logged" },
};

/* Where a field of ours has a place of its own, and is not repeated under `unmapped`. */
static const char *const mapped[] = { "seq",   "time",      "type",   "run",         "policy",
				      "rule",  "principal", "agent",  "prev",        "mac",
				      "host",  "port",      "method", "path",        "address",
				      "argv0", "outcome",   "rc",     "duration_ms", NULL };

/* --- a writer of objects on top of what the record already escaped --- */

struct object {
	struct buf *out;
	bool some;
};

static struct object ocsf_begin(struct buf *out)
{
	buf_putc(out, '{');
	return (struct object){ .out = out };
}

static void ocsf_end(struct object *o)
{
	buf_putc(o->out, '}');
}

static void key(struct object *o, const char *name)
{
	buf_printf(o->out, "%s\"%s\":", o->some ? "," : "", name);
	o->some = true;
}

static void ocsf_put_number(struct object *o, const char *name, long long v)
{
	key(o, name);
	buf_printf(o->out, "%lld", v);
}

static void ocsf_put_text(struct object *o, const char *name, const char *text)
{
	key(o, name);
	buf_printf(o->out, "\"%s\"", text); /* texts of ours: nothing to escape */
}

static void put_slice(struct object *o, const char *name, struct slice s)
{
	if (!s.p)
		return;
	key(o, name);
	buf_putc(o->out, '"');
	clean_put_json(o->out, s.p, s.n);
	buf_putc(o->out, '"');
}

/* A field of the record under another name; nothing where there is none. */
static void put_field(struct object *o, const char *name, const struct entry *en, const char *field)
{
	struct pair p;

	if (!entry_get(en, field, &p))
		return;
	key(o, name);
	export_json_value(o->out, &p);
}

static bool ocsf_has(const struct entry *en, const char *field)
{
	struct pair p;

	return entry_get(en, field, &p);
}

/* --- parts --- */

static const struct event_type *type_of(const struct entry *en)
{
	for (int i = 0; i < EVENT_COUNT; i++)
		if (slice_eq(en->type, event_types[i].name))
			return &event_types[i];
	return NULL;
}

static const char *class_name(unsigned uid)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if (classes[i].uid == uid)
			return classes[i].name;
	return "Base Event";
}

/* HTTP's activity is the method. */
static unsigned activity_of(const struct event_type *t, const struct entry *en)
{
	static const char *const methods[] = { "CONNECT", "DELETE", "GET", "HEAD",
					       "OPTIONS", "POST",   "PUT", "TRACE" };
	struct pair p;

	if (t->ocsf_class != CLASS_HTTP || !entry_get(en, "method", &p))
		return t->ocsf_activity;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (slice_eq(p.value, methods[i]))
			return (unsigned)i + 1;
	return 99;
}

static void put_class(struct object *o, const struct event_type *t, const struct entry *en)
{
	static const char *const severities[] = { "Unknown", "Informational", "Low", "Medium",
						  "High" };
	unsigned class = t ? t->ocsf_class : 0, activity = t ? activity_of(t, en) : 0;
	unsigned severity = t ? (unsigned)t->severity : 0;

	ocsf_put_number(o, "activity_id", activity);
	ocsf_put_number(o, "category_uid", class / 1000);
	ocsf_put_text(o, "category_name", categories[class / 1000]);
	ocsf_put_number(o, "class_uid", class);
	ocsf_put_text(o, "class_name", class_name(class));
	ocsf_put_number(o, "type_uid", class * 100 + activity);
	ocsf_put_number(o, "severity_id", severity);
	ocsf_put_text(o, "severity", severities[severity]);
	ocsf_put_number(o, "time", en->time / 1000);
	if (t)
		ocsf_put_text(o, "message", t->help);
}

static void put_metadata(struct object *o, const struct entry *en)
{
	struct object m, product;

	key(o, "metadata");
	m = ocsf_begin(o->out);
	ocsf_put_text(&m, "version", "1.1.0");
	key(&m, "product");
	product = ocsf_begin(o->out);
	ocsf_put_text(&product, "name", "brig");
	ocsf_put_text(&product, "vendor_name", "brig");
	ocsf_put_text(&product, "version", BRIG_VERSION);
	ocsf_end(&product);
	ocsf_put_text(&m, "log_name", "audit");
	ocsf_put_number(&m, "sequence", (long long)en->seq);
	put_slice(&m, "uid", en->mac);
	put_slice(&m, "event_code", en->type);
	put_slice(&m, "correlation_uid", en->run);
	put_slice(&m, "original_time", en->when);
	buf_puts(o->out, ",\"profiles\":[\"security_control\"]");
	ocsf_end(&m);
}

/* "uid:1000" is a number of the host's, anything else a name. */
static void put_user(struct object *o, const struct entry *en)
{
	struct slice who = en->principal;
	struct object user;

	key(o, "user");
	user = ocsf_begin(o->out);
	if (who.n > 4 && memcmp(who.p, "uid:", 4) == 0)
		put_slice(&user, "uid", (struct slice){ who.p + 4, who.n - 4 });
	else
		put_slice(&user, "name", who.p ? who : (struct slice){ "unknown", 7 });
	ocsf_end(&user);
}

static void put_actor(struct object *o, const struct entry *en)
{
	struct object actor;

	key(o, "actor");
	actor = ocsf_begin(o->out);
	put_user(&actor, en);
	put_slice(&actor, "app_name", en->agent);
	ocsf_end(&actor);
}

static void put_status(struct object *o, const struct event_type *t, const struct entry *en)
{
	bool denied = false, failed;

	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++)
		if (slice_eq(en->type, verdicts[i].type)) {
			denied = verdicts[i].action == 2;
			ocsf_put_number(o, "action_id", verdicts[i].action);
			ocsf_put_text(o, "action", denied ? "Denied" : "Allowed");
			ocsf_put_number(o, "disposition_id", verdicts[i].disposition);
			ocsf_put_text(o, "disposition", verdicts[i].word);
		}
	failed = denied || (en->outcome.p && !slice_eq(en->outcome, "exited"));
	ocsf_put_number(o, "status_id", failed ? 2 : 1);
	ocsf_put_text(o, "status", failed ? "Failure" : "Success");
	put_slice(o, "status_detail", en->outcome);
	if (t && t->ocsf_class == CLASS_PROCESS)
		put_field(o, "exit_code", en, "rc");
	put_field(o, "duration", en, "duration_ms");
}

static void put_endpoint(struct object *o, const struct entry *en)
{
	struct object to;

	if (!en->host.p && !ocsf_has(en, "address"))
		return;
	key(o, "dst_endpoint");
	to = ocsf_begin(o->out);
	put_slice(&to, "hostname", en->host);
	put_field(&to, "ip", en, "address");
	put_field(&to, "port", en, "port");
	ocsf_end(&to);
}

static void put_request(struct object *o, const struct entry *en)
{
	struct object request, url;

	key(o, "http_request");
	request = ocsf_begin(o->out);
	put_field(&request, "http_method", en, "method");
	key(&request, "url");
	url = ocsf_begin(o->out);
	put_slice(&url, "hostname", en->host);
	put_field(&url, "port", en, "port");
	put_field(&url, "path", en, "path");
	ocsf_end(&url);
	ocsf_end(&request);
}

static void put_named(struct object *o, const char *name, const struct entry *en, const char *what,
		      struct slice uid)
{
	struct object part;

	key(o, name);
	part = ocsf_begin(o->out);
	if (ocsf_has(en, what))
		put_field(&part, "name", en, what);
	else
		put_slice(&part, "name", en->type);
	put_slice(&part, "uid", uid);
	ocsf_end(&part);
}

static void put_finding(struct object *o, const struct event_type *t, const struct entry *en)
{
	struct object info;

	key(o, "finding_info");
	info = ocsf_begin(o->out);
	ocsf_put_text(&info, "title", t->help);
	put_slice(&info, "uid", en->mac.p ? en->mac : en->type);
	key(&info, "types");
	buf_printf(o->out, "[\"%s\"]", t->name);
	ocsf_end(&info);
	if (t->ocsf_class == CLASS_COMPLIANCE) {
		key(o, "compliance");
		buf_puts(o->out,
			 "{\"standards\":[\"brig policy\"],\"status\":\"Fail\",\"status_id\":3}");
	}
}

/* What each class wants besides. */
static void put_objects(struct object *o, const struct event_type *t, const struct entry *en)
{
	switch (t->ocsf_class) {
	case CLASS_PROCESS:
		put_named(o, "process", en, "argv0", en->run);
		break;
	case CLASS_HTTP:
		put_request(o, en);
		break;
	case CLASS_DETECTION:
	case CLASS_COMPLIANCE:
		put_finding(o, t, en);
		break;
	case CLASS_AUTHENTICATION:
		put_user(o, en);
		break;
	case CLASS_ENTITY:
		put_named(o, "entity", en, "file", (struct slice){ 0 });
		break;
	case CLASS_LIFECYCLE:
		put_named(o, "app", en, "backend", en->run);
		break;
	case CLASS_API:
		key(o, "api");
		buf_printf(o->out, "{\"operation\":\"%s\"}", t->name);
		break;
	default:
		break;
	}
	if (t->ocsf_class / 1000 == 1) {
		key(o, "device"); /* type 6: a virtual one */
		buf_puts(o->out, "{\"type_id\":6,\"type\":\"Virtual\",\"name\":\"sandbox\"}");
	}
}

static void put_rules(struct object *o, const struct entry *en)
{
	if (en->policy.p)
		put_named(o, "policy", en, "access", en->policy);
	if (en->rule.p) {
		struct object rule;

		key(o, "firewall_rule");
		rule = ocsf_begin(o->out);
		put_slice(&rule, "uid", en->rule);
		ocsf_end(&rule);
	}
}

static void put_unmapped(struct object *o, const struct entry *en)
{
	struct object rest = { .out = o->out };
	struct pairs it;
	struct pair p;

	pairs_init(&it, en->line, en->len);
	while (pairs_next(&it, &p) > 0) {
		const char *const *known = mapped;

		while (*known && !slice_eq(p.key, *known))
			known++;
		if (*known)
			continue;
		if (!rest.some) {
			key(o, "unmapped");
			buf_putc(o->out, '{');
		}
		buf_puts(o->out, rest.some ? ",\"" : "\"");
		rest.some = true;
		clean_put_json(o->out, p.key.p, p.key.n);
		buf_puts(o->out, "\":");
		export_json_value(o->out, &p);
	}
	if (rest.some)
		buf_putc(o->out, '}');
}

void ocsf_event(struct buf *out, const struct entry *en)
{
	const struct event_type *t = type_of(en);
	struct object o = ocsf_begin(out);

	put_class(&o, t, en);
	put_metadata(&o, en);
	put_actor(&o, en);
	put_status(&o, t, en);
	put_endpoint(&o, en);
	if (t)
		put_objects(&o, t, en);
	put_rules(&o, en);
	put_unmapped(&o, en);
	ocsf_end(&o);
}

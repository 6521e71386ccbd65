/* SPDX-License-Identifier: Apache-2.0 */
/* audit/events.h - the table of everything that can be on the record.
 *
 * One row per type: its name, how grave it is, its class in OCSF, its own fields in the order in
 * which a line has them. Writers, the index, exports and docs all read this table. */
#pragma once

#include <stdbool.h>

enum event {
	EVENT_SANDBOX_CREATE,
	EVENT_SANDBOX_READY,
	EVENT_SANDBOX_EXEC,
	EVENT_SANDBOX_STOP,
	EVENT_SANDBOX_DELETE,
	EVENT_ACCESS_DENY,
	EVENT_TRUST_CHANGE,
	EVENT_EGRESS_ALLOW,
	EVENT_EGRESS_DENY,
	EVENT_EGRESS_DONE,
	EVENT_EGRESS_ANSWER,
	EVENT_EGRESS_USAGE,
	EVENT_LEAK_BLOCK,
	EVENT_LEAK_REDACT,
	EVENT_LEAK_WARN,
	EVENT_CREDENTIAL_INJECT,
	EVENT_CREDENTIAL_MISUSE,
	EVENT_CREDENTIAL_SCRUB,
	EVENT_CREDENTIAL_TOKEN,
	EVENT_AGENT_SIGN,
	EVENT_TOOL_CALL,
	EVENT_LIMIT_HIT,
	EVENT_CONFIG_REFUSED,
	EVENT_AUTH_FAIL,
	EVENT_POLICY_CHANGE,
	EVENT_LOG_PRUNE,
	EVENT_LOG_SUMMARY,
	EVENT_LOG_REPAIR, /* an unacknowledged tail was adopted or cut off */
	EVENT_LOG_LOST,   /* the head spoke of records that were not there */
	EVENT_COUNT
};

/* As in OCSF's severity_id. */
enum severity { SEVERITY_INFO = 1, SEVERITY_LOW, SEVERITY_MEDIUM, SEVERITY_HIGH };

enum value_kind {
	VALUE_TEXT,
	VALUE_NUMBER, /* a signed integer */
	VALUE_MILLI,  /* thousandths, written as a decimal: 1500 is 1.5 */
	VALUE_BOOL,
	VALUE_LIST, /* of texts */
};

/* Texts stand in the rows: addresses would have to be made anew at every start of brig. */
struct event_field {
	char name[16]; /* an empty one ends the list */
	enum value_kind kind;
};

enum { EVENT_FIELDS_MAX = 24 };

struct event_type {
	char name[24];
	enum severity severity;
	bool security; /* somebody was refused, limited or caught: `security-events` lists it */
	unsigned ocsf_class, ocsf_activity;
	char help[120];
	struct event_field fields[EVENT_FIELDS_MAX + 1];
};

extern const struct event_type event_types[EVENT_COUNT];

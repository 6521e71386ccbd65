/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/events.h"

#include <stddef.h>

/* OCSF 1.1 classes and the activities used here. */
enum {
	PROCESS = 1007,
	EVENT_LOG = 1008,
	COMPLIANCE = 2003,
	DETECTION = 2004,
	AUTHENTICATION = 3002,
	ENTITY = 3004,
	HTTP = 4002,
	LIFECYCLE = 6002,
	API = 6003,
};

/* clang-format off */
#define TEXT(n) { (n), VALUE_TEXT }
#define NUMBER(n) { (n), VALUE_NUMBER }
#define MILLI(n) { (n), VALUE_MILLI }
#define BOOLEAN(n) { (n), VALUE_BOOL }
#define LIST(n) { (n), VALUE_LIST }

/* What a decision about the network says; never a query string, a header or a body. */
#define EGRESS_FIELDS { TEXT("host"), NUMBER("port"), TEXT("method"), TEXT("path"), TEXT("address"), \
	TEXT("reason"), NUMBER("bytes_out"), NUMBER("bytes_in") }
#define LEAK_FIELDS { TEXT("host"), NUMBER("port"), TEXT("part"), TEXT("pattern"), TEXT("fingerprint"), NUMBER("count") }
#define CREDENTIAL_FIELDS { TEXT("name"), TEXT("host"), NUMBER("port"), TEXT("fingerprint"), TEXT("reason") }

const struct event_type event_types[EVENT_COUNT] = {
	[EVENT_SANDBOX_CREATE] = { "sandbox.create", SEVERITY_INFO, false, LIFECYCLE, 3,
		"a sandbox is about to be started",
		{ TEXT("backend"), TEXT("argv0"), LIST("argv"), TEXT("access"), TEXT("network"), TEXT("profile"),
		  TEXT("workspace"), NUMBER("memory"), NUMBER("timeout_ms"), NUMBER("pid"), TEXT("version"),
		  TEXT("within"), TEXT("name"), TEXT("mode") } },
	[EVENT_SANDBOX_READY] = { "sandbox.ready", SEVERITY_INFO, false, LIFECYCLE, 3,
		"a long-lived sandbox takes commands",
		{ TEXT("backend"), MILLI("setup_ms"), TEXT("layers") } },
	[EVENT_SANDBOX_EXEC] = { "sandbox.exec", SEVERITY_INFO, false, PROCESS, 1,
		"a command ended, or was never begun",
		{ TEXT("backend"), TEXT("argv0"), LIST("argv"), NUMBER("rc"), MILLI("duration_ms"), TEXT("outcome"),
		  NUMBER("signal"), BOOLEAN("started"), MILLI("setup_ms"), TEXT("layers"), NUMBER("stdout_bytes"),
		  NUMBER("stderr_bytes"), NUMBER("questions"), TEXT("names"), TEXT("host"), TEXT("job"), TEXT("image"),
		  TEXT("cluster"), TEXT("namespace"), TEXT("pod"), TEXT("node"), TEXT("error"),
		  TEXT("reason"), NUMBER("changed") } },
	[EVENT_SANDBOX_STOP] = { "sandbox.stop", SEVERITY_INFO, false, LIFECYCLE, 4,
		"a long-lived sandbox was stopped",
		{ TEXT("backend"), TEXT("reason") } },
	[EVENT_SANDBOX_DELETE] = { "sandbox.delete", SEVERITY_INFO, false, LIFECYCLE, 4,
		"a long-lived sandbox and its files were removed",
		{ TEXT("backend"), TEXT("reason") } },
	[EVENT_ACCESS_DENY] = { "access.deny", SEVERITY_MEDIUM, true, DETECTION, 1,
		"the command tried what the policy does not permit",
		{ TEXT("kind"), TEXT("target"), TEXT("reason") } },
	[EVENT_TRUST_CHANGE] = { "trust.change", SEVERITY_LOW, false, DETECTION, 1,
		"a run changed what programs on the host obey, or agents read: to be looked at before they do",
		{ TEXT("target"), TEXT("reason") } },
	[EVENT_EGRESS_ALLOW] = { "egress.allow", SEVERITY_INFO, false, HTTP, 99,
		"a connection or request was let out", EGRESS_FIELDS },
	[EVENT_EGRESS_DENY] = { "egress.deny", SEVERITY_MEDIUM, true, HTTP, 99,
		"a connection or request was refused", EGRESS_FIELDS },
	[EVENT_EGRESS_DONE] = { "egress.done", SEVERITY_INFO, false, HTTP, 99,
		"what was let out is over: the address dialled, the answer's status, bytes of bodies and tunnels; or a sum of such",
		{ TEXT("host"), NUMBER("port"), TEXT("method"), TEXT("address"), NUMBER("status"), NUMBER("bytes_out"),
		  NUMBER("bytes_in"), TEXT("credential"), NUMBER("count") } },
	[EVENT_EGRESS_ANSWER] = { "egress.answer", SEVERITY_INFO, false, API, 99,
		"somebody was asked about a name that no rule allows: what was answered, and by whom",
		{ TEXT("host"), NUMBER("port"), TEXT("answer"), TEXT("by") } },
	[EVENT_EGRESS_USAGE] = { "egress.usage", SEVERITY_INFO, false, HTTP, 99,
		"what a call of a model used: tokens in and out, what it cost in millionths of a USD; or a sum of such",
		{ TEXT("host"), NUMBER("port"), TEXT("model"), NUMBER("tokens_in"), NUMBER("tokens_cached"),
		  NUMBER("tokens_out"), NUMBER("cost_micro_usd"), TEXT("known"), NUMBER("count") } },
	[EVENT_LEAK_BLOCK] = { "leak.block", SEVERITY_HIGH, true, DETECTION, 1,
		"a secret on its way out was stopped", LEAK_FIELDS },
	[EVENT_LEAK_REDACT] = { "leak.redact", SEVERITY_MEDIUM, true, DETECTION, 1,
		"a secret was replaced on its way", LEAK_FIELDS },
	[EVENT_LEAK_WARN] = { "leak.warn", SEVERITY_LOW, true, DETECTION, 1,
		"something like a secret passed", LEAK_FIELDS },
	[EVENT_CREDENTIAL_INJECT] = { "credential.inject", SEVERITY_INFO, false, API, 99,
		"a credential was put into a request to a host it is bound to", CREDENTIAL_FIELDS },
	[EVENT_CREDENTIAL_MISUSE] = { "credential.misuse", SEVERITY_HIGH, true, DETECTION, 1,
		"a credential was asked for where it is not bound", CREDENTIAL_FIELDS },
	[EVENT_CREDENTIAL_SCRUB] = { "credential.scrub", SEVERITY_LOW, true, DETECTION, 1,
		"a secret was kept out of the sandbox or the output", CREDENTIAL_FIELDS },
	[EVENT_CREDENTIAL_TOKEN] = { "credential.token", SEVERITY_INFO, false, API, 99,
		"a login brought tokens, which the sandbox has as placeholders; or one was written back to its file", CREDENTIAL_FIELDS },
	[EVENT_AGENT_SIGN] = { "agent.sign", SEVERITY_INFO, false, API, 99,
		"the user's ssh-agent signed for the command: a commit, a tag or a login",
		{ TEXT("key"), TEXT("purpose"), TEXT("host") } },
	[EVENT_TOOL_CALL] = { "tool.call", SEVERITY_INFO, false, API, 99,
		"a model of brig agent called a tool; what that ran is a sandbox.exec of the run",
		{ TEXT("session"), TEXT("tool"), TEXT("outcome") } },
	[EVENT_LIMIT_HIT] = { "limit.hit", SEVERITY_LOW, true, PROCESS, 2,
		"a run came to one of its limits",
		{ TEXT("limit"), NUMBER("value"), TEXT("enforcer") } },
	[EVENT_CONFIG_REFUSED] = { "config.refused", SEVERITY_LOW, true, COMPLIANCE, 1,
		"a request was refused before anything was started",
		{ TEXT("command"), TEXT("error"), TEXT("reason") } },
	[EVENT_AUTH_FAIL] = { "auth.fail", SEVERITY_MEDIUM, true, AUTHENTICATION, 1,
		"somebody without the right asked the daemon",
		{ TEXT("method"), TEXT("source"), TEXT("reason") } },
	[EVENT_POLICY_CHANGE] = { "policy.change", SEVERITY_MEDIUM, true, ENTITY, 3,
		"what is trusted was changed",
		{ TEXT("action"), TEXT("file"), TEXT("digest") } },
	[EVENT_LOG_PRUNE] = { "log.prune", SEVERITY_LOW, true, EVENT_LOG, 1,
		"old records are removed, these up to `last`",
		{ NUMBER("last"), NUMBER("count"), TEXT("reason") } },
	[EVENT_LOG_SUMMARY] = { "log.summary", SEVERITY_MEDIUM, true, EVENT_LOG, 99,
		"so many more records of a kind were counted instead of written",
		{ TEXT("of"), NUMBER("count"), TEXT("kind"), TEXT("target"), TEXT("first"), TEXT("last") } },
	[EVENT_LOG_REPAIR] = { "log.repair", SEVERITY_LOW, true, EVENT_LOG, 99,
		"a writer died in the middle: what it left was taken over or cut off",
		{ NUMBER("adopted"), NUMBER("cut_bytes"), TEXT("reason") } },
	[EVENT_LOG_LOST] = { "log.lost", SEVERITY_HIGH, true, EVENT_LOG, 99,
		"records that were acknowledged are gone",
		{ NUMBER("last"), TEXT("reason") } },
};
/* clang-format on */

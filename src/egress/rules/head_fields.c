/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/head_fields.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/bytes/hex.h"
#include "base/text/cleanup.h"

/* Sorted. Each was looked up: none of them names a path, a host or a method to a service that
 * documents it. A name that ends in '*' stands for all that begin so. */
/* clang-format off */
static const char *const common[] = {
	"accept", "accept-*", "access-control-request-headers", "access-control-request-method",
	"amz-sdk-invocation-id", "amz-sdk-request", "anthropic-*", "api-key", "apikey",
	"authorization", "b3", "baggage", "brief", "cache-control", "chatgpt-account-id",
	"content-description", "content-digest", "content-disposition", "content-encoding",
	"content-id", "content-language", "content-length", "content-md5", "content-range",
	"content-transfer-encoding", "content-type", "conversation-id", "cookie", "copilot-*",
	"date", "deploy-token", "depth", "device-memory", "digest", "dnt",
	"docker-content-digest", "docker-distribution-api-version", "docker-upload-uuid",
	"downlink", "early-data", "ect", "editor-plugin-version", "editor-version", "expect",
	"from", "git-protocol", "graphql-features", "grpc-accept-encoding", "grpc-encoding",
	"grpc-timeout", "http-referer", "idempotency-key", "if", "if-*", "job-token",
	"kubectl-command", "kubectl-session", "last-event-id", "lock-token", "max-forwards",
	"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "mime-version",
	"notion-version", "npm-*", "openai-*", "origin", "originator", "overwrite", "pacote-*",
	"pragma", "prefer", "priority", "private-token", "purpose", "range", "referer",
	"repr-digest", "request-id", "rtt", "save-data", "sec-*", "sentry-trace", "session-id",
	"signature", "signature-input", "stripe-version", "thread-id", "timeout", "traceparent",
	"tracestate", "tus-resumable", "uber-trace-id", "upgrade-insecure-requests",
	"upload-checksum", "upload-complete", "upload-defer-length", "upload-length",
	"upload-offset", "user-agent", "version", "viewport-width", "want-content-digest",
	"want-digest", "want-repr-digest", "x-access-token", "x-amz-acl", "x-amz-checksum-*",
	"x-amz-content-sha256", "x-amz-date", "x-amz-decoded-content-length",
	"x-amz-expected-bucket-owner", "x-amz-meta-*", "x-amz-request-payer",
	"x-amz-sdk-checksum-algorithm", "x-amz-security-token", "x-amz-server-side-encryption",
	"x-amz-server-side-encryption-*", "x-amz-storage-class", "x-amz-tagging",
	"x-amz-trailer", "x-amz-user-agent", "x-amzn-trace-id", "x-anthropic-*", "x-api-key",
	"x-api-version", "x-app", "x-app-version", "x-auth-token", "x-b3-*", "x-claude-*",
	"x-client-name", "x-client-request-id", "x-client-version", "x-cloud-trace-context",
	"x-codex-*", "x-correlation-id", "x-csrf-token", "x-datadog-*", "x-gemini-*",
	"x-github-*", "x-goog-acl", "x-goog-api-client", "x-goog-api-key",
	"x-goog-content-length-range", "x-goog-hash", "x-goog-if-generation-match",
	"x-goog-if-metageneration-match", "x-goog-meta-*", "x-goog-resumable",
	"x-goog-storage-class", "x-goog-upload-command",
	"x-goog-upload-header-content-length", "x-goog-upload-header-content-type",
	"x-goog-upload-offset", "x-goog-upload-protocol", "x-goog-user-project",
	"x-idempotency-key", "x-initiator", "x-interaction-id", "x-interaction-type",
	"x-ms-blob-content-disposition", "x-ms-blob-content-encoding",
	"x-ms-blob-content-language", "x-ms-blob-content-length", "x-ms-blob-content-md5",
	"x-ms-blob-content-type", "x-ms-blob-type", "x-ms-client-request-id", "x-ms-date",
	"x-ms-lease-id", "x-ms-meta-*", "x-ms-version", "x-oai-*", "x-openai-*",
	"x-opencode-*", "x-request-id", "x-requested-with", "x-retry-count", "x-service-name",
	"x-session-affinity", "x-session-id", "x-stainless-*", "x-title", "x-trace-id", "x-user-agent", "x-vault-request",
	"x-vault-token", "x-xsrf-token",
};

/* Letters and digits alone, in small letters: what is left of a name when frameworks have read it
 * (`api_key`, `api-key`, `apiKey`, `API.Key[]`). Google reads a head out of `$httpHeaders`. */
static const char *const key_parameters[] = {
	"accesskey", "accesskeyid", "accesstoken", "apikey", "apisecret", "apitoken", "appkey",
	"auth", "authkey", "authorization", "authtoken", "awsaccesskeyid", "bearer",
	"bearertoken", "clientsecret", "deploytoken", "feedtoken", "googleaccessid",
	"httpheaders", "jobtoken", "jwt", "key", "oauthtoken", "passwd", "password",
	"privatetoken", "secret", "secretkey", "sessiontoken", "sig", "signature",
	"subscriptionkey", "token", "xamzcredential", "xamzsecuritytoken", "xamzsignature",
	"xapikey", "xgoogcredential", "xgoogsignature",
};

#define ENDING(text) { text, sizeof(text) - 1 }
static const struct {
	const char *text;
	size_t n;
} key_endings[] = {
	ENDING("auth"), ENDING("cookie2"), ENDING("credential"), ENDING("credentials"),
	ENDING("key"), ENDING("passwd"), ENDING("password"), ENDING("secret"), ENDING("token"),
};

/* End so, and hold nothing of an account: against forged forms, for pages, locks and retries, and
 * keys that only the body is encrypted with. */
static const char *const no_keys[] = {
	"continuationtoken", "csrftoken", "idempotencykey", "locktoken", "nexttoken", "pagetoken",
	"secwebsocketkey", "surrogatekey", "xcsrftoken", "xgoogencryptionkey",
	"xidempotencykey", "xmsencryptionkey", "xsrftoken", "xxsrftoken",
	"xamzserversideencryptioncustomerkey",
	"xamzcopysourceserversideencryptioncustomerkey",
};

static const char *const front_cookies[] = {
	"__cf_bm", "__cflb", "__cfruid", "__cfseq", "__cfwaitingroom", "_cfuvid", "cf_clearance",
	"AWSALB", "AWSALBCORS", "AWSALBTG", "AWSALBTGCORS", "ARRAffinity", "ARRAffinitySameSite",
	"GCLB", "ak_bmsc", "bm_sv",
};
/* clang-format on */

#define PLAIN_MAX 96

static bool begins_so(struct egress_text name, const char *row, size_t n)
{
	return name.n >= n && strncasecmp(name.p, row, n) == 0;
}

bool field_is_common(struct egress_text name)
{
	for (size_t i = 0; name.n && i < ARRAY_LEN(common); i++) {
		size_t n;
		bool prefix;

		if ((common[i][0] ^ name.p[0]) & 0xdf) /* bit 5 is all that case can change */
			continue;
		n = strlen(common[i]);
		prefix = common[i][n - 1] == '*';
		if (prefix ? begins_so(name, common[i], n - 1)
			   : name.n == n && begins_so(name, common[i], n))
			return true;
	}
	return false;
}

/* A name that is too long for this is none that a service documents. */
static size_t plain_name(struct egress_text name, char out[PLAIN_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < name.n; i++) {
		unsigned char c = (unsigned char)name.p[i], small;

		if (c == '%' && name.n - i > 2 && hex_nibble(name.p[i + 1]) >= 0 &&
		    hex_nibble(name.p[i + 2]) >= 0) {
			c = (unsigned char)(hex_nibble(name.p[i + 1]) * 16 +
					    hex_nibble(name.p[i + 2]));
			i += 2;
		}
		small = c | 32; /* digits have that bit */
		if ((unsigned)(small - 'a') >= 26 && (unsigned)(c - '0') >= 10)
			continue;
		if (n == PLAIN_MAX)
			return 0;
		out[n++] = (char)small;
	}
	return n;
}

static bool is_one_of(const char *const *rows, size_t n_rows, const char *p, size_t n)
{
	for (size_t i = 0; i < n_rows; i++)
		if (n && rows[i][0] == p[0] && strlen(rows[i]) == n && memcmp(rows[i], p, n) == 0)
			return true;
	return false;
}

/* Their last letters first, then both ends: this is asked of every field of every request. */
static bool ends_as_key(const char *p, size_t n)
{
	if (!n || !strchr("2dhlnsty", p[n - 1]))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(key_endings); i++) {
		size_t len = key_endings[i].n;

		if (n >= len && p[n - 1] == key_endings[i].text[len - 1] &&
		    p[n - len] == key_endings[i].text[0] &&
		    memcmp(p + n - len, key_endings[i].text, len) == 0)
			return true;
	}
	return false;
}

bool field_takes_key(struct egress_text name)
{
	char plain[PLAIN_MAX];
	size_t n = plain_name(name, plain);

	return (ends_as_key(plain, n) || (n >= 13 && memmem(plain, n, "authorization", 13))) &&
	       !is_one_of(no_keys, ARRAY_LEN(no_keys), plain, n);
}

bool parameter_takes_key(struct egress_text name)
{
	char plain[PLAIN_MAX];
	size_t n = plain_name(name, plain);

	return is_one_of(key_parameters, ARRAY_LEN(key_parameters), plain, n);
}

bool cookie_is_of_front(struct egress_text name)
{
	for (size_t i = 0; i < ARRAY_LEN(front_cookies); i++)
		if (name.n == strlen(front_cookies[i]) &&
		    memcmp(name.p, front_cookies[i], name.n) == 0)
			return true;
	return false;
}

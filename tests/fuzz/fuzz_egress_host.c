/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_host.c - a name that is taken is canonical, and parsing it again changes
 * nothing; what any reader could take for an address is refused. The settings and variables that
 * name hosts and networks are read as well. */
#include "fuzz.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "egress/proxy_hint.h"
#include "egress/rules/direct.h"
#include "egress/rules/host.h"
#include "egress/rules/upstream_proxy.h"

static void require_canonical(const struct host *h)
{
	size_t label = 0;

	require(h->len && h->len <= HOST_NAME_MAX_LEN && strlen(h->name) == h->len);
	for (size_t i = 0; i <= h->len; i++) {
		char c = h->name[i];

		if (c == '.' || !c) {
			require(label >= 1 && label <= 63 && h->name[i - 1] != '-');
			label = 0;
			continue;
		}
		require((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && label));
		label++;
	}
}

/* The proxy of the machine: a port, and a name or an address. */
static void check_chain(const uint8_t *data, size_t size)
{
	char text[512];
	struct upstream_proxy c;
	struct err e;

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (chain_parse(text, &c, &e) < 0) {
		require(!c.on);
		return;
	}
	require(c.on == (text[0] != '\0') && (!c.on || c.port));
	require(c.tls == (strncmp(text, "https://", 8) == 0));
	if (c.host.len)
		require_canonical(&c.host);
	else
		require(!c.on || c.addr.family == 4 || c.addr.family == 6);
}

/* A list that is taken covers no address that is public, of this machine, or a cloud's metadata. */
static void check_direct(const char *text)
{
	static const char *const never[] = { "127.0.0.1", "169.254.169.254", "100.100.100.200",
					     "8.8.8.8",   "198.18.0.1",      "::1",
					     "fe80::1",   "fd00:ec2::254",   "2600::1" };
	const char *v[] = { text, "*.x.example" };
	struct strlist l = { .v = v, .n = 2 };
	struct direct *d;
	struct host h;
	struct addr a;
	struct err e;

	if (direct_new(&l, &d, &e) < 0)
		return;
	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		require(addr_parse(never[i], strlen(never[i]), &a) == 0 && !direct_opens(d, &a));
	require(host_parse(egress_text("a.x.example", 11), &h) == HOST_OK && direct_has(d, &h));
	require(host_parse(egress_text("x.example", 9), &h) == HOST_OK);
	require(!direct_has(d, &h) || strcasestr(text, "example")); /* nor an apex */
	direct_free(d);
}

/* What a variable says is shown without user and password. */
static void check_hint(const char *text)
{
	char variable[600], out[PROXY_HINT_SIZE];
	char *envp[] = { variable, NULL };
	const char *url;

	(void)snprintf(variable, sizeof(variable), "HTTPS_PROXY=%s", text);
	if (!proxy_hint(envp, out)) {
		require(!*text);
		return;
	}
	url = strstr(out, "upstream_proxy=");
	require(url && !strchr(url, '@'));
}

static void check_settings(const uint8_t *data, size_t size)
{
	char text[512];

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	check_direct(text);
	check_hint(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_text t = egress_text((const char *)data, size);
	struct host h, again;
	struct in_addr loose;
	uint16_t port;

	check_chain(data, size);
	check_settings(data, size);
	if (host_parse(t, &h) == HOST_OK) {
		require_canonical(&h);
		require(host_parse(egress_text(h.name, h.len), &again) == HOST_OK);
		require(host_eq(&h, &again) && host_matches(h.name, &h));
		/* the most permissive reader of addresses there is */
		require(inet_aton(h.name, &loose) == 0);
	}
	if (host_parse_authority(t, 443, &h, &port) == HOST_OK) {
		require_canonical(&h);
		require(port != 0);
	}
	return 0;
}

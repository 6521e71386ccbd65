/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_host.c - a name that is taken is canonical, and parsing it again changes
 * nothing; what any reader could take for an address is refused. */
#include "fuzz.h"

#include <arpa/inet.h>

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
	if (c.host.len)
		require_canonical(&c.host);
	else
		require(!c.on || c.addr.family == 4 || c.addr.family == 6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_text t = egress_text((const char *)data, size);
	struct host h, again;
	struct in_addr loose;
	uint16_t port;

	check_chain(data, size);
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

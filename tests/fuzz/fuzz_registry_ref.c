/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_registry_ref.c - references, and where a registry leads: parts that go into an address
 * have nothing in them that would mean more there. */
#include "fuzz.h"

#include "base/text/url.h"
#include "image/ref.h"
#include "image/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), next[REGISTRY_URL_MAX];
	struct err e = { 0 };
	struct url u;
	struct ref r;

	if (ref_parse(text, &r, &e) == 0) {
		require(r.host[0] && r.repository[0] && r.tag[0]);
		require(!strpbrk(r.host, "/@?# ") && !strpbrk(r.tag, "/@?#: "));
		require(!strpbrk(r.repository, "@?#: ") && r.repository[0] != '/');
		require(!strstr(r.repository, "..") && !strstr(r.repository, "//"));
		require(!r.digest[0] || ref_is_digest(r.digest));
	} else {
		require(e.code && e.what[0]);
	}
	if (registry_follow("https://a.example/v2/x", (const char *)data, size, next, sizeof(next),
			    &e) == 0)
		require(url_parse(next, &u, &e) == 0 && u.tls);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_bundle_manifest.c - whatever a bundle's manifest says: what passes can be installed
 * everywhere, below one folder, each file in a place of its own. */
#include "fuzz.h"

#include <strings.h>

#include "apps/bundle/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bundle_manifest m = { 0 };
	struct err e = { 0 };
	uint64_t bytes = 0;

	if (bundle_manifest_read((const char *)data, size, &m, &e) < 0) {
		require(e.code && e.what[0] && !m.root);
		return 0;
	}
	require(bundle_name_ok(m.name) && bundle_version_ok(m.version));
	require(!strchr(m.name, '/') && !strchr(m.version, '/') && m.name[0] != '.');
	require(m.n > 0 && m.n <= BUNDLE_FILES_MAX && m.backend_count <= BUNDLE_BACKENDS_MAX);
	for (size_t i = 0; i < m.n; i++) {
		const char *place = bundle_file_place(&m.files[i]);

		require(place[0] != '/' && place[0] != '.' && !strstr(place, "/.") &&
			!strstr(place, "//"));
		require(strcasecmp(place, MANIFEST_NAME) != 0);
		require(bundle_manifest_find(&m, m.files[i].path) == &m.files[i]);
		for (size_t k = 0; k < i && m.n < 64; k++) {
			const char *other = bundle_file_place(&m.files[k]);
			size_t a = strlen(place), b = strlen(other);

			require(strcasecmp(place, other) != 0);
			require(!(a > b && place[b] == '/' && strncasecmp(place, other, b) == 0));
			require(!(b > a && other[a] == '/' && strncasecmp(place, other, a) == 0));
		}
		bytes += m.files[i].size;
	}
	require(bytes == m.bytes && bytes <= BUNDLE_BYTES_MAX);
	bundle_manifest_done(&m);
	return 0;
}

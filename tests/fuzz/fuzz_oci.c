/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_oci.c - manifests of a registry: what passes can be written again, and says the same.
 */
#include "fuzz.h"

#include "image/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf) struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	struct oci_manifest *m = calloc(2, sizeof(*m));
	struct err e = { 0 };

	require(m != NULL);
	if (oci_read((const char *)data, size, &m[0], &e) < 0) {
		require(e.code && e.what[0]);
	} else {
		require(ref_is_digest(m[0].config.digest));
		for (size_t i = 0; i < m[0].n; i++)
			require(ref_is_digest(m[0].layers[i].digest) && m[0].layers[i].type[0]);
		oci_write(&m[0], &text);
		require(oci_read(buf_str(&text), text.len, &m[1], &e) == 0);
		require(m[1].n == m[0].n && m[1].config.size == m[0].config.size);
	}
	free(m);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_changes.c - the list of a process that looked through a layer, as a hostile one would
 * write it: what is taken leads below the workspace, and is judged without a fault. */
#include "fuzz.h"

#include "workspace/change.h"
#include "workspace/apply_guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct change_list l = { 0 };

	if (change_list_read((const char *)data, size, &l) < 0)
		return 0;
	for (size_t i = 0; i < l.n; i++) {
		struct guard_says says = guard_change(&l.v[i]);

		require(change_path_ok(l.v[i].path) && l.v[i].path[0] != '/');
		require(says.at <= strlen(l.v[i].path) && (!says.at || says.reason));
		(void)change_leads_out(l.v[i].path, l.v[i].link);
	}
	change_list_done(&l);
	return 0;
}

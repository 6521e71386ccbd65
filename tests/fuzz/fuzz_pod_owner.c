/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_pod_owner.c - what a cluster shows of agent-sandbox: names that go into a path are
 * names, texts fit a terminal; a pod that breaks a promise says in what, and one that asks for
 * nothing and is shown as nothing breaks none. */
#include <stdio.h>

#include "backend/kubernetes/pod_guard.h"
#include "fuzz.h"

#include "base/text/cleanup.h"

static void check_text(const char *text, size_t n)
{
	require(memchr(text, '\0', n) != NULL);
	for (; *text; text++)
		require((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_name(const char *name, size_t n)
{
	require(memchr(name, '\0', n) != NULL);
	require(!*name || kube_is_name(name, n - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(jread) struct jread *v = NULL;
	CLEANUP(jread) struct jread *nothing = NULL;
	struct owner_seen seen;
	char why[POD_GUARD_REASON] = "";
	const char *name;
	struct err e;

	if (jread_parse((const char *)data, size, &v, &e) < 0)
		return 0;
	owner_look(v, &seen);
	check_name(seen.uid, sizeof(seen.uid));
	check_name(seen.sandbox, sizeof(seen.sandbox));
	check_name(seen.pod, sizeof(seen.pod));
	check_text(seen.reason, sizeof(seen.reason));
	check_text(seen.waits, sizeof(seen.waits));
	require(!owner_controls("", v));
	(void)owner_controls("uid-1", v);
	name = owner_version(v);
	require(!name || strcmp(name, "v1alpha1") == 0 || strcmp(name, "v1beta1") == 0);
	(void)owner_has(v, "sandboxes");
	name = owner_pool(v, "tools");
	require(!name || kube_is_name(name, OWNER_NAME - 1));
	require(!pod_breaks_promise(v, v, why, sizeof(why)) || why[0]);
	if (jread_parse("{}", 2, &nothing, &e) == 0 &&
	    pod_breaks_promise(nothing, v, why, sizeof(why)))
		check_text(why, sizeof(why));
	return 0;
}

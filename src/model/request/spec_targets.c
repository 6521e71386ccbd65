/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request/spec_targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "model/request/volume.h"
#include "model/settings/paths.h"

int target_place(const struct spec *s, const char *target, struct err *e)
{
	if (target_check(target, s->inside, e) < 0)
		return -e->code;
	if (!spec_links_workspace(s) || !path_under(target, WORKSPACE_PLACE))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "mount target '%.200s': '%s' is a link to '%.200s'",
		      target, WORKSPACE_PLACE, s->inside);
	return err_hint(e, "name a place below '%.200s', or another one, such as /data", s->inside);
}

int targets_check_volumes(const struct spec *s, struct err *e)
{
	struct volume v;

	if (volumes_of(s) > VOLUMES_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d caches and volumes", VOLUMES_MAX);
	for (size_t i = 0; i < volumes_of(s); i++) {
		bool cache = i < s->caches.n;

		if (volume_of(s, i, &v, e) < 0 || target_place(s, v.target, e) < 0)
			return spec_blame(s, cache ? FIELD_CACHES : FIELD_VOLUMES,
					  cache ? "--cache" : "--volume", e);
	}
	return 0;
}

/* The nth target of all kinds together. Each volume was looked at before. */
static const char *nth_target(const struct spec *s, size_t n)
{
	struct volume v = { .target = "" };
	struct err unused;

	if (n < volumes_of(s))
		return volume_of(s, n, &v, &unused) < 0 ? "" : v.target;
	n -= volumes_of(s);
	if (n < s->mounts.n)
		return s->mounts.v[n].target;
	n -= s->mounts.n;
	if (n < s->read.n)
		return s->read.v[n];
	n -= s->read.n;
	return s->write.v[n];
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int targets_differ(const struct spec *s, struct err *e)
{
	size_t n = volumes_of(s) + s->mounts.n + s->read.n + s->write.n;
	CLEANUP(mem) const char **all = n ? malloc(n * sizeof(*all)) : NULL;

	if (n && !all)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++)
		all[i] = nth_target(s, i);
	if (n)
		qsort(all, n, sizeof(*all), by_text);
	for (size_t i = 1; i < n; i++)
		if (str_eq(all[i - 1], all[i]))
			return err_refuse(e, ERR_USAGE, EEXIST,
					  "leave one out, or give it another place",
					  "two mounts at '%s'", all[i]);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/dashboard/assets.h - the pages of the dashboard, as tools/gen-assets has put them into the
 * program. */
#pragma once

#include <stddef.h>

struct asset {
	const char *path, *type; /* NULL: the end */
	const unsigned char *data;
	size_t n;
};

extern const struct asset dashboard_assets[];

/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/usable.h"

#include <stdio.h>

#include "backend/engine_health.h"
#include "sandbox/health.h"

size_t doctor_usable(struct usable ret[USABLE_MAX])
{
	size_t n = 0;

	for (const struct backend *const *b = backends_auto; *b && n < USABLE_MAX; b++, n++) {
		ret[n] = (struct usable){ .backend = (*b)->name,
					  .images = (*b)->maker && (*b)->maker->pull };
		ret[n].ready = backend_health(*b, NULL, HEALTH_MS, ret[n].detail,
					      sizeof(ret[n].detail)) == 0;
	}
	return n;
}

bool doctor_has_image(const char *ref)
{
	struct engine_health h = { 0 };

	engine_health(HEALTH_MS, &h);
	return h.state == ENGINE_READY && engine_has_image(&h, ref, HEALTH_MS, NULL) == 1;
}

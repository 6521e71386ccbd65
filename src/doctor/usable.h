/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/usable.h - which of the backends that a run may take by itself work here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { USABLE_MAX = 4 };

struct usable {
	const char *backend;
	bool ready, images; /* images: it runs in one */
	char detail[512];   /* what it is, or why it is not ready; perhaps an engine's words */
};

/* In the order in which a run tries them; how many. Each is tried as a run would use it, for
 * HEALTH_MS at most. */
size_t doctor_usable(struct usable ret[USABLE_MAX]);

/* Has the engine that a run would use this image? false also where there is no engine. */
bool doctor_has_image(const char *ref);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/schema.h - the settings as a JSON Schema, written from the field table. */
#pragma once

#include "base/bytes/json.h"

/* `self` is where it will stand, as a reference: "#" for a document of its own. */
void schema_json(struct json *j, const char *self);

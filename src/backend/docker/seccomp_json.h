/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/seccomp_json.h - the system-call table in the form engines take.
 *
 * Made from the same table as the native backend's filter (backend/kit/process/seccomp_table.h).
 * Pure. */
#pragma once

#include "backend/kit/process/seccomp.h"
#include "base/json.h"

void seccomp_json(enum seccomp_profile profile, struct json *j); /* one object */
/* The default one, and leave to make a user namespace with a network: for the door's helper. */
void seccomp_json_door(struct json *j);

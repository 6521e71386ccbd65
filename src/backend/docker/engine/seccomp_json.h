/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/engine/seccomp_json.h - the system-call table in the form engines take.
 *
 * Made from the same table as the native backend's filter (backend/kit/seccomp/seccomp_table.h).
 * Pure.
 *
 * A sandbox's container is told which calls there are; what they may be given is the business of
 * the native filter, which the gate loads over it. Said to an engine it takes four hundred rules,
 * which four programs read and libseccomp compiles at every start, and some cannot be said at all.
 * One more call is allowed than the command has: the gate makes a second user and mount namespace
 * (gate_main.c).
 */
#pragma once

#include "backend/kit/seccomp/seccomp.h"
#include "base/bytes/json.h"

void seccomp_json(enum seccomp_profile profile, struct json *j); /* one object */
/* The default one with all it says of arguments, and leave to make a user namespace with a network:
 * for the door's helper. */
void seccomp_json_door(struct json *j);

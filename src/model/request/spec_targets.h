/* SPDX-License-Identifier: Apache-2.0 */
/* model/request/spec_targets.h - where mounts, grants and volumes are to appear inside. */
#pragma once

#include "model/settings/spec.h"

/* Refuses a place that nothing may cover, or that leads to the workspace. */
int target_place(const struct spec *s, const char *target, struct err *e);
int targets_check_volumes(const struct spec *s, struct err *e);
/* Refuses two at one place. */
int targets_differ(const struct spec *s, struct err *e);

/* Puts in front of *e who set the field: spec_check.c. */
int spec_blame(const struct spec *s, enum field_id id, const char *flag, struct err *e);

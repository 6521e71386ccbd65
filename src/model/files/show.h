/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/show.h - one setting's value, for both forms of `config show`. */
#pragma once

#include "base/bytes/json.h"
#include "model/settings/spec.h"

/* 0 where the table's bounds exclude it is no value but its absence: no limit. */
bool show_unlimited(const struct field *f, uint64_t v);

/* Writes the value. With `file` in a form that brig.yaml reads back, else sizes in bytes and times
 * in milliseconds. */
void show_value(struct json *j, const struct spec *s, enum field_id id, bool file);

/* The same of `companions`, with the values of their variables, which nobody is shown. */
void show_whole(struct json *j, const struct spec *s, enum field_id id, bool file);

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/bundle/bundle_show.h - what brig-bundle prints: lines, or one object. A stranger's words are
 * cleaned. */
#pragma once

#include "apps/bundle/install.h"
#include "apps/bundle/manifest.h"
#include "base/bytes/json.h"

/* One line of "NAME: TEXT", nothing where there is no text. */
void show_line(const char *name, const char *text);
void show_number(const char *name, uint64_t n);
void show_manifest(const struct bundle_manifest *m);
void json_manifest(struct json *j, const struct bundle_manifest *m);
void json_record(struct json *j, const struct bundle_record *b);
/* Ends the object and prints it. */
void json_print(struct json *j);

/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/manager.h - the inside of brig.h, for the command line, which fills a request's spec
 * itself. */
#pragma once

#include "brig.h"
#include "model/outcome.h"
#include "model/spec.h"

/* brig as the bwrap backend starts it inside a sandbox; see backend/bwrap/inside.h. */
_Noreturn void sandbox_inside(int letter);

struct spec *request_spec(brig_request *q);
void request_signals(brig_request *q, int signalfd); /* borrowed; see struct run_io */

/* The backend that would run this spec, which nothing is started for; the error says why none
 * would.
 */
int spec_backend(const struct spec *s, const char **name, struct err *e);
const struct outcome *result_outcome(const brig_result *r);

void error_export(const struct err *from, struct brig_error *to);

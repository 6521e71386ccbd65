/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/manager.h - the inside of brig.h, for the command line, which fills a request's spec
 * itself. */
#pragma once

#include "brig.h"
#include "model/outcome.h"
#include "model/spec.h"

/* brig as the bwrap backend starts it inside a sandbox; see backend_inside. */
_Noreturn void sandbox_inside(int letter);

struct spec *request_spec(brig_request *q);
void request_signals(brig_request *q, int signalfd); /* borrowed; see struct run_io */

/* Reads code or a script from a descriptor to its end; file is its host path, or NULL. */
int request_code_fd(brig_request *q, enum code_kind kind, int fd, const char *file, struct err *e);
/* The same from a path; "-" is standard input. */
int request_code_file(brig_request *q, enum code_kind kind, const char *path, struct err *e);
int request_code(brig_request *q, enum code_kind kind, const void *text, size_t n, const char *file,
		 struct err *e);

/* Why none would: the settings are wrong; this version or the caller's word does not let it run;
 * this machine has no engine for it. */
enum spec_fault { FAULT_FILE, FAULT_VERSION, FAULT_MACHINE };

/* The backend that would run this spec, which nothing is started for; the error says why none
 * would, and *why whose fault that is. */
int spec_backend(const struct spec *s, const char **name, enum spec_fault *why, struct err *e);
/* Fetches an image for the docker backend. */
int sandbox_pull(const char *ref, brig_note_fn *note, void *arg, struct err *e);
const struct outcome *result_outcome(const brig_result *r);
brig_result *result_new(struct outcome *o); /* takes o over, unless NULL comes back */
const struct spec *manager_spec(const brig_manager *m);

void error_export(const struct err *from, struct brig_error *to);
int error_missing(const char *what, struct brig_error *to); /* "no WHAT was given"; -EINVAL */

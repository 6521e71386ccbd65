/* SPDX-License-Identifier: Apache-2.0 */
/* far/far_request.h - what one brig asks another one to run, or to keep open.
 *
 * Pieces of five texts and a word that they are complete: settings (JSON), options, the words of
 * the command and the variables, each with its NUL, and code. Without words it is a sandbox that
 * stays open. The settings have those of a brig.yaml, which are all there are; or else there are
 * options, KEY=VALUE, on top of what is configured there. The numbers of commands are the asking
 * side's; a run is number 1, and 0 is the sandbox itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "far/frames.h"

enum {
	FAR_PROTOCOL = 2,
	FAR_RUN = 1,            /* the number of a run's one command */
	FAR_WINDOW = 512 << 10, /* bytes on their way in one direction of one stream */
	FAR_OUT = 40 << 20,     /* a request, or a report, that waits to be sent */
	FAR_TEXT_MAX = 8 << 20, /* each of the five texts */
	FAR_REPORT_MAX = 32 << 20,
	FAR_MARGIN_MIB = 64, /* what brig itself needs beside a run: asked for here, taken off
			      * again there */
};

/* Must be the same file on both sides. */
struct far_path {
	const char *path, *what; /* what: the setting that names it */
};

struct far_request {
	const char *id;
	const char *settings; /* JSON; NULL: the options count */
	size_t settings_size;
	const char *const *options, *const *words, *const *variables; /* NULL: none */
	const char *code;                                             /* NULL: none */
	size_t code_size;
	const struct far_path *paths;
	size_t path_count;
	bool one_home; /* HOME and brig's state are where they are here */
	bool tty, input;
	unsigned short rows, cols;
	uint64_t output; /* bytes of each stream that are wanted, by who writes them to a file */
	uint64_t most_timeout, most_memory, most_gpus; /* milliseconds, bytes; 0: whatever is set */
};

/* Queues it. E2BIG: the command is too long. */
int far_request_say(struct frames *c, const struct far_request *q, struct err *e);

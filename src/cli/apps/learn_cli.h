/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/learn_cli.h - a run that brig learns from, for "learn" and for "init". */
#pragma once

#include "apps/learn/learn_text.h"
#include "base/text/err.h"
#include "sandbox/manager.h"

struct learning {
	brig_manager *manager;
	brig_request *request;
	struct spec *checked; /* as it runs */
	struct sightings *seen;
	brig_result *result; /* of the run; NULL: there was none */
	struct learn_text text;
	bool keeps_output; /* standard output is the command's; else it goes to standard error */
};

int learning_new(struct learning *l, struct err *e);
void learning_done(struct learning *l);
/* Settings of the request become those of a run to learn from: the door open, nothing of the user's
 * along that was not asked for on this line. After they are loaded. */
int learning_open(struct learning *l, struct err *e);
/* Runs the words and settles what was learned. An error: it was never started. */
int learning_run(struct learning *l, int argc, char **argv, const struct spec *add, struct err *e);

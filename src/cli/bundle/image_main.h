/* SPDX-License-Identifier: Apache-2.0 */
/* cli/bundle/image_main.h - the commands of `brig image` that are about brig's own images. */
#pragma once

#include "base/text/err.h"

/* argv[1] is the command. 0, or an error. */
int image_main(int argc, char **argv, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/bundle/image_main.h - the commands of `brig image` that are about brig's own images. */
#pragma once

#define IMAGE_PROGRAM "brig-image" /* brig-bundle by this name does them */

/* argv[1] is the command. The exit status. */
int image_main(int argc, char **argv);

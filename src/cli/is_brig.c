/* SPDX-License-Identifier: Apache-2.0 */
/* cli/is_brig.c - this program is brig, or can take its place inside of a sandbox. */

/* What backend/bwrap/bwrap_program.c asks for. Not in a brig-more that loads libraries: inside
 * there may be none. */
extern const char brig_is_this_program[];
const char brig_is_this_program[] = "brig";

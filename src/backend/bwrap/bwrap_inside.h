/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/bwrap_inside.h - brig as bubblewrap has started it: process 1 of the sandbox. */
#pragma once

/* Reads the letter in descriptor `letter`, checks what bubblewrap has built, locks itself down and
 * is the sandbox's init. */
_Noreturn void bwrap_inside(int letter);

/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/agent_confirm.h - a person is asked whether a model's call may run, and sees what it is.
 *
 * Shown is not seen: blanks push what matters off the screen, and an answer may be typed before
 * there is a question. So runs of one character are folded, commands stand on lines of their own,
 * never more than half a screen comes at a time, and what is typed within 300 ms of a question or
 * before it does not count. */
#pragma once

#include <stdbool.h>

#include "apps/chat/chat_loop.h"

/* Somebody must be there: without a terminal nobody agrees. Nor to what could not be shown. */
bool agent_confirm(const struct chat_call *c);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/answer.h - what somebody says of a name that no rule allows (egress.ask). */
#pragma once

enum run_answer {
	RUN_ANSWER_NO,
	RUN_ANSWER_ONCE,
	RUN_ANSWER_RUN,
	RUN_ANSWER_ALWAYS, /* the same, and there is a rule from now on */
	RUN_ANSWER_NOBODY, /* there is nobody */
	RUN_ANSWERS
};

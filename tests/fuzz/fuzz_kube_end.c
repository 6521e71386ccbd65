/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_kube_end.c - the last word on a command: a code that a process can have, or a reason
 * that a terminal can show. */
#include "fuzz.h"

#include "base/text/str.h"
#include "kube/kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kube_answer a = { .status = 500 };
	struct kube_end end;
	char text[128];

	kube_end_read((const char *)data, size, &end);
	require(end.code >= 0 && end.code <= 255);
	require(end.known || (end.why[0] && end.code == 0));
	require(memchr(end.why, '\0', sizeof(end.why)) && !str_has_control(end.why));
	a.body.max = size + 1;
	buf_add(&a.body, data, size);
	kube_answer_text(&a, text, sizeof(text));
	require(text[0] && !str_has_control(text));
	kube_answer_done(&a);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_keys.c - the way out is found however what is typed is cut into pieces, and three plain
 * keys in a row are always it. So is the answer to a question, and nothing behind an escape is
 * one. */
#include "fuzz.h"

#include <string.h>

#include "sandbox/prompt.h"
#include "sandbox/streams/keys.h"

static void ask(const char *data, size_t size, size_t step)
{
	CLEANUP(buf) struct buf echo = BUF_INIT((size_t)1 << 20);
	enum prompt_word at_once, in_pieces = PROMPT_NONE;
	struct prompt whole, cut;

	prompt_begin(&whole, false, 0);
	prompt_begin(&cut, false, 0);
	at_once = prompt_type(&whole, data, size, PROMPT_QUIET_US, &echo);
	for (size_t i = 0; i < size && !in_pieces; i += step)
		in_pieces = prompt_type(&cut, data + i, size - i < step ? size - i : step,
					PROMPT_QUIET_US, &echo);
	require(at_once == in_pieces && at_once != PROMPT_YES);
	require(at_once == PROMPT_NONE || data[0] != '\033');
	require(!echo.len || !memchr(echo.data, '\033', echo.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keys whole = { 0 }, cut = { 0 };
	size_t step = size ? data[0] % 7 + 1 : 1;
	bool at_once, in_pieces = false;

	if (size < 2)
		return 0;
	data++;
	size--;
	ask((const char *)data, size, step);
	at_once = keys_leave(&whole, (const char *)data, size, 1);
	for (size_t i = 0; i < size && !in_pieces; i += step)
		in_pieces = keys_leave(&cut, (const char *)data + i,
				       size - i < step ? size - i : step, 1);
	require(at_once == in_pieces);
	if (!at_once)
		require(keys_leave(&whole, "\x1c\x1c\x1c", 3, 2));
	return 0;
}

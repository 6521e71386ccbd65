/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/last_words.h"

#include <string.h>

void last_words_add(struct last_words *t, const char *data, size_t n)
{
	size_t kept;

	if (n > sizeof(t->text)) {
		data += n - sizeof(t->text);
		n = sizeof(t->text);
	}
	kept = sizeof(t->text) - n < t->n ? sizeof(t->text) - n : t->n;
	memmove(t->text, t->text + t->n - kept, kept);
	memcpy(t->text + kept, data, n);
	t->n = kept + n;
}

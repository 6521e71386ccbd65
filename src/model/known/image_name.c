/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/image_name.h"

#include <string.h>

#define NAME_BYTES 512
#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

bool image_valid(const char *name)
{
	size_t n = strlen(name);

	return n && n < NAME_BYTES && strchr(ALNUM, name[0]) && strspn(name, ALNUM "._-/:@") == n &&
	       !strchr("/:@", name[n - 1]);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/h2/grpc.h"

#include <strings.h>

#define HEAD 5
#define TYPE "application/grpc"

bool grpc_is(const struct http1_field *f, size_t n)
{
	struct http1_text type = http1_only(f, n, "Content-Type");

	return type.n >= sizeof(TYPE) - 1 && strncasecmp(type.p, TYPE, sizeof(TYPE) - 1) == 0;
}

bool grpc_pass(struct grpc_messages *m, const char *p, size_t n)
{
	while (n && m->on) {
		size_t k = m->left < n ? m->left : n;

		if (m->have == HEAD) {
			m->left -= (uint32_t)k;
			p += k;
			n -= k;
		} else {
			m->packed |= !m->have && *p != 0;
			m->left = m->have ? m->left << 8 | (unsigned char)*p : 0;
			m->have++;
			p++;
			n--;
		}
		if (m->have == HEAD && !m->left)
			m->have = 0;
	}
	return m->on && !m->have;
}

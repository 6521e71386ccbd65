/* SPDX-License-Identifier: Apache-2.0 */
/* wire/http1_internal.h - what the readers of answers and of requests share; nobody else includes
 * this. */
#pragma once

#include "wire/http1.h"

bool http1_is_token_char(unsigned char c);
size_t http1_head_length(const char *p, size_t n);
bool http1_take_line(const char **p, const char *end, struct http1_text *line);
bool http1_field_line(struct http1_text l, struct http1_field *f);
int http1_content_length(struct http1_text t, uint64_t *ret);

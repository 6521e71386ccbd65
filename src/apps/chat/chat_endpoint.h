/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_endpoint.h - where a model is: the address of its one request, and the name of its
 * key. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/err.h"
#include "base/text/url.h"
#include "model/settings/chat_spec.h"

/* What the door calls a server that has an address alone. */
#define CHAT_NAME "model.brig.internal"

struct chat_endpoint {
	const char *key; /* a variable or a declared credential; NULL: none is sent. Borrowed */
	bool tls;
	char host[URL_HOST_SIZE]; /* as the door's rules have it */
	char pin[64];             /* the address of CHAT_NAME; "": the name is looked up */
	char authority[URL_HOST_SIZE + 8];
	uint16_t port;
	char path[1024], url[2048]; /* of the request, and all of it */
};

/* The provider's own address unless the role names one; OpenAI-compatible ones alone are known. */
int chat_endpoint(const struct chat_spec *c, struct chat_endpoint *ret, struct err *e);
/* Is the key one that its server has given out? By the tables alone: what a role says counts for
 * nothing. */
bool chat_endpoint_known(const struct chat_endpoint *to);
/* Does the model refuse what others take (temperature, max_tokens)? */
bool chat_reasons(const struct chat_spec *c);

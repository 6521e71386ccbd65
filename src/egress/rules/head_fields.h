/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/head_fields.h - what the name of a field or parameter says: may it stand in a
 * request whose method and path count, and is it where a service takes a key from?
 *
 * By the name alone. What a server makes of a value, only the server knows: "secret" is a file to
 * one and a colour to another. Pure. */
#pragma once

#include <stdbool.h>

#include "egress/rules/host.h"

/* A field that says nothing of which path, host or method a request is about: those of HTTP itself
 * about content, conditions and the client, those that services take keys from, and those that
 * clients of well-known services send. */
bool field_is_common(struct egress_text name);

/* Names under which services take a key, a token or a password. */
bool field_takes_key(struct egress_text name);
/* As it stands in the query, escaped or not. */
bool parameter_takes_key(struct egress_text name);

/* A cookie that a front end sets to know its visitors again, and no login. */
bool cookie_is_of_front(struct egress_text name);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/ssh_pins.h - the hosts that a run may reach by SSH, with the keys that they must
 * have.
 *
 * The keys come from `egress.host_keys`, or else from the known_hosts of the caller and of this
 * machine, as far as no command could have written those. A host without a key is refused: who asks
 * the network for it learns the key of whoever answers. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/known/known_hosts.h"
#include "model/settings/spec.h"

enum { SSH_PINS_MAX = 16 };

struct ssh_pin {
	const char *host;
	uint16_t port;
	struct known_keys keys;
};

struct ssh_pins {
	struct ssh_pin v[SSH_PINS_MAX];
	size_t n; /* 0: no rule is for SSH */
};

/* What the rules of the spec name; the arena owns the texts. */
int ssh_pins_find(struct arena *a, const struct spec *s, struct ssh_pins *ret, struct err *e);

/* Is there a rule for SSH at all? */
bool ssh_pins_wanted(struct arena *a, const struct spec *s);

/* Where OpenSSH reads them inside, and what they say; NULL: no memory. */
#define SSH_CONFIG_INSIDE "/etc/ssh/ssh_config"
#define SSH_KNOWN_INSIDE "/etc/ssh/ssh_known_hosts"
const char *ssh_pins_config(struct arena *a, const struct ssh_pins *p);
const char *ssh_pins_known(struct arena *a, const struct ssh_pins *p);

/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/toolchains.h - where toolchains lie below the caller's home folder.
 *
 * Only folders that hold programs and what these need: no settings, no caches, no credentials
 * (~/.cargo has all of them beside its bin). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOOLCHAIN_KINDS ((size_t)15)

/* Where each lies: what its variable says, or below HOME; and the part of it that is shown. */
struct toolchain_kind {
	const char *variable, *below, *part;
	bool told; /* inside as well, where HOME is another one */
};

extern const struct toolchain_kind toolchain_kinds[];

/* Its root, in plain form; false: HOME says nothing, or what a variable says is not below HOME, or
 * is HOME or contains it, by whatever name. */
bool toolchain_root(size_t kind, char *out, size_t n);
bool toolchains_any(void); /* is one there? */

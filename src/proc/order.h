/* SPDX-License-Identifier: Apache-2.0 */
/* proc/order.h - one command for an open sandbox, as init receives it.
 *
 * One anonymous file, sealed before it is sent, so that what was checked is what is run; or, where
 * it is short and goes to init, bytes of a packet, which nobody else has. Both ends are the same
 * build of brig; the reader checks every bound all the same, and allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"

enum {
	ORDER_MAX = 8 << 20, /* bytes: more than the kernel takes for a command */
	ORDER_SHORT = 4096,  /* bytes that fit into a packet; of most commands */
};

struct buf;

struct order {
	const char *const *argv, *const *envp;
	const char *path; /* where the command is looked for */
	const char *cwd;  /* inside */
};

/* The order in a sealed file, which the caller owns. */
int order_make(const struct order *o, int *ret, struct err *e);
/* The same of one that order_write has written. */
int order_seal(const struct buf *b, int *ret, struct err *e);

/* The order as it is in that file. E2BIG: it is longer than the buffer may be. */
int order_write(const struct order *o, struct buf *b, struct err *e);

/* How many pointers order_read needs room for; 0: this is not an order. */
size_t order_words(const char *data, size_t n);

/* Its texts are in data, its lists in words. False: this is not an order. */
bool order_read(const char *data, size_t n, const char **words, struct order *ret);

/* Maps an order for reading; false unless it is sealed and of a possible size. */
bool order_map(int fd, const char **data, size_t *n);

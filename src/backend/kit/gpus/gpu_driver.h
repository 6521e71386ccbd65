/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gpus/gpu_driver.h - what NVIDIA's driver tells of its GPUs below /proc/driver. */
#pragma once

#include "base/text/err.h"
#include "model/known/gpus.h"

/* The name, with the number that an id is resolved to. */
int gpu_find(const char *text, struct gpu_name *ret, struct err *e);

typedef int gpu_show(void *arg, const struct gpu_node *n, struct err *e);

/* The nodes of every instance of a GPU: none where it is not divided. */
int gpu_each_instance(unsigned number, gpu_show *fn, void *arg, struct err *e);
/* Where on the PCI bus each GPU is that the driver has. */
typedef int gpu_place(void *arg, const char *slot, unsigned number, struct err *e);
int gpu_each_place(gpu_place *fn, void *arg, struct err *e);

/* The two of one: its GPU instance's and its own. */
int gpu_instance(const struct gpu_name *name, gpu_show *fn, void *arg, struct err *e);

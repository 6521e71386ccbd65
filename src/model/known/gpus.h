/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/gpus.h - GPUs by the names and numbers of their device nodes. Pure: nothing is looked
 * at.
 *
 * A name says which driver a node of that name belongs to, and which minor number it has. It proves
 * nothing: who shows a node compares it with what the kernel says of its drivers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes/json.h"

enum { GPUS_MAX = 64, GPU_PATH_ROOM = 40, GPU_UUID_ROOM = 48 };

/* What all GPUs of a driver share. */
enum gpu_shared { GPU_NVIDIACTL, GPU_UVM, GPU_UVM_TOOLS, GPU_KFD, GPU_SHARED };

enum gpu_driver {
	GPU_DRIVER_NVIDIA,
	GPU_DRIVER_UVM,
	GPU_DRIVER_DRM,
	GPU_DRIVER_KFD,
	GPU_DRIVER_CAPS,
	GPU_DRIVERS
};

/* Bits 1 << number: of /dev/nvidiaN, of /dev/dri/renderD(128+N), 1 << enum gpu_shared. */
struct gpu_set {
	uint64_t nvidia, render;
	unsigned shared;
};

/* A node: its path, whose it is and its number there. */
struct gpu_node {
	char path[GPU_PATH_ROOM];
	enum gpu_driver driver;
	unsigned minor;
	struct gpu_set bit; /* itself alone */
};

/* Every node that there can be, in a fixed order: false behind the last one. */
bool gpu_node(size_t at, struct gpu_node *ret);
bool gpu_set_has(const struct gpu_set *s, const struct gpu_node *n);
void gpu_set_add(struct gpu_set *s, const struct gpu_node *n);
bool gpu_set_empty(const struct gpu_set *s);
/* How many of them are GPUs. */
size_t gpu_set_count(const struct gpu_set *s);
/* The lowest n numbers of a set. */
uint64_t gpu_lowest(uint64_t numbers, uint64_t n);
/* Adds the node of that path; false: there is no such one. */
bool gpu_set_name(struct gpu_set *s, const char *path);
void gpu_set_json(const struct gpu_set *s, struct json *j); /* an array of paths */
/* Their paths, with this between them; what does not fit is left out. */
void gpu_set_text(const struct gpu_set *s, char between, char *out, size_t room);

/* One GPU as somebody names it: "1", or "GPU-..." as NVIDIA's tools print it; with "/3/0" behind it
 * that compute instance of that GPU instance alone, as "nvidia-smi mig -lci" counts them. The
 * kernel does not tell what "MIG-..." is: an engine's own tools can. */
struct gpu_name {
	unsigned number;
	char uuid[GPU_UUID_ROOM]; /* empty: it is the number */
	bool mig;
	unsigned gi, ci; /* meaningless without mig */
};
bool gpu_name(const char *text, struct gpu_name *ret);
/* What NVIDIA's driver says of a GPU, /proc/driver/nvidia/gpus/BUS/information. */
bool gpu_information(const char *text, char uuid[GPU_UUID_ROOM], unsigned *number);
/* Likewise of the right to an instance, /proc/driver/nvidia/capabilities/...: its node. */
bool gpu_capability(const char *text, struct gpu_node *ret);

/* Major numbers of the drivers by /proc/devices; 0: there is no such driver. */
void gpu_majors(const char *text, unsigned ret[GPU_DRIVERS]);

/* "0,2-3": numbers, as Slurm tells a job which GPUs it has. *render has those of 128 and more, from
 * 0 on: some clusters count render nodes so. False: it is no such list, or it is empty. */
bool gpu_numbers(const char *text, uint64_t *ret, uint64_t *render);
/* What Slurm has given to the job that this process is of. 0: it is of none; 1: it has these (which
 * may be nothing); -EINVAL: what Slurm says cannot be read. `get` is getenv, or a test's. */
typedef const char *gpu_variable(const char *name);
int gpu_allocation(gpu_variable *get, uint64_t *ret, uint64_t *render);

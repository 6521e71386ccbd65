/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/gpus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define RENDER_FIRST 128 /* minors of drm below are for who draws on a screen */

static const struct {
	const char *path;
	enum gpu_driver driver;
	unsigned minor;
} shared[GPU_SHARED] = {
	[GPU_NVIDIACTL] = { "/dev/nvidiactl", GPU_DRIVER_NVIDIA, 255 },
	[GPU_UVM] = { "/dev/nvidia-uvm", GPU_DRIVER_UVM, 0 },
	[GPU_UVM_TOOLS] = { "/dev/nvidia-uvm-tools", GPU_DRIVER_UVM, 1 },
	[GPU_KFD] = { "/dev/kfd", GPU_DRIVER_KFD, 0 },
};

/* Names in /proc/devices; NVIDIA's has had two. */
static const struct {
	const char *name;
	enum gpu_driver driver;
} drivers[] = { { "nvidia", GPU_DRIVER_NVIDIA },  { "nvidia-frontend", GPU_DRIVER_NVIDIA },
		{ "nvidia-uvm", GPU_DRIVER_UVM }, { "drm", GPU_DRIVER_DRM },
		{ "kfd", GPU_DRIVER_KFD },        { "nvidia-caps", GPU_DRIVER_CAPS } };

bool gpu_node(size_t at, struct gpu_node *ret)
{
	unsigned i = (unsigned)at % GPUS_MAX;

	*ret = (struct gpu_node){ .minor = i };
	if (at < GPUS_MAX) {
		ret->driver = GPU_DRIVER_NVIDIA;
		ret->bit.nvidia = (uint64_t)1 << i;
		(void)snprintf(ret->path, sizeof(ret->path), "/dev/nvidia%u", i);
	} else if (at < 2 * (size_t)GPUS_MAX) {
		ret->driver = GPU_DRIVER_DRM;
		ret->minor = RENDER_FIRST + i;
		ret->bit.render = (uint64_t)1 << i;
		(void)snprintf(ret->path, sizeof(ret->path), "/dev/dri/renderD%u", ret->minor);
	} else if (at < 2 * (size_t)GPUS_MAX + GPU_SHARED) {
		ret->driver = shared[i].driver;
		ret->minor = shared[i].minor;
		ret->bit.shared = 1U << i;
		(void)snprintf(ret->path, sizeof(ret->path), "%s", shared[i].path);
	} else {
		return false;
	}
	return true;
}

bool gpu_set_has(const struct gpu_set *s, const struct gpu_node *n)
{
	return (s->nvidia & n->bit.nvidia) | (s->render & n->bit.render) |
	       (s->shared & n->bit.shared);
}

void gpu_set_add(struct gpu_set *s, const struct gpu_node *n)
{
	s->nvidia |= n->bit.nvidia;
	s->render |= n->bit.render;
	s->shared |= n->bit.shared;
}

bool gpu_set_empty(const struct gpu_set *s)
{
	return !s->nvidia && !s->render && !s->shared;
}

size_t gpu_set_count(const struct gpu_set *s)
{
	return (size_t)__builtin_popcountll(s->nvidia) + (size_t)__builtin_popcountll(s->render);
}

uint64_t gpu_lowest(uint64_t numbers, uint64_t n)
{
	uint64_t lowest = 0;

	for (; n && numbers; n--, numbers &= numbers - 1)
		lowest |= numbers & -numbers;
	return lowest;
}

bool gpu_set_name(struct gpu_set *s, const char *path)
{
	struct gpu_node n;

	for (size_t i = 0; gpu_node(i, &n); i++)
		if (str_eq(n.path, path)) {
			gpu_set_add(s, &n);
			return true;
		}
	return false;
}

void gpu_set_json(const struct gpu_set *s, struct json *j)
{
	struct gpu_node n;

	json_array(j);
	for (size_t i = 0; gpu_node(i, &n); i++)
		if (gpu_set_has(s, &n))
			json_str(j, n.path);
	json_array_end(j);
}

void gpu_set_text(const struct gpu_set *s, char between, char *out, size_t room)
{
	struct gpu_node n;
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; gpu_node(i, &n); i++) {
		int k = gpu_set_has(s, &n)
				? snprintf(out + at, room - at, "%.*s%s", at > 0, &between, n.path)
				: 0;

		if (k < 0 || (size_t)k >= room - at) {
			out[at] = '\0';
			return;
		}
		at += (size_t)k;
	}
}

/* ---- what others say ---- */

/* A number of n characters, of at most `most`. */
static bool gpus_number(const char *at, size_t n, uint64_t most, unsigned *ret)
{
	char text[8];
	uint64_t v;

	if (!n || n >= sizeof(text))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)n, at);
	if (num_count(text, &v) < 0 || v > most)
		return false;
	*ret = (unsigned)v;
	return true;
}

void gpu_majors(const char *text, unsigned ret[GPU_DRIVERS])
{
	bool characters = false;

	memset(ret, 0, GPU_DRIVERS * sizeof(*ret));
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		const char *at = text + strspn(text, " ");
		size_t k = strcspn(at, " \n"), rest;
		unsigned major;

		n = strcspn(text, "\n");
		if (n && text[n - 1] == ':') /* the heading of a part */
			characters = str_starts(text, "Character ");
		if (!characters || at[k] != ' ' || !gpus_number(at, k, 4095, &major))
			continue;
		rest = n - (size_t)(at + k + 1 - text);
		for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
			if (strlen(drivers[i].name) == rest &&
			    memcmp(drivers[i].name, at + k + 1, rest) == 0 &&
			    !ret[drivers[i].driver])
				ret[drivers[i].driver] = major;
	}
}

static bool instances(const char *text, struct gpu_name *ret)
{
	size_t n = strcspn(text, "/");

	return text[n] && gpus_number(text, n, 4095, &ret->gi) &&
	       gpus_number(text + n + 1, strlen(text + n + 1), 4095, &ret->ci);
}

bool gpu_name(const char *text, struct gpu_name *ret)
{
	size_t n = strcspn(text, "/");

	*ret = (struct gpu_name){ .mig = text[n] };
	if (ret->mig && !instances(text + n + 1, ret))
		return false;
	if (!str_starts(text, "GPU-") && !str_starts(text, "MIG-"))
		return gpus_number(text, n, 4095, &ret->number);
	if (n >= sizeof(ret->uuid) || strspn(text + 4, "0123456789abcdef-") != n - 4)
		return false;
	(void)snprintf(ret->uuid, sizeof(ret->uuid), "%.*s", (int)n, text);
	return true;
}

/* What stands behind a key, at the beginning of a line, and blanks; *n is 0 where there is none. */
static const char *said_of(const char *text, const char *key, size_t *n)
{
	*n = 0;
	for (; *text; text += *text == '\n') {
		if (str_starts(text, key)) {
			text += strlen(key);
			text += strspn(text, " \t");
			*n = strcspn(text, " \t\n");
			return text;
		}
		text += strcspn(text, "\n");
	}
	return text;
}

bool gpu_information(const char *text, char uuid[GPU_UUID_ROOM], unsigned *ret)
{
	size_t n, k;
	const char *id = said_of(text, "GPU UUID:", &n),
		   *minor = said_of(text, "Device Minor:", &k);

	if (!n || n >= GPU_UUID_ROOM || !gpus_number(minor, k, GPUS_MAX - 1, ret))
		return false;
	(void)snprintf(uuid, GPU_UUID_ROOM, "%.*s", (int)n, id);
	return true;
}

bool gpu_capability(const char *text, struct gpu_node *ret)
{
	size_t n;
	const char *minor = said_of(text, "DeviceFileMinor:", &n);

	*ret = (struct gpu_node){ .driver = GPU_DRIVER_CAPS };
	if (!gpus_number(minor, n, 1048575, &ret->minor))
		return false;
	(void)snprintf(ret->path, sizeof(ret->path), "/dev/nvidia-caps/nvidia-cap%u", ret->minor);
	return true;
}

static bool add_numbers(unsigned first, unsigned last, uint64_t *ret, uint64_t *render)
{
	if (last < first)
		return false;
	for (unsigned i = first; i <= last; i++) {
		if (i < GPUS_MAX)
			*ret |= (uint64_t)1 << i;
		else if (i >= RENDER_FIRST && i < RENDER_FIRST + GPUS_MAX)
			*render |= (uint64_t)1 << (i - RENDER_FIRST);
		else
			return false;
	}
	return true;
}

bool gpu_numbers(const char *text, uint64_t *ret, uint64_t *render)
{
	uint64_t low = 0, high = 0;

	for (;;) {
		size_t n = strcspn(text, ","), dash = strcspn(text, "-,");
		unsigned first, last;

		if (!gpus_number(text, dash, 4095, &first))
			return false;
		last = first;
		if (dash < n && !gpus_number(text + dash + 1, n - dash - 1, 4095, &last))
			return false;
		if (!add_numbers(first, last, &low, &high))
			return false;
		if (!text[n])
			break;
		text += n + 1;
	}
	*ret = low;
	*render = high;
	return true;
}

int gpu_allocation(gpu_variable *get, uint64_t *ret, uint64_t *render)
{
	const char *text;

	*ret = *render = 0;
	if (!get("SLURM_JOB_ID"))
		return 0;
	text = get("SLURM_STEP_GPUS");
	if (!text || !*text)
		text = get("SLURM_JOB_GPUS");
	if (!text || !*text)
		return 1;
	return gpu_numbers(text, ret, render) ? 1 : -EINVAL;
}

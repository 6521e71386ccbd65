/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_gpus.c - drivers, numbers and names of GPUs as the kernel, Slurm and a node's report
 * have them: nothing that was not said, and no bit too many. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "backend/slurm/slurm_text.h"
#include "model/known/gpus.h"

static const char *said;

static const char *told(const char *name)
{
	return strcmp(name, "SLURM_JOB_GPUS") == 0 ? said : NULL;
}

static const char *told_of_a_job(const char *name)
{
	return strcmp(name, "SLURM_JOB_ID") == 0 ? "1" : told(name);
}

static void read_numbers(const char *text)
{
	uint64_t v, r, again = 0, more = 0;
	bool ok = gpu_numbers(text, &again, &more);

	said = text;
	require(gpu_allocation(told, &v, &r) == 0 && !v && !r);
	if (gpu_allocation(told_of_a_job, &v, &r) == 1)
		require(!*text || (ok && v == again && r == more && (v || r)));
	else
		require(!ok && !v && !r);
	require(!ok || strspn(text, "0123456789,-") == strlen(text));
}

static void read_driver(const char *text)
{
	char uuid[GPU_UUID_ROOM];
	unsigned number;
	struct gpu_name name;
	struct gpu_node node;

	if (gpu_name(text, &name))
		require(!strchr(name.uuid, '/') &&
			strspn(text, "0123456789abcdefGPUMI-/") == strlen(text));
	if (gpu_information(text, uuid, &number))
		require(number < GPUS_MAX && uuid[0] && strstr(text, uuid));
	if (gpu_capability(text, &node))
		require(node.driver == GPU_DRIVER_CAPS && node.minor < 1 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	unsigned majors[GPU_DRIVERS];
	struct gpu_set s = { 0 };
	char out[64];

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	gpu_majors(text, majors);
	for (size_t i = 0; i < GPU_DRIVERS; i++)
		require(majors[i] <= 4095 && (!majors[i] || strstr(text, "Character ")));
	require(!majors[GPU_DRIVER_KFD] || strstr(text, "kfd"));
	read_numbers(text);
	read_driver(text);
	if (gpu_set_name(&s, text)) {
		gpu_set_text(&s, ' ', out, sizeof(out));
		require(strcmp(out, text) == 0);
	} else {
		require(gpu_set_empty(&s));
	}
	require(slurm_text_gpus(text, strlen(text)) <= 1024);
	require(!slurm_text_gpus(text, strlen(text)) || strstr(text, "gpu:"));
	free(text);
	return 0;
}

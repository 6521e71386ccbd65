/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_slurm.c - what Slurm's programs and nodes say: read to its end, and nothing that was
 * not said. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "backend/slurm/slurm_text.h"

/* Every living task comes from a line of its own. */
static void read_lists(const char *text)
{
	const char *at = text;
	uint64_t job, task;
	size_t lines = 1, n = 0;

	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	while (slurm_text_queue(&at, "brig:ab12.1", &job, &task))
		n++;
	require(n <= lines && at == text + strlen(text));
	require(!n || strstr(text, "brig:ab12.1"));
	n = 0;
	for (at = text; slurm_text_account(&at, &job, &task);)
		n++;
	require(n <= lines && at == text + strlen(text));
	require(!n || strchr(text, '_'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct slurm_facts f = { 0 };
	char name[SLURM_NAME_ROOM];
	const char *boot;
	uint64_t v[4];
	size_t n, all;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	read_lists(text);
	slurm_text_config(text, &f);
	require(!f.holds_cpus || strstr(text, "task/cgroup"));
	(void)slurm_text_arrays(text);
	slurm_text_cluster(text, name);
	require(!*name || strstr(text, name));
	all = slurm_text_partitions(text, "main,first", NULL);
	require(slurm_text_partitions(text, "main,first", "UP") <= all);
	slurm_text_partition(text, "main,first", &f);
	require(all || (!f.max_seconds && !f.max_mib && !f.max_cpus));
	slurm_text_partition(text, NULL, &f);
	require(slurm_text_seconds(text) < (uint64_t)1 << 42);
	(void)slurm_text_state(text);
	(void)slurm_text_wave(text, v);
	if (slurm_text_place(text, v, &boot, &n))
		require(boot >= text && boot + n <= text + strlen(text));
	free(text);
	return 0;
}

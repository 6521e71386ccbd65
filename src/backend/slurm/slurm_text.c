/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/slurm/slurm_text.h"

#include <stdio.h>
#include <string.h>

#include "base/text/cleanup.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define WORD_ROOM SLURM_NAME_ROOM
#define SLURM_GPUS_MAX 1024 /* of one node: more is not believed */

/* ---- words ---- */

static const char *slurm_text_next_line(const char *at)
{
	size_t n = strcspn(at, "\n");

	return at + n + (at[n] == '\n');
}

/* A number of n characters; false: it is none. */
static bool slurm_text_number(const char *at, size_t n, uint64_t *ret)
{
	char text[24];

	if (!n || n >= sizeof(text))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)n, at);
	return num_count(text, ret) == 0;
}

/* One of several, with commas. */
static bool slurm_text_listed(const char *names, const char *name, size_t n)
{
	for (size_t k; *names; names += k + (names[k] == ',')) {
		k = strcspn(names, ",");
		if (k == n && memcmp(names, name, n) == 0)
			return true;
	}
	return false;
}

uint64_t slurm_stricter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a | b;
	return a < b ? a : b;
}

uint64_t slurm_text_seconds(const char *text)
{
	size_t n = strcspn(text, "-");
	uint64_t days = 0, all = 0, v;

	if (text[n] == '-') {
		if (!slurm_text_number(text, n, &days) || days > 36500)
			return 0;
		text += n + 1;
	}
	for (int i = 0; i < 3; i++) {
		n = strcspn(text, ":");
		if (!slurm_text_number(text, n, &v) || v > 1000000 || (text[n] == ':') != (i < 2))
			return 0;
		all = all * 60 + v;
		text += n + (text[n] == ':');
	}
	return all + days * 24 * 60 * 60;
}

/* ---- scontrol ---- */

/* The value of "Key      = value" at the beginning of a line; "" if there is none. */
static void config_value(const char *text, const char *key, char out[WORD_ROOM])
{
	size_t k = strlen(key);

	out[0] = '\0';
	for (; *text; text = slurm_text_next_line(text)) {
		const char *at = text + k;

		if (strncmp(text, key, k) != 0 || (*at != ' ' && *at != '='))
			continue;
		at += strspn(at, " ");
		if (*at != '=')
			continue;
		at++;
		at += strspn(at, " ");
		(void)snprintf(out, WORD_ROOM, "%.*s", (int)strcspn(at, " \n"), at);
		return;
	}
}

void slurm_text_config(const char *text, struct slurm_facts *f)
{
	char plugins[WORD_ROOM], memory[WORD_ROOM], cores[WORD_ROOM], kills[WORD_ROOM];
	char gather[WORD_ROOM];
	bool cgroup;

	config_value(text, "TaskPlugin", plugins);
	config_value(text, "ConstrainRAMSpace", memory);
	config_value(text, "ConstrainCores", cores);
	config_value(text, "JobAcctGatherParams", kills);
	config_value(text, "JobAcctGatherType", gather);
	cgroup = slurm_text_listed(plugins, "task/cgroup", strlen("task/cgroup"));
	f->holds_memory = (cgroup && str_eq(memory, "yes")) ||
			  (slurm_text_listed(kills, "OverMemoryKill", strlen("OverMemoryKill")) &&
			   *gather && !str_eq(gather, "jobacct_gather/none"));
	f->holds_cpus = cgroup && str_eq(cores, "yes");
}

uint64_t slurm_text_arrays(const char *text)
{
	char word[WORD_ROOM];
	uint64_t n;

	config_value(text, "MaxArraySize", word);
	return num_count(word, &n) == 0 ? n : 0;
}

void slurm_text_cluster(const char *text, char out[SLURM_NAME_ROOM])
{
	config_value(text, "ClusterName", out);
}

/* The value of "Key=value" among the words of a line. */
static void word_value(const char *line, const char *key, char out[WORD_ROOM])
{
	size_t k = strlen(key), n;

	out[0] = '\0';
	for (; *line && *line != '\n'; line += n + (line[n] == ' ')) {
		n = strcspn(line, " \n");
		if (n <= k || line[k] != '=' || strncmp(line, key, k) != 0)
			continue;
		if (n - k - 1 < WORD_ROOM)
			(void)snprintf(out, WORD_ROOM, "%.*s", (int)(n - k - 1), line + k + 1);
		return;
	}
}

static void tighten(const char *line, const char *key, uint64_t *value)
{
	char word[WORD_ROOM];
	uint64_t n;

	word_value(line, key, word);
	if (num_count(word, &n) == 0)
		*value = slurm_stricter(*value, n);
}

static bool is_meant(const char *line, const char *names)
{
	char word[WORD_ROOM];

	word_value(line, names ? "PartitionName" : "Default", word);
	return *word &&
	       (names ? slurm_text_listed(names, word, strlen(word)) : str_eq(word, "YES"));
}

size_t slurm_text_partitions(const char *text, const char *names, const char *state)
{
	char word[WORD_ROOM];
	size_t n = 0;

	for (; *text; text = slurm_text_next_line(text)) {
		word_value(text, "State", word);
		n += is_meant(text, names) && (!state || str_eq(word, state));
	}
	return n;
}

void slurm_text_partition(const char *text, const char *names, struct slurm_facts *f)
{
	char word[WORD_ROOM];

	for (; *text; text = slurm_text_next_line(text)) {
		if (!is_meant(text, names))
			continue;
		word_value(text, "MaxTime", word);
		f->max_seconds = slurm_stricter(f->max_seconds, slurm_text_seconds(word));
		word_value(text, "DefaultTime", word);
		f->default_seconds = slurm_stricter(f->default_seconds, slurm_text_seconds(word));
		tighten(text, "MaxMemPerNode", &f->max_mib);
		tighten(text, "MaxMemPerCPU", &f->max_cpu_mib);
		tighten(text, "MaxCPUsPerNode", &f->max_cpus);
	}
}

/* ---- sinfo ---- */

/* One kind of thing: "gpu:2", "gpu:a100:2(S:0-1)"; sockets stand in brackets. */
static uint64_t gpus_of(const char *item, size_t n)
{
	size_t end = 0, colon = 0;
	uint64_t v;

	if (n < 4 || memcmp(item, "gpu:", 4) != 0)
		return 0;
	for (; end < n && item[end] != '('; end++)
		if (item[end] == ':')
			colon = end;
	return slurm_text_number(item + colon + 1, end - colon - 1, &v) && v <= SLURM_GPUS_MAX ? v
											       : 0;
}

uint64_t slurm_text_gpus(const char *gres, size_t n)
{
	uint64_t all = 0;
	size_t from = 0;
	bool inside = false;

	for (size_t i = 0; i <= n; i++) {
		if (i < n && gres[i] == '(')
			inside = true;
		else if (i < n && gres[i] == ')')
			inside = false;
		if (i < n && (inside || gres[i] != ','))
			continue;
		all += gpus_of(gres + from, i - from);
		if (all > SLURM_GPUS_MAX)
			return SLURM_GPUS_MAX;
		from = i + 1;
	}
	return all;
}

/* ---- squeue and sacct ---- */

bool slurm_text_queue(const char **at, const char *comment, uint64_t *job, uint64_t *task)
{
	while (**at) {
		const char *line = *at, *second, *third;
		size_t n = strcspn(line, " \n"), k, rest;

		*at = slurm_text_next_line(line);
		if (line[n] != ' ')
			continue;
		second = line + n + 1;
		k = strcspn(second, " \n");
		if (second[k] != ' ')
			continue;
		third = second + k + 1;
		rest = strcspn(third, "\n");
		if (rest == strlen(comment) && memcmp(third, comment, rest) == 0 &&
		    slurm_text_number(line, n, job) && slurm_text_number(second, k, task))
			return true;
	}
	return false;
}

bool slurm_text_account(const char **at, uint64_t *job, uint64_t *task)
{
	static const char *const living[] = { "RUNNING", "PENDING", "SUSPENDED", "COMPLETING" };

	while (**at) {
		const char *line = *at, *second, *state;
		size_t n = strcspn(line, "_|\n"), k;

		*at = slurm_text_next_line(line);
		if (line[n] != '_')
			continue;
		second = line + n + 1;
		k = strcspn(second, "|\n");
		if (second[k] != '|' || !slurm_text_number(line, n, job) ||
		    !slurm_text_number(second, k, task))
			continue;
		state = second + k + 1;
		for (size_t i = 0; i < ARRAY_LEN(living); i++)
			if (str_starts(state, living[i]))
				return true;
	}
	return false;
}

enum slurm_state slurm_text_state(const char *text)
{
	static const char *const over[] = { "COMPLETED", "FAILED",    "TIMEOUT",       "NODE_FAIL",
					    "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE" };

	for (size_t i = 0; i < ARRAY_LEN(over); i++)
		if (str_starts(text, over[i]))
			return SLURM_GONE;
	return str_starts(text, "CANCELLED") ? SLURM_CANCELLED : *text ? SLURM_THERE : SLURM_GONE;
}

/* ---- our own ---- */

bool slurm_text_wave(const char *text, uint64_t v[4])
{
	for (size_t i = 0; i < 4; i++) {
		size_t n = strcspn(text, " \n");

		if (!slurm_text_number(text, n, &v[i]) || text[n] != (i < 3 ? ' ' : '\n'))
			return false;
		text += n + 1;
	}
	return true;
}

bool slurm_text_place(const char *text, uint64_t v[3], const char **boot, size_t *n)
{
	if (!str_starts(text, "brig-place "))
		return false;
	text += strlen("brig-place ");
	for (size_t i = 0; i < 3; i++) {
		size_t k = strcspn(text, " \n");

		if (text[k] != ' ' || !slurm_text_number(text, k, &v[i]))
			return false;
		text += k + 1;
	}
	*boot = text;
	*n = strcspn(text, "\n");
	return true;
}

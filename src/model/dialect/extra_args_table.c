/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/extra_args_table.c - one row per allowed flag of `docker run`, and what it may be
 * given. */
#include "model/dialect/extra_args_table.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define TIB (1024 * 1024 * MIB)

enum { IN_ALL = 7, IN_INITRUNNER = 1 << EXTRA_ARGS_INITRUNNER };

static bool valid_count(const struct allowed *a, const char *value)
{
	uint64_t v;

	return num_count(value, &v) == 0 && v >= a->min && v <= a->max;
}

static bool valid_size(const struct allowed *a, const char *value)
{
	uint64_t v;

	return num_size(value, &v) == 0 && v >= a->min && v <= a->max;
}

static bool valid_milli(const struct allowed *a, const char *value)
{
	uint64_t v;

	return num_milli(value, &v) == 0 && v >= a->min && v <= a->max;
}

static bool valid_word(const struct allowed *a, const char *value)
{
	return str_eq(value, a->takes);
}

/* Copies the piece up to one of `ends` and moves *s behind it; false when it is empty or long. */
static bool extra_args_table_cut(const char **s, const char *ends, char *out, size_t n)
{
	size_t len = strcspn(*s, ends);

	if (!len || len >= n)
		return false;
	memcpy(out, *s, len);
	out[len] = '\0';
	*s += len;
	return true;
}

/* 0-3,5 */
static bool valid_cpuset(const struct allowed *a, const char *value)
{
	char number[8];
	uint64_t first, last;

	for (;;) {
		if (!extra_args_table_cut(&value, "-,", number, sizeof(number)) ||
		    num_count(number, &first) < 0)
			return false;
		last = first;
		if (*value == '-') {
			value++;
			if (!extra_args_table_cut(&value, ",", number, sizeof(number)) ||
			    num_count(number, &last) < 0)
				return false;
		}
		if (last < first || last > a->max)
			return false;
		if (!*value)
			return true;
		value++;
	}
}

static bool valid_signal(const struct allowed *a, const char *value)
{
	uint64_t number;

	if (num_count(value, &number) == 0)
		return number >= a->min && number <= a->max;
	if (str_starts_nocase(value, "SIG"))
		value += 3;
	for (int sig = 1; sig < 32; sig++)
		if (sigabbrev_np(sig) && strcasecmp(sigabbrev_np(sig), value) == 0)
			return true;
	return false;
}

/* The labels that say which objects are brig's own cannot be forged. */
static bool valid_label(const struct allowed *a UNUSED, const char *value)
{
	size_t end = strcspn(value, "="), n;

	for (const char *p = value; p < value + end; p += n + 1) {
		n = strcspn(p, ".=");
		if (n == 4 && strncasecmp(p, "brig", n) == 0)
			return false;
	}
	return end > 0;
}

static bool valid_hostname(const struct allowed *a, const char *value)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t n = strlen(value);

	return n <= a->max && strspn(value, letters) > 0 && strspn(value + n - 1, letters) == 1 &&
	       value[strspn(value,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")] ==
		       '\0';
}

/* nice and rtprio are left out: they raise the sandbox above the rest of the machine. */
static bool valid_ulimit(const struct allowed *a UNUSED, const char *value)
{
	static const struct {
		const char *name;
		uint64_t max;
	} names[] = {
		{ "core", TIB },
		{ "cpu", UINT32_MAX },
		{ "data", 64 * TIB },
		{ "fsize", 1024 * TIB },
		{ "locks", 4194304 },
		{ "memlock", 64 * TIB },
		{ "msgqueue", 1024 * MIB },
		{ "nofile", 1048576 },
		{ "nproc", 4194304 },
		{ "rss", 64 * TIB },
		{ "rttime", UINT32_MAX },
		{ "sigpending", 4194304 },
		{ "stack", TIB },
	};
	char name[16], number[24];
	uint64_t soft, hard, max = 0;

	if (!extra_args_table_cut(&value, "=", name, sizeof(name)) || *value++ != '=')
		return false;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(name, names[i].name))
			max = names[i].max;
	if (!max || !extra_args_table_cut(&value, ":", number, sizeof(number)) ||
	    num_count(number, &soft) < 0)
		return false;
	hard = soft;
	if (*value && num_count(value + 1, &hard) < 0)
		return false;
	return soft <= hard && hard <= max;
}

/* One option of a tmpfs. exec, suid and dev are not among them, nor is a size in percent. */
static bool valid_tmpfs_option(const char *option, bool *sized)
{
	static const char *const words[] = { "rw", "ro", "noexec", "nosuid", "nodev", "noatime" };
	uint64_t v;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_eq(option, words[i]))
			return true;
	if (str_starts(option, "size=")) {
		*sized = true;
		return num_size(option + 5, &v) == 0 && v >= 4 * KIB && v <= TIB;
	}
	if (str_starts(option, "mode="))
		return strlen(option + 5) >= 3 && strlen(option + 5) <= 4 &&
		       option[5 + strspn(option + 5, "01234567")] == '\0';
	if (str_starts(option, "uid=") || str_starts(option, "gid="))
		return num_count(option + 4, &v) == 0 && v <= 65535;
	return false;
}

/* PATH[:OPTION,...]. On /tmp the size is needed: without one the dialect's own would be undone. */
static bool valid_tmpfs(const struct allowed *a UNUSED, const char *value)
{
	char path[PATH_MAX], option[64];
	bool sized = false;
	struct err e;

	if (!extra_args_table_cut(&value, ":", path, sizeof(path)))
		return false;
	if (!str_eq(path, "/tmp") && target_check(path, "/workspace", &e) < 0)
		return false;
	while (*value) {
		value++;
		if (!extra_args_table_cut(&value, ",", option, sizeof(option)) ||
		    !valid_tmpfs_option(option, &sized))
			return false;
	}
	return sized || !str_eq(path, "/tmp");
}

/* clang-format off */
const struct allowed extra_args_table[] = {
	{ "--ulimit", "HostConfig.Ulimits", valid_ulimit,
	  .takes = "NAME=SOFT[:HARD], both finite", .key = "=", .styles = IN_ALL },
	{ "--memory-swap", "HostConfig.MemorySwap", valid_size, MIB, 64 * TIB,
	  "a size from 1m on, never unlimited", .styles = IN_ALL },
	{ "--memory-reservation", "HostConfig.MemoryReservation", valid_size, MIB, 64 * TIB,
	  "a size from 1m on", .styles = IN_ALL },
	{ "--memory-swappiness", "HostConfig.MemorySwappiness", valid_count, 0, 100,
	  "a number from 0 to 100", .styles = IN_ALL },
	{ "--cpu-shares", "HostConfig.CpuShares", valid_count, 2, 262144,
	  "a number from 2 to 262144", .styles = IN_ALL },
	{ "--cpu-period", "HostConfig.CpuPeriod", valid_count, 1000, 1000000,
	  "microseconds from 1000 to 1000000", .styles = IN_ALL },
	{ "--cpu-quota", "HostConfig.CpuQuota", valid_count, 1000, 4096000000,
	  "microseconds from 1000 on, never unlimited", .styles = IN_ALL },
	{ "--cpus", "HostConfig.NanoCpus", valid_milli, 10, 4096000,
	  "a number from 0.01 to 4096, never unlimited", .styles = IN_ALL },
	{ "--cpuset-cpus", "HostConfig.CpusetCpus", valid_cpuset, 0, 8191,
	  "numbers and ranges such as 0-3,5", .styles = IN_ALL },
	{ "--cpuset-mems", "HostConfig.CpusetMems", valid_cpuset, 0, 1023,
	  "numbers and ranges such as 0,1", .styles = IN_ALL },
	{ "--pids-limit", "HostConfig.PidsLimit", valid_count, 2, 4194304,
	  "a number from 2 to 4194304, never unlimited", .styles = IN_ALL },
	{ "--shm-size", "HostConfig.ShmSize", valid_size, 4 * KIB, TIB,
	  "a size from 4k to 1t", .styles = IN_ALL },
	{ "--oom-score-adj", "HostConfig.OomScoreAdj", valid_count, 0, 1000,
	  "a number from 0 to 1000: below 0 others would be killed first", .styles = IN_ALL },
	{ "--stop-signal", "StopSignal", valid_signal, 1, 64,
	  "a signal such as SIGTERM", .styles = IN_ALL },
	{ "--stop-timeout", "StopTimeout", valid_count, 0, 3600,
	  "seconds from 0 to 3600", .styles = IN_ALL },
	{ "--label", "Labels", valid_label,
	  .takes = "NAME[=VALUE]; names of brig's own are not accepted", .key = "=", .letter = 'l', .styles = IN_ALL },
	{ "--hostname", "Hostname", valid_hostname, 1, 63,
	  "a host name of letters, digits, '-' and '.'", .letter = 'h', .styles = IN_ALL },
	{ "--read-only", "HostConfig.ReadonlyRootfs", valid_word,
	  .takes = "true", .styles = IN_ALL, .alone = true },
	{ "--tmpfs", "HostConfig.Tmpfs", valid_tmpfs,
	  .takes = "PATH[:OPTION,...] of size= (needed on /tmp), mode=, uid=, gid=, rw, ro, noexec, nosuid, "
		   "nodev; never exec", .key = ":", .styles = IN_ALL },
	{ "--gpus", "HostConfig.DeviceRequests", valid_word,
	  .takes = "all", .styles = IN_INITRUNNER },
};
/* clang-format on */

const size_t extra_args_rows = ARRAY_LEN(extra_args_table);

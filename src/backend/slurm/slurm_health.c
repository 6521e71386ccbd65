/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_health.c - what a run on the cluster needs, aspect by aspect, each with what
 * to do about it. One that cannot be asked because an earlier one fails is left out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/slurm/slurm.h"
#include "base/text/str.h"

#define ASK_S 15

static __attribute__((format(printf, 4, 5))) void say(struct slurm_row *r,
						      enum slurm_row_state state, const char *hint,
						      const char *format, ...)
{
	va_list args;

	r->state = state;
	(void)snprintf(r->hint, sizeof(r->hint), "%s", hint ? hint : "");
	va_start(args, format);
	(void)vsnprintf(r->detail, sizeof(r->detail), format, args);
	va_end(args);
}

/* Up to four words for one of Slurm's programs. */
static int slurm_health_ask(const struct backend_plan *p, const char *const *words, struct buf *out,
			    struct err *e)
{
	const char *argv[8] = { NULL };
	size_t n = 0;

	if (slurm_program(p, words[0], &argv[n++], e) < 0)
		return -e->code;
	for (words++; *words && n + 1 < ARRAY_LEN(argv); words++)
		argv[n++] = *words;
	return slurm_ask(p, argv, NULL, ASK_S, out, e);
}

static void look_for_programs(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const names[] = { "srun",    "sbatch", "squeue",
					     "scancel", "sinfo",  "scontrol" };
	static const char *const version[] = { "srun", "--version", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char *unused;
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (slurm_program(p, names[i], &unused, &e) < 0) {
			say(r, SLURM_ROW_FAIL, e.hint, "%s", e.what);
			return;
		}
	if (slurm_health_ask(p, version, &out, &e) < 0)
		say(r, SLURM_ROW_FAIL, "does the slurm.conf of the cluster lie here? SLURM_CONF",
		    "%s", e.what);
	else
		say(r, SLURM_ROW_PASS, NULL, "%.*s", (int)strcspn(buf_str(&out), "\n"),
		    buf_str(&out));
}

static void ask_controller(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const ping[] = { "scontrol", "ping", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(65536);
	struct err e = { 0 };
	int got = slurm_health_ask(p, ping, &out, &e);

	if (got == 0 && strstr(buf_str(&out), " is UP"))
		say(r, SLURM_ROW_PASS, NULL, "%.*s", (int)strcspn(buf_str(&out), "\n"),
		    buf_str(&out));
	else
		say(r, SLURM_ROW_FAIL,
		    "is slurmctld up, does SLURM_CONF name its slurm.conf, does munge run here?",
		    "no controller answers%s%s", got < 0 ? ": " : "", got < 0 ? e.what : "");
}

static void ask_partition(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const show[] = { "scontrol", "-a", "show", "-o", "partition", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	const char *name = p->slurm.partition;
	struct slurm_facts f = { 0 };
	struct err e = { 0 };

	if (slurm_health_ask(p, show, &out, &e) < 0) {
		say(r, SLURM_ROW_FAIL, "sinfo -s lists partitions", "%s", e.what);
	} else if (!slurm_text_partitions(buf_str(&out), name, NULL)) {
		say(r, SLURM_ROW_FAIL, "sinfo -s lists them; name one: --set slurm.partition=NAME",
		    name ? "there is no partition '%s'" : "there is no default partition%s",
		    name ? name : "");
	} else if (!slurm_text_partitions(buf_str(&out), name, "UP")) {
		say(r, SLURM_ROW_FAIL,
		    "scontrol update PartitionName=NAME State=UP, or another one",
		    "partition '%s' takes no jobs", name ? name : "(default)");
	} else {
		slurm_text_partition(buf_str(&out), name, &f);
		say(r, SLURM_ROW_PASS, NULL,
		    "'%s' is up; at most %llu s, %llu MiB and %llu CPUs of a node (0: no limit)",
		    name ? name : "(default)", (unsigned long long)f.max_seconds,
		    (unsigned long long)f.max_mib, (unsigned long long)f.max_cpus);
	}
}

static void ask_nodes(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const good[] = { "idle", "mix", "alloc", "comp" };
	static const char *const list[] = { "sinfo", "-h", "-N", "-o", "%N %t", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	struct err e = { 0 };
	size_t up = 0, down = 0;
	char first[80] = "";

	if (slurm_health_ask(p, list, &out, &e) < 0) {
		say(r, SLURM_ROW_FAIL, "sinfo -N shows nodes", "%s", e.what);
		return;
	}
	for (const char *at = buf_str(&out); *at;) {
		size_t n = strcspn(at, "\n"), k = strcspn(at, " \n");
		const char *state = at + k + (at[k] == ' ');
		bool well = false;

		for (size_t i = 0; i < ARRAY_LEN(good); i++)
			well |= str_starts(state, good[i]);
		well &= at[n - 1] != '*';
		up += well;
		down += !well;
		if (!well && !first[0])
			(void)snprintf(first, sizeof(first), "%.*s", (int)n, at);
		at += n + (at[n] == '\n');
	}
	say(r,
	    !up    ? SLURM_ROW_FAIL
	    : down ? SLURM_ROW_WARN
		   : SLURM_ROW_PASS,
	    down ? "sinfo -R says why; scontrol update NodeName=NAME State=RESUME" : NULL,
	    "%zu up, %zu not%s%s (by partition)", up, down, first[0] ? ", such as " : "", first);
}

static void ask_brigs(const struct backend_plan *p, struct slurm_row *r)
{
	struct slurm_nodes n = { .unfit = BUF_INIT(SLURM_TEXT_MAX), .why = BUF_INIT(1024) };
	struct err e = { 0 };

	if (slurm_nodes_look(p, true, &n, &e) < 0)
		say(r, SLURM_ROW_FAIL, e.hint, "%s", e.what);
	else if (n.why.len)
		say(r, n.fit ? SLURM_ROW_WARN : SLURM_ROW_FAIL,
		    "install brig " BRIG_VERSION " on the nodes, or name it: slurm.brig",
		    "%zu of %zu that were asked have a brig that fits: %.200s", n.fit, n.asked,
		    buf_str(&n.why));
	else if (!n.fit)
		say(r, SLURM_ROW_WARN, "squeue shows who has them",
		    "no node is free to be asked; a run asks the one that it gets");
	else
		say(r, SLURM_ROW_PASS, NULL,
		    "%zu of %zu nodes were asked, %zu have brig " BRIG_VERSION, n.asked, n.count,
		    n.fit);
	slurm_nodes_done(&n);
}

static void ask_limits(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const show[] = { "scontrol", "show", "config", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	struct slurm_facts f = { 0 };
	struct err e = { 0 };

	if (slurm_health_ask(p, show, &out, &e) < 0) {
		say(r, SLURM_ROW_WARN, "scontrol show config", "%s", e.what);
		return;
	}
	slurm_text_config(buf_str(&out), &f);
	say(r, SLURM_ROW_PASS, NULL, "Slurm itself enforces time%s%s; brig all of them on the node",
	    f.holds_memory ? ", memory" : "", f.holds_cpus ? ", CPUs" : "");
}

static void ask_gpus(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const list[] = { "sinfo", "-h", "-N", "-a", "-o", "%N %G", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	struct err e = { 0 };
	uint64_t most = 0;
	char first[80] = "";

	if (slurm_health_ask(p, list, &out, &e) < 0) {
		say(r, SLURM_ROW_WARN, "sinfo -o '%N %G' lists them", "%s", e.what);
		return;
	}
	for (const char *at = buf_str(&out); *at;) {
		size_t n = strcspn(at, "\n"), k = strcspn(at, " \n");
		uint64_t has = at[k] == ' ' ? slurm_text_gpus(at + k + 1, n - k - 1) : 0;

		if (has > most) {
			most = has;
			(void)snprintf(first, sizeof(first), "%.*s", (int)k, at);
		}
		at += n + (at[n] == '\n');
	}
	if (most)
		say(r, SLURM_ROW_PASS, NULL, "at most %llu of one node, such as '%s'",
		    (unsigned long long)most, first);
	else
		say(r, p->want.gpus ? SLURM_ROW_WARN : SLURM_ROW_PASS,
		    p->want.gpus ? "GresTypes=gpu and gres.conf tell Slurm about GPUs" : NULL,
		    "no node has one: gpus is refused");
}

static void ask_accounting(const struct backend_plan *p, struct slurm_row *r)
{
	static const char *const list[] = { "sacct", "-n", "-X", "-P", "-o", "JobID", NULL };
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	struct err e = { 0 };

	if (slurm_health_ask(p, list, &out, &e) == 0)
		say(r, SLURM_ROW_PASS, NULL, "sacct answers");
	else
		say(r, SLURM_ROW_WARN,
		    "AccountingStorageType=accounting_storage/slurmdbd gives Slurm a memory",
		    "none: --resume asks squeue alone, which forgets a job after MinJobAge: %.120s",
		    e.what);
}

void slurm_examine(const struct spec *s, struct slurm_row rows[SLURM_ROWS])
{
	static const char *const argv[] = { "true", NULL };
	static void (*const look[SLURM_ROWS])(const struct backend_plan *, struct slurm_row *) = {
		[SLURM_ROW_PROGRAMS] = look_for_programs,
		[SLURM_ROW_CONTROLLER] = ask_controller,
		[SLURM_ROW_PARTITION] = ask_partition,
		[SLURM_ROW_NODES] = ask_nodes,
		[SLURM_ROW_BRIG] = ask_brigs,
		[SLURM_ROW_LIMITS] = ask_limits,
		[SLURM_ROW_GPUS] = ask_gpus,
		[SLURM_ROW_ACCOUNTING] = ask_accounting,
	};
	CLEANUP(slurm_plan) struct backend_plan *p = NULL;
	struct err e = { 0 };
	CLEANUP(spec) struct spec *copy = s ? spec_clone(s, &e) : spec_new(&e);
	size_t i = 0;

	for (size_t k = 0; k < SLURM_ROWS; k++)
		say(&rows[k], SLURM_ROW_SKIP, NULL, "not asked: see above");
	if (copy) {
		copy->command.argv = argv;
		copy->command.code = (struct code_spec){ 0 };
	}
	if (!copy || slurm_check(copy, &e) < 0 || slurm_plan(copy, &p, NULL, &e) < 0) {
		say(&rows[0], SLURM_ROW_FAIL, e.hint, "%s", e.what);
		return;
	}
	for (; i < SLURM_ROWS && (!i || rows[i - 1].state != SLURM_ROW_FAIL); i++)
		look[i](p, &rows[i]);
}

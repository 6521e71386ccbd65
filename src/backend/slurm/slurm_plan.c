/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_plan.c - where a run takes place, as Slurm's options, and what the node is
 * told of it.
 *
 * Nothing of the command is in an argument: command, variables and settings go as frames. */
#include <stdio.h>
#include <string.h>

#include "backend/slurm/slurm.h"
#include "base/files/exposed.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/dialect/credentials.h"
#include "model/files/config.h"
#include "model/request/code.h"
#include "model/settings/envrules.h"
#include "model/settings/spec_writes.h"
#include "far/far_place.h"

#define PLAN_MAX ((size_t)64 << 20)
#define LIST_ROOM 64
#define SETTINGS_MAX ((size_t)4 << 20)
#define MIB ((uint64_t)1 << 20)
#define MARGIN_S 60 /* between the end of a run's time and Slurm's own */

/* Of this side alone, or sent in another way. */
static const enum field_id local[] = { FIELD_BACKEND,
				       FIELD_ENV,
				       FIELD_ENV_PASS,
				       FIELD_OUTPUT,
				       FIELD_FULL_ACCESS_OK,
				       FIELD_AUDIT_DIR,
				       FIELD_AUDIT_ANCHOR,
				       FIELD_CODE,
				       FIELD_CODE_PATH,
				       FIELD_INTERPRETER,
				       FIELD_PARAM,
				       FIELD_REPORT_FD,
				       FIELD_TTY,
				       FIELD_METRICS_TEXTFILE };

/* ---- what cannot be honoured ---- */

static bool slurm_plan_is_word(const char *text)
{
	return !text ||
	       (*text && text[0] != '-' && !strpbrk(text, " \t") && !str_has_control(text));
}

static int check_words(const struct slurm_spec *s, struct err *e)
{
	const struct {
		enum field_id id;
		const char *text;
	} all[] = { { FIELD_SLURM_PARTITION, s->partition },
		    { FIELD_SLURM_ACCOUNT, s->account },
		    { FIELD_SLURM_QOS, s->qos },
		    { FIELD_SLURM_NODELIST, s->nodelist },
		    { FIELD_SLURM_CONSTRAINT, s->constraint },
		    { FIELD_SLURM_BRIG, s->brig } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (!slurm_plan_is_word(all[i].text))
			return err_refuse(e, ERR_CONFIG, EINVAL, "one word, as Slurm has it",
					  "%s '%.60s' is not a name", fields[all[i].id].key,
					  all[i].text);
	if (!s->brig || s->brig[0] != '/')
		return err_refuse(e, ERR_CONFIG, EINVAL, "such as /usr/bin/brig",
				  "slurm.brig '%.100s' is not a path from the root on",
				  s->brig ? s->brig : "");
	return 0;
}

/* A value of this process's environment is not sent: it would lie in a file, or in a job. */
static int check_credentials(const struct spec *s, struct err *e)
{
	struct credentiallist granted = { 0 };

	if (s->network != NETWORK_PROXY)
		return 0;
	if (credentials_granted(s->arena, s, &granted, e) < 0)
		return -e->code;
	for (size_t i = 0; i < granted.n; i++)
		if (granted.v[i].from == FROM_ENVIRONMENT)
			return err_refuse(
				e, ERR_UNAVAILABLE, ENOTSUP,
				"take it from a file or a command of the nodes: from: {file: "
				"PATH}",
				"backend 'slurm' cannot honour credential '%.60s': its value "
				"is a variable of this machine",
				granted.v[i].name);
	return 0;
}

int slurm_check(const struct spec *s, struct err *e)
{
	static const enum field_id never[] = { FIELD_SSH_AGENT, FIELD_COMPANIONS, FIELD_COPIES,
					       FIELD_BUILTIN_TOOLS, FIELD_GPU };

	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (spec_asks(s, never[i]))
			return backend_cannot(s, "slurm", never[i], NULL, e);
	/* How many that is depends on the node, and a job that has them all keeps others out. */
	if (s->gpus == FIELD_ALL)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "say how many: --gpus 1; sinfo -o '%N %G' lists what nodes have",
				  "backend 'slurm' cannot honour gpus 'all'");
	if (s->command.code.hooks.where && s->command.code.kind == CODE_PYTHON)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "choose another backend, or audit_hooks_enabled: false",
				  "%.160s: backend 'slurm' cannot honour audit_hooks_enabled",
				  s->command.code.hooks.where);
	return check_words(&s->slurm, e) < 0 ? -e->code : check_credentials(s, e);
}

/* ---- options ---- */

static int slurm_plan_option(struct backend_plan *p, size_t *n, const char *text, struct err *e)
{
	if (!text || *n + 2 > LIST_ROOM)
		return err_nomem(e);
	p->options[(*n)++] = text;
	return 0;
}

static int slurm_plan_word(struct backend_plan *p, size_t *n, const char *name, const char *value,
			   struct err *e)
{
	return value ? slurm_plan_option(p, n, arena_printf(p->arena, "--%s=%s", name, value), e)
		     : 0;
}

/* What the sandbox may use is what Slurm is asked for; the node takes the stricter of what it was
 * given. One CPU, where no setting says how many. */
static void slurm_plan_limits(struct backend_plan *p, const struct spec *s)
{
	uint64_t grace = p->kill_after / 1000 + 30; /* for the words of its end, too */

	p->want.cpus =
		spec_wrote(s, FIELD_CPUS) && s->limits.cpus ? (s->limits.cpus + 999) / 1000 : 1;
	if (s->limits.memory)
		p->want.mib = (s->limits.memory + MIB - 1) / MIB + FAR_MARGIN_MIB;
	p->want.gpus = s->gpus;
	if (grace < MARGIN_S)
		grace = MARGIN_S;
	if (p->timeout)
		p->want.minutes = ((p->timeout + 999) / 1000 + grace + 59) / 60;
}

/* Slurm would leave a job that asks for more than its partition gives in the queue for ever. */
void slurm_narrow(struct backend_plan *p, const struct slurm_facts *f)
{
	uint64_t time = slurm_stricter(p->timeout ? 0 : f->default_seconds, f->max_seconds);
	uint64_t margin = time / 10 < MARGIN_S ? time / 10 : MARGIN_S;
	uint64_t per_cpu = f->max_cpu_mib, mib;

	p->want.cpus = slurm_stricter(p->want.cpus, f->max_cpus);
	mib = slurm_stricter(f->max_mib, per_cpu * p->want.cpus);
	if (mib && p->want.mib > mib) {
		p->want.mib = mib;
		p->most_memory = (mib > 2 * FAR_MARGIN_MIB ? mib - FAR_MARGIN_MIB : mib) * MIB;
	}
	if (time && (!p->timeout || p->want.minutes * 60 > time)) {
		p->want.minutes = time < 60 ? 1 : time / 60;
		p->most_timeout = slurm_stricter(p->timeout, (time - margin) * 1000);
	}
	if (p->want.gpus > f->most_gpus && f->most_gpus)
		p->want.gpus = p->most_gpus = f->most_gpus;
	p->slurm.holds = (p->want.gpus ? 1U << LIMIT_GPUS : 0) |
			 (p->want.minutes ? 1U << LIMIT_TIMEOUT : 0) |
			 (f->holds_memory && p->want.mib ? 1U << LIMIT_MEMORY : 0) |
			 (f->holds_cpus ? 1U << LIMIT_CPUS : 0);
}

size_t slurm_wants(const struct backend_plan *p, const char **v)
{
	const struct {
		const char *name, *unit;
		uint64_t value;
	} all[] = { { "cpus-per-task=", "", p->want.cpus },
		    { "mem=", "M", p->want.mib },
		    { "time=", "", p->want.minutes },
		    { "gres=gpu:", "", p->want.gpus } };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].value)
			v[n++] = arena_printf(p->arena, "--%s%llu%s", all[i].name,
					      (unsigned long long)all[i].value, all[i].unit);
	return n;
}

static int options(struct backend_plan *p, const struct spec *s, struct err *e)
{
	static const char *const fixed[] = { "--propagate=NONE", "--chdir=/", "--job-name=brig",
					     "--nodes=1", "--ntasks=1" };
	size_t n = 0;

	p->options = arena_alloc(p->arena, LIST_ROOM * sizeof(*p->options));
	if (!p->options)
		return err_nomem(e);
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (slurm_plan_option(p, &n, fixed[i], e) < 0)
			return -e->code;
	if (slurm_plan_word(p, &n, "partition", s->slurm.partition, e) < 0 ||
	    slurm_plan_word(p, &n, "account", s->slurm.account, e) < 0 ||
	    slurm_plan_word(p, &n, "qos", s->slurm.qos, e) < 0 ||
	    slurm_plan_word(p, &n, "constraint", s->slurm.constraint, e) < 0)
		return -e->code;
	slurm_plan_limits(p, s);
	return 0;
}

const char **slurm_srun(const struct backend_plan *p, const char *id, const char *unfit)
{
	const char **v = arena_alloc(p->arena, (LIST_ROOM + 16) * sizeof(*v));
	size_t n = 0;

	if (!v)
		return NULL;
	v[n++] = p->srun;
	v[n++] = "--export=NONE";
	for (size_t i = 0; p->options[i]; i++)
		v[n++] = p->options[i];
	n += slurm_wants(p, v + n);
	v[n++] = "--mpi=none";
	v[n++] = "--quit-on-interrupt";
	v[n++] = arena_printf(p->arena, "--comment=" SLURM_COMMENT "%s", id);
	/* Of several, Slurm would give all: the others are excluded instead. */
	if (p->slurm.nodelist && !strpbrk(p->slurm.nodelist, ",["))
		v[n++] = arena_printf(p->arena, "--nodelist=%s", p->slurm.nodelist);
	if (unfit && *unfit)
		v[n++] = arena_printf(p->arena, "--exclude=%s", unfit);
	v[n++] = p->slurm.brig;
	v[n++] = SLURM_ENTRY;
	for (size_t i = 0; i < n; i++)
		if (!v[i])
			return NULL;
	return v;
}

/* ---- what goes to the node ---- */

static bool slurm_plan_names(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->env_pass.n; i++)
		if (str_eq(s->env_pass.v[i], name))
			return true;
	return false;
}

static bool is_set(const struct spec *s, const char *name, size_t n)
{
	for (size_t i = 0; i < s->env.n; i++)
		if (strlen(s->env.v[i].name) == n && memcmp(s->env.v[i].name, name, n) == 0)
			return true;
	return false;
}

/* What would pass here: by its name, or because a setting names it. */
static int slurm_plan_variables(struct backend_plan *p, const struct spec *s, struct err *e)
{
	size_t n = 0, count = s->env.n + 1;

	for (char **v = environ; *v; v++)
		count++;
	p->variables = arena_alloc(p->arena, count * sizeof(*p->variables));
	if (!p->variables)
		return err_nomem(e);
	for (char **v = environ; *v; v++) {
		size_t len = strcspn(*v, "=");
		const char *name = arena_strndup(p->arena, *v, len);

		if (!name)
			return err_nomem(e);
		if ((*v)[len] && !is_set(s, name, len) &&
		    (env_passes_by_default(name) || slurm_plan_names(s, name)) &&
		    !(p->variables[n++] = arena_strdup(p->arena, *v)))
			return err_nomem(e);
	}
	for (size_t i = 0; i < s->env.n; i++)
		if (!(p->variables[n++] =
			      arena_printf(p->arena, "%s=%s", s->env.v[i].name, s->env.v[i].value)))
			return err_nomem(e);
	return 0;
}

static int path(struct backend_plan *p, const char *text, const char *what, struct err *e)
{
	struct far_path *x = ARENA_PUSH(p->arena, p->paths, p->path_count);

	if (!x)
		return err_nomem(e);
	*x = (struct far_path){ .path = text, .what = what };
	return 0;
}

/* Whatever of this machine is to be seen inside must be the same on the node. */
static int paths(struct backend_plan *p, const struct spec *s, struct err *e)
{
	if (!s->private_workspace && !s->no_workspace && s->workdir &&
	    path(p, s->workdir, "the workspace", e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (path(p, s->mounts.v[i].source, "a mount", e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->read.n; i++)
		if (path(p, s->read.v[i], "read", e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->write.n; i++)
		if (path(p, s->write.v[i], "write", e) < 0)
			return -e->code;
	return 0;
}

static bool stays_here(enum field_id id)
{
	const char *key = fields[id].key;

	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		if (local[i] == id)
			return true;
	return key && (str_starts(key, "slurm.") || str_starts(key, "ssh.") ||
		       str_starts(key, "docker.") || str_starts(key, "agent"));
}

static int settings(struct backend_plan *p, const struct spec *s, struct err *e)
{
	CLEANUP(spec) struct spec *x = spec_clone(s, e);
	struct json j;

	if (!x)
		return -e->code;
	for (int id = 0; id < FIELD_COUNT; id++)
		if (stays_here((enum field_id)id))
			x->origin[id] = ORIGIN_DEFAULT;
	x->command.timeout = p->timeout;
	x->origin[FIELD_TIMEOUT] = ORIGIN_FLAG;
	p->settings = (struct buf)BUF_INIT(SETTINGS_MAX);
	json_init(&j, &p->settings, false);
	config_write_json(x, &j);
	return p->settings.failed ? err_set(e, ERR_CONFIG, E2BIG, "the settings are too large") : 0;
}

static int command(struct backend_plan *p, const struct spec *s, struct err *e)
{
	const struct code_spec *c = &s->command.code;
	const char **v;

	if (!code_is_file(s)) {
		p->words = s->command.argv;
		return 0;
	}
	/* Its interpreter, its path, then its own words. */
	v = arena_alloc(p->arena, (c->args.n + 3) * sizeof(*v));
	if (!v)
		return err_nomem(e);
	v[0] = s->command.argv[0];
	v[1] = c->path;
	for (size_t i = 0; i < c->args.n; i++)
		v[i + 2] = c->args.v[i];
	p->words = v;
	p->code = c->text;
	p->code_size = c->size;
	return 0;
}

/* What it is there is not seen from here; where the file system is shared, it is this. */
static int check_program(const struct backend_plan *p, struct err *e)
{
	struct err why = { 0 };

	if (!p->slurm.brig || !exposed_path(p->slurm.brig, p->places, EXPOSED_REACHED, &why))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "slurm.brig '%.150s' is not started on a node: %.200s",
		      p->slurm.brig, why.what);
	exposed_hint("name one that lies where no sandbox may write", &why, e);
	return -e->code;
}

int slurm_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	       struct err *e)
{
	CLEANUP(slurm_plan) struct backend_plan *p = calloc(1, sizeof(*p));
	struct err missing = { 0 };

	if (!p)
		return err_nomem(e);
	p->slurm = s->slurm;
	p->timeout = slurm_stricter(s->command.timeout, s->slurm.time);
	p->kill_after = s->command.kill_after;
	p->output = s->command.output;
	p->arena = arena_new_on(s->arena, PLAN_MAX);
	if (!p->arena)
		return err_nomem(e);
	if (spec_places(p->arena, s, &p->places, e) < 0 || check_program(p, e) < 0 ||
	    slurm_environment(p, e) < 0)
		return -e->code;
	/* A plan can be made anywhere; a start needs the program. */
	if (slurm_program(p, "srun", &p->srun, &missing) < 0)
		p->srun = "srun";
	if (options(p, s, e) < 0 || slurm_plan_variables(p, s, e) < 0 || paths(p, s, e) < 0 ||
	    settings(p, s, e) < 0 || command(p, s, e) < 0)
		return -e->code;
	if (notes)
		*notes = p->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

static void put_limits(const struct backend_plan *p, struct json *j)
{
	json_kobject(j, "limits");
	json_ku64(j, "output", p->output);
	json_ku64(j, "timeout_ms", p->timeout);
	json_object_end(j);
}

void slurm_plan_json(const struct backend_plan *p, struct json *j)
{
	const char **argv = slurm_srun(p, "ID", NULL);

	if (argv)
		argv[0] = "srun"; /* wherever it is */
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kstr(j, "backend", "slurm");
	json_kstrs(j, "client", (const char *const *)argv);
	json_kstrs(j, "argv", p->words);
	json_kstrs(j, "env", (const char *const *)p->variables);
	if (p->code)
		json_ku64(j, "code_bytes", p->code_size);
	json_karray(j, "shared");
	for (size_t i = 0; i < p->path_count; i++)
		json_str(j, p->paths[i].path);
	json_array_end(j);
	put_limits(p, j);
	json_key(j, "settings");
	json_raw(j, p->settings.data, p->settings.len);
	json_object_end(j);
}

struct backend_plan *slurm_plan_free(struct backend_plan *p)
{
	if (!p)
		return NULL;
	buf_done(&p->settings);
	(void)arena_free(p->arena);
	free(p);
	return NULL;
}

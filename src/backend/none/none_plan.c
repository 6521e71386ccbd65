/* SPDX-License-Identifier: Apache-2.0 */
/* backend/none/none_plan.c - what would run on the host: argument vector, variables, folder. */
#include <stdio.h>
#include <string.h>

#include "backend/none/none.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/request/envblock.h"
#include "model/settings/envrules.h"
#include "model/settings/paths.h"

#define PLAN_MAX ((size_t)16 << 20)
#define PATH_FALLBACK "/usr/local/bin:/usr/bin:/bin"

/* What needs a cgroup, or a file system of its own. A default may go unenforced, a written setting
 * may not. */
static const enum field_id not_here[] = { FIELD_MEMORY, FIELD_CPUS, FIELD_CPU_SHARES, FIELD_PIDS };

static int check_settings(const struct spec *s, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(not_here); i++)
		if (spec_wrote(s, not_here[i]) && !spec_switched_off(s, not_here[i]))
			return backend_cannot(s, "none", not_here[i], NULL, e);
	/* Nothing on the host keeps the command from writing elsewhere. */
	if (spec_wrote(s, FIELD_POLICY) && s->policy != POLICY_FULL_ACCESS &&
	    !spec_switched_off(s, FIELD_POLICY))
		return backend_cannot(s, "none", FIELD_POLICY,
				      fields[FIELD_POLICY].words[s->policy], e);
	return 0;
}

static void none_plan_note(struct backend_plan *p, const char *text)
{
	if (text && p->note_count + 1 < ARRAY_LEN(p->notes))
		p->notes[p->note_count++] = text;
}

static bool is_here(enum field_id id)
{
	for (size_t i = 0; i < ARRAY_LEN(not_here); i++)
		if (id == not_here[i])
			return false;
	return fields[id].honoured & ON_NONE;
}

/* Of a sandbox that is switched off much may be written. */
static void note_off(struct backend_plan *p, const struct spec *s)
{
	for (int i = 0; i < FIELD_COUNT; i++) {
		enum field_id id = (enum field_id)i;

		if (!is_here(id) && spec_asks(s, id) && spec_switched_off(s, id)) {
			none_plan_note(
				p,
				arena_printf(p->arena,
					     "the sandbox is switched off, and its settings with "
					     "it: %s and the like have no effect",
					     s->where[id] ? s->where[id] : fields[id].key));
			return;
		}
	}
}

static int none_plan_folder(struct backend_plan *p, const struct spec *s, struct err *e)
{
	char *here;

	if (s->workdir && !s->private_workspace) {
		p->cwd = s->workdir;
		return 0;
	}
	here = getcwd(NULL, 0);
	if (!here)
		return err_sys(e, "cannot tell the current folder");
	p->cwd = arena_strdup(p->arena, here);
	free(here);
	if (!p->cwd)
		return err_nomem(e);
	if (s->private_workspace)
		none_plan_note(
			p,
			arena_printf(p->arena,
				     "no private workspace on the host: the command runs in '%s'",
				     p->cwd));
	return 0;
}

/* A path inside, as the same file is called on the host; anything else is returned as it is. */
static const char *on_host(struct backend_plan *p, const struct spec *s, const char *item)
{
	const char *rest, *base = str_eq(p->cwd, "/") ? "" : p->cwd;

	if (p->code && item == s->command.code.path)
		return CODE_FD_PATH;

	if (str_eq(s->inside, p->cwd) || !path_under(item, s->inside))
		return item;
	rest = item + strlen(s->inside);
	return *rest ? arena_printf(p->arena, "%s%s", base, rest) : p->cwd;
}

static int none_plan_arguments(struct backend_plan *p, const struct spec *s, struct err *e)
{
	const char *const *from = s->command.argv;
	size_t n = 0;

	if (!from || !from[0]) /* a sandbox that is to stay open */
		return 0;
	while (from[n])
		n++;
	p->code = code_is_file(s) ? s->command.code.text : NULL;
	p->code_size = s->command.code.size;
	p->argv = arena_alloc(p->arena, (n + 1) * sizeof(*p->argv));
	if (!p->argv)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		p->argv[i] = on_host(p, s, from[i]);
		if (!p->argv[i])
			return err_nomem(e);
	}
	return 0;
}

/* All of the caller's, except what looks like a secret: this is no sandbox, but a command that
 * prints its variables should not print the caller's keys. */
static int inherited(struct backend_plan *p, struct envblock *b, struct err *e)
{
	for (char **v = environ; v && *v; v++) {
		const char *equals = strchr(*v, '=');
		const char *name =
			equals ? arena_strndup(p->arena, *v, (size_t)(equals - *v)) : NULL;

		if (equals && !name)
			return err_nomem(e);
		if (name && !env_looks_secret(name) && envblock_put(b, name, equals + 1, e) < 0)
			return -e->code;
		if (name && str_eq(name, "PATH"))
			p->path_value = arena_strdup(p->arena, equals + 1);
	}
	return 0;
}

static int none_plan_variables(struct backend_plan *p, const struct spec *s, struct err *e)
{
	size_t room = 1 + s->env.n + s->env_pass.n;
	struct envblock b = { .arena = p->arena };

	for (char **v = environ; v && *v; v++)
		room++;
	p->envp = arena_alloc(p->arena, room * sizeof(*p->envp));
	if (!p->envp)
		return err_nomem(e);
	b.v = p->envp;
	p->path_value = PATH_FALLBACK;
	if (inherited(p, &b, e) < 0)
		return -e->code;
	if (!p->path_value)
		return err_nomem(e);
	return envblock_put_asked(&b, s, &p->path_value, e);
}

int none_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	      struct err *e)
{
	CLEANUP(none_plan) struct backend_plan *p = calloc(1, sizeof(*p));

	if (!p)
		return err_nomem(e);
	p->arena = arena_new_on(s->arena, PLAN_MAX);
	if (!p->arena)
		return err_nomem(e);
	p->files = s->limits.files;
	p->output = s->command.output;
	p->timeout = s->command.timeout;
	none_plan_note(p, "this is not a sandbox: the command runs on the host with your rights");
	if (check_settings(s, e) < 0 || none_plan_folder(p, s, e) < 0 ||
	    none_plan_arguments(p, s, e) < 0 || none_plan_variables(p, s, e) < 0)
		return -e->code;
	note_off(p, s);
	if (!reap_sees_children())
		none_plan_note(p,
			       "/proc does not list children here: what the command detaches from "
			       "itself will outlive it");
	if (notes)
		*notes = p->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

void none_plan_json(const struct backend_plan *p, struct json *j)
{
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kstr(j, "backend", "none");
	json_kstr(j, "policy", fields[FIELD_POLICY].words[POLICY_FULL_ACCESS]);
	json_kstr(j, "network", fields[FIELD_NETWORK].words[NETWORK_HOST]);
	json_kstrs(j, "argv", (const char *const *)p->argv);
	json_kstr(j, "cwd", p->cwd);
	if (p->code)
		json_ku64(j, "code_bytes", p->code_size);
	json_ku64(j, "uid", geteuid());
	json_ku64(j, "gid", getegid());
	json_karray(j, "namespaces");
	json_array_end(j);
	json_kobject(j, "limits");
	json_ku64(j, "files", p->files);
	json_ku64(j, "output", p->output);
	json_ku64(j, "timeout_ms", p->timeout);
	json_object_end(j);
	json_kstrs(j, "env", (const char *const *)p->envp);
	json_object_end(j);
}

struct backend_plan *none_plan_free(struct backend_plan *p)
{
	if (p)
		(void)arena_free(p->arena);
	free(p);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/doctor.c - which checks a configuration gets, and how they are shown.
 *
 * A check prefers trying to reading: the trial run and the trial namespaces are real. Reading a
 * setting only serves to name the cause of what failed. */
#include "doctor/doctor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text/clean.h"
#include "doctor/machine.h"
#include "model/dialect/dialect.h"

static const char *const status_names[] = {
	[CHECK_PASS] = "pass",
	[CHECK_WARN] = "warn",
	[CHECK_FAIL] = "fail",
	[CHECK_SKIP] = "skip",
};
static_assert(ARRAY_LEN(status_names) == CHECK_STATUSES, "a word for every status");

/* ---- findings ---- */

/* A path may hold any byte; on a line of ours it may not break the line or drive a terminal. */
static void doctor_one_line(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void finding_say(struct finding *f, enum check_status status, const char *fmt, ...)
{
	va_list ap;

	f->status = status;
	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	doctor_one_line(f->detail);
}

void finding_hint(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->hint, sizeof(f->hint), fmt, ap);
	va_end(ap);
	doctor_one_line(f->hint);
}

void say_error(struct finding *f, enum check_status status, const struct err *e)
{
	finding_say(f, status, "%s", e->what);
	finding_hint(f, "%s", e->hint);
}

/* ---- the table ---- */

/* What this machine gives, whatever the configuration. */
static const struct check machine_checks[] = {
	{ "sandbox", "all layers together, in a trial run", check_sandbox },
	{ "user_namespaces", "a sandbox without root", check_user_namespaces, true },
	{ "procfs", "other processes stay unseen", check_procfs, true },
	{ "seccomp", "the kernel, from rare system calls", check_seccomp, true },
	{ "identity", "nobody inside is root outside", check_identity },
	{ "installation", "brig itself, from being replaced", check_installation },
	{ "kernel", "the layers that came with newer releases", check_kernel },
	{ "landlock", "files, a second time behind the mounts", check_landlock },
	{ "cgroups", "the machine, from a run that takes too much", check_cgroups },
	{ "mount_api", "mounts, from being swapped while they are made", check_mount_api },
	{ "idmap", "owners of files, when root starts a run", check_idmap },
	{ "state_folder", "what must survive a crash of brig", check_state },
	{ "configured_runtime", "that the backend asked for is the one that runs",
	  check_configured },
	{ "env_allowlist", "the host's variables", check_env_allowlist },
	{ "network_policy", "the network, from the command", check_network_policy },
	{ "extra_args", "the engine's own isolation", check_extra_args },
	{ "mount_policy", "folders nobody meant to show", check_mount_policy },
	{ "temp_write_access", "runs that need a scratch folder", check_temp },
	{ "bwrap", "a second way to a sandbox without root", check_bwrap },
	{ "docker_cli", "nothing: brig speaks to the engine itself", check_docker_cli },
	{ "docker_daemon", "runs in an image", check_docker_daemon },
	{ "docker_image", "runs in an image, from waiting for it", check_docker_image },
	{ "runtimes", "a kernel of its own for a container", check_runtimes },
	{ "ssh", "runs on another host", check_ssh },
	{ "slurm", "runs on a cluster", check_slurm },
	{ "tun", "the internet alone, under network bridge", check_tun },
	{ "egress_worker", "what may leave, under network proxy", check_egress_worker },
	{ "upstream_proxy", "the network, where a proxy is the only way to it",
	  check_upstream_proxy },
};

/* The nine rows of RLM Code's own doctor, in its order. */
static const struct check rlm_checks[] = {
	{ "configured_runtime", "that the backend asked for is the one that runs",
	  check_configured },
	{ "env_allowlist", "the host's variables", check_env_allowlist },
	{ "docker_cli", "nothing: brig speaks to the engine itself", check_docker_cli },
	{ "docker_daemon", "runs in an image", check_docker_daemon },
	{ "docker_image", "runs in an image, from waiting for it", check_docker_image },
	{ "docker_network_policy", "the network, from the command", check_network_policy },
	{ "docker_extra_args", "the engine's own isolation", check_extra_args },
	{ "mount_policy", "folders nobody meant to show", check_mount_policy },
	{ "temp_write_access", "runs that need a scratch folder", check_temp },
};

static const struct check role_checks[] = {
	{ "docker", "roles that run in an image", role_docker },
	{ "sandbox", "all layers together, in a trial run", role_sandbox },
	{ "env_allowlist", "the host's variables", check_env_allowlist },
	{ "network_policy", "the network, from the command", check_network_policy },
	{ "extra_args", "the engine's own isolation", check_extra_args },
	{ "mount_policy", "folders nobody meant to show", check_mount_policy },
	{ "user_namespaces", "a sandbox without root", check_user_namespaces, true },
	{ "seccomp", "the kernel, from rare system calls", check_seccomp, true },
	{ "landlock", "files, a second time behind the mounts", check_landlock },
	{ "cgroups", "the machine, from a run that takes too much", check_cgroups },
	{ "bwrap", "a second way to a sandbox without root", check_bwrap },
	{ "runtimes", "a kernel of its own for a container", check_runtimes },
	{ "ssh", "runs on another host", check_ssh },
};

static const struct check ironclaw_checks[] = {
	{ "docker", "runs in the worker's image", ironclaw_docker },
	{ "docker_image", "runs in the worker's image", ironclaw_image },
	{ "sandbox", "that there is a sandbox at all", ironclaw_enabled },
	{ "network_policy", "the network, from the command", check_network_policy },
	{ "mount_policy", "folders nobody meant to show", check_mount_policy },
};

/* Of a configuration that names a cluster: nothing of this machine counts but what reaches it. */
static const struct check kube_checks[] = {
	{ "kubernetes", "runs in a pod", check_kube_server },
	{ "kubernetes_rights", "runs in a pod, each step of one", check_kube_rights },
	{ "kubernetes_admission", "the network, from the command: NET_ADMIN closes it",
	  check_kube_admission },
	{ "kubernetes_policies", "the network, a second time", check_kube_policies },
	{ "kubernetes_runtime", "a kernel of its own for a pod", check_kube_runtime },
	{ "kubernetes_sandboxes", "nothing yet: brig makes pods", check_kube_sandboxes },
	{ "kubernetes_clock", "certificates and deadlines", check_kube_clock },
	{ "mount_policy", "folders nobody meant to show", check_mount_policy },
	{ "state", "what must survive a run", check_state },
};

/* Of one that asks for Slurm: the sandbox is made on a node. */
static const struct check slurm_checks[] = {
	{ "slurm_programs", "runs on a cluster", check_slurm_programs },
	{ "slurm_controller", "runs on a cluster", check_slurm_controller },
	{ "slurm_partition", "runs, from waiting for ever", check_slurm_partition },
	{ "slurm_nodes", "runs, from waiting for a node", check_slurm_nodes },
	{ "slurm_brig", "that there is a sandbox at all", check_slurm_brig },
	{ "slurm_limits", "the node, a second time", check_slurm_limits },
	{ "slurm_gpus", "nothing: GPUs for runs that ask", check_slurm_gpus },
	{ "slurm_accounting", "a batch, from running a line twice", check_slurm_accounting },
	{ "configured_runtime", "that the backend asked for is the one that runs",
	  check_configured },
	{ "mount_policy", "folders nobody meant to show", check_mount_policy },
	{ "state", "what must survive a run", check_state },
};

static_assert(ARRAY_LEN(machine_checks) <= DOCTOR_CHECKS_MAX, "a diagnosis holds them all");

const struct check *doctor_checks(const struct spec *s, size_t *n)
{
	if (s && spec_in_cluster(s)) {
		*n = ARRAY_LEN(kube_checks);
		return kube_checks;
	}
	if (s && spec_on_node(s)) {
		*n = ARRAY_LEN(slurm_checks);
		return slurm_checks;
	}
	switch (s ? s->dialect_used : DIALECT_BRIG) {
	case DIALECT_RLM:
		*n = ARRAY_LEN(rlm_checks);
		return rlm_checks;
	case DIALECT_INITRUNNER:
		*n = ARRAY_LEN(role_checks);
		return role_checks;
	case DIALECT_IRONCLAW:
		*n = ARRAY_LEN(ironclaw_checks);
		return ironclaw_checks;
	default:
		*n = ARRAY_LEN(machine_checks);
		return machine_checks;
	}
}

/* ---- the whole ---- */

/* However well the machine is, a configuration that no backend takes is not ready. */
static void must_run(struct machine *m, struct diagnosis *d)
{
	if (doctor_failed(d) || !m->spec || machine_backend(m))
		return;
	for (size_t i = 0; i < d->count; i++)
		if (strcmp(d->checks[i].name, "sandbox") == 0 ||
		    strcmp(d->checks[i].name, "configured_runtime") == 0) {
			say_error(&d->findings[i], CHECK_FAIL, &m->refusal);
			return;
		}
}

void doctor_examine(const struct check *checks, size_t n, const struct spec *s,
		    struct diagnosis *ret)
{
	CLEANUP(spec) struct spec *checked = machine_checked(s);
	struct machine m = { .spec = checked ? checked : s };

	assert(n <= DOCTOR_CHECKS_MAX);
	*ret = (struct diagnosis){ .checks = checks, .count = n };
	for (size_t i = 0; i < n; i++) {
		ret->findings[i].status = CHECK_SKIP;
		checks[i].run(&m, &ret->findings[i]);
		/* A sandbox that works has found its way without this layer. */
		if (checks[i].spared && ret->findings[i].status == CHECK_FAIL && machine_works(&m))
			ret->findings[i].status = CHECK_WARN;
	}
	ret->on_host = s && spec_on_host(s);
	must_run(&m, ret);
}

void doctor_refusal(const struct err *e, struct diagnosis *ret)
{
	static const struct check plain = { "configuration", "that what was meant is what runs",
					    NULL };
	static const struct check args = { "docker_extra_args", "the engine's own isolation",
					   NULL };

	*ret = (struct diagnosis){ .count = 1 };
	ret->checks = strstr(e->what, "extra arg '") ? &args : &plain;
	say_error(&ret->findings[0], CHECK_FAIL, e);
	if (!e->hint[0])
		finding_hint(&ret->findings[0], "brig config check FILE says what is right");
}

size_t doctor_failed(const struct diagnosis *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++)
		n += d->findings[i].status == CHECK_FAIL;
	return n;
}

/* A finding may quote a file, an engine or another host. */
static void doctor_put_line(struct buf *out, const char *text)
{
	clean_put(out, text, strlen(text));
	buf_putc(out, '\n');
}

void doctor_text(const struct diagnosis *d, bool brief, struct buf *out)
{
	size_t failed = doctor_failed(d), passed = 0, skipped = 0;

	for (size_t i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		passed += f->status == CHECK_PASS;
		skipped += f->status == CHECK_SKIP;
		if (brief && (f->status == CHECK_PASS || f->status == CHECK_SKIP))
			continue;
		buf_printf(out, "[%s] %s: ", status_names[f->status], d->checks[i].name);
		doctor_put_line(out, f->detail);
		if (f->hint[0]) {
			buf_puts(out, "hint: ");
			doctor_put_line(out, f->hint);
		}
	}
	if (brief)
		buf_printf(out, "passed: %zu, not needed here: %zu; brig doctor --all has them\n",
			   passed, skipped);
	if (failed)
		buf_printf(out, "not ready: %zu check%s failed\n", failed, failed == 1 ? "" : "s");
	else
		buf_puts(out, d->on_host ? "ready: commands run on the host, without a sandbox\n"
					 : "ready: sandboxes can be made here\n");
}

void doctor_json(const struct diagnosis *d, struct json *j)
{
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kbool(j, "ready", doctor_failed(d) == 0);
	json_karray(j, "checks");
	for (size_t i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		json_object(j);
		json_kstr(j, "name", d->checks[i].name);
		json_kstr(j, "status", status_names[f->status]);
		json_kstr(j, "detail", f->detail);
		json_kstr(j, "hint", f->hint[0] ? f->hint : NULL);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

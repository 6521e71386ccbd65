/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_backend.c - the backends besides native: bubblewrap, container engines, ssh, Slurm.
 *
 * What nobody asked for does not fail; it is told, so that one knows what there would be. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/text/str.h"
#include "doctor/machine.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define SCRATCH_MAX ((size_t)64 << 10)
#define SLURM_MS 30000 /* a queue may be busy */

/* Fails where the configuration needs it. */
static enum check_status missing(struct machine *m, const struct backend *b)
{
	return machine_needs(m, b) ? CHECK_FAIL : CHECK_SKIP;
}

/* "bubblewrap 0.8.0", from the program itself; "bubblewrap" when it does not say. */
static void bwrap_version(const char *path, char *out, size_t n)
{
	static const char *const argv[] = { "bwrap", "--version", NULL };
	struct err unused;
	int ends[2];
	ssize_t got = -1;
	pid_t pid;

	(void)snprintf(out, n, "bubblewrap");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	if (host_start(&(struct host_program){ .program = path,
					       .argv = argv,
					       .streams = (const int[]){ -1, ends[1], -1 },
					       .dies_with = SIGKILL },
		       &pid, NULL, &unused) < 0)
		pid = -1;
	(void)fd_close(ends[1]);
	if (pid > 0) {
		got = read(ends[0], out, n - 1);
		(void)proc_wait(pid);
	}
	(void)fd_close(ends[0]);
	if (got > 0)
		out[got] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

void check_bwrap(struct machine *m, struct finding *f)
{
	CLEANUP(arena) struct arena *a = arena_new(SCRATCH_MAX);
	const struct backend *const *b = backends_all;
	const char *path = NULL;
	struct isolation got;
	struct err e = { 0 };
	char version[64];

	while (*b && !((*b)->maker && (*b)->maker->program))
		b++;
	if (!a || !*b)
		return;
	if ((*b)->maker->program(a, &path, &e) < 0) {
		finding_say(f, missing(m, *b), "%s", e.what);
		if (f->status == CHECK_FAIL)
			finding_hint(f, "%s", e.hint);
		return;
	}
	bwrap_version(path, version, sizeof(version));
	if ((*b)->probe(NULL, &got, &e) == 0) {
		finding_say(f, CHECK_PASS, "%s at '%s': a trial run with the real layout worked",
			    version, path);
		return;
	}
	finding_say(f, machine_needs(m, *b) ? CHECK_FAIL : CHECK_WARN, "%s at '%s': %s", version,
		    path, e.what);
	finding_hint(f, "%s", e.hint[0] ? e.hint : "use --backend native");
}

void check_docker_cli(struct machine *m, struct finding *f)
{
	const struct engine_health *h = machine_engine(m);

	if (h->cli[0])
		finding_say(f, CHECK_PASS, "docker CLI found at %s.", h->cli);
	else
		finding_say(
			f, machine_needs(m, backend_with(BACKEND_ENGINE)) ? CHECK_WARN : CHECK_SKIP,
			"docker CLI not found; not needed: brig speaks to the engine itself");
}

void engine_hint(const struct engine_health *h, struct finding *f)
{
	switch (h->state) {
	case ENGINE_READY:
		break;
	case ENGINE_ABSENT:
		finding_hint(f, "sudo apt install docker.io, or podman; or use --backend native");
		break;
	case ENGINE_DENIED:
		finding_hint(f, "%s (who may use the docker group is root on this machine)",
			     h->hint);
		break;
	case ENGINE_DOWN:
		finding_hint(f, "sudo systemctl start docker");
		break;
	case ENGINE_LATE:
		finding_hint(f, "sudo systemctl restart docker");
		break;
	case ENGINE_MISNAMED:
		finding_hint(f, "%s", h->hint);
		break;
	}
}

void check_docker_daemon(struct machine *m, struct finding *f)
{
	const struct engine_health *h = machine_engine(m);

	if (h->state == ENGINE_READY) {
		finding_say(f, CHECK_PASS, "%s", h->detail);
		return;
	}
	finding_say(f, missing(m, backend_with(BACKEND_ENGINE)), "%s", h->detail);
	if (f->status == CHECK_FAIL)
		engine_hint(h, f);
}

static bool checks_backend_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

void check_runtimes(struct machine *m, struct finding *f)
{
	struct engine_health *h = machine_engine(m);
	const char *want = !m->spec           ? NULL
			   : m->spec->runtime ? m->spec->runtime
					      : m->spec->docker.runtime;

	if (engine_runtimes(h, HEALTH_MS) < 0) {
		finding_say(f, want ? missing(m, backend_with(BACKEND_ENGINE)) : CHECK_SKIP,
			    "not reached: %s", h->detail);
		if (f->status == CHECK_FAIL)
			engine_hint(h, f);
	} else if (want && !checks_backend_listed(h->runtimes, want)) {
		finding_say(f, CHECK_FAIL, "runtime '%s' is not registered with the engine (%s)",
			    want, h->runtimes);
		finding_hint(f,
			     "%s add it to \"runtimes\" in /etc/docker/daemon.json and restart "
			     "docker",
			     str_eq(want, "runsc") ? "sudo apt install runsc;" : "install it;");
	} else {
		finding_say(f, CHECK_PASS, "%s", h->runtimes);
	}
}

void check_ssh(struct machine *m, struct finding *f)
{
	const struct backend *b = backend_with(BACKEND_REMOTE);
	const char *host = m->spec ? m->spec->ssh.host : NULL;
	char detail[512];

	if (!host) {
		finding_say(f, missing(m, b), "no ssh.host is configured");
		if (f->status == CHECK_FAIL)
			finding_hint(f, "name it: --set ssh.host=HOST");
	} else if (backend_health(b, m->spec, 2 * HEALTH_MS, detail, sizeof(detail)) == 0) {
		finding_say(f, CHECK_PASS, "'%s' answers", host);
	} else {
		finding_say(f, machine_needs(m, b) ? CHECK_FAIL : CHECK_WARN, "'%s': %s", host,
			    detail);
		finding_hint(f, "try: ssh -o BatchMode=yes %s true", host);
	}
}

/* Controller, partition, nodes, and a brig there that can make a sandbox. */
void check_slurm(struct machine *m, struct finding *f)
{
	const struct backend *b = backend_with(BACKEND_DELEGATES);
	char detail[512];

	if (!machine_needs(m, b)) {
		finding_say(f, CHECK_SKIP, "no cluster is asked for");
	} else if (backend_health(b, m->spec, SLURM_MS, detail, sizeof(detail)) == 0) {
		finding_say(f, CHECK_PASS,
			    "the controller answers, and a free node has a brig that fits");
	} else {
		finding_say(f, CHECK_FAIL, "%s", detail);
		finding_hint(f,
			     "sinfo shows partitions and nodes; slurm.brig is brig's path there");
	}
}

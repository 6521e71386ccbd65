/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_dialect.c - rows of a role and of IronClaw, in the words their pages print. */
#include <stdio.h>

#include "doctor/machine.h"

void role_docker(struct machine *m, struct finding *f)
{
	check_docker_daemon(m, f);
	if (f->status == CHECK_FAIL) {
		char why[160];

		(void)snprintf(why, sizeof(why), "%s", machine_engine(m)->detail);
		finding_say(f, CHECK_FAIL, "Docker is not available: %s", why);
	}
}

static void say_docker_ready(struct machine *m, struct finding *f)
{
	const char *image = machine_image(m);
	int r = image ? machine_has_image(m) : 1;

	if (r == 0 && !m->spec->docker.auto_pull) {
		finding_say(f, CHECK_FAIL, "backend 'docker': Image '%s' not found", image);
		finding_hint(f, "brig image pull %s, or docker.auto_pull: true", image);
	} else if (image) {
		finding_say(f, CHECK_PASS, "backend 'docker' is ready, image '%s' %s", image,
			    r == 1 ? "is pulled" : "is fetched by the first run");
		warn_if_old(m, f);
	} else {
		finding_say(f, CHECK_PASS, "backend 'docker' is ready");
	}
}

void role_sandbox(struct machine *m, struct finding *f)
{
	const struct backend *b = machine_backend(m);
	bool docker = m->spec && m->spec->backend == backend_with(BACKEND_ENGINE)->kind;

	if (docker && machine_engine(m)->state == ENGINE_READY)
		say_docker_ready(m, f);
	else if (docker || !b)
		say_error(f, CHECK_FAIL, &m->refusal);
	else if (!machine_works(m))
		say_error(f, CHECK_FAIL, &m->trouble);
	else
		finding_say(f, CHECK_PASS, "backend '%s'%s: a trial run worked", b->name,
			    m->spec && m->spec->backend == BACKEND_AUTO ? " (auto)" : "");
	if (f->status == CHECK_FAIL && !f->detail[0])
		finding_say(f, CHECK_FAIL, "Docker is not available: %s",
			    machine_engine(m)->detail);
	if (f->status == CHECK_FAIL && !f->hint[0])
		engine_hint(machine_engine(m), f);
}

void ironclaw_docker(struct machine *m, struct finding *f)
{
	const struct engine_health *h = machine_engine(m);

	if (h->state == ENGINE_READY) {
		finding_say(f, CHECK_PASS, "Docker is available");
		return;
	}
	finding_say(f, machine_needs(m, backend_with(BACKEND_ENGINE)) ? CHECK_FAIL : CHECK_SKIP,
		    "Docker is not available: %s", h->detail);
	if (f->status == CHECK_FAIL)
		engine_hint(h, f);
}

void ironclaw_image(struct machine *m, struct finding *f)
{
	const char *image = machine_image(m);
	int r = image ? machine_has_image(m) : -1;

	if (r == 1) {
		finding_say(f, CHECK_PASS, "Docker image '%s' found", image);
		warn_if_old(m, f);
	} else if (r == 0) {
		finding_say(f, m->spec->docker.auto_pull ? CHECK_WARN : CHECK_FAIL,
			    "Image '%s' not found", image);
		finding_hint(f,
			     "brig image build %s, or docker build -t %s -f Dockerfile.worker .%s",
			     image, image,
			     m->spec->docker.auto_pull ? "" : ", or SANDBOX_AUTO_PULL=true");
	} else {
		finding_say(f, CHECK_SKIP, "not reached: %s", machine_engine(m)->detail);
	}
}

void ironclaw_enabled(struct machine *m, struct finding *f)
{
	bool off = m->spec && spec_on_host(m->spec);

	if (off) {
		finding_say(f, CHECK_WARN, "Sandbox is disabled: commands run on the host");
		finding_hint(f, "set SANDBOX_ENABLED=true and another SANDBOX_POLICY");
	} else {
		finding_say(f, CHECK_PASS, "Sandbox is enabled");
	}
}

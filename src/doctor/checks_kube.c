/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_kube.c - a cluster, where the configuration names one: as kube/kube_health.h finds
 * it, asked once for all rows. */
#include "doctor/machine.h"

static void checks_kube_row(struct machine *m, enum kube_row_id id, struct finding *f)
{
	static const enum check_status states[] = { [KUBE_PASS] = CHECK_PASS,
						    [KUBE_WARN] = CHECK_WARN,
						    [KUBE_FAIL] = CHECK_FAIL,
						    [KUBE_SKIP] = CHECK_SKIP };
	const struct kube_row *r = &m->kube[id];

	if (!m->kube_asked) {
		const struct kube_spec *k = &m->spec->kube;
		const struct kube_health_want w = { .where = { .kubeconfig = k->config,
							       .context = k->context,
							       .namespace = k->name_space },
						    .runtime_class = k->runtime_class };

		kube_examine(&w, m->kube);
		m->kube_asked = true;
	}
	finding_say(f, states[r->state], "%s", r->detail);
	if (r->hint[0])
		finding_hint(f, "%s", r->hint);
}

void check_kube_server(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_SERVER, f);
}

void check_kube_rights(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_RIGHTS, f);
}

void check_kube_admission(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_ADMISSION, f);
}

void check_kube_policies(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_POLICIES, f);
}

void check_kube_runtime(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_RUNTIME, f);
}

void check_kube_sandboxes(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_SANDBOXES, f);
}

void check_kube_clock(struct machine *m, struct finding *f)
{
	checks_kube_row(m, KUBE_ROW_CLOCK, f);
}

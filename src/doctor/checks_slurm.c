/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_slurm.c - a Slurm cluster, where the configuration asks for one: as the backend
 * finds it, asked once for all rows. */
#include "doctor/machine.h"

static void checks_slurm_row(struct machine *m, enum slurm_row_id id, struct finding *f)
{
	static const enum check_status states[] = { [SLURM_ROW_PASS] = CHECK_PASS,
						    [SLURM_ROW_WARN] = CHECK_WARN,
						    [SLURM_ROW_FAIL] = CHECK_FAIL,
						    [SLURM_ROW_SKIP] = CHECK_SKIP };
	const struct slurm_row *r = &m->slurm[id];

	if (!m->slurm_asked)
		slurm_examine(m->spec, m->slurm);
	m->slurm_asked = true;
	finding_say(f, states[r->state], "%s", r->detail);
	if (r->hint[0])
		finding_hint(f, "%s", r->hint);
}

void check_slurm_programs(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_PROGRAMS, f);
}

void check_slurm_controller(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_CONTROLLER, f);
}

void check_slurm_partition(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_PARTITION, f);
}

void check_slurm_nodes(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_NODES, f);
}

void check_slurm_brig(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_BRIG, f);
}

void check_slurm_limits(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_LIMITS, f);
}

void check_slurm_gpus(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_GPUS, f);
}

void check_slurm_accounting(struct machine *m, struct finding *f)
{
	checks_slurm_row(m, SLURM_ROW_ACCOUNTING, f);
}

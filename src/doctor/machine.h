/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/machine.h - what the checks learn from one another; inside src/doctor only. */
#pragma once

#include "backend/engine_health.h"
#include "backend/kit/process/job.h"
#include "doctor/doctor.h"
#include "kube/kube_health.h"
#include "sandbox/health.h"

/* Each part is found out once, when first asked for. */
struct machine {
	const struct spec *spec; /* of the configuration looked at; borrowed */
	bool chosen;
	int choice_result; /* 0, or -errno and why in `refusal` */
	struct backend_choice choice;
	struct err refusal;
	bool probed, works;
	struct isolation isolation; /* of the trial run, when it worked */
	struct err trouble;         /* of the trial run, when not */
	bool tried;
	int userns; /* 0, or -errno of a trial user namespace */
	bool asked;
	struct engine_health engine;
	bool image_asked;
	int image_there; /* 1, 0 or -errno */
	int64_t image_age;
	bool kube_asked;
	struct kube_row kube[KUBE_ROWS];
	bool slurm_asked;
	struct slurm_row slurm[SLURM_ROWS];
};

/* The backend a run would take; NULL: a run would be refused, `refusal` says why. */
const struct backend *machine_backend(struct machine *m);
bool machine_needs(struct machine *m, const struct backend *b);
bool machine_works(struct machine *m); /* a trial run on that backend */
int machine_userns(struct machine *m); /* 0 or -errno of a trial user namespace */
int machine_procfs(void);              /* ... of a fresh /proc in one */
struct engine_health *machine_engine(struct machine *m);

const char *machine_image(const struct machine *m); /* NULL: none is configured */
int machine_has_image(struct machine *m);           /* 1, 0 or -errno: the engine was not reached */
void warn_if_old(struct machine *m, struct finding *f); /* adds to what is said of the image */
void engine_hint(const struct engine_health *h, struct finding *f); /* what mends it */

/* The configuration as a run here would have it; NULL: it would not be taken. The caller frees it.
 */
struct spec *machine_checked(const struct spec *s);
/* Would the configuration be taken where this process stands, and by this backend (NULL: none is
 * known) as far as its plan can tell? */
int machine_spec_fits(const struct machine *m, const struct backend *b, struct err *e);

/* The backend knows the causes that are written somewhere; this adds the ones that are not. */
void machine_explain(struct err *e);
bool under_filter(void);             /* is there a filter that somebody else put around us? */
long long setting(const char *path); /* the number in a file of /proc/sys, -1 where there is none */

void say_error(struct finding *f, enum check_status status, const struct err *e);

typedef void check_fn(struct machine *m, struct finding *f);
check_fn check_sandbox, check_user_namespaces, check_procfs, check_seccomp, check_landlock,
	check_cgroups, check_mount_api, check_kernel; /* checks_kernel.c */
check_fn check_identity, check_idmap, check_state, check_installation,
	check_tun; /* checks_host.c */
check_fn check_bwrap, check_docker_cli, check_docker_daemon, check_docker_image, check_runtimes,
	check_ssh, check_slurm; /* checks_backend.c, checks_image.c */
check_fn check_egress_worker;   /* checks_egress.c */
check_fn check_upstream_proxy;  /* checks_upstream.c */
check_fn check_kube_server, check_kube_rights, check_kube_admission, check_kube_policies,
	check_kube_runtime, check_kube_sandboxes, check_kube_clock; /* checks_kube.c */
check_fn check_slurm_programs, check_slurm_controller, check_slurm_partition, check_slurm_nodes,
	check_slurm_brig, check_slurm_limits, check_slurm_gpus,
	check_slurm_accounting; /* checks_slurm.c */
check_fn check_configured, check_env_allowlist, check_network_policy, check_extra_args,
	check_mount_policy, check_temp; /* checks_config.c */
check_fn role_docker, role_sandbox, ironclaw_docker, ironclaw_image,
	ironclaw_enabled; /* checks_dialect.c: the same facts in a dialect's own words */

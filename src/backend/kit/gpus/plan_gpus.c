/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/gpus/plan_gpus.c - which GPUs of the machine a command is shown.
 *
 * A node is a GPU's if it is a character device of the number that its driver has by /proc/devices,
 * and of the minor that its name says; no link leads to it. Whatever else has such a name is not
 * there. Of NVIDIA's and others' at once a count means NVIDIA's, because a render node would be a
 * second way to one that was not counted. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "backend/kit/gpus/gpu_driver.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"

#define DEVICES "/proc/devices"
#define DEVICES_MAX 65536

/* What is here, and which of it may be shown. */
struct gpus_here {
	struct gpu_set found;
	unsigned majors[GPU_DRIVERS];
	int job;                 /* 1: of Slurm's, which has these: */
	uint64_t nvidia, render; /* ... numbers; meaningless otherwise */
	uint64_t parts;          /* those of NVIDIA's of which MIG devices alone were asked for */
};

struct showing {
	struct box_plan *p;
	const struct gpus_here *h;
};

static bool plan_gpus_is_there(const struct gpus_here *h, const struct gpu_node *n, struct stat *st)
{
	CLEANUP(fd) int fd = -1;

	if (!h->majors[n->driver])
		return false;
	fd = fd_open_nolinks(AT_FDCWD, n->path, O_PATH, 0);
	return fd >= 0 && fstat(fd, st) == 0 && S_ISCHR(st->st_mode) &&
	       st->st_rdev == makedev(h->majors[n->driver], n->minor);
}

static const char *own_variable(const char *name)
{
	return getenv(name);
}

static int plan_gpus_look(struct box_plan *p, struct gpus_here *h, struct err *e)
{
	char *text = arena_alloc(p->arena, DEVICES_MAX);
	struct gpu_node n;
	struct stat st;
	ssize_t got;

	if (!text)
		return err_nomem(e);
	got = fd_read_file(AT_FDCWD, DEVICES, text, DEVICES_MAX);
	if (got < 0)
		return err_errno(e, (int)got, "cannot read '" DEVICES "'");
	gpu_majors(text, h->majors);
	for (size_t i = 0; gpu_node(i, &n); i++)
		if (plan_gpus_is_there(h, &n, &st))
			gpu_set_add(&h->found, &n);
	h->job = gpu_allocation(own_variable, &h->nvidia, &h->render);
	if (h->job < 0)
		return err_refuse(
			e, ERR_UNAVAILABLE, EINVAL,
			"SLURM_STEP_GPUS, SLURM_JOB_GPUS: numbers, with commas",
			"gpus: what Slurm says about the GPUs of this job cannot be read");
	return 0;
}

/* A cluster may count render nodes from 0 or from 128 on. */
static void narrow_to_job(struct gpus_here *h)
{
	if (!h->render && !h->found.nvidia) {
		h->render = h->nvidia;
		h->nvidia = 0;
	}
}

/* The job has one that is not here: to show the others would be less than was given. */
static int check_job(const struct gpus_here *h, struct err *e)
{
	struct gpu_set missing = { .nvidia = h->nvidia & ~h->found.nvidia,
				   .render = h->render & ~h->found.render };
	char text[256];

	if (!h->nvidia && !h->render)
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
				  "ask Slurm for some: srun --gres=gpu:N",
				  "gpus: this job of Slurm has no GPU");
	if (gpu_set_empty(&missing))
		return 0;
	gpu_set_text(&missing, ' ', text, sizeof(text));
	return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
			  "gres.conf of the node names its device files: File=/dev/nvidia[0-1]",
			  "gpus: the job has a GPU whose device is not here: %s", text);
}

static int too_few(const struct box_plan *p, const struct gpus_here *h, size_t there, struct err *e)
{
	if (!there)
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
				  "is its driver loaded? ls -l /dev/nvidia* /dev/dri; "
				  "nvidia-modprobe -c 0 -u makes NVIDIA's nodes",
				  "gpus: there is no GPU here");
	(void)err_set(e, ERR_UNAVAILABLE, ENODEV, "gpus: %llu of them were asked for, %s %zu",
		      (unsigned long long)p->spec->gpus,
		      h->job ? "this job of Slurm has" : "here are", there);
	return err_hint(e, "ask for at most %zu, or for all", there);
}

static int choose_count(struct box_plan *p, const struct gpus_here *h, struct err *e)
{
	uint64_t count = p->spec->gpus;
	struct gpu_set *s = &p->gpus;

	if (count != FIELD_ALL) {
		size_t there;

		if (s->nvidia)
			s->render = 0;
		there = gpu_set_count(s);
		s->nvidia = gpu_lowest(s->nvidia, count);
		s->render = gpu_lowest(s->render, count);
		if (there < count)
			return too_few(p, h, there, e);
	}
	return gpu_set_count(s) ? 0 : too_few(p, h, 0, e);
}

/* What was asked for whole and in parts is whole. */
static int choose_named(struct box_plan *p, struct gpus_here *h, struct err *e)
{
	const struct gpu_set may = p->gpus;
	const uint64_t *from = may.nvidia ? &may.nvidia : &may.render;
	uint64_t chosen = 0, whole = 0;

	for (size_t i = 0; i < p->spec->gpu.n; i++) {
		struct gpu_name name;
		uint64_t bit;

		if (gpu_find(p->spec->gpu.v[i], &name, e) < 0)
			return -e->code;
		bit = name.number < GPUS_MAX ? (uint64_t)1 << name.number & *from : 0;
		if (!bit)
			return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
					  "nvidia-smi -L lists them, as does ls /dev/nvidia* "
					  "/dev/dri (the first renderD is 0)",
					  "gpu '%.60s' is not %s", p->spec->gpu.v[i],
					  h->job ? "of this job of Slurm" : "here");
		chosen |= bit;
		whole |= name.mig ? 0 : bit;
	}
	h->parts = chosen & ~whole;
	p->gpus = may.nvidia ? (struct gpu_set){ .nvidia = chosen }
			     : (struct gpu_set){ .render = chosen };
	return 0;
}

static int plan_gpus_choose(struct box_plan *p, struct gpus_here *h, struct err *e)
{
	struct gpu_set *s = &p->gpus;

	if (h->job) {
		narrow_to_job(h);
		if (check_job(h, e) < 0)
			return -e->code;
	}
	s->nvidia = h->job ? h->nvidia : h->found.nvidia;
	s->render = h->job ? h->render : h->found.render;
	if ((p->spec->gpu.n ? choose_named(p, h, e) : choose_count(p, h, e)) < 0)
		return -e->code;
	s->shared = h->found.shared &
		    ((s->nvidia ? ~(1U << GPU_KFD) : 0) | (s->render ? 1U << GPU_KFD : 0));
	if (s->nvidia && !(s->shared & 1U << GPU_NVIDIACTL))
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
				  "nvidia-modprobe -c 0 -u makes the nodes of NVIDIA's driver",
				  "gpus: '/dev/nvidiactl' is not the node of NVIDIA's driver");
	return 0;
}

/* As the user inside, who has the caller's groups unless root is the caller. */
static bool may_open(const struct box_plan *p, const struct gpu_node *n, const struct stat *st)
{
	const bool reads = n->driver == GPU_DRIVER_CAPS; /* that is all that is done with these */
	const mode_t both = S_IROTH | (reads ? 0 : S_IWOTH);

	if (!p->by_root)
		return faccessat(AT_FDCWD, n->path, R_OK | (reads ? 0 : W_OK), AT_EACCESS) == 0;
	return (st->st_mode & both) == both ||
	       (!p->needs_range && p->uids[0].outside == st->st_uid &&
		(st->st_mode & both << 6) == both << 6) ||
	       (!p->needs_range && p->gids[0].outside == st->st_gid &&
		(st->st_mode & both << 3) == both << 3);
}

static bool plan_gpus_is_shown(const struct box_plan *p, dev_t number)
{
	for (size_t i = 0; i < p->gpu_device_count; i++)
		if (p->gpu_devices[i] == number)
			return true;
	return false;
}

static int plan_gpus_show(struct box_plan *p, const struct gpus_here *h, const struct gpu_node *n,
			  struct err *e)
{
	struct stat st;
	dev_t *number;
	struct op *o;

	if (!plan_gpus_is_there(h, n, &st))
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
				  "nvidia-modprobe makes NVIDIA's nodes; try again",
				  "gpus: '%s' is not a node of its driver", n->path);
	if (!may_open(p, n, &st))
		return err_refuse(e, ERR_PERMISSION, EACCES,
				  p->by_root ? "chmod 666 it, or start brig as a user of its group"
					     : "become a member of its group: ls -l says which",
				  "gpus: the user inside may not open '%s'", n->path);
	if (plan_gpus_is_shown(p, st.st_rdev)) /* of two instances in one */
		return 0;
	if (plan_parents(p, n->path, e) < 0)
		return -e->code;
	number = ARENA_PUSH(p->arena, p->gpu_devices, p->gpu_device_count);
	if (!number)
		return err_nomem(e);
	*number = st.st_rdev;
	o = plan_op(p, OP_DEVICE, n->path, e);
	if (!o)
		return -e->code;
	o->src = o->dst;
	o->rdev = st.st_rdev;
	if (n->driver == GPU_DRIVER_KFD)
		return plan_gpu_topology(p, e);
	return n->driver == GPU_DRIVER_DRM ? plan_gpu_render(p, st.st_rdev, e) : 0;
}

static int plan_gpus_say(struct box_plan *p, struct err *e)
{
	char text[512];
	const char *note;

	gpu_set_text(&p->gpus, ' ', text, sizeof(text));
	note = arena_printf(p->arena,
			    "gpus: %s: the command reaches the drivers of these devices, which are "
			    "a part of the kernel",
			    text);
	if (!note)
		return err_nomem(e);
	plan_note(p, note);
	return 0;
}

static int show_instance(void *arg, const struct gpu_node *n, struct err *e)
{
	const struct showing *s = arg;

	return plan_gpus_show(s->p, s->h, n, e);
}

/* MIG devices: the nodes that are the rights to them, of all or of those that were asked for. */
static int show_instances(struct box_plan *p, const struct gpus_here *h, struct err *e)
{
	struct showing s = { .p = p, .h = h };

	for (unsigned i = 0; i < GPUS_MAX; i++)
		if ((p->gpus.nvidia & ~h->parts) >> i & 1 &&
		    gpu_each_instance(i, show_instance, &s, e) < 0)
			return -e->code;
	for (size_t i = 0; i < p->spec->gpu.n; i++) {
		struct gpu_name name;

		if (gpu_find(p->spec->gpu.v[i], &name, e) < 0 ||
		    (name.mig && h->parts >> name.number & 1 &&
		     gpu_instance(&name, show_instance, &s, e) < 0))
			return -e->code;
	}
	return 0;
}

int plan_gpus(struct box_plan *p, struct err *e)
{
	struct gpus_here h = { 0 };
	struct gpu_node n;

	if (!p->spec->gpus && !p->spec->gpu.n)
		return 0;
	if (plan_gpus_look(p, &h, e) < 0 || plan_gpus_choose(p, &h, e) < 0)
		return -e->code;
	for (size_t i = 0; gpu_node(i, &n); i++)
		if (gpu_set_has(&p->gpus, &n) && plan_gpus_show(p, &h, &n, e) < 0)
			return -e->code;
	if (show_instances(p, &h, e) < 0 || plan_gpu_nvidia(p, e) < 0)
		return -e->code;
	return plan_gpus_say(p, e);
}

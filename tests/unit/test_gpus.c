/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_gpus.c - how many GPUs are asked for, which nodes are theirs, and what Slurm says of
 * them. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "backend/slurm/slurm.h"
#include "base/text/str.h"
#include "model/files/trust.h"
#include "model/known/gpus.h"
#include "model/settings/spec.h"

/* ---- the setting ---- */

static struct spec *asking(const char *text, enum origin by)
{
	struct err e = { 0 };
	struct spec *s = spec_new(&e);

	assert_non_null(s);
	if (text && spec_set(s, FIELD_GPUS, text, by, &e) < 0)
		fail_msg("%s: %s", text, e.what);
	return s;
}

static void a_count_all_or_none_can_be_asked_for(void **state UNUSED)
{
	static const struct {
		const char *text;
		uint64_t gpus;
		bool asks;
	} tries[] = { { "all", FIELD_ALL, true }, { "1", 1, true }, { "64", 64, true },
		      { "none", 0, false },       { "", 0, false }, { NULL, 0, false } };
	static const char *const wrong[] = { "0",   "65",   "-1",       "+1", "1.5",
					     "All", "all ", "device=0", "two" };

	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		CLEANUP(spec) struct spec *s = asking(tries[i].text, ORIGIN_FLAG);

		assert_true(s->gpus == tries[i].gpus);
		assert_int_equal(spec_asks(s, FIELD_GPUS), tries[i].asks);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CLEANUP(spec) struct spec *s = asking(NULL, ORIGIN_FLAG);
		struct err e = { 0 };

		assert_true(spec_set(s, FIELD_GPUS, wrong[i], ORIGIN_FLAG, &e) < 0);
		assert_true(e.what[0] && e.hint[0] && !s->gpus);
	}
}

static int count_loosened(void *arg, enum field_id id, const struct envvar *entry UNUSED)
{
	*(size_t *)arg += id == FIELD_GPUS;
	return 0;
}

static void who_may_only_tighten_gets_no_more_than_there_is(void **state UNUSED)
{
	static const struct {
		const char *holds, *asked;
		bool loosens;
	} tries[] = { { NULL, "1", true },   { NULL, "all", true },  { NULL, "none", false },
		      { "2", "3", true },    { "2", "all", true },   { "2", "2", false },
		      { "2", "1", false },   { "2", "none", false }, { "all", "all", false },
		      { "all", "64", false } };

	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		CLEANUP(spec) struct spec *before = asking(tries[i].holds, ORIGIN_USER);
		CLEANUP(spec) struct spec *after = asking(tries[i].asked, ORIGIN_API);
		size_t n = 0;

		assert_int_equal(tighten_each(before, after, ORIGIN_API, count_loosened, &n), 0);
		assert_int_equal(n > 0, tries[i].loosens);
	}
}

/* ---- nodes ---- */

static void a_node_has_the_number_that_its_name_says(void **state UNUSED)
{
	static const struct {
		const char *path;
		enum gpu_driver driver;
		unsigned minor;
	} some[] = { { "/dev/nvidia0", GPU_DRIVER_NVIDIA, 0 },
		     { "/dev/nvidia63", GPU_DRIVER_NVIDIA, 63 },
		     { "/dev/nvidiactl", GPU_DRIVER_NVIDIA, 255 },
		     { "/dev/nvidia-uvm", GPU_DRIVER_UVM, 0 },
		     { "/dev/dri/renderD129", GPU_DRIVER_DRM, 129 },
		     { "/dev/kfd", GPU_DRIVER_KFD, 0 } };
	struct gpu_set s = { 0 }, other = { 0 };
	struct gpu_node n;
	char text[256];

	for (size_t k = 0; k < ARRAY_LEN(some); k++) {
		size_t i = 0;

		while (gpu_node(i, &n) && !str_eq(n.path, some[k].path))
			i++;
		assert_true(gpu_node(i, &n));
		assert_int_equal(n.driver, some[k].driver);
		assert_int_equal(n.minor, some[k].minor);
		assert_true(gpu_set_name(&s, some[k].path) && gpu_set_has(&s, &n));
	}
	assert_int_equal(gpu_set_count(&s), 3);
	gpu_set_text(&s, ',', text, sizeof(text));
	assert_string_equal(text, "/dev/nvidia0,/dev/nvidia63,/dev/dri/renderD129,/dev/nvidiactl,"
				  "/dev/nvidia-uvm,/dev/kfd");
	gpu_set_text(&s, ',', text, 20);
	assert_string_equal(text, "/dev/nvidia0");
	assert_false(gpu_set_name(&other, "/dev/nvidia64"));
	assert_false(gpu_set_name(&other, "/dev/nvidia00"));
	assert_false(gpu_set_name(&other, "/dev/dri/card0"));
	assert_false(gpu_set_name(&other, "/dev/mem"));
	assert_true(gpu_set_empty(&other));
	assert_true(gpu_lowest(0xf2, 2) == 0x12 && gpu_lowest(3, 9) == 3 && !gpu_lowest(3, 0));
}

static void drivers_are_read_from_what_the_kernel_lists(void **state UNUSED)
{
	unsigned m[GPU_DRIVERS];

	gpu_majors("Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n226 drm\n"
		   "507 nvidia-uvm\n510 kfd\n\nBlock devices:\n  7 loop\n",
		   m);
	assert_true(m[GPU_DRIVER_NVIDIA] == 195 && m[GPU_DRIVER_UVM] == 507);
	assert_true(m[GPU_DRIVER_DRM] == 226 && m[GPU_DRIVER_KFD] == 510);
	gpu_majors("Character devices:\n195 nvidia-frontend\n", m);
	assert_true(m[GPU_DRIVER_NVIDIA] == 195 && !m[GPU_DRIVER_UVM]);
	/* Of another kind, with another name, or no number. */
	gpu_majors("Block devices:\n195 nvidia\n", m);
	assert_false(m[GPU_DRIVER_NVIDIA]);
	gpu_majors("Character devices:\n195 nvidia2\n226 drm2\n-1 drm\n99999 drm\nx kfd\n drm\n"
		   "510 kfd more\n",
		   m);
	assert_false(m[GPU_DRIVER_NVIDIA] || m[GPU_DRIVER_DRM] || m[GPU_DRIVER_KFD]);
	gpu_majors("195 nvidia\n", m);
	assert_false(m[GPU_DRIVER_NVIDIA]);
}

/* ---- Slurm ---- */

static const char *job_id, *step_gpus, *job_gpus;

static const char *told(const char *name)
{
	return str_eq(name, "SLURM_JOB_ID")      ? job_id
	       : str_eq(name, "SLURM_STEP_GPUS") ? step_gpus
	       : str_eq(name, "SLURM_JOB_GPUS")  ? job_gpus
						 : NULL;
}

static void a_job_has_the_gpus_that_slurm_says(void **state UNUSED)
{
	static const char *const wrong[] = { "a",          "0,",  ",0",  "1-",  "3-1",
					     "64",         "192", "-1",  "0;1", "GPU-12",
					     "0-99999999", " 0",  "0,,1" };
	uint64_t v, r;

	job_id = NULL;
	step_gpus = job_gpus = "0";
	assert_int_equal(gpu_allocation(told, &v, &r), 0); /* no job: nobody's to say */
	job_id = "7";
	step_gpus = "1,3";
	assert_int_equal(gpu_allocation(told, &v, &r), 1);
	assert_true(v == 10 && !r);
	step_gpus = "";
	job_gpus = "0-2,5";
	assert_int_equal(gpu_allocation(told, &v, &r), 1);
	assert_true(v == 0x27 && !r);
	job_gpus = "128,130";
	assert_int_equal(gpu_allocation(told, &v, &r), 1);
	assert_true(!v && r == 5);
	job_gpus = NULL;
	assert_int_equal(gpu_allocation(told, &v, &r), 1);
	assert_true(!v && !r);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		job_gpus = wrong[i];
		assert_int_equal(gpu_allocation(told, &v, &r), -EINVAL);
		assert_true(!v && !r);
	}
}

static uint64_t gres(const char *text)
{
	return slurm_text_gpus(text, strlen(text));
}

static void a_column_of_sinfo_says_how_many_a_node_has(void **state UNUSED)
{
	assert_true(gres("gpu:2") == 2 && gres("gpu:a100:4(S:0-1)") == 4);
	assert_true(gres("mps:100,gpu:1,gpu:v100:2(S:0,1)") == 3);
	assert_true(!gres("(null)") && !gres("") && !gres("gpu") && !gres("gpu:") &&
		    !gres("gpu:x"));
	assert_true(!gres("gpus:4") && !gres("notgpu:4") && !gres("craynetwork:4(gpu:9,gpu:8)"));
	assert_true(!gres("gpu:99999999999999999999999") && !gres("gpu:-1") && !gres("gpu:4000"));
	assert_true(slurm_text_gpus("gpu:12", 5) == 1); /* not beyond its end */
}

static struct backend_plan *planned(const char *gpus, const struct slurm_facts *f)
{
	static const char *const argv[] = { "true", NULL };
	CLEANUP(spec) struct spec *s = asking(gpus, ORIGIN_FLAG);
	struct backend_plan *p = NULL;
	struct err e = { 0 };

	s->command.argv = argv;
	if (slurm_check(s, &e) < 0 || slurm_plan(s, &p, NULL, &e) < 0)
		fail_msg("%s", e.what);
	slurm_narrow(p, f);
	return p;
}

static bool wants(const struct backend_plan *p, const char *word)
{
	const char *v[8];
	size_t n = slurm_wants(p, v);
	bool found = false;

	for (size_t i = 0; i < n; i++)
		found |= str_eq(v[i], word);
	return found;
}

static void slurm_is_asked_for_no_more_than_a_node_has(void **state UNUSED)
{
	const struct slurm_facts two = { .most_gpus = 2 };
	CLEANUP(slurm_plan) struct backend_plan *one = planned("1", &two);
	CLEANUP(slurm_plan) struct backend_plan *four = planned("4", &two);
	CLEANUP(slurm_plan) struct backend_plan *none = planned("none", &two);
	CLEANUP(spec) struct spec *all = asking("all", ORIGIN_FLAG);
	struct err e = { 0 };

	assert_true(wants(one, "--gres=gpu:1") && !one->most_gpus);
	assert_true(one->slurm.holds & 1U << LIMIT_GPUS);
	assert_true(wants(four, "--gres=gpu:2") && four->most_gpus == 2);
	assert_false(none->want.gpus || none->slurm.holds & 1U << LIMIT_GPUS);
	assert_true(slurm_check(all, &e) < 0 && strstr(e.what, "gpus 'all'") && e.hint[0]);
}

static void a_pod_has_a_number_of_a_resource(void **state UNUSED)
{
	static const struct {
		const char *gpus, *resource, *error;
	} tries[] = { { "2", "nvidia.com/gpu", NULL },
		      { "2", "nvidia.com/mig-1g.5gb", NULL },
		      { "all", "nvidia.com/gpu", "gpus 'all'" },
		      { "1", "gpu", "gpu_resource" },
		      { "1", "requests.kubernetes.io/gpu", "gpu_resource" },
		      { "1", "nvidia.com/", "gpu_resource" },
		      { "1", "nvidia.com/a b", "gpu_resource" },
		      { "1", "-x/gpu", "gpu_resource" } };
	static const char *const argv[] = { "true", NULL };
	const struct backend *b = backend_by_kind(BACKEND_KUBERNETES);

	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		CLEANUP(spec) struct spec *s = asking(tries[i].gpus, ORIGIN_FLAG);
		struct backend_plan *p = NULL;
		struct err e = { 0 };
		int r;

		s->command.argv = argv;
		s->private_workspace = true;
		assert_int_equal(spec_set_key(s, "image", "x:1", ORIGIN_FLAG, &e), 0);
		assert_int_equal(spec_set_key(s, "kubernetes.helper_image", "y:1", ORIGIN_FLAG, &e),
				 0);
		assert_int_equal(spec_set_key(s, "kubernetes.gpu_resource", tries[i].resource,
					      ORIGIN_FLAG, &e),
				 0);
		r = b->plan(s, &p, NULL, &e);
		if (!tries[i].error && r < 0)
			fail_msg("%s", e.what);
		assert_true(!tries[i].error ||
			    (r < 0 && strstr(e.what, tries[i].error) && e.hint[0]));
		if (r == 0)
			(void)b->plan_free(p);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_count_all_or_none_can_be_asked_for),
	cmocka_unit_test(who_may_only_tighten_gets_no_more_than_there_is),
	cmocka_unit_test(a_node_has_the_number_that_its_name_says),
	cmocka_unit_test(drivers_are_read_from_what_the_kernel_lists),
	cmocka_unit_test(a_job_has_the_gpus_that_slurm_says),
	cmocka_unit_test(a_column_of_sinfo_says_how_many_a_node_has),
	cmocka_unit_test(slurm_is_asked_for_no_more_than_a_node_has),
	cmocka_unit_test(a_pod_has_a_number_of_a_resource),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

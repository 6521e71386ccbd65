/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_extra_args.c - which flags of docker run are taken, in every form they can be written.
 *
 * "hole" names an entry of the list of known holes of the systems whose files are read here. */
#include "unit.h"

#include "base/text/cleanup.h"
#include "model/dialect/extra_args.h"

#define WORDS_MAX 8

/* Checks up to WORDS_MAX words, NULL-terminated. */
static int check(const char *const *words, enum extra_args_style style, struct extra_arg *out,
		 size_t *n, struct err *e)
{
	const char *v[WORDS_MAX];
	struct strlist l = { .v = v };

	while (l.n < WORDS_MAX && words[l.n]) {
		v[l.n] = words[l.n];
		l.n++;
	}
	err_clear(e);
	return extra_args_check(&l, style, out, n, e);
}

static const enum extra_args_style styles[] = { EXTRA_ARGS_BRIG, EXTRA_ARGS_INITRUNNER,
						EXTRA_ARGS_RLM };

/* Refused in every style, as a policy error that has the token as it was written. */
static void must_refuse(const char *const *words, const char *token)
{
	char quoted[256];
	struct err e;

	(void)snprintf(quoted, sizeof(quoted), "'%s'", token);
	for (size_t i = 0; i < ARRAY_LEN(styles); i++) {
		print_message("%s %s\n", words[0], words[0] && words[1] ? words[1] : "");
		assert_int_equal(check(words, styles[i], NULL, NULL, &e), -EPERM);
		assert_int_equal(e.kind, ERR_POLICY);
		assert_non_null(strstr(e.what, quoted));
	}
}

static void every_flag_the_seeds_name_as_blocked_is_refused_by_name(void **state UNUSED)
{
	static const char *const all[] = {
		"--privileged",
		"--privileged=true",
		"--cap-add",
		"--cap-add=ALL",
		"--cap-add=NET_RAW",
		"--security-opt",
		"--security-opt=seccomp=unconfined",
		"--pid=host",
		"--userns=host",
		"--network=host",
		"--net=host",
		"--ipc=host",
		"--uts=host",
		"--volume",
		"--volume=/:/x",
		"-v",
		"-v/:/x",
		"-v=/:/x",
		"--mount",
		"--mount=type=bind,src=/,dst=/x",
		"--runtime",
		"--runtime=runc",
		"--device",
		"--device=/dev/kmsg",
		"--volume-driver=x",
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must_refuse((const char *const[]){ all[i], NULL }, all[i]);
}

static void hole_1_1_a_blocked_flag_in_two_tokens_is_refused(void **state UNUSED)
{
	static const char *const all[][2] = {
		{ "--pid", "host" },      { "--userns", "host" },
		{ "--network", "host" },  { "--net", "host" },
		{ "--ipc", "host" },      { "--uts", "host" },
		{ "--cap-add", "ALL" },   { "-v", "/:/x" },
		{ "--volume", "/:/x" },   { "--mount", "type=bind" },
		{ "--device", "/dev" },   { "--volumes-from", "x" },
		{ "--cgroupns", "host" }, { "--security-opt", "apparmor=unconfined" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must_refuse((const char *const[]){ all[i][0], all[i][1], NULL }, all[i][0]);
}

static void other_flags_that_open_the_sandbox_are_refused(void **state UNUSED)
{
	static const char *const all[] = {
		"--cgroupns=host",
		"--cgroup-parent=/x",
		"--device-cgroup-rule=a *:* rwm",
		"--group-add=0",
		"--user=0",
		"-u0",
		"-e",
		"-eX=1",
		"--env=X=1",
		"--env-file=/x",
		"--entrypoint=sh",
		"--add-host=x:1",
		"--dns=1.1.1.1",
		"--expose=1",
		"-p1:1",
		"-P",
		"--publish-all",
		"--link=x",
		"--sysctl=kernel.x=1",
		"--name=x",
		"--workdir=/",
		"-w/",
		"--memory=1g",
		"-m1g",
		"--memory=-1",
		"--kernel-memory=1g",
		"--cpu-rt-runtime=1",
		"--oom-kill-disable",
		"--oom-kill-disable=true",
		"--oom-kill-disable=false",
		"--restart=always",
		"-d",
		"--detach",
		"-it",
		"-i",
		"-t",
		"--rm",
		"--init=false",
		"--log-driver=x",
		"--storage-opt=x",
		"--isolation=x",
		"--platform=x",
		"--help",
		"--disable-content-trust",
		"--pull=always",
		"--cidfile=/x",
		"--use-api-socket",
		"--health-cmd=x",
		"--no-healthcheck",
		"--ip=1.1.1.1",
		"--mac-address=x",
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must_refuse((const char *const[]){ all[i], NULL }, all[i]);
}

static void abbreviations_and_other_spellings_are_refused(void **state UNUSED)
{
	static const char *const all[] = {
		"--priv",
		"--pids-lim=5",
		"--lab=x",
		"--Pids-Limit=5",
		"--PIDS-LIMIT=5",
		"-pids-limit=5",
		"---pids-limit=5",
		"--pids_limit=5",
		"--pids-limit =5",
		"--read",
		" --privileged",
		"--",
		"-",
		"--=x",
		"-=x",
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must_refuse((const char *const[]){ all[i], NULL }, all[i]);
}

static void hole_1_10_6_a_bare_word_cannot_become_the_image(void **state UNUSED)
{
	must_refuse((const char *const[]){ "other/image", NULL }, "other/image");
	must_refuse((const char *const[]){ "--pids-limit=5", "other/image", NULL }, "other/image");
	must_refuse((const char *const[]){ "--pids-limit", "5", "other/image", NULL },
		    "other/image");
	must_refuse((const char *const[]){ "--read-only", "false", NULL }, "false");
	must_refuse((const char *const[]){ "--read-only", "other/image", NULL }, "other/image");
	must_refuse((const char *const[]){ "", NULL }, "");
	must_refuse((const char *const[]){ "--label=x", "", NULL }, "");
}

static void a_flag_cannot_be_swallowed_as_the_value_of_another(void **state UNUSED)
{
	must_refuse((const char *const[]){ "--label", "--privileged", NULL }, "--label");
	must_refuse((const char *const[]){ "-l", "--privileged", NULL }, "-l");
	must_refuse((const char *const[]){ "--pids-limit", "-1", NULL }, "--pids-limit");
	must_refuse((const char *const[]){ "--pids-limit", NULL }, "--pids-limit");
	must_refuse((const char *const[]){ "--hostname", "--", NULL }, "--hostname");
}

static void hole_1_10_6_an_allowed_flag_never_undoes_a_default(void **state UNUSED)
{
	static const char *const all[] = {
		"--pids-limit=-1",
		"--pids-limit=0",
		"--pids-limit=",
		"--pids-limit=99999999999999999999",
		"--pids-limit=5x",
		"--pids-limit=+5",
		"--pids-limit= 5",
		"--pids-limit=unlimited",
		"--memory-swap=-1",
		"--memory-swap=0",
		"--memory-swap=unlimited",
		"--memory-swap=99999999999g",
		"--memory-reservation=-1",
		"--memory-swappiness=-1",
		"--memory-swappiness=101",
		"--cpus=0",
		"--cpus=-1",
		"--cpus=inf",
		"--cpus=nan",
		"--cpus=0.001",
		"--cpus=1e9",
		"--cpu-shares=0",
		"--cpu-shares=-1",
		"--cpu-period=0",
		"--cpu-quota=-1",
		"--cpu-quota=0",
		"--cpuset-cpus=",
		"--cpuset-cpus=a",
		"--cpuset-cpus=3-1",
		"--cpuset-cpus=0-",
		"--cpuset-cpus=0,,1",
		"--cpuset-cpus=99999",
		"--cpuset-mems=-1",
		"--shm-size=0",
		"--shm-size=-1",
		"--shm-size=9999t",
		"--oom-score-adj=-1",
		"--oom-score-adj=-1000",
		"--oom-score-adj=1001",
		"--stop-signal=0",
		"--stop-signal=SIGNOPE",
		"--stop-signal=65",
		"--stop-timeout=-1",
		"--stop-timeout=999999",
		"--read-only=false",
		"--read-only=0",
		"--read-only=",
		"--ulimit=nofile=-1",
		"--ulimit=nofile=unlimited",
		"--ulimit=nofile=1:-1",
		"--ulimit=nofile=5:4",
		"--ulimit=nofile",
		"--ulimit=nofile=",
		"--ulimit=nofile=99999999",
		"--ulimit=memlock=-1",
		"--ulimit=rtprio=99",
		"--ulimit=nice=40",
		"--ulimit=made-up=1",
		"--ulimit=nofile=1:2:3",
		"--ulimit==1",
		"--hostname=-x",
		"--hostname=a b",
		"--hostname=",
		"--hostname=x/y",
		"--label=",
		"--label==x",
		"--label=brig.id=1",
		"--label=io.brig.managed=true",
		"-lBRIG=1",
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		must_refuse((const char *const[]){ all[i], NULL }, all[i]);
}

static void a_tmpfs_never_gets_exec_and_never_grows_without_bound(void **state UNUSED)
{
	static const char *const bad[] = {
		"--tmpfs=/tmp:exec",
		"--tmpfs=/tmp:size=64m,exec",
		"--tmpfs=/scratch:exec",
		"--tmpfs=/scratch:suid",
		"--tmpfs=/scratch:dev",
		"--tmpfs=/tmp",
		"--tmpfs=/tmp:rw",
		"--tmpfs=/tmp:size=0",
		"--tmpfs=/tmp:size=50%",
		"--tmpfs=/tmp:size=",
		"--tmpfs=/tmp:",
		"--tmpfs=/tmp:size=1m,",
		"--tmpfs=/proc",
		"--tmpfs=/etc",
		"--tmpfs=/work",
		"--tmpfs=/workspace",
		"--tmpfs=/",
		"--tmpfs=scratch",
		"--tmpfs=/a/../etc",
		"--tmpfs=",
		"--tmpfs=:size=1m",
		"--tmpfs=/x:mode=9999",
		"--tmpfs=/x:nr_inodes=0",
		"--tmpfs=/x:remount",
	};
	static const char *const good[] = { "--tmpfs=/tmp:size=64m",
					    "--tmpfs=/tmp:rw,noexec,nosuid,size=1g",
					    "--tmpfs=/scratch", "--tmpfs=/run:size=1m,mode=1777",
					    "--tmpfs=/x:uid=1000,gid=1000,ro,nodev,noatime" };
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		must_refuse((const char *const[]){ bad[i], NULL }, bad[i]);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(check((const char *const[]){ good[i], NULL },
				       EXTRA_ARGS_INITRUNNER, NULL, NULL, &e),
				 0);
}

static void every_allowed_flag_names_its_field_of_the_engine_api(void **state UNUSED)
{
	static const struct {
		const char *word, *flag, *value, *api;
	} all[] = {
		{ "--ulimit=nofile=1024", "--ulimit", "nofile=1024", "HostConfig.Ulimits" },
		{ "--ulimit=core=0:0", "--ulimit", "core=0:0", "HostConfig.Ulimits" },
		{ "--memory-swap=1g", "--memory-swap", "1g", "HostConfig.MemorySwap" },
		{ "--memory-reservation=64m", "--memory-reservation", "64m",
		  "HostConfig.MemoryReservation" },
		{ "--memory-swappiness=0", "--memory-swappiness", "0",
		  "HostConfig.MemorySwappiness" },
		{ "--cpu-shares=512", "--cpu-shares", "512", "HostConfig.CpuShares" },
		{ "--cpu-period=100000", "--cpu-period", "100000", "HostConfig.CpuPeriod" },
		{ "--cpu-quota=50000", "--cpu-quota", "50000", "HostConfig.CpuQuota" },
		{ "--cpus=1.5", "--cpus", "1.5", "HostConfig.NanoCpus" },
		{ "--cpuset-cpus=0-3,5", "--cpuset-cpus", "0-3,5", "HostConfig.CpusetCpus" },
		{ "--cpuset-mems=0", "--cpuset-mems", "0", "HostConfig.CpusetMems" },
		{ "--pids-limit=100", "--pids-limit", "100", "HostConfig.PidsLimit" },
		{ "--shm-size=128m", "--shm-size", "128m", "HostConfig.ShmSize" },
		{ "--oom-score-adj=500", "--oom-score-adj", "500", "HostConfig.OomScoreAdj" },
		{ "--stop-signal=SIGINT", "--stop-signal", "SIGINT", "StopSignal" },
		{ "--stop-signal=9", "--stop-signal", "9", "StopSignal" },
		{ "--stop-timeout=10", "--stop-timeout", "10", "StopTimeout" },
		{ "--label=a=b=c", "--label", "a=b=c", "Labels" },
		{ "-la=b", "--label", "a=b", "Labels" },
		{ "-l=a=b", "--label", "a=b", "Labels" },
		{ "--label=com.bright.x=1", "--label", "com.bright.x=1", "Labels" },
		{ "--hostname=build-1.local", "--hostname", "build-1.local", "Hostname" },
		{ "-hbuild", "--hostname", "build", "Hostname" },
		{ "--read-only", "--read-only", "true", "HostConfig.ReadonlyRootfs" },
		{ "--read-only=true", "--read-only", "true", "HostConfig.ReadonlyRootfs" },
		{ "--tmpfs=/scratch", "--tmpfs", "/scratch", "HostConfig.Tmpfs" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (size_t k = 0; k < ARRAY_LEN(styles); k++) {
			struct extra_arg out[1];
			size_t n = 7;
			struct err e;

			print_message("%s\n", all[i].word);
			assert_int_equal(check((const char *const[]){ all[i].word, NULL },
					       styles[k], out, &n, &e),
					 0);
			assert_int_equal(n, 1);
			assert_string_equal(out[0].flag, all[i].flag);
			assert_string_equal(out[0].value, all[i].value);
			assert_string_equal(out[0].api, all[i].api);
		}
}

static void a_value_may_be_a_token_of_its_own(void **state UNUSED)
{
	static const char *const words[] = { "--pids-limit", "100",         "-l", "a=b",
					     "--ulimit",     "nofile=1024", NULL };
	struct extra_arg out[6];
	size_t n;
	struct err e;

	assert_int_equal(check(words, EXTRA_ARGS_INITRUNNER, out, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_string_equal(out[0].value, "100");
	assert_string_equal(out[1].value, "a=b");
	assert_string_equal(out[2].api, "HostConfig.Ulimits");
}

static void the_last_of_repeated_flags_counts(void **state UNUSED)
{
	static const char *const words[] = { "--pids-limit=100",
					     "--ulimit=nofile=1",
					     "--ulimit=core=0",
					     "-la=1",
					     "--label=b=1",
					     "--pids-limit",
					     "50",
					     "--ulimit=nofile=2",
					     NULL };
	static const char *const again[] = { "--label=a=1", "--label=a", "--tmpfs=/x",
					     "--tmpfs=/x:ro", NULL };
	struct extra_arg out[8];
	size_t n;
	struct err e;

	assert_int_equal(check(words, EXTRA_ARGS_INITRUNNER, out, &n, &e), 0);
	assert_int_equal(n, 5);
	assert_string_equal(out[0].value, "50");
	assert_string_equal(out[1].value, "nofile=2");
	assert_string_equal(out[2].value, "core=0");
	assert_int_equal(check(again, EXTRA_ARGS_INITRUNNER, out, &n, &e), 0);
	assert_int_equal(n, 2);
	assert_string_equal(out[0].value, "a");
	assert_string_equal(out[1].value, "/x:ro");
	/* what is overruled is still checked */
	must_refuse((const char *const[]){ "--pids-limit=-1", "--pids-limit=5", NULL },
		    "--pids-limit=-1");
}

static void gpus_are_asked_for_by_roles_alone(void **state UNUSED)
{
	struct extra_arg out[2];
	size_t n;
	struct err e;

	assert_int_equal(check((const char *const[]){ "--gpus=all", NULL }, EXTRA_ARGS_INITRUNNER,
			       out, &n, &e),
			 0);
	assert_string_equal(out[0].api, "HostConfig.DeviceRequests");
	assert_int_equal(check((const char *const[]){ "--gpus", "all", NULL },
			       EXTRA_ARGS_INITRUNNER, out, &n, &e),
			 0);
	assert_int_equal(
		check((const char *const[]){ "--gpus=all", NULL }, EXTRA_ARGS_BRIG, NULL, NULL, &e),
		-EPERM);
	assert_string_equal(e.hint, "use gpus");
	assert_int_equal(
		check((const char *const[]){ "--gpus=all", NULL }, EXTRA_ARGS_RLM, NULL, NULL, &e),
		-EPERM);
	must_refuse((const char *const[]){ "--gpus=1", NULL }, "--gpus=1");
	must_refuse((const char *const[]){ "--gpus=device=0", NULL }, "--gpus=device=0");
}

static void a_flag_with_a_field_of_its_own_names_it(void **state UNUSED)
{
	static const struct {
		const char *word, *brig, *initrunner, *rlm;
	} all[] = {
		{ "--runtime=runsc", "use runtime", "use docker.runtime", NULL },
		{ "--memory=1g", "use limits.memory", "use memory_limit", "use memory_limit_mb" },
		{ "-m1g", "use limits.memory", "use memory_limit", "use memory_limit_mb" },
		{ "--network=host", "use network", "use network", "use network_enabled" },
		{ "--user=1", "use user", "use docker.user", NULL },
		{ "-eA=1", "use env.set or env.pass", "use env_passthrough", "use env_allowlist" },
		{ "-v/a:/b", "use mounts", "use bind_mounts",
		  "only the working folder is mounted" },
	};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const char *const words[] = { all[i].word, NULL };

		assert_int_equal(check(words, EXTRA_ARGS_BRIG, NULL, NULL, &e), -EPERM);
		assert_string_equal(e.hint, all[i].brig);
		assert_int_equal(check(words, EXTRA_ARGS_INITRUNNER, NULL, NULL, &e), -EPERM);
		assert_string_equal(e.hint, all[i].initrunner);
		assert_int_equal(check(words, EXTRA_ARGS_RLM, NULL, NULL, &e), -EPERM);
		if (all[i].rlm)
			assert_string_equal(e.hint, all[i].rlm);
	}
}

static void rlm_code_gets_its_own_words(void **state UNUSED)
{
	struct err e;

	assert_int_equal(check((const char *const[]){ "--privileged", NULL }, EXTRA_ARGS_RLM, NULL,
			       NULL, &e),
			 -EPERM);
	assert_string_equal(e.what,
			    "Docker extra arg '--privileged' is blocked by sandbox policy.");
	assert_int_equal(check((const char *const[]){ "--volume=/:/x", NULL }, EXTRA_ARGS_RLM, NULL,
			       NULL, &e),
			 -EPERM);
	assert_string_equal(e.what,
			    "Docker extra arg '--volume=/:/x' is blocked by sandbox policy.");
	assert_int_equal(check((const char *const[]){ "--pids-limit=-1", NULL }, EXTRA_ARGS_RLM,
			       NULL, NULL, &e),
			 -EPERM);
	assert_string_equal(e.what,
			    "Docker extra arg '--pids-limit=-1' is blocked by sandbox policy.");
}

static void control_characters_are_refused_and_not_repeated(void **state UNUSED)
{
	static const char *const all[] = { "--label=a\nb", "--label=\x1b[2Jx", "\x01",
					   "--privileged\n", "--label=a\x7f" };
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_int_equal(check((const char *const[]){ all[i], NULL }, EXTRA_ARGS_RLM, NULL,
				       NULL, &e),
				 -EPERM);
		for (const char *p = e.what; *p; p++)
			assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
	}
	must_refuse((const char *const[]){ "--label", "a\nb", NULL }, "--label");
}

static void a_long_list_and_a_long_word_stay_in_bounds(void **state UNUSED)
{
	static const char *many[300];
	struct strlist l = { .v = many, .n = ARRAY_LEN(many) };
	CLEANUP(mem) char *word = malloc(100001);
	struct err e;

	assert_non_null(word);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = "--read-only";
	assert_int_equal(extra_args_check(&l, EXTRA_ARGS_BRIG, NULL, NULL, &e), -EPERM);
	memset(word, 'x', 100000);
	memcpy(word, "--label=", 8);
	word[100000] = '\0';
	assert_int_equal(
		check((const char *const[]){ word, NULL }, EXTRA_ARGS_BRIG, NULL, NULL, &e),
		-EPERM);
	assert_non_null(strstr(e.what, "..."));
	memset(word, '-', 100000);
	assert_int_equal(
		check((const char *const[]){ word, NULL }, EXTRA_ARGS_BRIG, NULL, NULL, &e),
		-EPERM);
}

static void nothing_is_nothing(void **state UNUSED)
{
	struct strlist none = { 0 };
	size_t n = 7;
	struct err e;

	assert_int_equal(extra_args_check(&none, EXTRA_ARGS_RLM, NULL, &n, &e), 0);
	assert_int_equal(n, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_flag_the_seeds_name_as_blocked_is_refused_by_name),
	cmocka_unit_test(hole_1_1_a_blocked_flag_in_two_tokens_is_refused),
	cmocka_unit_test(other_flags_that_open_the_sandbox_are_refused),
	cmocka_unit_test(abbreviations_and_other_spellings_are_refused),
	cmocka_unit_test(hole_1_10_6_a_bare_word_cannot_become_the_image),
	cmocka_unit_test(a_flag_cannot_be_swallowed_as_the_value_of_another),
	cmocka_unit_test(hole_1_10_6_an_allowed_flag_never_undoes_a_default),
	cmocka_unit_test(a_tmpfs_never_gets_exec_and_never_grows_without_bound),
	cmocka_unit_test(every_allowed_flag_names_its_field_of_the_engine_api),
	cmocka_unit_test(a_value_may_be_a_token_of_its_own),
	cmocka_unit_test(the_last_of_repeated_flags_counts),
	cmocka_unit_test(gpus_are_asked_for_by_roles_alone),
	cmocka_unit_test(a_flag_with_a_field_of_its_own_names_it),
	cmocka_unit_test(rlm_code_gets_its_own_words),
	cmocka_unit_test(control_characters_are_refused_and_not_repeated),
	cmocka_unit_test(a_long_list_and_a_long_word_stay_in_bounds),
	cmocka_unit_test(nothing_is_nothing),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

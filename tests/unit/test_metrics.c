/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_metrics.c - what is counted, its Prometheus text, and the file many brigs share. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/files/fd.h"
#include "telemetry/metrics.h"
#include "telemetry/metrics_file.h"

#define BIG ((size_t)1 << 20)

static struct outcome *ended(enum outcome_kind kind)
{
	struct outcome *o = outcome_new();

	o->kind = kind;
	o->backend = "native";
	o->started = true;
	o->duration_us = 7000;
	o->setup_us = 1000;
	o->out.bytes = 10;
	return o;
}

static char *rendered(const struct metrics *m)
{
	struct buf b = BUF_INIT(BIG);

	assert_int_equal(metrics_render(m, &b), 0);
	return buf_take(&b);
}

static void a_run_is_counted_in_every_family(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	CLEANUP(outcome) struct outcome *o = ended(OUTCOME_TIMEOUT);
	CLEANUP(mem) char *text = NULL;

	outcome_hit(o, LIMIT_TIMEOUT);
	outcome_deny(o, "protected-path", "/workspace/.git/config", "it changed");
	metrics_count_run(m, o);
	text = rendered(m);
	assert_non_null(strstr(text,
			       "# HELP brig_runs_total Runs that ended, by how.\n"
			       "# TYPE brig_runs_total counter\n"
			       "brig_runs_total{backend=\"native\",outcome=\"timeout\"} 1\n"));
	assert_non_null(strstr(text, "# TYPE brig_run_duration_seconds histogram\n"));
	assert_non_null(strstr(
		text, "brig_run_duration_seconds_bucket{backend=\"native\",le=\"0.005\"} 0\n"
		      "brig_run_duration_seconds_bucket{backend=\"native\",le=\"0.01\"} 1\n"));
	assert_non_null(
		strstr(text, "brig_run_duration_seconds_bucket{backend=\"native\",le=\"+Inf\"} 1\n"
			     "brig_run_duration_seconds_sum{backend=\"native\"} 0.007\n"
			     "brig_run_duration_seconds_count{backend=\"native\"} 1\n"));
	/* A bound belongs to its bucket. */
	assert_non_null(
		strstr(text, "brig_run_setup_seconds_bucket{backend=\"native\",le=\"0.001\"} 1\n"));
	assert_non_null(strstr(text, "brig_limit_hits_total{limit=\"timeout\"} 1\n"));
	assert_non_null(strstr(text, "brig_denials_total{kind=\"protected-path\"} 1\n"));
	assert_non_null(strstr(text, "brig_output_bytes_total{stream=\"stdout\"} 10\n"));
	assert_non_null(strstr(text, "\nbrig_audit_failures_total 0\n"));
	assert_null(strstr(text, ".git/config"));
}

static void a_refused_run_has_no_duration_and_no_backend(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(mem) char *text = NULL;

	o->kind = OUTCOME_REFUSED;
	metrics_count_run(m, o);
	text = rendered(m);
	assert_non_null(
		strstr(text, "brig_runs_total{backend=\"unchosen\",outcome=\"refused\"} 1\n"));
	assert_null(strstr(text, "brig_run_duration_seconds"));
}

static void label_values_are_escaped_and_read_back(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new(), *back = metrics_new();
	CLEANUP(mem) char *text = NULL, *again = NULL;
	struct err e;

	metrics_add(m, METRIC_DENIALS, "a\"b\\c\nd", NULL, 2);
	metrics_add(m, METRIC_DENIALS, "bytes \xff\xfe", NULL, 3);
	metrics_add(m, METRIC_DENIALS,
		    "a long one with \xc3\xa9 at its 47th byte, .......\xc3\xa9, is cut", NULL, 1);
	text = rendered(m);
	assert_non_null(strstr(text, "kind=\"a\\\"b\\\\c\\nd\"} 2\n"));
	assert_non_null(strstr(text, "kind=\"bytes ??\"} 3\n"));
	assert_int_equal(metrics_parse(back, text, strlen(text), &e), 0);
	again = rendered(back);
	assert_string_equal(text, again);
}

static void what_two_have_counted_adds_up(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new(), *more = metrics_new();
	CLEANUP(mem) char *text = NULL;

	metrics_observe(m, METRIC_SETUP, "native", NULL, 900);
	metrics_observe(more, METRIC_SETUP, "native", NULL, 1600000);
	metrics_observe(more, METRIC_SETUP, "native", NULL, 99000000);
	metrics_add(m, METRIC_AUDIT_FAILURES, NULL, NULL, 1);
	metrics_add(more, METRIC_AUDIT_FAILURES, NULL, NULL, 4);
	metrics_merge(m, more);
	text = rendered(m);
	assert_non_null(strstr(text, "le=\"0.0005\"} 0\n"));
	assert_non_null(strstr(text, "le=\"1\"} 1\n"));
	assert_non_null(strstr(text, "le=\"5\"} 2\n"));
	assert_non_null(strstr(text, "le=\"+Inf\"} 3\n"
				     "brig_run_setup_seconds_sum{backend=\"native\"} 100.6009\n"));
	assert_non_null(strstr(text, "brig_audit_failures_total 5\n"));
}

static void counters_stop_at_the_largest_number(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	CLEANUP(mem) char *text = NULL;

	metrics_add(m, METRIC_OUTPUT_BYTES, "stdout", NULL, UINT64_MAX - 1);
	metrics_add(m, METRIC_OUTPUT_BYTES, "stdout", NULL, 5);
	text = rendered(m);
	assert_non_null(strstr(text, "{stream=\"stdout\"} 18446744073709551615\n"));
}

static void too_many_label_values_become_other(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new(), *back = metrics_new();
	CLEANUP(mem) char *text = NULL, *again = NULL;
	struct err e;
	char kind[32];

	for (int i = 0; i < 2000; i++) {
		(void)snprintf(kind, sizeof(kind), "kind-%d", i);
		metrics_add(m, METRIC_DENIALS, kind, NULL, 1);
	}
	text = rendered(m);
	assert_true(strlen(text) < 64 * 1024);
	assert_non_null(strstr(text, "brig_denials_total{kind=\"other\"} 14"));
	assert_int_equal(metrics_parse(back, text, strlen(text), &e), 0);
	metrics_add(back, METRIC_LIMIT_HITS, "memory", NULL, 1);
	again = rendered(back);
	assert_non_null(strstr(again, "brig_limit_hits_total{limit=\"other\"} 1\n"));
}

static void text_that_is_not_ours_is_refused(void **state UNUSED)
{
	static const char *const wrong[] = {
		"brig_runs_total 1\n",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 1",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} -1\n",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 1.5\n",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 01\n",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 18446744073709551616\n",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} \n",
		"brig_runs_total{backend=\"native\"} 1\n",
		"brig_runs_total{outcome=\"exited\",backend=\"native\"} 1\n",
		"brig_runs_total{backend=\"native\",outcome=\"\\x\"} 1\n",
		"brig_runs_total{backend=\"native\",outcome=\"\xff\"} 1\n",
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 1\n"
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 1\n",
		"brig_runs_total{backend=\"none\",outcome=\"exited\"} 1\n"
		"brig_runs_total{backend=\"native\",outcome=\"exited\"} 1\n",
		"brig_runs_total_sum{backend=\"native\",outcome=\"exited\"} 1\n",
		"brig_run_setup_seconds{backend=\"native\"} 1\n",
		"brig_run_setup_seconds_sum{backend=\"native\"} 1\n",
		"brig_run_setup_seconds_bucket{backend=\"native\",le=\"0.0005\"} 1\n",
		"node_load1 0.5\n",
		"\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CLEANUP(metrics) struct metrics *m = metrics_new();
		struct err e;

		assert_int_equal(metrics_parse(m, wrong[i], strlen(wrong[i]), &e), -EINVAL);
	}
}

static void a_histogram_must_add_up(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	CLEANUP(mem) char *text = NULL;
	struct err e;
	char *count;

	metrics_observe(m, METRIC_SETUP, "native", NULL, 900);
	text = rendered(m);
	for (count = strchr(text, '1'); count; count = strchr(count + 1, '1')) {
		CLEANUP(metrics) struct metrics *back = metrics_new();

		if (count[-1] != ' ')
			continue; /* not a value */
		*count = '7';
		assert_int_equal(metrics_parse(back, text, strlen(text), &e), -EINVAL);
		*count = '1';
	}
}

/* ---- the file ---- */

struct folder {
	char path[64], file[96];
};

static void folder_make(struct folder *f)
{
	(void)snprintf(f->path, sizeof(f->path), "/tmp/test_metrics.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	(void)snprintf(f->file, sizeof(f->file), "%s/brig.prom", f->path);
}

static void folder_remove(const struct folder *f)
{
	static const char *const names[] = { "brig.prom", "brig.prom.lock", "brig.prom.new" };
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f->path, names[i]);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(f->path), 0);
}

static void add_one(const char *file, struct err *why)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	CLEANUP(outcome) struct outcome *o = ended(OUTCOME_EXITED);
	struct err e = { 0 };

	metrics_count_run(m, o);
	if (metrics_file_add(file, m, why, &e) < 0)
		fail_msg("%s", e.what);
}

static void file_holds(const char *file, const char *line)
{
	char text[16384];
	ssize_t n = fd_read_file(AT_FDCWD, file, text, sizeof(text));

	assert_true(n > 0);
	if (!strstr(text, line))
		fail_msg("no '%s' in:\n%s", line, text);
}

static void the_file_adds_up_over_processes(void **state UNUSED)
{
	struct err why = { 0 };
	struct folder f;
	int status;

	folder_make(&f);
	for (int i = 0; i < 16; i++)
		if (fork() == 0) {
			for (int n = 0; n < 10; n++)
				add_one(f.file, &why);
			_exit(why.code != 0);
		}
	for (int i = 0; i < 16; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	file_holds(f.file, "brig_runs_total{backend=\"native\",outcome=\"exited\"} 160\n");
	file_holds(f.file, "brig_run_duration_seconds_count{backend=\"native\"} 160\n");
	file_holds(f.file, "brig_run_duration_seconds_sum{backend=\"native\"} 1.12\n");
	folder_remove(&f);
}

static void a_broken_file_is_begun_afresh_and_said(void **state UNUSED)
{
	static const char *const broken[] = { "", "brig_runs_total 7\n", "half of a li" };
	struct err why = { 0 };
	struct folder f;

	folder_make(&f);
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		int fd = open(f.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		assert_int_equal(fd_write_all(fd, broken[i], strlen(broken[i])), 0);
		(void)fd_close(fd);
		add_one(f.file, &why);
		assert_int_equal(why.code != 0, broken[i][0] != '\0');
		file_holds(f.file, "outcome=\"exited\"} 1\n");
	}
	folder_remove(&f);
}

static void the_mode_of_the_file_is_kept(void **state UNUSED)
{
	struct err why = { 0 };
	struct folder f;
	struct stat st;

	folder_make(&f);
	add_one(f.file, &why);
	assert_int_equal(chmod(f.file, 0640), 0);
	add_one(f.file, &why);
	assert_int_equal(stat(f.file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	folder_remove(&f);
}

static void a_file_that_cannot_be_written_is_an_error(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	static const char *const paths[] = { "/nowhere/at/all.prom", "relative.prom", "/tmp/",
					     "/proc/brig.prom" };
	struct err why = { 0 }, e;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		err_clear(&e);
		assert_true(metrics_file_add(paths[i], m, &why, &e) < 0);
		assert_true(e.what[0]);
	}
}

static void a_lock_held_elsewhere_is_not_waited_for_forever(void **state UNUSED)
{
	CLEANUP(metrics) struct metrics *m = metrics_new();
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct err why = { 0 }, e = { 0 };
	struct folder f;
	char lock[128];
	int fd;

	folder_make(&f);
	(void)snprintf(lock, sizeof(lock), "%s.lock", f.file);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
	assert_true(metrics_file_add(f.file, m, &why, &e) < 0);
	assert_non_null(strstr(e.what, "lock"));
	(void)fd_close(fd);
	folder_remove(&f);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_run_is_counted_in_every_family),
	cmocka_unit_test(a_refused_run_has_no_duration_and_no_backend),
	cmocka_unit_test(label_values_are_escaped_and_read_back),
	cmocka_unit_test(what_two_have_counted_adds_up),
	cmocka_unit_test(counters_stop_at_the_largest_number),
	cmocka_unit_test(too_many_label_values_become_other),
	cmocka_unit_test(text_that_is_not_ours_is_refused),
	cmocka_unit_test(a_histogram_must_add_up),
	cmocka_unit_test(the_file_adds_up_over_processes),
	cmocka_unit_test(a_broken_file_is_begun_afresh_and_said),
	cmocka_unit_test(the_mode_of_the_file_is_kept),
	cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
	cmocka_unit_test(a_lock_held_elsewhere_is_not_waited_for_forever),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

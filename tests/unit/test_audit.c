/* SPDX-License-Identifier: Apache-2.0 */
/* The chain and everything that must not pass unnoticed. */
#include "auditcheck.h"

#include "audit/prune.h"

static char scratch[PATH_MAX];

static int enter(void **state UNUSED)
{
	enter_scratch(scratch);
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(scratch);
	return 0;
}

static void what_was_written_verifies(void **state UNUSED)
{
	struct verify_report r;

	make_log(10, 0);
	make_log(10, 0);
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.records, 20);
	assert_int_equal(r.first, 1);
	assert_int_equal(r.last, 20);
	assert_int_equal(r.tail_bytes, 0);
}

static void verify_makes_nothing(void **state UNUSED)
{
	struct verify_report r = check(NULL);

	assert_true(r.ok && r.empty);
	assert_int_equal(access("log", F_OK), -1);
	assert_int_equal(mkdir("log", 0700), 0);
	assert_true(check(NULL).empty);
	assert_int_equal(access("log/key", F_OK), -1);
}

static void a_cut_at_every_byte_is_found(void **state UNUSED)
{
	size_t n;
	char *text;

	make_log(4, 0);
	text = slurp(SEGMENT1, &n);
	assert_true(intact());
	for (size_t cut = 0; cut < n; cut++) {
		assert_int_equal(truncate(SEGMENT1, (off_t)cut), 0);
		assert_false(intact());
		spill(SEGMENT1, text, n);
	}
	assert_true(intact());
	free(text);
}

/* Turns every bit of a file round, one at a time; each must be noticed. */
static void flip_all(const char *path, size_t step)
{
	size_t n;
	char *text = slurp(path, &n);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	for (size_t bit = 0; bit < n * 8; bit += step) {
		char c = (char)(text[bit / 8] ^ (1 << bit % 8));

		assert_int_equal(pwrite(fd, &c, 1, (off_t)(bit / 8)), 1);
		if (intact())
			fail_msg("%s: bit %zu of byte %zu ('%c') may be turned", path, bit % 8,
				 bit / 8, text[bit / 8]);
		assert_int_equal(pwrite(fd, &text[bit / 8], 1, (off_t)(bit / 8)), 1);
	}
	assert_true(intact());
	(void)close(fd);
	free(text);
}

static void every_bit_of_a_record_counts(void **state UNUSED)
{
	make_log(3, 0);
	flip_all(SEGMENT1, 1);
}

static void every_bit_of_the_head_counts(void **state UNUSED)
{
	make_log(3, 0);
	flip_all("log/head", 1);
}

static void the_place_of_a_change_is_named(void **state UNUSED)
{
	struct verify_report r;
	char *text;
	size_t n;

	make_log(40, 3000);
	text = slurp("log/000002.jsonl", &n);
	*strstr(strchr(text, '\n') + 1, "true") = 'T';
	spill("log/000002.jsonl", text, n);
	r = check(NULL);
	assert_false(r.ok);
	assert_int_equal(r.faults, 1);
	assert_string_equal(r.fault[0].file, "000002.jsonl");
	assert_int_equal(r.fault[0].line, 2);
	assert_true(r.fault[0].seq > 2 && r.fault[0].seq < 40);
	assert_non_null(strstr(r.fault[0].what, "changed"));
	free(text);
}

/* Lines a and b: b is put in place of a ("", twice, swapped). */
static void lines_do_not_move(void **state UNUSED)
{
	size_t n, la, lb;
	char *text, *made;
	const int last = 5;

	make_log(last + 1, 0);
	text = slurp(SEGMENT1, &n);
	made = malloc(2 * n);
	for (int a = 0; a <= last; a++) {
		const char *pa = nth_line(text, a, &la);
		size_t before = (size_t)(pa - text), after = n - before - la;

		memcpy(made, text, before); /* deleted */
		memcpy(made + before, pa + la, after);
		spill(SEGMENT1, made, n - la);
		assert_false(intact());
		memcpy(made + before, pa, la); /* doubled */
		memcpy(made + before + la, pa, la + after);
		spill(SEGMENT1, made, n + la);
		if (a < last) {
			assert_false(intact());
		} else { /* a copy behind the head is no record: nobody was told that it is */
			assert_true(intact());
			assert_int_equal(check(NULL).tail_records, 1);
		}
		for (int b = a + 1; b <= last; b++) { /* swapped */
			const char *pb = nth_line(text, b, &lb);
			size_t between = (size_t)(pb - pa) - la;
			char *p = made + before;

			memcpy(p, pb, lb);
			memcpy(p + lb, pa + la, between);
			memcpy(p + lb + between, pa, la);
			memcpy(p + lb + between + la, pb + lb, n - (size_t)(pb + lb - text));
			spill(SEGMENT1, made, n);
			assert_false(intact());
		}
	}
	spill(SEGMENT1, text, n);
	assert_true(intact());
	free(made);
	free(text);
}

static void segments_do_not_move(void **state UNUSED)
{
	make_log(60, 3000);
	assert_true(intact());
	assert_true(check(NULL).segments > 4);
	assert_int_equal(rename("log/000002.jsonl", "kept"), 0);
	assert_false(intact());
	assert_int_equal(rename("log/000003.jsonl", "log/000002.jsonl"), 0);
	assert_int_equal(rename("kept", "log/000003.jsonl"), 0);
	assert_false(intact());
	assert_int_equal(rename("log/000002.jsonl", "kept"), 0);
	assert_int_equal(rename("log/000003.jsonl", "log/000002.jsonl"), 0);
	assert_int_equal(rename("kept", "log/000003.jsonl"), 0);
	assert_true(intact());
	assert_int_equal(unlink("log/000001.jsonl"), 0);
	assert_false(intact());
}

static void an_older_log_under_a_newer_head_is_found(void **state UNUSED)
{
	make_log(5, 0);
	copy_file(SEGMENT1, "older");
	make_log(5, 0);
	copy_file("older", SEGMENT1);
	assert_false(intact());
	assert_non_null(strstr(check(NULL).fault[0].what, "cut"));
}

static void an_older_log_and_head_need_an_anchor(void **state UNUSED)
{
	const char *anchors[] = { "anchor", NULL };
	struct log_options o = { .dir = "log", .anchors = anchors };
	struct verify_report r;
	struct err e = { 0 };
	struct log *l;

	assert_int_equal(log_open(&o, &l, &e), 0);
	append_many(l, 5);
	assert_int_equal(log_anchor(l, &e), 0);
	copy_file(SEGMENT1, "older");
	copy_file("log/head", "older-head");
	append_many(l, 5);
	assert_int_equal(log_anchor(l, &e), 0);
	(void)log_free(l);
	r = check("anchor");
	assert_true(r.ok);
	assert_int_equal(r.anchors, 1);
	assert_int_equal(r.anchor[0].seq, 10);
	copy_file("older", SEGMENT1);
	copy_file("older-head", "log/head");
	assert_true(intact());
	r = check("anchor");
	assert_false(r.ok);
	assert_string_equal(r.fault[0].file, "anchor");
	assert_non_null(strstr(r.fault[0].what, "set back"));
	/* Going on from there makes other records of the same numbers. */
	make_log(5, 0);
	assert_true(intact());
	r = check("anchor");
	assert_false(r.ok);
	assert_non_null(strstr(r.fault[0].what, "not the one"));
}

static void a_cleared_slot_of_the_head_is_found(void **state UNUSED)
{
	size_t n;
	char *head, *text;

	make_log(6, 0);
	head = slurp("log/head", &n);
	text = slurp(SEGMENT1, &n);
	for (int slot = 0; slot < 2; slot++) {
		char other[HEAD_FILE];

		memcpy(other, head, sizeof(other));
		memset(other + slot * HEAD_SLOT, 0, HEAD_SLOT);
		spill("log/head", other, sizeof(other));
		assert_false(intact());
		memcpy(other, head + slot * HEAD_SLOT, HEAD_SLOT);
		memcpy(other + HEAD_SLOT, head + slot * HEAD_SLOT, HEAD_SLOT);
		spill("log/head", other, sizeof(other));
		assert_false(intact());
	}
	assert_int_equal(unlink("log/head"), 0);
	assert_false(intact());
	spill("log/head", head, HEAD_FILE);
	assert_true(intact());
	free(text);
	free(head);
}

/* --- going on after something went wrong --- */

static void records_behind_the_head_are_taken_over(void **state UNUSED)
{
	struct verify_report r;

	make_log(3, 0);
	copy_file("log/head", "head");
	make_log(2, 0);
	copy_file("head", "log/head"); /* as if the writer had died before its last step */
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.records, 3);
	assert_int_equal(r.tail_records, 2);
	make_log(1, 0);
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.records, 7); /* with the record of the repair */
	assert_true(log_says("\"type\":\"log.repair\",\"adopted\":2,\"cut_bytes\":0"));
}

static void half_a_record_is_cut_off(void **state UNUSED)
{
	size_t n, len;
	char *text;

	for (size_t cut = 1;; cut += 37) {
		make_log(3, 0);
		copy_file("log/head", "head");
		make_log(1, 0);
		text = slurp(SEGMENT1, &n);
		(void)nth_line(text, 3, &len);
		free(text);
		if (cut >= len)
			break;
		assert_int_equal(truncate(SEGMENT1, (off_t)(n - len + cut)), 0);
		copy_file("head", "log/head");
		make_log(1, 0);
		assert_true(intact());
		assert_int_equal(check(NULL).records, 5);
		assert_true(log_says("\"type\":\"log.repair\",\"adopted\":0,\"cut_bytes\":"));
		remove_tree("log");
	}
}

static void lost_records_stay_lost_and_known(void **state UNUSED)
{
	struct verify_report r;

	make_log(5, 0);
	assert_int_equal(truncate(SEGMENT1, 900), 0);
	make_log(1, 0);
	r = check(NULL);
	assert_false(r.ok);
	assert_true(log_says("\"type\":\"log.lost\",\"last\":5"));
	make_log(20, 0);
	assert_false(intact());
}

static void a_log_without_its_head_goes_on_but_not_in_silence(void **state UNUSED)
{
	make_log(5, 0);
	assert_int_equal(unlink("log/head"), 0);
	make_log(1, 0);
	assert_true(log_says("\"type\":\"log.lost\",\"last\":5,\"reason\":\"the head was gone\""));
	assert_false(intact());
}

static void another_key_does_not_go_on(void **state UNUSED)
{
	struct log_options o = { .dir = "log" };
	struct err e = { 0 };
	struct log *l;

	make_log(3, 0);
	assert_int_equal(setenv("BRIG_AUDIT_KEY",
				"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
				1),
			 0);
	assert_int_equal(log_open(&o, &l, &e), 0);
	assert_true(append(l, "true", 0, &e) < 0);
	assert_non_null(strstr(e.what, "another key"));
	assert_true(e.hint[0]);
	(void)log_free(l);
	assert_false(intact());
	assert_int_equal(unsetenv("BRIG_AUDIT_KEY"), 0);
	assert_true(intact());
	assert_int_equal(chmod("log/key", 0644), 0);
	err_clear(&e);
	assert_true(log_open(&o, &l, &e) < 0);
	assert_non_null(strstr(e.what, "read by others"));
	assert_int_equal(unlink("log/key"), 0);
	err_clear(&e);
	assert_int_equal(log_open(&o, &l, &e), 0); /* makes a new one, which fits nothing */
	assert_true(append(l, "true", 0, &e) < 0);
	(void)log_free(l);
}

static void a_folder_of_others_is_refused(void **state UNUSED)
{
	struct log_options o = { .dir = "log" };
	struct err e = { 0 };
	struct log *l;

	assert_int_equal(mkdir("log", 0700), 0);
	assert_int_equal(chmod("log", 0777), 0);
	assert_true(log_open(&o, &l, &e) < 0);
	assert_non_null(strstr(e.what, "written by others"));
}

/* --- retention --- */

static struct prune_report prune_to(uint64_t max_records, uint64_t max_age_ms, bool lazy)
{
	struct prune_options o = { .max_records = max_records,
				   .max_age_ms = max_age_ms,
				   .lazy = lazy };
	struct log *l = open_log(3000, false);
	struct prune_report r;
	struct err e = { 0 };

	if (prune(l, &o, &r, &e) < 0)
		fail_msg("prune: %s", e.what);
	(void)log_free(l);
	return r;
}

static void the_count_is_exact_and_the_rest_verifies(void **state UNUSED)
{
	struct prune_report p;
	struct verify_report r;

	make_log(60, 3000);
	p = prune_to(25, 0, false);
	assert_int_equal(p.removed, 35);
	assert_int_equal(p.last, 35);
	assert_int_equal(p.left, 25);
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.pruned, 35);
	assert_int_equal(r.first, 36);
	assert_int_equal(r.records, 26); /* and log.prune */
	assert_true(
		log_says("\"type\":\"log.prune\",\"last\":35,\"count\":35,\"reason\":\"count\""));
	make_log(10, 3000);
	assert_true(intact());
	flip_all("log/base", 3);
	p = prune_to(1, 0, false); /* within the segment that takes appends */
	assert_int_equal(p.left, 1);
	assert_true(intact());
	make_log(3, 3000);
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.records, 5);
}

static void age_removes_what_is_old(void **state UNUSED)
{
	struct prune_report p;

	make_log(20, 3000);
	assert_int_equal(prune_to(0, 3600 * 1000, false).removed, 0);
	assert_int_equal(usleep(20 * 1000), 0);
	p = prune_to(0, 10, false);
	assert_int_equal(p.removed, 20);
	assert_true(intact());
	assert_int_equal(check(NULL).records, 1);
}

static void lazy_retention_takes_whole_segments(void **state UNUSED)
{
	struct prune_report p;

	make_log(60, 3000);
	p = prune_to(58, 0, true);
	assert_int_equal(p.removed, 0); /* two of a segment are not worth writing it anew */
	p = prune_to(25, 0, true);
	assert_true(p.removed > 20 && p.removed <= 35);
	assert_true(intact());
}

static void a_gap_that_base_does_not_explain_is_found(void **state UNUSED)
{
	make_log(60, 3000);
	(void)prune_to(50, 0, false);
	copy_file("log/base", "base");
	(void)prune_to(20, 0, false);
	assert_true(intact());
	copy_file("base", "log/base");
	assert_false(intact());
	assert_int_equal(unlink("log/base"), 0);
	assert_false(intact());
}

static void a_prune_that_was_killed_is_finished_by_the_next(void **state UNUSED)
{
	struct head base;
	char *text;
	size_t n;

	make_log(60, 3000);
	assert_int_equal(mkdir("before", 0700), 0);
	for (unsigned i = 1; i < 5; i++) {
		char from[32], to[32];

		(void)snprintf(from, sizeof(from), "log/%06u.jsonl", i);
		(void)snprintf(to, sizeof(to), "before/%u", i);
		copy_file(from, to);
	}
	(void)prune_to(30, 0, false);
	text = slurp("log/base", &n);
	assert_int_equal(head_parse(text, NULL, &base), 0);
	free(text);
	assert_true(base.segment > 2 && base.segment < 5);
	/* Killed after the first file was removed: base is new, the others are as they were. */
	for (unsigned i = 2; i <= base.segment; i++) {
		char from[32], to[32];

		(void)snprintf(from, sizeof(from), "before/%u", i);
		(void)snprintf(to, sizeof(to), "log/%06u.jsonl", i);
		copy_file(from, to);
	}
	assert_true(intact());
	assert_true(prune_to(20, 0, false).removed > 0);
	assert_true(intact());
	assert_int_equal(check(NULL).records, 21);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		CASE(what_was_written_verifies),
		CASE(verify_makes_nothing),
		CASE(a_cut_at_every_byte_is_found),
		CASE(every_bit_of_a_record_counts),
		CASE(every_bit_of_the_head_counts),
		CASE(the_place_of_a_change_is_named),
		CASE(lines_do_not_move),
		CASE(segments_do_not_move),
		CASE(an_older_log_under_a_newer_head_is_found),
		CASE(an_older_log_and_head_need_an_anchor),
		CASE(a_cleared_slot_of_the_head_is_found),
		CASE(records_behind_the_head_are_taken_over),
		CASE(half_a_record_is_cut_off),
		CASE(lost_records_stay_lost_and_known),
		CASE(a_log_without_its_head_goes_on_but_not_in_silence),
		CASE(another_key_does_not_go_on),
		CASE(a_folder_of_others_is_refused),
		CASE(the_count_is_exact_and_the_rest_verifies),
		CASE(age_removes_what_is_old),
		CASE(lazy_retention_takes_whole_segments),
		CASE(a_gap_that_base_does_not_explain_is_found),
		CASE(a_prune_that_was_killed_is_finished_by_the_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

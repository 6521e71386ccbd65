/* SPDX-License-Identifier: Apache-2.0 */
/* Many writers at once, and writers that are killed at any moment. */
#include "auditcheck.h"

#include <pthread.h>
#include <sys/mman.h>

#include "audit/running.h"

#define THREADS 64
#define PROCESSES 64
#define KILLERS 32
#define KILLS 500
#define KILLS_SOAK 2000 /* with BRIG_SOAK */

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

static void *write_some(void *arg)
{
	struct err e = { 0 };

	for (int i = 0; i < 100; i++)
		if (append(arg, "thread", i, &e) < 0)
			return arg;
	return NULL;
}

static void threads_share_one_writer(void **state UNUSED)
{
	struct log *l = open_log(100000, false);
	pthread_t threads[THREADS];
	struct verify_report r;
	void *failed;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, l), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	(void)log_free(l);
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.records, THREADS * 100);
}

static void processes_make_one_order(void **state UNUSED)
{
	struct verify_report r;
	int status;

	(void)fflush(NULL);
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			struct log_options o = { .dir = "log", .segment_bytes = 20000 };
			struct err e = { 0 };
			struct log *l;

			must(log_open(&o, &l, &e) == 0); /* and makes the key, 64 times at once */
			for (int n = 0; n < 20; n++)
				must(append(l, "process", n, &e) == 0);
			_exit(0);
		}
	for (int i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	r = check(NULL);
	assert_true(r.ok);
	assert_int_equal(r.records, PROCESSES * 20);
	assert_false(log_says("log.repair"));
	assert_false(log_says("log.lost"));
}

/* --- kill -9 --- */

/* How many records of each life were acknowledged; shared with the writers. */
static uint32_t *acknowledged;

static pid_t begin_life(int life)
{
	char name[16];
	pid_t pid;

	(void)snprintf(name, sizeof(name), "%d", life);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		struct log_options o = { .dir = "log", .segment_bytes = 200000 };
		struct err e = { 0 };
		struct log *l;

		must(log_open(&o, &l, &e) == 0);
		for (int i = 0;; i++) {
			must(append(l, name, i, &e) == 0);
			__atomic_store_n(&acknowledged[life], (uint32_t)i + 1, __ATOMIC_SEQ_CST);
		}
	}
	return pid;
}

/* Each life's records stand in the log from 0 on without a gap; count them. */
static void count_lives(uint32_t *found, size_t lives)
{
	char path[64], *line = NULL;
	size_t room = 0;

	for (uint32_t segment = 1;; segment++) {
		FILE *f;

		(void)snprintf(path, sizeof(path), "log/%06u.jsonl", segment);
		f = fopen(path, "re");
		if (!f)
			break;
		while (getline(&line, &room, f) > 0) {
			const char *at = strstr(line, "\"argv0\":\"");
			char *end;
			unsigned long life, rc;

			if (!at) /* log.repair */
				continue;
			life = strtoul(at + 9, &end, 10);
			rc = strtoul(end + strlen("\",\"rc\":"), NULL, 10);
			assert_true(life < lives);
			assert_int_equal(rc, found[life]);
			found[life]++;
		}
		(void)fclose(f);
	}
	free(line);
}

/* Many times one of 32 writers is killed wherever it happens to be, and another begins. */
static void what_was_acknowledged_survives_kill_9(void **state UNUSED)
{
	const int kills = getenv("BRIG_SOAK") ? KILLS_SOAK : KILLS;
	const size_t lives = KILLERS + (size_t)kills;
	uint32_t *found = calloc(lives, sizeof(*found));
	pid_t pids[KILLERS];
	int owner[KILLERS], life = 0;
	unsigned seed = 1;
	struct verify_report r;

	acknowledged = mmap(NULL, lives * sizeof(*acknowledged), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(acknowledged, MAP_FAILED);
	(void)fflush(NULL);
	for (int i = 0; i < KILLERS; i++)
		pids[i] = begin_life(owner[i] = life++);
	for (int i = 0; i < kills; i++) {
		int who = rand_r(&seed) % KILLERS;

		if (i % 4 == 0)
			(void)usleep((useconds_t)(rand_r(&seed) % 2000));
		assert_int_equal(kill(pids[who], SIGKILL), 0);
		assert_int_equal(waitpid(pids[who], NULL, 0), pids[who]);
		pids[who] = begin_life(owner[who] = life++);
	}
	for (int i = 0; i < KILLERS; i++) {
		assert_int_equal(kill(pids[i], SIGKILL), 0);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	make_log(0, 200000);
	r = check(NULL);
	assert_true(r.ok);
	assert_false(log_says("log.lost"));
	count_lives(found, lives);
	for (size_t i = 0; i < lives; i++)
		assert_true(found[i] >= acknowledged[i]);
	print_message("%llu records, %u lives\n", (unsigned long long)r.records, (unsigned)lives);
	(void)munmap(acknowledged, lives * sizeof(*acknowledged));
	free(found);
}

/* --- runs whose brig died --- */

static void begin_run(struct log *l, const char *id, struct running *slot)
{
	struct run_info info = { .run = id,
				 .policy = "00",
				 .backend = "native",
				 .argv0 = "cat\nx\ty",
				 .agent = "the builder" };
	struct err e = { 0 };
	struct record r;

	*slot = RUNNING_NONE;
	record_init(&r, EVENT_SANDBOX_CREATE);
	r.run = id;
	record_text(&r, "backend", "native");
	must(log_lock(l, &e) == 0);
	must(running_begin(l, &info, "uid:1", slot, &e) == 0);
	must(log_append_locked(l, &r, 1, &e) == 0);
	log_unlock(l);
}

#define ID1 "11111111111111111111111111111111"
#define ID2 "22222222222222222222222222222222"
#define ID3 "33333333333333333333333333333333"

static void die_running(void *arg)
{
	struct log_options o = { .dir = "log" };
	struct err e = { 0 };
	struct running slot;
	struct log *l;

	must(log_open(&o, &l, &e) == 0);
	begin_run(l, arg, &slot);
	(void)raise(SIGKILL);
}

static void die_after_the_end(void *arg)
{
	struct log_options o = { .dir = "log" };
	struct err e = { 0 };
	struct running slot;
	struct record r;
	struct log *l;

	must(log_open(&o, &l, &e) == 0);
	begin_run(l, arg, &slot);
	record_init(&r, EVENT_SANDBOX_EXEC);
	r.run = arg;
	record_text(&r, "outcome", "exited");
	must(log_append(l, &r, 1, &e) == 0);
	(void)raise(SIGKILL);
}

static void a_run_whose_brig_died_is_noticed_once(void **state UNUSED)
{
	struct log *l = open_log(0, false);
	struct running mine, next;
	char live[4][33];

	assert_false(in_child(die_running, (void *)(uintptr_t)ID1, 10));
	assert_false(in_child(die_after_the_end, (void *)(uintptr_t)ID2, 10));
	assert_int_equal(running_live(log_dirfd(l), live, ARRAY_LEN(live)), 0);
	begin_run(l, ID3, &mine); /* takes over the slot of the dead */
	assert_true(log_says("\"type\":\"sandbox.exec\",\"run\":\"" ID1 "\""));
	assert_true(log_says("\"principal\":\"uid:1\",\"agent\":\"the builder\","));
	assert_true(log_says("\"argv0\":\"cat?x?y\",\"rc\":125,"));
	assert_true(log_says("\"outcome\":\"crashed\""));
	assert_true(log_says("\"run\":\"" ID2 "\",\"outcome\":\"exited\""));
	assert_int_equal(log_head(l).seq, 5);
	begin_run(l, "44444444444444444444444444444444", &next); /* ours lives */
	assert_int_equal(log_head(l).seq, 6);
	assert_int_equal(running_live(log_dirfd(l), live, ARRAY_LEN(live)), 2);
	assert_string_equal(live[0], ID3);
	running_end(&mine);
	assert_int_equal(running_live(log_dirfd(l), live, ARRAY_LEN(live)), 1);
	running_end(&next);
	begin_run(l, ID3, &mine);
	assert_int_equal(mine.offset, 0);
	running_end(&mine);
	(void)log_free(l);
	assert_true(intact());
}

enum { MANY = 40 };

static void run_id(unsigned i, char id[33])
{
	(void)snprintf(id, 33, "%032x", i + 1);
}

static void die_with_many(void *arg UNUSED)
{
	struct log_options o = { .dir = "log" };
	struct err e = { 0 };
	struct running slot[MANY];
	struct log *l;

	must(log_open(&o, &l, &e) == 0);
	for (unsigned i = 0; i < MANY; i++) {
		char id[33];

		run_id(i, id);
		begin_run(l, id, &slot[i]);
	}
	(void)raise(SIGKILL);
}

static void many_that_died_at_once_are_noticed_by_the_next(void **state UNUSED)
{
	struct log *l = open_log(0, false);
	struct running mine;

	assert_false(in_child(die_with_many, NULL, 20));
	begin_run(l, ID1, &mine);
	assert_int_equal(log_head(l).seq, 2 * MANY + 1);
	assert_int_equal(mine.offset, 0);
	running_end(&mine);
	(void)log_free(l);
	assert_true(intact());
}

/* A start looks at a few of the slots in use only: the next ones find what it passed by. */
static void one_that_died_among_many_that_live_is_noticed_in_time(void **state UNUSED)
{
	struct log *l = open_log(0, false);
	struct running slot[MANY], mine;
	char id[33], said[96];
	unsigned starts = 0;

	run_id(MANY / 2, id);
	(void)snprintf(said, sizeof(said), "\"type\":\"sandbox.exec\",\"run\":\"%s\"", id);

	assert_false(in_child(die_running, (void *)(uintptr_t)ID2, 10));
	for (unsigned i = 0; i < MANY; i++) {
		run_id(i, id);
		begin_run(l, id, &slot[i]); /* the first takes over the slot */
	}
	assert_false(log_says(said));
	running_abandon(&slot[MANY / 2]);
	do {
		begin_run(l, ID3, &mine);
		running_end(&mine);
	} while (!log_says(said) && ++starts < 1000);
	assert_true(starts < 1000);
	for (unsigned i = 0; i < MANY; i++)
		running_end(&slot[i]);
	(void)log_free(l);
	assert_true(intact());
}

enum { CROWD = 250 };

/* More than a start reads: the dead one is the first, at the edge, and what is free is taken again.
 */
static void among_hundreds_the_dead_are_noticed_and_slots_taken_again(void **state UNUSED)
{
	struct log *l = open_log(0, false);
	struct running slot[CROWD], mine;
	char id[33], said[96];
	unsigned starts = 0;
	struct stat st;

	for (unsigned i = 0; i < CROWD; i++) {
		run_id(i, id);
		begin_run(l, id, &slot[i]);
		assert_int_equal(slot[i].offset, i * RUNNING_SLOT);
	}
	run_id(0, id);
	(void)snprintf(said, sizeof(said), "\"type\":\"sandbox.exec\",\"run\":\"%s\"", id);
	running_abandon(&slot[0]);
	do {
		begin_run(l, ID3, &mine);
		running_end(&mine);
	} while (!log_says(said) && ++starts < 2000);
	assert_true(starts < 2000);
	for (unsigned i = 0; i < CROWD; i++) {
		begin_run(l, ID3, &mine);
		running_end(&mine);
	}
	assert_int_equal(fstatat(log_dirfd(l), "running", &st, 0), 0);
	assert_true(st.st_size < (CROWD + 64) * RUNNING_SLOT);
	for (unsigned i = 1; i < CROWD; i++)
		running_end(&slot[i]);
	(void)log_free(l);
	assert_true(intact());
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		CASE(threads_share_one_writer),
		CASE(processes_make_one_order),
		CASE(what_was_acknowledged_survives_kill_9),
		CASE(a_run_whose_brig_died_is_noticed_once),
		CASE(many_that_died_at_once_are_noticed_by_the_next),
		CASE(one_that_died_among_many_that_live_is_noticed_in_time),
		CASE(among_hundreds_the_dead_are_noticed_and_slots_taken_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

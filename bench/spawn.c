/* SPDX-License-Identifier: Apache-2.0 */
/* bench/spawn.c - time several commands side by side.
 *
 * Each round runs every candidate once, in a shuffled order, so that drift of the machine and the
 * after-effects of one candidate (a network namespace is torn down after its process is gone) hit
 * all of them alike. A sample is the wall time from posix_spawn to wait4. Figures go to stdout as
 * JSON, times in nanoseconds. `over_first` is the median of the differences, round by round, to the
 * first candidate: what a small addition costs is lost in the difference of two medians.
 *
 *   spawn [-n ROUNDS] [-w WARMUP] [-j JOBS] [-t SECONDS] [-p PREPARE] [-e] CANDIDATE [:::
 * CANDIDATE]... CANDIDATE = NAME [-n SAMPLES] [-o FD:PATH]... -- COMMAND [ARG...]
 *
 * -j runs JOBS copies of one candidate at a time, candidate after candidate in BLOCKS turns. -t
 * ends a run that takes longer (with -j: a whole turn). -p runs a program before each sample,
 * untimed. -e leaves stderr of the commands open. A candidate's own -n spreads fewer samples evenly
 * over the rounds; -o opens a file for it at that descriptor.
 *
 * Linux charges a vfork child the resident size of its parent until exec, so this program stays
 * small and static: max_rss_kib is the largest process below the candidate, but never less than
 * this one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CANDIDATES = 16, MAX_OPENS = 64, MAX_JOBS = 1024, MAX_SAMPLES = 1000000, BLOCKS = 4 };

struct candidate {
	const char *name;
	char **argv;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr; /* a process group of its own, to be ended as one */
	uint64_t *samples;      /* ns, room for n */
	long n, taken, failed;
	int last_status;  /* of the latest failure, as wait4 gave it */
	uint64_t elapsed; /* ns, of all samples or, in parallel, of all turns */
	uint64_t cpu;     /* ns, user and system, of the process and the children it waited for */
	long max_rss;
	int64_t over_first; /* ns; only if every round has both samples */
	bool paired;
};

struct options {
	long rounds, warmup, jobs, timeout;
	char *prepare;
	bool keep_stderr;
};

struct slot {
	volatile pid_t pid; /* 0 when free */
	uint64_t started;
};

/* File scope because signal handlers must reach it. */
static struct slot slots[MAX_JOBS];
extern char **environ;

static void die(const char *what)
{
	(void)fprintf(stderr, "spawn: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void kill_running(void)
{
	for (int i = 0; i < MAX_JOBS; i++)
		if (slots[i].pid > 0)
			(void)kill(-slots[i].pid, SIGKILL);
}

static void on_alarm(int sig)
{
	(void)sig;
	kill_running();
}

static void on_end(int sig)
{
	kill_running();
	_exit(128 + sig);
}

static uint64_t now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000000U +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1000U;
}

static void start(const struct candidate *c, struct slot *s)
{
	pid_t pid = 0;

	s->started = now();
	int r = posix_spawn(&pid, c->argv[0], &c->actions, &c->attr, c->argv, environ);
	if (r != 0) {
		errno = r;
		die(c->argv[0]);
	}
	s->pid = pid;
}

static void record(struct candidate *c, uint64_t ns, int status, const struct rusage *u)
{
	if (status != 0) {
		c->failed++;
		c->last_status = status;
		return;
	}
	if (c->taken < c->n)
		c->samples[c->taken++] = ns;
	c->cpu += cpu_ns(u);
	if (u->ru_maxrss > c->max_rss)
		c->max_rss = u->ru_maxrss;
}

/* Waits for any child and returns its slot; the caller frees it by setting pid to 0. */
static struct slot *reap(uint64_t *ended, int *status, struct rusage *u)
{
	for (;;) {
		pid_t pid = wait4(-1, status, 0, u);
		*ended = now();
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			die("wait4");
		for (int i = 0; i < MAX_JOBS; i++)
			if (slots[i].pid == pid)
				return &slots[i];
	}
}

/* Bubblewrap leaves a child to whoever adopts it; a lazy PID 1 would let those pile up as zombies
 * and look like a leak. */
static void reap_orphans(void)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	for (int waits = 0; waits < 50;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0)
			return;
		if (pid == 0) {
			(void)nanosleep(&pause, NULL);
			waits++;
		}
	}
}

static void prepare(const struct options *o)
{
	char *argv[] = { o->prepare, NULL };
	pid_t pid = 0;
	int status = 0;

	if (!o->prepare)
		return;
	if (posix_spawn(&pid, o->prepare, NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) < 0 || status)
		die(o->prepare);
}

static void sample(struct candidate *c, const struct options *o)
{
	struct rusage u;
	uint64_t ended;
	int status;

	prepare(o);
	(void)alarm((unsigned)o->timeout);
	start(c, &slots[0]);
	struct slot *s = reap(&ended, &status, &u);
	(void)alarm(0);
	s->pid = 0;
	c->elapsed += ended - s->started;
	record(c, ended - s->started, status, &u);
}

static void shuffle(int *order, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int k = rand() % (i + 1); /* a fixed seed: the same order in each run */
		int t = order[i];
		order[i] = order[k];
		order[k] = t;
	}
}

static void forget(struct candidate *c)
{
	c->taken = 0;
	c->elapsed = c->cpu = 0;
	c->max_rss = 0;
}

static void run_rounds(struct candidate *cs, int count, const struct options *o)
{
	int order[MAX_CANDIDATES];

	for (int i = 0; i < count; i++) {
		order[i] = i;
		for (long w = 0; w < o->warmup; w++)
			sample(&cs[i], o);
		forget(&cs[i]);
	}
	for (long r = 0; r < o->rounds; r++) {
		shuffle(order, count);
		for (int i = 0; i < count; i++) {
			struct candidate *c = &cs[order[i]];
			if (r * c->n / o->rounds != (r + 1) * c->n / o->rounds)
				sample(c, o);
		}
	}
}

static void run_turn(struct candidate *c, long runs, const struct options *o)
{
	uint64_t begun = now(), ended = begun;
	long started = 0, done = 0;
	struct rusage u;
	int status;

	(void)alarm((unsigned)o->timeout);
	for (; started < runs && started < o->jobs; started++)
		start(c, &slots[started]);
	while (done < started) {
		struct slot *s = reap(&ended, &status, &u);
		s->pid = 0;
		done++;
		record(c, ended - s->started, status, &u);
		if (started < runs) {
			start(c, s);
			started++;
		}
	}
	(void)alarm(0);
	c->elapsed += ended - begun;
}

static void run_parallel(struct candidate *cs, int count, const struct options *o)
{
	for (int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < count; i++)
			run_turn(&cs[i], cs[i].n * (b + 1) / BLOCKS - cs[i].n * b / BLOCKS, o);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int by_difference(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* While samples are in the order of their rounds. */
static void pair_up(const struct candidate *first, struct candidate *c, long rounds)
{
	int64_t *d;

	if (first->taken != rounds || c->taken != rounds)
		return;
	d = calloc((size_t)rounds, sizeof(*d));
	if (!d)
		die("no memory");
	for (long i = 0; i < rounds; i++)
		d[i] = (int64_t)c->samples[i] - (int64_t)first->samples[i];
	qsort(d, (size_t)rounds, sizeof(*d), by_difference);
	c->over_first = d[rounds / 2];
	c->paired = true;
	free(d);
}

/* Nearest rank: the smallest sample that at least p percent do not exceed. */
static uint64_t percentile(const struct candidate *c, long p)
{
	return c->taken ? c->samples[(c->taken * p + 99) / 100 - 1] : 0;
}

static void report(struct candidate *c, bool last)
{
	uint64_t sum = 0;

	qsort(c->samples, (size_t)c->taken, sizeof(*c->samples), by_value);
	for (long i = 0; i < c->taken; i++)
		sum += c->samples[i];
	uint64_t n = c->taken ? (uint64_t)c->taken : 1;
	/* Names come from bench/run, which uses no character that JSON would need escaped. */
	(void)printf(" {\"name\": \"%s\", \"n\": %ld, \"failed\": %ld, \"last_status\": %d,\n",
		     c->name, c->taken, c->failed, c->last_status);
	(void)printf("  \"min\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p95\": %" PRIu64
		     ", \"p99\": %" PRIu64,
		     c->taken ? c->samples[0] : 0, percentile(c, 50), percentile(c, 95),
		     percentile(c, 99));
	(void)printf(", \"max\": %" PRIu64 ", \"mean\": %" PRIu64 ",\n",
		     c->taken ? c->samples[c->taken - 1] : 0, sum / n);
	if (c->paired)
		(void)printf("  \"over_first\": %" PRId64 ",\n", c->over_first);
	(void)printf("  \"elapsed\": %" PRIu64 ", \"mean_cpu\": %" PRIu64
		     ", \"max_rss_kib\": %ld}%s\n",
		     c->elapsed, c->cpu / n, c->max_rss, last ? "" : ",");
}

static long number(const char *s, long min, long max)
{
	char *end = NULL;
	long v = strtol(s, &end, 10);

	if (*s && !*end && v >= min && v <= max)
		return v;
	errno = EINVAL;
	die(s);
	return 0;
}

static void add_open(struct candidate *c, const char *arg)
{
	char fd[12];
	const char *colon = strchr(arg, ':');

	if (!colon || (size_t)(colon - arg) >= sizeof(fd)) {
		errno = EINVAL;
		die(arg);
	}
	memcpy(fd, arg, (size_t)(colon - arg));
	fd[colon - arg] = '\0';
	(void)posix_spawn_file_actions_addopen(&c->actions, (int)number(fd, 3, 1000), colon + 1,
					       O_RDONLY, 0);
}

/* Reads one candidate from argv[i]; returns the index after its separator. */
static int parse_candidate(struct candidate *c, int argc, char **argv, int i,
			   const struct options *o)
{
	int opens = 0;

	*c = (struct candidate){ .name = argv[i++], .n = o->rounds };
	(void)posix_spawnattr_init(&c->attr);
	(void)posix_spawnattr_setflags(&c->attr, POSIX_SPAWN_SETPGROUP);
	(void)posix_spawn_file_actions_init(&c->actions);
	(void)posix_spawn_file_actions_addopen(&c->actions, 0, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(&c->actions, 1, "/dev/null", O_WRONLY, 0);
	if (!o->keep_stderr)
		(void)posix_spawn_file_actions_addopen(&c->actions, 2, "/dev/null", O_WRONLY, 0);
	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
		if (strcmp(argv[i], "-n") == 0)
			c->n = number(argv[i + 1], 1, o->rounds);
		else if (strcmp(argv[i], "-o") == 0 && opens++ < MAX_OPENS)
			add_open(c, argv[i + 1]);
		else
			break;
	}
	if (i + 1 >= argc || strcmp(argv[i], "--") != 0) {
		errno = EINVAL;
		die(c->name);
	}
	c->argv = &argv[++i];
	while (i < argc && strcmp(argv[i], ":::") != 0)
		i++;
	if (i < argc)
		argv[i++] = NULL; /* ends the command's own vector */
	/* Zeroed pages are shared until the first sample is written: RSS stays small. */
	c->samples = calloc((size_t)c->n, sizeof(*c->samples));
	if (!c->samples)
		die("no memory");
	return i;
}

static int parse_options(struct options *o, int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "+n:w:j:t:p:e")) != -1) {
		switch (opt) {
		case 'n':
			o->rounds = number(optarg, 1, MAX_SAMPLES);
			break;
		case 'w':
			o->warmup = number(optarg, 0, 1000);
			break;
		case 'j':
			o->jobs = number(optarg, 1, MAX_JOBS);
			break;
		case 't':
			o->timeout = number(optarg, 1, 86400);
			break;
		case 'p':
			o->prepare = optarg;
			break;
		case 'e':
			o->keep_stderr = true;
			break;
		default:
			exit(2);
		}
	}
	return optind;
}

int main(int argc, char **argv)
{
	static struct candidate cs[MAX_CANDIDATES];
	struct options o = { .rounds = 100, .warmup = 0, .jobs = 1, .timeout = 60 };
	int count = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)signal(SIGALRM, on_alarm);
	(void)signal(SIGINT, on_end);
	(void)signal(SIGTERM, on_end);
	int i = parse_options(&o, argc, argv);
	while (i < argc && count < MAX_CANDIDATES)
		i = parse_candidate(&cs[count++], argc, argv, i, &o);
	if (count == 0 || i < argc) {
		errno = EINVAL;
		die("1 to 16 candidates");
	}
	if (o.jobs > 1)
		run_parallel(cs, count, &o);
	else
		run_rounds(cs, count, &o);
	reap_orphans();
	for (int k = 1; k < count && o.jobs == 1; k++)
		pair_up(&cs[0], &cs[k], o.rounds);
	(void)puts("[");
	for (int k = 0; k < count; k++)
		report(&cs[k], k + 1 == count);
	(void)puts("]");
	return 0;
}

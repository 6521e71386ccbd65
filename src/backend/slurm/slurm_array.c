/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_array.c - many runs by one sbatch.
 *
 *   STATE/slurm/array-NAME/wave      which wave, from which line, how many, which job
 *   STATE/slurm/array-NAME/SEQ/      of one wave: script, N.ask, N.out (far/spool.h)
 *
 * `wave` is written before sbatch is asked and once more when it has answered: a process that dies
 * in between finds its job by the comment. What a wave has put down is removed with it, so that a
 * task which comes late finds nothing to run. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/slurm/slurm.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "far/far_place.h"
#include "far/spool.h"

#define WAVE_MAX 1000
#define ASK_S 30
#define PLACE_S 60
#define INPUT_CHANNEL 2

struct backend_array {
	struct backend_plan *plan;
	struct slurm_nodes nodes;
	int state, folder, wave; /* brig's own; of the array; of the wave, or -1 */
	char name[64], path[PATH_MAX], spool[PATH_MAX];
	uint64_t seq, first, count, job, most;
	unsigned char has[WAVE_MAX]; /* of each line of the wave */
	bool shared;                 /* a node has said so */
};

/* ---- files ---- */

static int write_file(int folder, const char *name, const char *data, size_t n)
{
	CLEANUP(fd) int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd_write_all(fd, data, n);
}

static int write_wave(const struct backend_array *a, struct err *e)
{
	char text[128];
	int r;

	(void)snprintf(text, sizeof(text), "%llu %llu %llu %llu\n", (unsigned long long)a->seq,
		       (unsigned long long)a->first, (unsigned long long)a->count,
		       (unsigned long long)a->job);
	(void)unlinkat(a->folder, "wave.new", 0);
	r = write_file(a->folder, "wave.new", text, strlen(text));
	if (r == 0 && renameat(a->folder, "wave.new", a->folder, "wave") < 0)
		r = -errno;
	return r < 0 ? err_errno(e, r, "cannot write '%.200s/wave'", a->path) : 0;
}

static int open_wave(struct backend_array *a)
{
	int n = snprintf(a->spool, sizeof(a->spool), "%s/%llu", a->path,
			 (unsigned long long)a->seq);

	a->wave = n < (int)sizeof(a->spool) ? far_spool_open(a->spool) : -ENAMETOOLONG;
	return a->wave < 0 ? a->wave : 0;
}

/* False: there is none, or it cannot be one. */
static bool read_wave(struct backend_array *a)
{
	uint64_t v[4];
	char text[128] = "";

	if (fd_read_file(a->folder, "wave", text, sizeof(text)) <= 0 || !slurm_text_wave(text, v))
		return false;
	a->seq = v[0];
	a->first = v[1];
	a->count = v[2];
	a->job = v[3];
	return a->count <= WAVE_MAX && open_wave(a) == 0;
}

static bool was_put(const struct backend_array *a, uint64_t task)
{
	char name[FAR_SPOOL_NAME];
	struct stat st;

	far_spool_name(name, task, "ask");
	return fstatat(a->wave, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What is in it is read by who follows it. */
bool slurm_has_report(int wave, uint64_t task)
{
	struct frames_glance g = { .kind = FRAMES_ENDED };
	char name[FAR_SPOOL_NAME], part[65536];
	CLEANUP(fd) int fd = -1;
	ssize_t n;

	far_spool_name(name, task, "out");
	fd = far_spool_read(wave, name);
	while (fd >= 0 && !g.seen && !g.broken && (n = read(fd, part, sizeof(part))) > 0)
		frames_glance(&g, part, (size_t)n);
	return g.seen;
}

/* ---- who still runs ---- */

static void mark_living(struct backend_array *a, uint64_t job, uint64_t task)
{
	if (task >= a->count)
		return;
	a->job = job;
	a->has[task] = was_put(a, task);
}

static void read_queue(struct backend_array *a, const char *text)
{
	uint64_t job, task;
	char comment[96];

	(void)snprintf(comment, sizeof(comment), SLURM_COMMENT "%s.%llu", a->name,
		       (unsigned long long)a->seq);
	while (slurm_text_queue(&text, comment, &job, &task))
		mark_living(a, job, task);
}

/* Where there is accounting, it knows of tasks that squeue has not listed for a moment. */
static void ask_accounting(struct backend_array *a)
{
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	const char *argv[] = { NULL,
			       "-n",
			       "-X",
			       "-P",
			       "--array",
			       "-o",
			       "JobID,State",
			       "-j",
			       arena_printf(a->plan->arena, "%llu", (unsigned long long)a->job),
			       NULL };
	struct err unused = { 0 };
	uint64_t job, task;
	const char *text;

	if (!a->job || !argv[8] || slurm_program(a->plan, "sacct", &argv[0], &unused) < 0 ||
	    slurm_ask(a->plan, argv, NULL, ASK_S, &out, &unused) < 0 || !out.len)
		return;
	text = buf_str(&out);
	while (slurm_text_account(&text, &job, &task))
		mark_living(a, job, task);
}

/* Another cluster's squeue would say that nothing runs. */
static int check_cluster(struct backend_array *a, struct err *e)
{
	char here[SLURM_NAME_ROOM], there[SLURM_NAME_ROOM];

	if (slurm_cluster(a->plan, here, e) < 0)
		return err_wrap(e, "cannot ask which runs of this batch still run");
	if (!slurm_spool_cluster(a->folder, there) || str_eq(here, there))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, EXDEV, "resume it where that cluster is",
			  "this batch was submitted to cluster '%s', and this is '%s'", there,
			  here);
}

static int ask_queue(struct backend_array *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT((size_t)64 << 20);
	/* All: of partitions that are hidden, too. */
	const char *argv[] = { NULL, "--me", "-a", "-h", "-r", "-o", "%F %K %k", NULL };

	if (check_cluster(a, e) < 0)
		return -e->code;
	if (slurm_program(a->plan, "squeue", &argv[0], e) < 0 ||
	    slurm_ask(a->plan, argv, NULL, ASK_S, &out, e) < 0)
		return err_wrap(e, "cannot ask which runs of this batch still run");
	read_queue(a, buf_str(&out));
	ask_accounting(a);
	for (uint64_t i = 0; i < a->count; i++)
		a->has[i] |= was_put(a, i) && slurm_has_report(a->wave, i);
	return 0;
}

/* ---- opening ---- */

static void array_cancel(struct backend_array *a)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char *argv[] = { NULL,
			       arena_printf(a->plan->arena, "%llu", (unsigned long long)a->job),
			       NULL };
	struct err unused = { 0 };

	if (a->job && argv[1] && slurm_program(a->plan, "scancel", &argv[0], &unused) == 0)
		(void)slurm_ask(a->plan, argv, NULL, ASK_S, &out, &unused);
}

static void array_close(struct backend_array *a, bool keep)
{
	char name[80];

	(void)snprintf(name, sizeof(name), "array-%s", a->name);
	if (a->folder >= 0 && !keep)
		(void)tree_remove(a->state, name);
	(void)fd_close(a->wave);
	(void)fd_close(a->folder);
	(void)fd_close(a->state);
	slurm_nodes_done(&a->nodes);
	(void)slurm_plan_free(a->plan);
	free(a);
}

static int slurm_array_open_folder(struct backend_array *a, struct err *e)
{
	char path[PATH_MAX], name[80];

	(void)snprintf(name, sizeof(name), "array-%s", a->name);
	a->state = state_open(SLURM_FOLDER, path, sizeof(path), e);
	if (a->state < 0)
		return -e->code;
	if (mkdirat(a->state, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make '%.200s/%s'", path, name);
	if (snprintf(a->path, sizeof(a->path), "%s/%s", path, name) >= (int)sizeof(a->path))
		return err_errno(e, -ENAMETOOLONG, "cannot open '%.200s'", path);
	a->folder = far_spool_open(a->path);
	if (a->folder < 0)
		return err_errno(e, a->folder, "cannot use '%.200s'", a->path);
	(void)futimens(a->folder, NULL); /* this batch asks for it: prune leaves it */
	return 0;
}

static int make_plan(struct backend_array *a, const struct spec *s, struct err *e)
{
	static const char *const argv[] = { "true", NULL };
	CLEANUP(spec) struct spec *copy = spec_clone(s, e);

	if (!copy)
		return -e->code;
	copy->command.argv = argv;
	return slurm_check(copy, e) < 0 ? -e->code : slurm_plan(copy, &a->plan, NULL, e);
}

static int array_open(const struct spec *s, const char *name, struct backend_array **ret,
		      struct err *e)
{
	struct backend_array *a = calloc(1, sizeof(*a));
	struct err unused = { 0 };

	if (!a)
		return err_nomem(e);
	a->state = a->folder = a->wave = -1;
	a->nodes = (struct slurm_nodes){ .unfit = BUF_INIT(SLURM_TEXT_MAX), .why = BUF_INIT(1024) };
	(void)snprintf(a->name, sizeof(a->name), "%s", name);
	if (make_plan(a, s, e) < 0 || slurm_nodes_fit(a->plan, &a->nodes, e) < 0 ||
	    slurm_array_open_folder(a, e) < 0 || (read_wave(a) && ask_queue(a, e) < 0)) {
		array_close(a, true); /* what may still run stays as it is */
		return -e->code;
	}
	slurm_narrow(a->plan, &a->nodes.facts);
	(void)slurm_prune(false, NULL, NULL, &unused);
	*ret = a;
	return 0;
}

/* ---- a wave ---- */

static int ask_size(struct backend_array *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	const char *argv[] = { NULL, "show", "config", NULL };
	char name[SLURM_NAME_ROOM];
	int r;

	if (slurm_program(a->plan, "scontrol", &argv[0], e) < 0 ||
	    slurm_ask(a->plan, argv, NULL, ASK_S, &out, e) < 0)
		return -e->code;
	slurm_text_cluster(buf_str(&out), name);
	r = write_file(a->folder, "cluster", name, strlen(name));
	if (r < 0 && r != -EEXIST)
		return err_errno(e, r, "cannot write '%.200s/cluster'", a->path);
	a->most = slurm_text_arrays(buf_str(&out));
	if (!a->most || a->most > WAVE_MAX)
		a->most = WAVE_MAX;
	return a->most >= 2 ? 0
			    : err_set(e, ERR_UNAVAILABLE, EXDEV, "this Slurm takes no job arrays");
}

/* What the node that was asked says of it. */
static bool slurm_array_is_same(const struct backend_array *a, const char *text)
{
	struct far_place here, there;
	char boot[FAR_BOOT_SIZE];
	const char *at;
	uint64_t v[3];
	size_t n;

	if (!slurm_text_place(text, v, &at, &n))
		return false;
	there = (struct far_place){ .dev = v[0], .ino = v[1], .type = v[2] };
	far_boot(boot);
	return far_place_look(a->path, &here) == 0 &&
	       far_place_same(&here, &there, n && n == strlen(boot) && memcmp(boot, at, n) == 0);
}

static int ask_node(struct backend_array *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char **argv = slurm_srun(a->plan, a->name, buf_str(&a->nodes.unfit));
	size_t n = 0;

	if (!argv)
		return err_nomem(e);
	while (argv[n])
		n++;
	argv[n++] = "where";
	argv[n++] = a->path;
	argv[n] = NULL;
	if (slurm_ask(a->plan, argv, NULL, PLACE_S, &out, e) < 0)
		return -e->code;
	a->shared = slurm_array_is_same(a, buf_str(&out));
	return a->shared ? 0
			 : err_refuse(e, ERR_UNAVAILABLE, EXDEV,
				      "give brig's state a place that they share: XDG_STATE_HOME",
				      "'%.200s' is not on a file system that the nodes share",
				      a->path);
}

static int array_begin(struct backend_array *a, uint64_t first, uint64_t *most, struct err *e)
{
	char name[24];

	if (!a->shared && (ask_size(a, e) < 0 || ask_node(a, e) < 0))
		return -e->code;
	(void)snprintf(name, sizeof(name), "%llu", (unsigned long long)a->seq);
	a->wave = fd_close(a->wave);
	(void)tree_remove(a->folder, name);
	a->seq++;
	(void)snprintf(name, sizeof(name), "%llu", (unsigned long long)a->seq);
	if (mkdirat(a->folder, name, 0700) < 0)
		return err_sys(e, "cannot make '%.200s/%s'", a->path, name);
	if (open_wave(a) < 0)
		return err_sys(e, "cannot open '%.200s'", a->spool);
	memset(a->has, 0, sizeof(a->has));
	a->first = first;
	a->count = a->job = 0;
	*most = a->most;
	return 0;
}

/* The input from its beginning, as frames behind the request. */
static int put_input(struct frames *c, int input)
{
	struct frames_command *k = frames_begin(c, FAR_RUN);
	int fd = fcntl(input, F_DUPFD_CLOEXEC, 3), r;

	if (!k || fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -EIO;
	r = frames_open(k, INPUT_CHANNEL, fd, true);
	while (r == 0 && !frames_closed(k))
		r = frames_turn(c, NULL, 0);
	return r;
}

static int write_ask(const struct far_request *q, int fd, int input, struct err *e)
{
	const struct frames_line line = {
		.from = -1, .to = fd, .most = FAR_OUT, .newlines = true, .unanswered = true
	};
	struct frames *c = frames_on(&line, NULL, NULL);
	int r = c ? far_request_say(c, q, e) : err_nomem(e);

	if (r == 0 && (frames_turn(c, NULL, 0) < 0 || (input >= 0 && put_input(c, input) < 0)))
		r = err_set(e, ERR_UNAVAILABLE, EIO, "cannot write what a task is to run");
	(void)frames_free(c);
	return r;
}

static int array_put(struct backend_array *a, const struct spec *s, uint64_t line, int input,
		     struct err *e)
{
	CLEANUP(slurm_plan) struct backend_plan *p = NULL;
	CLEANUP(fd) int fd = -1;
	uint64_t task = line - a->first;
	char name[FAR_SPOOL_NAME];
	struct far_request q;

	if (line < a->first || task >= WAVE_MAX)
		return err_set(e, ERR_INTERNAL, ERANGE, "that line is of another wave");
	if (slurm_check(s, e) < 0 || slurm_plan(s, &p, NULL, e) < 0)
		return -e->code;
	slurm_narrow(p, &a->nodes.facts);
	far_spool_name(name, task, "ask");
	fd = openat(a->wave, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "cannot write '%.200s/%s'", a->spool, name);
	q = slurm_request(p, a->name);
	q.input = input >= 0;
	if (write_ask(&q, fd, input, e) < 0) {
		(void)unlinkat(a->wave, name, 0);
		return -e->code;
	}
	a->has[task] = 1;
	return 0;
}

/* "0-4,6,8-9%4" */
static const char *task_list(const struct backend_array *a, unsigned jobs)
{
	CLEANUP(buf) struct buf b = BUF_INIT(SLURM_TEXT_MAX);

	for (uint64_t i = 0; i < a->count; i++) {
		uint64_t to = i;

		if (!a->has[i])
			continue;
		while (to + 1 < a->count && a->has[to + 1])
			to++;
		buf_printf(&b, "%s%llu", b.len ? "," : "--array=", (unsigned long long)i);
		if (to > i)
			buf_printf(&b, "-%llu", (unsigned long long)to);
		i = to;
	}
	if (!b.len)
		return "";
	buf_printf(&b, "%%%u", jobs);
	return b.failed ? NULL : arena_strdup(a->plan->arena, buf_str(&b));
}

static const char **sbatch(const struct backend_array *a, const char *list, struct err *e)
{
	struct arena *m = a->plan->arena;
	const char **v = arena_alloc(m, 96 * sizeof(*v));
	const char *nodes = a->plan->slurm.nodelist;
	size_t n = 1;

	if (!v) {
		(void)err_nomem(e);
		return NULL;
	}
	if (slurm_program(a->plan, "sbatch", &v[0], e) < 0)
		return NULL;
	/* The short environment that sbatch itself has from us. With NONE the node would run the
	 * user's login shell before each task, and give the task what that has set. */
	v[n++] = "--export=ALL";
	for (size_t i = 0; a->plan->options[i]; i++)
		v[n++] = a->plan->options[i];
	n += slurm_wants(a->plan, v + n);
	v[n++] = "--parsable";
	v[n++] = "--no-requeue"; /* a run is brig's to repeat */
	v[n++] = "--input=/dev/null";
	v[n++] = "--output=/dev/null";
	v[n++] = "--error=/dev/null";
	v[n++] = list;
	v[n++] = arena_printf(m, "--comment=" SLURM_COMMENT "%s.%llu", a->name,
			      (unsigned long long)a->seq);
	if (nodes && !strpbrk(nodes, ",["))
		v[n++] = arena_printf(m, "--nodelist=%s", nodes);
	if (a->nodes.unfit.len)
		v[n++] = arena_printf(m, "--exclude=%s", buf_str(&a->nodes.unfit));
	v[n++] = arena_printf(m, "%s/script", a->spool);
	v[n++] = "task";
	v[n++] = a->spool;
	for (size_t i = 0; i < n; i++)
		if (!v[i]) {
			(void)err_nomem(e);
			return NULL;
		}
	return v;
}

/* The kernel executes brig itself: no shell reads a word of this. */
static int write_script(const struct backend_array *a, struct err *e)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "#!%s " SLURM_ENTRY "\n", a->plan->slurm.brig), r;

	if (n > 120)
		return err_refuse(e, ERR_UNAVAILABLE, EXDEV, "a shorter slurm.brig",
				  "the path of brig on the nodes is too long for a job script");
	r = write_file(a->wave, "script", text, (size_t)n);
	return r < 0 ? err_errno(e, r, "cannot write '%.200s/script'", a->spool) : 0;
}

static int array_submit(struct backend_array *a, uint64_t lines, unsigned jobs, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	const char *list, **argv;
	char number[24];

	a->count = lines < WAVE_MAX ? lines : WAVE_MAX;
	list = task_list(a, jobs);
	if (!list)
		return err_nomem(e);
	if (write_script(a, e) < 0 || write_wave(a, e) < 0)
		return -e->code;
	if (!*list)
		return 0;
	argv = sbatch(a, list, e);
	if (!argv || slurm_ask(a->plan, argv, NULL, ASK_S, &out, e) < 0)
		return -e->code;
	(void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(buf_str(&out), ";\n"),
		       buf_str(&out));
	if (num_count(number, &a->job) < 0 || !a->job)
		return err_set(e, ERR_UNAVAILABLE, EPROTO, "sbatch did not say which job it made");
	return write_wave(a, e);
}

static uint64_t array_end(const struct backend_array *a)
{
	return a->first + a->count;
}

static bool array_find(const struct backend_array *a, uint64_t line, struct slurm_spec *ret)
{
	if (line < a->first || line - a->first >= a->count || !a->has[line - a->first])
		return false;
	ret->spool = a->spool;
	ret->array = a->job;
	ret->holds = a->plan->slurm.holds;
	ret->task = line - a->first;
	return true;
}

const struct array_ops slurm_array = {
	.open = array_open,
	.begin = array_begin,
	.put = array_put,
	.submit = array_submit,
	.end = array_end,
	.find = array_find,
	.cancel = array_cancel,
	.close = array_close,
};

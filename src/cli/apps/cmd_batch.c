/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_batch.c - "batch": many runs from one file of JSON lines. */
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "apps/batch/batch.h"
#include "base/bytes/json.h"
#include "base/files/exposed.h"
#include "base/sys/clock.h"
#include "base/sys/signals.h"
#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "cli/progress.h"
#include "sandbox/manager.h"

#define FILE_MAX ((size_t)1 << 30)
#define RETRIES 2
#define REPEAT_MAX 1000000

enum { EXIT_SOME_FAILED = 1, EXIT_INTERRUPTED = 130 };

enum batch_option { OPT_OUT, OPT_JOBS, OPT_RETRIES, OPT_RETRY_ON, OPT_MAX_FAILURES, OPT_COUNT };

static const char *const option_names[OPT_COUNT] = {
	[OPT_OUT] = "--out",
	[OPT_JOBS] = "--jobs",
	[OPT_RETRIES] = "--retries",
	[OPT_RETRY_ON] = "--retry-on",
	[OPT_MAX_FAILURES] = "--max-failures",
};

struct batch_cli {
	const char *own[OPT_COUNT];
	bool resume, terminal, shown;
	struct spec *spec;
	struct buf text;
	struct batch_options o;
};

/* ---- options ---- */

/* 1: it was one of ours; *at is moved over its value. */
static int cmd_batch_own_option(void *arg, int argc, char **argv, int *at, struct err *e)
{
	struct batch_cli *b = arg;

	if (str_eq(argv[*at], "--resume"))
		return b->resume = true, 1;
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct own_option o = { "batch", option_names[i],
					      i == OPT_JOBS ? "-j" : NULL };
		int r = own_option_value(&o, argc, argv, at, &b->own[i], e);

		if (r)
			return r;
	}
	return 0;
}

static int cmd_batch_number(const struct batch_cli *b, enum batch_option i, uint64_t least,
			    uint64_t most, uint64_t *ret, struct err *e)
{
	const char *text = b->own[i];

	if (text && (num_count(text, ret) < 0 || *ret < least || *ret > most))
		return err_set(e, ERR_USAGE, EINVAL, "%s '%.40s' is not a number from %llu to %llu",
			       option_names[i], text, (unsigned long long)least,
			       (unsigned long long)most);
	return 0;
}

static unsigned cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return n < 1 ? 1 : n > BATCH_JOBS_MAX ? BATCH_JOBS_MAX : (unsigned)n;
}

static int take_options(struct batch_cli *b, struct err *e)
{
	uint64_t jobs = cpus(), retries = RETRIES;
	struct batch_options *o = &b->o;

	if (cmd_batch_number(b, OPT_JOBS, 1, BATCH_JOBS_MAX, &jobs, e) < 0 ||
	    cmd_batch_number(b, OPT_RETRIES, 0, 100, &retries, e) < 0 ||
	    cmd_batch_number(b, OPT_MAX_FAILURES, 1, UINT64_MAX, &o->max_failures, e) < 0 ||
	    batch_classes_read(b->own[OPT_RETRY_ON] ? b->own[OPT_RETRY_ON] : "unavailable,lost",
			       &o->retry_on, e) < 0)
		return -e->code;
	o->jobs = (unsigned)jobs;
	o->retries = (unsigned)retries;
	o->out = b->own[OPT_OUT];
	o->resume = b->resume;
	if (b->resume && !o->out)
		return err_refuse(e, ERR_USAGE, EINVAL, "--out DIR names the batch",
				  "--resume without --out");
	return 0;
}

/* ---- what it runs ---- */

/* A pipe with a name may have been planted, and nobody may ever write to it; <(...) has none. */
static int open_lines(const char *path, struct err *e)
{
	CLEANUP(fd) int fd = exposed_open(path, O_RDONLY, e);
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(e, "cannot open '%.200s'", path);
	if (S_ISFIFO(st.st_mode) && fs.f_type != PIPEFS_MAGIC)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig batch - < PIPE reads from one",
				  "'%.200s' is a named pipe", path);
	(void)fcntl(fd, F_SETFL, 0);
	return TAKE_FD(fd);
}

static int cmd_batch_read_all(const char *path, struct buf *text, struct err *e)
{
	CLEANUP(fd)
	int fd = str_eq(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open_lines(path, e);
	char part[65536];
	ssize_t n;

	if (fd < 0)
		return str_eq(path, "-") ? err_sys(e, "cannot read standard input") : -e->code;
	while ((n = read(fd, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(text, part, (size_t)n);
	if (n < 0)
		return err_sys(e, "cannot read '%.200s'", path);
	return text->failed ? err_refuse(e, ERR_USAGE, EFBIG, "split it",
					 "'%.200s' is larger than 1 GiB", path)
			    : 0;
}

/* What no line could run with is said once, and before anything runs. */
static int try_plan(const struct spec *s, struct err *e)
{
	const char *const argv[] = { "true", NULL };
	brig_request *q = request_from(s);
	CLEANUP(mem) char *plan = NULL;
	struct brig_error be;
	int r = 0;

	if (!q)
		return err_nomem(e);
	if (brig_request_argv(q, argv, &be) < 0 || brig_request_plan(q, &plan, &be) < 0) {
		error_import(&be, e);
		r = -e->code;
	}
	brig_request_free(q);
	return r;
}

/* 1: help was printed. */
static int cmd_batch_prepare(struct batch_cli *b, const struct subcommand *c, int argc, char **argv,
			     struct err *e)
{
	struct spec *s = b->spec;
	int rest = 0, r;

	if (own_options_take(&argc, argv, cmd_batch_own_option, b, e) < 0)
		return -e->code;
	r = options_parse(c, s, argc, argv, &rest, e);
	if (r > 0) {
		(r > 1 ? help_all : help_command)(c);
		return 1;
	}
	if (r < 0 || take_options(b, e) < 0)
		return -e->code;
	if (!argv[rest] || argv[rest + 1])
		return err_refuse(e, ERR_USAGE, EINVAL, "brig batch FILE --out DIR",
				  "batch takes one file of JSON lines, or -");
	if (s->command.tty)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave it out",
				  "batch has no use for --tty");
	if (cli_load(s, e) < 0)
		return -e->code;
	if (try_plan(s, e) < 0 || cmd_batch_read_all(argv[rest], &b->text, e) < 0)
		return -e->code;
	b->o.spec = s;
	b->o.text = b->text.data;
	b->o.size = b->text.len;
	return 0;
}

/* ---- progress ---- */

static void time_left(const struct batch_count *c, uint64_t us, char *out, size_t n)
{
	uint64_t new = c->done - c->before, left;

	*out = '\0';
	if (!new || c->done >= c->lines)
		return;
	left = us / new *(c->lines - c->done) / 1000000;
	(void)snprintf(out, n, ", %llu:%02llu left", (unsigned long long)left / 60,
		       (unsigned long long)left % 60);
}

static void cmd_batch_show(void *arg, const struct batch_count *c)
{
	struct batch_cli *b = arg;
	uint64_t us = clock_us() - c->since_us, new = c->done - c->before;
	char left[48], line[192];

	if (!b->terminal)
		return;
	time_left(c, us, left, sizeof(left));
	(void)snprintf(line, sizeof(line),
		       "%llu of %llu done, %llu failed, %llu running, %llu a second%s",
		       (unsigned long long)c->done, (unsigned long long)c->lines,
		       (unsigned long long)c->failed, (unsigned long long)c->running,
		       (unsigned long long)(us ? new * 1000000 / us : 0), left);
	progress_line(line);
	b->shown = true;
}

static void cmd_batch_note(void *arg, const char *text)
{
	const struct batch_cli *b = arg;

	if (!b->spec->cli.quiet)
		message_print("brig: note", text);
}

static void print_json(const struct batch_count *c, enum batch_end how)
{
	static const char *const ends[] = { "ended", "stopped", "interrupted" };
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	struct json j;

	json_init(&j, &text, true);
	json_object(&j);
	json_kstr(&j, "end", ends[how]);
	json_ku64(&j, "lines", c->lines);
	json_ku64(&j, "done", c->done);
	json_ku64(&j, "failed", c->failed);
	json_ku64(&j, "quarantined", c->taken);
	json_ku64(&j, "resumed", c->before);
	json_ku64(&j, "retries", c->retries);
	json_ku64(&j, "duration_ms", (clock_us() - c->since_us) / 1000);
	json_kobject(&j, "classes");
	for (int i = 0; i < BATCH_CLASSES; i++)
		if (c->by[i])
			json_ku64(&j, batch_class_name((enum batch_class)i), c->by[i]);
	json_object_end(&j);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&text));
}

static void cmd_batch_say_end(const struct batch_cli *b, const struct batch_count *c,
			      enum batch_end how)
{
	CLEANUP(buf) struct buf text = BUF_INIT(1024);
	uint64_t now = 0;

	buf_printf(&text, "%llu of %llu %s done, %llu failed", (unsigned long long)c->done,
		   (unsigned long long)c->lines, b->o.argv ? "runs" : "lines",
		   (unsigned long long)c->failed);
	for (int i = BATCH_EXIT, n = 0; i < BATCH_CLASSES; i++)
		if (c->by[i]) {
			buf_printf(&text, "%s%s %llu", n++ ? ", " : ": ",
				   batch_class_name((enum batch_class)i),
				   (unsigned long long)c->by[i]);
			now += c->by[i];
		}
	if (c->failed > now)
		buf_printf(&text, "%s%llu before the resume", now ? ", " : ": ",
			   (unsigned long long)(c->failed - now));
	if (c->taken)
		buf_printf(&text, "; %llu left something that went to quarantine",
			   (unsigned long long)c->taken);
	message_log(c->failed || c->taken ? PRIORITY_WARNING : PRIORITY_INFO, "brig",
		    buf_str(&text));
	if (how == BATCH_STOPPED && c->done < c->lines)
		message_print("hint", b->o.max_failures
					      ? "it was stopped by --max-failures"
					      : "it was stopped: none of the first lines could be "
						"run; the results say why");
	if (how != BATCH_ENDED && b->o.out)
		message_print("hint", "the same command with --resume goes on with it");
}

/* ---- the command ---- */

static int execute(struct batch_cli *b, struct err *e)
{
	struct batch_count c = { 0 };
	enum batch_end how = BATCH_ENDED;
	int r;

	b->terminal = isatty(STDERR_FILENO) && !b->spec->cli.quiet && !b->spec->cli.json;
	b->o.progress = cmd_batch_show;
	b->o.note = cmd_batch_note;
	b->o.arg = b;
	signals_ignore_pipe();
	b->o.signals = signals_open(SIGNALS_END);
	r = batch_run(&b->o, &c, &how, e);
	if (b->shown)
		progress_clear();
	if (r < 0)
		return r;
	if (!b->spec->cli.quiet)
		cmd_batch_say_end(b, &c, how);
	if (b->spec->cli.json && b->o.out)
		print_json(&c, how);
	return how == BATCH_INTERRUPTED       ? EXIT_INTERRUPTED
	       : c.failed || c.done < c.lines ? EXIT_SOME_FAILED
					      : 0;
}

static int cmd_batch_run(const struct subcommand *c, int argc, char **argv)
{
	struct batch_cli b = { .text = BUF_INIT(FILE_MAX) };
	struct err e = { 0 };
	int r;

	b.spec = spec_new(&e);
	r = b.spec ? cmd_batch_prepare(&b, c, argc, argv, &e) : -e.code;
	if (r == 0)
		r = execute(&b, &e);
	else if (r > 0)
		r = 0;
	if (r < 0) {
		error_print(&e);
		r = EXIT_BRIG;
	}
	buf_done(&b.text);
	(void)spec_free(b.spec);
	return r;
}

int batch_repeat(struct spec *s, const char *array, struct err *e)
{
	const char *jobs = strchr(array, '%');
	char count[24] = "";
	struct batch_cli b = { .text = BUF_INIT(1),
			       .spec = s,
			       .own = { [OPT_JOBS] = jobs ? jobs + 1 : NULL } };

	(void)snprintf(count, sizeof(count), "%.*s", (int)strcspn(array, "%"), array);
	if (num_count(count, &b.o.repeat) < 0 || b.o.repeat < 1 || b.o.repeat > REPEAT_MAX)
		return err_refuse(
			e, ERR_USAGE, EINVAL, "such as --array 100, or 100%8: 8 at a time",
			"--array '%.40s' is not a number from 1 to %d", array, REPEAT_MAX);
	if (take_options(&b, e) < 0)
		return -e->code;
	if (s->command.tty)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave one of them out",
				  "--array and --tty exclude each other");
	b.o.spec = s;
	b.o.argv = s->command.argv;
	return try_plan(s, e) < 0 ? -e->code : execute(&b, e);
}

static const char *cmd_batch_word(size_t i)
{
	static const char *const words[] = { "--out",      "--jobs",         "--retries",
					     "--retry-on", "--max-failures", "--resume" };

	return i < ARRAY_LEN(words) ? words[i] : NULL;
}

const struct subcommand cmd_batch = {
	.name = "batch",
	.usage = "[OPTION...] [--out DIR] [--jobs N] (FILE | -)",
	.help = "run every line of a file of JSON lines, with retries and resume",
	.about =
		"A line has argv, shell, python (with args) or script (with interpreter, params);\n"
		"stdin, env, timeout; id and meta, which come back; settings, which may tighten:\n"
		"  {\"argv\": [\"make\", \"test\"], \"timeout\": \"2m\", \"id\": \"a\"}\n"
		"\n"
		"  --out DIR           results and a ledger go there; else results to stdout\n"
		"  --resume            go on with the batch in DIR after a crash or Ctrl-C\n"
		"  -j, --jobs N        at a time; by default as many as there are CPUs\n"
		"  --retries N         more attempts of a line (2)\n"
		"  --retry-on CLASS    exit, signal, timeout, oom, limit, unavailable, lost, with\n"
		"                      commas (unavailable,lost)\n"
		"  --max-failures N    stop after so many lines have failed\n",
	.exits = "0; 1 some lines failed; 125 it could not be run; 130 interrupted",
	.letters = "j",
	.fields = CMD_RUN,
	.permute = true,
	.word = cmd_batch_word,
	.run = cmd_batch_run,
};

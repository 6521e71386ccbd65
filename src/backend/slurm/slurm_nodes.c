/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_nodes.c - which nodes have a brig that fits: of this version, and able to
 * make a native sandbox there.
 *
 * Every node that is free is asked at once, by one job that runs brig's own word for it; who is
 * busy is asked when it is its turn, by the run itself. What was found is remembered for some
 * minutes. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/slurm/slurm.h"
#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define FRESH_S 300
#define ASK_S 15
#define PROBE_S 30
#define ASKED_MAX 64
#define NAME_ROOM 128
#define CACHE_MAX ((size_t)256 << 10)

/* ---- names ---- */

static bool slurm_nodes_listed(const struct buf *b, const char *name, size_t n)
{
	const char *at = buf_str(b);

	for (size_t k; *at; at += k + (at[k] == ',')) {
		k = strcspn(at, ",");
		if (k == n && memcmp(at, name, n) == 0)
			return true;
	}
	return false;
}

static void add_name(struct buf *b, const char *name, size_t n)
{
	if (!n || n >= NAME_ROOM || slurm_nodes_listed(b, name, n))
		return;
	if (b->len)
		buf_putc(b, ',');
	buf_add(b, name, n);
}

static size_t count_names(const struct buf *b)
{
	size_t n = b->len > 0;

	for (size_t i = 0; i < b->len; i++)
		n += b->data[i] == ',';
	return n;
}

/* ---- what is remembered ---- */

static void cache_name(const struct backend_plan *p, char out[SHA256_HEX])
{
	const char *conf = getenv("SLURM_CONF");
	const char *parts[] = { BRIG_VERSION,        conf,
				p->slurm.partition,  p->slurm.nodelist,
				p->slurm.constraint, p->slurm.brig };
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		sha256_add(&h, parts[i] ? parts[i] : "", (parts[i] ? strlen(parts[i]) : 0) + 1);
	sha256_end(&h, digest);
	sha256_hex(digest, out);
}

/* Numbers of what a run may take. */
static bool recall_facts(const char *text, struct slurm_facts *f)
{
	uint64_t *const at[] = { &f->max_seconds, &f->default_seconds, &f->max_mib,
				 &f->max_cpu_mib, &f->max_cpus,        &f->most_gpus };
	uint64_t v[ARRAY_LEN(at) + 2] = { 0 };
	char word[24];

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		size_t k = strcspn(text, " \n");

		(void)snprintf(word, sizeof(word), "%.*s", (int)(k < 20 ? k : 0), text);
		if (num_count(word, &v[i]) < 0)
			return false;
		if (i < ARRAY_LEN(at))
			*at[i] = v[i];
		text += k + (text[k] == ' ');
	}
	f->holds_memory = v[ARRAY_LEN(at)];
	f->holds_cpus = v[ARRAY_LEN(at) + 1];
	return true;
}

static void remember_facts(const struct slurm_facts *f, struct buf *text)
{
	const uint64_t v[] = { f->max_seconds, f->default_seconds, f->max_mib,      f->max_cpu_mib,
			       f->max_cpus,    f->most_gpus,       f->holds_memory, f->holds_cpus };

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		buf_printf(text, "%s%llu", i ? " " : "", (unsigned long long)v[i]);
	buf_putc(text, '\n');
}

/* FIT COUNT, the unfit with commas, why, what a run may take: four lines. */
static bool recall(const char *name, struct slurm_nodes *n)
{
	CLEANUP(fd) int folder = state_find(SLURM_FOLDER, NULL, 0);
	CLEANUP(fd)
	int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(mem) char *text = malloc(CACHE_MAX);
	uint64_t fit, count;
	char *second;
	struct stat st;
	ssize_t got;
	char *line;

	if (fd < 0 || !text || fstat(fd, &st) < 0 || st.st_mtime > time(NULL) ||
	    time(NULL) - st.st_mtime > FRESH_S)
		return false;
	got = read(fd, text, CACHE_MAX - 1);
	text[got > 0 ? got : 0] = '\0';
	line = strchr(text, '\n');
	second = strchr(text, ' ');
	if (!line || !second || second > line)
		return false;
	*line = *second = '\0';
	if (num_count(text, &fit) < 0 || num_count(second + 1, &count) < 0)
		return false;
	n->fit = (size_t)fit;
	n->count = (size_t)count;
	buf_add(&n->unfit, line + 1, strcspn(line + 1, "\n"));
	line = strchr(line + 1, '\n');
	if (line)
		buf_add(&n->why, line + 1, strcspn(line + 1, "\n"));
	line = line ? strchr(line + 1, '\n') : NULL;
	return line && recall_facts(line + 1, &n->facts);
}

static void slurm_nodes_remember(const char *name, const struct slurm_nodes *n)
{
	CLEANUP(buf) struct buf text = BUF_INIT(CACHE_MAX);
	char draft[SHA256_HEX + 16];
	struct err unused;
	CLEANUP(fd) int folder = state_open(SLURM_FOLDER, NULL, 0, &unused);
	CLEANUP(fd) int fd = -1;

	buf_printf(&text, "%zu %zu\n%s\n%s\n", n->fit, n->count, buf_str(&n->unfit),
		   buf_str(&n->why));
	remember_facts(&n->facts, &text);
	(void)snprintf(draft, sizeof(draft), "%s.%d", name, getpid());
	if (folder < 0 || text.failed)
		return;
	fd = openat(folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, text.data, text.len) < 0 ||
	    renameat(folder, draft, folder, name) < 0)
		(void)unlinkat(folder, draft, 0);
}

/* ---- asking ---- */

/* Whatever follows the word says that it does not answer, is switched off, boots or is promised to
 * somebody ("idle*", "idle~"): to ask it would take minutes. */
static bool is_free(const char *state)
{
	size_t n = strcspn(state, " \n");

	return (n == 4 && str_starts(state, "idle")) || (n == 3 && str_starts(state, "mix"));
}

/* The third word of a line of nodes. */
static uint64_t gpus_in(const char *state)
{
	size_t n = strcspn(state, " \n");

	return state[n] == ' ' ? slurm_text_gpus(state + n + 1, strcspn(state + n + 1, " \n")) : 0;
}

/* Names of nodes, one a line, with their state; `free` gets those that can be asked now, `gpus` the
 * most that one of them has. */
static int list_nodes(const struct backend_plan *p, const char *nodes, struct buf *all,
		      struct buf *free, uint64_t *gpus, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
	const char *argv[12] = { NULL, "-h", "-N", "-o", "%N %t %G %P" };
	size_t n = 5;

	if (slurm_program(p, "sinfo", &argv[0], e) < 0)
		return -e->code;
	if (p->slurm.partition) {
		argv[n++] = "-p";
		argv[n++] = p->slurm.partition;
	} else {
		argv[n++] = "-a"; /* the default one may be hidden */
	}
	if (nodes) {
		argv[n++] = "-n";
		argv[n++] = nodes;
	}
	if (slurm_ask(p, argv, NULL, ASK_S, &out, e) < 0)
		return -e->code;
	for (const char *at = buf_str(&out); *at; at += strcspn(at, "\n") + 1) {
		size_t k = strcspn(at, " \n");
		const char *state = at + k + (at[k] == ' ');
		size_t line = strcspn(at, "\n");

		/* A job that names no partition is of the default one: "main*" */
		if (p->slurm.partition || (line && at[line - 1] == '*')) {
			add_name(all, at, k);
			if (gpus && gpus_in(state) > *gpus)
				*gpus = gpus_in(state);
			if (free && is_free(state) && count_names(free) < ASKED_MAX)
				add_name(free, at, k);
		}
		if (!at[line])
			break;
	}
	return 0;
}

/* The next word of a line, and what follows it. */
static const char *next_word(const char *at, char *out, size_t room)
{
	size_t n = strcspn(at, " \n");

	(void)snprintf(out, room, "%.*s", (int)n, at);
	return at[n] == ' ' ? at + n + 1 : at + n;
}

/* What nodes say of themselves. */
struct answers {
	struct buf fit, unfit; /* names */
};

#define SAYS "brig-far "

/* Each answers "brig-far VERSION NODE ok" or "... no WHY". A node may say any name: only those
 * that were asked are heard of, and whoever is said to fit does, because the run itself is refused
 * where it does not. Nor does it matter what stands before it on its line, which another may have
 * begun and not ended. So none can speak against another. */
static void slurm_nodes_read_answer(const char *line, const struct buf *asked, struct answers *a,
				    struct slurm_nodes *n)
{
	char mark[16], version[32], node[NAME_ROOM], word[8];
	const char *rest = next_word(line, mark, sizeof(mark));

	rest = next_word(rest, version, sizeof(version));
	rest = next_word(rest, node, sizeof(node));
	rest = next_word(rest, word, sizeof(word));
	if (!str_eq(mark, "brig-far") || !*word || !slurm_nodes_listed(asked, node, strlen(node)))
		return;
	if (str_eq(version, BRIG_VERSION) && str_eq(word, "ok")) {
		add_name(&a->fit, node, strlen(node));
		return;
	}
	add_name(&a->unfit, node, strlen(node));
	if (n->why.len)
		return;
	if (!str_eq(version, BRIG_VERSION))
		buf_printf(&n->why, "node '%s' has brig %s, this is %s", node, version,
			   BRIG_VERSION);
	else
		buf_printf(&n->why, "node '%s': %.*s", node, (int)strcspn(rest, "\n"), rest);
}

static void read_answers(const char *text, const struct buf *asked, struct buf *answered,
			 struct slurm_nodes *n)
{
	struct answers a = { BUF_INIT(SLURM_TEXT_MAX), BUF_INIT(SLURM_TEXT_MAX) };

	for (const char *at = text; (at = strstr(at, SAYS)); at += strlen(SAYS))
		slurm_nodes_read_answer(at, asked, &a, n);
	buf_puts(answered, buf_str(&a.fit));
	n->fit = count_names(&a.fit);
	for (const char *at = buf_str(&a.unfit); *at;) {
		size_t k = strcspn(at, ",");

		if (!slurm_nodes_listed(&a.fit, at, k)) {
			add_name(answered, at, k);
			add_name(&n->unfit, at, k);
		}
		at += k + (at[k] == ',');
	}
	if (!n->unfit.len)
		buf_done(&n->why);
	buf_done(&a.fit);
	buf_done(&a.unfit);
}

static int probe(const struct backend_plan *p, const struct buf *free, struct buf *out,
		 struct err *e)
{
	unsigned count = (unsigned)count_names(free);
	const char *argv[24] = { p->srun,
				 "--export=NONE",
				 "--mpi=none",
				 "--chdir=/",
				 "--propagate=NONE",
				 "--job-name=brig-probe",
				 "--immediate=10",
				 "--ntasks-per-node=1",
				 "--time=1",
				 "--mem=64M",
				 "--quiet" };
	size_t n = 11;

	argv[n++] = arena_printf(p->arena, "--nodes=%u", count);
	argv[n++] = arena_printf(p->arena, "--nodelist=%s", buf_str(free));
	if (p->slurm.partition)
		argv[n++] = arena_printf(p->arena, "--partition=%s", p->slurm.partition);
	if (p->slurm.account)
		argv[n++] = arena_printf(p->arena, "--account=%s", p->slurm.account);
	if (p->slurm.qos)
		argv[n++] = arena_printf(p->arena, "--qos=%s", p->slurm.qos);
	argv[n++] = p->slurm.brig;
	argv[n++] = SLURM_ENTRY;
	argv[n++] = "probe";
	for (size_t i = 0; i < n; i++)
		if (!argv[i])
			return err_nomem(e);
	return slurm_ask(p, argv, NULL, PROBE_S, out, e);
}

/* Who was asked and is silent has no brig, unless nobody could be asked at all. */
static void judge_silent(const struct backend_plan *p, const struct buf *free,
			 const struct buf *answered, const struct err *why, struct slurm_nodes *n)
{
	bool nobody =
		!answered->len && (strstr(why->what, "mmediate") || strstr(why->what, "llocate") ||
				   strstr(why->what, "in time"));
	const char *at = buf_str(free);

	for (size_t k; !nobody && *at; at += k + (at[k] == ',')) {
		k = strcspn(at, ",");
		if (slurm_nodes_listed(answered, at, k))
			continue;
		add_name(&n->unfit, at, k);
		if (!n->why.len)
			buf_printf(&n->why, "node '%.*s' has no brig at '%s'", (int)k, at,
				   p->slurm.brig);
	}
}

static int ask_facts(const struct backend_plan *p, struct slurm_facts *f, struct err *e)
{
	static const char *const what[] = { "config", "partition" };

	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		CLEANUP(buf) struct buf out = BUF_INIT(SLURM_TEXT_MAX);
		const char *argv[] = { NULL, "-a", "show", "-o", what[i], NULL };

		if (slurm_program(p, "scontrol", &argv[0], e) < 0 ||
		    slurm_ask(p, argv, NULL, ASK_S, &out, e) < 0)
			return -e->code;
		if (i == 0)
			slurm_text_config(buf_str(&out), f);
		else
			slurm_text_partition(buf_str(&out), p->slurm.partition, f);
	}
	return 0;
}

/* Whom slurm.nodelist does not name. */
static int leave_out(const struct backend_plan *p, const struct buf *allowed, struct slurm_nodes *n,
		     struct err *e)
{
	CLEANUP(buf) struct buf all = BUF_INIT(SLURM_TEXT_MAX);
	const char *at;

	if (!p->slurm.nodelist)
		return 0;
	if (list_nodes(p, NULL, &all, NULL, NULL, e) < 0)
		return -e->code;
	at = buf_str(&all);
	for (size_t k; *at; at += k + (at[k] == ',')) {
		k = strcspn(at, ",");
		if (!slurm_nodes_listed(allowed, at, k))
			add_name(&n->unfit, at, k);
	}
	return 0;
}

int slurm_nodes_look(const struct backend_plan *p, bool anew, struct slurm_nodes *ret,
		     struct err *e)
{
	CLEANUP(buf)
	struct buf all = BUF_INIT(SLURM_TEXT_MAX), free = BUF_INIT(SLURM_TEXT_MAX),
		   out = BUF_INIT(SLURM_TEXT_MAX), answered = BUF_INIT(SLURM_TEXT_MAX);
	char name[SHA256_HEX];
	struct err why = { 0 };

	cache_name(p, name);
	if (!anew && recall(name, ret))
		return 0;
	if (list_nodes(p, p->slurm.nodelist, &all, &free, &ret->facts.most_gpus, e) < 0)
		return -e->code;
	ret->count = count_names(&all);
	if (!all.len)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
				  "sinfo lists partitions and nodes; look at slurm.partition and "
				  "slurm.nodelist",
				  "Slurm has no such node");
	if (free.len && probe(p, &free, &out, &why) < 0 && why.kind == ERR_INTERNAL) {
		*e = why;
		return -e->code;
	}
	for (size_t i = 0; i < out.len; i++) /* nor is anything hidden behind the end of a text */
		if (!out.data[i])
			out.data[i] = '\n';
	read_answers(buf_str(&out), &free, &answered, ret);
	if (!out.failed) /* else one of them has talked the others down */
		judge_silent(p, &free, &answered, &why, ret);
	ret->asked = count_names(&free);
	if (leave_out(p, &all, ret, e) < 0 || ask_facts(p, &ret->facts, e) < 0)
		return -e->code;
	if (ret->fit)
		slurm_nodes_remember(name, ret);
	return 0;
}

void slurm_nodes_done(struct slurm_nodes *n)
{
	buf_done(&n->unfit);
	buf_done(&n->why);
}

int slurm_nodes_fit(const struct backend_plan *p, struct slurm_nodes *ret, struct err *e)
{
	const char *unused;

	if (slurm_program(p, "srun", &unused, e) < 0 || slurm_nodes_look(p, false, ret, e) < 0)
		return -e->code;
	/* Slurm would say that it has no such node, or let the job wait for one. */
	if (p->want.gpus && !ret->facts.most_gpus)
		return err_refuse(e, ERR_UNAVAILABLE, ENODEV,
				  "sinfo -o '%P %G' lists them; name a partition that has some: "
				  "--set slurm.partition=NAME",
				  "backend 'slurm' cannot honour gpus: no node of %s%s%s has a GPU",
				  p->slurm.partition ? "partition '" : "the default partition",
				  p->slurm.partition ? p->slurm.partition : "",
				  p->slurm.partition ? "'" : "");
	if (ret->fit || !ret->why.len)
		return 0; /* who is busy is asked by the run itself */
	(void)err_set(e, ERR_UNAVAILABLE, ENOENT, "no node has a brig that fits: %.250s",
		      buf_str(&ret->why));
	return err_hint(e, "install brig %s on the nodes, or name it: --set slurm.brig=PATH",
			BRIG_VERSION);
}

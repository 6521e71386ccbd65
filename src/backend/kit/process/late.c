/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/late.h"

#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "backend/kit/process/start_internal.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"

/* ---- the monitor's side ---- */

int late_map_trees(struct backend_job *j, struct box_start *c, struct err *e)
{
	const struct box_plan *p = j->plan;
	uint32_t uid = p->needs_range ? ids_base(j->ids) + p->uid : p->uids[0].outside;
	uint32_t gid = p->needs_range ? ids_base(j->ids) + p->gid : p->gids[0].outside;

	for (size_t i = 0; i < p->prepared_count; i++) {
		c->prepared[i] = ids_map_tree(&p->prepared[i], uid, gid, j->ids, e);
		if (c->prepared[i] < 0)
			return -e->code;
	}
	return 0;
}

/* What must not change once the new process has the operation. */
static unsigned char op_print(const struct op *o)
{
	return (unsigned char)((unsigned)o->kind << 1 | o->writable);
}

/* What is known only while the new process is at work. A folder of the system's has to wait until
 * it was looked through; an idmapped tree until it is mapped; what covers a name, or may turn out
 * to be needless, until names are held. The words come in this order. */
static int late_leave(const struct backend_job *j, struct box_start *c, struct err *e)
{
	const struct box_plan *p = j->plan;

	c->op_count = c->looked_from = c->trees_from = c->held_from = p->op_count;
	c->skips = arena_alloc(p->arena, 1 + c->op_count); /* behind the mark */
	c->known = arena_alloc(p->arena, c->op_count);
	if (!c->skips || !c->known)
		return err_nomem(e);
	for (size_t i = 0; i < c->op_count; i++)
		c->known[i] = op_print(&p->ops[i]);
	for (size_t i = p->op_count; i-- > 0;) {
		if (p->ops[i].look != LOOK_NOT && !p->looked)
			c->looked_from = i;
		if (p->ops[i].fd_slot >= 0)
			c->trees_from = i;
		if (p->ops[i].kind == OP_COVER || p->ops[i].kind == OP_CODE)
			c->held_from = i;
	}
	for (size_t i = 0; i < p->protected_count; i++)
		if (p->protected[i].covered && p->protected[i].op < c->held_from)
			c->held_from = p->protected[i].op;
	if (c->trees_from < c->op_count && c->trees_from > c->held_from)
		c->trees_from = c->held_from;
	if (c->looked_from < c->op_count && c->looked_from > c->trees_from)
		c->looked_from = c->trees_from;
	return 0;
}

/* What the user should know of what was found since. */
static void tell_notes(const struct backend_job *j, const struct job_want *w, size_t told)
{
	for (; w->host.note && told < j->plan->note_count; told++)
		w->host.note(w->host.arg, j->plan->notes[told]);
}

/* Whatever refuses comes before the first placeholder. */
static int hold_names(struct backend_job *j, struct err *e)
{
	box_plan_look(j->plan);
	if (box_plan_names(j->plan, e) < 0 || box_plan_guard(j->plan, e) < 0)
		return -e->code;
	return protect_begin(j->plan, j->id, &j->protect, e);
}

static int complete_now(struct backend_job *j, const struct job_want *w, struct err *e)
{
	size_t told = j->plan->note_count;

	if (hold_names(j, e) < 0 || box_plan_search(j->plan, e) < 0)
		return -e->code;
	tell_notes(j, w, told);
	return protect_write_down(j->protect, e);
}

/* A child that has failed meanwhile says why itself. */
static int say_with(const struct backend_job *j, const void *what, size_t n, const int *fds,
		    size_t fd_count, struct err *e)
{
	int r = fd_send(j->control, what, n, fds, fd_count);

	return r < 0 && r != -EPIPE && r != -ECONNRESET
		       ? err_errno(e, r, "cannot tell the sandbox what to show")
		       : 0;
}

static int late_say(const struct backend_job *j, const void *what, size_t n, struct err *e)
{
	return say_with(j, what, n, NULL, 0, e);
}

static int say_skips(const struct backend_job *j, const struct box_start *c, enum late_mark mark,
		     struct err *e)
{
	c->skips[0] = mark;
	for (size_t i = 0; i < c->op_count; i++)
		c->skips[1 + i] = j->plan->ops[i].skip;
	return late_say(j, c->skips, 1 + c->op_count, e);
}

/* The texts of files that were looked at: box_text waits for them, as many at once as it has room
 * for, and none beyond the next word of another kind. */
static int say_texts(const struct backend_job *j, const struct box_start *c, size_t from, size_t to,
		     struct err *e)
{
	char room[sizeof(((struct told_texts *)0)->room)];
	size_t n = 1;

	room[0] = LATE_TEXTS;
	for (size_t i = from; i < to; i++) {
		size_t more = box_waits_for_text(c, i) ? strlen(j->plan->ops[i].data) + 1 : 0;

		if (n + more > sizeof(room)) {
			if (late_say(j, room, n, e) < 0)
				return -e->code;
			n = 1;
		}
		if (more)
			memcpy(room + n, j->plan->ops[i].data, more);
		n += more;
	}
	return n > 1 ? late_say(j, room, n, e) : 0;
}

static int say_trees(struct backend_job *j, struct box_start *c, struct err *e)
{
	const unsigned char mark = LATE_TREES;

	if (c->trees_from == c->op_count)
		return 0;
	return late_map_trees(j, c, e) < 0
		       ? -e->code
		       : say_with(j, &mark, sizeof(mark), c->prepared, j->plan->prepared_count, e);
}

/* Skips, trees and skips again, each where the child comes to it, and texts in between: a writable
 * layer is a tree in front of all files. */
static int say_found(struct backend_job *j, struct box_start *c, struct err *e)
{
	size_t trees = c->trees_from < c->held_from ? c->trees_from : c->held_from;

	if ((c->looked_from < c->op_count && say_skips(j, c, LATE_LOOKED, e) < 0) ||
	    say_texts(j, c, c->looked_from, trees, e) < 0 || say_trees(j, c, e) < 0 ||
	    say_texts(j, c, trees, c->held_from, e) < 0 || hold_names(j, e) < 0 ||
	    (c->held_from < c->op_count && say_skips(j, c, LATE_HELD, e) < 0))
		return -e->code;
	return say_texts(j, c, c->held_from, c->op_count, e);
}

static int say_op(const struct backend_job *j, const struct op *o, unsigned number, struct err *e)
{
	struct op_added one = { .mark = LATE_ADDED,
				.number = number,
				.kind = o->kind,
				.mode = o->mode,
				.writable = o->writable };
	const char *at = o->at ? o->at : o->dst;
	size_t n = strlen(at) + 1;

	if (n > sizeof(one.dst))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "path '%.64s...' is too long", at);
	memcpy(one.dst, at, n);
	return late_say(j, &one, offsetof(struct op_added, dst) + n, e);
}

/* Those from *next on; *n is how many were said before. */
static int say_added(const struct backend_job *j, size_t *next, unsigned *n, struct err *e)
{
	for (; *next < j->plan->op_count; (*next)++)
		if (!j->plan->ops[*next].skip && say_op(j, &j->plan->ops[*next], ++*n, e) < 0)
			return -e->code;
	return 0;
}

static int say_end(const struct backend_job *j, unsigned n, struct err *e)
{
	const struct op_added end = { .mark = LATE_END, .number = n };

	return late_say(j, &end, offsetof(struct op_added, dst), e);
}

/* What comes with LATE_TRUST: a file with the ends of n files, one behind the other. */
struct late_trust {
	unsigned char mark;
	size_t n, size[TRUST_FILES];
};

/* The door's program takes longer to start than most of a sandbox: its certificate is waited for
 * last. */
static int say_trust(struct backend_job *j, const struct box_start *c, const struct job_want *w,
		     struct err *e)
{
	struct late_trust word = { .mark = LATE_TRUST };
	struct trust_ends ends;
	CLEANUP(fd) int fd = -1;
	const char *pem;
	int r = 0;

	if (!c->trusts_late)
		return 0;
	pem = w->host.authority(w->host.arg, e);
	if (!pem || box_plan_trust_ends(j->plan, pem, &ends, e) < 0)
		return -e->code;
	fd = memfd_create("brig-trust", MFD_CLOEXEC);
	for (word.n = 0; fd >= 0 && r == 0 && word.n < ends.n; word.n++) {
		word.size[word.n] = ends.v[word.n].iov_len;
		r = fd_write_all(fd, ends.v[word.n].iov_base, ends.v[word.n].iov_len);
	}
	if (fd < 0 || r < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "no memory for the door's certificate");
	return say_with(j, &word, sizeof(word), &fd, 1, e);
}

static int check_known(const struct box_plan *p, const struct box_start *c, struct err *e)
{
	for (size_t i = 0; i < c->op_count; i++)
		if (c->known[i] != op_print(&p->ops[i]))
			return err_set(e, ERR_INTERNAL, EPROTO,
				       "the plan for '%.200s' changed behind the sandbox",
				       p->ops[i].dst);
	return 0;
}

/* Before the last word: only then does it choose CPUs of its own. Not sooner, since whoever is
 * woken by a word is put beside its speaker, who has more to do. */
static void move_back(pid_t child, const cpu_set_t *all)
{
	if (CPU_COUNT(all))
		(void)sched_setaffinity(child, sizeof(*all), all);
}

/* What was left for later, in the order in which the child can use it. */
int late_complete(struct backend_job *j, struct box_start *c, const struct job_want *w,
		  struct err *e)
{
	size_t told = j->plan->note_count, next = c->op_count;
	unsigned added = 0;

	if (!c->skips)
		return 0;
	box_plan_look(j->plan);
	if (say_found(j, c, e) < 0 || say_added(j, &next, &added, e) < 0 ||
	    box_plan_search(j->plan, e) < 0 || say_added(j, &next, &added, e) < 0 ||
	    check_known(j->plan, c, e) < 0)
		return -e->code;
	tell_notes(j, w, told);
	/* The command may begin with the last word: what is there before it has to be known. */
	if (protect_write_down(j->protect, e) < 0)
		return -e->code;
	move_back(j->pid, &c->cpus);
	return say_end(j, added, e) < 0 ? -e->code : say_trust(j, c, w, e);
}

int late_begin(struct backend_job *j, struct box_start *c, const struct job_want *w, struct err *e)
{
	return c->late ? late_leave(j, c, e) : complete_now(j, w, e);
}

/* ---- the new process's side ---- */

/* The next packet, whose mark must be one of those from `from` to `to`. Its size, or -code. With
 * room for descriptors, those that came. */
static ssize_t late_take(const struct box_start *c, enum late_mark from, enum late_mark to,
			 void *packet, size_t room, int *fds, size_t *fd_count, struct err *e)
{
	const int control = c->inside.control;
	const unsigned char *mark = packet;
	ssize_t n;

	if (fds)
		(void)wait_fd(control, POLLIN, 0);
	do
		n = fds ? fd_recv(control, packet, room, fds, fd_count)
			: recv(control, packet, room, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return err_set(e, ERR_INTERNAL, EPIPE, "the monitor went away");
	if (*mark < from || *mark > to)
		return err_set(e, ERR_INTERNAL, EPROTO,
			       "the monitor's word %u came where %u was waited for", *mark, from);
	return n;
}

/* Not what its mark says. */
static int late_odd(enum late_mark mark, struct err *e)
{
	return err_set(e, ERR_INTERNAL, EPROTO, "the monitor's word %u is not what it must be",
		       mark);
}

int box_held(const struct box_start *c, enum late_mark mark, struct err *e)
{
	size_t count = c->skips ? c->plan->op_count : 0;
	ssize_t n;

	if (!count)
		return 0;
	n = late_take(c, mark, mark, c->skips, 1 + count, NULL, NULL, e);
	if (n < 0)
		return -e->code;
	if (n != (ssize_t)(1 + count))
		return late_odd(mark, e);
	for (size_t i = 0; i < count; i++)
		c->plan->ops[i].skip = c->skips[1 + i];
	return 0;
}

int box_trees(const struct box_start *c, int *trees, struct err *e)
{
	size_t n = PREPARED_MAX;
	unsigned char mark;

	if (!c->late)
		return 0;
	if (late_take(c, LATE_TREES, LATE_TREES, &mark, sizeof(mark), trees, &n, e) < 0)
		return -e->code;
	return n == c->plan->prepared_count
		       ? 0
		       : err_set(e, ERR_INTERNAL, EPROTO, "not all trees came from the monitor");
}

bool box_waits_for_text(const struct box_start *c, size_t op)
{
	const struct op *o = &c->plan->ops[op];

	return c->skips && op >= c->looked_from && o->kind == OP_FILE && o->look != LOOK_NOT &&
	       !o->skip;
}

int box_text(const struct box_start *c, struct told_texts *t, const char **ret, struct err *e)
{
	if (t->at == t->n) {
		ssize_t n = late_take(c, LATE_TEXTS, LATE_TEXTS, t->room, sizeof(t->room), NULL,
				      NULL, e);

		if (n < 0)
			return -e->code;
		if (n < 2 || t->room[n - 1])
			return late_odd(LATE_TEXTS, e);
		t->at = 1;
		t->n = (size_t)n;
	}
	*ret = t->room + t->at;
	t->at += strlen(*ret) + 1;
	return 0;
}

int box_added(const struct box_start *c, struct op_added *room, struct op *ret, struct err *e)
{
	size_t head = offsetof(struct op_added, dst);
	unsigned before = room->number;
	ssize_t n;

	if (!c->skips)
		return 0;
	n = late_take(c, LATE_ADDED, LATE_END, room, sizeof(*room), NULL, NULL, e);
	if (n < 0)
		return -e->code;
	if (n < (ssize_t)head || room->number != before + (room->mark == LATE_ADDED))
		return late_odd((enum late_mark)room->mark, e);
	if (room->mark == LATE_END)
		return 0;
	if (n == (ssize_t)head || room->dst[(size_t)n - head - 1])
		return late_odd(LATE_ADDED, e);
	*ret = (struct op){ .kind = room->kind,
			    .dst = room->dst,
			    .mode = room->mode,
			    .writable = room->writable,
			    .fd_slot = -1 };
	if (ret->kind == OP_CODE) {
		ret->data = c->plan->code;
		ret->size = c->plan->code_size;
	}
	return 1;
}

static int copy_end(int from, int to, size_t n)
{
	char piece[16384];
	int r = 0;

	while (r == 0 && n) {
		size_t part = n < sizeof(piece) ? n : sizeof(piece);

		r = fd_read_all(from, piece, part);
		if (r == 0)
			r = fd_write_all(to, piece, part);
		n -= part;
	}
	return r;
}

int box_trust(const struct box_start *c, const int *files, size_t n, struct err *e)
{
	CLEANUP(fd) int from = -1;
	struct late_trust word;
	size_t came = 1;
	ssize_t got;
	int r = 0;

	if (!c->trusts_late)
		return 0;
	got = late_take(c, LATE_TRUST, LATE_TRUST, &word, sizeof(word), &from, &came, e);
	if (got < 0)
		return -e->code;
	if (got != (ssize_t)sizeof(word) || came != 1 || word.n != n)
		return late_odd(LATE_TRUST, e);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = copy_end(from, files[i], word.size[i]);
	return r < 0 ? err_errno(e, r, "cannot write the door's certificate") : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/commands.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "proc/files/files.h"

#define CHILDREN "/proc/thread-self/children"
#define LOOK_MS 1
#define QUIET_LOOKS 2 /* a list that is read while children leave may lack one that stays */
#define SIGNALS 64
#define PATIENCE_US ((uint64_t)3 * 1000 * 1000)

int commands_new(struct commands **ret, struct err *e)
{
	struct commands *t =
		mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED)
		return err_sys(e, "no room for the sandbox's commands");
	t->children = open(CHILDREN, O_RDONLY | O_CLOEXEC);
	if (t->children < 0)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "it needs CONFIG_PROC_CHILDREN; a single command needs it not",
				  "a sandbox cannot stay open here: the kernel does not tell a "
				  "process its children");
	*ret = t;
	return 0;
}

static enum place_state state_of(const struct command_place *p)
{
	return __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
}

static struct command_place *commands_find(struct commands *t, uint32_t number)
{
	for (size_t i = 0; i < t->top; i++)
		if (t->places[i].taken && t->places[i].number == number)
			return &t->places[i];
	return NULL;
}

static struct command_place *find_reaper(struct commands *t, pid_t pid)
{
	for (size_t i = 0; i < t->top; i++)
		if (t->places[i].reaper == pid)
			return &t->places[i];
	return NULL;
}

/* ---- telling ---- */

static int send_word(const struct command_terms *c, const struct supervisor_msg *m, int fd)
{
	if (!c->tell)
		return fd_send(c->control, m, sizeof(*m), &fd, fd >= 0 ? 1 : 0);
	c->tell(c->teller, m, fd);
	return 0;
}

/* A monitor that is gone is seen where it is listened to. */
static void commands_say(const struct command_terms *c, enum supervisor_said said, uint32_t number,
			 int status, const struct err *e)
{
	struct supervisor_msg m = {
		.said = said, .command = number, .status = status, .at = clock_us()
	};

	if (e)
		m.err = *e;
	(void)send_word(c, &m, -1);
}

static void say_started(const struct command_terms *c, const struct command_place *p)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_STARTED,
					  .command = p->number,
					  .at = p->started };

	(void)send_word(c, &m, -1);
}

/* Of one that has ended by then, that it ran and that it ended is one word: the monitor is woken
 * up once. */
static void say_exited(const struct command_terms *c, struct command_place *p, int status)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_EXITED,
					  .command = p->number,
					  .status = status,
					  .at = clock_us(),
					  .started = p->told_start ? 0 : p->started };

	p->told_start = true;
	(void)send_word(c, &m, -1);
}

/* What it was sent before it ran. */
static void commands_pass_on(const struct command_place *p)
{
	for (int sig = 1; sig <= SIGNALS; sig++)
		if (p->waiting >> (sig - 1) & 1)
			(void)kill(-p->command, sig);
}

/* Each word once. A command that was killed with its reaper has ended when all below it has. */
static void commands_tell(struct commands *t, const struct command_terms *c,
			  struct command_place *p)
{
	enum place_state state = state_of(p);
	bool over = !p->reaper && (!p->killed || !t->orphans);

	if (state == PLACE_FAILED && !p->told_end) {
		p->told_start = p->told_end = true;
		commands_say(c, SUPERVISOR_FAILED, p->number, 0, &p->err);
	}
	if ((state == PLACE_RUNS || (c->apart && state > PLACE_RUNS)) && !p->told_start) {
		p->told_start = true;
		say_started(c, p);
		if (state == PLACE_RUNS)
			commands_pass_on(p);
	}
	if (!p->told_end && !p->killed && state == PLACE_EXITED) {
		p->told_end = true;
		say_exited(c, p, p->status);
	}
	if (!over)
		return;
	if (!p->told_end)
		say_exited(c, p, state == PLACE_EXITED ? p->status : SIGKILL);
	commands_say(c, SUPERVISOR_ENDED, p->number, 0, NULL);
	*p = (struct command_place){ 0 };
}

/* ---- starting ---- */

int commands_full(struct err *e)
{
	if (errno != EAGAIN)
		return err_sys(e, "cannot start a process");
	return err_refuse(e, ERR_POLICY, EAGAIN, "end some, or open it with more pids",
			  "the sandbox has as many processes as it may have");
}

/* The command may have as many processes as were asked for, whatever brig's own are. */
static uint64_t nproc_of(const struct commands *t, const struct command_terms *c)
{
	uint64_t live = 0;

	for (size_t i = 0; i < t->top; i++)
		live += t->places[i].taken;
	return c->nproc ? c->nproc - COMMANDS_MAX + live : 0;
}

static int commands_spawn(struct commands *t, const struct command_terms *c,
			  const struct command_ask *a, struct err *e)
{
	struct command_place *p = NULL;
	pid_t pid;

	for (size_t i = 0; i < COMMANDS_MAX && !p; i++)
		if (i == t->top || !t->places[i].taken)
			p = &t->places[i];
	if (!p)
		return err_refuse(e, ERR_POLICY, EAGAIN,
				  "end one, or what it has left running, first",
				  "a sandbox has at most %d commands at a time", COMMANDS_MAX);
	if (p == &t->places[t->top])
		t->top++;
	*p = (struct command_place){ .taken = true, .number = a->r.command };
	pid = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0 && a->r.files)
		reaper_files(p, c, a, nproc_of(t, c));
	if (pid == 0)
		reaper_main(p, c, a, nproc_of(t, c));
	if (pid > 0) {
		p->reaper = pid; /* not before: the table is the child's as well */
		return 0;
	}
	*p = (struct command_place){ 0 };
	return commands_full(e);
}

/* The other end is opened by its master: no name is looked up. */
static int make_terminal(const struct supervisor_request *r, int *master, int *slave, struct err *e)
{
	const struct winsize size = { .ws_row = r->rows, .ws_col = r->cols };
	int off = 0;

	*master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*master < 0 || ioctl(*master, TIOCSPTLCK, &off) < 0 ||
	    (r->rows && ioctl(*master, TIOCSWINSZ, &size) < 0))
		return err_sys(e, "cannot make a terminal");
	*slave = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return *slave < 0 ? err_sys(e, "cannot open the terminal") : 0;
}

static void spawn_on_terminal(struct commands *t, const struct command_terms *c,
			      struct command_ask *a, struct err *e)
{
	struct supervisor_msg m = { .said = SUPERVISOR_TERMINAL, .command = a->r.command };
	CLEANUP(fd) int master = -1;
	int slave = -1;

	if (make_terminal(&a->r, &master, &slave, e) == 0 && send_word(c, &m, master) < 0)
		(void)err_sys(e, "cannot hand the terminal over");
	while (a->n > 1)
		(void)fd_close(a->fds[--a->n]);
	a->fds[a->n++] = slave;
	if (!e->code)
		(void)commands_spawn(t, c, a, e);
}

void commands_exec(struct commands *t, const struct command_terms *c, struct command_ask *a)
{
	const uint32_t number = a->r.command;
	struct err e = { 0 };

	if (a->n < (a->r.tty ? 1 : 3) || number == COMMAND_FIRST || commands_find(t, number))
		(void)err_set(&e, ERR_INTERNAL, EPROTO, "the command could not be read");
	else if (a->r.tty)
		spawn_on_terminal(t, c, a, &e);
	else
		(void)commands_spawn(t, c, a, &e);
	if (e.code && a->r.files && a->n > 1 + FILE_END_ANSWERS)
		file_refuse(a->fds[1 + FILE_END_ANSWERS], e.code);
	for (size_t i = 0; i < a->n; i++)
		(void)fd_close(a->fds[i]);
	if (!e.code)
		return;
	commands_say(c, SUPERVISOR_FAILED, number, 0, &e);
	commands_say(c, SUPERVISOR_ENDED, number, 0, NULL);
}

int commands_hear(int control, struct supervisor_packet *p, struct command_ask *ret)
{
	const size_t fixed = sizeof(p->ask);
	size_t n = ARRAY_LEN(ret->fds);
	ssize_t r;

	*ret = (struct command_ask){ .fds = { -1, -1, -1, -1 } };
	r = fd_recv(control, p, sizeof(*p), ret->fds, &n);
	if (r < (ssize_t)fixed || ((size_t)r > fixed && n == ARRAY_LEN(ret->fds)))
		return -EPROTO;
	ret->r = p->ask;
	ret->n = n;
	if ((size_t)r == fixed)
		return 0;
	ret->order = p->order;
	ret->size = (size_t)r - fixed;
	memmove(ret->fds + 1, ret->fds, n * sizeof(ret->fds[0]));
	ret->fds[0] = -1;
	ret->n++;
	return 0;
}

/* ---- ending ---- */

void commands_signal(struct commands *t, const struct command_terms *c, uint32_t number, int sig)
{
	struct command_place *p = commands_find(t, number);

	/* The supervisor hears none of its own, reapers only one that stops. */
	if (number == COMMAND_FIRST && c->inside && sig != SIGKILL)
		(void)kill(-1, sig);
	if (!p)
		return;
	/* A reaper's number stays its own until it is reaped here. The command's was reaped by the
	 * reaper if it has ended: then there is nobody to be signalled. */
	if (sig == SIGKILL && p->reaper)
		(void)kill(p->reaper, SIGKILL);
	else if (sig != SIGKILL && state_of(p) == PLACE_RUNS)
		(void)kill(-p->command, sig);
	else if (sig > 0 && sig <= SIGNALS && state_of(p) == PLACE_STARTING)
		p->waiting |= (uint64_t)1 << (sig - 1);
}

void commands_continue(const struct commands *t)
{
	for (size_t i = 0; i < t->top; i++) {
		const struct command_place *p = &t->places[i];

		if (!p->reaper)
			continue;
		(void)kill(p->reaper, SIGCONT);
		/* A command that is not executed yet has no number, is not to be seen, and its
		 * reaper waits for it. What somebody has stopped meanwhile goes on as well. */
		if (state_of(p) == PLACE_STARTING)
			(void)kill(-1, SIGCONT);
	}
}

/* Kills every child that is no reaper. Returns whether there was one. */
static bool kill_orphans(struct commands *t)
{
	char text[256];
	bool any = false;
	pid_t pid = 0;
	ssize_t n;

	if (lseek(t->children, 0, SEEK_SET) < 0)
		return true;
	/* Numbers with a blank behind each; one may continue in the next read. */
	while ((n = read(t->children, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0 && !find_reaper(t, pid)) {
				any = true;
				(void)kill(pid, SIGKILL);
			}
			pid = 0;
		}
	return any || n < 0;
}

static void commands_reap(struct commands *t)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct command_place *p = find_reaper(t, pid);

		if (!p)
			continue;
		p->reaper = 0;
		if (WIFEXITED(status))
			continue;
		p->killed = true;
		t->orphans = true;
		t->quiet = 0;
		t->give_up_at = clock_us() + PATIENCE_US;
	}
}

int commands_turn(struct commands *t, const struct command_terms *c)
{
	commands_reap(t);
	if (t->orphans) {
		t->quiet = kill_orphans(t) ? 0 : t->quiet + 1;
		t->orphans = t->quiet < QUIET_LOOKS;
		/* What cannot be ended one by one ends with the sandbox. */
		if (t->orphans && clock_us() > t->give_up_at)
			return -ETIME;
	}
	for (size_t i = 0; i < t->top; i++)
		if (t->places[i].taken)
			commands_tell(t, c, &t->places[i]);
	return t->orphans ? LOOK_MS : -1;
}

uint64_t commands_written(const struct commands *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->top; i++)
		if (t->places[i].reaper)
			sum += __atomic_load_n(&t->places[i].written, __ATOMIC_RELAXED);
	return sum;
}

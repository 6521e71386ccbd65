/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_turn.c - the turns of a command and of its sandbox: what each waits for follows
 * from where it is. */
#include "sandbox/run/run.h"

#include "base/sys/clock.h"
#include "base/sys/loop.h"
#include "egress/monitor.h"
#include "egress/signing.h"
#include "egress/unresolved.h"
#include "sandbox/ports/publish.h"

#define ALARM_US 1000  /* between two looks at it, each of which reads a long file */
#define AWAY_US 100000 /* between two looks whether the terminal's input is for us */

static void run_turn_on_ready(struct loop_watch *w, uint32_t events UNUSED)
{
	struct command_run *r = ((struct run_watch *)w)->r;
	enum run_source source = (enum run_source)((struct run_watch *)w - r->watches);

	/* Of what became ready together with the end only output and signals still count. */
	if (r->ended && source != RUN_OUT && source != RUN_ERR && source != RUN_SIGNAL)
		return;
	switch (source) {
	case RUN_OUT:
		pump_move(&r->out);
		feed_again(&r->in);
		break;
	case RUN_ERR:
		pump_move(&r->err);
		break;
	case RUN_IN:
	case RUN_ROOM:
		feed_move(&r->in);
		if (r->in.away)
			loop_at(r->loop, &r->back.t, clock_us() + AWAY_US);
		if (r->in.leave)
			run_leave(r);
		if (r->in.hung)
			run_hang_up(r);
		break;
	case RUN_ASK:
		run_ask_type(r->of);
		break;
	case RUN_SIGNAL:
		run_hear_signals(r);
		break;
	case RUN_CANCEL:
		run_cancel(r, 0);
		break;
	case RUN_EVENT:
		run_command_event(r);
		break;
	case RUN_SANDBOX:
		run_open_dispatch(r->of);
		break;
	case RUN_SOURCES:
		break;
	}
}

static void open_on_ready(struct loop_watch *w, uint32_t events UNUSED)
{
	struct sandbox *s = ((struct sandbox_watch *)w)->s;
	enum sandbox_source source = (enum sandbox_source)((struct sandbox_watch *)w - s->watches);

	if (s->ended && source != SANDBOX_PORTS)
		return;
	switch (source) {
	case SANDBOX_EVENT:
	case SANDBOX_ALARM:
		run_event(s, source == SANDBOX_ALARM);
		break;
	case SANDBOX_DOOR:
		run_door_turn(s);
		break;
	case SANDBOX_NAMES:
		run_names_turn(s);
		break;
	case SANDBOX_AGENT:
		signing_turn(s->signing);
		break;
	case SANDBOX_PORTS:
		publish_turn(s->ports);
		break;
	case SANDBOX_CANCEL:
		run_cancel_all(s);
		break;
	case SANDBOX_SOURCES:
		break;
	}
}

static void follow(struct loop *l, struct loop_watch *w, struct pollfd p)
{
	if (w->fd != p.fd)
		(void)loop_want(l, w, 0);
	w->fd = p.fd;
	(void)loop_want(l, w, p.fd < 0 ? 0 : (uint32_t)p.events);
}

static void run_follow(struct command_run *r, enum run_source source, struct pollfd p)
{
	follow(r->loop, &r->watches[source].w, p);
}

static void open_follow(struct sandbox *s, enum sandbox_source source, int fd, short events)
{
	follow(s->loop, &s->watches[source].w, (struct pollfd){ .fd = fd, .events = events });
}

static struct pollfd readable(int fd)
{
	return (struct pollfd){ .fd = fd, .events = POLLIN };
}

void run_open_arrange(struct sandbox *s)
{
	bool lives = !s->ended;

	s->over |= s->ended && publish_done(s->ports);
	open_follow(s, SANDBOX_EVENT, lives ? s->events : -1, POLLIN);
	open_follow(s, SANDBOX_ALARM, lives ? s->alarm : -1, POLLPRI);
	open_follow(s, SANDBOX_CANCEL, lives && !s->cancelled ? s->cancel : -1, POLLIN);
	open_follow(s, SANDBOX_DOOR, lives && s->door ? egress_fd(s->door) : -1, POLLIN);
	open_follow(s, SANDBOX_NAMES, lives ? unresolved_fd(s->unresolved) : -1, POLLIN);
	open_follow(s, SANDBOX_AGENT, lives ? signing_fd(s->signing) : -1, POLLIN);
	open_follow(s, SANDBOX_PORTS, publish_fd(s->ports), POLLIN);
	if (s->over && s->offered)
		loop_stop(s->loop);
}

void run_arrange(struct command_run *r)
{
	int asks = r->joins ? -1 : run_ask_fd(r->of);
	/* Between a question and its answer nothing of the command's is seen, and it sees nothing.
	 */
	const struct pollfd none = { .fd = -1 };

	run_follow(r, RUN_OUT, asks >= 0 ? none : pump_wants(&r->out));
	run_follow(r, RUN_ERR, asks >= 0 ? none : pump_wants(&r->err));
	run_follow(r, RUN_IN, r->ended || asks >= 0 ? none : feed_wants(&r->in));
	run_follow(r, RUN_ROOM, r->ended ? none : feed_room(&r->in));
	if (!r->joins) /* in this order: the end, and then a signal that came with it */
		run_open_arrange(r->of);
	run_follow(r, RUN_ASK, readable(asks));
	run_follow(r, RUN_EVENT, readable(r->ended ? -1 : r->events));
	run_follow(r, RUN_SIGNAL, readable(r->io.signals));
	run_follow(r, RUN_CANCEL, readable(r->ended || r->cancelled ? -1 : r->io.cancel));
	r->over |=
		r->ended && pump_done(&r->out) && pump_done(&r->err) && (r->joins || r->of->over);
	if (r->joins && r->of && r->of->carrier == r) {
		run_follow(r, RUN_SANDBOX, readable(r->ended ? -1 : loop_fd(r->of->loop)));
		if (r->ended)
			run_hand_on(r->of);
	} else {
		run_follow(r, RUN_SANDBOX, none);
	}
	if (r->over && r->offered) /* the caller may have turned another command */
		loop_stop(r->loop);
}

void run_turn(struct command_run *r, int wait_ms)
{
	if (r->over)
		return;
	loop_turn(r->loop, wait_ms);
	run_arrange(r);
}

void run_open_turn(struct sandbox *s, int wait_ms)
{
	if (s->over)
		return;
	loop_turn(s->loop, wait_ms);
	run_open_arrange(s);
}

bool run_over(const struct command_run *r)
{
	return r->over;
}

bool run_open_over(const struct sandbox *s)
{
	return s->over;
}

int run_fd(struct command_run *r)
{
	r->offered = true;
	if (r->joins && r->of && !r->ended && !r->io.apart)
		run_carry(r->of, r);
	return loop_fd(r->loop);
}

int run_open_fd(struct sandbox *s)
{
	s->offered = true;
	return loop_fd(s->loop);
}

/* The caller's own loop may have polled the alarm, which clears its event: look all the same. */
void run_look_at_alarm(struct sandbox *s)
{
	uint64_t now = clock_us();

	if (s->over || s->ended || s->alarm < 0)
		return;
	if (now - s->alarm_at < ALARM_US) {
		if (!s->again.t.at)
			loop_at(s->loop, &s->again.t, s->alarm_at + ALARM_US);
		return;
	}
	s->alarm_at = now;
	loop_at(s->loop, &s->again.t, 0);
	run_event(s, true);
}

void run_open_dispatch(struct sandbox *s)
{
	run_look_at_alarm(s);
	run_open_turn(s, 0);
}

void run_dispatch(struct command_run *r)
{
	if (!r->joins)
		run_look_at_alarm(r->of);
	else if (r->of && !r->io.apart && r->of->carrier != r)
		run_open_dispatch(r->of);
	run_turn(r, 0);
}

void run_set_watches(struct command_run *r)
{
	for (size_t i = 0; i < RUN_SOURCES; i++)
		r->watches[i] =
			(struct run_watch){ .w = { .fd = -1, .ready = run_turn_on_ready }, .r = r };
}

void run_open_set_watches(struct sandbox *s)
{
	for (size_t i = 0; i < SANDBOX_SOURCES; i++)
		s->watches[i] =
			(struct sandbox_watch){ .w = { .fd = -1, .ready = open_on_ready }, .s = s };
}

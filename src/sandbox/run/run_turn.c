/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_turn.c - the turns of a run: what it waits for follows from where it is. */
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
	struct run *r = ((struct run_watch *)w)->r;
	enum run_source source = (enum run_source)((struct run_watch *)w - r->watches);

	/* What was ready together with the end is no longer of interest, but for these. */
	if (r->ended && source != RUN_OUT && source != RUN_ERR && source != RUN_SIGNAL &&
	    source != RUN_PORTS)
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
	case RUN_EVENT:
	case RUN_ALARM:
		run_event(r, source == RUN_ALARM);
		break;
	case RUN_SIGNAL:
		run_hear_signals(r);
		break;
	case RUN_CANCEL:
		run_cancel(r, 0);
		break;
	case RUN_DOOR:
		run_door_turn(r);
		break;
	case RUN_PORTS:
		publish_turn(r->ports);
		break;
	case RUN_NAMES:
		run_names_turn(r);
		break;
	case RUN_AGENT:
		signing_turn(r->signing);
		break;
	case RUN_ASK:
		run_ask_type(r);
		break;
	case RUN_SANDBOX:
		run_dispatch(r->of);
		break;
	case RUN_SOURCES:
		break;
	}
}

static void run_turn_follow(struct run *r, enum run_source source, struct pollfd p)
{
	struct loop_watch *w = &r->watches[source].w;

	if (w->fd != p.fd)
		(void)loop_want(r->loop, w, 0);
	w->fd = p.fd;
	(void)loop_want(r->loop, w, p.fd < 0 ? 0 : (uint32_t)p.events);
}

static struct pollfd readable(int fd)
{
	return (struct pollfd){ .fd = fd, .events = POLLIN };
}

void run_arrange(struct run *r)
{
	int asks = run_ask_fd(r);
	/* Between a question and its answer nothing of the command's is seen, and it sees nothing.
	 */
	const struct pollfd none = { .fd = -1 };

	r->over |= r->ended && pump_done(&r->out) && pump_done(&r->err) && publish_done(r->ports);
	run_turn_follow(r, RUN_OUT, asks >= 0 ? none : pump_wants(&r->out));
	run_turn_follow(r, RUN_ERR, asks >= 0 ? none : pump_wants(&r->err));
	run_turn_follow(r, RUN_IN, r->ended || asks >= 0 ? none : feed_wants(&r->in));
	run_turn_follow(r, RUN_ROOM, r->ended ? readable(-1) : feed_room(&r->in));
	run_turn_follow(r, RUN_EVENT, readable(r->ended ? -1 : r->events));
	run_turn_follow(r, RUN_ALARM,
			(struct pollfd){ .fd = r->ended ? -1 : r->alarm, .events = POLLPRI });
	run_turn_follow(r, RUN_SIGNAL, readable(r->io.signals));
	run_turn_follow(r, RUN_CANCEL, readable(r->ended || r->cancelled ? -1 : r->io.cancel));
	run_turn_follow(r, RUN_DOOR, readable(r->door && !r->ended ? egress_fd(r->door) : -1));
	run_turn_follow(r, RUN_NAMES, readable(r->ended ? -1 : unresolved_fd(r->unresolved)));
	run_turn_follow(r, RUN_AGENT, readable(r->ended ? -1 : signing_fd(r->signing)));
	run_turn_follow(r, RUN_ASK, readable(asks));
	run_turn_follow(r, RUN_PORTS, readable(publish_fd(r->ports)));
	run_turn_follow(
		r, RUN_SANDBOX,
		readable(r->of && !r->ended && r->of->carrier == r ? loop_fd(r->of->loop) : -1));
	if (r->ended && r->of && r->of->carrier == r)
		run_hand_on(r->of);
	if (r->over && r->offered) /* whoever waits for it may have turned another one */
		loop_stop(r->loop);
}

void run_turn(struct run *r, int wait_ms)
{
	if (r->over)
		return;
	loop_turn(r->loop, wait_ms);
	run_arrange(r);
}

bool run_over(const struct run *r)
{
	return r->over;
}

int run_fd(struct run *r)
{
	r->offered = true;
	if (r->of && !r->ended && !r->io.apart)
		run_carry(r->of, r);
	return loop_fd(r->loop);
}

/* A loop around ours looks at the alarm as well, and its news is gone then. */
void run_look_at_alarm(struct run *r)
{
	uint64_t now = clock_us();

	if (r->over || r->ended || r->alarm < 0)
		return;
	if (now - r->alarm_at < ALARM_US) {
		if (!r->again.t.at)
			loop_at(r->loop, &r->again.t, r->alarm_at + ALARM_US);
		return;
	}
	r->alarm_at = now;
	loop_at(r->loop, &r->again.t, 0);
	run_event(r, true);
}

void run_dispatch(struct run *r)
{
	if (r->of && !r->io.apart && r->of->carrier != r)
		run_dispatch(r->of);
	run_look_at_alarm(r);
	run_turn(r, 0);
}

void run_set_watches(struct run *r)
{
	for (size_t i = 0; i < RUN_SOURCES; i++)
		r->watches[i] =
			(struct run_watch){ .w = { .fd = -1, .ready = run_turn_on_ready }, .r = r };
}

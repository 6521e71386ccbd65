/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_egress.c - the door's program: is it there, of this version, and does it start.
 *
 * Tried with the default rules and without the configuration's credentials, which may be commands
 * that somebody else should run. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "doctor/machine.h"
#include "egress/monitor.h"

static int any_port(struct err *e)
{
	const struct sockaddr_in a = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CLEANUP(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0)
		return err_sys(e, "cannot listen on loopback");
	return TAKE_FD(fd);
}

static int try_worker(struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	CLEANUP(egress) struct egress *g = NULL;
	CLEANUP(fd) int fd = s ? any_port(e) : -1;
	const struct door_socket what = { .kind = DOOR_PROXY, .port = DOOR_PROXY_PORT };

	if (!s || fd < 0 || egress_start(s, environ, &g, e) < 0 || !egress_authority(g, e) ||
	    egress_attach(g, &what, &fd, 1, e) < 0)
		return -e->code;
	return egress_await(g, 2 * HEALTH_MS, e);
}

void check_egress_worker(struct machine *m, struct finding *f)
{
	bool needed = m->spec && m->spec->network == NETWORK_PROXY;
	struct err e = { 0 };

	if (try_worker(&e) == 0) {
		finding_say(f, CHECK_PASS, "brig-egress " BRIG_VERSION " starts");
		return;
	}
	say_error(f, needed ? CHECK_FAIL : CHECK_WARN, &e);
	if (!f->hint[0])
		finding_hint(f, "install brig and brig-egress from one build; network none and "
				"host need no door");
}

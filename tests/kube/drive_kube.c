/* SPDX-License-Identifier: Apache-2.0 */
/* drive-kube: src/kube/kube.h by hand, for test_kube_client.py.
 *
 *   drive-kube [OPTION=VALUE]... place | ask METHOD PATH [BODY] | watch PATH | attach PATH | health
 *
 * Options: kubeconfig, context, namespace, label (KEY:VALUE), type, ms, times, pause (ms), again,
 * runtime. An attach ends with a line of the protocol and what the server said of the command's
 * end. Exit status 1: an error, which it prints, or the server said nothing. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"
#include "base/text/str.h"
#include "kube/kube.h"
#include "kube/kube_health.h"

struct drive {
	struct kube_want want;
	struct kube_request request;
	char label[128];
	int times, pause_ms;
	const char *runtime;
};

static int failed(const struct err *e)
{
	(void)fprintf(stderr, "error %d: %s\n", e->code, e->what);
	if (e->hint[0])
		(void)fprintf(stderr, "hint: %s\n", e->hint);
	return 1;
}

static void take_label(struct drive *d, const char *text)
{
	char *colon;

	(void)snprintf(d->label, sizeof(d->label), "%s", text);
	colon = strchr(d->label, ':');
	if (!colon)
		return;
	*colon = '\0';
	d->request.label = d->label;
	d->request.value = colon + 1;
}

static bool take_option(struct drive *d, const char *arg)
{
	const char *value = strchr(arg, '=');

	if (!value)
		return false;
	value++;
	if (str_starts(arg, "kubeconfig="))
		d->want.kubeconfig = value;
	else if (str_starts(arg, "context="))
		d->want.context = value;
	else if (str_starts(arg, "namespace="))
		d->want.namespace = value;
	else if (str_starts(arg, "label="))
		take_label(d, value);
	else if (str_starts(arg, "runtime="))
		d->runtime = value;
	else if (str_starts(arg, "type="))
		d->request.type = value;
	else if (str_starts(arg, "ms="))
		d->request.ms = (unsigned)strtoul(value, NULL, 10);
	else if (str_starts(arg, "times="))
		d->times = (int)strtol(value, NULL, 10);
	else if (str_starts(arg, "pause="))
		d->pause_ms = (int)strtol(value, NULL, 10);
	else if (str_starts(arg, "again="))
		d->request.again = true;
	else
		return false;
	return true;
}

static int ask(struct drive *d, struct kube *k, char **argv, struct err *e)
{
	CLEANUP(kube_answer) struct kube_answer a = { 0 };

	d->request.method = argv[0];
	d->request.path = argv[1];
	d->request.body = argv[2];
	for (int i = 0; i < d->times; i++) {
		if (i)
			(void)poll(NULL, 0, d->pause_ms);
		if (kube_ask(k, &d->request, &a, e) < 0)
			return failed(e);
		(void)printf("%d ", a.status);
		(void)fwrite(buf_str(&a.body), 1, a.body.len, stdout);
		(void)printf("\n");
	}
	return 0;
}

static bool copy(int from, int to)
{
	char piece[65536];
	ssize_t n = read(from, piece, sizeof(piece));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	return n > 0 && fd_write_all(to, piece, (size_t)n) == 0;
}

static int watch(struct drive *d, struct kube *k, const char *path, struct err *e)
{
	CLEANUP(fd) int fd = -1;

	if (kube_watch(k, path, d->request.ms, &fd, e) < 0)
		return failed(e);
	for (;;) {
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = 0, .events = POLLIN } };

		if (poll(p, 2, -1) < 0)
			return 1;
		if ((p[0].revents && !copy(fd, 1)) || p[1].revents)
			return 0; /* the end, or somebody closed our input */
	}
}

/* Input that does not fit waits in the socket; this one may block. */
static void pump(struct kube_streams *s, char *status, ssize_t *n)
{
	(void)fcntl(s->in, F_SETFL, 0);
	while (s->out >= 0 || s->err >= 0 || *n < 0) {
		struct pollfd p[] = { { .fd = s->in >= 0 ? 0 : -1, .events = POLLIN },
				      { .fd = s->out, .events = POLLIN },
				      { .fd = s->err, .events = POLLIN },
				      { .fd = *n < 0 ? s->status : -1, .events = POLLIN } };

		if (poll(p, 4, -1) < 0)
			return;
		if (p[0].revents && !copy(0, s->in))
			s->in = fd_close(s->in);
		if (p[1].revents && !copy(s->out, 1))
			s->out = fd_close(s->out);
		if (p[2].revents && !copy(s->err, 2))
			s->err = fd_close(s->err);
		if (p[3].revents)
			*n = recv(s->status, status, KUBE_STATUS_MAX, 0);
	}
}

static int attach(struct drive *d, struct kube *k, const char *path, struct err *e)
{
	static char status[KUBE_STATUS_MAX];
	struct kube_streams s;
	ssize_t n = -1;

	if (kube_attach(k, path, d->request.ms, &s, e) < 0)
		return failed(e);
	pump(&s, status, &n);
	(void)fprintf(stderr, "v%d %.*s\n", s.version, n > 0 ? (int)n : 0, status);
	kube_streams_done(&s);
	return n > 0 ? 0 : 1;
}

static int health(const struct drive *d)
{
	static const char *const words[] = { "pass", "warn", "fail", "skip" };
	const struct kube_health_want w = { .where = d->want,
					    .runtime_class = d->runtime,
					    .ms = d->request.ms };
	struct kube_row rows[KUBE_ROWS];

	kube_examine(&w, rows);
	for (int i = 0; i < KUBE_ROWS; i++)
		(void)printf("%s %s: %s%s%s\n", words[rows[i].state], kube_row_names[i],
			     rows[i].detail, rows[i].hint[0] ? " | " : "", rows[i].hint);
	return 0;
}

int main(int argc, char **argv)
{
	struct drive d = { .times = 1 };
	CLEANUP(kube) struct kube *k = NULL;
	struct err e = { 0 };
	int i = 1;

	while (i < argc && take_option(&d, argv[i]))
		i++;
	if (i >= argc)
		return 2;
	if (str_eq(argv[i], "health"))
		return health(&d);
	if (kube_open(&d.want, &k, &e) < 0)
		return failed(&e);
	if (str_eq(argv[i], "place")) {
		const struct kube_place *p = kube_place(k);

		(void)printf("%s\n%s\n%s\n%s\n%s\n", p->server, p->context, p->cluster,
			     p->namespace, p->user);
		return 0;
	}
	if (str_eq(argv[i], "ask") && i + 2 < argc)
		return ask(&d, k, argv + i + 1, &e);
	if (str_eq(argv[i], "watch") && i + 1 < argc)
		return watch(&d, k, argv[i + 1], &e);
	return str_eq(argv[i], "attach") && i + 1 < argc ? attach(&d, k, argv[i + 1], &e) : 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/send.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/bytes/parcel.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "proc/host_find.h"
#include "proc/host_program.h"
#include "proc/spawn.h"
#include "telemetry/senders.h"

#define PROGRAM "brig-send"
#define TIMEOUT_MS 10000
#define NICE 5
#define HEAD_MAX ((size_t)64 << 10)

/* What the sender may know of our environment. */
enum { CA_FILE };
static const char *const passed[] = { [CA_FILE] = "SSL_CERT_FILE", "SSL_CERT_DIR" };

struct send_launch {
	char program[PATH_MAX];
	char *variables[ARRAY_LEN(passed) + 1];
	int request, place;
};

static int check_header(const char *text, struct err *e)
{
	if (str_has_control(text) || !text[0])
		return err_set(e, ERR_CONFIG, EINVAL,
			       "a header to send is empty or has a control character");
	return 0;
}

int send_encode(const struct send *s, struct buf *out, struct err *e)
{
	static const char *const no_headers[] = { NULL };
	const char *const *headers = s->headers ? s->headers : no_headers;
	uint64_t timeout_ms = s->timeout_ms ? s->timeout_ms : TIMEOUT_MS;
	const char *url = s->url, *body = s->body;
	struct parcel p = parcel_to(out, SEND_MARK);
	size_t n = 0, len = s->len;
	struct url u;

	if (len > SEND_BODY_MAX)
		return err_set(e, ERR_INTERNAL, E2BIG, "%zu bytes are too many to send", len);
	if (url_parse(url, &u, e) < 0)
		return -e->code;
	for (; headers[n]; n++)
		if (check_header(headers[n], e) < 0)
			return -e->code;
	if (n > SEND_HEADERS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d headers to send",
			       SEND_HEADERS_MAX);
	parcel_text(&p, &url);
	parcel_number(&p, &timeout_ms);
	(void)parcel_texts(&p, headers, NULL);
	parcel_bytes(&p, &body, &len);
	return out->failed ? err_nomem(e) : 0;
}

/* A caller may have closed its 0, 1 or 2, which the sender's own would then overwrite. */
static int above_stdio(int fd)
{
	int moved = fd < 0 || fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (moved != fd)
		(void)fd_close(fd);
	return moved;
}

static int open_request(const struct send *s, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(SEND_BODY_MAX + HEAD_MAX);
	CLEANUP(fd) int fd = -1;
	int r;

	if (send_encode(s, &b, e) < 0)
		return -e->code;
	fd = above_stdio(memfd_create("brig-send", MFD_CLOEXEC));
	if (fd < 0)
		return err_sys(e, "no memory file for what is to be sent");
	r = fd_write_all(fd, b.data, b.len);
	if (r < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		errno = r < 0 ? -r : errno;
		return err_sys(e, "cannot keep what is to be sent");
	}
	return TAKE_FD(fd);
}

/* The rest of the environment stays here: it may hold anybody's secrets. */
static int pick_variables(struct send_launch *l, const char *ca_file, struct err *e)
{
	static const char *const folders[] = { "SSL_CERT_DIR", NULL };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
		const char *value = i == CA_FILE && ca_file ? ca_file : getenv(passed[i]);

		/* Below the current folder a command could have put roots of its own. */
		if (value && value[0] != '/') {
			(void)err_set(e, ERR_CONFIG, EINVAL,
				      "the trusted certificates '%.100s' are "
				      "no absolute path",
				      value);
			return err_hint(e, "%s needs one", passed[i]);
		}
		if (value &&
		    exposed_check("the trusted certificates", value, NULL, EXPOSED_SHARED, e) < 0)
			return -e->code;
		if (i != CA_FILE && host_check_variables(folders, e) < 0) /* it may be a list */
			return -e->code;
		if (value && asprintf(&l->variables[n], "%s=%s", passed[i], value) < 0) {
			l->variables[n] = NULL;
			return err_nomem(e);
		}
		n += value != NULL;
	}
	return 0;
}

/* Nobody has the next run wait for it. */
static int later(void)
{
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	return 0;
}

static int send_start(const struct send_launch *l, struct err *e)
{
	static const char *const argv[] = { PROGRAM, NULL };
	const struct host_program h = {
		.program = l->program,
		.argv = argv,
		.envp = (const char *const *)l->variables,
		.streams = (const int[]){ l->request, -1, -1 },
		.fds = &l->place, /* among all senders */
		.fd_count = 1,
		.first = later,
		.session = true,
		.own = true,
	};
	int r = proc_fork_away(false);

	if (r == 0)
		host_become(&h);
	return r < 0 ? err_sys(e, "cannot start '%s'", l->program) : 0;
}

int send_detached(const struct send *s, struct err *e)
{
	CLEANUP(fd) int request = -1;
	CLEANUP(fd) int place = -1;
	struct send_launch l = { 0 };
	int r;

	if (host_find_own(PROGRAM, l.program, e) < 0)
		return -e->code;
	request = open_request(s, e);
	if (request < 0)
		return request;
	place = above_stdio(senders_take(s->wait_ms, e));
	if (place < 0)
		return e->code ? -e->code : err_sys(e, "no descriptor for a sender");
	l.request = request;
	l.place = place;
	r = pick_variables(&l, s->ca_file, e);
	if (r == 0)
		r = send_start(&l, e);
	for (size_t i = 0; i < ARRAY_LEN(l.variables); i++)
		free(l.variables[i]);
	return r;
}

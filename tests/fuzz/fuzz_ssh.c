/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_ssh.c - what a remote host may say: a stream with marks in it, and a report. However
 * the stream is cut, the same output and the same lines come out of it. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/ssh/ssh.h"
#include "base/files/fd.h"

#define ID "ab"
#define END "cd"

static void feed(const uint8_t *data, size_t size, size_t cut, struct buf *shown, struct buf *said)
{
	struct relay r;
	int in[2], out[2];
	char part[4096];
	ssize_t n;

	require(pipe2(in, O_CLOEXEC) == 0);
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) == 0);
	relay_init(&r, in[0], out[1], ID);
	for (int turn = 0; turn < 3; turn++) {
		if (turn == 0)
			require(write(in[1], data, cut) == (ssize_t)cut);
		if (turn == 1)
			require(write(in[1], data + cut, size - cut) == (ssize_t)(size - cut));
		if (turn == 2)
			in[1] = fd_close(in[1]);
		while (relay_move(&r) == SAID_LINE) {
			buf_add(said, r.line.data, r.line.len);
			buf_putc(said, '|');
			if (!r.last)
				relay_expect_end(&r, END, size % 2);
		}
		while ((n = recv(out[0], part, sizeof(part), MSG_DONTWAIT)) > 0)
			buf_add(shown, part, (size_t)n);
	}
	relay_done(&r);
	(void)fd_close(out[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf shown[2] = { BUF_INIT(1 << 20), BUF_INIT(1 << 20) };
	struct buf said[2] = { BUF_INIT(1 << 20), BUF_INIT(1 << 20) };
	struct outcome *o = outcome_new();
	struct isolation seen = { 0 };
	struct err e = { 0 };

	if (size > 2048)
		return outcome_free(o), 0;
	feed(data, size, size, &shown[0], &said[0]);
	feed(data, size, size ? data[0] % (size + 1) : 0, &shown[1], &said[1]);
	require(shown[0].len == shown[1].len && said[0].len == said[1].len);
	require(!shown[0].len || memcmp(shown[0].data, shown[1].data, shown[0].len) == 0);
	require(!said[0].len || memcmp(said[0].data, said[1].data, said[0].len) == 0);
	if (report_read((const char *)data, size, o, &seen, &e) < 0)
		require(e.code != 0);
	e = (struct err){ 0 };
	if (report_facts((const char *)data, size, o, &seen, &e) < 0)
		require(e.code != 0);
	for (int i = 0; i < 2; i++) {
		buf_done(&shown[i]);
		buf_done(&said[i]);
	}
	(void)outcome_free(o);
	return 0;
}

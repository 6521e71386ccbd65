/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_git_request.c - a line with a method, then a target: what is let through as a fetch is
 * nothing that could be taken for a push, and what is a push is seen as one however it is written.
 */
#include "fuzz.h"

#include "egress/rules/git_request.h"
#include "egress/rules/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf path = BUF_INIT(PATH_MAX_LEN * 3 + 1);
	char *text = text_of(data, size), *end = strchr(text, '\n');
	struct egress_text method, target, plain;
	struct git_request g;

	if (end && strlen(end + 1) <= PATH_MAX_LEN) {
		method = egress_text(text, (size_t)(end - text));
		target = egress_text(end + 1, strlen(end + 1));
		plain = path_of_target(target);
		if (path_check_target(target) == PATH_OK &&
		    path_normalise(plain, &path) == PATH_OK) {
			git_request_read(method, buf_str(&path), target, &g);
			require(g.repo <= path.len);
			require(!g.receives || g.writes);
			require(g.use != GIT_USE_FETCH || !g.writes);
			require(g.use != GIT_USE_PUSH || g.writes);
			require(!strstr(buf_str(&path), "/git-receive-pack/") || g.receives);
			if (plain.n < target.n)
				require(!strstr(target.p + plain.n, "git-receive-pack") ||
					g.receives);
			require(git_repo_is(buf_str(&path), g.repo, NULL));
			require(git_repo_covers(buf_str(&path), "/"));
		}
	}
	buf_done(&path);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_token_answer.c - what an endpoint answers is written anew, and read once more it brings
 * nothing: every token in it has become a placeholder. The same bytes as a body come out as they
 * are said, but for values. As a target they are the endpoint only where they normalise to it. */
#include "fuzz.h"

#include "egress/oauth/oauth.h"
#include "egress/rules/path.h"
#include "model/known/login_file.h"

static const char *urls[] = { "https://login.example.org/token" };
static const char *hosts[] = { "login.example.org" };
static const struct login_file way = { .token_urls = { urls, 1 } };
static struct credential_spec specs[] = {
	{ .name = "A",
	  .hosts = { hosts, 1 },
	  .slot = SLOT_BASIC,
	  .field = "",
	  .prefix = "",
	  .login = &way },
};
static const struct credentiallist list = { specs, 1 };
static const struct secret secrets[] = {
	{ .name = "A",
	  .value = "rt-value-8Kq2vZx0Lw41",
	  .len = 21,
	  .placeholder = "brig-0000000000000000000000000000000a" },
};

static void look_at_target(const struct oauth *tokens, struct egress_text target)
{
	struct host login;
	const struct cred_target to = { .host = &login, .port = 443, .verified = true };
	struct buf normal = BUF_INIT(65536);
	int is;

	require(host_parse(egress_text(hosts[0], strlen(hosts[0])), &login) == HOST_OK);
	is = oauth_endpoint(tokens, &to, target);
	require(is == 0 || is == OAUTH_NONE || is == OAUTH_ODD);
	if (path_normalise(path_of_target(target), &normal) == PATH_OK)
		require((is == 0) == (strcmp(buf_str(&normal), "/token") == 0));
	else
		require(is != 0);
	buf_done(&normal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_text text = egress_text((const char *)data, size);
	struct buf out = BUF_INIT(OAUTH_ANSWER_MAX * 8), again = BUF_INIT(OAUTH_ANSWER_MAX * 8),
		   sent = BUF_INIT(OAUTH_BODY_MAX * 8), said = BUF_INIT(OAUTH_BODY_MAX * 8);
	struct creds *creds = NULL;
	struct oauth *tokens = NULL;
	struct oauth_news news;
	uint64_t used;
	struct err e = { 0 };

	if (size > OAUTH_ANSWER_MAX)
		return 0;
	require(creds_new(&list, secrets, false, &creds, &e) == 0);
	require(oauth_new(&list, secrets, creds, &tokens, &e) == 0);
	look_at_target(tokens, text);
	if (oauth_answer(tokens, 0, 1000, text, &out, &news, &e) == 0) {
		require(oauth_answer(tokens, 0, 1000, egress_text(buf_str(&out), out.len), &again,
				     &news, &e) == 0);
		require(!news.n && again.len == out.len);
	}
	if (size <= OAUTH_BODY_MAX && oauth_body(tokens, 0, text, &sent, &said, &used))
		require(used ? sent.len > said.len : sent.len == said.len);
	tokens = oauth_free(tokens);
	creds = creds_free(creds);
	buf_done(&out);
	buf_done(&again);
	buf_done(&sent);
	buf_done(&said);
	return 0;
}

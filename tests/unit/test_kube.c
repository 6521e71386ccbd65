/* SPDX-License-Identifier: Apache-2.0 */
#include "nomem.h"
#include "unit.h"

#include <sys/socket.h>

#include "base/sys/clock.h"
#include "kube/api/kube_plugin.h"
#include "kube/api/kubeconfig.h"
#include "wire/websocket.h"
#include "kube/kube.h"
#include "kube/kube_packet.h"

static const struct kube_begin nothing = { "", "", "", "", "", "", "", "" };

/* ---- kubeconfig ---- */

#define HEAD                                                                                       \
	"apiVersion: v1\nkind: Config\ncurrent-context: one\n"                                     \
	"contexts:\n- name: one\n  context: {cluster: c, user: u, namespace: team}\n"              \
	"- name: two\n  context: {cluster: c}\n"
#define CLUSTER "clusters:\n- name: c\n  cluster:\n    server: https://k.test:6443/prefix\n"
#define USER "users:\n- name: u\n  user:\n"

static int parse(struct arena *a, const char *text, const struct kube_begin *b,
		 struct kube_config *c, struct err *e)
{
	*e = (struct err){ 0 };
	return kubeconfig_parse(a, "/home/x/.kube/config", text, strlen(text), b, c, e);
}

static void a_context_leads_to_its_cluster_and_user(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_begin other = nothing;
	struct kube_config c;
	struct err e;

	assert_int_equal(parse(a, HEAD CLUSTER USER "    token: abc\n", &nothing, &c, &e), 0);
	assert_string_equal(c.server, "https://k.test:6443/prefix");
	assert_string_equal(c.context, "one");
	assert_string_equal(c.namespace, "team");
	assert_string_equal(c.token, "abc");
	other.context = "two";
	other.namespace = "mine";
	assert_int_equal(parse(a, HEAD CLUSTER USER "    token: abc\n", &other, &c, &e), 0);
	assert_true(!c.token && !c.user);
	assert_string_equal(c.namespace, "mine");
	other.context = "three";
	assert_int_equal(parse(a, HEAD CLUSTER, &other, &c, &e), -ENOENT);
}

static void data_counts_before_files_which_are_relative_to_the_file(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_config c;
	struct err e;

	assert_int_equal(parse(a,
			       HEAD CLUSTER
			       "    certificate-authority: ca.pem\n" USER
			       "    client-certificate: /abs/c.pem\n    client-key: k.pem\n"
			       "    client-key-data: aGVsbG8=\n    tokenFile: t\n",
			       &nothing, &c, &e),
			 0);
	assert_string_equal(c.ca_file, "/home/x/.kube/ca.pem");
	assert_string_equal(c.cert_file, "/abs/c.pem");
	assert_string_equal(c.key, "hello");
	assert_true(!c.key_file);
	assert_string_equal(c.token_file, "/home/x/.kube/t");
}

static void what_is_weaker_than_it_looks_is_refused_by_name(void **state UNUSED)
{
	static const struct {
		const char *text, *named;
	} all[] = {
		{ HEAD CLUSTER "    insecure-skip-tls-verify: true\n" USER "    token: a\n",
		  "insecure-skip-tls-verify" },
		{ HEAD CLUSTER "    proxy-url: http://p.test\n" USER "    token: a\n",
		  "proxy-url" },
		{ HEAD "clusters:\n- name: c\n  cluster: {server: 'http://k.test'}\n" USER
		       "    token: a\n",
		  "without TLS" },
		{ HEAD CLUSTER USER "    auth-provider: {name: gcp}\n", "auth-provider" },
		{ HEAD CLUSTER USER "    username: a\n    password: b\n", "username" },
		{ HEAD CLUSTER USER "    token: a\n    as: somebody\n", "'as'" },
		{ HEAD CLUSTER USER "    token: a\n    as-groups: [x]\n", "as-groups" },
	};
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_config c;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_true(parse(a, all[i].text, &nothing, &c, &e) < 0);
		assert_int_equal(e.kind, ERR_POLICY);
		assert_non_null(strstr(e.what, all[i].named));
		assert_true(e.hint[0]);
	}
	assert_int_equal(
		parse(a, HEAD CLUSTER "    insecure-skip-tls-verify: false\n" USER "    token: a\n",
		      &nothing, &c, &e),
		0);
}

static void what_makes_no_sense_is_refused_with_its_place(void **state UNUSED)
{
	static const char *const all[] = {
		HEAD CLUSTER USER "    token: \"a\\nX-Evil: 1\"\n",
		HEAD CLUSTER USER "    client-certificate: c.pem\n",
		HEAD CLUSTER USER "    client-key-data: '%%%'\n",
		HEAD CLUSTER USER "    token: [a]\n",
		HEAD "clusters: {}\n" USER "    token: a\n",
		HEAD "clusters:\n- name: c\n  cluster: {}\n" USER "    token: a\n",
		HEAD "clusters:\n- name: c\n  cluster: {server: 'https://k.test?x=1'}\n" USER
		     "    token: a\n",
		HEAD "clusters:\n- name: c\n  cluster: {server: 'https://u:p@k.test'}\n" USER
		     "    token: a\n",
		"- a\n",
		"current-context: x\n",
		"",
	};
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_config c;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_true(parse(a, all[i], &nothing, &c, &e) < 0);
		assert_true(e.what[0]);
	}
}

#define EXEC USER "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n"

static void a_plugin_is_taken_with_its_arguments_and_variables(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_config c;
	struct err e;

	assert_int_equal(
		parse(a,
		      HEAD CLUSTER EXEC
		      "      command: ./login\n      args: [a, 'b c']\n"
		      "      env: [{name: X, value: '1'}]\n"
		      "      interactiveMode: IfAvailable\n      provideClusterInfo: true\n",
		      &nothing, &c, &e),
		0);
	assert_string_equal(c.plugin->command, "/home/x/.kube/./login");
	assert_string_equal(c.plugin->args[1], "b c");
	assert_string_equal(c.plugin->env[0], "X=1");
	assert_true(c.plugin->cluster_info && !c.plugin->env[1] && !c.plugin->args[2]);
	assert_true(parse(a, HEAD CLUSTER EXEC "      command: x\n      interactiveMode: Always\n",
			  &nothing, &c, &e) < 0);
	assert_true(parse(a, HEAD CLUSTER EXEC "      args: [x]\n", &nothing, &c, &e) < 0);
	assert_true(parse(a,
			  HEAD CLUSTER EXEC
			  "      command: x\n      env: [{name: 'A=B', value: x}]\n",
			  &nothing, &c, &e) < 0);
	assert_true(parse(a,
			  HEAD CLUSTER USER "    exec: {command: x, apiVersion: "
					    "client.authentication.k8s.io/v1alpha1}\n",
			  &nothing, &c, &e) < 0);
}

static void of_two_files_the_first_entry_counts_in_full(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(4 << 20);
	char folder[PATH_MAX], list[PATH_MAX * 4];
	struct kube_begin b = nothing;
	struct kube_config c;
	struct err e = { 0 };

	enter_scratch(folder);
	write_text("one", "current-context: one\nusers:\n- name: u\n  user: {token: first}\n");
	write_text("two", HEAD CLUSTER USER "    token: second\n    client-certificate: x\n"
					    "    client-key: k\n");
	(void)snprintf(list, sizeof(list), "%s/none::%s/one:%s/two", folder, folder, folder);
	b.listed = list;
	if (kubeconfig_load(a, &b, &c, &e) < 0)
		fail_msg("%s", e.what);
	assert_string_equal(c.token, "first");
	assert_true(!c.cert_file);
	assert_int_equal(chmod("two", 0646), 0);
	assert_true(kubeconfig_load(a, &b, &c, &e) < 0);
	assert_int_equal(e.kind, ERR_POLICY);
	assert_non_null(strstr(e.hint, "chmod o-w"));
	(void)snprintf(list, sizeof(list), "%s/none", folder);
	assert_int_equal(kubeconfig_load(a, &b, &c, &e), -ENOENT);
	b.listed = "relative";
	assert_true(kubeconfig_load(a, &b, &c, &e) < 0);
	leave_scratch(folder);
}

static void without_a_kubeconfig_the_pods_own_account_counts(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_begin b = nothing;
	struct kube_config c;
	struct err e = { 0 };

	assert_int_equal(kubeconfig_load(a, &b, &c, &e), -ENOENT);
	b.service_host = "fd00::1";
	b.service_port = "6443";
	b.namespace = "n";
	assert_int_equal(kubeconfig_load(a, &b, &c, &e), 0);
	assert_string_equal(c.server, "https://[fd00::1]:6443");
	assert_string_equal(c.context, "in-cluster");
	assert_non_null(c.token_file);
	b.service_host = "evil/x";
	assert_true(kubeconfig_load(a, &b, &c, &e) < 0);
}

static void a_kubeconfig_survives_any_allocation_that_fails(void **state UNUSED)
{
	static const char text[] = HEAD CLUSTER EXEC "      command: ./x\n      args: [a]\n"
						     "      env: [{name: X, value: '1'}]\n"
						     "    client-key-data: aGVsbG8=\n"
						     "    client-certificate: c\n";

	for (long n = 0; n < 100000; n++) {
		struct arena *a;
		struct kube_config c;
		struct err e;
		int r;

		left = n;
		struck = false;
		a = arena_new(1 << 20);
		r = a ? parse(a, text, &nothing, &c, &e) : -ENOMEM;
		left = -1;
		(void)arena_free(a);
		if (!struck) {
			assert_int_equal(r, 0);
			assert_true(n > 0);
			return;
		}
		assert_int_equal(r, -ENOMEM);
	}
}

/* ---- plugins ---- */

#define V1 "client.authentication.k8s.io/v1"
#define CREDENTIAL(status)                                                                         \
	"{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"status\":" status "}"

static int given(struct arena *a, const char *text, struct kube_given *g)
{
	struct err e = { 0 };

	return kube_plugin_read(a, V1, text, strlen(text), g, &e);
}

static void a_plugin_gives_a_token_or_a_pair(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	struct kube_given g;

	assert_int_equal(given(a, CREDENTIAL("{\"token\":\"t\"}"), &g), 0);
	assert_true(g.expires == 0 && !g.cert);
	assert_int_equal(
		given(a,
		      CREDENTIAL("{\"clientCertificateData\":\"c\",\"clientKeyData\":"
				 "\"k\",\"expirationTimestamp\":\"1970-01-02T00:00:00Z\"}"),
		      &g),
		0);
	assert_int_equal(g.expires, 86400);
	assert_int_equal(
		given(a,
		      CREDENTIAL("{\"token\":\"t\",\"expirationTimestamp\":\"1970-01-01T02:"
				 "30:00.123+02:00\"}"),
		      &g),
		0);
	assert_int_equal(g.expires, 1800);
	assert_true(given(a, CREDENTIAL("{}"), &g) < 0);
	assert_true(given(a, CREDENTIAL("{\"clientKeyData\":\"k\"}"), &g) < 0);
	assert_true(given(a, CREDENTIAL("{\"token\":\"a\\r\\nX: y\"}"), &g) < 0);
	assert_true(given(a, CREDENTIAL("{\"token\":\"a\",\"expirationTimestamp\":\"soon\"}"), &g) <
		    0);
	assert_true(given(a, "{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}", &g) < 0);
	assert_true(given(a,
			  "{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":"
			  "\"ExecCredential\",\"status\":{\"token\":\"t\"}}",
			  &g) < 0);
	assert_true(given(a, "token", &g) < 0);
}

/* ---- WebSocket ---- */

/* All of it, a few bytes at a time; the payloads of data go to out. */
static int read_frames(const char *text, size_t n, size_t step, struct buf *out, unsigned *control)
{
	struct ws_reader r = { 0 };
	char p[80000];

	assert_true(n <= sizeof(p));
	memcpy(p, text, n);

	for (size_t at = 0; at < n;) {
		size_t show = n - at < step ? n - at : step;
		struct ws_piece piece;
		ssize_t took = ws_read(&r, p + at, show, &piece);

		if (took < 0)
			return (int)took;
		assert_true(took > 0 && (size_t)took <= show);
		at += (size_t)took;
		if (piece.kind == WS_DATA) {
			if (piece.begins)
				buf_putc(out, '<');
			if (piece.n)
				buf_add(out, piece.p, piece.n);
			if (piece.ends)
				buf_putc(out, '>');
		} else if (piece.kind != WS_NOTHING) {
			*control = *control * 10 + piece.kind;
		}
	}
	return 0;
}

static void messages_come_in_pieces_with_control_frames_between(void **state UNUSED)
{
	static const char text[] = "\x02\x03"
				   "abc"
				   "\x89\x02hi"
				   "\x00\x00"
				   "\x80\x02"
				   "de"
				   "\x82\x00"
				   "\x8a\x00"
				   "\x88\x02\x03\xe8";

	for (size_t step = 1; step < sizeof(text); step++) {
		CLEANUP(buf) struct buf out = BUF_INIT(100);
		unsigned control = 0;

		assert_int_equal(read_frames(text, sizeof(text) - 1, step, &out, &control), 0);
		assert_string_equal(buf_str(&out), "<abcde><>");
		assert_int_equal(control, WS_ASKED * 100 + WS_ANSWERED * 10 + WS_ENDED);
	}
}

static void frames_that_no_server_sends_are_refused(void **state UNUSED)
{
	static const struct {
		const char *p;
		size_t n;
	} all[] = {
		{ "\x82\x81\1\1\1\1x", 7 }, /* masked */
		{ "\xc2\x00", 2 },          /* a reserved bit */
		{ "\x83\x00", 2 },          /* a reserved code */
		{ "\x8b\x00", 2 },          /* likewise, of control */
		{ "\x09\x00", 2 },          /* control in pieces */
		{ "\x89\x7e\x00\x7e", 4 },  /* long control */
		{ "\x80\x00", 2 },          /* a piece without a beginning */
		{ "\x02\x00\x82\x00", 4 },  /* a message within a message */
		{ "\x82\x7e\x00\x7d", 4 },  /* a length that would fit the short form */
		{ "\x82\x7f\0\0\0\0\0\0\xff\xff", 10 },
		{ "\x82\x7f\x80\0\0\0\0\0\0\0", 10 },
		{ "\x88\x01x", 3 }, /* half a code */
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(buf) struct buf out = BUF_INIT(100);
		unsigned control = 0;

		assert_int_equal(read_frames(all[i].p, all[i].n, 100, &out, &control), -EBADMSG);
	}
}

static void what_is_written_is_masked_and_framed(void **state UNUSED)
{
	static const unsigned char mask[4] = { 1, 2, 3, 4 }, none[4] = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(200000);
	CLEANUP(mem) char *much = calloc(1, 70000);

	ws_put(&b, WS_BINARY, 0, "ab", 2, mask);
	assert_int_equal(b.len, 9);
	assert_memory_equal(b.data, "\x82\x83\1\2\3\4\x01\x63\x61", 9);
	b.len = 0;
	ws_put(&b, WS_PING, -1, NULL, 0, none);
	assert_memory_equal(b.data, "\x89\x80\0\0\0\0", 6);
	b.len = 0;
	ws_put(&b, WS_BINARY, 4, much, 125, none);
	assert_memory_equal(b.data, "\x82\xfe\x00\x7e", 4);
	b.len = 0;
	ws_put(&b, WS_BINARY, 4, much, 69999, none);
	assert_memory_equal(b.data, "\x82\xff\0\0\0\0\0\1\x11\x70", 10);
	assert_int_equal(b.len, 10 + 4 + 70000);
}

static void the_key_of_the_standard_gives_its_answer(void **state UNUSED)
{
	char key[WS_KEY_SIZE], accept[WS_ACCEPT_SIZE];

	ws_key((const unsigned char *)"the sample nonce", key);
	assert_string_equal(key, "dGhlIHNhbXBsZSBub25jZQ==");
	ws_accept(key, accept);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* ---- packets ---- */

static void a_packet_has_its_text_beside_it(void **state UNUSED)
{
	CLEANUP(buf) struct buf text = BUF_INIT(100), got = BUF_INIT(100), small = BUF_INIT(3);
	struct kube_packet p = { .status = 7 }, q;
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	buf_puts(&text, "hello");
	assert_int_equal(kube_packet_send(s[0], &p, &text), 0);
	assert_int_equal(kube_packet_recv(s[1], 0, &q, &got), 0);
	assert_int_equal(q.status, 7);
	assert_string_equal(buf_str(&got), "hello");
	assert_int_equal(kube_packet_send(s[0], &p, &text), 0);
	assert_int_equal(kube_packet_recv(s[1], 0, &q, &small), -EMSGSIZE);
	assert_int_equal(kube_packet_send(s[0], &p, &text), 0);
	assert_int_equal(kube_packet_recv(s[1], 0, &q, NULL), -EMSGSIZE);
	assert_int_equal(kube_packet_recv(s[1], clock_us() + 1000, &q, NULL), -ETIMEDOUT);
	assert_int_equal(write(s[0], "x", 1), 1);
	assert_int_equal(kube_packet_recv(s[1], 0, &q, NULL), -EBADMSG);
	p.len = 5; /* a text is promised, and none comes */
	assert_int_equal(write(s[0], &p, sizeof(p)), sizeof(p));
	assert_int_equal(kube_packet_recv(s[1], 0, &q, &got), -EBADMSG);
	(void)close(s[0]);
	assert_int_equal(kube_packet_recv(s[1], 0, &q, NULL), -EPIPE);
	(void)close(s[1]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_context_leads_to_its_cluster_and_user),
	cmocka_unit_test(data_counts_before_files_which_are_relative_to_the_file),
	cmocka_unit_test(what_is_weaker_than_it_looks_is_refused_by_name),
	cmocka_unit_test(what_makes_no_sense_is_refused_with_its_place),
	cmocka_unit_test(a_plugin_is_taken_with_its_arguments_and_variables),
	cmocka_unit_test(of_two_files_the_first_entry_counts_in_full),
	cmocka_unit_test(without_a_kubeconfig_the_pods_own_account_counts),
	cmocka_unit_test(a_kubeconfig_survives_any_allocation_that_fails),
	cmocka_unit_test(a_plugin_gives_a_token_or_a_pair),
	cmocka_unit_test(messages_come_in_pieces_with_control_frames_between),
	cmocka_unit_test(frames_that_no_server_sends_are_refused),
	cmocka_unit_test(what_is_written_is_masked_and_framed),
	cmocka_unit_test(the_key_of_the_standard_gives_its_answer),
	cmocka_unit_test(a_packet_has_its_text_beside_it),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/ssh/agentmsg.h"

#define KEY "\0\0\0\7ssh-abc\0\0\0\1k"
#define GIT "SSHSIG\0\0\0\3git\0\0\0\0\0\0\0\6sha512\0\0\0\x40"

struct message {
	unsigned char bytes[2048];
	size_t n;
};

static void put(struct message *m, const void *p, size_t n)
{
	memcpy(m->bytes + m->n, p, n);
	m->n += n;
}

static void put_string(struct message *m, const void *p, size_t n)
{
	agentmsg_put_number(m->bytes + m->n, (uint32_t)n);
	m->n += AGENTMSG_HEAD;
	put(m, p, n);
}

static struct message request(const struct message *data)
{
	struct message m = { .bytes = { AGENTMSG_SIGN }, .n = 1 };

	put_string(&m, KEY, sizeof(KEY) - 1);
	put_string(&m, data->bytes, data->n);
	put(&m, "\0\0\0", 4);
	return m;
}

static struct message for_git(void)
{
	struct message d = { .n = 0 };
	char hash[64] = { 1 };

	put(&d, GIT, sizeof(GIT) - 1);
	put(&d, hash, sizeof(hash));
	return d;
}

static struct message login(const char *method, const char *service)
{
	struct message d = { .n = 0 };
	char session[32] = { 2 };

	put_string(&d, session, sizeof(session));
	put(&d, "\x32", 1);
	put_string(&d, "ada", 3);
	put_string(&d, service, strlen(service));
	put_string(&d, method, strlen(method));
	put(&d, "\1", 1);
	put_string(&d, "ssh-abc", 7);
	put_string(&d, KEY, sizeof(KEY) - 1);
	return d;
}

static enum agentmsg_purpose purpose(const struct message *d)
{
	struct message m = request(d);
	struct agentmsg_sign s;

	assert_true(agentmsg_read_sign(m.bytes, m.n, &s));
	return agentmsg_purpose(&s);
}

static void a_request_is_whole_or_none(void **state UNUSED)
{
	struct message d = for_git(), m = request(&d);
	unsigned char out[2048];
	struct agentmsg_sign s;

	assert_true(agentmsg_read_sign(m.bytes, m.n, &s));
	assert_int_equal(agentmsg_write_sign(&s, out, sizeof(out)), AGENTMSG_HEAD + m.n);
	assert_memory_equal(out + AGENTMSG_HEAD, m.bytes, m.n);
	assert_int_equal(agentmsg_write_sign(&s, out, AGENTMSG_HEAD + m.n - 1), 0);
	for (size_t i = 0; i < m.n; i++)
		assert_false(agentmsg_read_sign(m.bytes, i, &s));
	assert_false(agentmsg_read_sign(m.bytes, m.n + 1, &s));
	m.bytes[m.n - 1] = 8; /* no hash that RSA knows */
	assert_false(agentmsg_read_sign(m.bytes, m.n, &s));
}

static void git_is_known_by_every_byte_but_the_hash(void **state UNUSED)
{
	struct message d = for_git();

	assert_int_equal(purpose(&d), AGENTMSG_GIT);
	d.bytes[d.n - 1] ^= 1;
	assert_int_equal(purpose(&d), AGENTMSG_GIT);
	for (size_t i = 0; i < sizeof(GIT) - 1; i++) {
		d = for_git();
		d.bytes[i] ^= 1;
		assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
	}
	d = for_git();
	d.n--;
	assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
}

static void a_login_is_for_a_connection_and_with_its_own_key(void **state UNUSED)
{
	struct message d = login("publickey", "ssh-connection");

	assert_int_equal(purpose(&d), AGENTMSG_LOGIN);
	d.bytes[d.n - 1] ^= 1;
	assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
	d = login("publickey", "ssh-userauth");
	assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
	d = login("hostbased", "ssh-connection");
	assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
	d = login("publickey-hostbound-v00@openssh.com", "ssh-connection");
	assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
	put_string(&d, "host", 4);
	assert_int_equal(purpose(&d), AGENTMSG_LOGIN);
	put(&d, "x", 1);
	assert_int_equal(purpose(&d), AGENTMSG_NO_PURPOSE);
}

/* A session, the key of the host that it is with, the host's signature; forwarded or not. */
static struct message bind_of(const char *name, size_t session, char forwarded)
{
	struct message m = { .bytes = { AGENTMSG_EXTENSION }, .n = 1 };
	char id[AGENTMSG_SESSION_MAX + 1] = { 3 };

	put_string(&m, name, strlen(name));
	put_string(&m, KEY, sizeof(KEY) - 1);
	put_string(&m, id, session);
	put_string(&m, "proof", 5);
	put(&m, &forwarded, 1);
	return m;
}

static void a_session_is_bound_by_one_message_alone(void **state UNUSED)
{
	const char *const name = "session-bind@openssh.com";
	struct message m = bind_of(name, 32, 0);
	struct agentmsg_bind b;

	assert_true(agentmsg_read_bind(m.bytes, m.n, &b));
	assert_int_equal(b.session.n, 32);
	assert_int_equal(b.proof.n, 5);
	assert_int_equal(b.host_key.n, sizeof(KEY) - 1);
	for (size_t i = 0; i < m.n; i++)
		assert_false(agentmsg_read_bind(m.bytes, i, &b));
	assert_false(agentmsg_read_bind(m.bytes, m.n + 1, &b));
	m = bind_of(name, 32, 1);
	assert_false(agentmsg_read_bind(m.bytes, m.n, &b));
	m = bind_of(name, AGENTMSG_SESSION_MAX + 1, 0);
	assert_false(agentmsg_read_bind(m.bytes, m.n, &b));
	m = bind_of(name, 15, 0);
	assert_false(agentmsg_read_bind(m.bytes, m.n, &b));
	m = bind_of("restrict-destination-v00@openssh.com", 32, 0);
	assert_false(agentmsg_read_bind(m.bytes, m.n, &b));
}

static void a_login_names_its_session(void **state UNUSED)
{
	struct message d = login("publickey-hostbound-v00@openssh.com", "ssh-connection"), m;
	struct agentmsg_login l;
	struct agentmsg_sign s;

	put_string(&d, "host", 4);
	m = request(&d);
	assert_true(agentmsg_read_sign(m.bytes, m.n, &s) && agentmsg_read_login(&s, &l));
	assert_int_equal(l.session.n, 32);
	assert_memory_equal(l.host_key.p, "host", 4);
	d = login("publickey", "ssh-connection");
	m = request(&d);
	assert_true(agentmsg_read_sign(m.bytes, m.n, &s) && agentmsg_read_login(&s, &l));
	assert_null(l.host_key.p);
}

static void sha1_is_known_by_the_key_and_the_flags(void **state UNUSED)
{
	static const struct {
		const char *kind;
		uint32_t flags;
		bool weak;
	} tries[] = {
		{ "ssh-rsa", 0, true },      { "ssh-rsa-cert-v01@openssh.com", 0, true },
		{ "ssh-rsa", 2, false },     { "ssh-rsa-cert-v01@openssh.com", 4, false },
		{ "ssh-ed25519", 0, false }, { "ssh-dss", 2, true },
		{ "ssh-rs", 0, false },      { "ssh-rsa2", 0, false },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct message key = { .n = 0 };
		struct agentmsg_sign s = { .flags = tries[i].flags };

		put_string(&key, tries[i].kind, strlen(tries[i].kind));
		put(&key, "rest", 4);
		s.key = (struct agentmsg_bytes){ key.bytes, key.n };
		assert_int_equal(agentmsg_wants_sha1(&s), tries[i].weak);
		s.key.n = 3;
		assert_false(agentmsg_wants_sha1(&s));
	}
}

static void an_answer_is_what_it_says(void **state UNUSED)
{
	struct message m = { .bytes = { AGENTMSG_KEYS, 0, 0, 0, 2 }, .n = 5 };
	struct agentmsg_bytes second = { (const unsigned char *)"two", 3 }, other = second;

	put_string(&m, "one", 3);
	put_string(&m, "", 0);
	put_string(&m, "two", 3);
	put_string(&m, "comment", 7);
	other.n = 2;
	assert_true(agentmsg_is_keys(m.bytes, m.n) && agentmsg_has_key(m.bytes, m.n, &second));
	assert_false(agentmsg_has_key(m.bytes, m.n, &other) || agentmsg_is_signed(m.bytes, m.n));
	for (size_t i = 0; i < m.n; i++)
		assert_false(agentmsg_is_keys(m.bytes, i));
	m.bytes[4] = 1;
	assert_false(agentmsg_is_keys(m.bytes, m.n));
	m = (struct message){ .bytes = { AGENTMSG_SIGNED }, .n = 1 };
	put_string(&m, "signature", 9);
	assert_true(agentmsg_is_signed(m.bytes, m.n) && !agentmsg_is_signed(m.bytes, m.n - 1));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_request_is_whole_or_none),
	cmocka_unit_test(git_is_known_by_every_byte_but_the_hash),
	cmocka_unit_test(a_login_is_for_a_connection_and_with_its_own_key),
	cmocka_unit_test(a_session_is_bound_by_one_message_alone),
	cmocka_unit_test(a_login_names_its_session),
	cmocka_unit_test(sha1_is_known_by_the_key_and_the_flags),
	cmocka_unit_test(an_answer_is_what_it_says),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

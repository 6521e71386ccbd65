/* SPDX-License-Identifier: Apache-2.0 */
/* egress/ssh/agentmsg.h - messages of the ssh-agent protocol, and which of them may pass.
 *
 * Pure and bounded; nothing is copied. A message is its type and its body, without the length in
 * front. Of requests three are known: list the keys, sign, and say which host a session is with
 * (PROTOCOL.agent, session-bind@openssh.com). What is to be signed must be, byte for
 * byte, what `git commit -S` has signed (PROTOCOL.sshsig, namespace `git`), or a login (RFC 4252,
 * section 7). Everything else has no purpose here, and none is guessed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum agentmsg_type {
	AGENTMSG_FAILURE = 5,
	AGENTMSG_SUCCESS = 6,
	AGENTMSG_LIST = 11,
	AGENTMSG_KEYS = 12,
	AGENTMSG_SIGN = 13,
	AGENTMSG_SIGNED = 14,
	AGENTMSG_EXTENSION = 27,
};

enum {
	AGENTMSG_HEAD = 4,                /* the length in front */
	AGENTMSG_KEY_MAX = 8 * 1024,      /* a public key or certificate */
	AGENTMSG_DATA_MAX = 10 * 1024,    /* to be signed; a login names two keys */
	AGENTMSG_REQUEST_MAX = 20 * 1024, /* both, and what is around them */
	AGENTMSG_ANSWER_MAX = 64 * 1024,
	AGENTMSG_SESSION_MAX = 64,     /* the identifier of a session: a hash */
	AGENTMSG_PROOF_MAX = 2 * 1024, /* a signature of a host */
};

struct agentmsg_bytes {
	const unsigned char *p; /* borrowed from the message */
	size_t n;
};

struct agentmsg_sign {
	struct agentmsg_bytes key, data;
	uint32_t flags; /* which hash an RSA key is to use */
};

/* A session, the host that it is with, and that host's signature over the session's identifier: the
 * proof, which is not looked at here. */
struct agentmsg_bind {
	struct agentmsg_bytes host_key, session, proof;
};

/* Of a login. */
struct agentmsg_login {
	struct agentmsg_bytes session;
	struct agentmsg_bytes host_key; /* that it is bound to; p NULL: to none */
};

/* What data is signed for. */
enum agentmsg_purpose { AGENTMSG_NO_PURPOSE, AGENTMSG_GIT, AGENTMSG_LOGIN };

uint32_t agentmsg_number(const unsigned char p[AGENTMSG_HEAD]);
void agentmsg_put_number(unsigned char p[AGENTMSG_HEAD], uint32_t v);

/* A request to sign; false: it is none, or something about it is not as it should be. */
bool agentmsg_read_sign(const unsigned char *m, size_t n, struct agentmsg_sign *ret);
enum agentmsg_purpose agentmsg_purpose(const struct agentmsg_sign *s);

/* With that purpose: which session it is for. */
bool agentmsg_read_login(const struct agentmsg_sign *s, struct agentmsg_login *ret);
/* A session that was forwarded to another host is none that is read. */
bool agentmsg_read_bind(const unsigned char *m, size_t n, struct agentmsg_bind *ret);

/* Would it be SHA-1 that is signed? Two texts can be made that share one, of which this one has a
 * purpose and the other need not. */
bool agentmsg_wants_sha1(const struct agentmsg_sign *s);

/* The same the other way, length in front. The size, or 0: there is not that much room. */
size_t agentmsg_write_sign(const struct agentmsg_sign *s, unsigned char *out, size_t room);

/* Answers of an agent. false: it is none of that kind. */
bool agentmsg_is_keys(const unsigned char *m, size_t n);
bool agentmsg_has_key(const unsigned char *m, size_t n, const struct agentmsg_bytes *key);
bool agentmsg_is_signed(const unsigned char *m, size_t n);

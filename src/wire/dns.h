/* SPDX-License-Identifier: Apache-2.0 */
/* wire/dns.h - DNS messages: questions of the sandbox, answers of a resolver. Pure and bounded.
 *
 * Names are plain text without the last dot; a label with a byte that text could not carry back (a
 * dot, a control, a byte beyond ASCII) makes the message malformed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DNS_NAME_MAX = 254, DNS_UDP_MAX = 1232, DNS_ADDRS_MAX = 16, DNS_PACKET_MAX = 4096 };
enum { DNS_A = 1, DNS_NS = 2, DNS_CNAME = 5, DNS_AAAA = 28, DNS_IN = 1 };
enum dns_code { DNS_NOERROR, DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN, DNS_NOTIMP, DNS_REFUSED };

struct dns_question {
	uint16_t id, type, class;
	uint8_t opcode;
	bool recursion;
	char name[DNS_NAME_MAX];
	size_t name_len;
	size_t end; /* bytes of the message up to and with the question */
};

struct dns_address {
	bool six;
	unsigned char bytes[16];
};

/* Reads a question. 0; -EBADMSG when not even an answer can be given; -EOPNOTSUPP when DNS_FORMERR
 * or DNS_NOTIMP is the answer (ret->id is then known). */
int dns_read_question(const unsigned char *p, size_t n, struct dns_question *ret);

/* Reads a question that is to be answered: 0, and it is one of class IN. Otherwise the length of
 * the refusal that was written to out, or -1 when not even that can be given. */
ssize_t dns_take_question(const unsigned char *p, size_t n, struct dns_question *ret,
			  unsigned char *out, size_t room);

/* Writes the answer to q, whose message is at p: with the address, or with none. Returns its length
 * or -ENOSPC. */
ssize_t dns_write_answer(const unsigned char *p, const struct dns_question *q, enum dns_code code,
			 const struct dns_address *a, uint32_t ttl, unsigned char *out,
			 size_t room);

/* Writes a question of our own. */
ssize_t dns_write_question(uint16_t id, const char *name, uint16_t type, unsigned char *out,
			   size_t room);

struct dns_answer {
	enum dns_code code;
	bool cut; /* ask again over TCP */
	struct dns_address addrs[DNS_ADDRS_MAX];
	size_t n;
};

/* Reads the answer to that very question: id, name and type are compared; only addresses at the end
 * of the question's own chain of aliases count. -EBADMSG otherwise. */
int dns_read_answer(const unsigned char *p, size_t n, uint16_t id, const char *name, uint16_t type,
		    struct dns_answer *ret);

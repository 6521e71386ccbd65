/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/sigv4.h - Signature Version 4 of AWS: what a client's own Authorization says,
 * whether that is for the host it goes to, and the same request signed with another key.
 *
 * Everything that is ambiguous in a request is either refused here or makes a signature that the
 * server refuses; none of it sends a key anywhere. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/sha256.h"
#include "base/text/buf.h"
#include "egress/rules/request_head.h"

#define SIGV4_DIGITS 64 /* of a signature, and of a payload's hash */
#define SIGV4_SCOPE_MAX 160

/* AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request, SignedHeaders=..., Signature=...
 */
struct sigv4_claim {
	struct egress_text id, date, region, service, signed_fields;
};

enum sigv4_kind {
	SIGV4_NONE,       /* another scheme */
	SIGV4_CLAIM,      /* *ret was filled in */
	SIGV4_ASYMMETRIC, /* AWS4-ECDSA-..., which brig cannot sign */
	SIGV4_BROKEN,
};

/* The value of Authorization; the texts of *ret lie in it. */
enum sigv4_kind sigv4_parse(struct egress_text value, struct sigv4_claim *ret);

/* A name of Amazon's own: its parts say service and region. */
bool sigv4_is_aws(const struct host *host);
/* Is that service in that region what such a host is? What it should have been is in *want. */
bool sigv4_fits(const struct sigv4_claim *c, const struct host *host, char want[128]);

enum sigv4_payload {
	SIGV4_HASHED,  /* 64 digits, or a word that stands for a body that is not signed */
	SIGV4_ABSENT,  /* the body must be hashed first */
	SIGV4_CHUNKED, /* each of its pieces is signed, from the signature of the one before */
	SIGV4_UNKNOWN,
};
/* The value of x-amz-content-sha256. */
enum sigv4_payload sigv4_payload_of(struct egress_text value);

/* A signature that waits for the hash of the body. */
struct sigv4 {
	bool wanted;
	bool waits;              /* for sigv4_finish with the body's hash */
	const char *place;       /* in the head: the digits of the value of Authorization */
	struct sha256 canonical; /* of the canonical request, up to that hash */
	unsigned char key[SHA256_SIZE];
	char date[17], scope[SIGV4_SCOPE_MAX];
	char payload[SIGV4_DIGITS + 1]; /* the word of the head's, if it has one */
};

/* What is signed: the head as it will be sent, and what the door writes itself. */
struct sigv4_request {
	const struct egress_head *head;
	struct egress_text host; /* the value of Host */
	const struct sigv4_claim *claim;
	struct egress_text date; /* the value of x-amz-date, checked by sigv4_date */
};

/* YYYYMMDDTHHMMSSZ of that day, at most a quarter of an hour from `now` (0: at any time). */
bool sigv4_date(struct egress_text date, struct egress_text day, int64_t now);

/* Writes into `list` which fields are signed: Host, every X-Amz-*, and what the client has signed
 * of the others, as far as it is there. Takes what of the request needs no hash. NULL, or why not:
 * "'%s' ..." about `*name`. */
const char *sigv4_begin(struct sigv4 *s, const struct sigv4_request *q, const char *secret,
			size_t secret_len, struct buf *list, struct egress_text *name);
/* Wipes the key. `payload` is the hash of the body, or what stands for it. */
void sigv4_finish(struct sigv4 *s, const char *payload, char signature[SIGV4_DIGITS + 1]);

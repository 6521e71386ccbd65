/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kubeconfig.h - who is asked, and as whom, from kubeconfig files or the pod we are in.
 *
 * Files are put together as kubectl does it: of two entries of one name the first file's counts, in
 * full, and a current-context is the first that is set. What would be weaker than it looks is
 * refused by name: insecure-skip-tls-verify, plain http, auth-provider, a password, impersonation,
 * a proxy. */
#pragma once

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "kube/kube_packet.h"

enum {
	KUBECONFIG_FILES_MAX = 32,
	KUBECONFIG_MAX = 1 << 20, /* of one file, and of a certificate or key */
	KUBE_TOKEN_MAX = 16384,
};

/* A program that prints credentials (client.authentication.k8s.io). */
struct kube_plugin {
	const char *command;                  /* a name for PATH, or an absolute path */
	const char *const *args, *const *env; /* NULL-terminated; env as NAME=VALUE */
	const char *version;                  /* apiVersion of its answer */
	const char *install;                  /* how to get it, or NULL */
	bool cluster_info;
};

/* Each as text, or the file that has it; NULL: neither. */
struct kube_config {
	const char *context, *cluster, *user, *namespace;
	const char *server, *tls_name;
	const char *ca, *ca_file;
	const char *cert, *cert_file;
	const char *key, *key_file;
	const char *token, *token_file;
	const struct kube_plugin *plugin;
};

/* Reads the files; everything of *ret is in the arena. */
int kubeconfig_load(struct arena *a, const struct kube_begin *b, struct kube_config *ret,
		    struct err *e);

/* One file's text, as kubeconfig_load would take it if it were the only one: for tests. */
int kubeconfig_parse(struct arena *a, const char *name, const char *text, size_t n,
		     const struct kube_begin *b, struct kube_config *ret, struct err *e);

/* A regular file that is ours or root's and that not everybody may write; at most KUBECONFIG_MAX
 * bytes of it. -ENOENT tells that it is not there. */
int kube_read_file(const char *path, struct buf *ret, struct err *e);

/* Text that may stand in a header field: visible ASCII. */
bool kube_token_valid(const char *text);

/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.c - the guarded door from C: an allowlist, a credential that only this program knows, a
 *port of loopback; serves until its input ends.
 *
 *	cc examples/proxy.c $(pkg-config --cflags --libs brig) -o proxy
 *	./proxy HOST AUTHORITY.pem [KEY=VALUE...]
 */
#include <brig.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const struct brig_error *e)
{
	fprintf(stderr, "%s: %s\n", e->code, e->what);
	if (e->hint[0])
		fprintf(stderr, "hint: %s\n", e->hint);
	return 1;
}

/* A real program would ask its vault. */
static int resolve(void *arg, const char *name, char *value, size_t room)
{
	const char *token = arg;
	size_t n = strlen(token);

	if (strcmp(name, "API_TOKEN") != 0)
		return -ENOENT;
	if (n > room)
		return -E2BIG;
	memcpy(value, token, n);
	return (int)n;
}

static void denied(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "denied: %s\n", line);
}

static int configure(brig_proxy *p, int argc, char **argv, struct brig_error *e)
{
	if (brig_proxy_allow(p, argv[1], e) < 0 ||
	    brig_proxy_credential(p, "API_TOKEN", argv[1], e) < 0 || brig_proxy_port(p, 0, e) < 0)
		return -1;
	for (int i = 3; i < argc; i++) {
		char *eq = strchr(argv[i], '=');

		if (!eq)
			continue;
		*eq = '\0';
		if (brig_proxy_set(p, argv[i], eq + 1, e) < 0)
			return -1;
	}
	brig_proxy_resolver(p, resolve, "a-token-that-nobody-else-has");
	brig_proxy_on_denial(p, denied, NULL);
	return 0;
}

static int serve(brig_proxy *p, const char *authority, struct brig_error *e)
{
	brig_result *r = NULL;
	FILE *f;
	char *json;

	if (brig_proxy_start(p, e) < 0)
		return failed(e);
	f = fopen(authority, "w");
	if (!f || fputs(brig_proxy_authority(p), f) < 0 || fclose(f) != 0) {
		perror(authority);
		return 1;
	}
	printf("%s\n", brig_proxy_url(p));
	fflush(stdout);
	while (getchar() != EOF)
		;
	if (brig_proxy_stop(p, &r, e) < 0)
		return failed(e);
	json = brig_result_json(r);
	puts(json ? json : "no memory");
	free(json);
	brig_result_free(r);
	return 0;
}

int main(int argc, char **argv)
{
	struct brig_error e = { .errnum = 0 };
	brig_manager *m = brig_manager_new();
	brig_proxy *p = m ? brig_proxy_new(m) : NULL;
	int status = 1;

	if (argc < 3)
		fprintf(stderr, "usage: proxy HOST AUTHORITY.pem [KEY=VALUE...]\n");
	else if (!p)
		fprintf(stderr, "no memory\n");
	else
		status = configure(p, argc, argv, &e) < 0 ? failed(&e) : serve(p, argv[2], &e);
	brig_proxy_free(p);
	brig_manager_free(m);
	return status;
}

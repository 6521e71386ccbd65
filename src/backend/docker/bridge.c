/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/bridge.c - a network of its own for one run, and the doors that are shut on it.
 *
 * The engine's bridge leads to the internet, and just as well to this host, to the machines around
 * it and to the cloud's metadata service. Where this process may (root, on the engine's own network
 * namespace) a table of nftables shuts the latter three; it is named after the bridge and removed
 * with it. Where it may not, the run is refused. */
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "backend/docker/docker.h"
#include "base/fd.h"
#include "base/str.h"

#define RULES_MAX 8192
#define RESOLVERS_MAX 8

/* Everything that is not an address of the public internet. */
#define CLOSED                                                                                     \
	"0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, "       \
	"168.63.129.16/32, 192.0.0.0/24, 192.0.2.0/24, 192.88.99.0/24, 192.168.0.0/16, "           \
	"198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24, 224.0.0.0/4, 240.0.0.0/4"

/* Runs nft with the rules on its standard input; true when it took them all. No shell. */
static bool nft(const char *rules)
{
	char *const argv[] = { (char[]){ "nft" }, (char[]){ "-f" }, (char[]){ "-" }, NULL };
	char *const envp[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], status = -1;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
	(void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	(void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (posix_spawn(&pid, "/usr/sbin/nft", &actions, NULL, argv, envp) != 0)
		pid = -1;
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)fd_close(ends[0]);
	if (pid > 0)
		(void)fd_write_all(ends[1], rules, strlen(rules));
	(void)fd_close(ends[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Names are asked of the host's own resolvers, which often stand in the LAN: port 53 of those stays
 * open. Only plain IPv4 addresses are taken. */
static void resolvers(struct buf *b, const char *device)
{
	char text[4096], *save = NULL;
	int left = RESOLVERS_MAX;

	if (fd_read_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof(text)) <= 0)
		return;
	for (char *l = strtok_r(text, "\n", &save); l && left; l = strtok_r(NULL, "\n", &save)) {
		const char *at = str_starts(l, "nameserver ") ? l + 11 : "";

		if (!*at || strspn(at, "0123456789.") != strlen(at) || str_starts(at, "127."))
			continue;
		buf_printf(b,
			   "iifname \"%s\" ip daddr %s udp dport 53 accept\n"
			   "iifname \"%s\" ip daddr %s tcp dport 53 accept\n",
			   device, at, device, at);
		left--;
	}
}

static bool firewall(const char *device)
{
	CLEANUP(buf) struct buf b = BUF_INIT(RULES_MAX);

	if (geteuid() != 0 || !if_nametoindex(device))
		return false;
	buf_printf(&b,
		   "table inet %s {\n"
		   "chain forward {\ntype filter hook forward priority -10; policy accept;\n"
		   "oifname \"%s\" ct state new drop\n"
		   "iifname \"%s\" meta nfproto ipv6 reject with icmpx type admin-prohibited\n",
		   device, device, device);
	resolvers(&b, device);
	buf_printf(&b,
		   "iifname \"%s\" ip daddr { " CLOSED
		   " } reject with icmpx type admin-prohibited\n}\n"
		   "chain input {\ntype filter hook input priority -10; policy accept;\n"
		   "iifname \"%s\" reject with icmpx type admin-prohibited\n}\n}\n",
		   device, device);
	return !b.failed && nft(buf_str(&b));
}

void bridge_firewall_remove(const char *device)
{
	char rules[64];

	if (geteuid() != 0)
		return;
	(void)snprintf(rules, sizeof(rules), "delete table inet %s\n", device);
	(void)nft(rules);
}

static void body(const struct bridge *b, const char *id, const char *nonce, struct json *j)
{
	json_object(j);
	json_kstr(j, "Name", b->name);
	json_kstr(j, "Driver", "bridge");
	json_kbool(j, "CheckDuplicate", true);
	json_kbool(j, "EnableIPv6", false);
	json_key(j, "Labels");
	json_object(j);
	json_kstr(j, DOCKER_LABEL_RUN, id);
	json_kstr(j, DOCKER_LABEL_NONCE, nonce);
	json_object_end(j);
	json_key(j, "Options");
	json_object(j);
	json_kstr(j, "com.docker.network.bridge.name", b->device);
	json_kstr(j, "com.docker.network.bridge.enable_icc", "false");
	json_object_end(j);
	json_object_end(j);
}

int bridge_make(struct engine *g, const char *id, const char *nonce, struct bridge *b,
		struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	struct engine_call q = { .method = "POST", .path = "/networks/create" };
	struct json j;

	(void)snprintf(b->name, sizeof(b->name), "brig-%s", id);
	(void)snprintf(b->device, sizeof(b->device), "brig%.10s", id);
	json_init(&j, &text, false);
	body(b, id, nonce, &j);
	q.body = buf_str(&text);
	if (engine_ask(g, &q, &a, e) < 0)
		return -e->code;
	if (a.status >= 300)
		return err_refuse(e, ERR_UNAVAILABLE, EIO,
				  "use --network none, or see the engine's own network settings",
				  "the engine makes no network: %s", a.message);
	b->made = true;
	b->closed = firewall(b->device);
	return 0;
}

void bridge_remove(struct engine *g, struct bridge *b)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	struct engine_call q = { .method = "DELETE", .path = path };
	struct err e;

	if (!b->made)
		return;
	(void)snprintf(path, sizeof(path), "/networks/%s", b->name);
	(void)engine_ask(g, &q, &a, &e);
	if (b->closed)
		bridge_firewall_remove(b->device);
	b->made = false;
}

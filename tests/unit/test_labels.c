/* SPDX-License-Identifier: Apache-2.0 */
/* Names of services, and names that carry data. */
#include "unit.h"

#include "egress/rules/labels.h"

/* Below an allowed wildcard. */
static const char *const services[] = {
	"www",
	"a3f2b8c1d4e5f6a7",
	"d2z8zp8x9c1qpf",
	"0123456789abcdef0123456789abcdef",
	"9d3e4f1c-7a2b-4c5d-8e6f-1a2b3c4d5e6f",
	"9d3e4f1c-7a2b-4c5d-8e6f-1a2b3c4d5e6f.9d3e4f1c-7a2b-4c5d-8e6f-1a2b3c4d5e6f",
	"cdn-lfs-us-1",
	"r4---sn-4g5e6nsz",
	"pkg-containers",
	"mydb.c9akciq32rgh.us-east-1",
	"cluster0-shard-00-02.ab1cd",
	"o123456.ingest",
	"myapp-git-some-branch-of-mine-abc123xyz-team",
	"diagstorageprod01weu02",
	"ec2-54-12-113-204.compute-1",
	"service-abc123defg-uc.a",
	"xn--80ak6aa92e",
	"xn--mgberp4a5d4ar",
	"20240101123456",
	"api-7d4b9c6f8d-x2x4z.internal",
	"storage.eu-central-1.objects.regions",
	"production-registry-mirror-of-the-western-data-centre",
	"settings.frontend.services",
	"vpc-logs-zn7q3yqkx5r4t6y7u8i9o0p1q2.us-west-2",
	"q7x6v5b4n3m2l1k0j9h8g7f6d5.appsync-api.us-east-1",
	"terraform-20240115093012345600000001.s3",
	/* an address of a function, and 32 signs of other services */
	"h5k2jz7q3mxw4v6n8b1c9d0f2g3t5r7y.lambda-url.us-east-1",
	"a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5-1234567890.us-east-1",
	"0123456789abcdef0123456789abcdef.gr7.eu-west-3",
	"_1f2e3d4c5b6a79880716253443526170.mhbtsbpdnt",
	/* buckets and accounts */
	"aws-cloudtrail-logs-123456789012-1a2b3c4d",
	"cdk-hnb659fds-assets-123456789012-eu-west-3",
	"mystack-mybucketf68f3ff0-1qx7m8p3n2k4",
	"elasticbeanstalk-us-east-1-123456789012",
	"productionresultssa0",
	"st4prod7westeurope02.z13",
	"adb-1234567890123456.7",
	"myapp.kindforest-1a2b3c4d.eastus",
	"e1234.dscb.a",
	"64a1b2c3d4e5f6a7b8c9d0e1--mysite",
	"user-literate-potato-7vq9p5x6wr4-3000.app",
	"search-mydomain-h5k2jz7q3mxw4v6n8b1c9d0f2g.us-east-1",
	"vpce-0123456789abcdef0-a1b2c3d4.s3.us-east-1",
	"xn--fiqs8s.xn--55qx5d",
	"xn--n3h5a7b9c1d3e5f",
};

static const struct {
	const char *name, *what;
} packed[] = {
	/* SOME_TOKEN_1 in hexadecimal digits, alone, in a piece of each, behind xn-- */
	{ "534f4d455f544f4b454e5f31", "a text in hexadecimal digits" },
	{ "4d5953454352.455457414c", "texts in hexadecimal digits" },
	{ "xn--534f4d455f544f4b454e5f31534f4d455f544f4b454e5f31", "a text in hexadecimal digits" },
	{ "353636373839353637", "a text in hexadecimal digits" },
	{ "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b", "a long row of digits" },
	{ "81726354908172635490817263549081", "a long row of digits" },
	/* base32 and base64, as a name has them */
	{ "knhu2rk7krhuwrkojzpxg33nmvpxg5a", "a text in base32" },
	{ "orugs42jonaxizlyorswqylupfxxk", "a text in base32" },
	{ "c29tzv9zzwnyzxrfdg9rzw5fmti3nq", "a text in base64" },
	{ "q7c29tzv9zzwnyzxrfdg9rzw5fmti3nq8w", "a long row of letters and digits" },
	{ "q8w7e6r5.t4y3u2i1.o0p9a8s7", "pieces of one length" },
	{ "tok-aaaa.bbbbcccc.ddddeeee.ffffgggg", "pieces of one length" },
	{ "tokaaaabbbbc.ccddddeeeeff.ffgggghhhhii", "pieces of one length" },
	{ "20249915093012345600000001", "a long row of digits" },
	{ "202401150930123456000000017", "a long row of digits" },
	{ "a1b2c3d4e.f5a6b7c8.d9e0f1a2b.c3d4e5f6.a7b8c9d0e", "many rows of letters and digits" },
};

static void services_have_names(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_LEN(services); i++) {
		const char *what = labels_packed(services[i], strlen(services[i]));

		if (what)
			fail_msg("%s: %s", services[i], what);
	}
}

static void data_has_none(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_LEN(packed); i++) {
		const char *what = labels_packed(packed[i].name, strlen(packed[i].name));

		if (!what || strcmp(what, packed[i].what) != 0)
			fail_msg("%s: %s", packed[i].name, what ? what : "nothing");
	}
}

static void a_wildcard_stands_for_what_is_below_it(void **state UNUSED)
{
	static const struct {
		const char *rule, *host;
		size_t n;
	} all[] = {
		{ "*.example.com", "a.b.example.com", 3 },
		{ "GET,POST *.Example.com:443/v1", "a.b.example.com", 3 },
		{ "example.com", "example.com", 0 },
		{ "a.b.example.com", "a.b.example.com", 0 },
		{ "*.example.com", "a.b.example.org", 0 },
		{ "*.ipfs.dweb.link",
		  "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi.ipfs.dweb.link", 0 },
		{ "*.vscode-cdn.net", "a7b3c5d7.vscode-cdn.net", 0 },
		{ "*.net", "a7b3c5d7.notarweave.net", 19 },
		{ "*.example.com", "x.arweave.net.example.com", 13 },
		{ "asked", "a.b.example.org", 0 },
		{ NULL, "a.b.example.org", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct host h = { .len = (uint8_t)strlen(all[i].host) };

		(void)snprintf(h.name, sizeof(h.name), "%s", all[i].host);
		assert_int_equal(labels_below(all[i].rule, &h), all[i].n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services_have_names),
		cmocka_unit_test(data_has_none),
		cmocka_unit_test(a_wildcard_stands_for_what_is_below_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

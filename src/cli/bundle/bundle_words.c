/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle/bundle_words.h"

/* clang-format off */
const struct bundle_word bundle_commands[BUNDLE_COMMANDS] = {
	[BUNDLE_PACK] = { "pack", "DIR|ROLE [-o FILE] [OPTION...]", "a role and its files, or a folder with role.yaml, as one archive", 1 },
	[BUNDLE_INSPECT] = { "inspect", "FILE|REF [OPTION...]", "read all of it, and say what it is", 1 },
	[BUNDLE_INSTALL] = { "install", "FILE|REF[@sha256:...] [OPTION...]", "verify and unpack it; its role runs after `brig allow NAME`", 1 },
	[BUNDLE_PUSH] = { "push", "FILE REF [OPTION...]", "to a registry, with FILE.sig if there is one", 2 },
	[BUNDLE_PULL] = { "pull", "REF -o FILE [OPTION...]", "from a registry into a file, and its signature into FILE.sig", 1 },
	[BUNDLE_LIST] = { "list", "[OPTION...]", "what is installed, and where", 0 },
	[BUNDLE_REMOVE] = { "remove", "NAME@VERSION [OPTION...]", "its files; its digest stays known", 1 },
	[BUNDLE_SCHEMA] = { "schema", "", "the JSON schema of manifest.json", 0 },
};

#define IN(c) (1U << BUNDLE_##c)
#define REMOTE (IN(INSPECT) | IN(INSTALL) | IN(PUSH) | IN(PULL))

const struct bundle_option bundle_options[BUNDLE_OPTIONS] = {
	[BUNDLE_OPTION_OUTPUT] = { "--output", "-o", "FILE", "write the archive there (pack: NAME-VERSION.bundle)", IN(PACK) | IN(PULL) },
	[BUNDLE_OPTION_NAME] = { "--name", NULL, "NAME", "instead of the role's metadata.name", IN(PACK) },
	[BUNDLE_OPTION_VERSION] = { "--version", NULL, "VERSION", "instead of the role's metadata.version (0.0.0)", IN(PACK) },
	[BUNDLE_OPTION_SIGN] = { "--sign", NULL, "KEY", "sign it with this SSH key, into FILE.sig", IN(PACK) },
	[BUNDLE_OPTION_DIGEST] = { "--digest", NULL, "sha256:HEX", "refuse an archive with another digest", IN(INSTALL) | IN(INSPECT) | IN(PULL) },
	[BUNDLE_OPTION_VERIFY_KEY] = { "--verify-key", NULL, "FILE", "refuse it unless it is signed by this public SSH key", IN(INSTALL) | IN(INSPECT) | IN(PULL) },
	[BUNDLE_OPTION_FORGET] = { "--forget", NULL, NULL, "the digest, too: that name and version are free again", IN(REMOVE) },
	[BUNDLE_OPTION_PLAIN] = { "--plain-http", NULL, NULL, "no TLS, for a registry on this machine", REMOTE },
	[BUNDLE_OPTION_TIMEOUT] = { "--timeout", NULL, "DURATION", "for all that a registry is asked (10m)", REMOTE },
	[BUNDLE_OPTION_JSON] = { "--json", NULL, NULL, "the result as an object", ~IN(SCHEMA) },
};
/* clang-format on */

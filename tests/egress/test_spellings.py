#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A value as real encoders write it, once and twice, cut at every place: requests are stopped, and nothing of it is left in answers."""

import base64
import html
import itertools
import json
import os
import pathlib
import quopri
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import main, scratch, test  # noqa: E402

DRIVE = pathlib.Path(os.environ.get("BRIG", "build/brig")).resolve().parent / "tests/drive-scan"
PRINTABLE = "".join(map(chr, range(33, 127)))
VALUES = [
    PRINTABLE,
    PRINTABLE[::-1],
    PRINTABLE[::2] + PRINTABLE[1::2],
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "pa$$w0rd&with<signs>=and+more/of-them",
    "AccountKey=ABcd/ef+gh%2Fij&x=00;\"end'",
    "ab/+=&<>'\"cd~zzz",
]

# What each makes of a list of texts, which comes as JSON; a JSON list for every encoder of it.
PROGRAMS = {
    "php": (["php", "-r"], """
$t = json_decode(stream_get_contents(STDIN)); $o = [];
foreach (['json_encode', 'htmlspecialchars', 'urlencode', 'rawurlencode', 'quoted_printable_encode', 'htmlentities'] as $f) $o["php $f"] = array_map($f, $t);
$o["php json_encode HEX"] = array_map(fn($x) => json_encode($x, JSON_HEX_TAG | JSON_HEX_AMP | JSON_HEX_APOS | JSON_HEX_QUOT), $t);
echo json_encode($o);"""),
    "ruby": (["ruby", "-e"], """
require 'json'; require 'cgi'; require 'uri'; require 'erb'
t = JSON.parse(STDIN.read)
puts JSON.generate({'ruby to_json' => t.map(&:to_json), 'ruby escapeHTML' => t.map { |x| CGI.escapeHTML(x) }, 'ruby CGI.escape' => t.map { |x| CGI.escape(x) },
  'ruby pack M' => t.map { |x| [x].pack('M') }, 'ruby pack m' => t.map { |x| [x * 2].pack('m') }, 'ruby dump' => t.map(&:dump)})"""),
    "node": (["node", "-e"], """
const t = JSON.parse(require('fs').readFileSync(0)), o = {};
for (const f of [JSON.stringify, encodeURIComponent, encodeURI, escape]) o['node ' + f.name] = t.map(x => f(x));
o['node URLSearchParams'] = t.map(x => new URLSearchParams({q: x}).toString());
console.log(JSON.stringify(o));"""),
}
GO = """package main
import ("encoding/json"; "fmt"; "html"; "html/template"; "net/url"; "os")
func main() {
	var t []string
	json.NewDecoder(os.Stdin).Decode(&t)
	o := map[string][]string{}
	for _, x := range t {
		j, _ := json.Marshal(x)
		o["go json"] = append(o["go json"], string(j))
		o["go html"] = append(o["go html"], html.EscapeString(x))
		o["go template js"] = append(o["go template js"], template.JSEscapeString(x))
		o["go template html"] = append(o["go template html"], template.HTMLEscapeString(x))
		o["go query"] = append(o["go query"], url.QueryEscape(x))
		o["go path"] = append(o["go path"], url.PathEscape(x))
	}
	j, _ := json.Marshal(o)
	fmt.Println(string(j))
}
"""
JAVA = """import java.net.URLEncoder; import java.nio.charset.StandardCharsets; import java.util.Base64;
public class Spell {
	public static void main(String[] a) throws Exception {
		for (String line; (line = new java.io.BufferedReader(new java.io.InputStreamReader(System.in)).readLine()) != null; ) {
			for (String x : line.split(" ")) {
				String t = new String(Base64.getDecoder().decode(x), StandardCharsets.UTF_8);
				System.out.println(Base64.getEncoder().encodeToString(URLEncoder.encode(t, StandardCharsets.UTF_8).getBytes()) + " "
					+ Base64.getEncoder().encodeToString(Base64.getMimeEncoder().encode((t + t).getBytes())));
			}
			return;
		}
	}
}
"""


def ours():
    """Python's, and what .NET and Gson make, which are not packaged here, by their rules."""
    def signs(t, of, how, what=ord):
        return "".join(how % what(c) if c in of else c for c in t)

    return {
        "python json": [json.dumps(t) for t in VALUES],
        "python html": [html.escape(t) for t in VALUES],
        "python quote": [urllib.parse.quote(t) for t in VALUES],
        "python quote all": ["".join(f"%{c:02x}" for c in t.encode()) for t in VALUES],
        "python quopri": [quopri.encodestring(t.encode()).decode() for t in VALUES],
        "python base64": [base64.encodebytes((t + t).encode()).decode() for t in VALUES],
        "python utf-16": [t.encode("utf-16-le").decode("latin1") for t in VALUES],
        "python utf-16 be": [t.encode("utf-16-be").decode("latin1") for t in VALUES],
        "python unicode": ["".join(f"\\u{ord(c):04X}" for c in t) for t in VALUES],
        "python numbers": ["".join(f"&#{ord(c)};" for c in t) for t in VALUES],
        ".NET UrlEncode": ["".join(c if c.isalnum() or c in "-_.!*()" else f"%{ord(c):02x}" for c in t) for t in VALUES],
        ".NET Text.Json": [signs(t.replace("\\", "\\\\"), "+<>&'\"`", "\\u%04X") for t in VALUES],
        "java properties": [signs(t, "\\=:#!", "\\%s", str) for t in VALUES],
        "shell words": [signs(t, "\\&#!$'\"`;<>|()*?[]{}~^,", "\\%s", str) for t in VALUES],
        "gson": [signs(t.replace("\\", "\\\\").replace('"', '\\"'), "<>&='", "\\u%04x") for t in VALUES],
    }


def theirs():
    """Of each runtime, started once."""
    spelled, given = {}, json.dumps(VALUES)
    for argv, text in PROGRAMS.values():
        spelled.update(json.loads(subprocess.run([*argv, text], input=given, capture_output=True, text=True, check=True).stdout))
    folder = scratch() / "spellings"
    folder.mkdir()
    (folder / "spell.go").write_text(GO)
    (folder / "Spell.java").write_text(JAVA)
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    said = subprocess.run(["go", "run", folder / "spell.go"], input=given, capture_output=True, text=True, check=True, env=environment).stdout
    spelled.update(json.loads(said))
    coded = " ".join(base64.b64encode(t.encode()).decode() for t in VALUES)
    said = subprocess.run(["java", "-XX:-UsePerfData", folder / "Spell.java"], input=coded + "\n", capture_output=True, text=True, check=True).stdout
    rows = [[base64.b64decode(x).decode() for x in line.split()] for line in said.splitlines()]
    spelled["java URLEncoder"], spelled["java base64 mime"] = map(list, zip(*rows))
    return spelled


def drive(value, texts, *options):
    given = b"".join(b"%d\n%s" % (len(t), t) for t in texts)
    return subprocess.run([DRIVE, *options, value], input=given, capture_output=True, check=True).stdout.decode().splitlines()


def in_a_text(t):
    return b'{"a": 1} ' + t.encode("latin1") + b" and more"


def old_list(v):
    """The spellings that were once listed, without those of every byte."""
    names = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

    def each(how):
        return "".join(how.get(c, c) for c in v)

    js = {'"': '\\"', "\\": "\\\\"}
    return [v, urllib.parse.quote(v, safe="~"), each(js), each({**js, "/": "\\/"}),
            each({**names, '"': "&quot;", "'": "&#x27;"}), each({**names, '"': "&quot;", "'": "&#39;"}),
            each({**names, '"': "&#34;", "'": "&#39;", "+": "&#43;"}), each({**names, '"': "&quot;", "'": "&#x27;", "/": "&#x2F;"}),
            each({**names, '"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"})]


def check(spelled):
    """Every one of them, in a text: what is wrong with which."""
    wrong = []
    for i, value in enumerate(VALUES):
        texts = [in_a_text(rows[i]) for rows in spelled.values()]
        for name, text, said in zip(spelled, texts, drive(value, texts)):
            stopped, same, cuts, out = said.split()
            out = bytes.fromhex(out)
            whole = out.startswith(b'{"a": 1} ') and out.endswith(b" and more") and b"brig-SCRUBBED" in out
            if not stopped == same == cuts or not whole or len(out) > 9 + 9 + 2 * 13 + 80:
                wrong.append((name, value[:20], stopped, same, cuts, text[:60], out[:120]))
    return wrong


def told(wrong):
    return f"{len(wrong)} wrong: " + "\n".join(map(str, wrong[:5]))


@test(as_user="user", limit=120)
def what_real_encoders_write_is_found_wherever_it_is_cut():
    spelled = {**ours(), **theirs()}
    assert len({name.split()[0] for name in spelled}) >= 7 and len(spelled) >= 24, sorted(spelled)
    wrong = check(spelled)
    assert not wrong, told(wrong)
    missed = {name for name, rows in spelled.items() for v, row in zip(VALUES, rows) if not any(x in row for x in old_list(v))}
    assert len(missed) >= 12, f"the list that was there once found all but {missed}"
    plain = [found for i, v in enumerate(VALUES) for found in drive(v, [in_a_text(spelled[n][i]) for n in missed], "--plain")]
    assert plain.count("0") > len(plain) / 2, "control: the search alone finds what is escaped"


@test(as_user="user", limit=120)
def and_so_is_one_in_the_other():
    once = ours()
    twice, hows = {}, {"json": json.dumps, "html": html.escape, "quote": urllib.parse.quote, "utf-16": lambda t: t.encode("utf-16-le").decode("latin1"),
                       "quopri": lambda t: quopri.encodestring(t.encode("latin1")).decode("latin1")}
    for (outer, how), inner in itertools.product(hows.items(), once):
        # nobody escapes the bytes of UTF-16 as HTML, or quotes what is quoted
        if not ("16" in inner and outer in ("html", "utf-16")) and not (outer in inner and outer == "quopri"):
            twice[f"{outer} of {inner}"] = [how(t) for t in once[inner]]
    wrong = check(twice)
    assert not wrong, told(wrong)


if __name__ == "__main__":
    sys.exit(main())

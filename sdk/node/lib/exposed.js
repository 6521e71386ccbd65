// SPDX-License-Identifier: Apache-2.0
// Could a command in a sandbox have written this program? brig notes the folders that commands may write to in its state.
import { createHash } from "node:crypto";
import { lstatSync, readFileSync, readlinkSync, statSync } from "node:fs";
import os from "node:os";
import path from "node:path";

const LINKS_MAX = 40;

function isLink(file) {
  try {
    return lstatSync(file).isSymbolicLink();
  } catch {
    return false;
  }
}

/** The home that the list of accounts names: a run under another HOME has its state there. */
function listed() {
  try {
    return os.userInfo().homedir;
  } catch {
    return undefined;
  }
}

/** The homes of who else owns one of them. What their sandboxes write is in their notes; root alone is led there. */
function homesOfOwners(files) {
  if (process.geteuid() !== 0) return [];
  const uids = new Set(files.map((file) => lstatSync(file, { throwIfNoEntry: false })?.uid).filter(Boolean));
  if (uids.size === 0) return [];
  const accounts = readFileSync("/etc/passwd", "utf8").split("\n").map((line) => line.split(":"));
  return accounts.filter((a) => uids.has(Number(a[2]))).map((a) => a[5]);
}

/** All places where this user's state is or may have been, as base/state.h numbers them. */
function notes({ XDG_STATE_HOME, HOME, XDG_RUNTIME_DIR }, files) {
  const uid = process.geteuid();
  const homes = [uid === 0 ? undefined : HOME, listed(), ...homesOfOwners(files)].filter(Boolean).map((home) => `${home}/.local/state`);
  const bases = [XDG_STATE_HOME, XDG_RUNTIME_DIR, uid === 0 ? "/var/lib" : undefined, ...homes, `/run/user/${uid}`];
  return bases.filter((base) => base?.startsWith("/")).map((base) => `${base}/brig/exposed`);
}

/** What the kernel passes on its way there, name by name: folders, links and what they lead to, as far as there is anything. */
function met(file) {
  const found = ["/"];
  const todo = (path.isAbsolute(file) ? file : `${process.cwd()}/${file}`).split("/");
  for (let at = "/", links = 0; todo.length; ) {
    const name = todo.shift();
    const here = path.join(at, name);
    if (name === "" || name === "." || name === "..") {
      at = here;
      continue;
    }
    found.push(here);
    if (!isLink(here) || ++links > LINKS_MAX) {
      at = here;
      continue;
    }
    const goal = readlinkSync(here);
    if (path.isAbsolute(goal)) at = "/";
    todo.unshift(...goal.split("/"));
  }
  return [...new Set(found)];
}

/** The name of the note of what is there, by its identity: glibc's numbers of a device. */
function identity(file) {
  const { dev, ino } = statSync(file, { bigint: true });
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & 0xfffff000n);
  const minor = (dev & 0xffn) | ((dev >> 12n) & 0xffffff00n);
  return `i-${major.toString(16)}:${minor.toString(16)}-${ino.toString(16)}`;
}

/** By name and by identity, of the file, of every folder above it, and of all links that lead there. What is missing is judged by its folder. */
export function isExposed(file) {
  const folders = met(file);
  const names = folders.map((f) => `p-${createHash("sha256").update(f).digest("hex").slice(0, 40)}`);
  for (const f of folders) {
    try {
      names.push(identity(f));
    } catch {
      // it is known by its name alone
    }
  }
  return notes(process.env, folders).some((place) => names.some((name) => isLink(`${place}/${name}`)));
}

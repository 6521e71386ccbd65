// SPDX-License-Identifier: Apache-2.0
// Where the daemon is: BRIG_HOST or, by the rule of the command line, this user's own socket.
import { lstatSync } from "node:fs";
import { isIP } from "node:net";
import path from "node:path";

import { BrigError, UntrustedServer } from "./errors.js";
import { isExposed } from "./exposed.js";

const ROOT_FOLDER = "/run/brig";
const NAME = "brig.sock";
const UNIX_SCHEME = "unix://";

function look(file) {
  try {
    return lstatSync(file);
  } catch {
    return null;
  }
}

function isOurs(folder) {
  const st = look(folder);
  return st !== null && st.isDirectory() && st.uid === process.geteuid() && (st.mode & 0o077) === 0;
}

function ownFolder(env) {
  if (process.geteuid() === 0) return ROOT_FOLDER;
  const session = env.XDG_RUNTIME_DIR?.startsWith("/") ? env.XDG_RUNTIME_DIR : `/run/user/${process.geteuid()}`;
  if (isOurs(session)) return `${session}/brig`;
  if (env.XDG_STATE_HOME?.startsWith("/")) return `${env.XDG_STATE_HOME}/brig/run`;
  if (!env.HOME?.startsWith("/")) throw new BrigError("there is no folder for the daemon's socket", "set HOME, XDG_RUNTIME_DIR or BRIG_HOST");
  return `${env.HOME}/.local/state/brig/run`;
}

function isLoopback(host) {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

function checkToken(token) {
  if (token && !/^[!-~]{1,200}$/.test(token)) throw new BrigError("the token is not a token", "brig daemon token add NAME makes one");
  return token || undefined;
}

function tcp(host, token, ca) {
  let url = null;
  try {
    url = new URL(host);
  } catch {
    // told below
  }
  const plain = url?.protocol === "http:";
  if (!url || !(plain || url.protocol === "https:") || !url.hostname || url.pathname !== "/" || url.search || url.username)
    throw new BrigError(`'${host}' is not the address of a daemon`, "unix:///PATH, http://ADDR:PORT on loopback, or https://NAME[:PORT]");
  const name = url.hostname.replace(/^\[|\]$/g, "");
  if (plain && !isLoopback(name))
    throw new BrigError("plain HTTP must be on loopback: a token would travel in clear", "lead a port of yours there with ssh -L, or use https");
  const port = Number(url.port || (plain ? 80 : 443));
  return { host: plain && name === "localhost" ? "127.0.0.1" : name, port, tls: !plain, token: checkToken(token), ca };
}

/**
 * The place to connect to: `path` of a Unix socket, or `host` and `port`. `own`: nobody named it, so a daemon may be started
 * there. A token of the environment is for the host of the environment, and for no other.
 */
export function find({ host, token, ca }) {
  const named = host || process.env.BRIG_HOST || "";
  const known = token || (host ? undefined : process.env.BRIG_TOKEN);
  if (!named) return { path: `${ownFolder(process.env)}/${NAME}`, own: true };
  if (!named.startsWith(UNIX_SCHEME)) return tcp(named, known, ca);
  const at = named.slice(UNIX_SCHEME.length);
  if (!at.startsWith("/")) throw new BrigError(`'${named}' is not an absolute path`, "unix:///PATH has three slashes");
  return { path: at, own: false };
}

/**
 * Node cannot ask the kernel who listens at a socket. What can be seen is whether anybody else could have put it there: the
 * folder must be this user's (or root's) alone, and no place of a sandbox's: a guest is the user there, and makes such folders.
 */
export function checkSocket(place) {
  if (isExposed(place.path)) // whether or not anything is there yet
    throw new UntrustedServer(`the socket '${place.path}' lies where commands in sandboxes may have written`, "name none that a sandbox writes to");
  const folder = look(path.dirname(place.path));
  const socket = look(place.path);
  if (folder === null || socket === null) return; // the connection fails
  const uids = [0, process.geteuid()];
  if (folder.isDirectory() && uids.includes(folder.uid) && (folder.mode & 0o077) === 0 && uids.includes(socket.uid)) return;
  throw new UntrustedServer(`the folder of the socket '${place.path}' is not yours alone`, "chmod 700 it; name none that a sandbox writes to");
}

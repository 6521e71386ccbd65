// SPDX-License-Identifier: Apache-2.0
// Starts the daemon when it is needed, as the command line does.
import { spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import path from "node:path";

import { ConnectionFailed } from "./errors.js";
import { isExposed } from "./exposed.js";

// What brig itself reads: where its folders are, and the ways to other daemons.
const PASSED_ON = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
  "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST"];
const TEXT_MAX = 700;

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Past those that a sandbox could have put there: into the node_modules/.bin of a project, say. */
function findProgram(name) {
  const folders = name.includes("/") ? [process.cwd()] : (process.env.PATH ?? "/usr/bin:/bin").split(":");
  const found = folders.filter(path.isAbsolute).map((folder) => path.resolve(folder, name)).filter(isProgram);
  const good = found.find((file) => !isExposed(file));
  if (good) return good;
  if (found.length)
    throw new ConnectionFailed(`no daemon runs, and '${found[0]}' is not started: it lies where commands in sandboxes may have written`,
      "install brig where no sandbox may write, or start the daemon by hand: brig daemon");
  throw new ConnectionFailed(`no daemon runs, and there is no program '${name}' to start one`, "install brig, or name it in BRIG_PROGRAM");
}

/** What the new daemon says about itself: "1", or why not. */
async function listen(pipe) {
  let text = "";
  for await (const piece of pipe) {
    text += piece.toString("utf8");
    if (text === "1" || text.length >= TEXT_MAX) break;
  }
  return text;
}

/** Resolves when a daemon takes calls, or another client is starting one at this moment. */
export async function start(program) {
  const name = findProgram(program || process.env.BRIG_PROGRAM || "brig");
  const env = Object.fromEntries(PASSED_ON.filter((k) => process.env[k] !== undefined).map((k) => [k, process.env[k]]));
  const child = spawn(name, ["--ready-fd", "3"], { argv0: "brigd", cwd: "/", env, detached: true, stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const failed = new Promise((_, reject) => {
    child.once("error", (e) => {
      reject(new ConnectionFailed(`cannot start '${name}': ${e.message}`, "install brig, or name it in BRIG_PROGRAM"));
    });
  });
  child.unref();
  const text = await Promise.race([listen(child.stdio[3]), failed]);
  child.stdio[3].destroy();
  if (text === "1" || text.startsWith("busy ")) return;
  const [what, hint] = text.slice(text.indexOf(" ") + 1).split("\n");
  throw new ConnectionFailed(`cannot start a daemon: ${what || "it ended at once"}`, hint);
}

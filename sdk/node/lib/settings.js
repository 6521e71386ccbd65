// SPDX-License-Identifier: Apache-2.0
// Options of create() and run() to the settings of a sandbox, which have the names of brig.yaml.
import path from "node:path";

import { BrigError } from "./errors.js";

function texts(values) {
  return Object.fromEntries(Object.entries(values).map(([k, v]) => [k, String(v)]));
}

/** `spec` with what the other options say put over it. `local`: a relative workspace is one of this process. */
export function settings({ spec = {}, workspace, policy, network, allow, limits, env, companions, backend }, local = true) {
  const made = structuredClone(spec);
  for (const [key, value] of Object.entries({ policy, network, backend, companions })) if (value !== undefined) made[key] = value;
  if (limits !== undefined) made.limits = { ...made.limits, ...limits };
  if (allow !== undefined) {
    made.egress = { ...made.egress, allow: [...allow] };
    made.network ??= "proxy";
  }
  if (env !== undefined) made.env = { ...made.env, set: { ...made.env?.set, ...texts(env) } };
  if (workspace !== undefined) made.workspace = { ...made.workspace, path: String(workspace) };
  const at = made.workspace?.path;
  if (at === undefined) return made;
  if (!local && !at.startsWith("/"))
    throw new BrigError(`the workspace '${at}' is not an absolute path`, "a daemon that is called over TCP does not know this folder");
  made.workspace.path = path.resolve(at);
  return made;
}

/** A list is a command and its arguments; a text is a line for sh -c. */
export function command(argv) {
  return typeof argv === "string" ? { command: argv } : { argv: argv.map(String) };
}

export function variables(env) {
  return env === undefined ? undefined : texts(env);
}

/** Seconds, or a text such as 1h30m. */
export function duration(value) {
  return typeof value === "number" && !Number.isInteger(value) ? `${Math.round(value * 1000)}ms` : value;
}

// SPDX-License-Identifier: Apache-2.0
// Client of brig: run code that nobody has read in sandboxes, from Node.
export { Client, Context, Exec, Sandbox } from "./client.js";
export { Files } from "./files.js";
export { Result } from "./model.js";
export { settings } from "./settings.js";
export {
  ApiError, BackendUnavailable, BrigError, CommandFailed, Conflict, ConnectionCut, ConnectionFailed, EventsExpired, ExecEnded, Forbidden, ForeignPeer,
  IdempotencyMismatch, Internal, Invalid, NameTaken, NotFound, PolicyCeiling, ProtocolError, Quota, SandboxFailed, SandboxNotReady, SandboxPaused,
  TooLarge, Unauthenticated, Unsupported, UntrustedServer, VersionError,
} from "./errors.js";

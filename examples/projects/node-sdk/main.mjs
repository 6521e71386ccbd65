// SPDX-License-Identifier: Apache-2.0
// One command, then a sandbox for several.
import { Client } from "brig";

const client = new Client();
const result = await client.run(["python3", "-c", "print(6 * 7)"], { timeout: 10 });
console.log(result.stdout.trim());

const box = await client.create({ workspace: ".", limits: { memory: "256m" } });
try {
  await box.files.write("/tmp/hello", "hello from the sandbox\n");
  console.log((await box.exec(["cat", "/tmp/hello"])).stdout.trim());
  console.log("exit", (await box.exec("exit 3")).exitCode);
} finally {
  await box.delete();
}

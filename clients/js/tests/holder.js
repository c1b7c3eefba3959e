// holder.js RESOURCE TTL [idle] locks, and for each line of its input says whether it still holds
// the lock. With idle it has nothing to do, and does not release the lock.
import { acquire } from "../index.js";

const [resource, ttl, idle] = process.argv.slice(2);
const hold = await acquire(resource, { ttl: Number(ttl) });
const { signal } = hold;
console.log("held");
if (!idle) {
  process.stdin.on("data", (lines) => {
    for (const line of lines.toString().trim().split("\n")) {
      if (signal.aborted) {
        console.log(`${signal.reason.name} before ${line}`);
      } else {
        console.log(line);
      }
    }
  });
  process.stdin.on("end", () => hold.release());
}

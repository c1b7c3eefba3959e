// The first clock stands still while the machine is suspended, and the second one can be set.
// What has passed since a moment is the larger difference: an end may come too early, but not too
// late, unless the machine is suspended and its clock set back by as much.

export const now = () => [performance.now(), Date.now()];

export function since(moment) {
  const [monotonic, wall] = now();
  return Math.max(monotonic - moment[0], wall - moment[1]);
}

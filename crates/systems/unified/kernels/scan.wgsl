@group(0) @binding(1) var<storage, read_write> counts: array<u32>;
@group(0) @binding(2) var<storage, read_write> totals: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  var sum = 0u;
  for (var at = id * p[1]; at < (id + 1u) * p[1]; at++) {
    let count = counts[at];
    counts[at] = sum;
    sum += count;
  }
  totals[id] = sum;
}

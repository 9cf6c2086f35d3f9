@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  for (var digit = 0u; digit < 256u; digit++) {
    counts[digit * p[3] + id] = 0u;
  }
  let start = min(id * p[2], p[1]);
  let end = min(start + p[2], p[1]);
  for (var at = start; at < end; at++) {
    let digit = (keys[at] >> p[4]) & 255u;
    counts[digit * p[3] + id] += 1u;
  }
}

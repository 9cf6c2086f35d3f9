@group(0) @binding(1) var<storage, read_write> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>;
@group(0) @binding(3) var<storage, read_write> bases: array<u32>;
@group(0) @binding(4) var<storage, read_write> sorted: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  let start = min(id * p[2], p[1]);
  let end = min(start + p[2], p[1]);
  for (var at = start; at < end; at++) {
    let key = keys[at];
    let digit = (key >> p[4]) & 255u;
    let counter = digit * p[3] + id;
    let place = counts[counter];
    counts[counter] = place + 1u;
    sorted[bases[digit] + place] = key;
  }
}

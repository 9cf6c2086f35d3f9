@group(0) @binding(1) var<storage, read_write> source: array<u32>;
@group(0) @binding(2) var<storage, read_write> copies: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  for (var step = 0u; step < p[1]; step++) {
    let at = step * p[2] + id;
    copies[at] = source[at];
  }
}

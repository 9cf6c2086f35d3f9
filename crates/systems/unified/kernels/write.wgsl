@group(0) @binding(1) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  for (var step = 0u; step < p[1]; step++) {
    words[step * p[2] + id] = p[3];
  }
}

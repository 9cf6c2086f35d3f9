@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  var sum = 0u;
  for (var step = 0u; step < p[1]; step++) {
    sum += words[step * p[2] + id];
  }
  sums[id] = sum;
}

@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> requests: array<u32>;
@group(0) @binding(3) var<storage, read_write> results: array<u32>;

fn look(bucket: u32, signature: u32) -> u32 {
  for (var at = 0u; at < 8u; at++) {
    if words[bucket * 16u + at] == signature {
      return at;
    }
  }
  return 8u;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  let signature = requests[2u * id + 1u];
  let first = requests[2u * id] & p[1];
  var bucket = first;
  var at = look(bucket, signature);
  if at == 8u {
    bucket = first ^ (signature & p[2]);
    at = look(bucket, signature);
  }
  var found = NONE;
  if at < 8u {
    found = words[bucket * 16u + 8u + at];
  }
  results[id] = found;
}

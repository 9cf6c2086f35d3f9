// Parameters: the number of invocations, then those of the kernel.
@group(0) @binding(0) var<storage, read> p: array<u32, 16>;

const NONE: u32 = 0xffffffffu;

// The number of an invocation: rows of 65535 workgroups of 64.
fn number(id: vec3<u32>) -> u32 {
  return id.x + id.y * 4194240u;
}

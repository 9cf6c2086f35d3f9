@group(0) @binding(1) var<storage, read_write> columns: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  let rows = p[1];
  let start = min(id * p[2], rows);
  let end = min(start + p[2], rows);
  var sum = vec2<u32>(0u, 0u);
  for (var row = start; row < end; row++) {
    let day = columns[5u * rows + row];
    let discount = columns[2u * rows + row];
    if day >= p[3] && day < p[4] && discount >= p[5] && discount <= p[6] && columns[row] < p[7] {
      // At most 104,949,500: a product of one word.
      let value = columns[rows + row] * discount;
      sum.x += value;
      sum.y += select(0u, 1u, sum.x < value);
    }
  }
  sums[2u * id] = sum.x;
  sums[2u * id + 1u] = sum.y;
}

@group(0) @binding(1) var<storage, read_write> columns: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

// Six groups of a count and five sums of two words, low first.
var<private> own: array<u32, 66>;

// The 64 bits of a product.
fn wide(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
  return vec2<u32>((other << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (cross >> 16u) + (other >> 16u));
}

fn add(at: u32, value: vec2<u32>) {
  let low = own[at] + value.x;
  let carry = select(0u, 1u, low < value.x);
  own[at] = low;
  own[at + 1u] += value.y + carry;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  let rows = p[1];
  let start = min(id * p[2], rows);
  let end = min(start + p[2], rows);
  for (var at = 0u; at < 66u; at++) {
    own[at] = 0u;
  }
  for (var row = start; row < end; row++) {
    if columns[5u * rows + row] > p[3] {
      continue;
    }
    let price = columns[rows + row];
    let discount = columns[2u * rows + row];
    // At most 10,494,950 cents: the product has 31 bits.
    let reduced = price * (100u - discount);
    let group = (columns[4u * rows + row] % 6u) * 11u;
    own[group] += 1u;
    add(group + 1u, vec2<u32>(columns[row], 0u));
    add(group + 3u, vec2<u32>(price, 0u));
    add(group + 5u, vec2<u32>(reduced, 0u));
    add(group + 7u, wide(reduced, 100u + columns[3u * rows + row]));
    add(group + 9u, vec2<u32>(discount, 0u));
  }
  for (var at = 0u; at < 66u; at++) {
    sums[id * 66u + at] = own[at];
  }
}

@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> requests: array<u32>;
@group(0) @binding(3) var<storage, read_write> segments: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;

const EVICTIONS: u32 = 5u;
const INSERTED: u32 = 0u;
const REPLACED: u32 = 1u;
const FULL: u32 = 2u;
const DELETED: u32 = 3u;
const MISSING: u32 = 4u;

// Steps of loops so far. Some drivers end all loops of an invocation after a number of steps, so requests are left for the
// next launch before that: `segments` says where each invocation stopped.
var<private> steps: u32;

// Words of the signatures along a path of evictions; the last one is free.
var<private> path: array<u32, 6>;

fn other(bucket: u32, signature: u32) -> u32 {
  return bucket ^ (signature & p[2]);
}

fn look(bucket: u32, signature: u32, start: u32) -> u32 {
  steps += 9u;
  for (var step = 0u; step < 8u; step++) {
    let at = (start + step) & 7u;
    if words[bucket * 16u + at] == signature {
      return at;
    }
  }
  return 8u;
}

fn fill(word: u32, signature: u32, location: u32) {
  words[word + 8u] = location;
  words[word] = signature;
}

// The length of a path from a full bucket, beginning with a slot; 0 if there is none.
fn path_from(start: u32, first: u32) -> u32 {
  var bucket = start;
  var at = first;
  for (var step = 0u; step < EVICTIONS; step++) {
    let word = bucket * 16u + at;
    steps += 8u;
    for (var former = 0u; former < step; former++) {
      if path[former] == word {
        return 0u;
      }
    }
    path[step] = word;
    let victim = words[word];
    let next = other(bucket, victim);
    if next == bucket {
      return 0u;
    }
    let free = look(next, 0u, victim & 7u);
    if free < 8u {
      path[step + 1u] = next * 16u + free;
      return step + 2u;
    }
    bucket = next;
    at = victim & 7u;
  }
  return 0u;
}

fn insert(first: u32, signature: u32, location: u32) -> vec2<u32> {
  let second = other(first, signature);
  for (var choice = 0u; choice < 2u; choice++) {
    let bucket = select(first, second, choice == 1u);
    let at = look(bucket, signature, 0u);
    if at < 8u {
      let word = bucket * 16u + at + 8u;
      let former = words[word];
      words[word] = location;
      return vec2<u32>(REPLACED, former);
    }
  }
  for (var choice = 0u; choice < 2u; choice++) {
    let bucket = select(first, second, choice == 1u);
    let at = look(bucket, 0u, signature & 7u);
    if at < 8u {
      fill(bucket * 16u + at, signature, location);
      return vec2<u32>(INSERTED, NONE);
    }
  }
  for (var attempt = 0u; attempt < 16u; attempt++) {
    let start = select(first, second, (attempt & 1u) == 1u);
    let length = path_from(start, (signature + attempt / 2u) & 7u);
    if length > 0u {
      for (var step = length - 1u; step > 0u; step--) {
        let origin = path[step - 1u];
        fill(path[step], words[origin], words[origin + 8u]);
      }
      fill(path[0], signature, location);
      return vec2<u32>(INSERTED, NONE);
    }
  }
  return vec2<u32>(FULL, NONE);
}

fn remove(first: u32, signature: u32, location: u32) -> vec2<u32> {
  for (var choice = 0u; choice < 2u; choice++) {
    let bucket = select(first, other(first, signature), choice == 1u);
    let at = look(bucket, signature, 0u);
    if at < 8u {
      let former = words[bucket * 16u + at + 8u];
      if location != NONE && location != former {
        return vec2<u32>(MISSING, NONE);
      }
      words[bucket * 16u + at] = 0u;
      return vec2<u32>(DELETED, former);
    }
  }
  return vec2<u32>(MISSING, NONE);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  let end = segments[2u * id + 1u];
  var request = segments[2u * id];
  for (; request < end && steps < p[3]; request++) {
    steps += 12u;
    let first = requests[4u * request] & p[1];
    let signature = requests[4u * request + 1u];
    let location = requests[4u * request + 2u];
    var outcome: vec2<u32>;
    if requests[4u * request + 3u] == 2u {
      outcome = remove(first, signature, location);
    } else {
      outcome = insert(first, signature, location);
    }
    results[2u * request] = outcome.x;
    results[2u * request + 1u] = outcome.y;
  }
  segments[2u * id] = request;
}

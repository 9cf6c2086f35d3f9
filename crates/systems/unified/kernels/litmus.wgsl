@group(0) @binding(1) var<storage, read_write> program: array<u32>;
@group(0) @binding(2) var<storage, read_write> words: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> results: array<u32>;

// All atomics of WGSL are relaxed. The strongest order that it offers is the barrier of a workgroup's storage.
var<private> base: u32;
// Steps of loops so far, as Mesa's software driver counts them (two for a loop's turn and for its end, one
// for a switch); see `change.wgsl`.
var<private> steps: u32;

fn at(variable: u32) -> u32 {
  return base + variable * 16u;
}

// Lamport's bakery lock of two threads: choosing of both, numbers of both.
fn lock(first: u32, me: u32) -> u32 {
  let theirs = 1u - me;
  atomicStore(&words[at(first + me)], 1u);
  storageBarrier();
  let mine = atomicLoad(&words[at(first + 2u + theirs)]) + 1u;
  atomicStore(&words[at(first + 2u + me)], mine);
  storageBarrier();
  atomicStore(&words[at(first + me)], 0u);
  storageBarrier();
  var came = 0u;
  for (var turn = 0u; turn < p[5]; turn++) {
    steps += 2u;
    if atomicLoad(&words[at(first + theirs)]) == 0u {
      came = 1u;
      break;
    }
  }
  var entered = 0u;
  for (var turn = 0u; turn < p[5]; turn++) {
    steps += 2u;
    let number = atomicLoad(&words[at(first + 2u + theirs)]);
    if number == 0u || mine < number || (mine == number && me < theirs) {
      entered = 1u;
      break;
    }
  }
  storageBarrier();
  return came & entered;
}

// A workgroup for each thread, so that a barrier never waits for another one.
@compute @workgroup_size(1)
fn main(@builtin(global_invocation_id) global: vec3<u32>) {
  let id = number(global);
  if id >= p[0] {
    return;
  }
  let instances = p[1];
  let instructions = p[3];
  let me = p[7] + id;
  for (var instance = 0u; instance < instances && steps < p[9]; instance++) {
    atomicStore(&words[me * 16u], instance + 1u);
    base = 64u + instance * p[2];
    for (var turn = 0u; turn < p[5]; turn++) {
      steps += 4u;
      var all = true;
      for (var other = 0u; other < p[8]; other++) {
        steps += 2u;
        all = all && atomicLoad(&words[other * 16u]) > instance;
      }
      if all {
        break;
      }
    }
    // A driver that ends loops early leaves instructions out: such an instance is not whole.
    var done = 0u;
    for (var repeat = 0u; repeat < p[6]; repeat++) {
      steps += 4u;
      for (var number = 0u; number < instructions; number++) {
        steps += 3u;
        done += 1u;
        let code = (id * instructions + number) * 4u;
        let variable = program[code + 1u];
        let value = program[code + 2u];
        let cell = (id * instances + instance) * p[4] + program[code + 3u];
        switch program[code] {
          case 1u: { atomicStore(&words[at(variable)], value); }
          case 2u: { results[cell] = atomicLoad(&words[at(variable)]); }
          case 3u: { results[cell] = atomicAdd(&words[at(variable)], value); }
          case 4u: { results[cell] = atomicExchange(&words[at(variable)], value); }
          case 5u: { storageBarrier(); }
          case 6u: { results[cell] = lock(variable, value); }
          case 7u: {
            storageBarrier();
            atomicStore(&words[at(variable + 2u + value)], 0u);
          }
          case 8u: {
            let sum = atomicLoad(&words[at(variable)]) + value;
            atomicStore(&words[at(variable)], sum);
          }
          default: { }
        }
      }
    }
    // The last register says that the instance is whole.
    results[(id * instances + instance) * p[4] + 7u] = u32(done == p[6] * instructions);
  }
}

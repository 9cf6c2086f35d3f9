// The kernels of `*.wgsl` in CUDA C, word for word. `p` has the number of invocations, then the parameters.
typedef unsigned int u32;
typedef unsigned long long u64;
#define NONE 0xffffffffu
#define ID u32 id = blockIdx.x * blockDim.x + threadIdx.x; if (id >= p[0]) return;

__device__ u32 look(const u32 *w, u32 bucket, u32 signature, u32 start) {
  for (u32 step = 0; step < 8; step++) {
    u32 at = (start + step) & 7;
    if (w[bucket * 16 + at] == signature) return at;
  }
  return 8;
}

__device__ void fill(u32 *w, u32 word, u32 signature, u32 location) {
  w[word + 8] = location;
  w[word] = signature;
}

__device__ u32 path_from(const u32 *w, const u32 *p, u32 *path, u32 start, u32 first) {
  u32 bucket = start, at = first;
  for (u32 step = 0; step < 5; step++) {
    u32 word = bucket * 16 + at;
    for (u32 former = 0; former < step; former++)
      if (path[former] == word) return 0;
    path[step] = word;
    u32 victim = w[word], next = bucket ^ (victim & p[2]);
    if (next == bucket) return 0;
    u32 room = look(w, next, 0, victim & 7);
    if (room < 8) {
      path[step + 1] = next * 16 + room;
      return step + 2;
    }
    bucket = next;
    at = victim & 7;
  }
  return 0;
}

__device__ uint2 insert(u32 *w, const u32 *p, u32 first, u32 signature, u32 location) {
  u32 buckets[2] = {first, first ^ (signature & p[2])};
  for (u32 choice = 0; choice < 2; choice++) {
    u32 at = look(w, buckets[choice], signature, 0);
    if (at < 8) {
      u32 word = buckets[choice] * 16 + at + 8, former = w[word];
      w[word] = location;
      return make_uint2(1, former);
    }
  }
  for (u32 choice = 0; choice < 2; choice++) {
    u32 at = look(w, buckets[choice], 0, signature & 7);
    if (at < 8) {
      fill(w, buckets[choice] * 16 + at, signature, location);
      return make_uint2(0, NONE);
    }
  }
  u32 path[6];
  for (u32 attempt = 0; attempt < 16; attempt++) {
    u32 length = path_from(w, p, path, buckets[attempt & 1], (signature + attempt / 2) & 7);
    if (length) {
      for (u32 step = length - 1; step > 0; step--) fill(w, path[step], w[path[step - 1]], w[path[step - 1] + 8]);
      fill(w, path[0], signature, location);
      return make_uint2(0, NONE);
    }
  }
  return make_uint2(2, NONE);
}

__device__ uint2 drop(u32 *w, const u32 *p, u32 first, u32 signature, u32 location) {
  u32 buckets[2] = {first, first ^ (signature & p[2])};
  for (u32 choice = 0; choice < 2; choice++) {
    u32 at = look(w, buckets[choice], signature, 0);
    if (at < 8) {
      u32 former = w[buckets[choice] * 16 + at + 8];
      if (location != NONE && location != former) return make_uint2(4, NONE);
      w[buckets[choice] * 16 + at] = 0;
      return make_uint2(3, former);
    }
  }
  return make_uint2(4, NONE);
}

extern "C" __global__ void search(const u32 *p, const u32 *w, const u32 *requests, u32 *results) {
  ID
  u32 signature = requests[2 * id + 1], bucket = requests[2 * id] & p[1];
  u32 at = look(w, bucket, signature, 0);
  if (at == 8) {
    bucket ^= signature & p[2];
    at = look(w, bucket, signature, 0);
  }
  results[id] = at < 8 ? w[bucket * 16 + 8 + at] : NONE;
}

extern "C" __global__ void change(const u32 *p, u32 *w, const u32 *requests, u32 *segments, u32 *results) {
  ID
  for (u32 at = segments[2 * id]; at < segments[2 * id + 1]; at++) {
    const u32 *r = requests + 4 * at;
    uint2 outcome = r[3] == 2 ? drop(w, p, r[0] & p[1], r[1], r[2]) : insert(w, p, r[0] & p[1], r[1], r[2]);
    results[2 * at] = outcome.x;
    results[2 * at + 1] = outcome.y;
  }
  segments[2 * id] = segments[2 * id + 1];
}

extern "C" __global__ void histogram(const u32 *p, const u32 *keys, u32 *counts) {
  ID
  for (u32 digit = 0; digit < 256; digit++) counts[digit * p[3] + id] = 0;
  u32 start = min(id * p[2], p[1]), end = min(start + p[2], p[1]);
  for (u32 at = start; at < end; at++) counts[((keys[at] >> p[4]) & 255) * p[3] + id]++;
}

extern "C" __global__ void scan(const u32 *p, u32 *counts, u32 *totals) {
  ID
  u32 sum = 0;
  for (u32 at = id * p[1]; at < (id + 1) * p[1]; at++) {
    u32 count = counts[at];
    counts[at] = sum;
    sum += count;
  }
  totals[id] = sum;
}

extern "C" __global__ void scatter(const u32 *p, const u32 *keys, u32 *counts, const u32 *bases, u32 *sorted) {
  ID
  u32 start = min(id * p[2], p[1]), end = min(start + p[2], p[1]);
  for (u32 at = start; at < end; at++) {
    u32 digit = (keys[at] >> p[4]) & 255;
    sorted[bases[digit] + counts[digit * p[3] + id]++] = keys[at];
  }
}

extern "C" __global__ void query1(const u32 *p, const u32 *columns, u32 *sums) {
  ID
  u64 own[6][6] = {};
  u32 rows = p[1], start = min(id * p[2], rows), end = min(start + p[2], rows);
  for (u32 row = start; row < end; row++) {
    if (columns[5 * rows + row] > p[3]) continue;
    u64 price = columns[rows + row], discount = columns[2 * rows + row];
    u64 reduced = price * (100 - discount), *group = own[columns[4 * rows + row] % 6];
    group[0] += 1;
    group[1] += columns[row];
    group[2] += price;
    group[3] += reduced;
    group[4] += reduced * (100 + columns[3 * rows + row]);
    group[5] += discount;
  }
  for (u32 group = 0; group < 6; group++) {
    u32 *to = sums + (id * 6 + group) * 11;
    to[0] = (u32)own[group][0];
    for (u32 sum = 0; sum < 5; sum++) {
      to[1 + 2 * sum] = (u32)own[group][1 + sum];
      to[2 + 2 * sum] = (u32)(own[group][1 + sum] >> 32);
    }
  }
}

extern "C" __global__ void query6(const u32 *p, const u32 *columns, u32 *sums) {
  ID
  u64 sum = 0;
  u32 rows = p[1], start = min(id * p[2], rows), end = min(start + p[2], rows);
  for (u32 row = start; row < end; row++) {
    u32 day = columns[5 * rows + row], discount = columns[2 * rows + row];
    if (day >= p[3] && day < p[4] && discount >= p[5] && discount <= p[6] && columns[row] < p[7])
      sum += (u64)columns[rows + row] * discount;
  }
  sums[2 * id] = (u32)sum;
  sums[2 * id + 1] = (u32)(sum >> 32);
}

extern "C" __global__ void read(const u32 *p, const u32 *words, u32 *sums) {
  ID
  u32 sum = 0;
  for (u32 step = 0; step < p[1]; step++) sum += words[(size_t)step * p[2] + id];
  sums[id] = sum;
}

extern "C" __global__ void write(const u32 *p, u32 *words) {
  ID
  for (u32 step = 0; step < p[1]; step++) words[(size_t)step * p[2] + id] = p[3];
}

extern "C" __global__ void copy(const u32 *p, const u32 *from, u32 *to) {
  ID
  for (u32 step = 0; step < p[1]; step++) to[(size_t)step * p[2] + id] = from[(size_t)step * p[2] + id];
}

extern "C" __global__ void chase(const u32 *p, const u32 *words, u32 *ends) {
  ID
  u32 at = id;
  for (u32 step = 0; step < p[1]; step++) at = words[at];
  ends[id] = at;
}

__device__ volatile u32 *variable(volatile u32 *words, u32 base, u32 number) { return words + base + number * 16; }

__device__ u32 lock(volatile u32 *w, u32 base, u32 first, u32 me, u32 spin) {
  u32 theirs = 1 - me, came = 0, entered = 0;
  *variable(w, base, first + me) = 1;
  __threadfence_system();
  u32 mine = *variable(w, base, first + 2 + theirs) + 1;
  *variable(w, base, first + 2 + me) = mine;
  __threadfence_system();
  *variable(w, base, first + me) = 0;
  __threadfence_system();
  for (u32 turn = 0; turn < spin && !came; turn++) came = *variable(w, base, first + theirs) == 0;
  for (u32 turn = 0; turn < spin && !entered; turn++) {
    u32 number = *variable(w, base, first + 2 + theirs);
    entered = number == 0 || mine < number || (mine == number && me < theirs);
  }
  __threadfence_system();
  return came & entered;
}

extern "C" __global__ void litmus(const u32 *p, const u32 *program, volatile u32 *w, u32 *results) {
  ID
  u32 instances = p[1], instructions = p[3], me = p[7] + id;
  for (u32 instance = 0; instance < instances; instance++) {
    w[me * 16] = instance + 1;
    u32 base = 64 + instance * p[2];
    for (u32 turn = 0; turn < p[5]; turn++) {
      bool all = true;
      for (u32 other = 0; other < p[8]; other++) all = all && w[other * 16] > instance;
      if (all) break;
    }
    for (u32 repeat = 0; repeat < p[6]; repeat++)
      for (u32 number = 0; number < instructions; number++) {
        const u32 *code = program + (id * instructions + number) * 4;
        volatile u32 *at = variable(w, base, code[1]);
        u32 *cell = results + (id * instances + instance) * p[4] + code[3];
        switch (code[0]) {
        case 1: *at = code[2]; break;
        case 2: *cell = *at; break;
        case 3: *cell = atomicAdd_system((u32 *)at, code[2]); break;
        case 4: *cell = atomicExch_system((u32 *)at, code[2]); break;
        case 5: __threadfence_system(); break;
        case 6: *cell = lock(w, base, code[1], code[2], p[5]); break;
        case 7: __threadfence_system(); *variable(w, base, code[1] + 2 + code[2]) = 0; break;
        case 8: *at = *at + code[2]; break;
        }
      }
    results[(id * instances + instance) * p[4] + 7] = 1;
  }
}

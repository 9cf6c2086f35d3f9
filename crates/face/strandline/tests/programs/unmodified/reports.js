// The shapes of reports.c, which judges them: reports.js SHAPE wrong|fixed, in the folder d. All but
// `numbers` and `version` use the asynchronous interface, whose calls threads of their own make.
const fs = require("fs");
const { open, copyFile, unlink, mkdir, symlink, rename } = fs.promises;

const [shape, twin] = process.argv.slice(2);
const fixed = twin === "fixed";

async function synced(path) {
  const file = await open(path, "r");
  await file.sync();
  await file.close();
}

async function written(path, letter, count, durable) {
  const file = await open(path, "w");
  await file.write(letter.repeat(count));
  if (durable) await file.sync();
  await file.close();
}

const said = (number) => fs.writeSync(1, `saved ${number}\n`);

const shapes = {
  async logs() {
    for (const log of [1, 2]) {
      const file = await open(`d/log.${log}`, "r+");
      for (let number = 0; number < 12; number++) {
        await file.write(Buffer.alloc(1024, 97 + number + 12 * (log - 1)), 0, 1024, number * 1024);
      }
      if (fixed && log === 1) await file.sync();
      await file.close();
    }
    await written("d/table", "t", 100, true);
  },

  version() {
    const [log, page] = ["d/log", "d/page"].map((path) => fs.openSync(path, "r+"));
    fs.writeSync(log, "2");
    fs.fsyncSync(log);
    fs.writeSync(page, "2".repeat(8192));
    fs.fsyncSync(page);
  },

  async slots() {
    for (const number of fixed ? [0, 1] : [1, 0]) {
      const file = await open("d/slots", "r+");
      await file.write(Buffer.alloc(512, "r"), 0, 512, number * 512);
      await file.datasync();
      await file.close();
      said(number);
    }
  },

  // What is written is still in a list when the file is synced.
  async unflushed() {
    const file = await open("d/stream", "w");
    const waiting = ["saved"];
    const flush = async () => {
      while (waiting.length) await file.write(waiting.shift());
    };
    if (fixed) await flush();
    await file.sync();
    await synced("d");
    said(1);
    await flush();
    await file.close();
  },

  async moved() {
    await copyFile("d/in/file", "d/out/file");
    if (fixed) {
      await synced("d/out/file");
      await synced("d/out");
    }
    await unlink("d/in/file");
    await synced("d/in");
  },

  async twice() {
    const [copy, home] = await Promise.all(["d/copy", "d/home"].map((path) => open(path, "r+")));
    for (let number = 0; number < 2; number++) {
      const page = Buffer.alloc(2048, String(number));
      await copy.write(page, 0, 2048, 0);
      await copy.sync();
      await home.write(page, 0, 2048, number * 4096);
      if (fixed) await home.sync();
    }
    await home.sync();
  },

  async link() {
    await mkdir("d/v2");
    await written("d/v2/data", "d", 2000, fixed);
    if (fixed) await synced("d/v2");
    await symlink("v2", "d/next");
    if (fixed) await synced("d");
    await rename("d/next", "d/current");
    await synced("d");
  },

  numbers() {
    const file = fs.openSync("d/mark", "r+");
    for (let number = 1; number <= 3; number++) {
      fs.writeSync(file, String(number), 0);
      if (fixed) fs.fsyncSync(file);
      said(number);
    }
    fs.fsyncSync(file);
  },
};

shapes[shape]();

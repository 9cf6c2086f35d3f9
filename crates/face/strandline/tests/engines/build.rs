//! Sources of the engines, and how they are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, c_sources, cc, copy_files, has, ok, sources_by, stderr};

/// Where Debian's sources come from, in a list of the test's own: the machine's may be without sources.
const SOURCES: &str = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://deb.debian.org/debian bookworm main\n";
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/engines");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../observe/instrument/include");

/// An engine of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    LevelDb,
    Lmdb,
    Libmdbx,
    KyotoCabinet,
}

impl Engine {
    /// Its name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Engine::LevelDb => "LevelDB",
            Engine::Lmdb => "LMDB",
            Engine::Libmdbx => "libmdbx",
            Engine::KyotoCabinet => "Kyoto Cabinet",
        }
    }

    /// How many transactions a run commits.
    pub fn transactions(self) -> &'static str {
        match self {
            Engine::LevelDb => "14",
            Engine::Lmdb => "12",
            Engine::Libmdbx => "7",
            Engine::KyotoCabinet => "8",
        }
    }

    /// Images per crash point; opening a store costs from 1 to 20 ms.
    pub fn images(self) -> u32 {
        match self {
            Engine::Lmdb | Engine::KyotoCabinet => 64,
            Engine::LevelDb | Engine::Libmdbx => 16,
        }
    }
}

/// An engine's program, built three ways.
pub struct Built {
    /// The path of the program that is not observed.
    pub plain: String,
    pub shipped: PathBuf,
    /// With the compiler's pass, if a row asks for that.
    pub in_source_order: Option<PathBuf>,
}

impl Built {
    /// The program that is not observed.
    pub fn plain(&self) -> Command {
        Command::new(&self.plain)
    }
}

/// A way to build.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    Shipped,
    InSourceOrder,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Shipped => "shipped",
            Way::InSourceOrder => "in-source-order",
        }
    }

    /// The compilers of C and C++.
    fn compilers(self) -> [String; 2] {
        match self {
            Way::Plain => ["gcc".to_owned(), "g++".to_owned()],
            Way::Shipped => [cc("cc --as-shipped"), cc("c++ --as-shipped")],
            Way::InSourceOrder => [cc("cc"), cc("c++")],
        }
    }
}

/// Builds an engine with a program that uses it, also with the compiler's pass if `in_source_order`; why not, if
/// its sources can't be had.
pub fn build(engine: Engine, in_source_order: bool, scratch: &Scratch) -> Result<Built, String> {
    for command in ["gcc", "g++", "make", "cmake"] {
        if !has(command) {
            return Err(format!("no {command}"));
        }
    }
    let source = match engine {
        Engine::LevelDb => debian_source(scratch, "leveldb")?,
        Engine::KyotoCabinet => debian_source(scratch, "kyotocabinet")?,
        Engine::Lmdb => c_sources("lmdb-master-sys", "lmdb/libraries/liblmdb"),
        Engine::Libmdbx => sources_by("tests/programs/engines/sources", "mdbx-sys", "libmdbx"),
    };
    let program = |way| program(engine, way, &source, scratch);
    Ok(Built {
        plain: program(Way::Plain).display().to_string(),
        shipped: program(Way::Shipped),
        in_source_order: in_source_order.then(|| program(Way::InSourceOrder)),
    })
}

/// The unpacked source of a package of Debian.
pub fn debian_source(scratch: &Scratch, package: &str) -> Result<PathBuf, String> {
    if !has("apt-get") || !has("dpkg-source") {
        return Err("no apt-get and dpkg-source (package dpkg-dev)".to_owned());
    }
    let apt = scratch.path("apt");
    for folder in ["lists/partial", "cache/archives/partial", "source"] {
        std::fs::create_dir_all(apt.join(folder)).expect("a folder");
    }
    let list = scratch.file("sources.list", SOURCES);
    let get = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(apt.join("source")).arg("-q");
        for (option, value) in [
            ("Dir::Etc::sourcelist", list.clone()),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::State::lists", apt.join("lists")),
            ("Dir::Cache", apt.join("cache")),
        ] {
            command.arg("-o").arg(format!("{option}={}", value.display()));
        }
        let output = command.args(words).output().map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(format!("apt-get {words:?}: {}", stderr(&output))) }
    };
    get(&["update"])?;
    get(&["source", package])?;
    let unpacked = std::fs::read_dir(apt.join("source")).expect("a folder").flatten();
    let folder = unpacked.map(|entry| entry.path()).find(|path| path.is_dir());
    folder.ok_or_else(|| format!("apt-get source {package} unpacked nothing"))
}

/// Builds an engine one way by its own build system, and its program with it.
fn program(engine: Engine, way: Way, source: &Path, scratch: &Scratch) -> PathBuf {
    let folder = scratch.path(way.name());
    std::fs::create_dir(&folder).expect("a folder");
    let [c, cxx] = way.compilers();
    let make = |words: &[&str]| {
        ok(cached("make")
            .current_dir(&folder)
            .arg("-j2")
            .args(words)
            .arg(format!("CC={c}"))
            .arg(format!("CXX={cxx}")));
    };
    let (compiler, inputs) = match engine {
        Engine::Lmdb => {
            copy_files(source, &folder);
            make(&["liblmdb.a"]);
            (&c, "-I. PROGRAMS/lmdb.c liblmdb.a")
        }
        Engine::Libmdbx => {
            // The crate has the amalgamated source alone, which its build script compiles like this.
            copy_files(source, &folder);
            let flags = "-DNDEBUG=1 -DMDBX_TXN_CHECKOWNER=0 -DMDBX_BUILD_FLAGS=\"none\"";
            compile(&folder, &c, &format!("-Wall -ffunction-sections -fvisibility=hidden {flags} -c mdbx.c"));
            (&c, "-I. PROGRAMS/mdbx.c mdbx.o")
        }
        Engine::LevelDb => {
            let mut configure = cached("cmake");
            configure.current_dir(&folder).env("CC", &c).env("CXX", &cxx).arg(source);
            configure.arg("-DCMAKE_BUILD_TYPE=RelWithDebInfo");
            configure.args(
                ["LEVELDB_BUILD_TESTS", "LEVELDB_BUILD_BENCHMARKS"].map(|name| format!("-D{name}=OFF")),
            );
            // Whether or not the machine has these libraries.
            configure.args(["SNAPPY", "CRC32C", "TCMALLOC"].map(|name| format!("-DHAVE_{name}=OFF")));
            ok(&mut configure);
            ok(cached("make").current_dir(&folder).args(["-j2", "leveldb"]));
            (&cxx, "-ISOURCE/include PROGRAMS/leveldb.cc libleveldb.a")
        }
        Engine::KyotoCabinet => {
            copy_files(source, &folder);
            let mut configure = cached("./configure");
            configure.current_dir(&folder).args(["--disable-shared", "--disable-zlib"]);
            ok(configure.env("CC", &c).env("CXX", &cxx));
            ok(cached("make").current_dir(&folder).args(["-j2", "libkyotocabinet.a"]));
            (&cxx, "-I. PROGRAMS/kyoto.cc libkyotocabinet.a")
        }
    };
    let inputs = inputs.replace("PROGRAMS", PROGRAMS).replace("SOURCE", &source.display().to_string());
    compile(&folder, compiler, &format!("-I{HEADERS} -I{PROGRAMS} -o program {inputs} -pthread"));
    folder.join("program")
}

/// A command of a build, with the cache of `strandline cc` inside the build folder.
pub fn cached(command: &str) -> Command {
    let mut command = Command::new(command);
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command
}

fn compile(folder: &Path, compiler: &str, arguments: &str) {
    let mut words = compiler.split(' ');
    let mut command = cached(words.next().expect("a compiler"));
    ok(command.current_dir(folder).args(words).args(["-O2", "-g"]).args(arguments.split(' ')));
}

//! The emulated machine: Debian's kernel, a shell, and what a test wants to run there.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::archive::Archive;

/// Longer than any machine takes, however busy the one below is.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// Longer than one takes to start that is not emulated.
const PATIENCE_KVM: Duration = Duration::from_secs(20);
/// A processor that is not emulated, with what all have: of more, the host's virtual one may refuse a part.
const KVM: [&str; 4] = ["-accel", "kvm", "-cpu", "kvm64"];

/// What each machine says first.
const STARTED: &str = "GUEST: started";

/// What a machine has beside its main memory.
#[allow(dead_code, reason = "each test binary uses a part")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Half a GiB that the kernel takes for persistent memory, by its command line.
    Reserved,
    /// A file of the host, by virtio.
    VirtioPmem,
    /// None; main memory is two nodes of one GiB, and the processors belong to the first.
    TwoNodes,
    /// None; three GiB of main memory.
    Plain,
}

/// Which of Debian's kernels runs there.
#[allow(dead_code, reason = "each test binary uses a part")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The release's own.
    Stable,
    /// The newest that apt knows, 6.7 or later: one that tells which pages were written.
    Newest,
}

/// One life of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'b> {
    pub memory: Memory,
    /// What it runs.
    pub script: &'b str,
    /// Programs by their places in the machine; the libraries that they need come with them.
    pub programs: &'b [(&'b str, &'b Path)],
    /// Folders of modules, beside those that every machine has.
    pub modules: &'b [&'b str],
    /// The power fails as soon as the console has said this.
    pub power_until: Option<&'b str>,
    /// Whether the persistent memory is as the life before has left it.
    pub goes_on: bool,
}

impl<'b> Boot<'b> {
    /// A machine whose memory is new and whose power does not fail.
    pub fn new(memory: Memory, script: &'b str, programs: &'b [(&'b str, &'b Path)]) -> Self {
        Boot { memory, script, programs, modules: &[], power_until: None, goes_on: false }
    }
}

/// What every machine is made of.
pub struct Machine {
    /// What is of this test alone, and goes away with it.
    own: tempfile::TempDir,
    kernel: PathBuf,
    modules: PathBuf,
    release: String,
}

impl Machine {
    /// Finds or gets what is needed.
    ///
    /// # Errors
    /// What is missing.
    pub fn prepare(kernel: Kernel) -> Result<Machine, String> {
        for (program, package) in [
            ("qemu-system-x86_64", "qemu-system-x86"),
            ("busybox", "busybox-static"),
            ("mke2fs", "e2fsprogs"),
        ] {
            find(program).ok_or_else(|| format!("no {program} (apt-get install {package})"))?;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulated");
        let tree = folder.join(if kernel == Kernel::Stable { "kernel" } else { "newest-kernel" });
        if !tree.join("boot").exists() {
            get_kernel(kernel, &folder, &tree)?;
        }
        let inside = |folder: &Path, start: &str| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .find(|n| n.starts_with(start))
        };
        let kernel = inside(&tree.join("boot"), "vmlinuz-").ok_or("the kernel's package has no kernel")?;
        let release = kernel.trim_start_matches("vmlinuz-").to_owned();
        let modules = ["lib/modules", "usr/lib/modules"].map(|under| tree.join(under).join(&release));
        let modules = modules.into_iter().find(|path| path.exists()).ok_or("the kernel has no modules")?;
        let own = tempfile::tempdir_in(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Machine { kernel: tree.join("boot").join(kernel), own, modules, release })
    }

    /// Boots a machine and gives what it wrote to its console.
    pub fn run(&self, boot: &Boot<'_>) -> String {
        let archive = self.own.path().join("initrd");
        fs::write(&archive, self.archive(boot).expect("the parts can be read"))
            .expect("room for the archive");
        if boot.memory == Memory::Plain && self.has_kvm(boot, &archive) {
            return console(self.command(boot, &archive, &KVM), None, PATIENCE);
        }
        let command = self.command(boot, &archive, &["-accel", "tcg,thread=multi", "-cpu", "max"]);
        console(command, boot.power_until, PATIENCE)
    }

    /// Whether the machine starts on the host's own processors: a virtual host may have `/dev/kvm` and hang.
    fn has_kvm(&self, boot: &Boot<'_>, archive: &Path) -> bool {
        static STARTS: OnceLock<bool> = OnceLock::new();
        let may = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        let starts =
            || console(self.command(boot, archive, &KVM), Some(STARTED), PATIENCE_KVM).contains(STARTED);
        may && *STARTS.get_or_init(starts)
    }

    fn command(&self, boot: &Boot<'_>, archive: &Path, processor: &[&str]) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        command.args(processor).args(["-smp", "2"]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(archive);
        // On a busy machine the emulated timer looks broken to a kernel that tries it.
        let mut kernel = "console=ttyS0 quiet panic=-1 no_timer_check".to_owned();
        let backing = |name: &str, bytes: u64| {
            let path = self.own.path().join(name);
            if !boot.goes_on {
                File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file with a hole");
            }
            format!("memory-backend-file,id={name},share=on,mem-path={},size={bytes}", path.display())
        };
        match boot.memory {
            Memory::Reserved => {
                // All of the memory is a file, and the kernel leaves that part of it as it is.
                command.args(["-machine", "q35,memory-backend=ram", "-m", "2G"]);
                command.arg("-object").arg(backing("ram", 2 << 30));
                kernel.push_str(" memmap=512M!1G");
            }
            Memory::VirtioPmem => {
                command.args(["-machine", "q35", "-m", "1G,slots=2,maxmem=4G"]);
                command.args(["-device", "virtio-pmem-pci,memdev=pmem"]);
                command.arg("-object").arg(backing("pmem", 256 << 20));
            }
            Memory::Plain => drop(command.args(["-machine", "q35", "-m", "3G"])),
            Memory::TwoNodes => {
                command.args(["-machine", "q35", "-m", "2G"]);
                for node in ["near", "far"] {
                    command.args(["-object", &format!("memory-backend-ram,id={node},size=1G")]);
                }
                command.args(["-numa", "node,nodeid=0,cpus=0-1,memdev=near"]);
                command.args(["-numa", "node,nodeid=1,memdev=far", "-numa", "dist,src=0,dst=1,val=17"]);
            }
        }
        command.args(["-append", &kernel]);
        command
    }

    /// The guest's files: a shell, what makes file systems, modules, programs, and the script.
    fn archive(&self, boot: &Boot<'_>) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        let mut libraries_added = BTreeSet::new();
        let busybox = find("busybox").expect("it was there");
        let mke2fs = find("mke2fs").expect("it was there");
        let own = [("/bin/busybox", &*busybox), ("/bin/sh", &*busybox), ("/sbin/mke2fs", &*mke2fs)];
        for (name, from) in own.iter().chain(boot.programs) {
            archive.add_file(name, from)?;
            for library in libraries(from) {
                if libraries_added.insert(library.clone()) {
                    archive.add_file(&library, Path::new(&library))?;
                }
            }
        }
        let always =
            ["drivers/nvdimm", "drivers/dax", "drivers/virtio", "lib", "fs/ext4", "fs/jbd2", "crypto"];
        for part in always.iter().chain(boot.modules) {
            self.add_modules(&mut archive, &self.modules.join("kernel").join(part))?;
        }
        archive.add("/init", format!("{}\n{}", include_str!("init.sh"), boot.script).as_bytes());
        Ok(archive.finish())
    }

    /// Adds every module below `folder`; the guest takes what it needs.
    fn add_modules(&self, archive: &mut Archive, folder: &Path) -> io::Result<()> {
        // What is built into the kernel has no folder.
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() {
                self.add_modules(archive, &path)?;
            } else if path.extension().is_some_and(|end| end == "ko") {
                let inside = path.strip_prefix(&self.modules).expect("it lies below").display();
                archive.add_file(&format!("/lib/modules/{}/{inside}", self.release), &path)?;
            }
        }
        Ok(())
    }
}

/// Downloads Debian's kernel for virtual machines and unpacks it to `tree`.
fn get_kernel(kernel: Kernel, folder: &Path, tree: &Path) -> Result<(), String> {
    let here = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(here)?;
    let said = |command: &mut Command| -> Result<String, String> {
        let output = command.current_dir(folder).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("no kernel for the guest: {command:?}: {error}"))?;
        let error = String::from_utf8_lossy(&output.stderr);
        let status = output.status;
        if !status.success() {
            return Err(format!("no kernel for the guest: {command:?}: {status} {}", error.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let package = match kernel {
        Kernel::Stable => {
            let depends = said(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
            let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
            package.ok_or("no kernel for the guest: apt knows no linux-image-cloud-amd64")?.to_owned()
        }
        Kernel::Newest => {
            let names = said(Command::new("apt-cache").args(["pkgnames", "linux-image-6."]))?;
            let numbered = names.lines().filter(|name| name.ends_with("-cloud-amd64")).filter_map(|name| {
                let numbers: Vec<u32> =
                    name.split(['.', '-', '+']).filter_map(|part| part.parse().ok()).collect();
                numbers.get(1).is_some_and(|&minor| minor >= 7).then_some((numbers, name))
            });
            let newest = numbered.max().ok_or(
                "no kernel of 6.7 or later for the guest: apt knows none (add bookworm-backports to its sources)",
            )?;
            newest.1.to_owned()
        }
    };
    said(Command::new("apt-get").args(["download", &package]))?;
    let files = fs::read_dir(folder).map_err(here)?.flatten().map(|entry| entry.path());
    let name =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&package));
    let debs = files.filter(|path| path.extension().is_some_and(|end| end == "deb") && name(path));
    let deb = debs.max().ok_or("no kernel for the guest: apt-get downloaded nothing")?;
    // Unpacked elsewhere first, so that what is there is whole.
    let unpacked = folder.join("unpacked");
    said(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&unpacked))?;
    fs::rename(&unpacked, tree).map_err(here)
}

/// The program of that name.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let places = env::split_paths(&path).chain(["/sbin".into(), "/usr/sbin".into()]);
    places.map(|place| place.join(program)).find(|path| path.is_file())
}

/// The shared libraries of a program, and what loads them, by absolute path.
fn libraries(program: &Path) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().expect("ldd is part of the C library");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

/// Runs a machine to its end, or until it has said that, and gives what it said.
fn console(mut command: Command, until: Option<&str>, patience: Duration) -> String {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qemu was there");
    let mut output = child.stdout.take().expect("a pipe");
    let (done, ended) = mpsc::channel();
    let until = until.map(str::to_owned);
    let reader = thread::spawn(move || {
        let (mut said, mut more) = (String::new(), [0; 4096]);
        // What was said until it ended is what there is.
        while let Ok(count @ 1..) = output.read(&mut more) {
            said.push_str(&String::from_utf8_lossy(&more[..count]));
            if until.as_ref().is_some_and(|until| said.contains(until)) {
                // Whoever waited may have lost patience; the text is returned all the same.
                let _ = done.send(());
            }
        }
        said
    });
    // Its end, that moment, or the end of our patience: what it said tells which.
    let _ = ended.recv_timeout(patience);
    let _ = child.kill();
    let _ = child.wait();
    reader.join().expect("no panic")
}

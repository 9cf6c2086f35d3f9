//! The emulated machine: Debian's kernel, a shell, and this test binary.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::archive::Archive;

/// Longer than any machine takes, however busy the one below is.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// What a machine has beside its main memory.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// Half a GiB that the kernel is told to take for persistent.
    Reserved,
    /// A file of the host, by virtio.
    VirtioPmem,
}

/// What every machine is made of.
pub struct Machine {
    folder: PathBuf,
    kernel: PathBuf,
    modules: PathBuf,
    release: String,
}

impl Machine {
    /// Finds or gets what is needed.
    ///
    /// # Errors
    /// What is missing.
    pub fn prepare() -> Result<Machine, String> {
        for (program, package) in [
            ("qemu-system-x86_64", "qemu-system-x86"),
            ("busybox", "busybox-static"),
            ("mke2fs", "e2fsprogs"),
        ] {
            find(program).ok_or_else(|| format!("no {program} (apt-get install {package})"))?;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulated");
        let tree = folder.join("kernel");
        if !tree.join("boot").exists() {
            get_kernel(&folder, &tree)?;
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
        Ok(Machine { kernel: tree.join("boot").join(kernel), folder, modules, release })
    }

    /// Boots a machine that runs `script` and gives what it wrote to its console.
    pub fn run(&self, memory: Memory, script: &str) -> String {
        let archive = self.folder.join("initrd");
        fs::write(&archive, self.archive(script).expect("the parts can be read"))
            .expect("room for the archive");
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&archive);
        let mut kernel = "console=ttyS0 quiet panic=-1".to_owned();
        match memory {
            Memory::Reserved => {
                command.args(["-m", "2G"]);
                kernel.push_str(" memmap=512M!1G");
            }
            Memory::VirtioPmem => {
                let backing = self.folder.join("virtio-pmem");
                File::create(&backing).and_then(|f| f.set_len(256 << 20)).expect("a file with a hole");
                let backing = backing.display();
                command.args([
                    "-m",
                    "1G,slots=2,maxmem=4G",
                    "-device",
                    "virtio-pmem-pci,memdev=p",
                    "-object",
                ]);
                command.arg(format!("memory-backend-file,id=p,share=on,mem-path={backing},size=256M"));
            }
        }
        command.args(["-append", &kernel]);
        console(command)
    }

    /// The guest's files: a shell, what makes file systems, modules, this binary, and the script.
    fn archive(&self, script: &str) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        let this = env::current_exe()?;
        for (name, from) in [
            ("/bin/busybox", find("busybox").expect("it was there")),
            ("/bin/sh", find("busybox").expect("it was there")),
            ("/sbin/mke2fs", find("mke2fs").expect("it was there")),
            ("/opt/test", this),
        ] {
            archive.add_file(name, &from)?;
            for library in libraries(&from) {
                archive.add_file(&library, Path::new(&library))?;
            }
        }
        for part in ["drivers/nvdimm", "drivers/dax", "drivers/virtio", "lib", "fs/ext4", "fs/jbd2", "crypto"]
        {
            self.add_modules(&mut archive, &self.modules.join("kernel").join(part))?;
        }
        archive.add("/init", format!("{}\n{script}", include_str!("init.sh")).as_bytes());
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
fn get_kernel(folder: &Path, tree: &Path) -> Result<(), String> {
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
    let depends = said(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.ok_or("no kernel for the guest: apt knows no linux-image-cloud-amd64")?;
    said(Command::new("apt-get").args(["download", package]))?;
    let files = fs::read_dir(folder).map_err(here)?.flatten().map(|entry| entry.path());
    let debs = files.filter(|path| path.extension().is_some_and(|end| end == "deb"));
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

/// Runs a machine to its end and gives what it said.
fn console(mut command: Command) -> String {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qemu was there");
    let mut output = child.stdout.take().expect("a pipe");
    let (tell, told) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut said = Vec::new();
        // What was said until then is what there is.
        let _ = output.read_to_end(&mut said);
        // Whoever waited may have lost patience; the text is returned all the same.
        let _ = tell.send(());
        String::from_utf8_lossy(&said).into_owned()
    });
    // Its end, or that of our patience: what it said tells which.
    let _ = told.recv_timeout(PATIENCE);
    let _ = child.kill();
    let _ = child.wait();
    reader.join().expect("no panic")
}

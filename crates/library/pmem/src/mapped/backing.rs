//! What is under a file: whether stores reach something persistent, and how its blocks are got.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FallocateFlags, StatxAttributes, StatxFlags, fallocate, fstatfs, major, minor, statx,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use persistency::Domain;

/// A DAX device, which is memory without a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Bytes of it.
    pub len: u64,
    /// Mappings of it start and end at multiples of this.
    pub align: u64,
    /// Whether it survives power loss.
    pub domain: Domain,
}

/// What `file` is as a DAX device, `None` if it is none.
pub(crate) fn device(file: &File) -> Option<Device> {
    let metadata = file.metadata().ok().filter(|metadata| metadata.file_type().is_char_device())?;
    let number = metadata.rdev();
    device_of(&PathBuf::from(format!("/sys/dev/char/{}:{}", major(number), minor(number))))
}

/// The device that the kernel describes at `entry`.
fn device_of(entry: &Path) -> Option<Device> {
    if fs::canonicalize(entry.join("subsystem")).ok()?.file_name()? != "dax" {
        return None;
    }
    let number = |name| fs::read_to_string(entry.join(name)).ok()?.trim().parse().ok();
    let len = number("size")?;
    // Kernels before 5.10 do not report it; 2 MiB is the default, and a stricter device refuses to be mapped.
    let align = number("align").filter(|align: &u64| align.is_power_of_two()).unwrap_or(2 << 20);
    // Devices are also made of memory that is only slow (CXL, high-bandwidth memory). Persistent is what hangs on an
    // NVDIMM bus, which has its name in the path.
    let persistent = fs::canonicalize(entry).ok()?.components().any(on_nvdimm_bus);
    let domain = if persistent { Domain::Dax } else { Domain::Volatile };
    Some(Device { len, align, domain })
}

fn on_nvdimm_bus(component: Component<'_>) -> bool {
    let name = component.as_os_str().to_string_lossy();
    name.strip_prefix("ndbus").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Whether the kernel says that accesses to `file` go to the device without the page cache; `None` where it can't know
/// (before 5.8).
pub(super) fn is_dax(file: &File) -> Option<bool> {
    let attributes = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).ok()?;
    let known = attributes.stx_attributes_mask.contains(StatxAttributes::DAX);
    known.then(|| attributes.stx_attributes.contains(StatxAttributes::DAX))
}

/// Whether the file lives on tmpfs or ramfs.
pub(super) fn in_memory(file: &File) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58F6;
    #[allow(clippy::unnecessary_cast)] // the field's type depends on the platform
    fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as i64, TMPFS_MAGIC | RAMFS_MAGIC))
}

/// Makes `file`, of `old` bytes, `len` bytes long, every block of the new part reserved. If it fails, the file has its old
/// length.
pub(super) fn extend(file: &File, old: u64, len: u64) -> io::Result<()> {
    let extended = reserve(file, old, len);
    if extended.is_err() {
        // The first error is the one to report. Where this fails, too, the file ends in unused blocks.
        let _ = file.set_len(old);
    }
    extended
}

/// Reserves every block from `old` to `len`.
fn reserve(file: &File, old: u64, len: u64) -> io::Result<()> {
    // Behind the process's limit the kernel sends a signal that ends it, and no error.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| len > most) {
        return Err(Errno::FBIG.into());
    }
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), old, len - old)) {
        Ok(()) => Ok(()),
        // A file system that can't reserve gets its blocks by being written.
        Err(Errno::OPNOTSUPP) => write_zeros(file, old, len),
        Err(errno) => Err(errno.into()),
    }
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = [0; 65536];
    let mut at = from;
    while at < to {
        let count = (to - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

/// Waits until the name of a new file is on the disk.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder)?.sync_all() {
        // Some file systems sync no folders; they have nothing that could wait.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree as the kernel's: an entry by number that leads to the device, which knows its subsystem.
    fn tree(folder: &Path, device: &str, subsystem: &str, files: &[(&str, &str)]) -> PathBuf {
        let (device, subsystem) = (folder.join("devices").join(device), folder.join("bus").join(subsystem));
        fs::create_dir_all(&device).expect("a folder");
        fs::create_dir_all(&subsystem).expect("a folder");
        symlink(&subsystem, device.join("subsystem")).expect("a link");
        for (name, text) in files {
            fs::write(device.join(name), text).expect("a small file");
        }
        let entry = folder.join("252:0");
        symlink(&device, &entry).expect("a link");
        entry
    }

    fn of(device: &str, subsystem: &str, files: &[(&str, &str)]) -> Option<Device> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        device_of(&tree(folder.path(), device, subsystem, files))
    }

    #[test]
    fn a_device_on_an_nvdimm_bus_is_persistent() {
        let found = of("platform/e820_pmem/ndbus0/region0/dax0.0", "dax", &[("size", "1048576\n")]);
        let expected = Device { len: 1 << 20, align: 2 << 20, domain: Domain::Dax };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_device_of_slow_memory_is_not() {
        let files = [("size", "8192\n"), ("align", "4096\n")];
        let found = of("platform/hmem.0/dax1.0", "dax", &files);
        assert_eq!(found, Some(Device { len: 8192, align: 4096, domain: Domain::Volatile }));
        let found = of("cxl/region0/dax_region0/dax0.0", "dax", &files).expect("a device");
        assert_eq!(found.domain, Domain::Volatile);
    }

    #[test]
    fn what_is_no_dax_device_or_tells_no_size_is_none() {
        assert_eq!(of("virtual/mem/null", "mem", &[("size", "4096")]), None);
        assert_eq!(of("ndbus0/dax0.0", "dax", &[("align", "4096")]), None);
        assert_eq!(of("ndbus0/dax0.0", "dax", &[("size", "much")]), None);
    }

    #[test]
    fn zeros_are_written_from_the_old_end_to_the_new_one() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[7; 100], 0).expect("a small file");
        write_zeros(&file, 100, 200_000).expect("room");
        assert_eq!(file.metadata().expect("a file").len(), 200_000);
        let mut bytes = [1; 200];
        file.read_exact_at(&mut bytes, 0).expect("it is there");
        assert!(bytes[..100].iter().all(|&byte| byte == 7) && bytes[100..].iter().all(|&byte| byte == 0));
    }
}

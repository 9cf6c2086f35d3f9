//! Every backend that is present; what is absent is printed.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::{Arc, Mutex, OnceLock};

use unified::gpu::{Cuda, Vulkan, Wgpu};
use unified::{Accelerator, Batch, BatchOptions, Error};

/// The devices of this machine.
pub fn backends() -> Vec<Arc<dyn Accelerator>> {
    // Opened once: software drivers compile every kernel anew.
    static ALL: OnceLock<Mutex<Vec<Arc<dyn Accelerator>>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let batch = Batch::new(BatchOptions { threads: 3, ..BatchOptions::default() });
        let mut all: Vec<Arc<dyn Accelerator>> = vec![Arc::new(batch)];
        add(&mut all, Wgpu::open());
        add(&mut all, Vulkan::open());
        add(&mut all, Cuda::open());
        Mutex::new(all)
    });
    all.lock().expect("no test panics here").clone()
}

fn add<A: Accelerator + 'static>(all: &mut Vec<Arc<dyn Accelerator>>, opened: Result<A, Error>) {
    match opened {
        Ok(device) => all.push(Arc::new(device)),
        Err(error) => println!("skipped: {error}"),
    }
}

/// A seed, printed.
pub fn seed(name: &str, default: u64) -> u64 {
    let seed = std::env::var("STRANDLINE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("{name}: STRANDLINE_SEED={seed} repeats it");
    seed
}

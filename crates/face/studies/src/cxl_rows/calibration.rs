//! Rows on which the cards' presets were set: X1 to X8, X34, X35.

use super::{at, curve, idle, local, mixed, reads, row, threads, writes};
use crate::{Access, Check, Evidence, Lab, Order, Row, StudyError};

const ASIC: &str = "cxl-asic";
const FPGA: &str = "cxl-fpga";

/// Calibration.
pub const ROWS: &[Row] = &[
    Row {
        calibration: "device.timing.port of cxl-asic was set on this adder",
        ..row(
            "X1",
            "An ASIC card adds 148 ns to a local read (D1)",
            "148 ns",
            "5 ns",
            "idle random reads, card less DDR5",
            asic_adder,
        )
    },
    Row {
        calibration: "the link's five slots a line (kept) and the card's four half channels",
        ..row(
            "X2",
            "Reads of sixteen lanes peak at 48.0 GB/s (D1)",
            "48.0",
            "3 %",
            "sequential loads, 16 threads",
            asic_reads,
        )
    },
    Row {
        calibration: "device.timing.writes, memory.timing.write_queue and the card's four half channels",
        ..row(
            "X3",
            "Non-temporal writes peak at 47.0 GB/s (D1)",
            "47.0",
            "3 %",
            "sequential ntstores, 16 threads",
            asic_writes,
        )
    },
    Row {
        calibration: "write_to_read, write_queue and write_batch of the card's DDR5",
        ..row(
            "X4",
            "Reads and writes 1:1 peak at 54.1 GB/s (D1)",
            "54.1",
            "4 %",
            "loads and ntstores by turns, 16 threads",
            asic_mixed,
        )
    },
    Row {
        calibration: "the generator's burst of 32 accesses",
        lacks: "The fourth point lies on the wall, 94 % of the peak: 459 ns needs smoother arrivals than bursts of 32 loads",
        ..row(
            "X5",
            "Loaded latency of reads, 16 threads (D1)",
            "288, 306, 343, 459 ns at 12.3, 23.4, 36.2, 45.0 GB/s",
            "10 %",
            "bursts of 32 loads with a delay between; one thread more measures",
            asic_loaded,
        )
    },
    Row {
        calibration: "device.timing.port of cxl-fpga was set on this adder",
        ..row(
            "X6",
            "An FPGA card adds 242 ns (D9)",
            "242 ns",
            "5 %",
            "idle random reads, card less DDR5",
            fpga_adder,
        )
    },
    Row {
        calibration: "device.timing.link.read_line and l1.miss_registers of cxl-fpga",
        ..row(
            "X7",
            "FPGA reads: peak, one thread (D9)",
            "21.8; 5.4",
            "5 %",
            "sequential loads, 12 threads and one",
            fpga_reads,
        )
    },
    Row {
        calibration: "cores.pipeline.nt_slots",
        ..row(
            "X8",
            "FPGA writes at 1 and 12 threads (D9)",
            "22.6; 15.0",
            "10 %",
            "sequential ntstores",
            fpga_writes,
        )
    },
    Row {
        calibration: "controller and size of cmm-h were set on hit and knee",
        note: "The knee is shown with a cache of 64 MiB: 48 GiB can't be filled in a simulation of seconds",
        ..row(
            "X34",
            "CMM-H: hit 800 ns, miss 40 to 100 us, knee at the cache's size (D19)",
            "800 ns; 40-100 us",
            "15 %; range",
            "idle random reads within and beyond the cache, preset cmm-h",
            cmm_h,
        )
    },
    Row {
        calibration: "device.timing.switch.latency of cxl-switch was set within this range",
        ..row(
            "X35",
            "A read of 64 B through a switch (D17, D18)",
            "600-780 ns",
            "range",
            "idle random reads, preset cxl-switch",
            switch,
        )
    },
];

fn asic_adder(lab: &Lab) -> Result<Evidence, StudyError> {
    let adder = idle(lab, ASIC)? - local(lab, ASIC)?;
    Ok(Evidence::of(vec![Check::within("adder, ns", 143.0, 153.0, adder)]))
}

fn asic_reads(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![Check::near("reads, GB/s", 48.0, 0.03, reads(lab, ASIC, 16)?)]))
}

fn asic_writes(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![Check::near("writes, GB/s", 47.0, 0.03, writes(lab, ASIC, 16)?)]))
}

fn asic_mixed(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![Check::near("1:1, GB/s", 54.1, 0.04, mixed(lab, ASIC, 1, 1)?)]))
}

fn asic_loaded(lab: &Lab) -> Result<Evidence, StudyError> {
    let curve = curve(threads(ASIC, 16), lab)?;
    let points = [(12.3, 288.0), (23.4, 306.0), (36.2, 343.0), (45.0, 459.0)];
    let check =
        |(gbps, ns): (f64, f64)| Check::near(&format!("ns at {gbps} GB/s"), ns, 0.10, at(&curve, gbps));
    Ok(Evidence::of(points.map(check).to_vec()))
}

fn fpga_adder(lab: &Lab) -> Result<Evidence, StudyError> {
    let adder = idle(lab, FPGA)? - local(lab, FPGA)?;
    Ok(Evidence::of(vec![Check::near("adder, ns", 242.0, 0.05, adder)]))
}

fn fpga_reads(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![
        Check::near("peak, GB/s", 21.8, 0.05, reads(lab, FPGA, 12)?),
        Check::near("one thread, GB/s", 5.4, 0.05, reads(lab, FPGA, 1)?),
    ]))
}

fn fpga_writes(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![
        Check::near("1 thread, GB/s", 22.6, 0.10, writes(lab, FPGA, 1)?),
        Check::near("12 threads, GB/s", 15.0, 0.10, writes(lab, FPGA, 12)?),
    ]))
}

/// `cmm-h` with a small cache, whose working sets are beyond the processor's caches.
const CMM_H: &str = "cmm-h device.timing.behind.size=64MiB llc.size=2816KiB l2.size=64KiB";

fn cmm_h(lab: &Lab) -> Result<Evidence, StudyError> {
    let median = |region: u64| -> Result<f64, StudyError> {
        lab.median(&Access::on(CMM_H).order(Order::Random).region(region))
    };
    let (hit, miss) = (median(16 << 20)?, median(512 << 20)?);
    Ok(Evidence::of(vec![
        Check::at_least("beyond the cache over within it", 20.0, miss / hit),
        Check::near("hit, ns", 800.0, 0.15, hit),
        Check::within("miss, us", 40.0, 100.0, miss / 1e3),
    ]))
}

fn switch(lab: &Lab) -> Result<Evidence, StudyError> {
    Ok(Evidence::of(vec![Check::within("read, ns", 600.0, 780.0, idle(lab, "cxl-switch")?)]))
}

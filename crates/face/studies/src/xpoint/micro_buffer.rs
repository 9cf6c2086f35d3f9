//! Micro-buffering by the library's engine itself: its regions' accesses, recorded and timed by the model.

use machine::Simulation;
use region::{Geometry, Layout, MicroBuffer, Options, Pool, Ptr};
use report::{Axis, Unit};
use space::sim::{Schedule, run};
use space::{Image, Recorded, Recording, Sim};

use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Row 18 once more.
pub const ROWS: &[Row] = &[Row {
    source: Source::Xpoint,
    id: "xpoint-18-engine",
    claim: "Micro-buffering: writing an object back with clwb is faster up to 1 KB, with ntstore above",
    expected: "crossing at 1 KB, as xpoint-18",
    tolerance: "as xpoint-18: one step of the axis, ntstore is first faster at 1 to 4 KiB",
    method: "the library's engine: a region reads a random object and writes it back as it was, each object once, with a threshold that is never or \
             always reached; one thread, xpoint; mean time of a region",
    calibration: "",
    note: "Unlike the source's, which leaves it open, the library's commit is atomic: before it writes back it makes a record of the object durable, which \
           takes as long either way. Buffers in ordinary memory, and instructions, are not in the recording",
    means: Means::Model(crossover),
    lacks: "As xpoint-16 and xpoint-18: in the model a store waits for the flush before it, so that each further line takes some 30 ns longer than by ntstore; one \
            line takes as long either way",
}];

const OBJECTS: [u32; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Bytes of the pool, and of the pieces in it that objects are parts of.
const BYTES: u64 = 160 << 20;
const PIECE: u64 = 64 << 10;
const PIECES: u64 = 2048;
/// A log holds two of the longest records, so that there are two fences always.
const GEOMETRY: Geometry = Geometry { logs: 1, log_bytes: 64 << 10, chunk_bytes: 64 << 10 };
/// Regions before time is taken, and then.
const WARM: u64 = 60;
const REGIONS: u64 = 600;

struct Objects;
impl Layout for Objects {
    const NAME: &'static str = "objects";
    type Root = u64;
}
type Piece = [u64; PIECE as usize / 8];

fn crossover(lab: &Lab) -> Result<Evidence, StudyError> {
    let filled = run(Image::new(BYTES), &Schedule::walk(0), |env| {
        let pool =
            Pool::<_, Objects, MicroBuffer>::create(env, &Options { geometry: Some(GEOMETRY), bytes: None })?;
        let one = |_| pool.region(|tx| tx.alloc::<Piece>([0; PIECE as usize / 8]));
        let pieces = (0..PIECES).map(one).collect::<Result<Vec<_>, _>>()?;
        pool.checkpoint()?;
        Ok::<_, region::Error>(pieces)
    });
    let pieces = filled.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let mut image = Some(filled.space);
    let mut mean = |size: u32, threshold: u64| -> Result<f64, StudyError> {
        let mut ends = [0.0; 2];
        for (end, regions) in ends.iter_mut().zip([WARM, WARM + REGIONS]) {
            let pool = image.take().unwrap_or_else(|| Image::new(BYTES));
            let (at, pool) = time(lab, pool, &pieces, u64::from(size), threshold, regions)?;
            (*end, image) = (at, Some(pool));
        }
        // A count far below 2^52.
        #[allow(clippy::cast_precision_loss)]
        Ok((ends[1] - ends[0]) / REGIONS as f64)
    };
    let clwb = Series::measure(&OBJECTS, |size| mean(size, u64::MAX))?;
    let nt = Series::measure(&OBJECTS, |size| mean(size, 0))?;
    let checks = vec![
        Check::at_least("64 B: ntstore over clwb", 1.0, nt.at(64.0) / clwb.at(64.0)),
        Check::between("ntstore is faster from, bytes", 1024.0, 4096.0, clwb.overtakes(&nt)),
    ];
    let (x, y) = (Axis::log("object", Unit::Bytes), Axis::log("region", Unit::Nanoseconds));
    let curves = vec![crate::curve("clwb", &clwb), crate::curve("ntstore", &nt)];
    Ok(Evidence {
        checks,
        charts: vec![crate::chart("No-op region of the library by object size", x, y, curves)],
    })
}

/// Nanoseconds that so many regions take, opening the pool included, and the pool.
fn time(
    lab: &Lab,
    image: Image,
    pieces: &[Ptr<Piece, Objects>],
    size: u64,
    threshold: u64,
    regions: u64,
) -> Result<(f64, Image), StudyError> {
    // Opened once before, so that recovery has nothing to do in the part that is timed.
    let opened = run(image, &Schedule::walk(0), |env| Pool::<_, Objects, MicroBuffer>::open(env).map(|_| ()));
    opened.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let image = opened.space;
    let simulation = Simulation::new(&lab.config("xpoint", None)?)?;
    let space = Recorded::new(image, simulation, &Recording::persistent("studies", "pool"))?;
    let timed = run(space, &Schedule::walk(0), |env: &Sim<_>| {
        let (pool, _) = Pool::<_, Objects, MicroBuffer>::open(env)?;
        pool.engine().set_threshold(threshold);
        // As many as a power of two, so that an odd step comes to each before it comes to any twice; then
        // mixed, one for one.
        let objects = PIECES * (PIECE / size);
        let steps = (0..regions).map(|number| number.wrapping_mul(0x9e37_79b9) % objects);
        for object in steps.map(|step| step ^ step >> (objects.ilog2() / 2)) {
            let piece = pieces[(object % PIECES) as usize];
            let first = object / PIECES * size / 8;
            pool.region(|tx| {
                (first..first + size / 8).try_for_each(|word| {
                    let at = piece.element(word as usize);
                    tx.set(at, tx.get(at))
                })
            })?;
        }
        Ok::<_, region::Error>(())
    });
    timed.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let (image, simulation) = timed.space.finish()?;
    Ok((simulation.now().ns(), image))
}

//! Descriptions of machines: the presets, and what is wrong with others.

use machine::{Config, ConfigError, Machine, Size};

#[test]
fn the_presets_describe_machines() {
    let names: Vec<&str> = Config::presets().collect();
    assert_eq!(names[..3], ["dram", "dram-remote", "xpoint"]);
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/presets")).unwrap();
    assert_eq!(names.len(), files.count(), "each file is in the list");
    for name in names {
        let config = Config::load(name).unwrap();
        assert_eq!(config.name, name);
        assert!(Config::preset_summary(name).is_some_and(|text| text.ends_with('.')), "{name}");
        let figures = Machine::new(&config).unwrap().into_figures();
        assert_eq!((figures.machine.as_str(), u64::from(figures.unit_bytes)), (name, config.device.unit.0));
        let written = toml::to_string(&config).unwrap();
        assert_eq!(
            Config::parse(&written, &format!("preset {name}")).unwrap(),
            config,
            "a written description reads back"
        );
    }
}

#[test]
fn a_copied_preset_can_be_edited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let text =
        Config::preset_text("xpoint").unwrap().replace("dimms = 6", "dimms = 2").replace("33MiB", "2816KiB");
    std::fs::write(&path, text).unwrap();
    let config = Config::load(path.to_str().unwrap()).unwrap();
    assert_eq!((config.memory.dimms, config.llc.size), (2, Size(2816 << 10)));
}

#[test]
fn neither_preset_nor_file_lists_the_presets() {
    let error = Config::load("optane").unwrap_err();
    assert!(matches!(error, ConfigError::Unknown { .. }));
    assert_eq!(
        error.to_string(),
        "no machine `optane`: neither a preset (".to_owned()
            + &Config::presets().collect::<Vec<_>>().join(", ")
            + ") nor a file"
    );
    let folder = tempfile::tempdir().unwrap();
    let error = Config::load(folder.path().to_str().unwrap()).unwrap_err();
    assert!(matches!(error, ConfigError::Read { .. }), "{error}");
}

/// The message for the preset with `old` replaced by `new`.
fn refusal(old: &str, new: &str) -> String {
    let text = Config::preset_text("xpoint").expect("a preset");
    assert!(text.contains(old), "{old}");
    Config::parse(&text.replace(old, new), "mine.toml").expect_err(new).to_string()
}

#[test]
fn what_is_no_description_is_refused_with_file_and_line() {
    for (old, new, expected) in [
        ("ways = 8", "ways = 8\nwayz = 9", "wayz"),
        ("[llc] ", "[l3] ", "l3"),
        ("seed = 1", "seed = \"one\"", "one"),
        ("\"32KiB\"", "\"32KB\"", "`32KB` is not a size"),
        ("\"32KiB\"", "32768", "string"),
        ("\"on-completion\"\n", "\"at-noon\"\n", "at-noon"),
        ("name = \"xpoint\"", "", "name"),
        ("dimms = 6", "dimms = -1", "-1"),
    ] {
        let message = refusal(old, new);
        assert!(message.starts_with("mine.toml: ") && message.contains(expected), "{new}: {message}");
        assert!(message.contains("line "), "{new}: {message}");
    }
}

#[test]
fn values_that_no_machine_can_have_are_refused_with_a_remedy() {
    for (old, new, expected) in [
        ("count = 24", "count = 0", "cores.count = 0: use 1 to 1024"),
        ("combining_buffers = 12", "combining_buffers = 65", "cores.combining_buffers = 65: use 1 to 64"),
        ("\"32KiB\"", "\"100B\"", "l1.size = 100B: use a multiple of 512B, 64B times l1.ways"),
        ("\"32KiB\"", "\"48KiB\"", "l1.size = 48KiB: makes 96 sets"),
        ("\"32KiB\"", "\"2MiB\"", "l2.size = 1MiB: the L2 holds every line of its L1"),
        ("\"33MiB\"", "\"0B\"", "llc.size = 0B: use a multiple of 704B"),
        ("\"33MiB\"", "\"11GiB\"", "llc.size = 11GiB: use at most 1GiB"),
        (
            "ways = 11\nreplacement = \"random\"",
            "ways = 11\nreplacement = \"tree-plru\"",
            "llc.replacement = \"tree-plru\": a tree needs",
        ),
        (
            "replacement = \"tree-plru\"",
            "replacement = \"queue-aware\"",
            "l1.replacement = \"queue-aware\": only the LLC",
        ),
        (
            "ways = 11",
            "ways = 11\nslices = 18",
            "llc.slices = 18: use 20 or 24, whose hash is known, or leave it out",
        ),
        ("ways = 11", "ways = 11\nslices = 20", "llc.slices = 20: each slice needs a power of two of sets"),
        ("miss_registers = 9", "slices = 24\nmiss_registers = 9", "l1.slices = 24: only the LLC"),
        ("dimms = 6", "dimms = 65", "memory.dimms = 65: use 1 to 64"),
        ("\"4KiB\"", "\"128B\"", "memory.interleave = 128B: use a power of two not below device.unit"),
        ("\"4KiB\"", "\"3KiB\"", "memory.interleave = 3KiB: use a power of two"),
        ("\"256B\"", "\"32B\"", "device.unit = 32B: use a power of two from 64B to 4KiB"),
        ("lines = 64", "lines = 0", "device.buffer.lines = 0: use 1 to 4096"),
        ("\"47ns\"", "\"9000s\"", "device.timing.media.read = 9000s: use at most 10ms"),
        ("\"12ns\"", "\"11ms\"", "memory.timing.read_request = 11ms: use at most 10ms"),
    ] {
        let message = refusal(old, new);
        assert!(message.starts_with(&format!("mine.toml: {expected}")), "{new}: {message}");
    }
}

#[test]
fn a_description_built_in_code_is_checked_as_well() {
    let mut config = Config::preset("dram").unwrap();
    config.l1.ways = 0;
    let message = Machine::new(&config).expect_err("no ways").to_string();
    assert_eq!(message, "preset dram: l1.ways = 0: use 1 to 64");
}

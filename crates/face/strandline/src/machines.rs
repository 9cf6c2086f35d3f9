//! Which machines a simulation compares: `--machine` and `--set`, in the order in which they were given.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use session::Chosen;

/// Machines that are compared if none is named.
const DEFAULT: [&str; 2] = ["dram", "xpoint"];

/// The machines of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// One after the other.
    pub chosen: Vec<Chosen>,
    /// Whether the user named them.
    pub named: bool,
}

impl Machines {
    /// Gives each setting to the machine named before it, or, if it stands before the first, to all.
    fn of(mut words: Vec<(usize, Word)>) -> Machines {
        words.sort_by_key(|(position, _)| *position);
        let named = words.iter().any(|(_, word)| matches!(word, Word::Machine(_)));
        if !named {
            words.extend(DEFAULT.map(|name| (usize::MAX, Word::Machine(name.to_owned()))));
        }
        let (mut for_all, mut chosen) = (Vec::new(), Vec::<Chosen>::new());
        for (_, word) in words {
            match (word, chosen.last_mut()) {
                (Word::Machine(machine), _) => chosen.push(Chosen { machine, settings: for_all.clone() }),
                (Word::Set(setting), None) => for_all.push(setting),
                (Word::Set(setting), Some(last)) => last.settings.push(setting),
            }
        }
        Machines { chosen, named }
    }
}

enum Word {
    Machine(String),
    Set((String, String)),
}

/// Parses `key=value`.
pub fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("a key and a value, as in llc.size=16MiB".to_owned()),
    }
}

impl Args for Machines {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new("machine")
                    .long("machine")
                    .value_name("PRESET|FILE.toml")
                    .action(ArgAction::Append)
                    .help(
                        "A modelled machine: a preset (`list` shows them) or a TOML file; may be given again, to \
                         compare. dram and xpoint if none is given",
                    ),
            )
            .arg(
                Arg::new("set")
                    .long("set")
                    .value_name("KEY=VALUE")
                    .action(ArgAction::Append)
                    .value_parser(setting)
                    .help(
                        "Replace one value of the machine named before it (of all machines, if it stands before the \
                         first), as in device.buffer.lines=128",
                    ),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Machines {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let positions = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
        let machines = matches.get_many::<String>("machine").into_iter().flatten().cloned();
        let settings = matches.get_many::<(String, String)>("set").into_iter().flatten().cloned();
        let machines = positions("machine").into_iter().zip(machines.map(Word::Machine));
        let settings = positions("set").into_iter().zip(settings.map(Word::Set));
        Ok(Machines::of(machines.chain(settings).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Machines {
        let command = Machines::augment_args(Command::new("x"));
        let words = std::iter::once("x").chain(arguments.iter().copied());
        Machines::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    fn labels(arguments: &[&str]) -> Vec<String> {
        parse(arguments).chosen.iter().map(Chosen::label).collect()
    }

    #[test]
    fn a_setting_is_for_the_machine_before_it() {
        assert_eq!(labels(&["--machine", "dram", "--machine", "xpoint"]), ["dram", "xpoint"]);
        assert_eq!(
            labels(&["--machine", "xpoint", "--machine", "xpoint", "--set", "device.buffer.lines=128"]),
            ["xpoint", "xpoint device.buffer.lines=128"]
        );
    }

    #[test]
    fn a_setting_before_the_first_machine_is_for_all() {
        let arguments =
            ["--set", "llc.ways=16", "--machine", "dram", "--machine", "xpoint", "--set", "seed = 2"];
        assert_eq!(labels(&arguments), ["dram llc.ways=16", "xpoint llc.ways=16 seed=2"]);
        assert_eq!(labels(&["--set", "seed=3"]), ["dram seed=3", "xpoint seed=3"]);
    }

    #[test]
    fn the_arguments_name_the_same_machines() {
        let arguments =
            ["--set", "llc.ways=16", "--machine", "dram", "--machine", "xpoint", "--set", "seed=2"];
        let machines = parse(&arguments);
        let again: Vec<String> = machines.chosen.iter().flat_map(Chosen::arguments).collect();
        assert_eq!(parse(&again.iter().map(String::as_str).collect::<Vec<_>>()), machines);
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for text in ["llc.size", "=5", " =5", ""] {
            assert!(setting(text).is_err(), "{text}");
        }
        assert_eq!(setting("a.b={ c = 1 }"), Ok(("a.b".to_owned(), "{ c = 1 }".to_owned())));
    }
}

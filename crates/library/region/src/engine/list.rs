//! The list of engines: names, inspection, the C table, benches and test suites go by it.

use space::{Image, Sim};

use super::{Atomicity, Engine};

/// Expands an expression once for each engine of this library, with the engine's type under a name of the
/// caller's choice.
///
/// | form | value |
/// |---|---|
/// | `for_each_engine!(A => body)` | `()`, after `body` for each engine |
/// | `for_each_engine!([A => value])` | an array of the values |
/// | `for_each_engine!(sound A => body)`, `(sound [A => value])` | the same, without engines that protect nothing |
/// | `for_each_engine!(tests f);` | items: a module `f` with a test that calls `f::<A>()` for each sound engine |
/// | `for_each_engine!(flaw F; S, A => body)` | `body` for each sound engine `A` and its twin `S` with the mistake `F` |
///
/// ```
/// use region::Atomicity;
///
/// let names = region::for_each_engine!(sound [A => <A as Atomicity>::NAME]);
/// assert_eq!(names[0], "redo");
/// ```
///
/// A new engine is one line in the list at the end of this macro: what goes by the list then covers it.
#[macro_export]
macro_rules! for_each_engine {
    (@all $a:ident { $body:expr } $($sound:ident)*; $($unsound:ident)*) => {{
        $({ type $a = $crate::$sound; $body; })*
        $({ type $a = $crate::$unsound; $body; })*
    }};
    (@all_values $a:ident { $value:expr } $($sound:ident)*; $($unsound:ident)*) => {
        [$({ type $a = $crate::$sound; $value },)* $({ type $a = $crate::$unsound; $value },)*]
    };
    (@sound $a:ident { $body:expr } $($sound:ident)*; $($unsound:ident)*) => {{
        $({ type $a = $crate::$sound; $body; })*
    }};
    (@sound_values $a:ident { $value:expr } $($sound:ident)*; $($unsound:ident)*) => {
        [$({ type $a = $crate::$sound; $value },)*]
    };
    (@flawed $flaw:ty, $s:ident, $a:ident { $body:expr } $($sound:ident)*; $($unsound:ident)*) => {{
        $({ type $s = $crate::$sound<$flaw>; type $a = $crate::$sound; $body; })*
    }};
    (@tests $test:ident $($sound:ident)*; $($unsound:ident)*) => {
        mod $test {
            use super::$test as each;
            $(
                #[test]
                #[allow(non_snake_case)]
                fn $sound() {
                    each::<$crate::$sound>();
                }
            )*
        }
    };
    (tests $test:ident) => { $crate::for_each_engine!(@list @tests $test); };
    (sound [$a:ident => $value:expr]) => { $crate::for_each_engine!(@list @sound_values $a { $value }) };
    (sound $a:ident => $body:expr) => { $crate::for_each_engine!(@list @sound $a { $body }) };
    (flaw $flaw:ty; $s:ident, $a:ident => $body:expr) => {
        $crate::for_each_engine!(@list @flawed $flaw, $s, $a { $body })
    };
    ([$a:ident => $value:expr]) => { $crate::for_each_engine!(@list @all_values $a { $value }) };
    ($a:ident => $body:expr) => { $crate::for_each_engine!(@list @all $a { $body }) };

    // The list: sound engines, which take a flaw, the default first; then those that protect nothing.
    (@list $($then:tt)*) => {
        $crate::for_each_engine! {
            $($then)*
            Redo
            Undo
            MicroBuffer
            Shadow
            Ssp
            Group
            ;
            Unprotected
        }
    };
}

/// What the list says of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Its name.
    pub name: &'static str,
    /// Its number in a pool's header.
    pub number: u32,
    /// Whether its regions are failure-atomic.
    pub sound: bool,
    /// Whether a region writes where it will be read ([`Engine::IN_PLACE`]).
    pub in_place: bool,
}

const fn info<A: Atomicity>(sound: bool) -> EngineInfo {
    let in_place = <A::Engine<Sim<Image>> as Engine<Sim<Image>>>::IN_PLACE;
    EngineInfo { name: A::NAME, number: A::NUMBER, sound, in_place }
}

/// Sound engines.
const SOUND: &[EngineInfo] = &for_each_engine!(sound [A => info::<A>(true)]);

/// Every engine of this library, the default first.
pub static ENGINES: [EngineInfo; for_each_engine!([A => A::NUMBER]).len()] = {
    let mut engines = for_each_engine!([A => info::<A>(false)]);
    let mut at = 0;
    while at < SOUND.len() {
        engines[at].sound = true;
        at += 1;
    }
    engines
};

/// The name of the engine with that number.
pub(crate) fn name_of(number: u32) -> String {
    let known = ENGINES.iter().find(|engine| engine.number == number);
    known.map_or_else(|| format!("engine {number}"), |engine| engine.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_given_once() {
        for (at, engine) in ENGINES.iter().enumerate() {
            let others = || ENGINES[..at].iter();
            assert!(others().all(|other| other.number != engine.number && other.name != engine.name));
            assert_eq!(name_of(engine.number), engine.name);
        }
        assert_eq!(name_of(0), "engine 0");
    }

    #[test]
    fn what_is_sound_is_listed_first() {
        assert!(ENGINES.is_sorted_by_key(|engine| !engine.sound));
        assert!(ENGINES[0].sound);
        assert_eq!(ENGINES.iter().filter(|engine| engine.sound).count(), SOUND.len());
    }
}

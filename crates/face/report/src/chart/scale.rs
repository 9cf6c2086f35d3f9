//! Axes with round ticks.

/// From 0 to a round end, with a tick every round step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    step: f64,
    steps: u32,
}

impl Scale {
    /// For counts: steps of 1, 2 or 5 times a power of ten. `ticks` is how many there should be, roughly.
    pub fn decimal(max: f64, ticks: u32) -> Scale {
        let raw = Scale::raw_step(max, ticks);
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= raw * 0.999_999);
        Scale::of_step(max, step.unwrap_or(raw))
    }

    /// For whole things: as [`Scale::decimal`], but with no step below 1.
    pub fn whole(max: f64, ticks: u32) -> Scale {
        let scale = Scale::decimal(max, ticks);
        if scale.step < 1.0 { Scale::of_step(max, 1.0) } else { scale }
    }

    /// For bytes: steps of a power of two.
    pub fn binary(max: f64, ticks: u32) -> Scale {
        let step = 2f64.powf(Scale::raw_step(max, ticks).log2().ceil());
        Scale::of_step(max, step)
    }

    /// The scale's end.
    pub fn end(self) -> f64 {
        self.step * f64::from(self.steps)
    }

    /// The ticks, 0 and the end included.
    pub fn ticks(self) -> impl Iterator<Item = f64> {
        (0..=self.steps).map(move |tick| self.step * f64::from(tick))
    }

    /// Where `value` lies, 0 to 1.
    pub fn at(self, value: f64) -> f64 {
        (value / self.end()).clamp(0.0, 1.0)
    }

    fn raw_step(max: f64, ticks: u32) -> f64 {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        max / f64::from(ticks.max(1))
    }

    fn of_step(max: f64, step: f64) -> Scale {
        let steps = if max.is_finite() { (max / step - 1e-9).ceil().clamp(1.0, 100.0) as u32 } else { 1 };
        Scale { step, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach_the_maximum() {
        for max in [0.000_3, 0.9, 1.0, 7.0, 99.0, 100.0, 101.0, 12_345.6, 1e12, 1.8e19] {
            for scale in [Scale::decimal(max, 5), Scale::binary(max, 5)] {
                assert!(scale.end() >= max * 0.999_999, "{max}: {scale:?}");
                assert!(scale.end() < max * 2.0 + scale.step, "{max}: {scale:?}");
                assert!((2..=7).contains(&scale.ticks().count()), "{max}: {scale:?}");
            }
        }
        let ticks: Vec<f64> = Scale::decimal(7.0, 4).ticks().collect();
        assert_eq!(ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        let ticks: Vec<f64> = Scale::binary(3000.0, 3).ticks().collect();
        assert_eq!(ticks, [0.0, 1024.0, 2048.0, 3072.0]);
    }

    #[test]
    fn nothing_and_nonsense_still_make_an_axis() {
        for max in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let scale = Scale::decimal(max, 5);
            assert!(scale.end() > 0.0 && scale.at(0.0) == 0.0, "{max}: {scale:?}");
        }
        assert_eq!(Scale::whole(1.0, 5).ticks().collect::<Vec<_>>(), [0.0, 1.0]);
    }
}

//! Results as tables and charts, the same for the terminal and the page.

use machine::{Size, Time};
use measure::{Figures, Measurement, Parameter, Show, Study};
use report::{Axis, Cell, Curve, Curves, Unit};

/// A table, and the chart of it if there is one.
pub struct View {
    /// What it shows.
    pub caption: String,
    /// The columns' names.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// The same as curves.
    pub chart: Option<Curves>,
}

/// Something that a figure can be taken from.
type Pick = fn(&Figures) -> Option<f64>;

/// The views of one study's measurements, which are in the order of its points.
pub fn views(study: &Study, measured: &[&Measurement]) -> Vec<View> {
    let table = Table { study, measured };
    let rate =
        || table.by_axis("bandwidth, GB/s", |figures| figures.gb_per_s, Axis::linear("bandwidth, GB/s"));
    let ewr = || {
        let known = measured.iter().any(|m| m.figures().is_some_and(|figures| figures.ewr.is_some()));
        let title = "effective write ratio: bytes from the controller / bytes on media";
        known.then(|| table.by_axis(title, |figures| figures.ewr, Axis::linear("EWR")))
    };
    let mean = || {
        let axis = Axis { title: "time".to_owned(), unit: Unit::Nanoseconds, log: false };
        table.by_axis("mean time, ns", Figures::mean_ns, axis)
    };
    let views: Vec<Option<View>> = match study.shows {
        Show::Latency => vec![Some(table.latencies(false))],
        Show::Tail => vec![Some(table.latencies(true)), Some(table.tails())],
        Show::Bandwidth => vec![Some(rate()), ewr()],
        Show::LatencyByBandwidth => vec![Some(table.latency_by_bandwidth())],
        Show::MeanLatency => vec![Some(mean()), ewr()],
        Show::Amplification => {
            let known = ewr().is_some();
            let title = "write amplification: bytes on media / bytes from the controller";
            let axis = Axis::linear("write amplification");
            vec![
                known.then(|| table.by_axis(title, |figures| figures.write_amplification, axis)),
                Some(mean()),
            ]
        }
        Show::Progress => vec![Some(table.stalls()), Some(table.progress())],
    };
    views.into_iter().flatten().filter(|view| !view.rows.is_empty()).collect()
}

/// Reasons for points that were skipped. Reasons that differ only in their numbers are listed once, with the
/// first.
pub fn skipped(measured: &[Measurement]) -> Vec<String> {
    let mut reasons: Vec<(String, String, usize)> = Vec::new();
    for measurement in measured {
        let measure::Outcome::Skipped(reason) = &measurement.outcome else { continue };
        let kind: String = reason.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        if let Some((.., count)) = reasons.iter_mut().find(|(other, ..)| *other == kind) {
            *count += 1;
            continue;
        }
        let Measurement { study, series, at, .. } = measurement;
        reasons.push((kind, format!("{study}, {series}, {at}: {reason}"), 1));
    }
    let line = |(_, first, count): (String, String, usize)| {
        if count == 1 { first } else { format!("{first}; and {} more like it", count - 1) }
    };
    reasons.into_iter().map(line).collect()
}

/// What to know about points whose regions were not measured as large as they were asked for, study by study.
pub fn smaller(measured: &[Measurement]) -> Vec<String> {
    let mut seen: Vec<(&str, bool)> = Vec::new();
    let mut cautions = Vec::new();
    for measurement in measured {
        let Some(figures) = measurement.figures() else { continue };
        let (study, asked) = (measurement.study.as_str(), Size(measurement.task.region));
        let (sampled, caution) = match (figures.region, figures.sampled_lines) {
            (Some(region), _) => (
                false,
                format!(
                    "{study}: regions are smaller than asked for, {} and not {asked} for one: there was no more memory or time.",
                    Size(region)
                ),
            ),
            (None, Some(lines)) => (
                true,
                format!(
                    "{study}: only some lines of large regions were used, {lines} of {asked} for one: a buffer that can hold that many stands for the memory. More --events use more."
                ),
            ),
            (None, None) => continue,
        };
        if !seen.contains(&(study, sampled)) {
            seen.push((study, sampled));
            cautions.push(caution);
        }
    }
    cautions
}

struct Table<'a> {
    study: &'a Study,
    measured: &'a [&'a Measurement],
}

impl Table<'_> {
    fn caption(&self, what: &str) -> String {
        format!("{}: {what}", self.study.name)
    }

    /// Names of the curves, in order.
    fn series(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for measurement in self.measured {
            if !names.contains(&measurement.series.as_str()) {
                names.push(&measurement.series);
            }
        }
        names
    }

    fn of<'a>(&'a self, series: &'a str) -> impl Iterator<Item = (&'a Measurement, &'a Figures)> {
        let own = self.measured.iter().filter(move |measurement| measurement.series == series);
        own.filter_map(|measurement| measurement.figures().map(|figures| (*measurement, figures)))
    }

    /// Where a point stands on the axis; on one of regions, where that is which was really measured.
    fn place(&self, measurement: &Measurement, figures: &Figures) -> (String, f64) {
        let at = &measurement.at;
        match (figures.region, figures.sampled_lines) {
            _ if self.study.parameter() != Parameter::Region => (at.clone(), measurement.x),
            (Some(region), _) => (Size(region).to_string(), region as f64),
            (None, Some(lines)) => (format!("{at}, {lines} lines of it"), measurement.x),
            (None, None) => (at.clone(), measurement.x),
        }
    }

    fn place_cell(&self, measurement: &Measurement, figures: &Figures) -> Cell {
        let (text, x) = self.place(measurement, figures);
        Cell::Number(text, x)
    }

    fn x_axis(&self) -> Axis {
        let title = self.study.axis_title();
        match self.study.parameter() {
            Parameter::AccessSize | Parameter::Stride | Parameter::Region | Parameter::FlushEvery => {
                Axis::log(title, Unit::Bytes)
            }
            Parameter::Delay => Axis::log(title, Unit::Nanoseconds),
            Parameter::FenceEvery | Parameter::Samples => Axis::log(title, Unit::Number),
            Parameter::Mix if self.measured.iter().any(|m| m.at.contains(':')) => Axis::linear("reads, %"),
            Parameter::Mix => Axis::linear("readers"),
            _ => Axis::linear(title),
        }
    }

    fn chart(
        &self,
        title: String,
        axes: (Axis, Axis),
        points: impl Fn(&str) -> Vec<(f64, f64)>,
    ) -> Option<Curves> {
        let curve =
            |name: &&str| Curve { name: (*name).to_owned(), points: points(name), published: Vec::new() };
        let curves: Vec<Curve> = self.series().iter().map(curve).collect();
        let drawn = curves.iter().any(|curve| curve.points.len() > 1);
        drawn.then_some(Curves { title, x: axes.0, y: axes.1, curves })
    }

    /// A row per place on the axis, a column per curve.
    fn by_axis(&self, what: &str, pick: Pick, y: Axis) -> View {
        let series = self.series();
        let mut places: Vec<(String, f64)> = Vec::new();
        for (measurement, figures) in self.measured.iter().filter_map(|m| m.figures().map(|f| (*m, f))) {
            let place = self.place(measurement, figures);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let cell = |place: &(String, f64), name: &str| {
            let found =
                self.of(name).find(|(measurement, figures)| self.place(measurement, figures) == *place);
            number(found.and_then(|(_, figures)| pick(figures)))
        };
        let row = |place: &(String, f64)| {
            let mut row = vec![Cell::Number(place.0.clone(), place.1)];
            row.extend(series.iter().map(|name| cell(place, name)));
            row
        };
        let points = |name: &str| {
            let point = |(m, figures)| pick(figures).map(|y| (self.place(m, figures).1, y));
            self.of(name).filter_map(point).collect::<Vec<_>>()
        };
        let mut head = vec![self.study.axis_title().to_owned()];
        head.extend(
            series.iter().map(|name| if name.is_empty() { what.to_owned() } else { (*name).to_owned() }),
        );
        View {
            caption: self.caption(what),
            head,
            rows: places.iter().map(row).collect(),
            chart: self.chart(self.caption(what), (self.x_axis(), y), points),
        }
    }

    /// A row per point with the distribution of its samples.
    fn latencies(&self, with_axis: bool) -> View {
        let mut head = vec![if with_axis { self.study.axis_title() } else { "access" }.to_owned()];
        head.extend(
            ["mean, ns", "min", "50 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "max", "samples"]
                .map(str::to_owned),
        );
        let row = |(measurement, figures): (&Measurement, &Figures)| {
            let latency = figures.latency.as_ref()?;
            let l = latency;
            let name = if with_axis {
                self.place_cell(measurement, figures)
            } else {
                Cell::Text(measurement.series.clone())
            };
            let mut row = vec![name];
            let times = [l.mean, l.min, l.p50, l.p99, l.p999, l.p9999, l.p99999, l.max];
            row.extend(times.map(|time| number(Some(time))));
            row.push(Cell::number(l.samples, report::human::count));
            Some(row)
        };
        let rows =
            self.series().into_iter().flat_map(|name| self.of(name).filter_map(row).collect::<Vec<_>>());
        View { caption: self.caption("latency, ns"), head, rows: rows.collect(), chart: None }
    }

    /// The percentiles that show stalls, as curves of their own; and the stalls.
    fn tails(&self) -> View {
        let picks: [(&str, Pick); 3] = [
            ("99.99 %", |figures| figures.latency.as_ref().map(|latency| latency.p9999)),
            ("99.999 %", |figures| figures.latency.as_ref().map(|latency| latency.p99999)),
            ("longest", |figures| figures.latency.as_ref().map(|latency| latency.max)),
        ];
        let curves = picks.iter().flat_map(|(name, pick)| {
            self.series().into_iter().map(move |series| {
                let point = |(m, figures)| Some((self.place(m, figures).1, pick(figures)?));
                let points = self.of(series).filter_map(point).collect();
                Curve { name: format!("{series}, {name}"), points, published: Vec::new() }
            })
        });
        let chart = Curves {
            title: self.caption("rare latencies"),
            x: self.x_axis(),
            y: Axis::log("time", Unit::Nanoseconds),
            curves: curves.collect(),
        };
        View { chart: Some(chart), ..self.stalls() }
    }

    fn stalls(&self) -> View {
        let head = [
            self.study.axis_title(),
            "access",
            "usual, ns",
            "stalls",
            "accesses from stall to stall",
            "length, ns",
        ];
        let row = |(measurement, figures): (&Measurement, &Figures)| {
            let (latency, stalls) = (figures.latency.as_ref()?, figures.stalls.as_ref()?);
            Some(vec![
                self.place_cell(measurement, figures),
                Cell::Text(measurement.series.clone()),
                number(Some(latency.p50)),
                Cell::number(stalls.count, report::human::grouped),
                number(stalls.every.map(|every| every as f64)),
                number((stalls.count > 0).then_some(stalls.median_ns)),
            ])
        };
        let rows =
            self.series().into_iter().flat_map(|name| self.of(name).filter_map(row).collect::<Vec<_>>());
        View {
            caption: self.caption("accesses of at least 10 times the usual and 5 us"),
            head: head.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            chart: None,
        }
    }

    fn progress(&self) -> View {
        let points = |name: &str| {
            let of = |(_, figures): (&Measurement, &Figures)| figures.progress.clone();
            self.of(name).flat_map(of).map(|(bytes, ns)| (bytes as f64, ns)).collect::<Vec<_>>()
        };
        let series = self.series();
        let rows = series.iter().flat_map(|name| {
            let all = points(name);
            let quarter = |n: usize| all.get((all.len().max(1) - 1) * n / 4).copied();
            (0..=4)
                .filter_map(quarter)
                .map(|(bytes, ns)| {
                    vec![
                        Cell::Text((*name).to_owned()),
                        Cell::Number(report::human::scaled_bytes(bytes), bytes),
                        number(Some(ns)),
                    ]
                })
                .collect::<Vec<_>>()
        });
        let axes = (
            Axis { title: "accessed so far".to_owned(), unit: Unit::Bytes, log: false },
            Axis { title: "mean time of an access".to_owned(), unit: Unit::Nanoseconds, log: false },
        );
        View {
            caption: self.caption("mean time of an access as the run goes on"),
            head: ["access", "accessed so far", "mean, ns"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
            chart: self.chart(self.caption("time of an access as the run goes on"), axes, points),
        }
    }

    fn latency_by_bandwidth(&self) -> View {
        let row = |(measurement, figures): (&Measurement, &Figures)| {
            let latency = figures.latency.as_ref();
            vec![
                Cell::Text(measurement.series.clone()),
                Cell::Number(measurement.at.clone(), measurement.x),
                number(figures.gb_per_s),
                number(latency.map(|latency| latency.mean)),
                number(latency.map(|latency| latency.p99)),
            ]
        };
        let rows = self.series().into_iter().flat_map(|name| self.of(name).map(row).collect::<Vec<_>>());
        let points = |name: &str| {
            let point = |(_, figures): (&Measurement, &Figures)| {
                Some((figures.gb_per_s?, figures.latency.as_ref()?.mean))
            };
            self.of(name).filter_map(point).collect::<Vec<_>>()
        };
        let y = Axis::log("mean latency", Unit::Nanoseconds);
        View {
            caption: self.caption("latency by bandwidth"),
            head: ["access", "delay", "GB/s", "mean, ns", "99 %"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
            chart: self.chart(
                self.caption("latency by bandwidth"),
                (Axis::linear("bandwidth, GB/s"), y),
                points,
            ),
        }
    }
}

/// Three significant digits; `-` for none.
fn number(value: Option<f64>) -> Cell {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return Cell::Number("-".to_owned(), -1.0);
    };
    let text = match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v > 0.0 && v < 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    };
    Cell::Number(text, value)
}

/// A view as lines of text, columns aligned.
pub fn text(view: &View) -> String {
    let plain = |cell: &Cell| match cell {
        Cell::Text(text) | Cell::Code(text) | Cell::Number(text, _) => report::human::plain(text),
    };
    let rows: Vec<Vec<String>> = [view.head.clone()]
        .into_iter()
        .chain(view.rows.iter().map(|row| row.iter().map(plain).collect()))
        .collect();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let left =
        |column: usize| matches!(view.rows.first().and_then(|row| row.get(column)), Some(Cell::Text(_)));
    let mut text = format!("{}\n", view.caption);
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            if left(column) {
                report::human::pad_right(cell, width)
            } else {
                report::human::pad_left(cell, width)
            }
        });
        text.push_str("  ");
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// All measurements, a line each.
pub fn csv(measured: &[Measurement]) -> String {
    let mut text = "study,series,kind,op,pattern,access_size,stride,threads,region,region_asked,sampled_lines,shared,delay_ns,fence_every,flush_every,mix,\
                    dimms,locality,raw,skipped,seconds,read_bytes,write_bytes,gb_per_s,gb_per_s_low,gb_per_s_high,ewr,\
                    media_read_bytes,media_write_bytes,samples,mean_ns,min_ns,p50_ns,p90_ns,p99_ns,p999_ns,p9999_ns,\
                    p99999_ns,max_ns,line_ns,write_ns,stalls,stall_every,stall_ns\n"
        .to_owned();
    for measurement in measured {
        let fields: Vec<String> =
            task_fields(measurement).into_iter().chain(figure_fields(measurement)).collect();
        text.push_str(&fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn task_fields(measurement: &Measurement) -> Vec<String> {
    let (task, figures) = (&measurement.task, measurement.figures());
    let reason = match &measurement.outcome {
        measure::Outcome::Skipped(reason) => reason.clone(),
        measure::Outcome::Done(_) => String::new(),
    };
    vec![
        measurement.study.clone(),
        measurement.series.clone(),
        task.kind.to_string(),
        task.op.to_string(),
        task.pattern.to_string(),
        task.access_size.to_string(),
        task.step().to_string(),
        task.threads.to_string(),
        figures.and_then(|figures| figures.region).unwrap_or(task.region).to_string(),
        task.region.to_string(),
        figures.and_then(|figures| figures.sampled_lines).map_or(String::new(), |lines| lines.to_string()),
        task.shared.to_string(),
        number_or_empty(
            Some(task.delay).filter(|delay| *delay > Time::ZERO).map_or(Some(0.0), |delay| Some(delay.ns())),
        ),
        task.fence_every.to_string(),
        task.flush_every.to_string(),
        task.mix.to_string(),
        task.dimms.to_string(),
        task.locality.to_string(),
        task.raw.to_string(),
        reason,
    ]
}

fn figure_fields(measurement: &Measurement) -> Vec<String> {
    let empty = Figures::default();
    let figures = measurement.figures().unwrap_or(&empty);
    let (latency, stalls, traffic) =
        (figures.latency.as_ref(), figures.stalls.as_ref(), figures.traffic.as_ref());
    let done = measurement.figures().is_some();
    let mut fields = vec![
        number_or_empty(done.then_some(figures.seconds)),
        number_or_empty(done.then_some(figures.read_bytes as f64)),
        number_or_empty(done.then_some(figures.write_bytes as f64)),
        number_or_empty(figures.gb_per_s),
        number_or_empty(figures.gb_per_s_range.map(|range| range.0)),
        number_or_empty(figures.gb_per_s_range.map(|range| range.1)),
        number_or_empty(figures.ewr),
        number_or_empty(traffic.map(|traffic| traffic.media_read_bytes as f64)),
        number_or_empty(traffic.map(|traffic| traffic.media_write_bytes as f64)),
        number_or_empty(latency.map(|latency| latency.samples as f64)),
    ];
    let times = latency.map(|l| [l.mean, l.min, l.p50, l.p90, l.p99, l.p999, l.p9999, l.p99999, l.max]);
    fields.extend((0..9).map(|at| number_or_empty(times.map(|times| times[at]))));
    fields.extend([
        number_or_empty(figures.line_ns),
        number_or_empty(figures.write_ns),
        number_or_empty(stalls.map(|stalls| stalls.count as f64)),
        number_or_empty(stalls.and_then(|stalls| stalls.every).map(|every| every as f64)),
        number_or_empty(stalls.filter(|stalls| stalls.count > 0).map(|stalls| stalls.median_ns)),
    ]);
    fields
}

fn number_or_empty(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// As CSV has it: in quotes where it must be.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

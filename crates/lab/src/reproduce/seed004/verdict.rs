//! Whether the paper's effect appears, for each layout of the words, and what stays
//! contended.

use serde::Serialize;

use super::{
    super::{
        pairs::{Effect, Sign},
        text::{percent, signed, whole},
    },
    NAME,
    hash::{Bench, Cost, Row, Side, Words},
};
use crate::{format, record::rounded};

/// What the paper says of some numbers of threads. It names only 100: where low ends
/// and the middle begins is taken from nowhere.
struct Band {
    name: &'static str,
    most: usize,
    /// The effect; of the first it is the most that noise may be.
    effect: f64,
    said: &'static str,
}

const BANDS: [Band; 3] = [
    Band {
        name: "low",
        most: 16,
        effect: 0.10,
        said: "noise, or less than 10 %",
    },
    Band {
        name: "mid",
        most: 100,
        effect: 0.30,
        said: "over 30 %",
    },
    Band {
        name: "high",
        most: usize::MAX,
        effect: 0.45,
        said: "up to 45 %",
    },
];

/// What the paper says of so many threads.
pub fn said_of(threads: usize) -> &'static str {
    let band = BANDS.iter().find(|band| threads <= band.most);
    band.map_or("", |band| band.said)
}

/// How the largest effect of a band stands to the paper's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agrees {
    /// From half of it to twice as much; with few threads, no more than it.
    Yes,
    /// There is no rise that exceeds its deviation.
    None,
    /// Less than half of it.
    Smaller,
    /// More than twice; with few threads, more.
    Larger,
}

/// A band, judged by its largest effect.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Which.
    pub band: &'static str,
    /// Its numbers of threads.
    pub threads: Vec<usize>,
    /// Where the effect is the largest.
    pub at: usize,
    /// That effect.
    #[serde(flatten)]
    pub effect: Effect,
    /// The least in the band.
    pub least: f64,
    /// The greatest deviation of any in it.
    pub greatest_sd: f64,
    /// The paper's.
    pub paper_effect: f64,
    /// Whether they agree.
    pub agrees: Agrees,
    #[serde(skip)]
    said: &'static str,
}

impl Judged {
    fn new(band: &Band, rows: &[&Row]) -> Option<Self> {
        let effect = |row: &&Row| row.effect.effect;
        let known: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((effect(row)?, row)))
            .collect();
        let (largest, row) = *known.iter().max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let least = known.iter().map(|(effect, _)| *effect);
        let sds = known.iter().filter_map(|(_, row)| row.effect.effect_sd);
        let rises = row.effect.sign() == Some(Sign::Rise);
        let low = band.name == BANDS[0].name;
        Some(Self {
            band: band.name,
            threads: rows.iter().map(|row| row.setting.threads).collect(),
            at: row.setting.threads,
            effect: row.effect,
            least: least.fold(f64::INFINITY, f64::min),
            greatest_sd: sds.fold(0.0, f64::max),
            paper_effect: band.effect,
            agrees: match largest / band.effect {
                times if low && times <= 1.0 => Agrees::Yes,
                _ if !rises => Agrees::None,
                times if !low && times < 0.5 => Agrees::Smaller,
                times if !low && times <= 2.0 => Agrees::Yes,
                _ => Agrees::Larger,
            },
            said: band.said,
        })
    }

    fn sentence(&self) -> String {
        let threads: Vec<_> = self.threads.iter().map(ToString::to_string).collect();
        let most = self.effect.effect.unwrap_or_default();
        format!(
            "With {} threads the rate changes by {} to {} (sd at most {}; paper: {}): {}.",
            threads.join(", "),
            signed(self.least),
            signed(most),
            percent(self.greatest_sd),
            self.said,
            match self.agrees {
                Agrees::Yes => "that agrees",
                Agrees::None => "no effect shows",
                Agrees::Smaller => "that is less than half of it",
                Agrees::Larger if self.band == BANDS[0].name => "that is more",
                Agrees::Larger => "that is more than twice as much",
            }
        )
    }
}

/// What an operation waits for when most threads run, as shares of all waits for cache
/// lines.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contended {
    /// The threads.
    pub threads: usize,
    /// All waits for cache lines of an operation, in nanoseconds.
    pub lines_ns: f64,
    /// For the line of a page.
    pub page: f64,
    /// For that of the address space.
    pub space: f64,
    /// For that of a bucket.
    pub bucket: f64,
    /// Nanoseconds asleep, before and after.
    pub sleep_ns: [f64; 2],
    /// How many times as much as before private futexes do, and after; and as the later
    /// keys.
    pub private_times: [f64; 3],
}

impl Contended {
    fn new(row: &Row) -> Option<Self> {
        let (before, after) = (row.before.cost_ns?, row.after.cost_ns?);
        let Cost {
            page,
            space,
            bucket,
            other_lines,
            ..
        } = after;
        let lines = page + space + bucket + other_lines;
        let share = |part: f64| rounded(part / lines.max(f64::MIN_POSITIVE), 1e4);
        let times = |side: &Side| {
            let rate = side.rate_kops.mean.max(f64::MIN_POSITIVE);
            rounded(row.private.rate_kops.mean / rate, 1e2)
        };
        Some(Self {
            threads: row.setting.threads,
            lines_ns: rounded(lines, 1e1),
            page: share(page),
            space: share(space),
            bucket: share(bucket),
            sleep_ns: [before.sleep, after.sleep],
            private_times: [&row.before, &row.after, &row.later].map(times),
        })
    }

    fn sentences(&self) -> [String; 2] {
        let Self {
            threads,
            page,
            space,
            bucket,
            ..
        } = *self;
        let [before, after] = self.sleep_ns.map(|ns| format::time(ns.round() as u64));
        let rest = match (space > 0.5, page > 0.5) {
            (true, _) => {
                "What stays contended is the count of the address space: a key refers to it, with \
                 the page lock and without, so its line comes to the core twice for each operation."
            }
            (_, true) => {
                "What stays contended is the page itself: a look-up counts itself there, with the \
                 page lock and without, and all words share few pages."
            }
            _ => "No one line is waited for most of the time.",
        };
        let [of_before, of_after, of_later] = self.private_times.map(format::number);
        [
            format!(
                "After the change, with {threads} threads, an operation waits for cache lines for \
                 {} ns: {} of that for the address space's, {} for pages', {} for buckets'. Before \
                 it was asleep for {before}, after for {after}. {rest}",
                whole(self.lines_ns),
                percent(space),
                percent(page),
                percent(bucket),
            ),
            format!(
                "Private futexes make {of_before} times as many operations as shared ones before, \
                 {of_after} times as many as after, and {of_later} times as many as shared ones \
                 whose keys refer to nothing, as in later kernels."
            ),
        ]
    }
}

/// A layout, judged: all its settings have the runs of all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Where the words lie.
    pub layout: Words,
    /// The bands of the paper.
    pub bands: Vec<Judged>,
    /// What an operation waits for.
    pub contended: Option<Contended>,
}

impl Part {
    fn new(layout: Words, rows: &[&Row]) -> Self {
        let mut above = 0;
        let judged = BANDS.iter().filter_map(|band| {
            let of = |row: &&&Row| (above + 1..=band.most).contains(&row.setting.threads);
            let rows: Vec<_> = rows.iter().filter(of).copied().collect();
            above = band.most;
            Judged::new(band, &rows)
        });
        Self {
            layout,
            bands: judged.collect(),
            contended: rows.last().and_then(|row| Contended::new(row)),
        }
    }

    fn sentences(&self) -> Vec<String> {
        let layout = titled(self.layout);
        let mut said: Vec<_> = self.bands.iter().map(Judged::sentence).collect();
        said.extend(self.contended.iter().flat_map(Contended::sentences));
        vec![format!("{layout}. {}", said.join(" "))]
    }
}

/// A layout in words.
pub fn titled(layout: Words) -> &'static str {
    match layout {
        Words::Neighbours => {
            "As the benchmark calls calloc: a thread shares each of its two pages with another"
        }
        Words::Apart => "Each thread's words on a page of its own",
        Words::Huge => "As calloc has them, in one huge page or two",
    }
}

/// What the rows say together.
#[derive(Serialize)]
#[serde(tag = "type", rename = "verdict")]
pub struct Verdict {
    /// The experiment.
    pub experiment: &'static str,
    /// The simulated machine.
    pub machine: String,
    /// Seeds that were to be.
    pub seeds: u32,
    /// Rows that were to be.
    pub planned: usize,
    /// Those that all seeds ran with.
    pub complete: usize,
    /// Each layout, unless a row of it is missing.
    pub layouts: Vec<Part>,
}

impl Verdict {
    /// Draws it from the rows alone.
    pub fn new(bench: &Bench, rows: &[Row]) -> Self {
        let complete: Vec<_> = rows
            .iter()
            .filter(|row| row.seeds == bench.seeds as usize)
            .collect();
        let mut layouts: Vec<_> = bench
            .settings
            .iter()
            .map(|setting| setting.layout)
            .collect();
        layouts.dedup();
        let part = |layout: Words| {
            let rows = complete.iter().filter(|row| row.setting.layout == layout);
            let rows: Vec<_> = rows.copied().collect();
            let all = bench
                .settings
                .iter()
                .filter(|setting| setting.layout == layout);
            (rows.len() == all.count()).then(|| Part::new(layout, &rows))
        };
        Self {
            experiment: NAME,
            machine: bench.machine.name.clone(),
            seeds: bench.seeds,
            planned: bench.settings.len(),
            complete: complete.len(),
            layouts: layouts.into_iter().filter_map(part).collect(),
        }
    }

    /// The verdict in sentences. Every number in them stands in it.
    pub fn sentences(&self) -> Vec<String> {
        let mut said: Vec<_> = self.layouts.iter().flat_map(Part::sentences).collect();
        if self.complete < self.planned {
            said.push(format!(
                "No verdict on the rest: {} of {} rows were measured.",
                self.complete, self.planned
            ));
        }
        said
    }
}

#[cfg(test)]
pub mod tests {
    use super::{
        super::hash::{Run, Setting},
        *,
    };

    /// From 1,000 kop/s to these, and what an operation then waits for.
    pub fn row(threads: usize, after: [f64; 2], line: &'static str) -> Row {
        let run = |rate_kops: f64| Run {
            rate_kops,
            cost: Some([100.0, 1_000.0, 0.0, 0.0, 0.0]),
            lines: [(line, 900.0), ("bucket", 50.0)].into(),
            sleeps: 0.0,
        };
        let setting = Setting {
            layout: Words::Apart,
            threads,
            futexes: 1,
            seconds: 1.0,
        };
        let same = |rate| vec![run(rate); 2];
        let after = after.map(run).to_vec();
        let runs = [same(9_000.0), same(1_000.0), after, same(4_500.0)];
        Row::new(setting, &runs).expect("there are runs")
    }

    fn judged(rows: &[Row]) -> Vec<Agrees> {
        let part = Part::new(Words::Apart, &rows.iter().collect::<Vec<_>>());
        part.bands.iter().map(|band| band.agrees).collect()
    }

    #[test]
    fn a_band_is_judged_by_its_largest_effect() {
        let as_published = [
            row(1, [1_000.0, 1_010.0], "space"),
            row(16, [1_050.0, 1_060.0], "space"),
            row(64, [1_340.0, 1_350.0], "space"),
            row(128, [1_440.0, 1_450.0], "space"),
        ];
        assert_eq!(judged(&as_published), [Agrees::Yes; 3]);
        let another = [
            row(4, [1_200.0, 1_210.0], "space"),
            row(32, [1_100.0, 1_110.0], "space"),
            row(128, [990.0, 1_000.0], "space"),
            row(256, [970.0, 1_000.0], "space"),
        ];
        let expected = [Agrees::Larger, Agrees::Smaller, Agrees::None];
        assert_eq!(judged(&another), expected);
        let said = Part::new(Words::Apart, &another.iter().collect::<Vec<_>>()).sentences();
        let high = "With 128, 256 threads the rate changes by -1.5 % to -0.5 % (sd at most 2.1 %; \
                    paper: up to 45 %): no effect shows.";
        assert!(said[0].contains(high), "{}", said[0]);
    }

    #[test]
    fn what_stays_contended_is_named() {
        for (line, named) in [
            ("space", "is the count of the address space"),
            ("page", "is the page itself"),
        ] {
            let row = row(256, [2_000.0, 2_000.0], line);
            let contended = Contended::new(&row).expect("there are operations");
            assert_eq!((contended.lines_ns, contended.bucket), (1_000.0, 0.05));
            assert_eq!(contended.private_times, [9.0, 4.5, 2.0]);
            let said = contended.sentences();
            assert!(said[0].contains(named), "{}", said[0]);
        }
    }
}

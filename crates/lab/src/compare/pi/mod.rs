//! `lockyard compare --pi`: our lock that inherits priority beside the C library's.
//!
//! Three parts: what it costs ordinary threads, who share no priorities and pay
//! all the same; how fast groups of real-time threads resolve inversions, and how
//! long their high threads wait; and how soon an inherited priority arrives at the
//! end of a chain. The locks are interleaved in each, as in all comparisons.

pub mod bounds;
pub mod chains;
pub mod groups;
pub mod ordinary;
pub mod realtime;
pub mod standing;
pub mod tables;

use std::time::Duration;

use self::{
    bounds::{Bounds, Evidence},
    chains::ChainAt,
    groups::GroupsAt,
    ordinary::{PointAt, judge},
    realtime::RealTime,
};
use super::{Args, Judged, Measurement, Raw, ground::Ground, plan::Plan, sentences};
use crate::{
    failure::Failure,
    pi_stress::Scene,
    place::Place,
    registry,
    screen::{self, Screen},
};

/// Ours.
pub const OURS: &str = registry::DEFAULT_PI;
/// Ours, when it never spins.
pub const STRICT: &str = "pimutex:strict";
/// The one that does the same.
pub const RIVAL: &str = "pthread-pi";
/// Ours that inherits nothing.
pub const PLAIN: &str = registry::DEFAULT;

/// Compares them.
pub fn run(args: &Args) -> Result<(), Failure> {
    let place = args.place.place()?;
    if let Place::Simulated(_) = place {
        return Err(Failure::Usage(
            "--pi compares locks that inherit priority from this machine's kernel: use it \
             without --world sim"
                .into(),
        ));
    }
    let plan = ordinary::plan(args, place)?;
    let scene = Scene::new(Place::Here, args.seed).map_err(|why| {
        screen::log(&format!(
            "compare --pi goes on without real-time threads: {why}"
        ));
    });
    let real_time = scene
        .ok()
        .map(|scene| RealTime::new(args, scene, &plan.locks));
    let threads = real_time.as_ref().map_or(0, RealTime::most_threads);
    plan.place.can_start(plan.most_threads().max(threads))?;
    let (machine, mut out) = super::open(args, &plan.place)?;
    if !args.json {
        let real_time = real_time.as_ref().map(RealTime::text);
        screen::print(&(plan.text(&machine) + &real_time.unwrap_or_default()))?;
    }

    let mut raws: Vec<Raw> = Vec::new();
    let mut runs = realtime::Runs::default();
    let screen = screen(&plan, real_time.as_ref());
    let rounds = Measurement::new(&plan, out.as_mut(), &screen).rounds(&mut raws);
    let measured = rounds.and_then(|()| {
        let real_time = real_time.as_ref();
        real_time.map_or(Ok(()), |part| {
            part.measure(out.as_mut(), &screen, &mut runs)
        })
    });
    screen.close();

    // Whatever ended the measurement, what it measured is not lost.
    let found = Found::new(&plan, &raws, &runs, &machine);
    let shown = super::show(args, out, found.objects(), || found.text());
    measured?;
    shown?;
    found.bounds.check()
}

fn screen(plan: &Plan, real_time: Option<&RealTime>) -> Screen {
    let runs = plan.runs() + u64::from(real_time.map_or(0, RealTime::runs));
    let planned = plan.planned().unwrap_or_default();
    Screen::new(
        runs,
        planned + real_time.map_or(Duration::ZERO, RealTime::planned),
    )
}

/// What was found.
struct Found {
    points: Vec<PointAt>,
    judged: Vec<Judged>,
    groups: Vec<GroupsAt>,
    chains: Vec<ChainAt>,
    bounds: Bounds,
}

impl Found {
    fn new(plan: &Plan, raws: &[Raw], runs: &realtime::Runs, machine: &Ground) -> Self {
        let clock_ns = machine.clock_ns();
        let judged = judge(raws, plan.points.len(), plan.rounds, clock_ns);
        let groups = groups::summarise(&runs.groups, clock_ns);
        let chains = chains::summarise(&runs.chains, clock_ns);
        let bounds = Bounds::new(&Evidence {
            unit_ns: machine.work_unit_ns(),
            raws,
            judged: &judged,
            groups: &groups,
            chains: &chains,
        });
        Self {
            points: ordinary::points(raws, &plan.names(), clock_ns),
            judged,
            groups,
            chains,
            bounds,
        }
    }

    fn objects(&self) -> String {
        let verdicts: Vec<_> = self.judged.iter().map(|(_, verdict)| verdict).collect();
        screen::json_lines(&self.points)
            + &screen::json_lines(&verdicts)
            + &screen::json_lines(&self.groups)
            + &screen::json_lines(&self.chains)
            + &screen::json_lines(&[&self.bounds])
    }

    fn text(&self) -> String {
        let verdicts = self.judged.iter();
        let verdicts: String = verdicts.map(|(_, v)| sentences::text(v)).collect();
        tables::points(&self.points)
            + &verdicts
            + &tables::groups(&self.groups)
            + &tables::chains(&self.chains)
            + &self.bounds.text()
    }
}

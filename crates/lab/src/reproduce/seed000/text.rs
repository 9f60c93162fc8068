//! The results for people: tables beside the paper's, and sentences.

use lockyard_sim::Machine;

use super::{
    super::text::{effect, percent, right, signed, tenths, whole, wrapped},
    LOCKS,
    stress::{Bench, Row},
    verdict::{PAPER_SECONDS, Verdict, shares},
};
use crate::{
    format,
    place::{self, nanos},
    screen,
};

/// What is run.
pub fn header(bench: &Bench) -> String {
    let machine = &bench.machine;
    let [before, after] = LOCKS;
    let (first, _) = bench.settings[0];
    format!(
        "Seed 000, \"locking/rtmutex: Reduce top-waiter blocking on a lock\" (September 2016)\n\
         Simulated machine = {}\n{}\n\
         Before = {before}: the top waiter sleeps\n\
         After = {after}: it spins while the owner runs\n\
         Published setting: pi_stress on 32 cores for {PAPER_SECONDS} s; how it was called is not \
         given\n\
         Groups of three threads, low, medium and high, in rounds as rt-tests has them: medium \
         does not compute\n\
         {} runs: seeds 1 to {}; {} s each\n",
        place::titled(machine),
        machine.about,
        bench.runs(),
        bench.seeds,
        first.seconds,
    )
}

/// All tables.
pub fn results(rows: &[Row]) -> String {
    let mut text = String::new();
    for (pinned, title) in [
        (
            true,
            "Pinned, as rt-tests does: a CPU for each group, the first on the second",
        ),
        (false, "Unpinned: all threads may run on all CPUs"),
    ] {
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| row.setting.pinned == pinned)
            .collect();
        if !rows.is_empty() {
            text += &format!("\n{title}\n{}", table(&rows));
        }
    }
    if !rows.is_empty() {
        text += "\n";
        text += &wrapped(
            "Thousands of inversions in a second, of all groups together: the harmonic mean over \
             the runs. Effects are those of the two runs of a seed, then their mean (± standard \
             deviation). Waits: inversions in which the lock was not free at once, after the \
             change; spun: those in which the top waiter had it without sleeping.",
        );
        text += "\nStandard deviation over the runs, in inversions in a second\n";
        text += &deviations(rows);
        text += "\n";
        text += &wrapped(&format!(
            "The paper's are those of runs of {PAPER_SECONDS} s, divided by that; how many there \
             were it does not say. The longer a run, the less runs differ, and a simulated \
             machine has no other load: what can be compared is the change.",
        ));
    }
    text
}

/// A row for each number of groups.
fn table(rows: &[&Row]) -> String {
    let mut table = screen::table();
    let heads = [
        "groups",
        "before",
        "after",
        "effect",
        "waits",
        "spun",
        "paper before",
        "after",
        "effect",
    ];
    table.set_header(heads.map(right));
    for row in rows {
        let paper = &row.paper;
        let shares = shares(&row.after).map(|shares| shares.map(percent));
        let [waits, spun] = shares.unwrap_or_else(|| ["-", "-"].map(String::from));
        let [before, after] = paper.hmean.map(|all| thousands(all / PAPER_SECONDS));
        let cells = [
            row.setting.groups.to_string(),
            thousands(row.before.hmean),
            thousands(row.after.hmean),
            effect(row.effect),
            waits,
            spun,
            before,
            after,
            signed(paper.effect()),
        ];
        table.add_row(cells.map(right));
    }
    screen::rendered(table)
}

/// A row for each number of groups, pinned and not, beside the paper's.
fn deviations(rows: &[Row]) -> String {
    let mut table = screen::table();
    let heads = [
        "groups",
        "",
        "before",
        "after",
        "change",
        "paper before",
        "after",
        "change",
    ];
    table.set_header(heads.map(right));
    for row in rows {
        let paper = &row.paper;
        let [before, after] = [row.before.sd, row.after.sd].map(|sd| sd.map_or("-".into(), whole));
        let [paper_before, paper_after] = paper.sd.map(|sd| whole(sd / PAPER_SECONDS));
        let cells = [
            row.setting.groups.to_string(),
            if row.setting.pinned {
                "pinned"
            } else {
                "unpinned"
            }
            .into(),
            before,
            after,
            row.sd_change.map_or("-".into(), signed),
            paper_before,
            paper_after,
            signed(paper.sd_change()),
        ];
        table.add_row(cells.map(right));
    }
    screen::rendered(table)
}

fn thousands(rate: f64) -> String {
    tenths(rate / 1e3)
}

/// The verdict in sentences, and what the machine has to do with it.
pub fn verdict(machine: &Machine, verdict: &Verdict) -> String {
    let costs = &machine.costs;
    let [wake, unpark] = [costs.wake, costs.unpark].map(|ps| format::time(nanos(ps) as u64));
    let mut said = verdict.sentences();
    said.push(format!(
        "A spin saves low a wake-up, which takes {unpark} here, and high the way back to a CPU, \
         {wake} from light idle."
    ));
    let lines: String = said.iter().map(|said| wrapped(said)).collect();
    format!("\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::{super::stress::tests::row, *};

    #[test]
    fn a_row_stands_beside_the_paper() {
        let text = results(&[
            row(true, 1, [1_000.0; 2], 0),
            row(false, 1, [1_250.0; 2], 900),
        ]);
        let [pinned, unpinned] = [
            "1     1.0    1.0  +0.0 ± 0.0 %  100.0 %  0.0 %          77.4   78.0  +0.8 %\n",
            "1     1.0    1.2  +25.0 ± 0.0 %  100.0 %  90.0 %          77.4   78.0  +0.8 %\n",
        ];
        assert!(text.contains(pinned) && text.contains(unpinned), "{text}");
        let deviation = "1  unpinned       0      0       -        21,782  17,569  -19.3 %\n";
        assert!(text.contains(deviation), "{text}");
        let wide = text.lines().find(|line| line.chars().count() > 110);
        assert_eq!(wide, None, "{text}");
    }
}

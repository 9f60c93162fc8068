//! Folded stacks, as flame graphs are made from: a line for each, outermost frame first,
//! and a number.

use super::{LockReport, Report, Site};

impl Report {
    /// The waits: at the end of each stack is the lock, and its number are nanoseconds.
    pub fn folded(&self) -> String {
        let lines = self.locks.iter().flat_map(|lock| {
            let waited = lock.sites.iter().filter(|site| site.wait_ns > 0);
            waited.map(|site| line(lock, site))
        });
        lines.collect()
    }
}

fn line(lock: &LockReport, site: &Site) -> String {
    let frames = site.stack.iter().rev().map(|frame| frame.text());
    let lock = format!("[{} {}]", lock.mode, lock.name);
    // A semicolon parts the frames.
    let all: Vec<_> = frames
        .chain([lock])
        .map(|frame| frame.replace(';', ":"))
        .collect();
    format!("{} {}\n", all.join(";"), site.wait_ns)
}

#[cfg(test)]
mod tests {
    use super::super::Times;
    use super::*;
    use crate::{Frame, Mode};

    #[test]
    fn a_line_is_a_stack_and_a_number() {
        let frame = |function: &str| Frame {
            function: function.into(),
            file: None,
            line: None,
        };
        let site = |wait_ns| Site {
            acquisitions: 2,
            contended: 1,
            wait_ns,
            stack: vec![frame("take<[u8; 2]>"), frame("main")],
        };
        let wait = Times {
            sum_ns: 5,
            p50_ns: 5,
            p99_ns: 5,
            max_ns: 5,
        };
        let lock = LockReport {
            name: "hot".into(),
            mode: Mode::Read,
            address: 64,
            created: Vec::new(),
            acquisitions: 2,
            contended: 1,
            spun: 1,
            slept: 0,
            owner_off: 0,
            wait: Some(wait),
            hold: None,
            sites: vec![site(5), site(0)],
        };
        let report = Report {
            program: "p".into(),
            pid: 1,
            seconds: 1.0,
            dropped_acquisitions: 0,
            dropped_samples: 0,
            locks: vec![lock],
        };
        assert_eq!(report.folded(), "main;take<[u8: 2]>;[read hot] 5\n");
    }
}

//! The results for people: tables, and sentences.
use super::hash::{Bench, Row};
use super::verdict::Verdict;
use super::super::text::{count, effect, right, tenths};
use crate::screen;
pub fn header(_bench: &Bench) -> String { String::new() }
pub fn results(rows: &[Row]) -> String {
    let mut table = screen::table();
    let heads = ["layout","threads","private","before","after","later","effect","later effect","k","compute","page","space","bucket","other","spin","sleep","ready","sleeps"];
    table.set_header(heads.map(right));
    for row in rows {
        for (k, side) in [("p",&row.private),("b",&row.before), ("a",&row.after),("l",&row.later)] {
            let c = side.cost_ns.unwrap();
            table.add_row([format!("{:?}", row.setting.layout), row.setting.threads.to_string(), count(row.private.rate_kops), count(row.before.rate_kops), count(row.after.rate_kops), count(row.later.rate_kops), effect(row.effect), effect(row.later_effect), k.into(),
             tenths(c.compute), tenths(c.page), tenths(c.space), tenths(c.bucket), tenths(c.other_lines), tenths(c.spin), tenths(c.sleep), tenths(c.ready), side.sleeps.to_string()].map(right));
        }
    }
    screen::rendered(table)
}
pub fn verdict(_v: &Verdict) -> String { String::new() }

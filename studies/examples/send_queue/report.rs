//! Prints the results as a table for people and as JSON for programs.

use std::fmt::{self, Display, Formatter};

use crate::measure::Form;
use crate::sites::Counts;

/// The results as a table.
#[derive(Debug)]
pub(crate) struct Table<'a>(pub(crate) &'a [Form; 2]);

impl Display for Table<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for form in self.0 {
            table_of(form, out)?;
        }
        let [before, after] = self.0;
        let is_same = before.arrived == after.arrived;
        let same = if is_same { "the same" } else { "NOT the same" };
        writeln!(out, "before and after: {same} messages arrived")?;
        let (old, new) = (before.lock_requests(), after.lock_requests());
        writeln!(out, "  {:<28} {old:>9} {new:>9}", "lock requests")?;
        let (old, new) = (share(before), share(after));
        writeln!(out, "  {:<28} {old:>9.2} {new:>9.2}", "% of holds wanted by other")?;
        let (old, new) = (before.median_rate(), after.median_rate());
        let ratio = new / old;
        let (old, new) = (old / 1e6, new / 1e6);
        writeln!(out, "  {:<28} {old:>9.0} {new:>9.0}  {ratio:.2} times", "MB/s, median")
    }
}

fn table_of(form: &Form, out: &mut Formatter<'_>) -> fmt::Result {
    writeln!(out, "{}", form.name)?;
    table_of_sites(&form.sites, out)?;
    let (requests, wanted) = (form.lock_requests(), form.wanted_holds());
    writeln!(out, "  {requests} holds; during {wanted} of them the other side wanted the lock")?;
    let (arrived, sent) = (form.arrived, form.sent.checksum);
    let (messages, bytes, packets) = (arrived.messages, arrived.bytes, form.packets);
    writeln!(out, "  {messages} messages, {bytes} bytes, {packets} packets")?;
    writeln!(out, "  checksum {:016x}, sent {sent:016x}", arrived.checksum)?;
    let [slowest, fastest] = spread(form).map(|rate| rate / 1e6);
    let (median, rounds) = (form.median_rate() / 1e6, form.rates.len());
    writeln!(out, "  {median:.0} MB/s, {slowest:.0} to {fastest:.0} in {rounds} rounds\n")
}

fn table_of_sites(sites: &[Counts], out: &mut Formatter<'_>) -> fmt::Result {
    if sites.is_empty() {
        return Ok(());
    }
    let [count, hold, lock] = ["count", "cnt_hold", "cnt_lock"];
    writeln!(out, "  {count:>9} {hold:>9} {:>6} {lock:>9} {:>6}  where", "%", "%")?;
    for counts in sites {
        let Counts { count, hold_count, lock_count, .. } = *counts;
        let (hold, lock) = (percent(hold_count, count), percent(lock_count, count));
        write!(out, "  {count:>9} {hold_count:>9} {hold:>6.2} {lock_count:>9} {lock:>6.2}")?;
        writeln!(out, "  {}", place_of(counts))?;
    }
    Ok(())
}

/// Returns the results as one JSON object.
pub(crate) fn json(forms: &[Form; 2]) -> String {
    let [before, after] = forms;
    let rate_ratio = after.median_rate() / before.median_rate();
    let is_same = before.arrived == after.arrived;
    let members = [
        format!(r#""before":{}"#, json_of_form(before)),
        format!(r#""after":{}"#, json_of_form(after)),
        format!(r#""same_delivery":{is_same}"#),
        format!(r#""rate_ratio":{rate_ratio:.3}"#),
    ];
    format!("{{{}}}", members.join(","))
}

fn json_of_form(form: &Form) -> String {
    let [slowest, fastest] = spread(form);
    let median = form.median_rate();
    let sites: Vec<String> = form.sites.iter().map(json_of).collect();
    let members = [
        format!(r#""lock_requests":{}"#, form.lock_requests()),
        format!(r#""wanted_holds":{}"#, form.wanted_holds()),
        format!(r#""messages":{}"#, form.arrived.messages),
        format!(r#""bytes":{}"#, form.arrived.bytes),
        format!(r#""packets":{}"#, form.packets),
        format!(r#""checksum":"{:016x}""#, form.arrived.checksum),
        format!(r#""sent_checksum":"{:016x}""#, form.sent.checksum),
        format!(r#""bytes_per_second":[{slowest:.0},{median:.0},{fastest:.0}]"#),
        format!(r#""sites":[{}]"#, sites.join(",")),
    ];
    format!("{{{}}}", members.join(","))
}

fn json_of(counts: &Counts) -> String {
    let Counts { count, hold_count, lock_count, .. } = counts;
    let place = place_of(counts);
    format!(
        r#"{{"place":"{place}","count":{count},"cnt_hold":{hold_count},"cnt_lock":{lock_count}}}"#
    )
}

/// The file name and line of a call site, as in a kernel's lock profile.
fn place_of(counts: &Counts) -> String {
    let file = counts.place.file();
    let name = file.rsplit_once('/').map_or(file, |(_, name)| name);
    format!("{name}:{}", counts.place.line())
}

fn share(form: &Form) -> f64 {
    percent(form.wanted_holds(), form.lock_requests())
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn spread(form: &Form) -> [f64; 2] {
    let ends = [form.rates.first(), form.rates.last()];
    ends.map(|rate| rate.copied().unwrap_or_default())
}

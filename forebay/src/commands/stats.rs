//! `forebay stats`: the counters of a running server.

use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::{Map, Value};

use super::{breakdown, is_set};
use crate::admin_client::{ask, find};
use crate::stdout::outln;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    if let Some(site) = args.get_one::<String>("site") {
        return of_site(args, site);
    }
    let values = from_server(args)?;
    if is_set(args, "json") {
        outln!("{}", Value::Object(values));
    } else {
        print_table(&values);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the counts of one site.
fn of_site(args: &ArgMatches, name: &str) -> Result<ExitCode, String> {
    let address = find(args.get_one("admin"))?;
    let answer = ask(&address, "GET", "/sites", "")?;
    let report: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let Some(sites) = report["sites"].as_array().filter(|_| answer.is_success) else {
        let text = answer.body.trim();
        return Err(format!("the server at {address} sent no counts of sites: {text}"));
    };
    if report["stuck_workers"].as_array().is_some_and(|stuck| !stuck.is_empty()) {
        return Err(format!(
            "a worker is stuck, so its counts are missing: {}",
            report["stuck_workers"]
        ));
    }
    let Some(site) = sites.iter().find(|site| site["site"] == name) else {
        let known: Vec<_> = sites.iter().filter_map(|site| site["site"].as_str()).collect();
        return Err(format!("no site has the name {name:?}; there are: {}", known.join(", ")));
    };
    if is_set(args, "json") {
        outln!("{site}");
        return Ok(ExitCode::SUCCESS);
    }
    let values = site.as_object().into_iter().flatten();
    let values: Vec<_> = values.filter(|(_, value)| value.is_number()).collect();
    let width = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &values {
        outln!("{name:width$}  {value:>14}");
    }
    let number = |name: &str| site[name].as_f64().unwrap_or(0.0);
    let (hits, requests) = (number("site_hits_total"), number("site_requests_total"));
    if requests > 0.0 {
        outln!("{:width$}  {:>13.1}%", "hit ratio", 100.0 * hits / requests);
    }
    Ok(ExitCode::SUCCESS)
}

fn from_server(args: &ArgMatches) -> Result<Map<String, Value>, String> {
    let address = find(args.get_one("admin"))?;
    let answer = ask(&address, "GET", "/stats", "")?;
    match serde_json::from_str(&answer.body) {
        Ok(Value::Object(values)) if answer.is_success => Ok(values),
        _ => Err(format!("the server at {address} sent no statistics: {}", answer.body.trim())),
    }
}

fn print_table(values: &Map<String, Value>) {
    let width = values.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in values {
        outln!("{name:width$}  {value:>14}");
    }
    let number = |name: &str| values.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let (hits, requests) = (number("hits_total"), number("requests_total"));
    if requests > 0.0 {
        outln!("{:width$}  {:>13.1}%", "hit ratio", 100.0 * hits / requests);
    }
    for name in values.keys().filter_map(|name| name.strip_suffix("_sum")) {
        let (sum, count) = (number(&format!("{name}_sum")), number(&format!("{name}_count")));
        if count > 0.0 {
            let name = format!("mean of {name}");
            outln!("{name:width$}  {:>14.1}", sum / count);
        }
    }
    print_shares(values);
}

/// Prints the seven parts of the cache's budget, and whether they add up to the budget.
fn print_shares(values: &Map<String, Value>) {
    let number = |name: &str| values.get(&format!("cache_{name}_bytes")).and_then(Value::as_u64);
    let Some(budget) = number("budget") else {
        return;
    };
    let names = ["live", "dead", "pinned", "growing", "copied", "metadata", "free"];
    let shares = names.map(|name| (name, number(name).unwrap_or(0)));
    outln!("");
    breakdown::print("budget", budget, &shares);
}

//! Measures the store and well-known caches, and the steps of a hit one by one.

mod caches;
mod churn;
mod draw;
mod ladder;
mod lookup;
mod order;
mod space;
mod time;

use clap::{Parser, Subcommand};

use draw::Spread;
use time::spread_percent;

const EXAMPLES: &str = "\
Examples:
  store lookup                     1,000,000 keys, 9 rounds
  store lookup --keys 10000        fits into the processor's caches
  store space                      memory of a record, cost of storing one
  store churn                      storing into a cache that is full
  store order                      keys and tags in order; purging by prefix and tag
  store ladder                     what each step of a hit is worth";

/// Measures the cost of a lookup, an insert and a record
#[derive(Parser)]
#[command(name = "store", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lookups that hit, beside other caches
    Lookup {
        /// Records in each cache
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
        /// Times that each is measured
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Memory of a record, and the cost of storing one
    Space {
        /// Records in each cache
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
    },
    /// Storing into a full cache, with few workers and with many
    Churn {
        /// The cache's budget
        #[arg(long, default_value_t = 256)]
        mib: u64,
        /// How many workers the store is made for; one stores
        #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
        workers: Vec<u32>,
    },
    /// Keeping keys and tags in order; purging and listing by them
    Order {
        /// Records in the store
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
        /// Times that each is measured: groups of 10,000 records
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// The steps of a hit
    Ladder {
        /// Times that each is measured
        #[arg(long, default_value_t = 21)]
        rounds: usize,
    },
}

fn main() {
    match Cli::parse().what {
        What::Lookup { keys, rounds } => lookups(keys, rounds),
        What::Space { keys } => space::print(keys),
        What::Churn { mib, workers } => churn::print(mib, &workers),
        What::Order { keys, rounds } => order::print(keys, rounds),
        What::Ladder { rounds } => ladder::print(rounds),
    }
}

fn lookups(keys: usize, rounds: usize) {
    let rows = lookup::measure(keys, rounds, &Spread::ALL);
    println!(
        "| {keys} keys | spread | ns a lookup, one thread | ± | two threads ÷ one thread | ± |"
    );
    println!("|---|---|--:|--:|--:|--:|");
    for row in rows {
        println!(
            "| {} | {} | {:.0} | {:.0} % | {:.2} | {:.0} % |",
            row.cache,
            row.spread.name(),
            row.one(),
            spread_percent(&row.one_ns),
            row.two(),
            spread_percent(&row.two_times)
        );
    }
}

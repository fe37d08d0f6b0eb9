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
  store lookup --keys 10000        caches that fit into the processor's caches
  store space                      memory of a record, cost of storing one
  store churn                      storing into a cache that is full
  store order                      keys and tags in order; purging by prefix and tag
  store ladder                     the gain of each step of a hit";

/// Measures the cost of a lookup, an insert and a record
#[derive(Parser)]
#[command(name = "store", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measures lookups that hit, beside other caches
    Lookup {
        /// Records in each cache
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
        /// Samples of each figure
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Measures the memory of a record, and the cost of storing a record
    Space {
        /// Records in each cache
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
    },
    /// Measures storing into a full cache, with few workers and with many
    Churn {
        /// The cache's budget in MiB
        #[arg(long, default_value_t = 256)]
        mib: u64,
        /// Numbers of workers for which the store is made; only one of them stores
        #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
        workers: Vec<u32>,
    },
    /// Measures keeping keys and tags in order, and purging and listing by prefix and tag
    Order {
        /// Records in the store
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
        /// Samples of each figure; each purges or lists another group of 10,000 records
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Measures the gain of each step of a hit
    Ladder {
        /// Samples of each figure
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

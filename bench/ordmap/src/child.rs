//! The other process of a measurement with two processes: this program in another role.
//!
//! It prints "ready", works from the first line of its input until the input ends, and then prints
//! the number of operations and their processor time.

use std::io::{BufRead, Read, stdin};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::{Args, ValueEnum};

use crate::data::Data;
use crate::engines::{Engine, Form, Lmdb, Ours, Shared, Work};
use crate::time::cpu_ns;

/// The role of a child.
#[derive(Args)]
pub(crate) struct Role {
    #[arg(long)]
    pub(crate) what: What,
    #[arg(long)]
    pub(crate) engine: Shared,
    /// The folder with the maps
    #[arg(long)]
    pub(crate) folder: PathBuf,
    #[arg(long)]
    pub(crate) key_count: usize,
    #[arg(long)]
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Looks up one key after another.
    Read,
    /// Overwrites one key after another.
    Write,
    /// Opens a reader, and then reads no more.
    Hold,
}

/// The number of operations between two checks for the end.
const STEP: usize = 200;

pub(crate) fn run(role: &Role) -> Result<(), String> {
    let data = Data::new(role.key_count, role.bytes, 7);
    match role.engine {
        Shared::Ours | Shared::OursByHash => {
            let form = if role.engine == Shared::Ours { Form::Tree } else { Form::Hash };
            let ours = Ours::attach(form, &role.folder);
            let _held = (role.what == What::Hold).then(|| ours.cursor_at(&middle(&data)));
            work(ours, role.what, &data)
        }
        Shared::Lmdb if role.what == What::Hold => {
            let lmdb = Lmdb::open(&role.folder);
            let _held = lmdb.read_txn();
            println!("ready");
            wait_for_end().map_err(|error| error.to_string())?;
            println!("0 0");
            Ok(())
        }
        Shared::Lmdb => work(Lmdb::open(&role.folder), role.what, &data),
    }
}

fn middle(data: &Data) -> Vec<u8> {
    data.keys[data.keys.len() / 2].to_vec()
}

fn work(mut engine: impl Engine, what: What, data: &Data) -> Result<(), String> {
    println!("ready");
    if what == What::Hold {
        wait_for_end().map_err(|error| error.to_string())?;
        println!("0 0");
        return Ok(());
    }
    let draws = data.draw(1 << 16, 99);
    let work = if what == What::Read { Work::Get } else { Work::Insert };
    stdin().lock().read_line(&mut String::new()).map_err(|error| error.to_string())?;
    let is_over = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&is_over);
    thread::spawn(move || {
        let _ = wait_for_end();
        tells.store(true, Ordering::Relaxed);
    });
    let (mut count, mut ns) = (0, 0.0);
    for asked in draws.chunks(STEP).cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        ns += cpu_ns(|| engine.run(work, data, asked)).0;
        count += asked.len();
    }
    println!("{count} {ns}");
    Ok(())
}

fn wait_for_end() -> std::io::Result<()> {
    stdin().lock().read_to_end(&mut Vec::new()).map(|_| ())
}

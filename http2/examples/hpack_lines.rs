//! Decodes one header block on each line of the input, given as hexadecimal digits. All blocks
//! share one dynamic table. Prints the field lines of each block, encoded again.
//! `scripts/hpack-oracle` compares the output with another implementation.

use std::io::{BufRead, Write};

use forebay_http2::hpack::{Decoder, encode_field};
use forebay_http2::{FieldList, ListLimits};

fn main() -> std::io::Result<()> {
    let limits = ListLimits { list_bytes_max: 1 << 20, line_count_max: 1 << 14 };
    let (mut decoder, mut list) = (Decoder::new(), FieldList::new(limits));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let digits = line?;
        let pairs = digits.as_bytes().chunks(2);
        let parse = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let block: Option<Vec<u8>> = pairs.map(parse).collect();
        list.clear();
        match decoder.decode(&block.unwrap_or_default(), &mut list) {
            Err(error) => writeln!(out, "{error:?}")?,
            Ok(()) => {
                let mut block = Vec::new();
                for (name, value) in list.iter() {
                    encode_field(&mut block, name, value);
                }
                let text: Vec<String> = block.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(out, "{}", text.concat())?;
            }
        }
    }
    Ok(())
}

//! The examples of RFC 7541 appendix C, and the limits of the decoder.

use super::integer::{put, take};
use super::static_table::STATIC_COUNT;
use super::*;
use crate::field_list::{FieldList, ListLimits};
use crate::line::DecodedLine;

const LIMITS: ListLimits = ListLimits { list_bytes_max: 4096, line_count_max: 64 };

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(str::from_utf8(pair).expect("digits"), 16).expect("digits")
    };
    digits.chunks(2).map(byte).collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<String, HpackError> {
    let mut list = FieldList::new(LIMITS);
    decoder.decode(block, &mut list)?;
    let line = |(name, value): (&[u8], &[u8])| {
        format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    Ok(list.iter().map(line).collect::<Vec<_>>().join("|"))
}

/// Blocks of one connection, and the lines of each.
type Sequence = &'static [(&'static str, &'static str)];

const GET: &str = ":method=GET|:scheme=http|:path=/|:authority=www.example.com";
const GET_NO_CACHE: &str =
    ":method=GET|:scheme=http|:path=/|:authority=www.example.com|cache-control=no-cache";
const GET_CUSTOM: &str = ":method=GET|:scheme=https|:path=/index.html|\
                          :authority=www.example.com|custom-key=custom-value";
const FOUND: &str = ":status=302|cache-control=private|date=Mon, 21 Oct 2013 20:13:21 GMT|\
                     location=https://www.example.com";
const TEMPORARY: &str = ":status=307|cache-control=private|date=Mon, 21 Oct 2013 20:13:21 GMT|\
                         location=https://www.example.com";
const OK: &str = ":status=200|cache-control=private|date=Mon, 21 Oct 2013 20:13:22 GMT|\
                  location=https://www.example.com|content-encoding=gzip|\
                  set-cookie=foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

/// The table of the examples in C.5 and C.6 has 256 bytes, which is set here by an update in the
/// first block.
const EXAMPLES: &[Sequence] = &[
    // C.2.1 to C.2.4.
    &[("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key=custom-header")],
    &[("040c2f73616d706c652f70617468", ":path=/sample/path")],
    &[("100870617373776f726406736563726574", "password=secret")],
    &[("82", ":method=GET")],
    // C.3: requests without Huffman codes.
    &[
        ("828684410f7777772e6578616d706c652e636f6d", GET),
        ("828684be58086e6f2d6361636865", GET_NO_CACHE),
        ("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", GET_CUSTOM),
    ],
    // C.4: requests with Huffman codes.
    &[
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", GET),
        ("828684be5886a8eb10649cbf", GET_NO_CACHE),
        ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", GET_CUSTOM),
    ],
    // C.5: responses without Huffman codes, with evictions.
    &[
        (
            "3fe101 4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a\
             323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            FOUND,
        ),
        ("4803333037c1c0bf", TEMPORARY),
        (
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a697077\
             38666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d616765\
             3d333630303b2076657273696f6e3d31",
            OK,
        ),
    ],
    // C.6: responses with Huffman codes, with evictions.
    &[
        (
            "3fe101 488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d\
             29ad171863c78f0b97c8e9ae82ae43d3",
            FOUND,
        ),
        ("4883640effc1c0bf", TEMPORARY),
        (
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6\
             c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
            OK,
        ),
    ],
];

#[test]
fn the_examples_of_the_rfc_decode() {
    for sequence in EXAMPLES {
        let mut decoder = Decoder::new();
        for (block, expected) in *sequence {
            assert_eq!(decoded(&mut decoder, &bytes(block)).as_deref(), Ok(*expected), "{block}");
        }
    }
}

#[test]
fn integers_are_those_of_the_rfc() {
    for (value, prefix_bits, hex) in
        [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a"), (31, 5, "1f00"), (254, 7, "7f7f")]
    {
        let mut out = Vec::new();
        put(&mut out, 0, prefix_bits, value);
        assert_eq!(out, bytes(hex), "{value}");
        assert_eq!(take(&mut &out[..], prefix_bits), Ok(value), "{value}");
    }
}

#[test]
fn a_bad_block_is_an_error() {
    for (block, expected) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("ff808000", HpackError::Index),
        ("7f00 0161", HpackError::Index),
        ("ff", HpackError::Truncated),
        ("ffffffffff0f", HpackError::Integer),
        ("ff8080808000", HpackError::Integer),
        ("ff8080808080", HpackError::Integer),
        ("00", HpackError::Truncated),
        ("0001", HpackError::Truncated),
        ("000161", HpackError::Truncated),
        ("00016105", HpackError::Truncated),
        // Padding of 8 bits, padding of zeros, and the code of the end of a string.
        ("0082 1fff 00", HpackError::Huffman),
        ("0081 18 00", HpackError::Huffman),
        ("0084 ffffffff 00", HpackError::Huffman),
        ("0085 1fffffffff 00", HpackError::Huffman),
        // Updates: too large, after a line, one too many.
        ("3fe21f", HpackError::SizeUpdate),
        ("8220", HpackError::SizeUpdate),
        ("202020", HpackError::SizeUpdate),
    ] {
        assert_eq!(decoded(&mut Decoder::new(), &bytes(block)), Err(expected), "{block}");
    }
}

#[test]
fn a_name_outlives_its_own_eviction() {
    let mut decoder = Decoder::new();
    // The table has room for one line, whose name the next line uses.
    assert_eq!(decoded(&mut decoder, &bytes("3f03 400161 0162")).as_deref(), Ok("a=b"));
    assert_eq!(decoded(&mut decoder, &bytes("7e 0163")).as_deref(), Ok("a=c"));
    assert_eq!(decoded(&mut decoder, &bytes("be")).as_deref(), Ok("a=c"));
    // A line that is larger than the table empties it.
    assert_eq!(decoded(&mut decoder, &bytes("400361626303616263")).as_deref(), Ok("abc=abc"));
    assert_eq!(decoded(&mut decoder, &bytes("be")), Err(HpackError::Index));
}

#[test]
fn small_blocks_do_not_become_large_lists() {
    let mut decoder = Decoder::new();
    let value = [b'v'; 2000];
    let mut block = vec![0x40, 1, b'n', 0x7f];
    put(&mut block, 0, 7, value.len());
    block.remove(3);
    block.extend_from_slice(&value);
    // Each byte names a line of 2,000 bytes.
    for (references, expected) in [(1, Ok(false)), (3, Ok(true)), (7, Ok(true))] {
        let mut list = FieldList::new(LIMITS);
        let mut bomb = block.clone();
        bomb.extend(vec![0xbe; references - 1]);
        let result = decoder.decode(&bomb, &mut list).map(|()| list.is_too_large());
        assert_eq!(result, expected, "{references} references");
        assert!(list.iter().map(|(_, value)| value.len()).sum::<usize>() <= 4096);
    }
    let mut list = FieldList::new(LIMITS);
    block.extend(vec![0xbe; 20]);
    assert_eq!(decoder.decode(&block, &mut list), Err(HpackError::ListTooLarge));
    // Empty crumbs of a cookie count as lines.
    let mut list = FieldList::new(LIMITS);
    let mut crumbs = vec![0x60, 0];
    crumbs.extend(vec![0xbe; 64]);
    assert_eq!(decoder.decode(&crumbs, &mut list), Ok(()));
    assert!(list.is_too_large() && list.count() == 64);
}

#[test]
fn encoded_lines_decode_to_themselves() {
    let long = "/path/with?query=".repeat(40);
    let binary: String = (0..=255u8).map(char::from).collect();
    for (name, value, hex) in [
        ("cache-control", "private", "0f090770726976617465"),
        ("set-cookie", "a", "1f280161"),
        ("x", "", "00017800"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT", ""),
        ("custom-key", "custom-value", ""),
        ("location", &long, ""),
        ("etag", &binary, ""),
    ] {
        let mut block = Vec::new();
        encode_field(&mut block, name.as_bytes(), value.as_bytes());
        if !hex.is_empty() {
            assert_eq!(block, bytes(hex), "{name}");
        }
        let mut list = FieldList::new(LIMITS);
        Decoder::new().decode(&block, &mut list).expect(name);
        let lines: Vec<_> = list.iter().collect();
        assert_eq!(lines, [(name.as_bytes(), value.as_bytes())], "{name}");
    }
    let mut block = Vec::new();
    encode_field(&mut block, b"X-Mixed", b"Y");
    assert_eq!(decoded(&mut Decoder::new(), &block), Ok("x-mixed=Y".into()));
    for status in [100, 200, 204, 206, 302, 304, 400, 404, 431, 500, 599] {
        let mut block = Vec::new();
        encode_status(&mut block, status);
        assert_eq!(block.len() == 1, matches!(status, 200 | 204 | 206 | 304 | 400 | 404 | 500));
        let line = decoded(&mut Decoder::new(), &block);
        assert_eq!(line, Ok(format!(":status={status}")));
    }
}

#[test]
fn every_byte_survives_the_huffman_code() {
    for first in 0..=255u8 {
        for second in [b'a', b'0', 0, 255, first] {
            for text in [&[first][..], &[first, second], &[second, first, first, second, first]] {
                let (mut coded, mut plain) = (Vec::new(), Vec::new());
                huffman::encode(text, &mut coded);
                assert_eq!(huffman::decode(&coded, &mut plain), Ok(()), "{text:?}");
                assert_eq!(plain, text);
                let cut = huffman::decode(&coded[..coded.len() - 1], &mut Vec::new());
                assert!(coded.len() == 1 || cut.is_err() || text.len() > 1, "{text:?}");
            }
        }
    }
}

#[test]
fn each_line_of_the_static_table_has_the_facts_of_its_text() {
    for index in 1..=STATIC_COUNT {
        // The line, a literal with its name, and the line that this literal inserts.
        let (mut indexed, mut literal) = (Vec::new(), Vec::new());
        integer::put(&mut indexed, 0x80, 7, index);
        integer::put(&mut literal, 0x40, 6, index);
        literal.extend_from_slice(b"\x01\x07");
        let block = [&indexed[..], &literal, &[0x80 | 62]].concat();
        let mut list = FieldList::new(LIMITS);
        assert_eq!(Decoder::new().decode(&block, &mut list), Ok(()), "{index}");
        let lines: Vec<_> = list.lines(0..3).collect();
        assert_eq!(lines.len(), 3, "{index}");
        for line in &lines {
            assert_eq!(*line, DecodedLine::of(line.name, line.value), "{index}");
        }
        assert_eq!((lines[1].name, lines[1].value), (lines[0].name, &[7][..]), "{index}");
        assert!(!lines[2].facts.is_value_valid, "{index}");
    }
}

#[test]
fn the_table_agrees_with_a_list() {
    use super::dynamic_table::DynamicTable;
    let seed = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut state: u64 = seed.unwrap_or(0x2545_f491_4f6c_dd1d);
    println!("FOREBAY_SEED={state}");
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % bound
    };
    let mut table = DynamicTable::default();
    let (mut list, mut bytes_max) = (Vec::<(Vec<u8>, Vec<u8>)>::new(), TABLE_BYTES_MAX);
    let trim = |list: &mut Vec<(Vec<u8>, Vec<u8>)>, max: usize| {
        while list.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() > max {
            list.remove(0);
        }
    };
    for step in 0..20_000u32 {
        match below(20) {
            0 => {
                bytes_max = below(TABLE_BYTES_MAX + 1);
                table.resize(bytes_max);
                trim(&mut list, bytes_max);
            }
            1 => {
                bytes_max = TABLE_BYTES_MAX;
                table.resize(bytes_max);
            }
            _ => {
                let name = vec![step as u8; below(30)];
                let value = vec![(step >> 8) as u8; below(if step % 7 == 0 { 5000 } else { 200 })];
                table.insert(DecodedLine::of(&name, &value));
                list.push((name, value));
                trim(&mut list, bytes_max);
            }
        }
        for index in 0..=list.len() {
            let newest = list.len().checked_sub(index + 1).map(|at| &list[at]);
            let expected = newest.map(|(name, value)| DecodedLine::of(name, value));
            assert_eq!(table.line(index), expected, "step {step}, index {index}");
        }
    }
}

//! A connection allocates nothing once it is warm: requests, responses, bodies, trailers, resets
//! and pings use memory that the connection already has.
//!
//! The allocator counts the allocations of the whole process, so this file has a single test.

mod support;

use std::alloc::System;

use forebay_http2::frame::PREFACE;
use forebay_http2::limits::ConnectionLimits;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use support::Responder;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = payload.len();
    out.extend([(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags]);
    out.extend([24, 16, 8, 0].map(|shift| (stream >> shift) as u8));
    out.extend_from_slice(payload);
}

/// Writes the frames of one round: ten requests, one of them with a body and trailers, one in two
/// frames, one that the client resets, with fields that change the decoder's table.
fn round(out: &mut Vec<u8>, number: u32) {
    out.clear();
    let mut stream = number * 20 + 1;
    for request in 0..10 {
        let mut block =
            *b"\x83\x86\x44\x03/1t\x41\x09a.example\x40\x03x-a\x0200\x50\x83\x9b\xd9\xab";
        block[5] = b'0' + (request % 10) as u8;
        block[24] = b'0' + (number % 10) as u8;
        block[25] = b'0' + (request % 10) as u8;
        match request {
            3 => {
                frame(out, 1, 4, stream, &block);
                frame(out, 0, 0, stream, &[b'u'; 1000]);
                frame(out, 1, 5, stream, b"\x00\x01x\x01y");
            }
            5 => {
                frame(out, 1, 1, stream, &block[..10]);
                frame(out, 9, 4, stream, &block[10..]);
            }
            7 => {
                frame(out, 1, 4, stream, &block);
                frame(out, 3, 0, stream, b"\0\0\0\x08");
            }
            _ => frame(out, 1, 5, stream, &block),
        }
        stream += 2;
    }
    frame(out, 6, 0, 0, b"pingpong");
    frame(out, 8, 0, 0, &[0, 1, 0, 0]);
}

#[test]
fn a_warm_connection_allocates_nothing() {
    let mut responder = Responder::new(ConnectionLimits::default());
    let mut input = PREFACE.to_vec();
    frame(&mut input, 4, 0, 0, b"");
    frame(&mut input, 4, 1, 0, b"");
    responder.feed(&input, 0).expect("valid input");
    let mut before = HEAP.stats();
    for number in 0..3_000 {
        if number == 500 {
            before = HEAP.stats();
        }
        round(&mut input, number);
        // Time refunds the resets, the pings and the CONTINUATION frames.
        let consumed = responder.feed(&input, u64::from(number) * 2_000).expect("valid input");
        assert_eq!(consumed, input.len());
        responder.pump().expect("valid input");
        responder.out.clear();
    }
    let change = HEAP.stats() - before;
    assert_eq!((change.allocations, change.reallocations), (0, 0));
    assert_eq!(responder.completed, 3_000 * 9);
    assert_eq!(responder.connection.streams_in_use(), 0);
}

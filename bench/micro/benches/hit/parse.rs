//! The steps from the request head to its fields, and then to target and framing, which httparse
//! leaves to its caller.

use std::hint::black_box;
use std::mem::MaybeUninit;

use criterion::{BenchmarkId, Criterion, Throughput};
use forebay_http::framing::request_framing;
use forebay_http::request::{HeadLimits, RequestParts, parse_request};
use forebay_http::target::request_target;

use crate::requests::HEADS;

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 32 * 1024, field_count_max: 100, target_bytes_max: 8 * 1024 };

/// Measures the parsing of a head, and all decisions before the key.
pub(crate) fn benches(criterion: &mut Criterion) {
    for (name, head) in HEADS {
        let mut group = criterion.benchmark_group(format!("parse/{name}"));
        group.throughput(Throughput::Bytes(head.len() as u64));
        let mut parts = RequestParts::default();
        group.bench_with_input(BenchmarkId::from_parameter("forebay"), head, |bencher, head| {
            bencher.iter(|| scan(black_box(head), &mut parts));
        });
        group.bench_with_input(BenchmarkId::from_parameter("httparse"), head, |bencher, head| {
            bencher.iter(|| scan_httparse(black_box(head)));
        });
        group.bench_with_input(BenchmarkId::from_parameter("decided"), head, |bencher, head| {
            bencher.iter(|| decide(black_box(head), &mut parts));
        });
        group.finish();
    }
}

fn scan(bytes: &[u8], parts: &mut RequestParts) -> usize {
    let length = parse_request(bytes, &LIMITS, parts).expect("the head is valid");
    black_box(parts.head(bytes));
    length.expect("the head is whole")
}

fn scan_httparse(bytes: &[u8]) -> usize {
    let mut fields = [const { MaybeUninit::uninit() }; 100];
    let mut request = httparse::Request::new(&mut []);
    let status = request.parse_with_uninit_headers(bytes, &mut fields);
    black_box(&request);
    status.expect("the head is valid").unwrap()
}

fn decide(bytes: &[u8], parts: &mut RequestParts) -> usize {
    let length = scan(bytes, parts);
    let head = parts.head(bytes);
    black_box(request_target(head).expect("the target is valid"));
    black_box(request_framing(head).expect("the framing is valid"));
    length
}
